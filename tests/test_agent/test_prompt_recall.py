"""What a prompt in another program is given: what bears on it, the newest beside what is outdated, no small talk.

Inner parts, on no face: ``tellback.agent.context_items``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.agent.assistant.hooks.prompt_recall import recall_for_prompt, with_newest
from tellback.agent.context_items import ContextItem
from tellback.memory import ArgumentError, LongTermMemory, Message
from tests.support.clients import CodingSession


def item(id: str, outdated_by: str | None = None) -> ContextItem:
    return ContextItem(number=0, id=id, text=id, outdated_by=outdated_by)


def test_an_outdated_memory_comes_behind_the_newest_of_its_subject_or_not_at_all() -> None:
    old, middle, new, other = item("a", "b"), item("b", "c"), item("c"), item("d")
    hidden, circle = item("e", "gone"), (item("f", "g"), item("g", "f"))
    found = [old, middle, new, other, hidden, *circle]
    assert [kept.id for kept in with_newest([other, old], found)] == ["d", "c", "a"]
    assert [kept.id for kept in with_newest([old, new, middle], found)] == ["c", "a", "b"]
    assert with_newest([hidden], found) == []
    assert {kept.id for kept in with_newest(circle, found)} == {"f", "g"}


@pytest.mark.anyio
async def test_neither_small_talk_nor_what_an_assistant_acknowledged_is_given(memory: LongTermMemory) -> None:
    await memory.remember_turn("s", [Message.user("My walnut table is 180 cm long."), Message.assistant("Noted.")])

    async def given(prompt: str) -> list[str]:
        found = await recall_for_prompt(memory, prompt, earlier=(), namespace="", where=None)
        return [item.text for item in found.items]

    assert await given("How long is my walnut table? Have you noted it?") == ["My walnut table is 180 cm long."]
    assert await given("Thanks!") == []


TABLE = "My walnut table is 180 cm long."


async def given_to(memory: LongTermMemory, prompt: str) -> list[str]:
    found = await recall_for_prompt(memory, prompt, earlier=(), namespace="", where=None)
    return [item.text for item in found.items]


@pytest.mark.anyio
async def test_what_a_prompt_was_given_is_listed_and_marked_for_prompts_of_its_kind_until_that_is_taken_back(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    id = (await memory.remember(TABLE)).id
    session = CodingSession(memory, tmp_path)
    assert TABLE in await session.prompt("How long is my walnut table?")
    (prompt,) = memory.given.recent("")
    assert (prompt.client, prompt.session, prompt.prompt) == (
        "claude-code",
        "claude-code:s1",
        "How long is my walnut table?",
    )
    assert [(given.id, given.is_useful) for given in prompt.memories] == [(id, True)]
    memory.given.mark("", id, useful=False)
    assert await given_to(memory, "Is my walnut table long?") == []
    assert await given_to(memory, "What is 180 cm long?") == [TABLE]
    assert id in {hit.memory.id for hit in await memory.recall("How long is my walnut table?")}
    memory.given.mark("", id, useful=True)
    assert await given_to(memory, "Is my walnut table long?") == [TABLE]
    with pytest.raises(ArgumentError, match="a memory that a prompt was given"):
        memory.given.mark("other", id, useful=False)


@pytest.mark.anyio
async def test_an_entry_of_what_was_given_goes_with_its_memory_and_with_its_prompt(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    for text in (TABLE, "My birch table is 90 cm long."):
        await memory.remember(text, namespace="")
    await CodingSession(memory, tmp_path, "s1").prompt("How long is my walnut table?")
    await CodingSession(memory, tmp_path, "s2").prompt("Which wood is my birch table made of?")
    assert len(memory.given.recent("")) == 2
    (walnut,) = await memory.list(contains="180")
    await memory.forget([walnut.id])
    assert walnut.id not in {given.id for prompt in memory.given.recent("") for given in prompt.memories}
    (asked,) = await memory.list(contains="which wood")
    await memory.forget([asked.id])
    assert "wood" not in str(memory.given.recent(""))
