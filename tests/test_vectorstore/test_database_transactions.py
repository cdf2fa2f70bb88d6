"""Reading and writing in blocks: joined, nested, undone, from many threads, and closed under load."""

# ruff: noqa: PT012 - it is leaving a block of several statements that must raise
from __future__ import annotations

import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest

from tellback.vectorstore import (
    ArgumentError,
    BusyError,
    StoreClosed,
    TableComponent,
    UnsupportedError,
    VectorStoreError,
)
from tellback.vectorstore.sqlite import InMemoryDatabase, SqliteDatabase
from tests.support.homes import SERVER_HOME


def m001_t(connection):
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")


@pytest.fixture(params=["file", "memory", pytest.param("server", marks=SERVER_HOME.marks)])
def database(request, tmp_path):
    with new_database(request, tmp_path) as opened:
        opened.attach(TableComponent("t", [m001_t], ["t"]))
        yield opened


def new_database(request, folder):
    if request.param == "file":
        return SqliteDatabase(folder / "m.db", busy_timeout=300)
    if request.param == "memory":
        return InMemoryDatabase()
    server = request.getfixturevalue("postgres")
    from tellback.vectorstore.postgres import PostgresDatabase

    return PostgresDatabase(server.address(folder, busy_timeout="300"))


file_only = pytest.mark.parametrize("database", ["file"], indirect=True)
"""For what only a file has: other processes, readers beside a writer, a life after closing."""

embedded_only = pytest.mark.parametrize("database", ["file", "memory"], indirect=True)
"""For what SQLite itself says."""


def put(database, *values):
    with database.write() as connection:
        for value in values:
            connection.execute("INSERT INTO t (a) VALUES (?)", (value,))


def values(database):
    with database.read() as connection:
        return [value for (value,) in connection.execute("SELECT a FROM t ORDER BY a").fetchall()]


def in_thread(function, *arguments):
    """Run *function* in a thread of its own and return what it returned or raised."""
    results = []

    def run():
        try:
            results.append(function(*arguments))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(300)
    return results[0]


@file_only
def test_a_committed_write_is_visible_to_the_next_read_and_after_reopening(database):
    put(database, 1, 2)
    assert values(database) == [1, 2]
    database.close()
    with SqliteDatabase(database.path) as again:
        assert values(again) == [1, 2]


def test_an_error_rolls_back_the_whole_write_block(database):
    put(database, 1)
    with pytest.raises(KeyError), database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (2)")
        raise KeyError
    assert values(database) == [1]
    put(database, 3)
    assert values(database) == [1, 3]


def test_an_inner_write_block_joins_the_outer_transaction(database):
    with pytest.raises(KeyError), database.write():
        put(database, 1)
        with database.write():
            put(database, 2)
        raise KeyError
    assert values(database) == []


def test_an_error_leaving_an_inner_write_block_rolls_back_only_that_block(database):
    with database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        with pytest.raises(KeyError), database.write():
            put(database, 2)
            with database.write():
                put(database, 3)
            raise KeyError
        put(database, 4)
    assert values(database) == [1, 4]


def test_nested_blocks_equal_a_model(database):
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    numbers = iter(range(1, 10_000))

    def level(depth):
        kept = []
        for _ in range(rng.randrange(4)):
            if depth and rng.random() < 0.6:
                try:
                    with database.write():
                        inner = level(depth - 1)
                        if rng.random() < 0.4:
                            raise KeyError
                    kept += inner
                except KeyError:
                    pass
            else:
                number = next(numbers)
                put(database, number)
                kept.append(number)
        return kept

    expected = []
    for _ in range(30):
        expected += level(4)
    assert values(database) == sorted(expected)


@file_only
def test_uncommitted_rows_are_visible_inside_their_write_block_and_not_to_other_threads(database):
    with database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        with database.read() as reading:
            assert reading is connection
        assert values(database) == [1]
        assert in_thread(values, database) == []
    assert in_thread(values, database) == [1]


@file_only
def test_a_read_block_sees_one_state_from_its_beginning(database):
    put(database, 1)
    with database.read():
        in_thread(put, database, 2)
        assert values(database) == [1], "a block inside shares the state of the outer one"
    assert values(database) == [1, 2]


@pytest.mark.parametrize("database", ["memory"], indirect=True)
def test_an_in_memory_write_block_holds_up_blocks_of_other_threads(database):
    with database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        with database.read() as reading:
            assert reading is connection
        busy = in_thread(lambda: database.write(wait=False).__enter__())
        assert isinstance(busy, BusyError)
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(values(database)))
        thread.start()
        connection.execute("UPDATE t SET a = 7")
    thread.join(300)
    assert seen == [7]


@file_only
def test_a_read_block_left_by_another_thread_ends_in_the_thread_of_its_entry(database):
    def read_again():
        with database.read() as connection:
            return connection.in_transaction

    block = database.read()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(block.__enter__).result()
        block.__exit__(None, None, None)
        assert pool.submit(read_again).result()


@pytest.mark.parametrize("database", ["memory"], indirect=True)
def test_an_in_memory_read_block_cannot_write(database):
    with pytest.raises(apsw.ConstraintError), database.read() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
    assert values(database) == []


@file_only
def test_a_reading_connection_cannot_write(database):
    with pytest.raises(apsw.ReadOnlyError), database.read() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")


@embedded_only
def test_sql_errors_are_raised_unchanged_and_not_as_damage(database):
    with pytest.raises(apsw.SQLError, match="no such table"), database.read() as connection:
        connection.execute("SELECT * FROM absent")
    with pytest.raises(apsw.ConstraintError), database.write():
        put(database, 1, 1)
    with pytest.raises(apsw.SQLError, match="within a transaction"), database.write() as connection:
        connection.execute("BEGIN")
    assert values(database) == []


def test_an_explicit_commit_inside_a_write_block_is_refused(database):
    with pytest.raises((apsw.ConstraintError, UnsupportedError)), database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        connection.execute("COMMIT")
    assert values(database) == []


def test_a_half_read_cursor_does_not_keep_its_read_transaction_open(database):
    put(database, 1, 2, 3)
    with database.read() as connection:
        cursor = connection.execute("SELECT a FROM t")
        assert next(cursor) == (1,)
    put(database, 4)
    with database.write() as connection:
        connection.execute("DELETE FROM t WHERE a = 1")
        database.mark_erasure(connection)
    assert database.finish_erasure(), "no reader is left that would keep the log"
    assert values(database) == [2, 3, 4]


def test_an_abandoned_read_block_ends_when_garbage_collected(database):
    block = database.read()
    block.__enter__()
    del block
    gc.collect()
    put(database, 1)
    assert values(database) == [1]


def test_in_write_is_true_only_in_the_writing_thread(database):
    assert not database.in_write()
    with database.write():
        assert database.in_write()
        assert in_thread(database.in_write) is False
        with database.write():
            pass
        assert database.in_write()
    assert not database.in_write()


def test_an_on_commit_callback_runs_once_after_the_outermost_commit(database):
    seen = []
    with database.write():
        with database.write():
            database.on_commit(lambda: seen.append((database.in_write(), in_thread(values, database))))
            put(database, 1)
        assert seen == []
    assert seen == [(False, [1])]
    put(database, 2)
    assert len(seen) == 1


def test_on_commit_callbacks_of_a_rolled_back_block_are_dropped(database):
    seen = []
    with pytest.raises(KeyError), database.write():
        database.on_commit(lambda: seen.append("outer"))
        raise KeyError
    with database.write():
        database.on_commit(lambda: seen.append("kept"))
        with pytest.raises(KeyError), database.write():
            database.on_commit(lambda: seen.append("inner"))
            raise KeyError
    assert seen == ["kept"]


def test_a_failing_on_commit_callback_keeps_the_commit_and_the_other_callbacks(database):
    seen = []
    with pytest.raises(ZeroDivisionError) as caught, database.write():
        put(database, 1)
        database.on_commit(lambda: 1 / 0)
        database.on_commit(lambda: seen.append("second"))
    assert seen == ["second"]
    assert "was committed" in caught.value.__notes__[0]
    assert values(database) == [1]


def test_on_commit_outside_a_write_is_refused(database):
    with pytest.raises(UnsupportedError, match="inside write"):
        database.on_commit(print)


@file_only
def test_a_write_beside_a_long_write_of_another_handle_raises_busy_error(database):
    other = SqliteDatabase(database.path, busy_timeout=0)
    with database.write(), pytest.raises(BusyError), other.write():
        pass
    put(other, 1)
    other.close()
    assert values(database) == [1]


def test_a_write_beside_a_long_write_of_another_thread_raises_busy_error(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", busy_timeout=0.01) as database, database.write():
        assert isinstance(in_thread(database.write().__enter__), BusyError)


@file_only
def test_storage_full_rolls_back_the_write_block_and_the_next_write_works(database):
    put(database, 1)
    with pytest.raises(VectorStoreError) as caught, database.write() as connection:
        connection.pragma("max_page_count", connection.pragma("page_count") + 2)
        connection.execute("INSERT INTO t (b) VALUES (zeroblob(100000))")
    assert type(caught.value).__name__ == "StorageFull"
    with database.write() as connection:
        connection.pragma("max_page_count", 1 << 30)
    put(database, 2)
    assert values(database) == [1, 2]
    assert database.verify() == []


@embedded_only
def test_rows_written_after_sqlite_ended_the_transaction_are_not_committed(database):
    # SQLite ends the transaction itself on some errors; what is then written must not commit on its own.
    with pytest.raises((VectorStoreError, apsw.ConstraintError)), database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        connection.execute("ROLLBACK")
        connection.execute("INSERT INTO t (a) VALUES (2)")
    with pytest.raises(VectorStoreError, match="nothing was written"), database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (3)")
        connection.execute("ROLLBACK")
    assert values(database) == []


@embedded_only
def test_a_value_too_large_for_a_row_raises_argument_error(database):
    with pytest.raises(ArgumentError, match="gigabyte"), database.write() as connection:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, 1000)
        connection.execute("INSERT INTO t (b) VALUES (zeroblob(?))", (2000,))


def test_concurrent_threads_write_whole_batches_and_lose_no_row(database):
    seed = random.randrange(2**32)
    print("seed", seed)
    errors = []

    def work(number):
        rng = random.Random(seed + number)
        try:
            for i in range(15):
                put(database, number * 1000 + 2 * i, number * 1000 + 2 * i + 1)
                if rng.random() < 0.5:
                    seen = values(database)
                    assert len(seen) % 2 == 0, "half of a batch was seen"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(values(database)) == 8 * 30


@file_only
def test_closing_under_load_keeps_every_committed_batch(database):
    outcomes = []
    started = threading.Barrier(7)

    def work(number):
        started.wait()
        i = 0
        try:
            while True:
                i += 1
                put(database, number * 100_000 + 2 * i, number * 100_000 + 2 * i + 1)
                values(database)
        except BaseException as error:
            outcomes.append((number, i, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    started.wait()
    while not values(database):
        pass
    database.close()
    for thread in threads:
        thread.join()
    assert [type(error) for _, _, error in outcomes] == [StoreClosed] * 6
    with SqliteDatabase(database.path) as again:
        present = set(values(again))
        for number, last, _ in outcomes:
            for i in range(1, last):
                assert {number * 100_000 + 2 * i, number * 100_000 + 2 * i + 1} <= present
        assert again.verify() == []


@file_only
def test_closing_inside_a_write_block_takes_effect_at_its_end(database, tmp_path):
    with database.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (1)")
        database.close()
        assert values(database) == [1]
    with pytest.raises(StoreClosed):
        values(database)
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]
    with SqliteDatabase(database.path) as again:
        assert values(again) == [1]


@file_only
def test_closing_waits_for_a_reader(database, tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def read():
        with database.read():
            entered.set()
            leave.wait(600)

    reader, closer = threading.Thread(target=read), threading.Thread(target=database.close)
    reader.start()
    assert entered.wait(300)
    closer.start()
    closer.join(0.1)
    assert closer.is_alive()
    leave.set()
    closer.join(300)
    reader.join(300)
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


def test_closing_waits_for_a_reader_no_longer_than_the_busy_timeout(tmp_path):
    database = SqliteDatabase(tmp_path / "m.db", busy_timeout=0.05)
    entered, leave = threading.Event(), threading.Event()

    def read():
        with database.read() as connection:
            entered.set()
            leave.wait(600)
            connection.execute("SELECT * FROM components").fetchall()
        return "read to the end"

    results = []
    thread = threading.Thread(target=lambda: results.append(read()))
    thread.start()
    assert entered.wait(300)
    database.close()
    assert (tmp_path / "m.db-wal").exists(), "the reader still holds it"
    leave.set()
    thread.join()
    assert results == ["read to the end"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]
