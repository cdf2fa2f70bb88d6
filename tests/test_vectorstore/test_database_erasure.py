"""Deleted rows leave the bytes on the disk, at once or at the next chance, and the file says which.

Inner part, on no face: ``tellback.vectorstore.sqlite.page_gaps``.
"""

# ruff: noqa: PT012 - it is leaving a block of several statements that must raise
from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import apsw
import pytest

from tellback.vectorstore import ArgumentError, TableComponent, UnsupportedError
from tellback.vectorstore.sqlite import SqliteDatabase, secure_delete
from tellback.vectorstore.sqlite.page_gaps import clear_page_gaps

SECRET = b"the canary sings at four"


def table(sql):
    return TableComponent("t", [lambda connection: connection.execute(sql)], ["t"])


@pytest.fixture
def database(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", busy_timeout=300) as opened:
        opened.attach(table("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)"))
        with opened.write() as connection:
            for i in range(200):
                secret = SECRET.decode() if i % 2 else "ordinary"
                connection.execute("INSERT INTO t (b) VALUES (?)", (f"{i} {secret}",))
        opened.finish_erasure()
        yield opened


def traces(folder: Path) -> int:
    """Count the secret in every file of the folder.

    Reading a file here drops the locks that SQLite holds on it in this process, so the counting is done in another.
    """
    program = (
        "import pathlib, sys\n"
        "print(sum(path.read_bytes().count(sys.argv[2].encode()) for path in pathlib.Path(sys.argv[1]).iterdir()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), SECRET.decode()], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def forget(database):
    with database.write() as connection:
        connection.execute("DELETE FROM t WHERE b LIKE ?", (f"%{SECRET.decode()}",))
        database.mark_erasure(connection)


@contextmanager
def reader_elsewhere(database):
    """Another connection that is inside a read block until this one ends."""
    entered, leave = threading.Event(), threading.Event()

    def read():
        with database.read() as connection:
            connection.execute("SELECT count(*) FROM t").fetchall()
            entered.set()
            leave.wait(600)

    thread = threading.Thread(target=read)
    thread.start()
    assert entered.wait(300)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_without_readers_erased_bytes_are_gone_with_the_commit(database, tmp_path):
    assert traces(tmp_path) > 0
    forget(database)
    assert not database.pending_erasure()
    assert database.finish_erasure()
    assert traces(tmp_path) == 0


def test_copies_of_erased_rows_that_sqlite_left_between_rows_are_gone_with_the_commit(tmp_path):
    rng = random.Random(0)
    with SqliteDatabase(tmp_path / "m.db") as database, SqliteDatabase(tmp_path / "m.db") as other:
        database.attach(table("CREATE TABLE t (a TEXT PRIMARY KEY, b TEXT) WITHOUT ROWID"))
        keys = (rng.randbytes(rng.randint(2, 300)).hex() for _ in count())
        with database.write() as connection:  # pages are rebuilt while the secret rows are in them
            for _ in range(60):
                texts = [SECRET.decode()] * 4 + ["ordinary"] * 16
                connection.executemany("INSERT INTO t VALUES (?, ?)", zip(islice(keys, 20), texts, strict=True))
        with other.read() as connection:  # it has old pages in memory
            (kept,) = connection.execute("SELECT count(*) FROM t WHERE b = 'ordinary'").fetchone()
        with database.write() as connection:
            connection.execute("DELETE FROM t WHERE b <> 'ordinary'")
        assert database.empty_log()
        assert traces(tmp_path) > 0, "SQLite left nothing, so this shows nothing"
        with database.write() as connection:
            database.mark_erasure(connection)
        assert not database.pending_erasure()
        assert traces(tmp_path) == 0
        for writer in (other, database):
            with writer.write() as connection:
                connection.execute("UPDATE t SET b = 'changed'")
        assert database.empty_log()
        assert traces(tmp_path) == 0
        with database.read() as connection:
            assert connection.execute("SELECT count(*) FROM t WHERE b = 'changed'").fetchall() == [(kept,)]
        assert database.verify() == []


def test_recovery_of_a_torn_log_writes_nothing_of_the_memory_of_the_process_into_a_file(database, tmp_path):
    forget(database)
    assert database.empty_log()
    with database.write() as connection:
        connection.execute("INSERT INTO t (b) VALUES ('later')")
    (crashed := tmp_path / "crashed").mkdir()
    for name in ("m.db", "m.db-wal"):
        shutil.copy(tmp_path / name, crashed)
    with (crashed / "m.db-wal").open("rb+") as log:
        log.seek(100)
        log.write(b"torn")  # in the first frame
    # The allocator gives freed memory to the next who asks for as much: SQLite asks for 36,888 bytes.
    freed = [bytearray((SECRET * 2000)[:36_888]) for _ in range(200)]
    del freed[::2]
    with SqliteDatabase(crashed / "m.db") as opened:
        assert traces(crashed) == 0
        assert opened.verify() == []
    assert traces(crashed) == 0


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_clearing_page_gaps_leaves_rows_alone_in_a_file_written_without_secure_deletion(tmp_path, page_size):
    rng, connection = random.Random(page_size), apsw.Connection(str(tmp_path / "m.db"))
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("PRAGMA synchronous = off; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    connection.execute("CREATE INDEX i ON t (b); BEGIN")
    texts = [SECRET.decode() * rng.choice([1, 1, 3, 3 * page_size // len(SECRET)]) for _ in range(300)]
    connection.executemany("INSERT INTO t (b) VALUES (?)", [(f"{rng.random()} {text}",) for text in texts])
    connection.execute("DELETE FROM t WHERE a % 2; UPDATE t SET b = upper(b) WHERE a % 3 = 0; COMMIT")
    before = connection.execute("SELECT * FROM t").fetchall()
    assert clear_page_gaps(connection) > 0
    assert clear_page_gaps(connection) == 0
    connection.close()
    reopened = apsw.Connection(str(tmp_path / "m.db"))
    assert reopened.execute("SELECT * FROM t").fetchall() == before
    assert reopened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    reopened.close()


def test_erasure_beside_a_reader_is_pending_and_finished_by_the_next_commit(database, tmp_path):
    with reader_elsewhere(database):
        forget(database)
        assert not database.finish_erasure()
        assert database.pending_erasure()
        assert traces(tmp_path) > 0
    with database.write() as connection:
        connection.execute("INSERT INTO t (b) VALUES ('later')")
    assert not database.pending_erasure()
    assert traces(tmp_path) == 0


def test_a_pending_erasure_is_finished_when_the_reader_leaves(database, tmp_path):
    with reader_elsewhere(database):
        forget(database)
        assert database.pending_erasure()
    assert not database.pending_erasure()
    assert traces(tmp_path) == 0


def test_an_erasure_held_up_by_a_reader_of_another_handle_is_finished_by_the_next_read(database, tmp_path):
    with SqliteDatabase(database.path) as other:
        with reader_elsewhere(other):
            forget(database)
        with database.read() as connection:
            connection.execute("SELECT count(*) FROM t").fetchall()
        assert traces(tmp_path) == 0


def test_an_erasure_held_up_by_a_reader_of_another_handle_is_finished_by_finish_erasure(database, tmp_path):
    with SqliteDatabase(database.path) as other:
        with reader_elsewhere(other):
            forget(database)
        assert database.finish_erasure()
        assert traces(tmp_path) == 0


def test_the_erasure_mark_survives_closing_and_a_later_opening_finishes_the_erasure(database, tmp_path):
    with SqliteDatabase(database.path) as other, reader_elsewhere(other):
        forget(database)
        database.close()
        with SqliteDatabase(database.path) as again:
            assert again.pending_erasure(), "a reader of another database object is still there"
    with SqliteDatabase(database.path) as again:
        assert not again.pending_erasure()
        assert traces(tmp_path) == 0


def test_after_closing_the_database_no_erased_bytes_are_left(database, tmp_path):
    with reader_elsewhere(database):
        forget(database)
    database.close()
    assert traces(tmp_path) == 0


def test_finish_erasure_does_not_wait_for_a_read_block_of_its_own_thread(database):
    with database.read():
        forget(database)
        assert not database.finish_erasure()
    assert database.finish_erasure()


def test_an_erasure_is_pending_inside_a_write(database, tmp_path):
    with database.write():
        forget(database)
        assert database.pending_erasure()
        assert not database.finish_erasure()
    assert database.finish_erasure()
    assert traces(tmp_path) == 0


def test_a_rolled_back_write_leaves_no_erasure_mark(database):
    with pytest.raises(KeyError), database.write():
        forget(database)
        raise KeyError
    assert not database.pending_erasure()
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(200,)]


def test_mark_erasure_needs_the_connection_of_the_current_write(database):
    with database.read() as connection, pytest.raises(UnsupportedError):
        database.mark_erasure(connection)
    with database.read() as reading, database.write(), pytest.raises(ArgumentError):
        database.mark_erasure(reading)


def test_finishing_an_erasure_keeps_the_mark_of_a_concurrent_erasure(database, monkeypatch):
    truncated = secure_delete.truncate_log
    with SqliteDatabase(database.path) as other:

        def marked_in_between(connection):
            done = truncated(connection)
            with other.write() as writing:
                secure_delete.set_erasure_mark(writing, "another's")
                monkeypatch.setattr(secure_delete, "truncate_log", lambda connection: False)
            return done

        monkeypatch.setattr(secure_delete, "truncate_log", marked_in_between)
        forget(database)
        assert database.pending_erasure()
        monkeypatch.setattr(secure_delete, "truncate_log", truncated)
        assert database.finish_erasure()


def test_an_overwritten_value_leaves_no_bytes_in_the_files(database, tmp_path):
    with database.write() as connection:
        connection.execute("UPDATE t SET b = 'short'")
        database.mark_erasure(connection)
    assert database.finish_erasure()
    assert traces(tmp_path) == 0
