"""The database in the memory of the process: components, late opening, what it says of a file, closing."""

from __future__ import annotations

import threading

import pytest

from tellback.vectorstore import ArgumentError, Database, FileDatabase, StoreClosed, TableComponent, UnsupportedError
from tellback.vectorstore.sqlite import InMemoryDatabase, SqliteDatabase


def m001_notes(connection):
    connection.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")


NOTES = TableComponent("notes", (m001_notes,), ("notes",))


def write_note(database, text):
    with database.write() as connection:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def notes(database):
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY key")]


def test_an_in_memory_database_holds_the_tables_of_its_components():
    with InMemoryDatabase(components=(NOTES,)) as database:
        assert isinstance(database, Database)
        database.attach(NOTES)
        write_note(database, "a")
        assert notes(database) == ["a"]
        assert database.verify() == []
        database.rebuild()
        with pytest.raises(ArgumentError, match="another part is named"):
            database.attach(TableComponent("notes", (), ()))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_an_error_rolls_back_tables_attached_inside_its_transaction(level):
    """The tables are made by the innermost block, and still each of the outer ones can be undone, and says so."""
    database, undone = InMemoryDatabase(), []
    database.on_rollback = lambda: undone.append(level)

    def nested(depth):
        with database.write():
            if depth < 3:
                nested(depth + 1)
            else:
                database.attach(NOTES)
                write_note(database, "a")
            if depth == level:
                raise KeyError

    with database.write():
        with pytest.raises(KeyError):
            nested(1)
        assert set(undone) == {level}
    database.attach(NOTES)
    assert notes(database) == []


def test_a_salvaged_file_has_every_row_of_a_table_component(tmp_path):
    with SqliteDatabase(tmp_path / "a.db", components=(NOTES,)) as file:
        write_note(file, "a")
        write_note(file, "b")
        assert file.salvage(tmp_path / "b.db").whole
    with SqliteDatabase(tmp_path / "b.db", components=(NOTES,)) as file:
        assert notes(file) == ["a", "b"]


def test_an_in_memory_database_is_in_no_file_does_not_last_and_has_no_pending_erasure():
    with InMemoryDatabase(token=bytes) as database:
        assert not isinstance(database, FileDatabase)
        assert not database.lasting
        assert database.identity == "00" * 16
        assert not database.read_only
        with pytest.raises(UnsupportedError):
            database.on_commit(lambda: None)
        with database.write() as connection:
            database.mark_erasure(connection)
            with pytest.raises(ArgumentError):
                database.mark_erasure(object())
        assert database.finish_erasure()
        assert not database.pending_erasure()


@pytest.mark.parametrize("block", ["read", "write"])
def test_a_closed_in_memory_database_raises_store_closed_but_ends_an_open_block(block):
    database = InMemoryDatabase(components=(NOTES,))
    with getattr(database, block)() as connection:
        database.close()
        assert connection.execute("SELECT count(*) FROM notes").fetchall() == [(0,)]
        if block == "write":
            connection.execute("INSERT INTO notes (text) VALUES ('a')")
    for call in (database.verify, lambda: notes(database), lambda: write_note(database, "b")):
        with pytest.raises(StoreClosed):
            call()
    database.close()


def test_an_in_memory_read_block_holds_the_shared_lock_against_other_threads():
    lock = threading.RLock()
    database = InMemoryDatabase(lock=lock, components=(NOTES,))
    with database.read():
        assert lock.acquire(blocking=False)
        lock.release()
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert outcome == [False]
