"""Mistakes that people make with the words of other libraries, and the sentences that put them right."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from typing_extensions import is_protocol

from tellback.agent import (
    Agent,
    Hooks,
    OllamaProvider,
    QuotingProvider,
    RunLimits,
    RunMiddleware,
    calculator,
    tool,
)
from tellback.memory import (
    ArgumentError,
    InMemoryHistory,
    LongTermMemory,
    Memory,
    Message,
    open_memory,
    run_sync,
)
from tellback.vectorstore import Entry, open_store

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
        (lambda memory, agent: Memory("x", foo=1), "Memory takes no foo=; it takes about, "),
        (lambda memory, agent: Memory(content="x"), r"did you mean text=\?"),
        (lambda memory, agent: open_memory("x.db", user="ana"), "open_memory takes no user="),
        (lambda memory, agent: Message.user("x", names="a"), r"Message.user takes no names=; did you mean name=\?"),
        (lambda memory, agent: Message(rule="user"), r"Message takes no rule=; did you mean role=\?"),
        (lambda memory, agent: RunLimits(token=3), r"RunLimits takes no token=; did you mean tokens=\?"),
        (lambda memory, agent: Entry("x", content="x"), r"Entry takes no content=; did you mean text=\?"),
        (lambda memory, agent: open_store("numpy:").search([1.0], limit=3), r"NumpyStore.search .* mean k=\?"),
        (lambda memory, agent: memory.list(limits=3), r"list takes no limits=; did you mean limit=\?"),
        (lambda memory, agent: tool(time_out=3), r"tool takes no time_out=; did you mean timeout=\?"),
        (lambda memory, agent: OllamaProvider("llama", timeout=3), "OllamaProvider takes no timeout=; it takes "),
    ],
)
async def test_an_unknown_keyword_raises_with_a_suggestion(
    memory: LongTermMemory, call: Callable[..., Any], hint: str
) -> None:
    async def mistake() -> None:
        answer = call(memory, Agent(QuotingProvider(), memory=memory))
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises(TypeError, match=hint):
        await mistake()


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ({"hooks": Hooks()}, r"hooks: a list is needed, such as hooks=\[Hooks\(…\)\], got Hooks"),
        ({"hooks": [print]}, "hooks: a list is needed"),
        ({"tools": calculator()}, r"tools: a list is needed, such as tools=\[my_tool\]"),
        ({"run_middleware": [RunMiddleware]}, "run_middleware: a list is needed"),
        ({"memory": InMemoryHistory()}, "memory: this is no AgentMemory: it has no conversations, store, recall"),
        ({"knowledge": "notes"}, "knowledge: this is no PassageRetriever: it has no retrieve"),
    ],
)
def test_arguments_that_would_fail_in_the_first_run_are_refused(argument: dict[str, Any], hint: str) -> None:
    with pytest.raises(ArgumentError, match=hint):
        Agent(QuotingProvider(), **argument)


async def test_a_closed_memory_is_named_in_the_first_run() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    agent = Agent(QuotingProvider(), memory=memory)
    await memory.close()
    with pytest.raises(ArgumentError, match="memory: an open one is needed"):
        await agent.run("Where do I live?")


@pytest.mark.parametrize("face", ["tellback.vectorstore", "tellback.memory", "tellback.agent"])
def test_every_public_constructor_and_function_names_its_keywords(face: str) -> None:
    module = importlib.import_module(face)
    values = {name: getattr(module, name) for name in module.__all__}
    called = {
        name: value
        for name, value in values.items()
        if inspect.isfunction(value)
        or (inspect.isclass(value) and not issubclass(value, (BaseException, Enum, dict)) and not is_protocol(value))
    }
    assert len(called) > 20
    for name, value in called.items():
        with pytest.raises(TypeError, match=f"^{name} takes no unheard_of=; it takes "):
            value(unheard_of=1)


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
