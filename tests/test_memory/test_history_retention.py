"""Summaries and retention in both histories: the contracts, erasure, damage, kills, and files of an earlier version.

Inner parts, on no face: ``tellback.memory.history.retention``, ``tellback.memory.history.schema``,
``tellback.memory.history.protocol``, ``tellback.vectorstore.sqlite.salvage``.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tellback.memory import ArgumentError, DatabaseHistory, InMemoryHistory, Message, Retention
from tellback.memory.history.protocol import Summary
from tellback.memory.history.retention import first_retained, session_cutoff
from tellback.memory.history.schema import HistoryTables, m001_history_tables
from tellback.vectorstore import DamageError, Database, Finding
from tellback.vectorstore.sqlite import SqliteDatabase, salvage, salvage_database
from tests.support.retention_contract import RetentionContract
from tests.support.summary_contract import SummaryStorageContract

ROOT = Path(__file__).resolve().parents[2]
FEW = Retention(messages=2, unremembered="keep")
FIRST = Summary("brief", "the plumber called", 2, 2)


class TestSummariesInMemory(SummaryStorageContract):
    @pytest.fixture
    def history(self) -> InMemoryHistory:
        return InMemoryHistory()


class TestSummariesInTheFile(SummaryStorageContract):
    @pytest.fixture
    def history(self, tmp_path: Path) -> Iterator[DatabaseHistory]:
        with SqliteDatabase(tmp_path / "m.db") as database:
            yield DatabaseHistory(database)


class TestRetentionInMemory(RetentionContract):
    @pytest.fixture
    def make(self) -> Any:
        return lambda retention, clock: InMemoryHistory(retention=retention, clock=clock)


class TestRetentionInTheFile(RetentionContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Any]:
        with SqliteDatabase(tmp_path / "m.db") as database:
            yield lambda retention, clock: DatabaseHistory(database, retention=retention, clock=clock)


class TestSummariesOnAServer(SummaryStorageContract):
    @pytest.fixture
    def history(self, server_database: Database) -> DatabaseHistory:
        return DatabaseHistory(server_database)


class TestRetentionOnAServer(RetentionContract):
    @pytest.fixture
    def make(self, server_database: Database) -> Any:
        return lambda retention, clock: DatabaseHistory(server_database, retention=retention, clock=clock)


@pytest.fixture
def history(database: Database) -> DatabaseHistory:
    return DatabaseHistory(database)


def said(*texts: str) -> list[Message]:
    return [Message.user(text) for text in texts]


def summed_up(history: Any, session: str = "s", namespace: str = "", text: str = FIRST.text) -> None:
    asyncio.run(history.append(session, said("a", "b", "c"), namespace=namespace))
    summary = Summary("brief", text, 2, 2)
    kept = history.keep_summary(session, summary, before=None, made_of=[1, 2], namespace=namespace)
    assert asyncio.run(kept)


def has_summary(history: Any, session: str = "s", namespace: str = "") -> bool:
    return asyncio.run(history.summary(session, "brief", namespace=namespace)) is not None


def test_erasing_a_message_erases_the_summary_made_of_it(history: Any) -> None:
    summed_up(history)
    history.rows.erase(history.rows.at([("s", 3)]))
    assert has_summary(history)
    history.rows.erase(history.rows.at([("s", 1)]))
    assert not has_summary(history)


def test_erase_summaries_by_memory_id_works_after_the_message_left_history_by_retention(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "m.db") as database:
        for history in (InMemoryHistory(retention=FEW), DatabaseHistory(database, retention=FEW)):
            history.rows.append("s", said("a", "b"), memories=["id-a", "id-b"])
            history.rows.settle([replace(row, memory=f"id-{row.message.text}") for row in history.rows.unsettled(9)])
            kept = history.keep_summary("s", FIRST, before=None, made_of=[1, 2])
            assert asyncio.run(kept)
            asyncio.run(history.append("s", said("c", "d")))
            assert history.rows.of_memories(["id-a", "id-b"]) == []
            assert history.rows.erase_summaries(["id-c"]) == 0
            assert history.rows.erase_summaries(["id-b"], namespace="n") == 0
            assert history.rows.erase_summaries(["id-b"]) == 1
            assert not has_summary(history)
            assert history.rows.erase_summaries(["id-a", "id-b"]) == 0


def test_summaries_are_erased_by_the_words_they_hold(history: Any) -> None:
    summed_up(history)
    summed_up(history, session="t", text="nothing of interest")
    summed_up(history, namespace="n")
    assert history.rows.erase_summaries([], lambda words: "plumber" in words) == 1
    assert (has_summary(history), has_summary(history, "t"), has_summary(history, namespace="n")) == (False, True, True)


def test_the_bytes_of_an_erased_summary_are_not_in_the_file(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "m.db")
    history = DatabaseHistory(database)
    summed_up(history, text="the zyzzyva sits in the cupboard")
    assert b"zyzzyva" in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    history.rows.erase(history.rows.at([("s", 1)]))
    assert b"zyzzyva" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    database.close()


def test_a_rolled_back_erasure_leaves_the_summary_and_its_messages(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "m.db") as database:
        history = DatabaseHistory(database)
        summed_up(history)
        with suppress(RuntimeError), database.write():
            history.rows.erase(history.rows.at([("s", 1)]))
            raise RuntimeError
        assert has_summary(history)
        assert len(asyncio.run(history.load("s"))) == 3


def damaged(tmp_path: Path, statement: str) -> SqliteDatabase:
    with SqliteDatabase(tmp_path / "m.db") as database:
        summed_up(DatabaseHistory(database))
    connection = apsw.Connection(str(tmp_path / "m.db"))
    connection.execute(statement)
    connection.close()
    return SqliteDatabase(tmp_path / "m.db")


def test_a_damaged_summary_is_found_by_verify_never_returned_and_dropped_by_rebuild(tmp_path: Path) -> None:
    with damaged(tmp_path, "UPDATE history_summaries SET text = 'something else'") as database:
        history = DatabaseHistory(database)
        with pytest.raises(DamageError, match="history"):
            asyncio.run(history.summary("s", "brief"))
        assert [finding.what for finding in database.verify()] == ["a summary is not what was written"]
        database.rebuild()
        assert database.verify() == []
        assert asyncio.run(history.summary("s", "brief")) is None


def test_a_session_without_bounds_is_shown_as_a_whole(tmp_path: Path) -> None:
    with damaged(tmp_path, "DELETE FROM history_bounds") as database:
        history = DatabaseHistory(database, retention=Retention(idle=timedelta(days=1), unremembered="drop"))
        assert database.verify() == []
        assert len(asyncio.run(history.load("s"))) == 3
        assert [item.session for item in asyncio.run(history.sessions())] == ["s"]
        assert has_summary(history)


def test_retention_drops_a_damaged_message_when_others_are_appended(tmp_path: Path) -> None:
    with damaged(tmp_path, "UPDATE history_messages SET message = 'nonsense' WHERE sequence = 1") as database:
        history = DatabaseHistory(database, retention=Retention(messages=2, unremembered="drop"))
        asyncio.run(history.append("s", said("d")))
        assert [item.message.text for item in asyncio.run(history.load("s"))] == ["c", "d"]


def test_salvage_saves_summaries_and_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage, "_FEW_KEYS", 100)
    with SqliteDatabase(tmp_path / "m.db") as database:
        history = DatabaseHistory(database, retention=Retention(messages=2, unremembered="keep"))
        summed_up(history)
        database.salvage(tmp_path / "saved.db")
    with SqliteDatabase(tmp_path / "saved.db") as saved:
        history = DatabaseHistory(saved)
        assert [item.message.text for item in asyncio.run(history.load("s"))] == ["b", "c"]
        assert has_summary(history)
        assert saved.verify() == []


class Earlier(HistoryTables):
    """The tables as they were at first."""

    def __init__(self) -> None:
        super().__init__()
        self.migrations = (m001_history_tables,)


def earlier_file(path: Path) -> None:
    with SqliteDatabase(path) as database:
        database.attach(Earlier())
        with database.write() as connection:
            connection.execute("INSERT INTO history_sessions VALUES (1, 'n', 's', 3)")
            for sequence, text in enumerate(("old", "older"), start=1):
                from tellback.memory.history.schema import history_checksum

                position, json = "2026-01-01T00:00:00.000000Z", Message.user(text).model_dump_json()
                row = (
                    sequence,
                    1,
                    sequence,
                    position,
                    "user",
                    json,
                    None,
                    0,
                    history_checksum(("n", "s"), sequence, position, json),
                )
                connection.execute("INSERT INTO history_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def test_a_history_file_of_the_first_schema_version_is_migrated_with_all_messages(tmp_path: Path) -> None:
    earlier_file(tmp_path / "m.db")
    with SqliteDatabase(tmp_path / "m.db") as database:
        history = DatabaseHistory(database)
        assert [item.message.text for item in asyncio.run(history.load("s", namespace="n"))] == ["old", "older"]
        assert asyncio.run(history.append("s", said("new"), namespace="n")) == [3]
        assert database.verify() == []


def test_a_failed_verification_after_migration_keeps_a_whole_copy_of_the_old_history_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier_file(tmp_path / "m.db")
    monkeypatch.setattr(HistoryTables, "verify", lambda *_: [Finding("history", "planted")])
    with SqliteDatabase(tmp_path / "m.db") as database:
        DatabaseHistory(database)
        (copy,) = database.migration_copies()
        assert Path(copy).name == "m.db.before-history-1-to-2.backup"
        assert (
            salvage_database(copy, tmp_path / "saved.db", components=[HistoryTables()]).saved("history_messages") == 2
        )


def test_a_history_file_of_the_first_schema_version_can_be_salvaged_without_migration(tmp_path: Path) -> None:
    earlier_file(tmp_path / "m.db")
    assert (
        salvage_database(tmp_path / "m.db", tmp_path / "saved.db", components=[HistoryTables()]).saved(
            "history_messages"
        )
        == 2
    )
    with SqliteDatabase(tmp_path / "saved.db") as saved:
        assert len(asyncio.run(DatabaseHistory(saved).load("s", namespace="n"))) == 2


def test_a_retention_limit_holds_for_histories_opened_without_retention(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "m.db") as database:
        strict = DatabaseHistory(database, retention=Retention(messages=1, unremembered="keep"))
        asyncio.run(strict.append("s", said("a", "b")))
        assert [item.message.text for item in asyncio.run(DatabaseHistory(database).load("s"))] == ["b"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["replace", "clear"])
def test_a_kill_within_a_history_replace_or_delete_leaves_the_state_before(tmp_path: Path, what: str) -> None:
    code = """
        import asyncio, os, sys
        from tellback.memory.messages import Message
        from tellback.memory.history.database import DatabaseHistory
        from tellback.vectorstore.sqlite import SqliteDatabase
        database = SqliteDatabase(sys.argv[1])
        history = DatabaseHistory(database)
        with database.write():
            if sys.argv[2] == "replace":
                history.rows.replace("s", [Message.user("new")])
            else:
                history.rows.delete("s", None)
            os._exit(9)
    """
    with SqliteDatabase(tmp_path / "m.db") as database:
        summed_up(DatabaseHistory(database))
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m.db"), what]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 9, run.stderr
    with SqliteDatabase(tmp_path / "m.db") as database:
        history = DatabaseHistory(database)
        assert [item.message.text for item in asyncio.run(history.load("s"))] == ["a", "b", "c"]
        assert has_summary(history)
        assert database.verify() == []


@pytest.mark.slow
def test_a_process_killed_during_repeated_replaces_leaves_one_whole_state(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from tellback.memory.messages import Message
        from tellback.memory.history.database import DatabaseHistory
        from tellback.vectorstore.sqlite import SqliteDatabase
        history = DatabaseHistory(SqliteDatabase(sys.argv[1]))
        number = 0
        while True:
            asyncio.run(history.replace("s", [Message.user(str(number))] * 7))
            print(number, flush=True)
            number += 1
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m.db")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ}) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(5)][-1]
        child.kill()
    with SqliteDatabase(tmp_path / "m.db") as database:
        texts = [item.message.text for item in asyncio.run(DatabaseHistory(database).load("s"))]
        assert len(texts) == 7
        assert len(set(texts)) == 1
        assert int(texts[0]) >= acknowledged
        assert database.verify() == []


@pytest.mark.slow
def test_concurrent_processes_keep_the_retention_limit_and_share_no_sequence_number(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from tellback.memory.messages import Message
        from tellback.memory.history.retention import Retention
        from tellback.memory.history.database import DatabaseHistory
        from tellback.vectorstore.sqlite import SqliteDatabase
        history = DatabaseHistory(SqliteDatabase(sys.argv[1]), retention=Retention(messages=5, unremembered="drop"))
        for number in range(30):
            print(*asyncio.run(history.append("s", [Message.user(f"{sys.argv[2]}{number}")])))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m.db")]
    children = [
        subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    items = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0, 0], items
    numbers = [int(line) for out, _ in items for line in out.split()]
    assert sorted(numbers) == list(range(1, 61))
    with SqliteDatabase(tmp_path / "m.db") as database:
        stored = asyncio.run(DatabaseHistory(database).load("s"))
        assert [item.sequence for item in stored] == [56, 57, 58, 59, 60]
        assert database.verify() == []


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"unremembered": "keep"}, "messages, idle"),
        ({"unremembered": "maybe", "messages": 1}, "unremembered"),
        ({"unremembered": "keep", "messages": 0}, "messages"),
        ({"unremembered": "keep", "messages": True}, "messages"),
        ({"unremembered": "keep", "messages": 1.5}, "messages"),
        ({"unremembered": "keep", "idle": timedelta(0)}, "idle"),
        ({"unremembered": "keep", "idle": 3600}, "idle"),
    ],
)
def test_an_unusable_retention_raises(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError, match=argument):
        Retention(**options)


def test_retention_requires_the_unremembered_argument() -> None:
    with pytest.raises(TypeError, match="unremembered"):
        Retention(messages=1)  # type: ignore[call-arg]  # bad on purpose


def test_a_retention_idle_time_longer_than_the_calendar_gives_no_cutoff() -> None:
    forever = Retention(idle=timedelta(days=999_999_999), unremembered="keep")
    assert session_cutoff(forever, datetime(2026, 1, 1, tzinfo=UTC)) == ""


def test_first_retained_is_undecided_while_a_message_group_may_continue() -> None:
    head = [(number, Message.user(str(number))) for number in range(1, 5)]
    assert first_retained(head, 2, whole=False) == 3
    assert first_retained(head, 4, whole=False) is None
    assert first_retained(head, 9, whole=True) == 4
