"""The loop: ask the model, run the tools it calls, until it answers. It knows nothing of memory.

One async generator of events; the last one is ``LoopEnded``. Nothing is raised but cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from agent.dispatch import Dispatcher, result_of
from agent.errors import ArgumentError, ProviderError
from agent.events import Event, Nudged, RoundEnded, RoundStarted, TextDelta, ThinkingDelta, ToolEnded, ToolStarted
from agent.items import Citation
from agent.providers.collecting import Collector, Response, new_call_id, streaming
from agent.providers.protocol import Delta, KeptAs, Provider, Request, TextPiece, ThinkingPiece
from agent.results import Ending, StopReason, ToolRun, Usage
from agent.tools.protocol import ToolContext
from memory import Message, ToolCallBlock, ToolResultBlock

_REFUSALS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)
NUDGE = "Your last reply was empty. Please answer."


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """How long the loop goes on.

    *rounds* is how often the model is asked in a row of tool calls; with *last_round_answers* the last round
    forbids tools, so that it ends in an answer. An empty reply is asked again *nudges* times.
    """

    rounds: int = 10
    last_round_answers: bool = False
    nudges: int = 1
    nudge: str = NUDGE

    def __post_init__(self) -> None:
        if type(self.rounds) is not int or self.rounds < 1:
            raise ArgumentError("max_rounds", self.rounds, "at least 1 is needed")
        if type(self.nudges) is not int or self.nudges < 0:
            raise ArgumentError("nudges", self.nudges, "0 or more is needed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the loop ended: *messages* are what it added, *text* the answer or what there was of it, *problem* and
    *cause* why there is none, *kept* what history is to keep of the answer."""

    ending: Ending
    text: str = ""
    messages: tuple[Message, ...] = ()
    steps: int = 0
    tool_runs: tuple[ToolRun, ...] = ()
    usage: Usage = field(default_factory=Usage)
    citations: tuple[Citation, ...] = ()
    kept: KeptAs | None = None
    problem: str = ""
    cause: Exception | None = None


@dataclass(frozen=True, slots=True)
class LoopEnded(Event):
    """The loop's last event."""

    outcome: Outcome


class Loop:
    """Answers requests with *provider*, whose tool calls *dispatcher* runs. One loop serves any number of runs."""

    def __init__(
        self,
        provider: Provider,
        dispatcher: Dispatcher,
        *,
        limits: LoopLimits = LoopLimits(),
        ids: Callable[[], str] = new_call_id,
    ) -> None:
        self._provider = provider
        self._dispatcher = dispatcher
        self._limits = limits
        self._ids = ids

    async def run(
        self, request: Request, context: ToolContext, timer: Callable[[], float]
    ) -> AsyncGenerator[Event, None]:
        """Answer *request*; *timer* gives the seconds since the run began, *context* names it and its deadline."""
        run = _Run(self._provider, self._dispatcher, self._limits, self._ids, request, context, timer)
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event
        yield LoopEnded(run.outcome(), **run.stamp())


class _Ended(Exception):
    """Not an error: it carries an ending up to where it is told."""

    def __init__(self, ending: Ending, problem: str = "", cause: Exception | None = None) -> None:
        self.ending = ending
        self.problem = problem
        self.cause = cause
        super().__init__(problem)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        provider: Provider,
        dispatcher: Dispatcher,
        limits: LoopLimits,
        ids: Callable[[], str],
        request: Request,
        context: ToolContext,
        timer: Callable[[], float],
    ) -> None:
        self._provider, self._dispatcher, self._limits, self._ids = provider, dispatcher, limits, ids
        self._request, self._context, self._timer = request, context, timer
        self._nudges = 0
        self._added: list[Message] = []
        self._tool_runs: list[ToolRun] = []
        self._usage = Usage()
        self._steps = 0
        self._text = ""
        self._answer: Response | None = None
        self._end = _Ended(Ending.FINAL)

    def stamp(self) -> dict[str, Any]:
        """Return what every event carries."""
        return {"agent": self._context.agent, "step": self._steps, "elapsed": self._timer()}

    def outcome(self) -> Outcome:
        """Return how it ended."""
        answer = self._answer
        return Outcome(
            ending=self._end.ending,
            text=self._text,
            messages=tuple(self._added),
            steps=self._steps,
            tool_runs=tuple(self._tool_runs),
            usage=self._usage,
            citations=answer.citations if answer else (),
            kept=answer.kept if answer else None,
            problem=self._end.problem,
            cause=self._end.cause,
        )

    async def events(self) -> AsyncGenerator[Event, None]:
        """Go on until there is an ending."""
        try:
            rounds = 0
            while True:
                rounds += 1
                is_last = rounds >= self._limits.rounds
                bare = is_last and self._limits.last_round_answers
                collector = Collector(self._ids)
                async with aclosing(self._asked(collector, bare)) as asked:
                    async for event in asked:
                        yield event
                response = collector.response()
                calls = response.message.tool_calls
                # Cut at the token limit, what was called before it still counts; a cut call is told to be one.
                if calls and not bare and response.stop not in _REFUSALS:
                    if is_last:
                        self._end_at_cap(response, calls)
                    async with aclosing(self._called(response, calls)) as called:
                        async for event in called:
                            yield event
                elif self._is_empty(response):
                    self._nudge(response, bare)
                    rounds -= 1
                    yield Nudged(**self.stamp())
                else:
                    self._end_with(response, bare)
        except _Ended as end:
            self._end = end

    async def _asked(self, collector: Collector, bare: bool) -> AsyncGenerator[Event, None]:
        """Ask the model once, its reply into *collector*."""
        request = replace(self._request, messages=(*self._request.messages, *self._added))
        if self._nudges:
            request = replace(request, messages=(*request.messages, Message.user(self._limits.nudge)))
        if bare and request.tools:
            request = replace(request, tool_choice="none")
        self._steps += 1
        yield RoundStarted(**self.stamp())
        try:
            async with streaming(self._provider, request) as deltas:
                while (delta := await self._next(deltas)) is not None:
                    collector.add(delta)
                    if isinstance(delta, TextPiece):
                        yield TextDelta(delta.text, **self.stamp())
                    elif isinstance(delta, ThinkingPiece) and delta.text:
                        yield ThinkingDelta(delta.text, **self.stamp())
            if collector.stop is None:
                raise _Ended(Ending.PROVIDER_ERROR, "the reply broke off", ProviderError("the reply broke off"))
        finally:
            response = collector.response()
            self._usage += response.usage
            self._text = response.text if response.text.strip() else self._text
        yield RoundEnded(response.usage, **self.stamp())

    async def _next(self, deltas: AsyncIterator[Delta]) -> Delta | None:
        try:
            if self._context.deadline is None:
                return await anext(deltas, None)
            async with asyncio.timeout_at(self._context.deadline) as scope:
                return await anext(deltas, None)
        except TimeoutError as error:
            if self._context.deadline is not None and scope.expired():
                raise _Ended(Ending.DEADLINE, "the deadline passed while the model was answering") from None
            raise _Ended(Ending.PROVIDER_ERROR, f"the model's endpoint failed: {error}", error) from error
        except Exception as error:  # a provider may be a stranger's; whatever it raises ends the run, told
            raise _Ended(Ending.PROVIDER_ERROR, f"the model's endpoint failed: {error}", error) from error

    async def _called(self, response: Response, calls: tuple[ToolCallBlock, ...]) -> AsyncGenerator[Event, None]:
        """Run the tools and put calls and answers into the conversation, together."""
        for call in calls:
            yield ToolStarted(call, **self.stamp())
        context = replace(self._context, step=self._steps)
        try:
            async with asyncio.timeout_at(context.deadline) as scope:
                dispatched = await self._dispatcher.run(calls, context)
        except TimeoutError:
            if not scope.expired():
                raise
            raise _Ended(Ending.DEADLINE, "the deadline passed while tools were running") from None
        self._tool_runs.extend(dispatched.runs)
        self._added += [response.message, Message.tool([run.result for run in dispatched.runs])]
        self._nudges = 0
        for run in dispatched.runs:
            yield ToolEnded(run, **self.stamp())
        if dispatched.stop is not None:
            raise _Ended(Ending.STOPPED, f"a tool ended the run: {dispatched.stop}", dispatched.stop)

    def _is_empty(self, response: Response) -> bool:
        return response.stop in (StopReason.STOP, StopReason.TOOL_CALLS) and not response.text.strip()

    def _nudge(self, response: Response, bare: bool) -> None:
        if bare and response.message.tool_calls:
            raise _Ended(Ending.ITERATION_CAP, "the model called tools in the last round, which forbids them")
        if self._nudges >= self._limits.nudges:
            raise _Ended(Ending.EMPTY_REPLY, f"the model said nothing, asked {self._nudges + 1} times")
        self._nudges += 1

    def _end_at_cap(self, response: Response, calls: tuple[ToolCallBlock, ...]) -> None:
        """End with the calls answered, so that the conversation stays whole; running them would serve nobody."""
        note = f"not run: the limit of {self._limits.rounds} rounds was reached"
        results: list[ToolResultBlock] = [result_of(call, note, is_error=True) for call in calls]
        self._added += [response.message, Message.tool(results)]
        problem = f"no answer within {self._limits.rounds} rounds; raise max_rounds, or set last_round_answers"
        raise _Ended(Ending.ITERATION_CAP, problem)

    def _end_with(self, response: Response, bare: bool) -> None:
        blocks = tuple(block for block in response.message.blocks if not isinstance(block, ToolCallBlock))
        self._answer = response
        self._text = response.text
        self._added.append(response.message.model_copy(update={"blocks": blocks}))
        endings = {
            StopReason.MAX_TOKENS: Ending.TOKEN_LIMIT,
            StopReason.REFUSAL: Ending.REFUSAL,
            StopReason.CONTENT_FILTER: Ending.CONTENT_FILTER,
        }
        raise _Ended(endings.get(response.stop, Ending.LAST_ROUND if bare else Ending.FINAL))
