"""One agent for many users: namespace, settings and part of the memory are chosen for each run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    AgentTool,
    ArgumentError,
    MemoryOptions,
    QuotingProvider,
    RunLimits,
    memory_tools,
)
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import KnowledgeBase, LongTermMemory, Memory

pytestmark = pytest.mark.anyio


async def test_users_of_one_agent_are_kept_apart_by_the_namespace_of_the_run(memory: LongTermMemory) -> None:
    agent = Agent(QuotingProvider(), memory=memory, settings=AgentSettings(trace=False))
    homes = {"ana": "Lisbon", "ben": "Porto", "eva": "Graz"}
    await asyncio.gather(*(agent.run(f"I live in {city}.", namespace=user) for user, city in homes.items()))
    answers = await asyncio.gather(*(agent.run("Where do I live?", namespace=user) for user in homes))
    for answer, city in zip(answers, homes.values(), strict=True):
        assert city in answer.text
        assert not any(other in answer.text for other in homes.values() if other != city)
    assert not (await agent.run("Where do I live?")).memories
    session = answers[0].session
    assert await memory.conversations.load(session, namespace="ana")
    assert not await memory.conversations.load(session)


async def test_memory_tools_and_sub_agents_work_in_the_namespace_of_the_run(memory: LongTermMemory) -> None:
    note = call("remember", text="The code of the gate is green.")
    with ScriptedProvider(Reply(calls=(note,)), Reply("noted")) as provider:
        await Agent(provider, memory=memory, tools=memory_tools(memory, include=["remember"])).run("?", namespace="ana")
    assert [memory.text for memory in await memory.list(kinds=["note"], namespace="ana")] == [note.arguments["text"]]
    assert not await memory.list(kinds=["note"])
    with (
        ScriptedProvider(Reply("found")) as inner,
        ScriptedProvider(Reply(calls=(call("helper", task="the gate?"),)), Reply("ok")) as outer,
    ):
        helper = Agent(inner, memory=memory, settings=AgentSettings(name="helper"))
        await Agent(outer, tools=[AgentTool(helper, name="helper", description="Ask about gates.")]).run(
            "?", namespace="ana"
        )
        assert "The code of the gate is green." in str(inner.requests[0].messages)


async def test_a_run_sees_the_part_of_memory_that_its_options_name_and_stamps_it(memory: LongTermMemory) -> None:
    await memory.remember(Memory("The deadline of the atlas is Friday.", scopes={"project": "atlas"}))
    await memory.remember(
        Memory("The deadline of the bridge is Monday.", scopes={"project": "bridge"}, tags=("bridge",))
    )
    await memory.remember(Memory("Deadlines are sacred.", scopes={"project": "bridge"}, pinned=True))
    agent = Agent(QuotingProvider(), memory=memory)
    atlas = MemoryOptions(scopes={"project": "atlas"})
    result = await agent.run("When is the deadline?", memory_options=atlas)
    assert [item.text for item in result.memories] == ["The deadline of the atlas is Friday."]
    stored = await agent.run("The budget of the atlas is 40,000.", memory_options=atlas)
    kept = (await memory.get([stored.stored[0].id]))[0]
    assert kept is not None
    assert kept.scopes == {"project": "atlas"}
    tagged = await agent.run("When is the deadline?", memory_options=MemoryOptions(tags=("bridge",)))
    assert [item.text for item in tagged.memories] == ["The deadline of the bridge is Monday."]
    where = MemoryOptions(where={"pinned": True}, floor=0)
    pinned = await agent.run("When is the deadline?", settings=AgentSettings(memory=where))
    assert [item.text for item in pinned.memories] == ["Deadlines are sacred."]


async def test_a_run_searches_the_collections_that_it_names(memory: LongTermMemory, tmp_path: Path) -> None:
    for collection, day in {"rules": "Friday", "stories": "Monday"}.items():
        page = tmp_path / f"{collection}.md"
        page.write_text(f"The office closes on {day}.", encoding="utf-8")
        await KnowledgeBase(memory, collection=collection).ingest(page)
    agent = Agent(QuotingProvider(), memory=memory)
    result = await agent.run("When does the office close?", memory_options=MemoryOptions(collections=("rules",)))
    assert [item.text for item in result.memories] == ["The office closes on Friday."]


async def test_settings_of_a_run_take_the_place_of_the_agents(memory: LongTermMemory) -> None:
    with ScriptedProvider(Reply("a"), Reply("b")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(system="Be brief."))
        first = await agent.run("?", settings=AgentSettings(system="Be long.", limits=RunLimits(calls=5)))
        await agent.run("?")
        assert [request.system.splitlines()[0] for request in provider.requests] == ["Be long.", "Be brief."]
        assert first.fingerprint != agent.fingerprint


async def test_a_closed_agent_leaves_its_provider_open() -> None:
    with ScriptedProvider(Reply("a"), Reply("b"), Reply("c")) as provider:
        for _ in range(2):
            async with Agent(provider) as agent:
                await agent.run("?")
        assert (await Agent(provider).run("?")).text == "c"


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("namespace", {"namespace": 4}),
        ("settings", {"settings": {"name": "x"}}),
        ("memory_options", {"memory_options": {"tags": ("x",)}}),
    ],
)
async def test_an_unusable_option_of_a_run_is_refused(argument: str, options: dict) -> None:
    with pytest.raises(ArgumentError, match=argument):
        await Agent(QuotingProvider()).run("?", **options)


def test_a_namespace_of_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="namespace"):
        Agent(QuotingProvider(), namespace=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"tags": "x"}, {"scopes": {"project": ""}}, {"scopes": ["x"]}, {"floor": 2}])
def test_unusable_memory_options_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        MemoryOptions(**options)
