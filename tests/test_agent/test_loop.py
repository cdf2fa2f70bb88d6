"""The loop: rounds of model and tools, and each of its endings.

Inner parts, on no face: ``tellback.agent.events``, ``tellback.agent.loop``, ``tellback.agent.results``,
``tellback.agent.tool_executor``, ``tellback.agent.tools.base``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tellback.agent import (
    ArgumentError,
    Ending,
    ProviderError,
    Request,
    StopReason,
    StopRun,
    TextDelta,
    ThinkingDelta,
    ToolContext,
    ToolEnded,
    ToolStarted,
    Usage,
    tool,
)
from tellback.agent.events import EmptyReplyRetried, RoundEnded, RoundStarted
from tellback.agent.loop import EMPTY_REPLY_PROMPT, Loop, LoopLimits, LoopOutcome, LoopRun
from tellback.agent.results import ToolCallRecord
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.agent.tool_executor import ToolExecutor
from tellback.agent.tools.base import RunScope, Toolset
from tellback.memory import Message, ThinkingBlock, ToolCallBlock
from tests.support.passing_time import DEADLINE, outlasting

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def leave() -> str:
    """End the run."""
    raise StopRun("enough")


@tool
async def wait() -> str:
    """Wait for ever."""
    await outlasting()
    return "never"


TOOLS = Toolset([add, leave, wait])


def loop_run(provider, *, seconds: float | None = None, tools: Toolset = TOOLS, **limits) -> LoopRun:
    loop = Loop(provider, ToolExecutor(tools), limits=LoopLimits(**limits))
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    request = Request((Message.user("What is 1 + 2?"),), tools=TOOLS.specs)
    context = ToolContext(agent="ada", deadline=deadline, scope=RunScope(timer=lambda: 1.5))
    return LoopRun(loop, request, context)


async def events_of(provider, **options) -> list:
    return [event async for event in loop_run(provider, **options).events()]


async def run(*replies: Reply, **options) -> LoopOutcome:
    with ScriptedProvider(*replies) as provider:
        return await outcome_of(loop_run(provider, **options))


async def outcome_of(started: LoopRun) -> LoopOutcome:
    async for _ in started.events():
        pass
    return started.outcome()


def tool_runs(outcome: LoopOutcome) -> tuple[ToolCallRecord, ...]:
    return tuple(run for step in outcome.steps for run in step.tool_runs)


async def test_a_reply_without_calls_ends_the_loop() -> None:
    outcome = await run(Reply("Three."))
    assert (outcome.ending, outcome.text, len(outcome.steps)) == (Ending.FINAL, "Three.", 1)
    assert outcome.messages == (Message.assistant("Three."),)


async def test_tool_calls_are_executed_and_their_results_sent_to_the_model() -> None:
    asked = call("add", a=1, b=2)
    outcome = await run(Reply("Let me see.", calls=(asked,)), Reply("It is 3.", expect="3"))
    assert [message.role for message in outcome.messages] == ["assistant", "tool", "assistant"]
    assert outcome.messages[1].tool_results[0].call_id == asked.id
    assert outcome.text == "It is 3."
    assert [tool_run.result.text for tool_run in tool_runs(outcome)] == ["3"]


async def test_events_of_two_rounds_and_a_tool_call_come_in_order() -> None:
    with ScriptedProvider(Reply("Hm", calls=(call("add", a=1, b=2),), thinking="t"), Reply("3")) as provider:
        events = await events_of(provider)
    assert [type(event) for event in events] == [
        RoundStarted,
        ThinkingDelta,
        TextDelta,
        RoundEnded,
        ToolStarted,
        ToolEnded,
        RoundStarted,
        TextDelta,
        RoundEnded,
    ]
    assert [event.step for event in events] == [1, 1, 1, 1, 1, 1, 2, 2, 2]
    assert {(event.agent, event.elapsed) for event in events} == {("ada", 1.5)}


async def test_several_calls_are_answered_in_one_message_in_their_order() -> None:
    calls = tuple(call("add", a=number, b=1) for number in range(5))
    outcome = await run(Reply(calls=calls), Reply("done"))
    assert [result.text for result in outcome.messages[1].tool_results] == ["1", "2", "3", "4", "5"]


async def test_usage_is_summed_over_all_rounds() -> None:
    first = Usage(input=10, output=5, cache_read=4, cache_write=3, reasoning=2)
    outcome = await run(Reply(calls=(call("add", a=1, b=2),), usage=first), Reply("3", usage=Usage(1, 1, 1, 1, 1)))
    assert outcome.usage == Usage(11, 6, 5, 4, 3)


async def test_thinking_goes_back_unchanged_while_tools_are_used() -> None:
    with ScriptedProvider(
        Reply(calls=(call("add", a=1, b=2),), thinking="add them", signature="sig"), Reply("3")
    ) as provider:
        await events_of(provider)
    assert provider.requests[1].messages[1].blocks[0] == ThinkingBlock(text="add them", signature="sig")


async def test_the_round_cap_ends_the_loop_with_the_last_text_and_a_result_for_each_call() -> None:
    asked = call("add", a=1, b=2)
    outcome = await run(Reply(calls=(call("add", a=0, b=0),)), Reply("Still at it.", calls=(asked,)), rounds=2)
    assert (outcome.ending, outcome.text) == (Ending.ITERATION_CAP, "Still at it.")
    assert "max_rounds" in outcome.problem
    assert outcome.messages[-1].tool_results[0].call_id == asked.id
    assert "not run" in outcome.messages[-1].tool_results[0].text
    assert len(tool_runs(outcome)) == 1


async def test_last_round_answers_forbids_tools_in_the_last_round() -> None:
    with ScriptedProvider(Reply(calls=(call("add", a=1, b=2),)), Reply("3")) as provider:
        outcome = await outcome_of(loop_run(provider, rounds=2, last_round_answers=True))
    assert [request.tool_choice for request in provider.requests] == ["auto", "none"]
    assert outcome.ending is Ending.LAST_ROUND


async def test_calls_in_a_last_round_without_tools_do_not_run() -> None:
    outcome = await run(Reply("So", calls=(call("leave"),)), rounds=1, last_round_answers=True)
    assert (outcome.ending, outcome.text, tool_runs(outcome)) == (Ending.LAST_ROUND, "So", ())
    assert outcome.messages == (Message.assistant("So"),)
    silent = await run(Reply(calls=(call("leave"),)), rounds=1, last_round_answers=True)
    assert silent.ending is Ending.ITERATION_CAP


async def test_an_empty_reply_is_nudged_and_leaves_no_message() -> None:
    with ScriptedProvider(Reply("  \n"), Reply("3", expect=EMPTY_REPLY_PROMPT)) as provider:
        started = loop_run(provider)
        events = [event async for event in started.events()]
    assert any(isinstance(event, EmptyReplyRetried) for event in events)
    assert started.outcome().messages == (Message.assistant("3"),)
    assert started.outcome().usage == Usage(20, 10)


async def test_empty_replies_beyond_the_nudges_end_the_loop() -> None:
    outcome = await run(Reply(""), Reply(""), Reply(""), nudges=2)
    assert (outcome.ending, outcome.messages) == (Ending.EMPTY_REPLY, ())
    assert "asked 3 times" in outcome.problem


async def test_thinking_alone_is_an_empty_reply() -> None:
    assert (await run(Reply("", thinking="hm"), nudges=0)).ending is Ending.EMPTY_REPLY


async def test_nudges_do_not_use_up_rounds() -> None:
    outcome = await run(Reply(""), Reply(calls=(call("add", a=1, b=2),)), Reply(""), Reply("3"), rounds=2)
    assert outcome.ending is Ending.FINAL


@pytest.mark.parametrize(
    ("stop", "ending"),
    [
        (StopReason.MAX_TOKENS, Ending.TOKEN_LIMIT),
        (StopReason.REFUSAL, Ending.REFUSAL),
        (StopReason.CONTENT_FILTER, Ending.CONTENT_FILTER),
    ],
)
async def test_a_truncated_or_refused_reply_sets_the_ending(stop: StopReason, ending: Ending) -> None:
    outcome = await run(Reply("Well", stop=stop))
    assert (outcome.ending, outcome.text) == (ending, "Well")


async def test_thinking_alone_at_the_token_limit_ends_with_token_limit() -> None:
    assert (await run(Reply("", thinking="long", stop=StopReason.MAX_TOKENS))).ending is Ending.TOKEN_LIMIT


async def test_complete_tool_calls_of_a_reply_cut_at_the_token_limit_are_executed() -> None:
    cut = ToolCallBlock(id="cut", name="add", invalid='{"a": 1')
    calls = (call("add", a=1, b=2), cut)
    outcome = await run(Reply(calls=calls, stop=StopReason.MAX_TOKENS), Reply("3", expect="not a JSON object"))
    assert [tool_run.result.is_error for tool_run in tool_runs(outcome)] == [False, True]


async def test_calls_of_a_refused_reply_do_not_run() -> None:
    outcome = await run(Reply("No.", calls=(call("leave"),), stop=StopReason.REFUSAL))
    assert (outcome.ending, tool_runs(outcome)) == (Ending.REFUSAL, ())
    assert outcome.messages == (Message.assistant("No."),)


@pytest.mark.parametrize("error", [ProviderError("overloaded"), KeyError("a stranger's bug"), TimeoutError("idle")])
async def test_a_failing_provider_ends_the_loop_with_the_partial_text(error: Exception) -> None:
    outcome = await run(Reply("Half", error=error))
    assert (outcome.ending, outcome.text, outcome.cause) == (Ending.PROVIDER_ERROR, "Half", error)
    assert outcome.messages == ()
    assert outcome.usage == Usage(10, 5)


async def test_a_provider_stream_without_a_stop_is_a_provider_error() -> None:
    class Silent:
        async def stream(self, request):
            return
            yield

    assert (await outcome_of(loop_run(Silent()))).ending is Ending.PROVIDER_ERROR


async def test_a_tool_raising_stop_run_ends_the_loop_and_keeps_the_results_of_its_siblings() -> None:
    outcome = await run(Reply("Bye", calls=(call("add", a=1, b=2), call("leave"))))
    assert (outcome.ending, outcome.text) == (Ending.STOPPED, "Bye")
    assert [tool_run.result.text for tool_run in tool_runs(outcome)] == ["3", "the run was ended"]
    assert isinstance(outcome.cause, StopRun)


async def test_the_deadline_reaches_the_model() -> None:
    outcome = await run(Reply("never", before=outlasting), seconds=DEADLINE)
    assert outcome.ending is Ending.DEADLINE
    assert "model" in outcome.problem


async def test_the_deadline_reaches_the_tools() -> None:
    before = asyncio.all_tasks()
    outcome = await run(Reply("So", calls=(call("wait"),)), seconds=DEADLINE)
    assert (outcome.ending, outcome.text, outcome.messages) == (Ending.DEADLINE, "So", ())
    assert asyncio.all_tasks() == before


async def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    assert (await run(Reply(calls=(call("add", a=1, b=2),)), Reply("3"), seconds=DEADLINE)).ending is Ending.FINAL


class Watched(ScriptedProvider):
    """Counts streams that are open."""

    open = 0

    async def stream(self, request):
        self.open += 1
        try:
            async with aclosing(super().stream(request)) as deltas:
                async for delta in deltas:
                    await asyncio.sleep(0)
                    yield delta
        finally:
            self.open -= 1


async def test_a_loop_closed_at_any_event_leaves_no_stream_or_task_open() -> None:
    replies = (Reply("Hm", calls=(call("add", a=1, b=2),), thinking="t", piece=1), Reply("3", piece=1))
    total = len(await events_of(Watched(*replies)))
    before = asyncio.all_tasks()
    for place in range(total):
        provider = Watched(*replies)
        loop = Loop(provider, ToolExecutor(TOOLS))
        async with aclosing(LoopRun(loop, Request((Message.user("?"),)), ToolContext()).events()) as events:
            for _ in range(place + 1):
                await anext(events)
        assert provider.open == 0, place
        assert asyncio.all_tasks() == before, place


async def test_a_loop_cancelled_at_any_tick_leaves_no_stream_or_task_open() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add without a thread, so that the turns of the loop can be counted."""
        await asyncio.sleep(0)
        return a + b

    before = asyncio.all_tasks()
    for ticks in range(60):
        provider = Watched(Reply("Hm", calls=(call("add", a=1, b=2),), piece=1), Reply("3" * 8, piece=1))
        task = asyncio.create_task(events_of(provider, tools=Toolset([add])))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled = True
        else:
            cancelled = False
        assert provider.open == 0, ticks
        assert asyncio.all_tasks() == before, ticks
        if not cancelled:
            break
    else:
        raise AssertionError("the run never came to its end")


@pytest.mark.parametrize("limits", [{"rounds": 0}, {"rounds": True}, {"nudges": -1}])
async def test_invalid_limits_are_refused(limits: dict) -> None:
    with pytest.raises(ArgumentError):
        LoopLimits(**limits)
