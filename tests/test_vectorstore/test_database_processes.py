"""Several processes on one file, forks, kills, and a disk that is full: each in real processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tellback.vectorstore import ForkedError, TableComponent
from tellback.vectorstore.sqlite import SqliteDatabase

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import os, sys
from pathlib import Path
from tellback.vectorstore.sqlite import SqliteDatabase

class Rows:
    name = "rows"
    migrations = (lambda connection: connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)"),)
    def verify(self, connection): return []
    def rebuild(self, connection): pass
    def salvage(self, source, target): return 0

path = Path(sys.argv[1])
"""


def start(program: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + program, str(path), *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], said: str = "") -> str:
    out, errors = process.communicate(said, timeout=300)
    assert process.returncode == 0, errors
    return out.strip()


def run(program: str, path: Path, *arguments: str) -> str:
    return finish(start(program, path, *arguments))


def count(path: Path) -> int:
    with SqliteDatabase(path, create=False) as database, database.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT count(*) FROM t").fetchall()[0][0]


def test_processes_that_race_for_the_creation_share_one_file(tmp_path):
    program = """
print("ready", flush=True)
sys.stdin.readline()
for turn in range(5):
    with SqliteDatabase(path.with_name(f"{turn}.db"), components=[Rows()]) as database:
        with database.write() as connection:
            connection.execute("INSERT INTO t (b) VALUES (?)", (os.getpid(),))
        print(database.identity)
"""
    processes = [start(program, tmp_path / "m.db") for _ in range(4)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 4
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    identities = {finish(process) for process in processes}
    assert len(identities) == 1, "one of them worked on a file of its own"
    # Two that close at once each see the other, and leave the log to the next opening.
    assert [count(tmp_path / f"{turn}.db") for turn in range(5)] == [4] * 5
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{turn}.db" for turn in range(5)]


def test_concurrent_writers_in_several_processes_lose_no_rows(tmp_path):
    program = """
with SqliteDatabase(path, components=[Rows()], busy_timeout=300) as database:
    for _ in range(30):
        with database.write() as connection:
            connection.execute("INSERT INTO t (b) VALUES (1), (2)")
        with database.read() as connection:
            assert connection.execute("SELECT count(*) % 2 FROM t").fetchall() == [(0,)]
"""
    processes = [start(program, tmp_path / "m.db") for _ in range(3)]
    for process in processes:
        finish(process)
    assert count(tmp_path / "m.db") == 3 * 30 * 2


def test_a_process_sees_anothers_commit_at_its_next_call(tmp_path):
    program = """
database = SqliteDatabase(path)
for line in sys.stdin:
    with database.read() as connection:
        print(connection.execute("SELECT count(*) FROM t").fetchall()[0][0], flush=True)
"""
    rows = TableComponent("t", [lambda connection: connection.execute("CREATE TABLE t (a)")], ["t"])
    with SqliteDatabase(tmp_path / "m.db", components=[rows]) as database:
        reader = start(program, tmp_path / "m.db")
        for expected in range(1, 20):
            with database.write() as connection:
                connection.execute("INSERT INTO t VALUES (1)")
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert int(reader.stdout.readline()) == expected
        finish(reader)


def test_a_killed_writer_leaves_every_acknowledged_commit(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    program = """
database = SqliteDatabase(path, components=[Rows()])
while True:
    with database.write() as connection:
        connection.execute("INSERT INTO t (b) VALUES (zeroblob(500)), (zeroblob(5000))")
    print("acknowledged", flush=True)
"""
    acknowledged = 0
    for _ in range(5):
        process = start(program, tmp_path / "m.db")
        process.stdout.readline()
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        acknowledged += 1 + process.stdout.read().count("acknowledged")
        process.communicate()
        present = count(tmp_path / "m.db")
        assert present % 2 == 0
        assert acknowledged <= present // 2 <= acknowledged + 1
        acknowledged = present // 2


def test_a_process_killed_during_creation_leaves_no_partial_database_file(tmp_path):
    program = """
import os, signal
from tellback.vectorstore.sqlite import files

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(files, sys.argv[2], killed)
SqliteDatabase(path, components=[Rows()])
"""
    for step in ("_flush_file", "_link_into_place", "flush_folder"):
        path = tmp_path / step / "m.db"
        process = start(program, path, step)
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
        assert path.exists() == (step == "flush_folder")
        with SqliteDatabase(path) as database:
            assert database.verify() == []


def test_a_database_is_created_on_a_file_system_without_hard_links(tmp_path):
    program = """
import errno
def refuse(*_, **__):
    raise OSError(errno.EPERM, "no links here")
os.link = refuse
SqliteDatabase(path, components=[Rows()]).close()
try:
    SqliteDatabase(path, components=[Rows()]).backup(path)
except ValueError as error:
    print(error.argument)
"""
    assert run(program, tmp_path / "m.db") == "path"
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]
    assert count(tmp_path / "m.db") == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
class TestFork:
    """A child that was forked with an open database."""

    def test_every_call_on_the_parents_database_raises_forked_error_and_the_parent_goes_on(self, tmp_path):
        program = """
from tellback.vectorstore import ForkedError, TableComponent
database = SqliteDatabase(path, components=[Rows()])
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (1)")
if (child := os.fork()) == 0:
    calls = [database.read().__enter__, database.write().__enter__, database.in_write, database.close,
             database.verify, database.pending_erasure, database.finish_erasure]
    for call in calls:
        try:
            call()
        except ForkedError:
            continue
        os._exit(1)
    del connection, database
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert path.with_name("m.db-wal").stat().st_size > 0, "the child emptied the log"
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (2)")
os._exit(0)
"""
        run(program, tmp_path / "m.db")
        assert count(tmp_path / "m.db") == 2

    def test_a_child_outliving_its_parent_does_not_close_the_parents_database(self, tmp_path):
        program = """
import gc, time
database = SqliteDatabase(path, components=[Rows()])
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    del database
    gc.collect()
    print(path.with_name("m.db-wal").exists(), flush=True)
    sys.exit(0)
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (1)")
os._exit(0)
"""
        assert run(program, tmp_path / "m.db") == "True"
        assert count(tmp_path / "m.db") == 1

    def test_rows_of_a_child_with_its_own_opening_are_kept_after_the_parent_closed(self, tmp_path):
        program = """
database = SqliteDatabase(path, components=[Rows()])
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (1)")
closed, opened = os.pipe(), os.pipe()
if (child := os.fork()) == 0:
    again = SqliteDatabase(path, components=[Rows()])
    os.write(opened[1], b".")
    os.read(closed[0], 1)
    with again.write() as connection:
        connection.execute("INSERT INTO t (a) VALUES (2)")
    os._exit(0)
os.read(opened[0], 1)
database.close()
os.write(closed[1], b".")
assert os.waitpid(child, 0)[1] == 0
"""
        run(program, tmp_path / "m.db")
        assert count(tmp_path / "m.db") == 2

    def test_a_child_forked_inside_a_write_is_refused_to_open_the_same_file(self, tmp_path):
        program = """
from tellback.vectorstore import ForkedError, TableComponent
database = SqliteDatabase(path, components=[Rows()])
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (1)")
    if (child := os.fork()) == 0:
        for _ in range(2):
            try:
                SqliteDatabase(path)
            except ForkedError as error:
                print(error, flush=True)
        SqliteDatabase(path.with_name("other.db")).close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
        lines = run(program, tmp_path / "m.db").splitlines()
        assert len(lines) == 2
        assert all("'spawn'" in line for line in lines)
        assert count(tmp_path / "m.db") == 1

    def test_the_forked_error_advises_to_open_the_database_again(self):
        assert "open it again" in str(ForkedError())


FULL_DISK = """
import resource
from tellback.vectorstore import StorageFull
database = SqliteDatabase(path, components=[Rows()])
with database.write() as connection:
    connection.execute("INSERT INTO t (a) VALUES (1)")

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

limit(100_000)
"""


def test_a_write_on_a_full_disk_raises_storage_full_and_later_writes_work(tmp_path):
    program = (
        FULL_DISK
        + """
failed = 0
for _ in range(3):
    try:
        with database.write() as connection:
            connection.execute("INSERT INTO t (b) VALUES (zeroblob(300000))")
    except StorageFull as error:
        failed += 1
    with database.read() as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
limit(resource.RLIM_INFINITY)
with database.write() as connection:
    connection.execute("INSERT INTO t (a, b) VALUES (2, zeroblob(300000))")
assert database.verify() == []
print(failed)
"""
    )
    assert run(program, tmp_path / "m.db") == "3"
    assert count(tmp_path / "m.db") == 2


def test_opening_on_a_full_disk_raises_storage_full(tmp_path):
    program = (
        FULL_DISK
        + """
import shutil
database.close()
shutil.disk_usage = lambda folder: shutil._ntuple_diskusage(100_000, 100_000, 0)
limit(1_000)
try:
    SqliteDatabase(path, components=[Rows()])
except StorageFull as error:
    print("StorageFull")
"""
    )
    assert run(program, tmp_path / "m.db") == "StorageFull"


def test_backup_and_salvage_on_a_full_disk_raise_storage_full_and_leave_no_file(tmp_path):
    program = (
        FULL_DISK
        + """
limit(resource.RLIM_INFINITY)
with database.write() as connection:
    connection.execute("INSERT INTO t (b) VALUES (zeroblob(300000))")
limit(100_000)
for copy in (database.backup, database.salvage):
    try:
        copy(path.with_name("copies") / "b.db")
    except StorageFull as error:
        print("StorageFull")
print(os.listdir(path.with_name("copies")))
"""
    ).replace(
        "database = SqliteDatabase(path, components=[Rows()])",
        "class Copied(Rows):\n"
        "    def salvage(self, source, target):\n"
        "        target.executemany('INSERT INTO t VALUES (?, ?)', source.execute('SELECT * FROM t'))\n"
        "        return 1\n"
        "database = SqliteDatabase(path, components=[Copied()])",
    )
    assert run(program, tmp_path / "m.db").splitlines() == ["StorageFull", "StorageFull", "[]"]


def test_creating_a_database_on_a_full_disk_raises_storage_full_and_leaves_no_file(tmp_path):
    program = """
import resource
from tellback.vectorstore import StorageFull
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    SqliteDatabase(path, components=[Rows()])
except StorageFull as error:
    print("StorageFull")
"""
    assert run(program, tmp_path / "m.db") == "StorageFull"
    assert list(tmp_path.iterdir()) == []


def test_an_erasure_on_a_full_disk_keeps_the_commit_and_the_erasure_mark(tmp_path):
    # The log may grow to a megabyte, and so may the file: what stands beyond that cannot be moved into it.
    program = """
import resource
database = SqliteDatabase(path, components=[Rows()])
with database.write() as connection:
    for i in range(20):
        connection.execute("INSERT INTO t (a, b) VALUES (?, zeroblob(100000))", (i,))
    database.mark_erasure(connection)
assert path.stat().st_size > 2_000_000 and not database.pending_erasure()
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, unlimited[1]))
with database.write() as connection:
    connection.execute("DELETE FROM t WHERE a = 19")
    database.mark_erasure(connection)
print(database.finish_erasure(), database.pending_erasure())
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
print(database.finish_erasure(), database.pending_erasure())
"""
    assert run(program, tmp_path / "m.db").splitlines() == ["False True", "True False"]
    assert count(tmp_path / "m.db") == 19
