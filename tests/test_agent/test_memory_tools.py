"""Memory and documents as tools: a model may search and note, and may not change the user's memories.

Inner parts, on no face: ``tellback.agent.tools.memory``.
"""

from __future__ import annotations

import re

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    ApprovalRequest,
    ArgumentError,
    ToolContext,
    ToolFailed,
    ToolPolicy,
    knowledge_tools,
    memory_tools,
)
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.agent.tools.memory import ALL_MEMORY_TOOLS, DEFAULT_MEMORY_TOOLS
from tellback.memory import KnowledgeBase, LongTermMemory, Memory, Trust

pytestmark = pytest.mark.anyio


async def use(memory: LongTermMemory, name: str, *, users_words: bool = False, namespace: str = "", **arguments):
    (made,) = memory_tools(memory, include=[name], users_words=users_words, namespace=namespace)
    return await made.call(arguments, ToolContext(call_id="c", session="s1"))


async def test_searching_shows_memories_as_data_with_their_numbers(memory) -> None:
    await memory.remember(Memory(text="The party begins at seven.", speaker="Ana"))
    shown = await use(memory, "search_memory", query="When does the party begin?")
    assert "The party begins at seven." in shown
    assert re.search("^<memories [0-9a-f]{8}>\n.1. .*, Ana: The party", shown, re.MULTILINE)


async def test_searching_finds_nothing_in_another_namespace(memory) -> None:
    await memory.remember("The party begins at seven.", namespace="ana")
    shown = await use(memory, "search_memory", query="When does the party begin?", namespace="ben")
    assert shown == "Nothing is remembered about this."


async def test_get_memory_names_unknown_ids(memory) -> None:
    report = await memory.remember("The party begins at seven.")
    shown = await use(memory, "get_memory", ids=[report.id, "gone"])
    assert "The party begins at seven." in shown
    assert "No memory has the id gone." in shown


async def test_a_note_of_the_model_has_assistant_trust_and_actor(memory) -> None:
    result = await use(memory, "remember", text="Ana likes tea.", tags=["drinks"])
    (note,) = await memory.list()
    assert note.id in result
    assert (note.trust, note.actor, note.kind, note.session, note.tags) == (
        Trust.ASSISTANT,
        "assistant",
        "note",
        "s1",
        ("drinks",),
    )


async def test_a_note_of_the_model_has_its_line_and_names_the_nearest_topics(memory) -> None:
    key = (await memory.remember(Memory("Anna has it.", about="spare key: keeper"))).id
    result = await use(memory, "remember", text="The spare key was cut in May.", about="spare key: age")
    assert [note.about for note in await memory.list() if note.id != key] == ["spare key: age"]
    assert f"{key} (spare key: keeper)" in result


async def test_a_blank_note_is_refused(memory) -> None:
    with pytest.raises(ToolFailed, match="not blank"):
        await use(memory, "remember", text="   ")


async def test_the_model_can_correct_and_forget_its_own_note(memory) -> None:
    await use(memory, "remember", text="Ana likes tea.")
    (note,) = await memory.list()
    await use(memory, "correct_memory", id=note.id, text="Ana likes coffee.")
    assert [entry.text for entry in await memory.list()] == ["Ana likes coffee."]
    assert note.id in await use(memory, "forget_memory", ids=[note.id])
    assert await memory.list() == []


async def test_the_model_replaces_its_own_note_and_the_users_words_only_where_that_is_allowed(memory) -> None:
    await use(memory, "remember", text="Ana likes tea.")
    (note,) = await memory.list()
    await use(memory, "replace_memory", ids=[note.id], text="Ana drinks coffee now.")
    report = await memory.remember("I like tea.")
    with pytest.raises(ToolFailed, match="not a note of yours"):
        await use(memory, "replace_memory", ids=[report.id], text="I like poison.")
    held = [listed.text for listed in await memory.list() if listed.valid_to is None]
    assert held == ["Ana drinks coffee now.", "I like tea."]
    await use(memory, "replace_memory", ids=[report.id], text="The user likes coffee.", users_words=True)
    (found, *_) = await memory.recall("What does the user like?")
    assert (found.memory.text, found.memory.trust) == ("The user likes coffee.", Trust.ASSISTANT)


@pytest.mark.parametrize("trust", [Trust.USER, Trust.DOCUMENT])
async def test_the_memory_tools_refuse_to_change_memories_of_the_user(memory, trust: Trust) -> None:
    report = await memory.remember(Memory(text="I like tea.", trust=trust))
    with pytest.raises(ToolFailed, match="only the user"):
        await use(memory, "correct_memory", id=report.id, text="I like poison.")
    with pytest.raises(ToolFailed, match="only the user"):
        await use(memory, "forget_memory", ids=[report.id])
    assert [entry.text for entry in await memory.list()] == ["I like tea."]


async def test_forget_memory_with_one_user_memory_among_the_ids_forgets_nothing(memory) -> None:
    await use(memory, "remember", text="Ana likes tea.")
    (note,) = await memory.list()
    report = await memory.remember("I like tea.")
    with pytest.raises(ToolFailed):
        await use(memory, "forget_memory", ids=[note.id, report.id])
    assert len(await memory.list()) == 2


async def test_forgetting_a_note_that_repeats_a_user_memory_is_refused(memory) -> None:
    await memory.remember("My safe word is heron.")
    await use(memory, "remember", text="My safe word is heron.")
    (note,) = [entry for entry in await memory.list() if entry.kind == "note"]
    with pytest.raises(ToolFailed, match="would go with it"):
        await use(memory, "forget_memory", ids=[note.id])
    assert len(await memory.list()) == 2


async def test_with_users_words_the_model_can_correct_a_user_memory(memory) -> None:
    report = await memory.remember("I like tea.")
    await use(memory, "correct_memory", id=report.id, text="I like coffee.", users_words=True)
    assert [entry.text for entry in await memory.list()] == ["I like coffee."]


async def test_forget_memory_fails_for_an_unknown_id(memory) -> None:
    with pytest.raises(ToolFailed, match="search_memory"):
        await use(memory, "forget_memory", ids=["gone"])


async def test_the_correct_and_forget_tools_are_included_only_on_request(memory) -> None:
    assert [memory_tool.spec.name for memory_tool in memory_tools(memory)] == list(DEFAULT_MEMORY_TOOLS)
    assert [memory_tool.spec.name for memory_tool in memory_tools(memory, include=ALL_MEMORY_TOOLS)] == list(
        ALL_MEMORY_TOOLS
    )
    with pytest.raises(ArgumentError, match="include"):
        memory_tools(memory, include=["erase"])


async def test_documents_are_searched_and_listed(memory, tmp_path) -> None:
    (tmp_path / "bridge.md").write_text("# The bridge\n\nThe bridge was opened in 1932 by the mayor.\n")
    knowledge = KnowledgeBase(memory)
    search, listing = knowledge_tools(knowledge, prefix="city_")
    assert (search.spec.name, listing.spec.name) == ("city_search_documents", "city_list_documents")
    assert await listing.call({}, ToolContext()) == "There are no documents."
    await knowledge.ingest(tmp_path)
    shown = await search.call({"query": "When was the bridge opened?"}, ToolContext())
    assert "opened in 1932" in shown
    assert "bridge.md" in shown
    assert "bridge.md" in await listing.call({}, ToolContext())


async def test_the_tools_that_add_and_remove_documents_are_included_only_on_request(memory, tmp_path) -> None:
    (tmp_path / "bridge.md").write_text("# The bridge\n\nThe bridge was opened in 1932 by the mayor.\n")
    knowledge = KnowledgeBase(memory)
    names = ("add_document", "document_stats", "remove_document")
    with pytest.raises(ArgumentError, match="folder"):
        knowledge_tools(knowledge, include=names)
    add, stats, remove = knowledge_tools(knowledge, include=names, folder=tmp_path)
    assert [tool.annotations.needs_approval for tool in (add, stats, remove)] == [True, False, True]
    with pytest.raises(ToolFailed, match="not below"):
        await add.call({"path": "../secret.md"}, ToolContext())
    await add.call({"path": "bridge.md"}, ToolContext())
    assert (await stats.call({}, ToolContext())).startswith("1 documents, 1 passages")
    assert await remove.call({"document": "bridge.md"}, ToolContext()) == "Removed bridge.md with 1 passages."


async def test_search_documents_reports_an_empty_result(memory) -> None:
    search, _ = knowledge_tools(KnowledgeBase(memory))
    assert await search.call({"query": "What?"}, ToolContext()) == "No document has anything about this."


async def test_a_number_stands_for_one_memory_through_the_session_and_in_the_arguments_of_tools(memory) -> None:
    spare = (await memory.remember("The spare key is under the pot.")).id
    shed = (await memory.remember("The shed key is on the hook.")).id
    asked: list[list[str]] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.call.arguments["ids"])
        return True

    replies = (
        Reply("Under the pot [1]."),
        Reply(calls=(call("search_memory", query="shed key on the hook"),)),
        Reply(calls=(call("forget_memory", ids=["[1]", 2]),)),
        Reply("Done."),
    )
    with ScriptedProvider(*replies) as provider:
        agent = Agent(
            provider,
            memory=memory,
            tools=memory_tools(memory, include=ALL_MEMORY_TOOLS, users_words=True, ask=True),
            settings=AgentSettings(recall=1),
            policy=ToolPolicy(approver=approve),
        )
        first = await agent.run("Where is the spare key?", session="s")
        second = await agent.run("Forget the spare key under the pot, and the shed key.", session="s")
    assert [(item.number, item.id) for item in first.memories] == [(1, spare)]
    assert [citation.id for citation in first.citations] == [spare]
    numbers = {item.id: item.number for item in second.memories}
    assert numbers[spare] == 1
    assert numbers[shed] == 2
    assert asked == [[spare, shed]]
    assert await memory.get([spare, shed]) == [None, None]
