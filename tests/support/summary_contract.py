"""Contract suite of summary storages: subclass it, give it a history that keeps summaries, run it.

class TestMySummaries(SummaryStorageContract):
    @pytest.fixture
    def history(self) -> HistoryStorage:
        return MyHistory(...)

Inner parts, on no face: ``tellback.memory.messages``, ``tellback.memory.history.protocol``,
``tellback.memory.testing.history_contract``, ``tellback.memory.errors``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tellback.memory.errors import ArgumentError
from tellback.memory.history.protocol import Summary, SummaryStorage
from tellback.memory.messages import Message
from tellback.memory.testing.history_contract import SyncHistory

FIRST = Summary("brief", 'They said "olé"; 記憶.', 2, 2)
SECOND = Summary("brief", "They went on.", 4, 4)
SIX = "123456"


class SummaryStorageContract:
    """One behaviour a test; the subclass's fixture ``history`` gives an empty history that keeps summaries."""

    @pytest.fixture
    def storage(self, history: Any) -> SyncHistory:
        """The history, with six messages in a session, for tests that await nothing."""
        assert isinstance(history, SummaryStorage)
        storage = SyncHistory(history)
        storage.append_user(*SIX)
        return storage

    def test_a_summary_comes_back_with_the_time_of_its_keeping(self, storage: SyncHistory) -> None:
        assert storage.summary("s", "brief") is None
        assert keep_summary(storage, FIRST)
        found = storage.summary("s", "brief")
        assert (found.name, found.text, found.through, found.messages) == ("brief", FIRST.text, 2, 2)
        assert found.at is not None

    def test_a_summary_is_continued_by_the_messages_after_it(self, storage: SyncHistory) -> None:
        keep_summary(storage, FIRST)
        before = storage.summary("s", "brief")
        assert keep_summary(storage, SECOND, made_of=[3, 4], before=before)
        assert storage.summary("s", "brief").text == SECOND.text
        assert storage.texts() == list(SIX)

    def test_a_summary_that_does_not_continue_the_kept_one_is_not_kept(self, storage: SyncHistory) -> None:
        keep_summary(storage, FIRST)
        assert not keep_summary(storage, SECOND, made_of=[3, 4])
        assert not keep_summary(storage, SECOND, made_of=[3, 4], before=Summary("brief", "other words", 2, 2))
        assert storage.summary("s", "brief").text == FIRST.text

    def test_a_summary_of_messages_that_are_gone_is_not_kept(self, storage: SyncHistory) -> None:
        storage.delete("s", [1])
        assert not keep_summary(storage, FIRST)
        assert not keep_summary(storage, FIRST, session="unknown")
        assert storage.summary("s", "brief") is None

    @pytest.mark.parametrize("method", ["delete", "replace", "clear"])
    def test_a_summary_goes_with_a_message_it_was_made_of(self, storage: SyncHistory, method: str) -> None:
        keep_summary(storage, FIRST)
        anew = [Message.user("1"), Message.user("2")]
        arguments: dict[str, list[Any]] = {"delete": [[2]], "replace": [anew], "clear": []}
        getattr(storage, method)("s", *arguments[method])
        assert storage.summary("s", "brief") is None

    def test_a_summary_stays_when_a_later_message_goes_or_comes(self, storage: SyncHistory) -> None:
        keep_summary(storage, FIRST)
        storage.delete("s", [3, 99])
        storage.append_user("7")
        assert storage.summary("s", "brief") is not None

    def test_summaries_of_other_names_sessions_and_namespaces_are_others(self, storage: SyncHistory) -> None:
        storage.append_user(*SIX, session="t")
        storage.append_user(*SIX, namespace="n")
        keep_summary(storage, FIRST)
        assert storage.summary("s", "long") is storage.summary("t", "brief") is None
        assert storage.summary("s", "brief", namespace="n") is None
        storage.clear("t")
        storage.clear("s", namespace="n")
        assert storage.summary("s", "brief") is not None

    def test_of_several_kept_at_once_from_the_same_state_one_is_kept(self, history: Any, storage: SyncHistory) -> None:
        rivals = [Summary("brief", str(i), 2, 2) for i in range(5)]

        async def keep_at_once() -> int:
            keeping = (history.keep_summary("s", rival, before=None, made_of=[1, 2]) for rival in rivals)
            return sum(await asyncio.gather(*keeping))

        assert asyncio.run(keep_at_once()) == 1
        assert storage.summary("s", "brief").text in "01234"

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
    def test_bad_summaries_are_refused(
        self, storage: SyncHistory, summary: Any, made_of: list[int], argument: str
    ) -> None:
        with pytest.raises(ArgumentError, match=argument):
            keep_summary(storage, summary, made_of=made_of)
        assert storage.summary("s", "brief") is None


def keep_summary(
    storage: SyncHistory,
    summary: Any,
    *,
    made_of: Sequence[int] = (1, 2),
    before: Summary | None = None,
    session: str = "s",
) -> bool:
    """Keep *summary*; return whether it was kept."""
    kept: bool = storage.keep_summary(session, summary, before=before, made_of=made_of)
    return kept
