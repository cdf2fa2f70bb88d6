"""What a prompt in another program is given: what bears on it, the newest beside what is outdated, no small talk."""

from __future__ import annotations

import pytest

from tellback.agent.assistant.hooks.hook_settings import HookSettings
from tellback.agent.assistant.hooks.prompt_recall import recall_for_prompt, with_newest
from tellback.agent.context_items import ContextItem
from tellback.memory import LongTermMemory, Message


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
        found = await recall_for_prompt(memory, prompt, earlier=(), settings=HookSettings(), where=None)
        return [item.text for item in found.items]

    assert await given("How long is my walnut table? Have you noted it?") == ["My walnut table is 180 cm long."]
    assert await given("Thanks!") == []
