"""Conversation history, in memory and in the file: the contract, and the fields of its rows.

Inner parts, on no face: ``tellback.memory.history.protocol``, ``tellback.vectorstore.sqlite.salvage``.
"""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from tellback.memory import ArgumentError, DatabaseHistory, DocumentBlock, InMemoryHistory, Message, ToolCallBlock
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.testing import HistoryStorageContract
from tellback.vectorstore import DamageError
from tellback.vectorstore.sqlite import SqliteDatabase, salvage
from tests.support.clocks import TickingClock
from tests.support.own_history import ListHistory

ROOT = Path(__file__).resolve().parents[2]


class TestInMemoryHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self):
        return InMemoryHistory()


class TestOwnHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self):
        return ListHistory()


class TestDatabaseHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self, tmp_path):
        database = SqliteDatabase(tmp_path / "m.db")
        yield DatabaseHistory(database)
        database.close()


class TestServerHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self, server_database):
        return DatabaseHistory(server_database)


@pytest.fixture
def history(database):
    return DatabaseHistory(database, clock=TickingClock())


def said(*texts):
    return [Message.user(text) for text in texts]


def test_sessions_are_listed_with_the_one_used_last_first(history):
    for session in ("a", "b", "a"):
        asyncio.run(history.append(session, said("x")))
    infos = asyncio.run(history.sessions())
    assert [(info.session, info.messages) for info in infos] == [("a", 2), ("b", 1)]
    assert infos[0].first_at < infos[1].first_at < infos[0].last_at


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_sessions_used_at_the_same_time_are_listed_by_their_ids(kind, tmp_path):
    def clock():
        return datetime(2026, 1, 1, tzinfo=UTC)

    with closing(SqliteDatabase(tmp_path / "m.db")) as database:
        history = InMemoryHistory(clock=clock) if kind == "memory" else DatabaseHistory(database, clock=clock)
        for session in "bca":
            asyncio.run(history.append(session, said("x")))
        assert [info.session for info in asyncio.run(history.sessions())] == ["a", "b", "c"]


def test_a_history_row_stays_unsettled_until_its_memory_is_settled(history):
    history.rows.append("s", said("a", "b", "c"), namespace="n", memories=[None, "id-b", ""])
    waiting = history.rows.unsettled(10)
    assert [(row.message.text, row.memory) for row in waiting] == [("a", None), ("b", "id-b")]
    assert [row.message.text for row in history.rows.unsettled(1)] == ["a"]
    history.rows.settle([HistoryRow("n", "s", 1, waiting[0].message, waiting[0].at, "id-a")])
    assert [row.message.text for row in history.rows.unsettled(10)] == ["b"]
    assert [row.sequence for row in history.rows.of_memories(["id-a", "id-x", ""], namespace="n")] == [1]
    assert history.rows.of_memories(["id-a"]) == []


def test_a_reserved_history_row_stays_unsettled(history):
    history.rows.append("s", said("a"))
    (row,) = history.rows.unsettled(10)
    history.rows.reserve([HistoryRow("", "s", row.sequence, row.message, row.at, "id")])
    assert [row.memory for row in history.rows.unsettled(10)] == ["id"]


def test_replacing_history_keeps_the_memory_id_of_an_unchanged_message(history):
    history.rows.append("s", said("a", "b"), memories=["id-a", "id-b"])
    history.rows.settle([row for row in history.rows.unsettled(10) if row.memory == "id-a"])
    history.rows.replace("s", said("a", "new", "a"))
    stored = asyncio.run(history.load("s"))
    assert [(item.message.text, item.memory) for item in stored] == [("a", "id-a"), ("new", None), ("a", None)]
    assert [row.sequence for row in history.rows.unsettled(10)] == [4, 5]


def test_replacing_history_keeps_the_memory_ids_of_equal_messages_in_order(history):
    history.rows.append("s", said("yes", "yes", "no"), memories=["first", "second", "third"])
    history.rows.replace("s", said("yes", "yes"))
    assert [item.memory for item in asyncio.run(history.load("s"))] == ["first", "second"]


def test_history_rows_are_found_by_session_and_sequence(history):
    history.rows.append("s", said("a", "b"))
    assert [row.message.text for row in history.rows.at([("s", 2), ("s", 9), ("t", 1)])] == ["b"]


def test_history_rows_are_found_by_words_in_any_block_and_may_include_files(history):
    call = ToolCallBlock(id="1", name="note", arguments={"text": 'he said "olé"\n'})
    file = DocumentBlock(media_type="text/plain", data=b"in a file: olive")
    messages = [Message.assistant([call]), Message.user([file]), *said("nothing")]
    asyncio.run(history.append("s", messages))
    assert [row.sequence for row in history.rows.holding(['"olé"\n'])] == [
        1,
        2,
    ]  # files are looked into by the caller
    assert [row.sequence for row in history.rows.holding(["nothing"])] == [2, 3]
    assert history.rows.holding(["nothing"], namespace="other") == []


def test_erased_history_rows_are_not_loaded(history):
    asyncio.run(history.append("s", said("a", "b")))
    history.rows.erase(history.rows.at([("s", 1)]))
    assert [item.message.text for item in asyncio.run(history.load("s"))] == ["b"]


def test_appending_a_string_instead_of_a_message_list_is_refused(history):
    with pytest.raises(ArgumentError, match="messages"):
        asyncio.run(history.append("s", "hello"))


def test_history_survives_the_file_being_closed(tmp_path):
    first = SqliteDatabase(tmp_path / "m.db")
    asyncio.run(DatabaseHistory(first).append("s", said("a")))
    first.close()
    second = SqliteDatabase(tmp_path / "m.db")
    history = DatabaseHistory(second)
    assert [item.message.text for item in asyncio.run(history.load("s"))] == ["a"]
    assert asyncio.run(history.append("s", said("b"))) == [2]
    second.close()


class Halting(list[Message]):
    """A list that lets others go first before it is read for the second time, which is when it is stored."""

    def __init__(self, messages: list[Message], begun: threading.Event, turn: threading.Event) -> None:
        super().__init__(messages)
        self._begun, self._turn, self._read = begun, turn, 0

    def __iter__(self) -> Iterator[Message]:
        self._read += 1
        if self._read == 2:
            self._begun.set()
            self._turn.wait(0.2)  # where all is well nobody can go first, so that this is waited for
        return super().__iter__()


def test_concurrent_in_memory_appends_share_no_sequence_number():
    rows = InMemoryHistory().rows
    begun, gone_first = threading.Event(), threading.Event()
    given = {}

    def slow():
        given["slow"] = rows.append("s", Halting(said("a", "b"), begun, gone_first))

    def quick():
        assert begun.wait(60)
        given["quick"] = rows.append("s", said("c", "d"))
        gone_first.set()

    threads = [threading.Thread(target=slow), threading.Thread(target=quick)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given["slow"] + given["quick"]) == [1, 2, 3, 4]
    assert len(rows.load("s")) == 4


def test_two_sqlite_histories_on_one_file_never_give_the_same_sequence_number(tmp_path):
    item, other = SqliteDatabase(tmp_path / "m.db"), SqliteDatabase(tmp_path / "m.db")
    histories = [DatabaseHistory(item), DatabaseHistory(other)]

    async def both():
        tasks = [history.append("s", said(str(i))) for i in range(10) for history in histories]
        return await asyncio.gather(*tasks)

    numbers = [number for numbers in asyncio.run(both()) for number in numbers]
    assert sorted(numbers) == list(range(1, 21))
    item.close()
    other.close()


def test_a_killed_process_leaves_acknowledged_messages_and_no_partial_append(tmp_path):
    code = """
        import asyncio, os, sys
        from tellback.memory.messages import Message
        from tellback.memory.history.database import DatabaseHistory
        from tellback.vectorstore.sqlite import SqliteDatabase
        database = SqliteDatabase(sys.argv[1])
        history = DatabaseHistory(database)
        asyncio.run(history.append("s", [Message.user("kept")]))
        print("stored", flush=True)
        with database.write():
            history.rows.append("s", [Message.user("lost"), Message.user("lost")])
            os._exit(9)
    """
    path = tmp_path / "m.db"
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stdout) == (9, "stored\n"), run.stderr
    database = SqliteDatabase(path)
    history = DatabaseHistory(database)
    assert [item.message.text for item in asyncio.run(history.load("s"))] == ["kept"]
    assert database.verify() == []
    database.close()


def damaged(tmp_path, statement):
    path = tmp_path / "m.db"
    database = SqliteDatabase(path)
    asyncio.run(DatabaseHistory(database).append("s", said("pay Ann 10", "second")))
    database.close()
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
    return path


def test_a_damaged_message_raises_damage_error_and_is_found_by_verify(tmp_path):
    path = damaged(tmp_path, "UPDATE history_messages SET message = replace(message, 'Ann', 'Bob') WHERE sequence = 1")
    database = SqliteDatabase(path)
    history = DatabaseHistory(database)
    with pytest.raises(DamageError, match="history"):
        asyncio.run(history.load("s"))
    assert [finding.part for finding in database.verify()] == ["history"]
    database.close()


def test_verify_finds_a_reusable_sequence_number_and_rebuild_repairs_it(tmp_path):
    path = damaged(tmp_path, "UPDATE history_sessions SET next = 1")
    database = SqliteDatabase(path)
    history = DatabaseHistory(database)
    assert [finding.what for finding in database.verify()] == ["a sequence number could be given twice"]
    database.rebuild()
    assert database.verify() == []
    assert asyncio.run(history.append("s", said("third"))) == [3]
    database.close()


def test_salvage_saves_every_message_that_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(salvage, "_FEW_KEYS", 100)
    path = damaged(tmp_path, "UPDATE history_messages SET message = '{}' WHERE sequence = 1")
    database = SqliteDatabase(path)
    DatabaseHistory(database)
    database.salvage(tmp_path / "saved.db")
    database.close()
    saved = SqliteDatabase(tmp_path / "saved.db")
    history = DatabaseHistory(saved)
    assert [item.message.text for item in asyncio.run(history.load("s"))] == ["second"]
    assert asyncio.run(history.append("s", said("third"))) == [3]
    saved.close()
