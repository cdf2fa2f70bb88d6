"""The change log is bounded and stays correct when pruned: a cursor or an index older than the log starts over."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import Cursor, Entry, LifecycleStore, NumpyStore, Space, SqliteStore, open_store
from tests.support.slow import first_fast

SPACE = Space("toy", 4)
KEPT = 1000


@pytest.fixture(params=first_fast(["sqlite", "numpy"]))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LifecycleStore]:
    url = "numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path}/log.db"
    opened = open_store(url, space=SPACE)
    yield opened
    opened.close()


def logged(store: LifecycleStore) -> int:
    """Return how many changes the log of the default namespace holds."""
    assert isinstance(store, (NumpyStore, SqliteStore))
    with store.database.read() as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM changes").fetchall()
    assert isinstance(count, int)
    return count


def churn(store: LifecycleStore, writes: int, ids: int = 20) -> None:
    """Write so often, each of *ids* in turn; in one batch an id would count once."""
    for start in range(0, writes, ids):
        batch = range(start, min(start + ids, writes))
        store.upsert(Entry(f"e{i % ids:03}", [1, i % 7, 0, 0], f"text {i}") for i in batch)


def test_the_change_log_stays_bounded_under_many_writes(store: LifecycleStore) -> None:
    longest = 0
    for i in range(400):
        store.upsert(Entry(f"e{n:03}", text=f"{i}") for n in range(20))
        longest = max(longest, logged(store))
    assert KEPT <= longest <= 2 * KEPT + 20


def test_the_change_log_keeps_more_changes_with_more_entries(store: LifecycleStore) -> None:
    store.upsert(Entry(f"e{i:05}") for i in range(6000))
    first = store.changes().cursor
    store.upsert(Entry(f"e{i:05}", text="again") for i in range(2999))
    assert store.changes(first).complete
    assert len(store.changes(first).written) == 2999
    store.upsert(Entry(f"e{i:05}", text="again") for i in range(4000))
    assert not store.changes(first).complete
    assert logged(store) <= 2 * 3000 + 1000


def test_changes_are_complete_only_for_cursors_within_the_change_log(store: LifecycleStore) -> None:
    churn(store, 2500)
    newest = store.changes().cursor.position
    reaches = newest - logged(store)
    for position in (0, 1, reaches - 1):
        found = store.changes(Cursor("", position))
        assert (found.complete, found.written, found.removed) == (False, (), ())
        assert found.cursor.position == newest
    for position in (reaches, reaches + 1, newest):
        assert store.changes(Cursor("", position)).complete
    assert store.changes(Cursor("", newest)).written == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_following_changes_by_cursor_reproduces_the_stored_entries(store: LifecycleStore, seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    held: dict[str, str] = {}
    cursor, scans = None, 0
    for _ in range(30):
        for _ in range(draw.choice([1, 1, 3, 40])):
            some = [f"e{draw.randrange(150):03}" for _ in range(draw.randrange(1, 300))]
            if draw.random() < 0.3:
                store.delete(some[:40])
            else:
                store.upsert(Entry(id, text=f"{draw.random()}") for id in some)
        changes = store.changes(cursor)
        cursor = changes.cursor
        if changes.complete:
            for id in changes.removed:
                held.pop(id, None)
            entries = store.get(changes.written)
        else:
            scans += 1
            held.clear()
            entries = list(store.scan())
        held.update({entry.id: entry.text for entry in entries if entry is not None})
        assert held == {entry.id: entry.text for entry in store.scan()}
    assert 1 < scans < 60


def answers(store: LifecycleStore) -> list[object]:
    query = np.array([1, 3, 0, 0], dtype=np.float32)
    near = [(match.entry.id, match.score) for match in store.search(query, 50)]
    text = [(match.entry.id, match.score) for match in store.search_text("text 7", 50)]
    return [near, text, store.count()]


@pytest.mark.parametrize("writes", first_fast([2500, 10, 900, 7000]))
def test_an_index_older_than_the_pruned_change_log_answers_like_a_fresh_index(tmp_path: Path, writes: int) -> None:
    path = tmp_path / "log.db"
    store, sleeper = SqliteStore(path, space=SPACE), SqliteStore(path)
    churn(store, 300, 300)
    assert answers(sleeper) == answers(store)
    churn(store, writes)
    store.delete([f"e{i:03}" for i in range(100, 200)])
    fresh = SqliteStore(path)
    assert answers(sleeper) == answers(store) == answers(fresh)
    for item in (store, sleeper, fresh):
        item.close()


def test_compacting_shortens_the_change_log_and_old_cursors_become_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store, sleeper = SqliteStore(path, space=SPACE), SqliteStore(path)
    churn(store, 1900)
    old = store.changes().cursor
    answers(sleeper)
    churn(store, 50)
    assert store.changes(Cursor("", 1)).complete
    store.compact()
    assert logged(store) == KEPT
    assert not store.changes(Cursor("", 1)).complete
    assert store.changes(old).complete
    assert answers(sleeper) == answers(store)
    sleeper.close()
    store.close()


def test_a_compacted_numpy_store_keeps_its_change_log() -> None:
    store = NumpyStore(space=SPACE)
    churn(store, 1200)
    cursor = store.changes().cursor
    churn(store, 10)
    store.compact()
    assert len(store.changes(cursor).written) == 10
