"""Every ending in one table: returned or raised, one terminal event, stored or not; and the usage of a run.

Inner parts, on no face: ``tellback.agent.errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from tellback.agent import (
    Agent,
    AgentSettings,
    AgentTool,
    CircuitBreaker,
    Ending,
    ModelSettings,
    ProviderError,
    RetryingProvider,
    RunEnded,
    RunError,
    RunLimits,
    StopReason,
    StopRun,
    TextDelta,
    ToolEnded,
    ToolPolicy,
    ToolStarted,
    Usage,
    tool,
)
from tellback.agent.errors import ContextOverflow
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import LongTermMemory
from tellback.vectorstore import BusyError
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


class City(BaseModel):
    """A result type."""

    name: str


CALLS = (call("add", a=1, b=2),)


@dataclass(frozen=True)
class Case:
    """A run that comes to an ending."""

    replies: Sequence[Reply]
    settings: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    unreadable: bool = False


CASES = {
    Ending.FINAL: Case([Reply("Three.", calls=CALLS), Reply("Yes.")]),
    Ending.LAST_ROUND: Case([Reply("Hm", calls=CALLS), Reply("Yes.")], {"max_rounds": 2, "last_round_answers": True}),
    Ending.TOKEN_LIMIT: Case([Reply("Half an ans", stop=StopReason.MAX_TOKENS)]),
    Ending.TOO_LONG: Case([Reply("Again. " * 9)], {"model_settings": ModelSettings(max_characters=20)}),
    Ending.REFUSAL: Case([Reply("No.", stop=StopReason.REFUSAL)]),
    Ending.CONTENT_FILTER: Case([Reply("…", stop=StopReason.CONTENT_FILTER)]),
    Ending.ITERATION_CAP: Case([Reply("Hm", calls=CALLS)], {"max_rounds": 1}),
    Ending.EMPTY_REPLY: Case([Reply(""), Reply("")], {"nudges": 1}),
    Ending.PROVIDER_ERROR: Case([Reply("Half", error=ProviderError("overloaded", status=529))]),
    Ending.DEADLINE: Case([Reply("Half", before=outlasting)], {"deadline": DEADLINE}),
    Ending.LIMIT: Case([Reply("Hm", calls=CALLS)], {"limits": RunLimits(calls=1)}),
    Ending.INVALID_OUTPUT: Case([Reply("Lisbon"), Reply("Porto")], {"repairs": 1}, {"result_type": City}),
    Ending.CONTEXT_OVERFLOW: Case([Reply(error=ContextOverflow("too long", status=400))]),
    Ending.STOPPED: Case([Reply("Hm", calls=(call("leave"),))]),
    Ending.MEMORY_ERROR: Case([], {"on_memory_error": "raise"}, unreadable=True),
}


STREAMED = [ending for ending in Ending if ending not in (Ending.CANCELLED, Ending.ERROR)]
"""The endings that a stream ends in; the others are told to hooks alone."""


def test_the_table_has_every_ending() -> None:
    assert set(CASES) == set(STREAMED)


class Unreadable:
    """A memory whose recall fails."""

    def __init__(self, memory: LongTermMemory) -> None:
        self._memory = memory

    async def recall(self, *args: object, **options: object) -> None:
        raise BusyError("the file is busy")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)


def agent_for(ending: Ending, memory: LongTermMemory) -> tuple[Agent, dict[str, Any]]:
    case = CASES[ending]
    given: Any = Unreadable(memory) if case.unreadable else memory
    provider = ScriptedProvider(*case.replies)
    return Agent(
        provider, tools=[add, leave], memory=given, settings=AgentSettings(name="ada", **case.settings)
    ), case.run


@pytest.mark.parametrize("ending", STREAMED)
async def test_each_ending_has_one_terminal_stream_event_and_stores_the_turn_if_is_stored(memory, ending) -> None:
    agent, options = agent_for(ending, memory)
    events = [event async for event in agent.stream("Go on", session="s", **options)]
    assert [isinstance(event, RunEnded) for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].result.ending is ending
    assert (events[-1].error is None) is ending.is_answer
    stored = await memory.conversations.load("s")
    assert bool(stored) is ending.is_stored
    calls = [tool_call.id for message in stored for tool_call in message.message.tool_calls]
    assert calls == [tool_call.call_id for message in stored for tool_call in message.message.tool_results]


@pytest.mark.parametrize("ending", STREAMED)
async def test_run_returns_or_raises_the_same_result(memory, ending) -> None:
    agent, options = agent_for(ending, memory)
    if ending.is_answer:
        result = await agent.run("Go on", **options)
    else:
        with pytest.raises(RunError) as caught:
            await agent.run("Go on", **options)
        result = caught.value.result
    assert (result.ending, result.messages[0].text) == (ending, "Go on")
    items = [reply.text for reply in CASES[ending].replies if reply.text]
    shown = items[-1][: agent.settings.model_settings.max_characters] if items else ""
    assert result.text == shown or ending in (Ending.EMPTY_REPLY, Ending.DEADLINE)


@pytest.mark.parametrize("ending", STREAMED)
async def test_events_carry_the_agent_name_the_step_and_a_monotonic_elapsed_time(memory, ending) -> None:
    agent, options = agent_for(ending, memory)
    events = [event async for event in agent.stream("Go on", **options)]
    assert {event.agent for event in events} == {"ada"}
    assert all(before.elapsed <= after.elapsed for before, after in pairwise(events))
    steps = [event.step for event in events if isinstance(event, (TextDelta, ToolStarted, ToolEnded))]
    assert steps == sorted(steps)
    assert all(step >= 1 for step in steps)


async def test_the_tokens_of_nudges_repairs_retries_and_sub_agents_are_counted_once_each() -> None:
    usage = Usage(input=10, output=1, cache_read=4, cache_write=2, reasoning=1)

    def reply(text: str = "", **more: Any) -> Reply:
        return Reply(text, usage=usage, **more)

    inner = Agent(ScriptedProvider(reply(), reply("Four.")), settings=AgentSettings(name="helper", nudges=1))
    failing = reply(error=ProviderError("overloaded", status=529))
    outer = ScriptedProvider(
        failing,
        reply(calls=(call("ask_helper", task="2+2"),)),
        reply(),
        reply("no object"),
        reply('{"name": "Lisbon"}'),
    )

    async def no_wait(seconds: float) -> None:
        return None

    provider = RetryingProvider(outer, attempts=2, sleep=no_wait)
    agent = Agent(provider, tools=[AgentTool(inner, description="Ask.")], settings=AgentSettings(nudges=1, repairs=1))
    result = await agent.run("Which city?", result_type=City)
    assert result.output == City(name="Lisbon")
    calls = 2 + len(outer.requests)
    assert result.usage.output == calls * usage.output
    assert result.usage == Usage(10 * calls, calls, 4 * calls, 2 * calls, calls)
    assert result.usage.cached_share == 0.4


async def test_a_circuit_stays_open_from_one_run_to_the_next() -> None:
    entered: list[int] = []

    @tool
    def fails() -> str:
        """Fail."""
        entered.append(1)
        raise OSError("down")

    policy = ToolPolicy(breaker=CircuitBreaker(1, reset_timeout=600))
    replies = [Reply(calls=(call("fails"),)), Reply("Hm.")] * 2
    with ScriptedProvider(*replies) as provider:
        agent = Agent(provider, tools=[fails], policy=policy)
        first, second = await agent.run("Go"), await agent.run("Go")
    assert "OSError" in first.tool_runs[0].result.text
    assert "rests" in second.tool_runs[0].result.text
    assert len(entered) == 1


@pytest.mark.parametrize("words", ["Error: all is well", "the tool failed: no, it did not", "ERROR"])
async def test_a_tool_result_worded_like_an_error_is_not_flagged_as_error(words: str) -> None:
    @tool
    def says() -> str:
        """Say it."""
        return words

    with ScriptedProvider(Reply(calls=(call("says"),)), Reply("Hm.")) as provider:
        result = await Agent(provider, tools=[says]).run("Go")
    assert (result.tool_runs[0].result.text, result.tool_runs[0].result.is_error) == (words, False)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_an_empty_reply_is_nudged_as_often_as_configured(count: int) -> None:
    with ScriptedProvider(*(Reply("") for _ in range(count)), Reply("At last.")) as provider:
        result = await Agent(provider, settings=AgentSettings(nudges=count, nudge="Say something.")).run("Go")
    assert (result.text, len(result.steps)) == ("At last.", count + 1)
    asked: Callable[[int], list[str]] = lambda place: [item.text for item in provider.requests[place].messages]  # noqa: E731
    assert asked(-1)[-1] == ("Say something." if count else "Go")
    assert [message.text for message in result.messages] == ["Go", "At last."]
