"""The loop: ask the model, run the tools it calls, until it answers. It knows nothing of memory.

One async generator of events, and an outcome. Nothing is raised but cancellation. The calls of tools are
``tool_executor``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from tellback.agent.context_items import AnswerCitation
from tellback.agent.errors import (
    ContextOverflow,
    ProviderError,
    RequestRefused,
    StopRun,
    UnreadableToolCall,
    check_count,
)
from tellback.agent.events import (
    EmptyReplyRetried,
    Event,
    RoundEnded,
    RoundStarted,
    TextDelta,
    TextWithdrawn,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    Waiting,
    WarningIssued,
)
from tellback.agent.middleware.base import ModelMiddleware, wrap_model_handler
from tellback.agent.providers.accumulator import Response, ResponseAccumulator, limited_stream, new_call_id
from tellback.agent.providers.base import (
    Delta,
    Provider,
    Request,
    StoredReply,
    TextPiece,
    TextWasThinking,
    ThinkingPiece,
    WaitPiece,
    WarningPiece,
)
from tellback.agent.providers.call_log import ModelCallLog
from tellback.agent.results import Ending, ErrorRecord, RunStep, StopReason, ToolCallRecord, Usage
from tellback.agent.structured_output import ExpectedOutput
from tellback.agent.tool_executor import ToolExecutor, tool_result_block
from tellback.agent.tools.base import ToolContext
from tellback.agent.turn_store import without_tool_calls
from tellback.memory import Message, TextBlock, ThinkingBlock, ToolCallBlock

T = TypeVar("T")

_CUT_REASONS = (StopReason.MAX_TOKENS, StopReason.TOO_LONG)
_ENDING_REASONS = (StopReason.TOO_LONG, StopReason.REFUSAL, StopReason.CONTENT_FILTER)
_REFUSAL_REASONS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)
_ENDINGS_BY_STOP_REASON = {
    StopReason.MAX_TOKENS: Ending.TOKEN_LIMIT,
    StopReason.TOO_LONG: Ending.TOO_LONG,
    StopReason.REFUSAL: Ending.REFUSAL,
    StopReason.CONTENT_FILTER: Ending.CONTENT_FILTER,
}
EMPTY_REPLY_PROMPT = "Your last reply was empty. Please answer."


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Limits of the loop.

    *rounds* is how often the model is asked in a row of tool calls; with *last_round_answers* the last round
    forbids tools, so that it ends in an answer. An empty reply is asked again *nudges* times, with *nudge*.
    """

    rounds: int = 10
    last_round_answers: bool = False
    nudges: int = 1
    nudge: str = EMPTY_REPLY_PROMPT

    def __post_init__(self) -> None:
        check_count("max_rounds", self.rounds)
        check_count("nudges", self.nudges, 0)


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """Outcome of the loop: *messages* are those it added, *text* the answer or the part of it that arrived, *steps* the
    calls of the model with their tool calls.

    *output* is the answer as the wanted type, *problem* and *cause* the reason why there is none, *kept* the answer's
    replacement in history, *model* what answered last.
    """

    ending: Ending
    text: str = ""
    messages: tuple[Message, ...] = ()
    steps: tuple[RunStep, ...] = ()
    usage: Usage = field(default_factory=Usage)
    citations: tuple[AnswerCitation, ...] = ()
    kept: StoredReply | None = None
    output: Any = None
    problem: str = ""
    cause: Exception | None = None
    model: str = ""


class LoopExit(Exception):
    """Not an error: it carries an ending up to the loop that reports it."""

    def __init__(self, ending: Ending, problem: str = "", cause: Exception | None = None) -> None:
        self.ending, self.problem, self.cause = ending, problem, cause
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Loop:
    """Answers requests with *provider*, whose tool calls *executor* runs; *middleware* is around each call of a model.

    One loop serves any number of runs. *log_contents*: the log of model calls has requests and replies.
    """

    provider: Provider
    executor: ToolExecutor
    limits: LoopLimits = LoopLimits()
    middleware: Sequence[ModelMiddleware] = ()
    ids: Callable[[], str] = new_call_id
    log_contents: bool = False


@dataclass(slots=True)
class LoopRun:
    """Run of *loop* that answers *request*: its ``events``, and its ``outcome`` so far.

    *context* names it, its deadline and its timer. *shorten* is called once for a request that needs less room, if the
    model's window is too small for this one; *expected* is the wanted type of answer.

    *reply* is that of the last round, once it is complete, *answer* the reply that ended the run. *paused* is the reply
    that the server wants back before it continues it. *transient* messages (nudges and repairs) are shown to the model
    until it has done better, and are not kept.
    """

    loop: Loop
    request: Request
    context: ToolContext
    shorten: Callable[[], Request | None] | None = None
    expected: ExpectedOutput | None = None
    nudges: int = 0
    repairs: int = 0
    added: list[Message] = field(default_factory=list)
    transient: list[Message] = field(default_factory=list)
    steps: list[RunStep] = field(default_factory=list)
    text: str = ""
    model: str = ""
    reply: Response | None = None
    answer: Response | None = None
    paused: Message | None = None
    output: Any = None
    end: LoopExit = field(default_factory=lambda: LoopExit(Ending.FINAL))

    def outcome(self) -> LoopOutcome:
        """Return the outcome; before the events have ended, the outcome so far."""
        answer = self.answer
        return LoopOutcome(
            ending=self.end.ending,
            text=self.text,
            messages=tuple(self.added),
            steps=tuple(self.steps),
            usage=self.context.scope.ledger.usage,
            citations=answer.citations if answer else (),
            kept=answer.kept if answer else None,
            output=self.output,
            problem=self.end.problem,
            cause=self.end.cause,
            model=self.model,
        )

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events until the loop has ended."""
        try:
            async with aclosing(self._rounds()) as events:
                async for event in events:
                    yield event
        except LoopExit as end:
            self.end = end
            if isinstance(end.cause, RequestRefused):  # middleware refused in words of its own
                self.text = end.problem
                self.added.append(Message.assistant(self.text))

    async def _rounds(self) -> AsyncGenerator[Event, None]:
        """Yield the events of each round until ``LoopExit`` is raised; only rounds that call tools are counted."""
        rounds = 1
        while True:
            if passed := self.context.scope.ledger.passed():
                raise LoopExit(Ending.LIMIT, passed)
            is_last = rounds >= self.loop.limits.rounds
            without_tools = is_last and self.loop.limits.last_round_answers
            async with aclosing(self._call_model(without_tools)) as events:
                async for event in events:
                    yield event
            response = self.reply
            if response is None:
                continue  # with a changed request
            calls = response.message.tool_calls
            if response.stop == StopReason.PAUSED and not calls:
                if is_last:
                    problem = f"the model paused, and had not ended its turn after {rounds} rounds; raise max_rounds"
                    self.added.append(response.message)
                    raise LoopExit(Ending.ITERATION_CAP, problem)
                self.paused = response.message
                rounds += 1
                continue
            is_answer = self.expected is not None and any(map(self.expected.is_answer_call, calls))
            if is_answer or (not calls and self.expected and not _is_empty(response)):
                self._check_output(response, without_tools)
            # Cut at the token limit, calls before the cut still count; a cut call is reported as such.
            elif calls and not without_tools and response.stop not in _ENDING_REASONS:
                if is_last:
                    self._end_at_cap(response, calls)
                async with aclosing(self._call_tools(response, calls)) as events:
                    async for event in events:
                        yield event
                rounds += 1
            elif _is_empty(response):
                self._nudge(response, without_tools)
                yield EmptyReplyRetried(**self.context.stamp())
            else:
                self._end_with(response, without_tools)

    async def _call_model(self, without_tools: bool) -> AsyncGenerator[Event, None]:
        """Ask the model once; ``reply`` is its reply, or None where a changed request is to be sent."""
        self.reply = None
        context = self.context = replace(self.context, step=self.context.step + 1)
        request = replace(self.request, messages=self._messages())
        await self._dispatch("iteration", request)
        if without_tools and request.tools:
            request = replace(request, tool_choice="none")
        if self.expected is not None:
            request = self.expected.prepare(request, last=without_tools)
        context.scope.ledger.call()
        yield RoundStarted(**self.context.stamp())
        await self._dispatch("model_called", request)
        accumulator = ResponseAccumulator(self.loop.ids, timer=context.scope.timer)
        began = context.scope.timer()
        problem: BaseException | None = None
        stream = wrap_model_handler(self.loop.middleware, context, self.loop.provider.stream)
        deltas: AsyncIterator[Delta] | None = None
        changed: Event | None = None
        try:
            deltas = limited_stream(stream(request), request.settings.max_characters)
            step: Callable[[], Awaitable[Delta]] = deltas.__anext__
            if context.deadline is not None:
                step = partial(self._before_deadline, step, "the model was answering")
            while True:
                try:
                    delta = await step()
                except StopAsyncIteration:
                    break
                except ContextOverflow as error:
                    if accumulator.response().message.blocks:
                        text = f"the model's window is full: {error}"
                        raise LoopExit(Ending.CONTEXT_OVERFLOW, text, error) from error
                    problem, changed = error, self._shorten_request(error)
                    break
                except UnreadableToolCall as error:
                    problem, changed = error, self._show_fault(error)
                    break
                except ProviderError as error:
                    problem, changed = error, self._ask_in_another_form(error)
                    if changed is None:
                        raise _exit_for_error(error) from error
                    break
                except Exception as error:  # a provider may be a stranger's; any error ends the run
                    raise _exit_for_error(error) from error
                accumulator.add(delta)
                if isinstance(delta, TextPiece):
                    yield TextDelta(delta.text, **self.context.stamp())
                elif isinstance(delta, ThinkingPiece) and delta.text:
                    yield ThinkingDelta(delta.text, **self.context.stamp())
                elif isinstance(delta, TextWasThinking):
                    yield TextWithdrawn(**self.context.stamp())
                elif isinstance(delta, WarningPiece):
                    yield WarningIssued(delta.text, **self.context.stamp())
                elif isinstance(delta, WaitPiece):
                    yield Waiting(delta.seconds, delta.problem, delta.named, delta.limit, **self.context.stamp())
            if accumulator.stop is None and changed is None:
                raise LoopExit(Ending.PROVIDER_ERROR, "the reply broke off", ProviderError("the reply broke off"))
        except BaseException as error:  # cancellation and a reader that left, too: the step records the ending
            problem = _failure_of_call(error)
            raise
        finally:
            response = accumulator.response()
            if self.paused is not None:
                response = _continued(self.paused, response)
            self.text = response.text if response.text.strip() else self.text
            self.model = response.model or self.model
            context.scope.ledger.spend(response.usage)
            self._add_step(request, response, began, problem)
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()
            if isinstance(problem, Exception):
                await self._dispatch("model_failed", problem, duration=response.elapsed)
        if changed is not None:
            yield changed
            return
        for block in response.message.blocks:
            if isinstance(block, ThinkingBlock):
                await self._dispatch("thinking", block)
        await self._dispatch("model_answered", response, duration=response.elapsed)
        self.reply, self.paused = response, None
        yield RoundEnded(response.usage, response.elapsed, response.first_token, response.stop, **self.context.stamp())

    def _messages(self) -> tuple[Message, ...]:
        """Return the messages of the next request."""
        paused = () if self.paused is None else (self.paused,)
        return (*self.request.messages, *self.added, *self.transient, *paused)

    def _add_step(self, request: Request, response: Response, began: float, problem: BaseException | None) -> None:
        """Add the step of one call of the model, and log it."""
        context = self.context
        step = RunStep(
            number=context.step,
            model=response.model or str(getattr(self.loop.provider, "model", "") or ""),
            began=began,
            elapsed=response.elapsed,
            first_token=response.first_token,
            usage=response.usage,
            stop=None if problem is not None else response.stop,
            error=None if problem is None else ErrorRecord.of(problem),
        )
        self.steps.append(step)
        log = ModelCallLog(step.model, context.agent, context.session, contents=self.loop.log_contents)
        log.write(request, response, step=step.number, error=step.error)

    async def _call_tools(self, response: Response, calls: tuple[ToolCallBlock, ...]) -> AsyncGenerator[Event, None]:
        """Run the tools and put calls and results into the conversation, together."""
        for call in calls:
            await self._dispatch("tool_called", call)
            yield ToolStarted(call, **self.context.stamp())
        emitted: asyncio.Queue[Event | None] = asyncio.Queue()
        scope = replace(self.context.scope, emit=emitted.put_nowait)
        ended: dict[str, ToolCallRecord] = {}
        execution = self.loop.executor.run(
            calls, replace(self.context, scope=scope), on_ended=lambda run: ended.update({run.call.id: run})
        )
        task = asyncio.create_task(execution)
        task.add_done_callback(lambda _: emitted.put_nowait(None))
        try:
            while (event := await self._before_deadline(emitted.get, "tools were running")) is not None:
                yield event
            batch = task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])
            # Also after the deadline: the step shows which tools had ended, and which were cancelled.
            runs = tuple(ended[call.id] for call in calls if call.id in ended)
            self.steps[-1] = replace(self.steps[-1], tool_runs=runs)
        self.added += [response.message, Message.tool([run.result for run in batch.runs])]
        self.nudges, self.transient = 0, []
        for run in batch.runs:
            await self._dispatch("tool_ended", run, duration=run.elapsed)
            yield ToolEnded(run, **self.context.stamp())
        if batch.stop is not None:
            raise LoopExit(Ending.STOPPED, f"a tool ended the run: {batch.stop}", batch.stop)
        if batch.answers and self.expected is None:
            self.text = "\n\n".join(run.result.text for run in batch.runs)
            self.added.append(Message.assistant(self.text))
            raise LoopExit(Ending.FINAL)

    async def _dispatch(self, name: str, value: object, *, duration: float | None = None) -> None:
        await self.context.scope.hooks.dispatch(name, value, step=self.context.step, duration=duration)

    async def _before_deadline(self, step: Callable[[], Awaitable[T]], activity: str) -> T:
        """Return what *step* does; a deadline that passes during this *activity* ends the run."""
        try:
            async with asyncio.timeout_at(self.context.deadline) as timeout:
                return await step()
        except TimeoutError:
            if not timeout.expired():
                raise
            raise LoopExit(Ending.DEADLINE, f"the deadline passed while {activity}") from None

    def _shorten_request(self, error: ContextOverflow) -> Event:
        """Go on with a shorter request, once."""
        shorter = self.shorten() if self.shorten is not None else None
        self.shorten = None
        if shorter is None:
            problem = f"the request is longer than the model's window: {error}"
            raise LoopExit(Ending.CONTEXT_OVERFLOW, problem, error)
        self.request = shorter
        return WarningIssued(
            "the request was longer than the model's window; it was made shorter", **self.context.stamp()
        )

    def _ask_in_another_form(self, error: ProviderError) -> Event | None:
        """Go on with the next form of asking for the wanted type, where *error* refuses this one."""
        refused = self.expected
        self.expected = refused and refused.after_refusal(error)
        if refused is None or self.expected is None:
            self.expected = refused
            return None
        text = f"the wanted type was refused as a {refused.mode}, and is asked for as a {self.expected.mode}: {error}"
        return WarningIssued(text, **self.context.stamp())

    def _show_fault(self, error: UnreadableToolCall) -> Event:
        """Show the model the tool call that could not be read, and ask again as often as after an empty reply."""
        if self.nudges >= self.loop.limits.nudges:
            raise _exit_for_error(error) from error
        self.nudges += 1
        written = [Message.assistant(error.generation)] if error.generation.strip() else []
        self.transient = [*self.transient, *written, Message.user(f"Your tool call could not be read: {error}")]
        text = f"the model was shown that its tool call could not be read: {error}"
        return WarningIssued(text, **self.context.stamp())

    def _nudge(self, response: Response, without_tools: bool) -> None:
        if without_tools and response.message.tool_calls:
            raise LoopExit(Ending.ITERATION_CAP, "the model called tools in the last round, which forbids them")
        if self.nudges >= self.loop.limits.nudges:
            raise LoopExit(Ending.EMPTY_REPLY, f"the model said nothing, asked {self.nudges + 1} times")
        self.nudges += 1
        self.transient = [*self.transient, Message.user(self.loop.limits.nudge)]

    def _check_output(self, response: Response, without_tools: bool) -> None:
        """End with the wanted answer, or show the model its faults and go on."""
        expected, calls = self.expected, response.message.tool_calls
        assert expected is not None
        if response.stop in _REFUSAL_REASONS:
            self._end_with(response, without_tools)
        output: Any = None
        if len(calls) > 1:
            fault = "not run: the final answer is given alone, when everything else is done"
        elif calls and calls[0].invalid is not None:
            fault = "the arguments are not a JSON object"
        else:
            output, fault = expected.validate(calls[0].arguments) if calls else expected.parse(response.text)
            if fault and response.stop in _CUT_REASONS:
                fault = f"it was cut at the limit of one reply; {fault}"
        if not fault:
            self.output = output
            text = response.text if not calls else expected.text_of(output)
            thoughts = tuple(block for block in response.message.blocks if block.type == "thinking")
            message = response.message.model_copy(update={"blocks": (*thoughts, TextBlock(text=text))})
            self._end_with(replace(response, message=message, stop=StopReason.STOP), without_tools)
            return
        if self.repairs >= expected.repairs or response.stop in _CUT_REASONS:
            if not calls:
                self.added.append(response.message)
            raise LoopExit(Ending.INVALID_OUTPUT, f"no answer of the type that was wanted: {fault}")
        self.repairs += 1
        complaint = _tool_errors(calls, fault) if calls else Message.user(fault)
        self.transient = [*self.transient, response.message, complaint]

    def _end_at_cap(self, response: Response, calls: tuple[ToolCallBlock, ...]) -> None:
        """End with the calls answered, so that the conversation stays whole; running them would serve nobody."""
        note = f"not run: the limit of {self.loop.limits.rounds} rounds was reached"
        self.added += [response.message, _tool_errors(calls, note)]
        problem = f"no answer within {self.loop.limits.rounds} rounds; raise max_rounds, or set last_round_answers"
        raise LoopExit(Ending.ITERATION_CAP, problem)

    def _end_with(self, response: Response, without_tools: bool) -> None:
        self.answer, self.text = response, response.text
        self.added.append(without_tool_calls(response.message))
        usual = Ending.LAST_ROUND if without_tools else Ending.FINAL
        raise LoopExit(_ENDINGS_BY_STOP_REASON.get(response.stop, usual))


def _tool_errors(calls: Sequence[ToolCallBlock], text: str) -> Message:
    return Message.tool([tool_result_block(call, text, is_error=True) for call in calls])


def _continued(paused: Message, response: Response) -> Response:
    """Return *response* with the part of the reply that came before the server paused."""
    message = response.message.model_copy(update={"blocks": (*paused.blocks, *response.message.blocks)})
    return replace(response, message=message)


def _is_empty(response: Response) -> bool:
    return response.stop in (StopReason.STOP, StopReason.TOOL_CALLS) and not response.text.strip()


def _failure_of_call(error: BaseException) -> BaseException:
    """Return the exception behind the end of a model's call."""
    if isinstance(error, LoopExit):
        return error.cause or TimeoutError(error.problem)
    return error


def _exit_for_error(error: Exception) -> LoopExit:
    if isinstance(error, LoopExit):
        return error
    if isinstance(error, RequestRefused):
        return LoopExit(Ending.REFUSAL, str(error), error)
    if isinstance(error, StopRun):
        return LoopExit(Ending.STOPPED, f"middleware ended the run: {error}", error)
    return LoopExit(Ending.PROVIDER_ERROR, f"the model's endpoint failed: {error}", error)
