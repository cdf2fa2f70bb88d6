"""Answers of tools in one conversation are found in another, unless they show what was remembered before.

Inner parts, on no face: ``tellback.agent.tools.base``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.agent import Agent, AgentSettings, ChainedTool, Tool, knowledge_tools, memory_tools, tool
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.agent.tools.base import annotations_of
from tellback.memory import KnowledgeBase, LongTermMemory

pytestmark = pytest.mark.anyio

TOLD = "ferry (harbour: Oban)\nThe boat from Oban casts off at seven."


@tool
def ferry(harbour: str) -> str:
    """Tell when the ferry leaves."""
    return f"The boat from {harbour} casts off at seven."


async def ask(memory: LongTermMemory, *replies: Reply, tools: tuple[Tool, ...] = (ferry,), trace: bool = True) -> None:
    with ScriptedProvider(*replies, Reply("Done.")) as provider:
        await Agent(provider, memory=memory, tools=tools, settings=AgentSettings(trace=trace)).run(
            "Is there a boat?", session="monday"
        )


async def told(memory: LongTermMemory) -> list[str]:
    return [entry.text for entry in await memory.list() if entry.role == "tool"]


async def test_a_tool_result_is_recalled_in_another_session(memory: LongTermMemory) -> None:
    await ask(memory, Reply(calls=(call("ferry", harbour="Oban"),)))
    with ScriptedProvider(Reply("At seven.")) as provider:
        agent = Agent(provider, memory=memory)
        result = await agent.run("When does the boat from Oban cast off?", session="tuesday")
    (item,) = (each for each in result.memories if each.role == "tool")
    assert (item.text, item.trust, item.session) == (TOLD, "tool", "monday")
    assert "casts off at seven" in provider.requests[-1].messages[-1].text


async def test_a_result_that_the_window_shows_is_not_shown_twice(memory: LongTermMemory) -> None:
    await ask(memory, Reply(calls=(call("ferry", harbour="Oban"),)))
    with ScriptedProvider(Reply("At seven.")) as provider:
        agent = Agent(provider, memory=memory, tools=[ferry])
        result = await agent.run("When does the boat from Oban cast off?", session="monday")
    assert TOLD in [item.text for item in result.memories]
    sent = "".join(message.model_dump_json() for message in provider.requests[-1].messages)
    assert sent.count("casts off at seven") == 1


async def test_results_of_memory_tools_are_not_stored_as_memories(memory: LongTermMemory) -> None:
    await memory.remember("The boat from Oban is called Iona.")
    calls = (call("search_memory", query="boat"), call("ferry", harbour="Oban"), call("remember", text="A note."))
    await ask(memory, Reply(calls=calls), tools=(ferry, *memory_tools(memory)))
    assert await told(memory) == [TOLD]
    kept = [stored.message for stored in await memory.conversations.load("monday")]
    assert any("called Iona" in result.text for message in kept for result in message.tool_results)


async def test_passages_that_a_tool_found_are_not_remembered_again(memory: LongTermMemory, tmp_path: Path) -> None:
    (tmp_path / "iona.md").write_text("# Iona\n\nThe boat is called Iona.\n")
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(tmp_path)
    found = call("search_documents", query="What is the boat called?")
    await ask(memory, Reply(calls=(found,)), tools=knowledge_tools(knowledge))
    assert await told(memory) == []


async def test_without_the_trace_setting_no_tool_result_is_stored_as_a_memory(memory: LongTermMemory) -> None:
    await ask(memory, Reply(calls=(call("ferry", harbour="Oban"),)), trace=False)
    assert {entry.role for entry in await memory.list()} == {"assistant", "user"}


async def test_a_chained_tool_with_a_memory_search_is_annotated_as_recalling(memory: LongTermMemory) -> None:
    search = memory_tools(memory, include=("search_memory",))[0]
    assert annotations_of(ChainedTool(ferry, search, name="both", description="Both.")).recalls
    assert not annotations_of(ferry).recalls
