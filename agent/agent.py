"""The agent: the loop with memory around it.

    agent = Agent(QuotingProvider(), memory=open_memory("m.db"))
    print(agent.run_sync("I moved to Lisbon in May.").text)
    print(agent.run_sync("Where do I live?").text)

Before the loop it gathers what memory has about the prompt; after it, it stores the turn. The loop itself is
``loop``, what is read ``recalling``, what is shown ``context``, what is kept ``storing``.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Literal

from agent.context import Assembled, Ingredients, assemble
from agent.dispatch import Dispatcher
from agent.errors import AgentClosed, ArgumentError, error_of
from agent.events import Event, MemoryRecalled, MemoryStored, RunEnded
from agent.items import ContextItem, citations_in
from agent.loop import NUDGE, Loop, LoopEnded, LoopLimits, Outcome
from agent.providers.protocol import Provider, Request
from agent.providers.settings import ModelSettings
from agent.recalling import Gathered, Knowledge, MemoryReader
from agent.results import Ending, RunResult
from agent.storing import KeptTurn, TurnStore, kept_messages
from agent.tools.protocol import Tool, ToolContext
from agent.tools.toolset import Toolset
from agent.turn import Turn, checked_deadline, prompt_message
from memory import (
    Block,
    Clock,
    EstimatingCounter,
    HistoryStorage,
    LongTermMemory,
    ReadPolicy,
    Report,
    TokenCounter,
    run_sync,
    system_clock,
)


def new_session() -> str:
    """Return an id for a new session."""
    return str(uuid.uuid4())


class Agent:
    """Answers prompts with *provider* and *tools*, grounded on *memory* and *knowledge*. Any number of runs at once.

    *memory* is read before and written after each turn, in *namespace*; without one, *history* alone keeps the
    conversation. The memory's own documents are recalled with it; *knowledge* adds those of another place.
    *token_budget* bounds what is sent, as *counter* counts it (None: no bound); *window* chooses from
    history first. *trace* keeps tool calls and results in history, not only prompt and answer. When memory cannot
    be read, ``on_memory_error="degrade"`` goes on without and warns, "raise" ends the run. *deadline* and
    *tool_timeout* are seconds of a whole run and of one tool call.

    Closing the agent closes its provider, but with ``close_provider=False``; memory stays open.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "",
        system: str = "",
        tools: Iterable[Tool] = (),
        memory: LongTermMemory | None = None,
        history: HistoryStorage | None = None,
        knowledge: Knowledge | None = None,
        namespace: str = "",
        recall: int = 10,
        token_budget: int | None = 16_000,
        counter: TokenCounter | None = None,
        window: ReadPolicy | None = None,
        settings: ModelSettings | None = None,
        max_rounds: int = 10,
        last_round_answers: bool = False,
        nudges: int = 1,
        nudge: str = NUDGE,
        parallel_tools: int = 8,
        tool_timeout: float | None = None,
        deadline: float | None = None,
        trace: bool = True,
        on_memory_error: Literal["degrade", "raise"] = "degrade",
        close_provider: bool = True,
        clock: Clock = system_clock,
        timer: Callable[[], float] = time.monotonic,
        sessions: Callable[[], str] = new_session,
    ) -> None:
        if not isinstance(provider, Provider):
            raise ArgumentError("provider", provider, "a provider is needed; QuotingProvider() needs no model")
        if memory is not None and history is not None:
            raise ArgumentError("history", history, "memory keeps the history itself; give one of the two")
        if token_budget is not None and (type(token_budget) is not int or token_budget < 1):
            raise ArgumentError("token_budget", token_budget, "at least 1 token is needed, or None")
        if type(recall) is not int or recall < 0:
            raise ArgumentError("recall", recall, "0 or more is needed")
        if on_memory_error not in ("degrade", "raise"):
            raise ArgumentError("on_memory_error", on_memory_error, 'one of "degrade", "raise" is needed')
        self._provider, self._name, self._system = provider, name, system
        self._tools = Toolset(tools)
        self._grounded = memory is not None or knowledge is not None
        self._reader = MemoryReader(memory, history, knowledge, clock, namespace=namespace, k=recall)
        self._turns = TurnStore(memory, history, namespace=namespace)
        self._budget, self._counter, self._window = token_budget, counter or EstimatingCounter(), window
        self._settings = settings or ModelSettings()
        dispatcher = Dispatcher(self._tools, parallel=parallel_tools, timeout=tool_timeout)
        limits = LoopLimits(max_rounds, last_round_answers, nudges, nudge)
        self._loop = Loop(provider, dispatcher, limits=limits)
        self._deadline = checked_deadline(deadline)
        self._trace, self._raises = trace, on_memory_error == "raise"
        self._closes_provider = close_provider
        self._clock, self._timer, self._sessions = clock, timer, sessions
        self._closed = False

    @property
    def unsaved(self) -> int:
        """How many turns wait to be written, because writing failed."""
        return len(self._turns.unsaved)

    async def run(
        self,
        prompt: str | Sequence[Block],
        *,
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
    ) -> RunResult:
        """Answer *prompt* and return the result; an ending without an answer raises it in a ``RunError``.

        *session* names the conversation to go on with (None: a new one). *store* off: nothing is kept.
        """
        async with aclosing(self.stream(prompt, session=session, store=store, deadline=deadline)) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    if event.error is not None:
                        raise event.error
                    return event.result
        raise AssertionError("a stream ends in RunEnded")

    def run_sync(
        self,
        prompt: str | Sequence[Block],
        *,
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
    ) -> RunResult:
        """As ``run``, for plain scripts."""
        return run_sync(self.run(prompt, session=session, store=store, deadline=deadline))

    def stream(
        self,
        prompt: str | Sequence[Block],
        *,
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Answer *prompt* event by event; the last one is ``RunEnded``, whatever happens.

        A bad argument raises at once; cancellation passes through, and nothing of the turn is kept then.
        """
        if self._closed:
            raise AgentClosed
        message = prompt_message(prompt, self._clock)
        if session is not None and (not isinstance(session, str) or not session.strip()):
            raise ArgumentError("session", session, "the id of a session is needed, or None for a new one")
        limit = checked_deadline(deadline) or self._deadline
        run = Turn(message, session or self._sessions(), store and self._turns.keeps, limit, self._timer)
        return self._run(run)

    async def aclose(self) -> None:
        """Write what still waits, and close the provider. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._turns.flush()
        finally:
            close = getattr(self._provider, "aclose", None)
            if self._closes_provider and close is not None:
                await close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(self, turn: Turn) -> AsyncGenerator[Event, None]:
        turn.begin()
        outcome: Outcome | None = None
        read = Gathered()
        assembled = Assembled("", (turn.prompt,))
        try:
            async with asyncio.timeout_at(turn.ends) as scope:
                read = await self._reader.gather(turn.prompt.text, turn.session)
        except TimeoutError:
            if not scope.expired():
                raise
            outcome = Outcome(Ending.DEADLINE, problem="the deadline passed while memory was being read")
        for failure in () if self._raises else read.problems:
            text = f"memory could not be read, so this was answered without: {failure}"
            yield turn.warned(self._name, text)
        if read.problems and self._raises:
            problem = f"memory could not be read: {read.problems[0]}"
            outcome = Outcome(Ending.MEMORY_ERROR, problem=problem, cause=read.problems[0])
        if outcome is None:
            assembled = self._assembled(turn, read)
            if assembled.over_budget:
                yield turn.warned(self._name, "the prompt alone is over the token budget; nothing was added to it")
            if self._grounded:
                yield MemoryRecalled(assembled.items, assembled.left_out, read.notes, **turn.stamp(self._name))
            request = self._request(turn, read, assembled)
            context = ToolContext(session=turn.session, agent=self._name, deadline=turn.ends)
            async with aclosing(self._loop.run(request, context, turn.timer)) as events:
                async for event in events:
                    if isinstance(event, LoopEnded):
                        outcome = event.outcome
                    else:
                        yield event
        assert outcome is not None
        reports: tuple[Report, ...] = ()
        if turn.stores and outcome.ending.is_stored:
            reports, unsaved = await self._stored(turn, outcome, assembled.items)
            if unsaved:
                yield turn.warned(self._name, unsaved)
            else:
                yield MemoryStored(reports, **turn.stamp(self._name))
        result = self._result(turn, outcome, read, assembled, reports)
        yield RunEnded(result, error_of(result, outcome.problem, outcome.cause), **turn.stamp(self._name))

    def _assembled(self, turn: Turn, read: Gathered) -> Assembled:
        given = Ingredients(
            prompt=turn.prompt,
            system=self._system,
            tools=self._tools.specs,
            session=turn.session,
            history=read.history,
            sequences=read.sequences,
            pinned=read.pinned,
            recalled=read.recalled,
            rules=self._grounded,
            doubtful=read.abstain is not None,
        )
        return assemble(given, budget=self._budget, counter=self._counter, window=self._window)

    def _request(self, turn: Turn, read: Gathered, assembled: Assembled) -> Request:
        return Request(
            messages=assembled.messages,
            system=assembled.system,
            tools=self._tools.specs,
            settings=self._settings,
            question=turn.prompt.text,
            context=assembled.items,
            abstain=read.abstain,
            remembers=turn.stores,
        )

    async def _stored(
        self, turn: Turn, outcome: Outcome, items: Sequence[ContextItem]
    ) -> tuple[tuple[Report, ...], str]:
        """Keep the turn; what fails is said, and the turn waits for the next one."""
        messages = kept_messages(
            (turn.prompt, *outcome.messages),
            trace=self._trace,
            at=self._clock(),
            kept=outcome.kept,
            citations=outcome.citations,
        )
        used = tuple(dict.fromkeys(item.id for item in items))
        try:
            return await self._turns.store(KeptTurn(turn.session, messages, used)), ""
        except Exception as error:  # a full disk, a busy file: the answer is the user's all the same
            return (), f"this turn is not stored yet: {error}"

    def _result(
        self, turn: Turn, outcome: Outcome, read: Gathered, assembled: Assembled, reports: tuple[Report, ...]
    ) -> RunResult:
        return RunResult(
            ending=outcome.ending,
            text=outcome.text,
            session=turn.session,
            messages=(turn.prompt, *outcome.messages),
            steps=outcome.steps,
            tool_runs=outcome.tool_runs,
            usage=outcome.usage,
            memories=assembled.items,
            citations=outcome.citations or citations_in(outcome.text, assembled.items),
            left_out=assembled.left_out,
            stored=reports,
            abstain=read.abstain,
            warnings=tuple(turn.warnings),
            notes=read.notes,
            elapsed=turn.timer(),
        )
