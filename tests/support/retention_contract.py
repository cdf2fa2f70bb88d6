"""Contract suite of histories with a retention: subclass it, say how one is made, run it.

class TestMyRetention(RetentionContract):
    @pytest.fixture
    def make(self):
        return lambda retention, clock: MyHistory(retention=retention, clock=clock)

Inner parts, on no face: ``tellback.memory.messages``, ``tellback.memory.history.retention``,
``tellback.memory.testing.history_contract``, ``tellback.memory.history.protocol``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest

from tellback.memory.history.protocol import Summary
from tellback.memory.history.retention import LOOK_AHEAD, Retention
from tellback.memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from tellback.memory.testing.history_contract import SyncHistory

HOUR = timedelta(hours=1)


class SettableClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


HistoryFactory: TypeAlias = Callable[..., SyncHistory]


class RetentionContract:
    """One behaviour a test; the subclass's fixture ``make`` returns a function of a retention and a clock."""

    @pytest.fixture
    def clock(self) -> SettableClock:
        """The clock of the histories."""
        return SettableClock()

    @pytest.fixture
    def open(self, make: Callable[[Retention, SettableClock], Any], clock: SettableClock) -> HistoryFactory:
        """A function that returns a history of a retention, for tests that await nothing."""
        return lambda **limits: SyncHistory(make(Retention(**{"unremembered": "drop", **limits}), clock))

    def test_a_session_keeps_its_newest_messages(self, open: HistoryFactory) -> None:
        history = open(messages=3)
        for text in "abcde":
            history.append_user(text)
        history.append_user("x", session="other")
        assert history.texts() == ["c", "d", "e"]
        (info,) = [info for info in history.sessions() if info.session == "s"]
        assert (info.messages, info.begins) == (3, "c")

    def test_more_than_the_maximum_at_once_keeps_the_newest_of_them(self, open: HistoryFactory) -> None:
        history = open(messages=2)
        assert history.append_user(*"abcde") == [1, 2, 3, 4, 5]
        assert history.texts() == ["d", "e"]
        assert history.replace("s", [Message.user(text) for text in "fgh"]) == [6, 7, 8]
        assert history.texts() == ["g", "h"]

    def test_a_call_goes_with_its_results_or_not_at_all(self, open: HistoryFactory) -> None:
        history = open(messages=3)
        history.append("s", [Message.user("q"), *tool_call_round(2), Message.assistant("a")])
        assert history.texts() == ["a"]
        history.append("s", tool_call_round(5))
        assert [row.message.role for row in history.load("s")] == ["assistant", *["tool"] * 5]
        history.append("s", tool_call_round(LOOK_AHEAD + 2))
        history.append_user("b")
        assert history.texts() == ["b"]

    def test_system_messages_neither_count_nor_go(self, open: HistoryFactory) -> None:
        history = open(messages=2)
        history.append("s", [Message.system("be brief"), *(Message.user(text) for text in "abc")])
        assert history.texts() == ["be brief", "b", "c"]

    def test_a_session_that_is_idle_for_too_long_is_over_at_once(
        self, open: HistoryFactory, clock: SettableClock
    ) -> None:
        history = open(idle=HOUR)
        history.append("s", [Message.system("be brief"), Message.user("a")], namespace="n")
        clock.now += HOUR - timedelta(seconds=1)
        assert len(history.load("s", namespace="n")) == 2
        clock.now += timedelta(seconds=1)
        assert history.load("s", namespace="n") == history.sessions(namespace="n") == history.namespaces() == []
        history.append_user("b", session="other")
        assert history.append_user("c", namespace="n") == [3]
        assert [row.sequence for row in history.load("s", namespace="n")] == [3]

    def test_adding_keeps_a_session_alive_and_adding_nothing_does_not(
        self, open: HistoryFactory, clock: SettableClock
    ) -> None:
        history = open(idle=HOUR)
        for text in "abc":
            clock.now += timedelta(minutes=59)
            history.append_user(text)
        assert history.texts() == ["a", "b", "c"]
        clock.now += timedelta(minutes=59)
        assert history.append("s", []) == []
        clock.now += timedelta(minutes=1)
        assert history.texts() == []

    def test_a_session_that_was_over_begins_anew_with_numbers_of_its_own(
        self, open: HistoryFactory, clock: SettableClock
    ) -> None:
        history = open(idle=HOUR, unremembered="keep")
        history.append("s", [Message.system("be brief"), Message.user("a")])
        clock.now += 2 * HOUR
        assert history.append_user("b") == [3]
        assert history.texts() == ["b"]

    @pytest.mark.parametrize("limit", [{"messages": 1}, {"idle": HOUR}])
    def test_messages_not_yet_in_long_term_memory_wait_unseen(
        self, open: HistoryFactory, clock: SettableClock, limit: dict[str, Any]
    ) -> None:
        history = open(**limit, unremembered="keep")
        history.append_user("a")
        clock.now += 2 * HOUR
        history.append_user("b")
        assert history.texts() == ["b"]
        waiting = history.rows.unsettled(10)
        assert [row.message.text for row in waiting] == ["a", "b"]
        history.rows.settle(waiting[:1])
        assert [row.message.text for row in history.rows.unsettled(10)] == ["b"]
        assert history.rows.at([("s", 1)]) == []

    def test_messages_not_yet_in_long_term_memory_are_dropped_if_wanted(self, open: HistoryFactory) -> None:
        history = open(messages=1)
        history.append_user("a")
        history.append_user("b")
        assert [row.message.text for row in history.rows.unsettled(10)] == ["b"]

    def test_messages_that_leave_stay_summed_up_until_their_session_is_over(
        self, open: HistoryFactory, clock: SettableClock
    ) -> None:
        history = open(messages=2, idle=HOUR)
        history.append_user("a", "b")
        assert history.keep_summary("s", Summary("brief", "a, b", 2, 2), before=None, made_of=[1, 2])
        history.append_user("c")
        assert history.texts() == ["b", "c"]
        assert history.summary("s", "brief").text == "a, b"
        clock.now += HOUR
        assert history.summary("s", "brief") is None
        history.append_user("d")
        assert history.summary("s", "brief") is None

    def test_clearing_counts_the_shown_messages_and_removes_all(self, open: HistoryFactory) -> None:
        history = open(messages=2, unremembered="keep")
        history.append_user(*"abcd")
        assert history.clear("s") == 2
        assert history.rows.unsettled(10) == []


def tool_call_round(results: int) -> list[Message]:
    """Return a round of *results* tool calls."""
    calls = [ToolCallBlock(id=f"c{i}", name="look") for i in range(results)]
    answers = [ToolResultBlock(call_id=call.id, content=(TextBlock(text="found"),)) for call in calls]
    return [Message.assistant(calls), *(Message.tool([answer]) for answer in answers)]
