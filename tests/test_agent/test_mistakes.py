"""Mistakes that people make with the words of other libraries, and the sentences that put them right."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from agent import Agent, QuotingProvider, tool
from memory import ArgumentError, LongTermMemory, Memory, open_memory, run_sync

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda memory, agent: memory.recall("x", limit=3), r"recall takes no limit=; did you mean k=\?"),
        (lambda memory, agent: memory.recall("x", user="ana"), r"did you mean namespace=\?"),
        (lambda memory, agent: memory.recall("x", as_off=None), r"did you mean as_of=\?"),
        (lambda memory, agent: memory.forget(user="ana"), r"forget takes no user=; did you mean namespace=\?"),
        (lambda memory, agent: memory.remember("x", user_id="ana"), r"did you mean namespace=\?"),
        (lambda memory, agent: agent.run("x", message_history=[]), r"Agent.run takes no .* did you mean session=\?"),
        (lambda memory, agent: agent.run("x", output_type=int), r"did you mean result_type=\?"),
        (lambda memory, agent: agent.stream("x", timeout=3), r"did you mean deadline=\?"),
        (lambda memory, agent: Agent(model="gpt"), r"Agent takes no model=; did you mean provider=\?"),
        (lambda memory, agent: Memory("x", foo=1), "Memory takes no foo=; it takes actor, "),
        (lambda memory, agent: Memory(content="x"), r"did you mean text=\?"),
        (lambda memory, agent: open_memory("x.db", user="ana"), "open_memory takes no user="),
    ],
)
async def test_an_unknown_keyword_names_the_one_that_was_meant(
    memory: LongTermMemory, call: Callable[..., Any], hint: str
) -> None:
    async def mistake() -> None:
        answer = call(memory, Agent(QuotingProvider(), memory=memory))
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises(TypeError, match=hint):
        await mistake()


@pytest.mark.parametrize(
    "use", [lambda found: found[0], lambda found: found.text, list, len, bool, lambda found: "x" in found]
)
async def test_a_forgotten_await_says_what_to_write(memory: LongTermMemory, use: Callable[..., Any]) -> None:
    for call, name in (
        (memory.recall("x"), "LongTermMemory.recall"),
        (Agent(QuotingProvider()).run("x"), "Agent.run"),
    ):
        with pytest.raises((TypeError, AttributeError), match=f"{name} was not awaited: write `await "):
            use(call)
        call.close()


async def test_calls_are_coroutines_for_every_way_to_run_them(memory: LongTermMemory) -> None:
    await memory.remember("I moved to Lisbon.")
    task = asyncio.create_task(memory.recall("Where did I move?"))
    results = [
        await task,
        *await asyncio.gather(memory.recall("Where did I move?"), memory.recall("Where did I move?")),
    ]
    assert [hits[0].memory.text for hits in results] == ["I moved to Lisbon."] * 3
    given_up = asyncio.create_task(memory.recall("Where did I move?"))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    with pytest.raises(ArgumentError, match="question"):
        await memory.recall(7)


def test_decorated_methods_are_still_coroutine_functions() -> None:
    assert asyncio.iscoroutinefunction(Agent.run)
    assert asyncio.iscoroutinefunction(LongTermMemory.remember)
    assert list(inspect.signature(Agent.run).parameters)[:2] == ["self", "prompt"]


async def test_a_plain_function_is_taken_as_a_tool() -> None:
    def gate_code(door: str) -> str:
        """Return the code of a door."""
        return f"{door}: 4711"

    agent = Agent(QuotingProvider(), tools=[gate_code, tool(gate_code, name="again")])
    assert agent.fingerprint != Agent(QuotingProvider(), tools=[gate_code]).fingerprint


def test_a_memory_opens_at_an_address(tmp_path) -> None:
    in_file = open_memory(f"sqlite:///{tmp_path}/m.db")
    run_sync(in_file.remember("I live in Lisbon."))
    run_sync(in_file.close())
    again = open_memory(tmp_path / "m.db")
    assert [memory.text for memory in run_sync(again.list())] == ["I live in Lisbon."]
    run_sync(again.close())
    in_process = open_memory("numpy:")
    run_sync(in_process.remember("I live in Porto."))
    assert len(run_sync(in_process.list())) == 1
    run_sync(in_process.close())
    with pytest.raises(ArgumentError, match='"numpy:"'):
        open_memory(":memory:")
