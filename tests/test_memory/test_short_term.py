"""Short-term memory: storage keeps everything, the policy shows part of it."""

from __future__ import annotations

import uuid

import pytest

from tellback.memory import (
    ArgumentError,
    FixedWindow,
    InMemoryHistory,
    Message,
    ShortTermMemory,
    ThinkingBlock,
)
from tellback.memory.internals import FullWindow

pytestmark = pytest.mark.anyio

A, B, C = Message.user("a"), Message.assistant("b"), Message.user("c")


async def test_the_window_policy_selects_messages_and_history_keeps_all() -> None:
    memory = ShortTermMemory(InMemoryHistory(), policy=FixedWindow(messages=2))
    await memory.append(A, B, C)
    window = await memory.window()
    assert (window.messages, window.dropped) == ((B, C), 1)
    assert [stored.message for stored in await memory.load()] == [A, B, C]


async def test_short_term_memory_without_a_policy_shows_every_message() -> None:
    memory = ShortTermMemory(InMemoryHistory())
    await memory.append(A, B)
    assert (await memory.window()).messages == (A, B)
    assert isinstance(memory.policy, FullWindow)


async def test_an_empty_session_has_an_empty_window() -> None:
    assert (await ShortTermMemory(InMemoryHistory()).window()).messages == ()


async def test_messages_are_numbered_and_numbers_are_not_reused() -> None:
    memory = ShortTermMemory(InMemoryHistory())
    assert await memory.append(A, B) == [1, 2]
    assert await memory.clear() == 2
    assert await memory.append(C) == [3]


async def test_appending_no_messages_returns_no_sequence_numbers() -> None:
    memory = ShortTermMemory(InMemoryHistory())
    assert await memory.append() == []


async def test_two_sessions_of_one_storage_do_not_see_each_other() -> None:
    storage = InMemoryHistory()
    item, other = ShortTermMemory(storage), ShortTermMemory(storage)
    await item.append(A)
    assert (await other.window()).messages == ()


async def test_one_session_id_in_two_namespaces_shares_no_messages() -> None:
    storage = InMemoryHistory()
    await ShortTermMemory(storage, session="s", namespace="ann").append(A)
    assert (await ShortTermMemory(storage, session="s", namespace="bob").window()).messages == ()
    assert (await ShortTermMemory(storage, session="s", namespace="ann").window()).messages == (A,)


async def test_a_session_can_be_resumed() -> None:
    storage = InMemoryHistory()
    first = ShortTermMemory(storage)
    await first.append(A)
    again = ShortTermMemory(storage, session=first.session)
    assert (await again.window()).messages == (A,)


async def test_a_new_session_has_an_id_of_the_injected_kind() -> None:
    fixed = uuid.UUID(int=7)
    assert ShortTermMemory(InMemoryHistory(), ids=lambda: fixed).session == str(fixed)
    assert uuid.UUID(ShortTermMemory(InMemoryHistory()).session)


async def test_storage_returns_thinking_as_it_was_given() -> None:
    memory = ShortTermMemory(InMemoryHistory())
    message = Message.assistant([ThinkingBlock(text="hm", signature="s")])
    await memory.append(message)
    assert (await memory.window()).messages == (message,)


async def test_appending_an_invalid_message_raises_and_stores_nothing() -> None:
    memory = ShortTermMemory(InMemoryHistory())
    with pytest.raises(ArgumentError, match=r"messages\[1\]"):
        await memory.append(A, "b")  # type: ignore[arg-type]
    assert await memory.load() == []


async def test_load_pages_stored_messages_from_the_newest_and_filters_by_role() -> None:
    memory = ShortTermMemory(InMemoryHistory(), policy=FixedWindow(messages=1))
    await memory.append(A, B, C)
    assert [stored.sequence for stored in await memory.load(limit=1, offset=1)] == [2]
    assert [stored.sequence for stored in await memory.load(roles=["user"])] == [1, 3]
