"""Pinned memories: shown for any question, the most important first, within a budget; and the report of the rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tellback.agent import Agent, AgentSettings, ArgumentError, MemoryRecalled, QuotingProvider
from tellback.agent.testing import Reply, ScriptedProvider, shown_items
from tellback.memory import FixedWindow, LongTermMemory, Memory, Message, Passage
from tellback.vectorstore import open_store
from tests.support.documents import FixedDocuments

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 5, 3, 10, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
async def memory():
    opened = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
    yield opened
    await opened.close()


async def shown(memory: LongTermMemory, prompt: str = "Hello", *, namespace: str = "", **settings) -> list[str]:
    with ScriptedProvider(Reply("Hello")) as provider:
        await Agent(
            provider, memory=memory, namespace=namespace, settings=AgentSettings(clock=lambda: NOW, **settings)
        ).run(prompt, store=False)
    return [item.text for item in shown_items(provider.requests[0])]


async def test_pinned_memories_are_shown_whatever_is_asked(memory) -> None:
    await memory.remember(Memory(text="I am allergic to peanuts.", pinned=True))
    await memory.remember("The bridge was painted green in spring.")
    for prompt in ("Hello", "Which colour has the bridge?", "??", "What is 2+2?"):
        assert "I am allergic to peanuts." in await shown(memory, prompt)


async def test_pinned_memories_are_ordered_by_importance_and_then_newest_first(memory) -> None:
    for place, (text, importance) in enumerate(
        [("old", None), ("minor", 0.1), ("vital", 1.0), ("new", None), ("middling", 0.5)]
    ):
        recorded = NOW - (10 - place) * DAY
        await memory.remember(Memory(text=text, importance=importance, pinned=True, recorded_at=recorded))
    assert await shown(memory) == ["vital", "middling", "new", "old", "minor"]


async def test_the_newest_of_many_pinned_memories_are_shown(memory) -> None:
    many = [
        Memory(text=f"pinned number {place}", pinned=True, recorded_at=NOW - (550 - place) * DAY)
        for place in range(100, 550)
    ]
    await memory.remember_many(many)
    found = await shown(memory, profile_tokens=900)
    assert found[0] == "pinned number 549"
    assert found == [f"pinned number {549 - place}" for place in range(len(found))]
    assert 3 < len(found) < 80


async def test_pinned_memories_over_the_profile_tokens_are_reported_as_left_out(memory) -> None:
    reports = [await memory.remember(Memory(text=f"{word} " * 60, pinned=True)) for word in ("one", "two", "three")]
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(recall=0, profile_tokens=200))
        result = await agent.run("Hello", store=False)
    assert [item.text.split()[0] for item in result.memories] == ["three"]
    assert [(omitted.id, omitted.reason) for omitted in result.left_out] == [
        (reports[1].id, "over the 200 tokens for pinned memories"),
        (reports[0].id, "over the 200 tokens for pinned memories"),
    ]
    assert await shown(memory, profile_tokens=0, recall=0) == []


async def test_a_long_pinned_memory_is_cut_after_a_sentence_and_reported_as_shortened(memory) -> None:
    text = " ".join(f"Sentence number {number} of it." for number in range(100))
    await memory.remember(Memory(text=text, pinned=True))
    with ScriptedProvider(Reply("Hello")) as provider:
        result = await Agent(provider, memory=memory, settings=AgentSettings(recall=0, profile_tokens=200)).run(
            "Hello", store=False
        )
    (item,) = result.memories
    assert item.text.endswith(" of it.")
    assert text.startswith(item.text)
    assert [omitted.reason for omitted in result.left_out] == [
        f"shortened to {len(item.text)} of {len(text)} characters"
    ]


async def test_a_small_budget_prefers_pinned_to_recalled_memories(memory) -> None:
    await memory.remember(Memory(text="I am Ana.", pinned=True))
    for number in range(8):
        await memory.remember(f"The bridge was painted green in spring, coat number {number}. " * 3)
    found = await shown(memory, "When was the bridge painted green?", token_budget=400)
    assert found[0] == "I am Ana."


async def test_a_pinned_and_recalled_memory_is_shown_once_and_still_quoted(memory) -> None:
    await memory.remember(Memory(text="The spare key lies under the blue pot.", pinned=True))
    assert await shown(memory, "Where is the spare key?") == ["The spare key lies under the blue pot."]
    result = await Agent(QuotingProvider(), memory=memory).run("Where is the spare key?", store=False)
    assert result.text == "“The spare key lies under the blue pot.” [1]"


@pytest.mark.parametrize(
    "fields",
    [
        {"disabled": True},
        {"expires_at": NOW - DAY},
        {"valid_to": NOW - DAY},
        {"valid_from": NOW + DAY},
        {"pinned": False},
    ],
)
async def test_a_pinned_memory_that_is_not_currently_valid_is_not_shown(memory, fields: dict) -> None:
    await memory.remember(Memory(**{"text": "I am Ana.", "pinned": True, **fields}))
    assert await shown(memory, recall=0) == []


async def test_a_profile_of_another_namespace_is_not_shown(memory) -> None:
    await memory.remember(Memory(text="I am Ana.", pinned=True), namespace="ana")
    assert await shown(memory, namespace="ben") == []
    assert await shown(memory, namespace="ana") == ["I am Ana."]


@pytest.mark.parametrize("size", [-1, 1.5, "many", True])
def test_invalid_profile_tokens_are_refused(size: object) -> None:
    with pytest.raises(ArgumentError, match="profile_tokens"):
        Agent(QuotingProvider(), settings=AgentSettings(profile_tokens=size))


async def test_a_found_passage_beyond_the_recall_count_is_reported_as_left_out() -> None:
    shelf = FixedDocuments(
        Passage(id="c1", text="The bridge is green.", document="b.md", score=0.9),
        Passage(id="c2", text="Bridges.", document="b.md", score=0.5),
    )
    with ScriptedProvider(Reply("Green")) as provider:
        agent = Agent(provider, knowledge=shelf, settings=AgentSettings(recall=1))
        events = [event async for event in agent.stream("Which colour was the bridge painted?")]
    recalled = next(event for event in events if isinstance(event, MemoryRecalled))
    assert [each.id for each in recalled.items] == ["c1"]
    assert [(omitted.id, omitted.reason) for omitted in recalled.left_out] == [
        ("c2", "below the first 1 of what was found")
    ]
    assert recalled.left_out == events[-1].result.left_out


async def test_passages_of_an_abstaining_knowledge_base_are_reported_as_left_out(memory) -> None:
    sure = await memory.remember("The spare key of the shed lies under the blue pot.")
    shelf = FixedDocuments(Passage(id="c1", text="The bridge is green.", document="b.md", score=0.9), abstain="nothing")
    with ScriptedProvider(Reply("Blue")) as provider:
        agent = Agent(provider, memory=memory, knowledge=shelf)
        result = await agent.run("Where is the spare key of the shed?", store=False)
    assert [each.id for each in result.memories] == [sure.id]
    assert [omitted.id for omitted in result.left_out] == ["c1"]
    assert result.left_out[0].reason == "nothing was near"


async def test_a_memory_folded_by_dedup_is_reported_as_left_out(memory) -> None:
    notes = [Memory(text="The bridge is green.", speaker="Ana", key=key) for key in ("first", "second")]
    ids = {report.id for report in await memory.remember_many(notes)}
    with ScriptedProvider(Reply("Green")) as provider:
        result = await Agent(provider, memory=memory).run("Which colour has the bridge?", store=False)
    (folded,) = result.left_out
    assert {folded.id, folded.into} == ids


async def test_messages_of_history_that_are_not_shown_are_counted_with_their_reasons(memory) -> None:
    items = [
        message for n in range(30) for message in (Message.user(f"{n} word " * 20), Message.assistant("yes " * 20))
    ]
    await memory.conversations.append("s", items)
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(
            provider,
            memory=memory,
            settings=AgentSettings(token_budget=1200, window=FixedWindow(messages=40), recall=0),
        )
        events = [event async for event in agent.stream("Hello", session="s", store=False)]
    recalled, result = next(event for event in events if isinstance(event, MemoryRecalled)), events[-1].result
    kept = len(provider.requests[0].messages) - 1
    assert 0 < kept < 40
    assert recalled.dropped == result.dropped == 60 - kept
    assert recalled.notes == result.notes
    assert f"20 outside the window, {40 - kept} over the token budget" in result.notes[-1]
