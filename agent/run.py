"""One run of an agent: gather the context, let the loop answer, store the turn. An async generator of events.

Memory is read in ``context.memory_reader``, the context is assembled in ``context.assembly``, and the turn
is stored by ``turn_store``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from agent.context.assembly import DEFAULT_PROFILE_TOKENS, AssembledContext, ContextSources, assemble_context
from agent.context.history_reader import NO_SEQUENCE
from agent.context.memory_reader import GatheredContext, MemoryReader
from agent.context_items import ContextItem, citations_in
from agent.errors import RunError, error_for_result
from agent.events import Event, MemoryRecalled, MemoryStored, RunEnded, WarningIssued
from agent.hooks import HookDispatcher, Hooks
from agent.loop import Loop, LoopEnded, LoopOutcome
from agent.providers.base import ModelSettings, Request
from agent.results import Ending, RunResult
from agent.structured_output import ExpectedOutput
from agent.tool_executor import ToolExecutor, ToolPolicy
from agent.tools.base import RunScope, ToolContext, Toolset, annotations_of
from agent.trust import TrustTracker, message_trust, parse_trust
from agent.turn_store import PendingTurn, TurnStore, messages_to_store
from agent.usage import Prices, RunLimits, UsageLedger
from memory import ArgumentError, Message, Report, TokenCounter, Trust, WindowPolicy
from memory.internals import Clock


class RunState:
    """One turn on its way: what is asked, where it belongs, how long it may take."""

    def __init__(
        self, prompt: Message, session: str, stores: bool, deadline: float | None, timer: Callable[[], float]
    ) -> None:
        self.prompt, self.session, self.stores = prompt, session, stores
        self.warnings: list[str] = []
        self.ends: float | None = None
        self._deadline, self._clock, self._began = deadline, timer, 0.0

    def begin(self, latest: float | None = None) -> None:
        """Start counting: a stream may be made long before it is read. It ends no later than *latest*, in the event
        loop's time."""
        self._began = self._clock()
        self.ends = latest
        if self._deadline is not None:
            own = asyncio.get_running_loop().time() + self._deadline
            self.ends = own if latest is None else min(own, latest)

    def timer(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._began

    def stamp(self, agent: str) -> dict[str, Any]:
        """Return what every event carries."""
        return {"agent": agent, "elapsed": self.timer()}

    def warned(self, agent: str, text: str) -> WarningIssued:
        """Note a warning for the result, and return its event."""
        self.warnings.append(text)
        return WarningIssued(text, **self.stamp(agent))


_OVERFLOW_DIVISOR = 2
"""A request that is too long for the model is made again with this part of its tokens."""


@dataclass(frozen=True, slots=True)
class AgentComponents:
    """What the runs of one agent have in common."""

    name: str
    system: str
    tools: Toolset
    loop: Loop
    dispatcher: ToolExecutor
    policy: ToolPolicy
    reader: MemoryReader
    turns: TurnStore
    grounded: bool
    settings: ModelSettings
    counter: TokenCounter
    clock: Clock
    budget: int | None = None
    profile: int = DEFAULT_PROFILE_TOKENS
    window: WindowPolicy | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    prices: Prices | None = None
    hooks: tuple[Hooks, ...] = ()
    trace: bool = True
    raises: bool = False
    fingerprint: str = ""
    seed: str = ""


class AgentRun:
    """One run: *turn* is what it is about, *within* the call of a tool that it serves, *streams* whether somebody
    reads its events and may answer, *lineage* this agent and those above."""

    def __init__(
        self,
        parts: AgentComponents,
        turn: RunState,
        *,
        expected: ExpectedOutput | None = None,
        within: ToolContext | None = None,
        streams: bool = False,
        lineage: tuple[object, ...] = (),
    ) -> None:
        self._parts, self._turn, self._expected = parts, turn, expected
        self._within, self._streams, self._lineage = within, streams, lineage
        self._watch = HookDispatcher(parts.hooks, agent=parts.name, session=turn.session, timer=turn.timer)
        above = within.scope.ledger if within is not None else None
        self._ledger = UsageLedger(parts.limits, prices=parts.prices, parent=above)
        self._reading = TrustTracker() if within is None else TrustTracker(within.trust, above=within.scope.reading)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield what happens; the last event is ``RunEnded``."""
        parts, turn = self._parts, self._turn
        turn.begin(self._within.deadline if self._within is not None else None)
        await self._watch.tell("run_started", turn.prompt)
        read, outcome = await self._gathered()
        for unread in () if parts.raises else read.problems:
            yield self._warned(f"memory could not be read, so this was answered without: {unread}")
        assembled = AssembledContext("", (turn.prompt,))
        if outcome is None:
            assembled = self._assembled(read, parts.budget)
            self._reading.read(*(parse_trust(item.trust) for item in assembled.items))
            self._reading.read(*(message_trust(message) for message in assembled.messages))
            if NO_SEQUENCE in read.said.sequences:  # a summary tells of messages that nobody looks at again
                self._reading.read(Trust.DOCUMENT)
            await self._watch.tell("context_built", assembled)
            if assembled.over_budget:
                yield self._warned("the prompt alone is over the token budget; nothing was added to it")
            if parts.grounded:
                yield MemoryRecalled(
                    assembled.items,
                    (*assembled.left_out, *assembled.shortened),
                    assembled.dropped,
                    _context_notes(read, assembled),
                    **turn.stamp(parts.name),
                )
            async with aclosing(self._answered(read, assembled)) as events:
                async for event in events:
                    if isinstance(event, LoopEnded):
                        outcome = event.outcome
                    else:
                        yield event
        assert outcome is not None
        reports: tuple[Report, ...] = ()
        if turn.stores and outcome.ending.is_stored:
            reports, unsaved = await self._stored(outcome, assembled.items)
            if unsaved is None:
                yield MemoryStored(reports, **turn.stamp(parts.name))
            else:
                waits = "cannot be stored" if isinstance(unsaved, ArgumentError) else "is not stored yet"
                yield self._warned(f"this turn {waits}: {unsaved}")
                if parts.raises and outcome.ending.is_answer:  # another error says more than this one
                    problem = f"the answer was given, but the turn {waits}: {unsaved}"
                    outcome = replace(outcome, ending=Ending.MEMORY_ERROR, problem=problem, cause=unsaved)
        result = self._result(outcome, read, assembled, reports)
        error = error_for_result(result, outcome.problem, outcome.cause)
        await self._told(result, error)
        yield RunEnded(result, error, **turn.stamp(parts.name))

    async def _gathered(self) -> tuple[GatheredContext, LoopOutcome | None]:
        """Read memory within the run's time; return an outcome where that already ends it."""
        read = GatheredContext()
        try:
            async with asyncio.timeout_at(self._turn.ends) as scope:
                read = await self._parts.reader.gather(self._turn.prompt.text, self._turn.session, self._ledger)
        except TimeoutError:
            if not scope.expired():
                raise
            return read, LoopOutcome(Ending.DEADLINE, problem="the deadline passed while memory was being read")
        await self._watch.tell("memory_loaded", read.said.messages)
        await self._watch.tell("memory_retrieved", (*read.pinned, *read.recalled))
        if read.problems and self._parts.raises:
            problem = f"memory could not be read: {read.problems[0]}"
            return read, LoopOutcome(Ending.MEMORY_ERROR, problem=problem, cause=read.problems[0])
        return read, None

    def _answered(self, read: GatheredContext, assembled: AssembledContext) -> AsyncGenerator[Event, None]:
        parts, turn = self._parts, self._turn
        above = self._within.scope if self._within is not None else RunScope()
        scope = RunScope(
            ledger=self._ledger,
            watch=self._watch,
            approver=parts.policy.approver or above.approver,
            streams=self._streams or above.streams,
            lineage=(*above.lineage, *self._lineage),
            timer=turn.timer,
            reading=self._reading,
            mark=assembled.mark if parts.grounded else "",
        )
        context = ToolContext(session=turn.session, agent=parts.name, deadline=turn.ends, scope=scope)

        def shorter() -> Request | None:
            less = self._assembled(read, self._used(assembled) // _OVERFLOW_DIVISOR)
            return None if less.messages == assembled.messages else self._request(read, less)

        request = self._request(read, assembled)
        return parts.loop.run(request, context, turn.timer, shorter=shorter, expected=self._expected)

    def _used(self, assembled: AssembledContext) -> int:
        counter = self._parts.counter
        words = [assembled.system, *(message.model_dump_json() for message in assembled.messages)]
        return sum(counter.count(one) for one in words)

    def _assembled(self, read: GatheredContext, budget: int | None) -> AssembledContext:
        parts, turn = self._parts, self._turn
        given = ContextSources(
            prompt=turn.prompt,
            system=parts.system,
            tools=parts.tools.specs,
            session=turn.session,
            history=read.said.messages,
            sequences=read.said.sequences,
            dropped=read.said.dropped,
            pinned=read.pinned,
            recalled=read.recalled,
            left_out=read.left_out,
            rules=parts.grounded,
            doubtful=read.abstain is not None,
            other=read.abstain == "other",
            seed=parts.seed,
        )
        return assemble_context(given, budget=budget, profile=parts.profile, counter=parts.counter, window=parts.window)

    def _request(self, read: GatheredContext, assembled: AssembledContext) -> Request:
        return Request(
            messages=assembled.messages,
            system=assembled.system,
            tools=self._parts.tools.specs,
            settings=self._parts.settings,
            question=self._turn.prompt.text,
            context=assembled.items,
            abstain=read.abstain,
            remembers=self._turn.stores,
            searched=read.searched,
            analyzer=self._parts.reader.analyzer,
        )

    async def _stored(
        self, outcome: LoopOutcome, items: Sequence[ContextItem]
    ) -> tuple[tuple[Report, ...], Exception | None]:
        """Keep the turn; what fails is returned, and the turn waits for the next one."""
        messages = messages_to_store(
            (self._turn.prompt, *outcome.messages),
            trace=self._parts.trace,
            at=self._parts.clock(),
            kept=outcome.kept,
            citations=outcome.citations,
            trust=self._reading.least,
            recalling=[tool.spec.name for tool in self._parts.tools if annotations_of(tool).recalls],
        )
        await self._watch.tell("memory_appended", messages)
        used = tuple(dict.fromkeys(item.id for item in items))
        try:
            reports = await self._parts.turns.store(PendingTurn(self._turn.session, messages, used))
        except Exception as error:  # a full disk, a busy file: the answer is the user's all the same
            await self._watch.tell("failed", error)
            return (), error
        await self._watch.tell("memory_stored", reports)
        return reports, None

    async def _told(self, result: RunResult, error: RunError | None) -> None:
        if error is not None:
            await self._watch.tell("failed", error)
        await self._watch.tell("run_ended", result)

    def _warned(self, text: str) -> WarningIssued:
        return self._turn.warned(self._parts.name, text)

    def _result(
        self, outcome: LoopOutcome, read: GatheredContext, assembled: AssembledContext, reports: tuple[Report, ...]
    ) -> RunResult:
        return RunResult(
            ending=outcome.ending,
            text=outcome.text,
            session=self._turn.session,
            messages=(self._turn.prompt, *outcome.messages),
            steps=outcome.steps,
            tool_runs=outcome.tool_runs,
            usage=self._ledger.usage,
            calls=self._ledger.calls,
            cost=self._ledger.cost,
            output=outcome.output,
            memories=assembled.items,
            citations=outcome.citations or citations_in(outcome.text, assembled.items),
            left_out=(*assembled.left_out, *assembled.shortened),
            dropped=assembled.dropped,
            stored=reports,
            abstain=read.abstain,
            warnings=tuple(self._turn.warnings),
            notes=_context_notes(read, assembled),
            elapsed=self._turn.timer(),
            fingerprint=self._parts.fingerprint,
            trust=self._reading.least,
        )


def _context_notes(read: GatheredContext, assembled: AssembledContext) -> tuple[str, ...]:
    notes = tuple(dict.fromkeys((*read.notes, *assembled.notes)))
    reasons = ", ".join(assembled.reasons)
    return (*notes, f"messages of history left out: {reasons}") if reasons else notes
