"""Contract suite of summary storages: subclass it, give it a history that keeps summaries, run it.

class TestMySummaries(SummaryStorageContract):
    @pytest.fixture
    def history(self) -> HistoryStorage:
        return MyHistory(...)
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memory.errors import ArgumentError
from memory.history.protocol import Summary, SummaryStorage
from memory.messages import Message

FIRST = Summary("brief", 'They said "olé"; 記憶.', 2, 2)
SECOND = Summary("brief", "They went on.", 4, 4)


class SummaryStorageContract:
    """One behaviour a test; the subclass's fixture ``history`` gives an empty history that keeps summaries."""

    def test_a_summary_comes_back_with_the_time_of_its_keeping(self, history: Any) -> None:
        assert isinstance(history, SummaryStorage)
        append_six_messages(history)
        assert asyncio.run(history.summary("s", "brief")) is None
        assert keep_summary(history, FIRST, made_of=[1, 2])
        found = asyncio.run(history.summary("s", "brief"))
        assert found is not None
        assert (found.name, found.text, found.through, found.messages) == ("brief", FIRST.text, 2, 2)
        assert found.at is not None

    def test_a_summary_is_continued_by_the_messages_after_it(self, history: Any) -> None:
        append_six_messages(history)
        keep_summary(history, FIRST, made_of=[1, 2])
        before = asyncio.run(history.summary("s", "brief"))
        assert keep_summary(history, SECOND, made_of=[3, 4], before=before)
        assert asyncio.run(history.summary("s", "brief")).text == SECOND.text
        assert len(asyncio.run(history.load("s"))) == 6

    def test_one_that_does_not_continue_what_is_there_is_not_kept(self, history: Any) -> None:
        append_six_messages(history)
        keep_summary(history, FIRST, made_of=[1, 2])
        assert not keep_summary(history, SECOND, made_of=[3, 4])
        assert not keep_summary(history, SECOND, made_of=[3, 4], before=Summary("brief", "other words", 2, 2))
        assert asyncio.run(history.summary("s", "brief")).text == FIRST.text

    def test_one_of_messages_that_are_gone_is_not_kept(self, history: Any) -> None:
        append_six_messages(history)
        asyncio.run(history.delete("s", [1]))
        assert not keep_summary(history, FIRST, made_of=[1, 2])
        assert not keep_summary(history, FIRST, made_of=[1, 2], session="unknown")
        assert asyncio.run(history.summary("s", "brief")) is None

    @pytest.mark.parametrize("way", ["delete", "replace", "clear"])
    def test_it_goes_with_a_message_it_was_made_of(self, history: Any, way: str) -> None:
        append_six_messages(history)
        keep_summary(history, FIRST, made_of=[1, 2])
        if way == "delete":
            asyncio.run(history.delete("s", [2]))
        elif way == "replace":
            asyncio.run(history.replace("s", [Message.user("1"), Message.user("2")]))
        else:
            asyncio.run(history.clear("s"))
        assert asyncio.run(history.summary("s", "brief")) is None

    def test_it_stays_when_a_later_message_goes_or_comes(self, history: Any) -> None:
        append_six_messages(history)
        keep_summary(history, FIRST, made_of=[1, 2])
        asyncio.run(history.delete("s", [3, 99]))
        asyncio.run(history.append("s", [Message.user("7")]))
        assert asyncio.run(history.summary("s", "brief")) is not None

    def test_summaries_of_other_names_sessions_and_namespaces_are_others(self, history: Any) -> None:
        append_six_messages(history)
        append_six_messages(history, session="t")
        append_six_messages(history, namespace="n")
        keep_summary(history, FIRST, made_of=[1, 2])
        assert asyncio.run(history.summary("s", "long")) is None
        assert asyncio.run(history.summary("t", "brief")) is None
        assert asyncio.run(history.summary("s", "brief", namespace="n")) is None
        asyncio.run(history.clear("t"))
        asyncio.run(history.clear("s", namespace="n"))
        assert asyncio.run(history.summary("s", "brief")) is not None

    def test_of_two_that_continue_the_same_one_is_kept(self, history: Any) -> None:
        append_six_messages(history)

        rivals = [Summary("brief", str(i), 2, 2) for i in range(5)]

        async def all_at_once() -> int:
            kept = await asyncio.gather(
                *(history.keep_summary("s", summary, before=None, made_of=[1, 2]) for summary in rivals)
            )
            return sum(kept)

        assert asyncio.run(all_at_once()) == 1

    @pytest.mark.parametrize(
        ("summary", "made_of", "argument"),
        [
            ("text", [1], "summary"),
            (Summary("", "x", 1, 1), [1], "name"),
            (Summary("a\0b", "x", 1, 1), [1], "name"),
            (Summary("brief", " ", 1, 1), [1], "text"),
            (Summary("brief", "\ud800", 1, 1), [1], "text"),
            (Summary("brief", "x", 0, 1), [1], "through"),
            (Summary("brief", "x", 1, True), [1], "messages"),
            (Summary("brief", "x", 2, 1), [], "made_of"),
            (Summary("brief", "x", 2, 1), [1], "made_of"),
            (Summary("brief", "x", 2, 1), [0, 2], "made_of"),
        ],
    )
    def test_bad_summaries_are_refused(self, history: Any, summary: Any, made_of: list[int], argument: str) -> None:
        append_six_messages(history)
        with pytest.raises(ArgumentError, match=argument):
            keep_summary(history, summary, made_of=made_of)
        assert asyncio.run(history.summary("s", "brief")) is None


def append_six_messages(history: Any, *, session: str = "s", namespace: str = "") -> None:
    """Give a session six messages."""
    asyncio.run(history.append(session, [Message.user(str(i)) for i in range(1, 7)], namespace=namespace))


def keep_summary(
    history: Any, summary: Any, *, made_of: list[int], before: Summary | None = None, session: str = "s"
) -> bool:
    """Keep *summary*; say whether it was."""
    kept: bool = asyncio.run(history.keep_summary(session, summary, before=before, made_of=made_of))
    return kept
