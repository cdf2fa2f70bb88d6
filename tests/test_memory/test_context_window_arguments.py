"""Unusable arguments are refused by name, where they are given: windows, histories, counters of tokens.

Inner part, on no face: ``tellback.memory.history.protocol``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import (
    ArgumentError,
    DatabaseHistory,
    EstimatingCounter,
    FixedWindow,
    InMemoryHistory,
    Message,
    ShortTermMemory,
    SummaryWindow,
    TiktokenCounter,
    TokenWindow,
    message_tokens,
    open_memory,
)
from tellback.memory.history.protocol import Summary
from tellback.memory.internals import FullWindow

COUNTER = EstimatingCounter()
POLICIES = (
    FullWindow(),
    FixedWindow(messages=2),
    FixedWindow(turns=2),
    TokenWindow(99, COUNTER),
    SummaryWindow(FullWindow(), lambda so_far, messages: "x"),
)


def stored() -> Any:
    history = InMemoryHistory()
    asyncio.run(history.append("s", [Message.user("a")]))
    return asyncio.run(history.load("s"))


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(
    ("messages", "argument"),
    [
        (lambda: None, "messages"),
        (lambda: "abc", "messages"),
        (lambda: (Message.user(text) for text in "abc"), "messages"),
        (lambda: [Message.user("a"), "b"], r"messages\[1\]"),
        (stored, r"messages\[0\]: a Message is needed, got StoredMessage"),
    ],
)
def test_a_window_policy_refuses_anything_but_a_list_of_messages(policy: Any, messages: Any, argument: str) -> None:
    with pytest.raises(ArgumentError, match=argument):
        policy.apply(messages())


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda history: ShortTermMemory("history"), "storage"),
        (lambda history: ShortTermMemory(InMemoryHistory), "storage"),
        (lambda history: ShortTermMemory(history, policy="turns"), "policy"),
        (lambda history: ShortTermMemory(history, policy=FixedWindow), "policy"),
        (lambda history: ShortTermMemory(history, session=""), "session"),
        (lambda history: ShortTermMemory(history, session=7), "session"),
        (lambda history: ShortTermMemory(history, namespace=None), "namespace"),
        (lambda history: TokenWindow(100, None), "counter"),
        (lambda history: TokenWindow(100, len), "counter"),
        (lambda history: TokenWindow(100, EstimatingCounter), "counter"),
        (lambda history: SummaryWindow(FullWindow(), str, counter=len), "counter"),
        (lambda history: SummaryWindow(FullWindow, str), "policy"),
        (lambda history: InMemoryHistory(retention=500), "retention"),
        (lambda history: DatabaseHistory("m.db"), "database"),
        (lambda history: COUNTER.count(None), "text"),
        (lambda history: COUNTER.count(b"bytes"), "text"),
        (lambda history: TiktokenCounter(7), "encoding"),
        (lambda history: TiktokenCounter().count(7), "text"),
        (lambda history: message_tokens("words", COUNTER), "message"),
        (lambda history: message_tokens(Message.user("a"), len), "counter"),
    ],
)
def test_unusable_arguments_of_windows_histories_and_counters_are_refused_by_name(
    make: Callable[[Any], Any], argument: str
) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument}: "):
        make(InMemoryHistory())


def test_open_memory_refuses_an_invalid_retention_and_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="retention"):
        open_memory(tmp_path / "m.db", retention=500)  # type: ignore[arg-type]  # bad on purpose
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("before", ["text", 7, ("brief", "x", 1, 1)])
def test_keep_summary_refuses_an_invalid_previous_summary(before: Any) -> None:
    history = InMemoryHistory()
    asyncio.run(history.append("s", [Message.user("a")]))
    with pytest.raises(ArgumentError, match="before"):
        asyncio.run(history.keep_summary("s", Summary("brief", "x", 1, 1), before=before, made_of=[1]))


@pytest.mark.parametrize("made_of", [None, 1, "1", ["1"]])
def test_keep_summary_refuses_invalid_message_numbers(made_of: Any) -> None:
    history = InMemoryHistory()
    asyncio.run(history.append("s", [Message.user("a")]))
    with pytest.raises(ArgumentError, match="made_of"):
        asyncio.run(history.keep_summary("s", Summary("brief", "x", 1, 1), before=None, made_of=made_of))


def test_checking_a_token_counter_does_not_read_its_name() -> None:
    class Costly:
        exact = True

        @property
        def name(self) -> str:
            raise AssertionError("asking for the name loads tables")

        def count(self, text: str) -> int:
            return len(text)

    assert TokenWindow(100, Costly()).apply([Message.user("a")]).messages == (Message.user("a"),)
