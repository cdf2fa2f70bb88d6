"""Contract suite of histories with a retention: subclass it, say how one is made, run it.

class TestMyRetention(RetentionContract):
    @pytest.fixture
    def make(self):
        return lambda retention, clock: MyHistory(retention=retention, clock=clock)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest

from memory.history.protocol import Summary
from memory.history.retention import LOOK_AHEAD, Retention
from memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock

HOUR = timedelta(hours=1)


class SettableClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


HistoryFactory: TypeAlias = Callable[[Retention, SettableClock], Any]


class RetentionContract:
    """One behaviour a test; the subclass's fixture ``make`` returns a function of a retention and a clock."""

    def test_a_session_keeps_its_newest_messages(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=3, unremembered="drop"), SettableClock())
        for text in "abcde":
            append_user_text(history, text)
        append_user_text(history, "x", session="other")
        assert loaded_texts(history) == ["c", "d", "e"]
        (info,) = [info for info in asyncio.run(history.sessions()) if info.session == "s"]
        assert (info.messages, info.begins) == (3, "c")

    def test_more_than_the_maximum_at_once_keeps_the_newest_of_them(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=2, unremembered="drop"), SettableClock())
        numbers = asyncio.run(history.append("s", [Message.user(text) for text in "abcde"]))
        assert numbers == [1, 2, 3, 4, 5]
        assert loaded_texts(history) == ["d", "e"]
        assert asyncio.run(history.replace("s", [Message.user(text) for text in "fgh"])) == [6, 7, 8]
        assert loaded_texts(history) == ["g", "h"]

    def test_a_call_goes_with_its_results_or_not_at_all(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=3, unremembered="drop"), SettableClock())
        asyncio.run(history.append("s", [Message.user("q"), *tool_call_round(2), Message.assistant("a")]))
        assert loaded_texts(history) == ["a"]
        asyncio.run(history.append("s", tool_call_round(5)))
        assert [row.message.role for row in asyncio.run(history.load("s"))] == ["assistant", *["tool"] * 5]

    def test_a_call_with_very_many_results_is_one_group_too(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=2, unremembered="drop"), SettableClock())
        asyncio.run(history.append("s", tool_call_round(LOOK_AHEAD + 2)))
        append_user_text(history, "a")
        assert loaded_texts(history) == ["a"]

    def test_system_messages_neither_count_nor_go(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=2, unremembered="drop"), SettableClock())
        asyncio.run(history.append("s", [Message.system("be brief"), *(Message.user(text) for text in "abc")]))
        assert loaded_texts(history) == ["be brief", "b", "c"]

    def test_a_session_that_is_idle_for_too_long_is_over_at_once(self, make: HistoryFactory) -> None:
        clock = SettableClock()
        history = make(Retention(idle=HOUR, unremembered="drop"), clock)
        asyncio.run(history.append("s", [Message.system("be brief"), Message.user("a")], namespace="n"))
        clock.now += HOUR - timedelta(seconds=1)
        assert len(asyncio.run(history.load("s", namespace="n"))) == 2
        clock.now += timedelta(seconds=1)
        assert asyncio.run(history.load("s", namespace="n")) == []
        assert asyncio.run(history.sessions(namespace="n")) == []
        assert asyncio.run(history.namespaces()) == []
        append_user_text(history, "b", session="other")
        assert asyncio.run(history.append("s", [Message.user("c")], namespace="n")) == [3]
        assert [row.sequence for row in asyncio.run(history.load("s", namespace="n"))] == [3]

    def test_adding_keeps_a_session_alive(self, make: HistoryFactory) -> None:
        clock = SettableClock()
        history = make(Retention(idle=HOUR, unremembered="drop"), clock)
        for text in "abc":
            append_user_text(history, text)
            clock.now += timedelta(minutes=59)
        assert loaded_texts(history) == ["a", "b", "c"]

    def test_adding_nothing_keeps_no_session_alive(self, make: HistoryFactory) -> None:
        clock = SettableClock()
        history = make(Retention(idle=HOUR, unremembered="drop"), clock)
        append_user_text(history, "a")
        clock.now += HOUR - timedelta(seconds=1)
        assert asyncio.run(history.append("s", [])) == []
        clock.now += timedelta(seconds=1)
        assert loaded_texts(history) == []

    def test_a_session_that_was_over_begins_anew_with_numbers_of_its_own(self, make: HistoryFactory) -> None:
        clock = SettableClock()
        history = make(Retention(idle=HOUR, unremembered="keep"), clock)
        asyncio.run(history.append("s", [Message.system("be brief"), Message.user("a")]))
        clock.now += 2 * HOUR
        assert asyncio.run(history.append("s", [Message.user("b")])) == [3]
        assert loaded_texts(history) == ["b"]

    @pytest.mark.parametrize("limit", [{"messages": 1}, {"idle": HOUR}])
    def test_what_long_term_memory_has_not_taken_waits_for_it_unseen(
        self, make: HistoryFactory, limit: dict[str, Any]
    ) -> None:
        clock = SettableClock()
        history = make(Retention(**limit, unremembered="keep"), clock)
        append_user_text(history, "a")
        clock.now += 2 * HOUR
        append_user_text(history, "b")
        assert loaded_texts(history) == ["b"]
        waiting = history.rows.unsettled(10)
        assert [row.message.text for row in waiting] == ["a", "b"]
        history.rows.settle(waiting[:1])
        assert [row.message.text for row in history.rows.unsettled(10)] == ["b"]
        assert history.rows.at([("s", 1)]) == []

    def test_dropped_is_what_was_not_taken_where_that_is_wanted(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=1, unremembered="drop"), SettableClock())
        append_user_text(history, "a")
        append_user_text(history, "b")
        assert [row.message.text for row in history.rows.unsettled(10)] == ["b"]

    def test_what_leaves_stays_summed_up_but_a_session_that_is_over_does_not(self, make: HistoryFactory) -> None:
        clock = SettableClock()
        history = make(Retention(messages=2, idle=HOUR, unremembered="drop"), clock)
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b")]))
        kept = history.keep_summary("s", Summary("brief", "a, b", 2, 2), before=None, made_of=[1, 2])
        assert asyncio.run(kept)
        append_user_text(history, "c")
        assert loaded_texts(history) == ["b", "c"]
        assert asyncio.run(history.summary("s", "brief")).text == "a, b"
        clock.now += HOUR
        assert asyncio.run(history.summary("s", "brief")) is None
        append_user_text(history, "d")
        assert asyncio.run(history.summary("s", "brief")) is None

    def test_clearing_counts_what_was_shown_and_takes_all(self, make: HistoryFactory) -> None:
        history = make(Retention(messages=2, unremembered="keep"), SettableClock())
        for text in "abcd":
            append_user_text(history, text)
        assert asyncio.run(history.clear("s")) == 2
        assert history.rows.unsettled(10) == []


def append_user_text(history: Any, text: str, *, session: str = "s") -> None:
    """Append one message of the user."""
    asyncio.run(history.append(session, [Message.user(text)]))


def loaded_texts(history: Any) -> list[str]:
    """Return what a reading of the session gives."""
    return [row.message.text for row in asyncio.run(history.load("s"))]


def tool_call_round(results: int) -> list[Message]:
    """Return a round of *results* tool calls."""
    calls = [ToolCallBlock(id=f"c{i}", name="look") for i in range(results)]
    answers = [ToolResultBlock(call_id=call.id, content=(TextBlock(text="found"),)) for call in calls]
    return [Message.assistant(calls), *(Message.tool([answer]) for answer in answers)]
