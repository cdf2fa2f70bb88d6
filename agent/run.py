"""Run of an agent: gather the context, let the loop answer, store the turn. An async generator of events.

Memory is read in ``context.memory_reader``, the context is assembled in ``context.assembly``, and the turn
is stored by ``turn_store``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from tellback.agent.configuration import AgentComponents
from tellback.agent.context.assembly import AssembledContext, ContextSources, assemble_context
from tellback.agent.context.citation_check import check_citations
from tellback.agent.context.memory_reader import NO_SEQUENCE, GatheredContext, ReadRecorder
from tellback.agent.context.model_question import counting
from tellback.agent.context_items import ContextItem, Grounding, citations_in
from tellback.agent.errors import ArgumentError, RequestRefused, RunError, error_for_result
from tellback.agent.events import (
    Event,
    HookDispatcher,
    MemoryDegraded,
    MemoryRecalled,
    MemoryStored,
    RunEnded,
    TextDelta,
    TextWithdrawn,
    WarningIssued,
)
from tellback.agent.loop import LoopOutcome, LoopRun
from tellback.agent.providers.base import Request
from tellback.agent.results import Ending, ErrorRecord, MemoryAccess, RunResult
from tellback.agent.structured_output import ExpectedOutput
from tellback.agent.tools.base import RunScope, ToolContext, annotations_of
from tellback.agent.trust import TrustTracker, message_trust, parse_trust, with_trust
from tellback.agent.turn_store import PendingTurn, messages_to_store
from tellback.agent.usage import UsageLedger
from tellback.memory import ArgumentError as MemoryArgumentError
from tellback.memory import Message, Report, TextBlock, Trust
from tellback.vectorstore import StoreClosed

_log = logging.getLogger(__name__)
_OVERFLOW_DIVISOR = 2
"""A request that is too long for the model is made again with its tokens divided by this."""
_CUT_WARNINGS = {
    Ending.TOKEN_LIMIT: "the answer is cut off: the model reached its limit of output tokens",
    Ending.TOO_LONG: "the answer is cut off: the model had written {:,} characters, the most that one reply may have",
}


class AgentRun:
    """Run of the agent with *components*: it answers *prompt* in *session* within *deadline* seconds, and keeps the
    turn if it *stores*.

    *agent* identifies the agent in the lineage of its sub-agents. *within* is the tool call that the run serves.
    *streams*: a reader of its events may answer requests for approval.
    """

    def __init__(
        self,
        components: AgentComponents,
        prompt: Message,
        agent: object,
        *,
        session: str,
        stores: bool,
        deadline: float | None = None,
        expected: ExpectedOutput | None = None,
        within: ToolContext | None = None,
        streams: bool = False,
    ) -> None:
        settings = components.settings
        self._components, self._settings, self._prompt, self._agent = components, settings, prompt, agent
        self._session, self._stores, self._deadline = session, stores, deadline
        self._expected, self._streams = expected, streams
        self._within = within if within is not None else ToolContext(trust=Trust.USER)
        self._raises = settings.on_memory_error == "raise"
        self._warnings: list[str] = []
        self._shown: list[ContextItem] = []
        self._began, self._ends = 0.0, self._within.deadline
        self._hooks = HookDispatcher(components.hooks, agent=settings.name, session=session, timer=self._timer)
        parent = self._within.scope
        self._ledger = UsageLedger(settings.limits, prices=settings.prices, parent=parent.ledger)
        self._trust = TrustTracker(self._within.trust, parent=parent.trust)
        # State of the run so far; a run that is left in the middle makes its result from it.
        self._gathered = GatheredContext()
        self._assembled = AssembledContext("", (prompt,))
        self._loop_run: LoopRun | None = None
        self._accesses: list[MemoryAccess] = []
        self._reports: tuple[Report, ...] = ()
        self._has_ended = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run; the last one is ``RunEnded``. The time of the run begins here: a stream may be
        made long before it is read.

        The hook ``run_ended`` is called once in any case: where the run is cancelled, its reader leaves, or a part of
        the program around it raises, with the result as far as it came.
        """
        self._began = self._settings.timer()
        if self._deadline is not None:
            end = asyncio.get_running_loop().time() + self._deadline
            self._ends = end if self._ends is None else min(end, self._ends)
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        except BaseException as error:
            await self._abandon(error)
            raise

    async def _events(self) -> AsyncGenerator[Event, None]:
        components = self._components
        _log.info("run of session %s started", self._session)
        await self._hooks.dispatch("run_started", self._prompt)
        outcome = await self._gather()
        gathered = self._gathered
        self._assembled = replace(self._assembled, notes=gathered.notes)
        for access in gathered.accesses:
            if access.problem:
                yield await self._degraded(access)
        for error in () if self._raises else gathered.errors:
            yield self._warn(f"memory could not be read, so this was answered without: {error}")
        if outcome is None:
            began = self._timer()
            assembled = self._assembled = self._assemble(gathered, self._settings.token_budget)
            self._trust.record(*(parse_trust(item.trust) for item in assembled.items))
            self._shown += assembled.items
            self._trust.record(*(message_trust(message) for message in assembled.messages))
            if NO_SEQUENCE in gathered.history.sequences:  # a summary: the trust of its messages is not known
                self._trust.record(Trust.DOCUMENT)
            await self._hooks.dispatch("context_built", assembled, duration=self._timer() - began)
            if assembled.over_budget:
                yield self._warn("the prompt alone is over the token budget; nothing was added to it")
            if components.grounded:
                left_out = (*assembled.left_out, *assembled.shortened)
                yield MemoryRecalled(
                    assembled.items,
                    left_out,
                    assembled.dropped,
                    assembled.notes,
                    gathered.searched,
                    gathered.accesses,
                    _duration(gathered.accesses),
                    **self._stamp(),
                )
            self._loop_run = self._answer(gathered, assembled)
            async with aclosing(self._loop_run.events()) as events:
                async for event in events:
                    if isinstance(event, WarningIssued):
                        if event.text in self._warnings:  # of an earlier round
                            continue
                        self._warnings.append(event.text)
                    yield event
            outcome = self._loop_run.outcome()
            if outcome.ending.is_answer and components.run_middleware:
                reviewed = await self._review(outcome)
                if reviewed.text != outcome.text:
                    yield TextWithdrawn(**self._stamp())
                    yield TextDelta(reviewed.text, **self._stamp())
                outcome = reviewed
        if self._shown and not outcome.citations:
            for problem in check_citations(outcome.text, self._shown):
                yield self._warn(f"a citation that cannot be confirmed: {problem}")
        if outcome.ending in _CUT_WARNINGS:
            yield self._warn(_CUT_WARNINGS[outcome.ending].format(self._settings.model_settings.max_characters))
        if self._stores and outcome.ending.is_stored:
            access, storage_error = await self._store(outcome, self._assembled.items)
            if storage_error is None:
                yield MemoryStored(self._reports, access.elapsed, **self._stamp())
                if text := self._redaction_warning(self._reports):
                    yield self._warn(text)
            else:
                yield await self._degraded(access)
                fate = "cannot be stored" if isinstance(storage_error, MemoryArgumentError) else "is not stored yet"
                yield self._warn(f"this turn {fate}: {storage_error}")
                if self._raises and outcome.ending.is_answer:  # the error of another ending matters more
                    problem = f"the answer was given, but the turn {fate}: {storage_error}"
                    outcome = replace(outcome, ending=Ending.MEMORY_ERROR, problem=problem, cause=storage_error)
        result, run_error = await self._end(outcome)
        yield RunEnded(result, run_error, **self._stamp())

    async def _end(self, outcome: LoopOutcome) -> tuple[RunResult[Any], RunError | None]:
        """Return the result of *outcome* and the error that it is raised as, once the hooks have seen them."""
        result = self._result(outcome)
        run_error = error_for_result(result, outcome.problem, outcome.cause)
        if run_error is not None:
            await self._hooks.dispatch("failed", run_error)
        await self._announce_end(result)
        return result, run_error

    async def _abandon(self, error: BaseException) -> None:
        """Tell the hooks that the run ended by *error*: a cancellation, a reader that left, or an exception of a part
        of the program, which is raised as it is."""
        if self._has_ended:
            return
        is_failure = isinstance(error, Exception)
        ending = Ending.ERROR if is_failure else Ending.CANCELLED
        outcome = LoopOutcome(ending) if self._loop_run is None else self._loop_run.outcome()
        result = replace(self._result(replace(outcome, ending=ending)), error=ErrorRecord.of(error))
        try:
            if is_failure:
                await self._hooks.dispatch("failed", error)
        finally:
            await self._announce_end(result)

    async def _announce_end(self, result: RunResult[Any]) -> None:
        self._has_ended = True  # before the hooks: a cancellation among them ends the run no second time
        _log.info("run of session %s ended: %s after %.3f s", result.session, result.ending.value, result.elapsed)
        await self._hooks.dispatch("run_ended", result, duration=result.elapsed)

    async def _degraded(self, access: MemoryAccess) -> MemoryDegraded:
        """Return the event of an access of memory with a problem, once the log and the hooks have it."""
        event = MemoryDegraded(access, **self._stamp())
        await event.announce(self._hooks)
        return event

    def _timer(self) -> float:
        """Return the seconds since the run began."""
        return self._settings.timer() - self._began

    def _stamp(self) -> dict[str, Any]:
        """Return the fields that every event carries."""
        return {"agent": self._settings.name, "elapsed": self._timer()}

    def _warn(self, text: str) -> WarningIssued:
        """Note a warning for the result, and return its event."""
        self._warnings.append(text)
        return WarningIssued(text, **self._stamp())

    def _redaction_warning(self, reports: Sequence[Report]) -> str | None:
        """Return the warning about a prompt that was not kept whole, None for one that was; its report is the first."""
        memory, text = self._components.reader.memory, self._prompt.text
        if memory is None or not reports or memory.redacted(text) == text:
            return None
        report = reports[0]
        if not report.stored:
            return f"your words are not remembered ({report.reason})"
        return f"kept without {report.spans} part{'s' * (report.spans != 1)} of your words ({report.reason})"

    async def _gather(self) -> LoopOutcome | None:
        """Read memory within the run's deadline; return an outcome where the run ends already."""
        reader, recorder = self._components.reader, ReadRecorder(self._timer, self._accesses)
        try:
            async with asyncio.timeout_at(self._ends) as timeout:
                for middleware in self._components.run_middleware:
                    prompt = checked_prompt(await middleware.before(self._prompt, self._tool_context()))
                    self._prompt = with_trust(prompt, message_trust(self._prompt))
                with counting(self._ledger):
                    gathered = await reader.gather(self._prompt.text, self._session, recorder=recorder)
        except RequestRefused as refusal:
            self._stores = False
            return LoopOutcome(Ending.REFUSAL, str(refusal), (Message.assistant(str(refusal)),), cause=refusal)
        except TimeoutError:
            if not timeout.expired():
                raise
            self._gathered = GatheredContext(accesses=tuple(self._accesses))
            return LoopOutcome(Ending.DEADLINE, problem="the deadline passed while memory was being read")
        self._gathered = gathered
        if closed := next((error for error in gathered.errors if isinstance(error, StoreClosed)), None):
            raise ArgumentError("memory", reader.memory or reader.sessions.history, "an open one is needed") from closed
        loaded = [access for access in gathered.accesses if access.part == "history"]
        retrieved = [access for access in gathered.accesses if access.part != "history"]
        await self._hooks.dispatch("memory_loaded", gathered.history.messages, duration=_duration(loaded))
        items = (*gathered.pinned, *gathered.recalled)
        await self._hooks.dispatch("memory_retrieved", items, duration=_duration(retrieved))
        if gathered.errors and self._raises:
            problem = f"memory could not be read: {gathered.errors[0]}"
            return LoopOutcome(Ending.MEMORY_ERROR, problem=problem, cause=gathered.errors[0])
        return None

    async def _review(self, outcome: LoopOutcome) -> LoopOutcome:
        """Return *outcome* as the middleware of the run lets it pass, the innermost first."""
        try:
            async with asyncio.timeout_at(self._ends) as timeout:
                for middleware in reversed(self._components.run_middleware):
                    text = await middleware.after(self._result(outcome), self._tool_context())
                    if text != outcome.text:
                        expected = None if outcome.output is None else self._expected
                        output = outcome.output if expected is None else expected.output_of(text)
                        outcome = replace(_reworded(outcome, text), output=output)
        except RequestRefused as refusal:
            return replace(_reworded(outcome, str(refusal)), ending=Ending.REFUSAL, output=None, cause=refusal)
        except TimeoutError:
            if not timeout.expired():
                raise
            return replace(outcome, ending=Ending.DEADLINE, problem="the deadline passed in middleware of the run")
        return outcome

    def _tool_context(self, mark: str = "") -> ToolContext:
        """Return the context of calls of tools and middleware; *mark* is that of the recalled memories."""
        components, parent = self._components, self._within.scope
        scope = RunScope(
            ledger=self._ledger,
            hooks=self._hooks,
            approver=components.policy.approver or parent.approver,
            streams=self._streams or parent.streams,
            lineage=(*parent.lineage, self._agent),
            timer=self._timer,
            trust=self._trust,
            mark=mark,
            shown=self._shown,
            zone=self._settings.zone,
        )
        return ToolContext(
            session=self._session,
            agent=self._settings.name,
            deadline=self._ends,
            namespace=components.reader.namespace,
            scope=scope,
        )

    def _answer(self, gathered: GatheredContext, assembled: AssembledContext) -> LoopRun:
        components = self._components
        context = self._tool_context(assembled.mark if components.grounded else "")

        def shorten() -> Request | None:
            count = self._components.counter.count
            texts = [assembled.system, *(message.model_dump_json() for message in assembled.messages)]
            shorter = self._assemble(gathered, sum(map(count, texts)) // _OVERFLOW_DIVISOR)
            return None if shorter.messages == assembled.messages else self._request(gathered, shorter)

        request = self._request(gathered, assembled)
        return LoopRun(components.loop, request, context, shorten, self._expected)

    def _assemble(self, gathered: GatheredContext, budget: int | None) -> AssembledContext:
        components, settings = self._components, self._settings
        sources = ContextSources(
            prompt=self._prompt,
            gathered=gathered,
            system=settings.system,
            tools=components.tools.specs,
            session=self._session,
            rules=components.grounded,
            situation=settings.situation() if components.grounded else "",
            seed=components.seed,
        )
        return assemble_context(
            sources, budget=budget, profile=settings.profile_tokens, counter=components.counter, window=settings.window
        )

    def _request(self, gathered: GatheredContext, assembled: AssembledContext) -> Request:
        memory = self._components.reader.memory
        return Request(
            messages=assembled.messages,
            system=assembled.system,
            tools=self._components.tools.specs,
            server_tools=self._components.server_tools,
            settings=self._settings.model_settings,
            grounding=Grounding(
                question=self._prompt.text,
                items=assembled.items,
                abstain=gathered.abstain,
                likely=gathered.likely,
                now=self._settings.clock().astimezone(self._settings.zone),
                remembers=self._stores,
                analyzer=self._components.reader.analyzer,
                redact=None if memory is None else memory.redacted,
                similarities=None if memory is None else memory.similarities,
            ),
        )

    async def _store(self, outcome: LoopOutcome, items: Sequence[ContextItem]) -> tuple[MemoryAccess, Exception | None]:
        """Keep the turn; an error is returned, and the turn waits for the next one."""
        components = self._components
        messages = messages_to_store(
            (self._prompt, *outcome.messages),
            trace=self._settings.trace,
            at=self._settings.clock(),
            kept=outcome.kept,
            citations=outcome.citations or citations_in(outcome.text, self._shown),
            trust=self._trust.least,
            recalling=[tool.spec.name for tool in components.tools if annotations_of(tool).recalls],
        )
        await self._hooks.dispatch("memory_appended", messages)
        used = tuple(dict.fromkeys(item.id for item in items))
        reader = components.reader
        stamped = tuple(map(reader.options.stamped, messages))
        turn = PendingTurn(self._session, stamped, used, reader.namespace)
        began = self._timer()
        try:
            with counting(self._ledger):
                self._reports = await components.turns.store(turn)
        except Exception as error:  # a full disk, a busy file: the answer is the user's all the same
            record = ErrorRecord.of(error)
            access = MemoryAccess("turn", began, self._timer() - began, 0, str(record), record)
            self._accesses.append(access)
            await self._hooks.dispatch("failed", error)
            return access, error
        access = MemoryAccess("turn", began, self._timer() - began, len(self._reports))
        self._accesses.append(access)
        await self._hooks.dispatch("memory_stored", self._reports, duration=access.elapsed)
        return access, None

    def _result(self, outcome: LoopOutcome) -> RunResult[Any]:
        gathered, assembled = self._gathered, self._assembled
        unanswered = outcome.cause if not outcome.ending.is_answer else None
        return RunResult(
            ending=outcome.ending,
            text=outcome.text,
            session=self._session,
            messages=(self._prompt, *outcome.messages),
            steps=outcome.steps,
            tool_runs=tuple(run for step in outcome.steps for run in step.tool_runs),
            memory_accesses=tuple(sorted(self._accesses, key=lambda access: access.began)),
            usage=self._ledger.usage,
            calls=self._ledger.calls,
            cost=self._ledger.cost,
            output=outcome.output,
            memories=tuple(self._shown),
            citations=outcome.citations or citations_in(outcome.text, self._shown),
            left_out=(*assembled.left_out, *assembled.shortened),
            dropped=assembled.dropped,
            stored=self._reports,
            abstain=gathered.abstain,
            warnings=tuple(self._warnings),
            notes=assembled.notes,
            error=None if unanswered is None else ErrorRecord.of(unanswered),
            elapsed=self._timer(),
            fingerprint=self._components.fingerprint,
            tokens_exact=None if self._settings.token_budget is None else self._components.counter.exact,
            trust=self._trust.least,
            model=outcome.model,
        )


def checked_prompt(prompt: object) -> Message:
    """Return *prompt*, a message of the user; one that cannot be answered raises ``ArgumentError``."""
    if not isinstance(prompt, Message) or prompt.role != "user":
        raise ArgumentError("prompt", prompt, "a message of the user is needed")
    try:
        prompt.text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("prompt", prompt, "must not contain lone surrogates") from error
    unanswerable = [block for block in prompt.blocks if block.type not in ("text", "image", "document")]
    if unanswerable:
        raise ArgumentError("prompt", unanswerable[0], "text, image and document blocks are needed")
    return prompt


def _reworded(outcome: LoopOutcome, text: object) -> LoopOutcome:
    """Return *outcome* with *text* as its answer; citations are those of these words."""
    if not isinstance(text, str):
        raise ArgumentError("answer", text, "RunMiddleware.after must return the words of the answer")
    answer = outcome.messages[-1].model_copy(update={"blocks": (TextBlock(text=text),)})
    return replace(outcome, text=text, messages=(*outcome.messages[:-1], answer), citations=(), kept=None)


def _duration(accesses: Sequence[MemoryAccess]) -> float:
    """Return the seconds from the beginning of the first of *accesses* to the end of the last."""
    if not accesses:
        return 0.0
    return max(access.began + access.elapsed for access in accesses) - min(access.began for access in accesses)
