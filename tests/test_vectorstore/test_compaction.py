"""Compaction of a file: freed bytes, unchanged entries, concurrent readers and writers, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import BusyError, Entry, Space, SqliteStore, UnsupportedError, open_store

ROOT = Path(__file__).resolve().parents[2]
SPACE = Space("toy", 32)


def filled(path: Path, rows: int = 1000) -> SqliteStore:
    store = SqliteStore(path, space=SPACE)
    vectors = np.random.default_rng(1).standard_normal((rows, 32))
    store.upsert(Entry(f"e{i:05}", vectors[i], f"the text number {i} with its word w{i}") for i in range(rows))
    return store


def test_compacting_shrinks_the_file_by_its_deleted_entries_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = filled(path)
    store.delete(f"e{i:05}" for i in range(900))
    kept = list(store.scan())
    found = store.search(kept[5].vector, 20)
    done = store.compact()
    assert done.after == path.stat().st_size
    assert path.with_name("memory.db-wal").stat().st_size == 0
    assert done.freed > 0.7 * done.before
    assert list(store.scan()) == kept
    assert store.search(kept[5].vector, 20) == found
    assert store.verify() == []
    store.close()
    again = SqliteStore(path)
    assert again.search(kept[5].vector, 20) == found
    assert again.verify() == []
    again.close()


def test_compacting_removes_unused_terms_and_every_handle_finds_a_term_added_again(tmp_path: Path) -> None:
    store, other = filled(tmp_path / "memory.db", 50), None
    other = SqliteStore(tmp_path / "memory.db")
    assert other.search_text("w7")[0].entry.id == "e00007"
    store.delete(["e00007"])
    with store.database.read() as connection:
        numbers = dict(connection.execute("SELECT term, number FROM terms").fetchall())
    store.compact()
    with store.database.read() as connection:
        left = dict(connection.execute("SELECT term, number FROM terms").fetchall())
    assert "w7" in numbers
    assert "w7" not in left
    store.upsert([Entry("new", text="w7 anew")])
    for item in (store, other):
        assert [match.entry.id for match in item.search_text("w7")] == ["new"]
        with item.view([""]) as view:
            assert view.df(["w7", "anew", "w8"]) == [1, 1, 1]
    assert store.verify() == []
    other.close()
    store.close()


def test_other_handles_answer_alike_after_compaction_and_see_later_writes(tmp_path: Path) -> None:
    store = filled(tmp_path / "memory.db")
    other = SqliteStore(tmp_path / "memory.db")
    query = np.ones(32)
    store.delete(f"e{i:05}" for i in range(0, 1000, 2))
    before = other.search(query, 30)
    store.compact()
    assert other.search(query, 30) == before
    other.upsert([Entry("theirs", query, "theirs")])
    assert store.search(query, 1)[0].entry.id == other.search(query, 1)[0].entry.id == "theirs"
    assert store.verify() == other.verify() == []
    other.close()
    store.close()


def test_compacting_beside_an_open_view_raises_busy_error_and_changes_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path / "memory.db")
    other = SqliteStore(tmp_path / "memory.db")
    with other.view([""]) as view:
        assert view.count() == 1000
        store.delete(f"e{i:05}" for i in range(900))
        with pytest.raises(BusyError, match="reads it"):
            store.compact()
        assert view.count() == 1000
    assert store.count() == 100
    assert store.compact().freed > 0
    other.close()
    store.close()


def test_a_compaction_stays_pending_when_a_reader_opens_during_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = filled(path)
    store.delete(f"e{i:05}" for i in range(900))
    other = SqliteStore(path)
    with ExitStack() as reading:
        plain = store.database._transactions.empty_log

        def then_somebody_reads(*, wait: float) -> None:
            plain(wait=wait)
            reading.enter_context(other.database.read())

        store.database._transactions.empty_log = then_somebody_reads  # type: ignore[method-assign]
        done = store.compact()
        assert done.pending
        assert store.pending_erasure()
    store.upsert([Entry("one more")])
    assert not store.pending_erasure()
    assert path.stat().st_size < done.before
    assert store.verify() == []
    other.close()
    store.close()


def test_compacting_beside_an_open_write_raises_busy_error(tmp_path: Path) -> None:
    from tellback.vectorstore.sqlite import SqliteDatabase

    filled(tmp_path / "memory.db").close()
    store = SqliteDatabase(tmp_path / "memory.db", busy_timeout=0.2)
    other = SqliteDatabase(tmp_path / "memory.db")
    with other.write() as connection:
        connection.execute("UPDATE namespaces SET revision = revision + 1")
        with pytest.raises(BusyError):
            store.compact()
    assert store.compact().pending is False
    other.close()
    store.close()


def test_compacting_is_refused_inside_a_view_of_the_same_thread(tmp_path: Path) -> None:
    store = filled(tmp_path / "memory.db", 10)
    with store.view([""]), pytest.raises(UnsupportedError, match="compact"):
        store.compact()
    store.close()


@pytest.mark.slow
def test_threads_read_and_write_while_the_store_is_compacted(tmp_path: Path) -> None:
    store = filled(tmp_path / "memory.db")
    ended, errors = threading.Event(), []

    def work(name: str) -> None:
        try:
            number = 0
            while not ended.is_set():
                number += 1
                store.upsert([Entry(f"{name}{number}", np.ones(32), f"written by {name}")])
                assert store.search(np.ones(32), 3)
                assert store.search_text("number")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    tried = compacted = 0
    while tried < 30 or (tried < 3000 and not compacted):
        tried += 1
        try:
            store.compact()
            compacted += 1
        except BusyError:
            time.sleep(0.01)
    ended.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert compacted
    assert store.verify() == []
    store.close()


def test_compacting_on_a_full_disk_raises_storage_full_and_leaves_every_entry(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    path = tmp_path / "memory.db"
    store = filled(path, 2000)
    store.delete(f"e{i:05}" for i in range(200))
    store.close()
    limit = path.stat().st_size - 4096
    program = f"""
import resource, signal, sys
from tellback.vectorstore import StorageFull, StorageUnwritable
from tellback.vectorstore.engines.sqlite_store import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit // 2}, {limit // 2}))
try:
    store.compact()
except StorageFull as error:
    print("full")
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "full", done.stderr
    again = SqliteStore(path)
    assert again.count() == 1800
    assert again.verify() == []
    assert again.compact().freed > 0
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_kill_during_compaction_leaves_every_entry(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    path = tmp_path / "memory.db"
    store = filled(path, 3000)
    kept = list(store.scan())
    store.close()
    program = """
import sys
from tellback.vectorstore import Entry
from tellback.vectorstore.engines.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
print("ready", flush=True)
while True:
    store.upsert(Entry(f"passing{i}", text=f"passing text number {i}") for i in range(300))
    store.delete(f"passing{i}" for i in range(300))
    store.compact()
"""
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draw.uniform(0.0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        again = SqliteStore(path)
        assert [entry for entry in again.scan() if not entry.id.startswith("passing")] == kept
        assert again.verify() == []
        again.close()


@pytest.mark.parametrize("url", ["numpy:", "sqlite:///{}/memory.db"])
def test_compacting_an_empty_store_is_harmless(tmp_path: Path, url: str) -> None:
    store = open_store(url.format(tmp_path))
    store.compact()
    store.upsert([Entry("a", text="a word")])
    assert [match.entry.id for match in store.search_text("word")] == ["a"]
    store.close()
