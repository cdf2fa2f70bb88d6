"""A server with many writers: locks, migrations, roles, and what is left when a client or the server is killed.

Inner parts, on no face: ``tellback.vectorstore.postgres.database``, ``tellback.vectorstore.engines.postgres_store``.
"""

# ruff: noqa: PT012 - it is leaving a block of several statements that must raise
from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tellback.vectorstore import (
    ArgumentError,
    BusyError,
    Entry,
    ForkedError,
    NewerFile,
    NotAStore,
    ServerUnavailable,
    Space,
    StorageUnwritable,
    StoreClosed,
    TableComponent,
    VectorStoreError,
    open_store,
)
from tellback.vectorstore.engines.postgres_store import PostgresStore
from tellback.vectorstore.postgres import PostgresDatabase
from tellback.vectorstore.postgres.database import ServerAddress
from tests.support.postgres import PostgresServer, running_server

SPACE = Space("toy", 3)


def m001_notes(connection: Any) -> None:
    connection.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")


NOTES = TableComponent("notes", (m001_notes,), ("notes",))


@pytest.fixture
def address(postgres: PostgresServer, tmp_path: Path) -> str:
    return postgres.address(tmp_path)


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresDatabase]:
    with PostgresDatabase(postgres.address(tmp_path, busy_timeout="5"), components=(NOTES,)) as opened:
        yield opened


def note(database: PostgresDatabase, text: str, lock: str | None = None) -> None:
    with database.write(lock=lock) as connection:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def notes(database: PostgresDatabase) -> list[str]:
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY text")]


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_writers_of_different_names_do_not_wait_and_those_of_one_take_turns(database: PostgresDatabase) -> None:
    with database.write(lock="a"):
        in_thread(lambda: note(database, "b", "b")).join(5)
        assert notes(database) == ["b"]
        waiting = in_thread(lambda: note(database, "a", "a"))
        waiting.join(0.2)
        assert waiting.is_alive()
        with ThreadPoolExecutor(1) as pool, pytest.raises(BusyError):
            pool.submit(lambda: database.write(lock="a", wait=False).__enter__()).result()
    waiting.join(5)
    assert notes(database) == ["a", "b"]


def test_a_writer_of_everything_waits_for_all_and_all_for_it(database: PostgresDatabase) -> None:
    with database.write(lock="a"):
        everything = in_thread(lambda: note(database, "everything"))
        everything.join(0.2)
        assert everything.is_alive()
    everything.join(5)
    with database.write():
        one = in_thread(lambda: note(database, "one", "b"))
        one.join(0.2)
        assert one.is_alive()
    one.join(5)
    assert notes(database) == ["everything", "one"]


def test_two_writers_that_wait_for_each_other_end_with_a_busy_error_and_none_hangs(database: PostgresDatabase) -> None:
    both = threading.Barrier(2)

    def cross(first: str, second: str) -> str:
        try:
            with database.write(lock=first):
                both.wait(5)
                with database.write(lock=second) as connection:
                    connection.execute("INSERT INTO notes (text) VALUES (?)", (first,))
        except BusyError:
            return "busy"
        return first

    with ThreadPoolExecutor(2) as pool:
        ends = {future.result(10) for future in [pool.submit(cross, "a", "b"), pool.submit(cross, "b", "a")]}
    assert "busy" in ends
    assert notes(database) == sorted(ends - {"busy"})


def test_a_cursor_misses_nothing_of_a_transaction_that_was_held_open_across_others_commits(address: str) -> None:
    """Numbers are given under the lock that the commit releases, so none becomes visible before a smaller one."""
    with closing(PostgresStore(address, space=SPACE)) as slow, closing(PostgresStore(address)) as reader:
        reader.upsert([Entry("first", [1, 0, 0])], namespace="n")
        cursor = reader.changes(namespace="n").cursor
        with slow.transaction(lock="somebody"):
            slow.upsert([Entry("slow", [1, 0, 0])], namespace="n")
            others = in_thread(lambda: reader.upsert([Entry("quick", [1, 0, 0])], namespace="n"))
            reader.upsert([Entry("elsewhere", [1, 0, 0])], namespace="other")
            others.join(0.2)
            meanwhile = reader.changes(cursor, namespace="n")
            assert meanwhile.written == ()
        others.join(5)
        assert set(reader.changes(meanwhile.cursor, namespace="n").written) == {"slow", "quick"}
        assert [match.entry.id for match in reader.search([1, 0, 0], namespace="n")] == ["first", "quick", "slow"]


def test_a_statement_that_fails_later_than_it_was_run_undoes_its_block(database: PostgresDatabase) -> None:
    """Statements that return nothing go out with the next one that does, or at the end of the block."""
    with pytest.raises(psycopg.IntegrityError), database.write() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('lost')")
        connection.execute("INSERT INTO notes (text) VALUES (NULL)")
    with database.write() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('kept')")
        with pytest.raises(KeyError), database.write():
            connection.execute("INSERT INTO notes (text) VALUES ('undone')")
            raise KeyError
        with pytest.raises(psycopg.IntegrityError), database.write():
            connection.execute("UPDATE notes SET text = NULL")
            assert connection.changes() == 1
        connection.executemany("INSERT INTO notes (text) VALUES (?)", [("a",), ("b",)])
        assert (connection.changes(), notes(database)) == (2, ["a", "b", "kept"])
        connection.execute("DELETE FROM notes WHERE text = 'a'")
    assert notes(database) == ["b", "kept"]


def test_a_connection_is_used_again_after_a_statement_failed_among_others(database: PostgresDatabase) -> None:
    for number in range(12):  # often enough that the statements are prepared
        with pytest.raises(psycopg.IntegrityError), database.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES (NULL)")
            connection.execute("SELECT text FROM notes WHERE text = ?", ("a",))
        with database.write() as connection:
            connection.execute("SELECT text FROM notes WHERE text = ?", ("a",)).fetchone()
            connection.execute("INSERT INTO notes (text) VALUES (?)", (f"{number:02}",))
    assert notes(database) == [f"{number:02}" for number in range(12)]


def test_processes_that_open_a_new_schema_at_once_migrate_it_once(address: str) -> None:
    def open_it() -> str:
        with closing(PostgresStore(address, space=SPACE)) as store:
            store.upsert([Entry(threading.current_thread().name)])
            return store.database.identity

    with ThreadPoolExecutor(6) as pool:
        identities = {future.result(30) for future in [pool.submit(open_it) for _ in range(6)]}
    assert len(identities) == 1


def test_a_schema_of_a_newer_version_is_refused_and_noticed_at_the_next_call(address: str) -> None:
    def m002_stars(connection: Any) -> None:
        connection.execute("ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 0")

    newer = TableComponent("notes", (m001_notes, m002_stars), ("notes",))
    with PostgresDatabase(address, components=(NOTES,)) as old:
        PostgresDatabase(address, components=(newer,)).close()
        with pytest.raises(NewerFile), old.read():
            pass
    with pytest.raises(NewerFile):
        PostgresDatabase(address, components=(NOTES,))


def test_tables_of_another_program_are_left_alone(address: str) -> None:
    with PostgresDatabase(address) as database, database.write() as connection:
        connection.execute("CREATE TABLE notes (song TEXT)")
    with pytest.raises(NotAStore, match="another program"):
        PostgresDatabase(address, components=(NOTES,))


def test_a_role_without_rights_to_tables_works_where_the_owner_made_them(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with closing(PostgresStore(postgres.address(tmp_path), space=SPACE)) as store, store.database.write() as connection:
        schema = store.database.schema
        connection.execute("DROP ROLE IF EXISTS worker")
        for grant in (
            "CREATE ROLE worker LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO worker",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO worker",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO worker",
        ):
            connection.execute(grant)
    with closing(PostgresStore(postgres.address(tmp_path, user="worker"))) as store:
        store.upsert([Entry("a", [1, 0, 0], "hello", metadata={"at": "2026"})])
        assert [match.entry.id for match in store.search_text("hello")] == ["a"]
        assert [entry.id for entry in store.scan_by(["at"])] == ["a"]  # without its index
        with pytest.raises(StorageUnwritable):
            store.database.attach(NOTES)
    with closing(PostgresStore(postgres.address(tmp_path))) as store, store.database.write() as connection:
        connection.execute("DROP OWNED BY worker")
        connection.execute("DROP ROLE worker")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:///x?schema=",
        "sqlite:///x",
        f"postgresql:///x?schema={'s' * 64}",
        "postgresql:///x?pool_size=0",
        "postgresql:///x?colour=red",
    ],
)
def test_an_address_that_names_no_schema_of_a_server_is_refused(address: str) -> None:
    with pytest.raises(ArgumentError):
        PostgresDatabase(address)


def test_a_database_in_another_encoding_is_refused_by_its_name(postgres: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(f"postgresql://owner@/postgres?host={postgres.folder}", autocommit=True) as admin:
        admin.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(ArgumentError, match="UTF8 is needed, this one is in SQL_ASCII"):
        PostgresDatabase(postgres.address(tmp_path).replace("/postgres?", "/ascii?"))


def test_an_error_names_the_server_and_not_the_password(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable) as caught:
        open_store(f"postgresql://me:s3cret@/x?host={tmp_path}")
    assert str(tmp_path) in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_fork_is_refused_and_the_parent_goes_on(database: PostgresDatabase) -> None:
    note(database, "before")
    pid = os.fork()
    if pid == 0:
        try:
            note(database, "child")
        except ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    note(database, "parent")
    assert notes(database) == ["before", "parent"]


def test_a_closed_database_refuses_every_call(database: PostgresDatabase) -> None:
    database.close()
    database.close()
    for call in (lambda: notes(database), lambda: note(database, "x"), database.verify, database.pending_erasure):
        with pytest.raises(StoreClosed):
            call()


def test_connections_that_are_all_in_use_end_in_a_busy_error_and_it_goes_on_after(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    address = postgres.address(tmp_path, pool_size="1", busy_timeout="0.3")
    with PostgresDatabase(address, components=(NOTES,)) as database:
        with database.read(), ThreadPoolExecutor(1) as pool, pytest.raises(BusyError):
            pool.submit(note, database, "x").result(10)
        note(database, "y")
        assert notes(database) == ["y"]


def test_a_lock_that_lasts_too_long_ends_in_a_busy_error(postgres: PostgresServer, tmp_path: Path) -> None:
    address = postgres.address(tmp_path, busy_timeout="0.3")
    with PostgresDatabase(address, components=(NOTES,)) as database, database.write(lock="a"):
        begin = time.monotonic()
        with ThreadPoolExecutor(1) as pool, pytest.raises(BusyError):
            pool.submit(note, database, "x", "a").result(10)
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize("setting", ["statement_timeout", "idle_in_transaction_session_timeout"])
def test_a_time_limit_of_the_server_is_a_typed_error_and_undoes_the_block(
    postgres: PostgresServer, tmp_path: Path, setting: str
) -> None:
    options = f"-c {setting}=200"
    with PostgresDatabase(postgres.address(tmp_path, options=options), components=(NOTES,)) as database:
        with pytest.raises((BusyError, ServerUnavailable)), database.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('lost')")
            if setting == "statement_timeout":
                connection.execute("SELECT pg_sleep(10)")
            else:
                time.sleep(1)
            connection.execute("INSERT INTO notes (text) VALUES ('lost, too')")
        note(database, "kept")
        assert notes(database) == ["kept"]


def test_connections_that_the_server_ended_are_replaced_unseen(postgres: PostgresServer, address: str) -> None:
    with PostgresDatabase(address, components=(NOTES,)) as database:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: note(database, f"a{number}", f"{number}"), range(4)))
        end_connections(address)
        note(database, "b")
        assert notes(database) == ["a0", "a1", "a2", "a3", "b"]
        with pytest.raises(ServerUnavailable), database.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('lost')")
            end_connections(address)
            connection.execute("INSERT INTO notes (text) VALUES ('lost, too')")
        assert notes(database) == ["a0", "a1", "a2", "a3", "b"]


def end_connections(address: str) -> None:
    """End every connection that has tables of this schema before it, but for the one that asks."""
    with psycopg.connect(ServerAddress.parse(address).conninfo, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


WRITER = """
    import sys
    from tellback.vectorstore import Entry, Space
    from tellback.vectorstore.engines.postgres_store import PostgresStore
    store = PostgresStore(sys.argv[1], space=Space("toy", 3))
    for number in range(100_000):
        store.upsert([Entry(f"{sys.argv[2]}-{number}-{part}", [1, number, part], f"word{number}") for part in range(3)])
        print(number, flush=True)
"""


def writer(address: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), address, name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd())


def acknowledged(process: subprocess.Popen[str], at_least: int) -> int:
    """Return the last number that *process* printed, after it has printed so many."""
    assert process.stdout is not None
    last = -1
    while last < at_least - 1:
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        last = int(line)
    return last


def rest(process: subprocess.Popen[str], last: int) -> int:
    """Return the last number that an ended *process* printed, *last* if it printed no more."""
    with process:  # closes its pipes, and waits for it
        assert process.stdout is not None
        lines = process.stdout.read().split()
    return int(lines[-1]) if lines else last


def check_batches(store: PostgresStore, name: str, last: int) -> None:
    """Each batch up to *last* is there, perhaps the next one, and all of them whole."""
    found = {entry.id for entry in store.scan() if entry.id.startswith(name)}
    batches = {int(id.split("-")[1]) for id in found}
    assert batches in ({*range(last + 1)}, {*range(last + 2)})
    assert len(found) == 3 * len(batches)
    assert store.verify() == []
    assert store.count() == len(list(store.scan()))


def test_a_killed_client_loses_nothing_acknowledged_and_keeps_nobody_waiting(address: str) -> None:
    with closing(PostgresStore(address, space=SPACE)) as store:
        for round_number in range(3):
            process = writer(address, f"w{round_number}")
            last = acknowledged(process, 5 + round_number)
            process.send_signal(signal.SIGKILL)
            last = rest(process, last)
            begin = time.monotonic()
            store.upsert([Entry(f"after{round_number}", [1, 1, 1])])
            assert time.monotonic() - begin < 5
            check_batches(store, f"w{round_number}", last)


@pytest.mark.slow
def test_a_killed_server_loses_nothing_acknowledged_and_both_go_on_when_it_is_back(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Recovery from a crash: the server is killed with all it runs, in the middle of two processes' writes."""
    with running_server(fsync="on", synchronous_commit="on") as server:
        address = server.address(tmp_path, busy_timeout="2")
        with closing(PostgresStore(address, space=SPACE)) as store:
            for round_number in range(1 if request.config.option.markexpr == "not slow" else 5):
                processes = [writer(address, f"{name}{round_number}") for name in "ab"]
                counts = [acknowledged(process, 5) for process in processes]
                server.kill()
                counts = [rest(process, last) for process, last in zip(processes, counts, strict=True)]
                with pytest.raises(VectorStoreError):
                    store.upsert([Entry("down", [1, 1, 1])])
                server.start()
                store.upsert([Entry("up", [1, 1, 1])])  # the same object: nothing of ours is started anew
                for name, last in zip("ab", counts, strict=True):
                    check_batches(store, f"{name}{round_number}", last)
                assert store.get(["down"]) == [None]
