"""A second space in a file: damage, copies, other processes, threads, and transactions that other parts began."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import (
    Entry,
    Match,
    Metric,
    RevisionConflict,
    SettingMismatch,
    Space,
    SpaceChanged,
    SpaceMigration,
    SpaceMismatch,
    SpaceNotReady,
    SqliteStore,
)

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = Space("old", 3), Space("new", 2, Metric.L2)
LIKE = Space("like-old", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store with five entries; of the second space "a" has a vector, "b" a reason, "c" nothing."""
    with closing(SqliteStore(path, space=OLD)) as opened:
        opened.upsert([Entry(name, [i + 1, 1, 0], f"zorb {name}") for i, name in enumerate("abc")])
        opened.upsert([Entry("d", no_vector="too long"), Entry("e")], namespace="other")
        opened.begin_space(NEW)
        opened.fill_space(NEW, {"a": [1.5, 2.5]}, no_vector={"b": "no words"})
        yield opened


def finish(store: SqliteStore, space: Space = NEW) -> None:
    """Fill in what is pending, and switch."""
    vector = [9.0] * space.dimension
    for name in store.namespaces():
        vectors = {kept.id: vector for kept in store.unfilled(namespace=name)}
        store.fill_space(space, vectors, namespace=name)
    store.commit_space(space)


def ids(found: list[Match]) -> list[str]:
    return [match.entry.id for match in found]


def change(store: SqliteStore, statement: str) -> None:
    with store.database.write() as connection:
        connection.execute(statement)
        assert connection.changes()


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("UPDATE next_vectors SET vector = zeroblob(8)", "next_vectors"),
        ("UPDATE next_no_vector SET reason = 'other words'", "next_no_vector"),
        ("DELETE FROM next_vectors", "namespaces"),
        ("DELETE FROM next_no_vector", "namespaces"),
        ("UPDATE namespaces SET vector_tally = vector_tally + 1 WHERE name = ''", "namespaces"),
        ("UPDATE next_vectors SET namespace = 99", "next_vectors"),
    ],
)
def test_verify_reports_damage_to_the_rows_of_a_space_migration(store: SqliteStore, statement: str, part: str) -> None:
    assert store.verify() == []
    change(store, statement)
    assert part in {finding.part for finding in store.verify()}


def test_a_backup_holds_the_vectors_of_a_space_migration(store: SqliteStore, tmp_path: Path) -> None:
    store.backup(tmp_path / "copy.db")
    store.abort_space()
    with closing(SqliteStore(tmp_path / "copy.db")) as copy:
        assert copy.filling() == SpaceMigration(NEW, 1, {"": 1, "other": 1})
        finish(copy)
        assert [(kept.id, kept.no_vector) for kept in copy.scan()] == [("a", None), ("b", "no words"), ("c", None)]
        assert copy.verify() == []


def test_salvage_keeps_readable_vectors_of_a_space_migration_and_the_rest_is_pending(
    store: SqliteStore, tmp_path: Path
) -> None:
    store.fill_space(NEW, {"c": [3, 4]})
    change(store, "UPDATE next_vectors SET vector = zeroblob(8) WHERE key = (SELECT key FROM entries WHERE id = 'c')")
    assert store.database.salvage(tmp_path / "saved.db").saved("entries") == 5
    with closing(SqliteStore(tmp_path / "saved.db")) as saved:
        assert saved.verify() == []
        assert (saved.space, saved.filling()) == (OLD, SpaceMigration(NEW, 1, {"": 1, "other": 1}))
        assert [kept.id for kept in saved.unfilled()] == ["c"]
        assert ids(saved.search([1, 1, 0])) == ["a", "b", "c"]


def test_rebuilding_leaves_a_space_migration_unchanged(store: SqliteStore) -> None:
    before = store.filling()
    store.database.rebuild()
    assert (store.filling(), store.verify()) == (before, [])


def test_space_migrations_can_follow_each_other_any_number_of_times(store: SqliteStore, path: Path) -> None:
    finish(store)
    for space in (OLD, LIKE, NEW, OLD):
        store.begin_space(space)
        finish(store, space)
        assert ids(store.search([9.0] * space.dimension)) == ["a", "c"]
        assert store.verify() == []
    store.close()
    with closing(SqliteStore(path)) as again:
        assert (again.space, ids(again.search([1, 1, 1]))) == (OLD, ["a", "c"])
        with again.database.read() as connection:
            tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert {"vectors", "next_vectors"} <= tables
        assert not any(name.startswith("old") for name in tables)


def test_a_space_given_on_opening_is_checked_against_the_one_in_use(store: SqliteStore, path: Path) -> None:
    with pytest.raises(SpaceMismatch):
        SqliteStore(path, space=NEW)
    finish(store)
    with pytest.raises(SpaceMismatch):
        SqliteStore(path, space=OLD)
    SqliteStore(path, space=NEW).close()


SWITCH = """
import os, sys
from tellback.vectorstore.engines.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
space = store.filling().space
for name in store.namespaces():
    store.fill_space(space, {kept.id: [5, 5] for kept in store.unfilled(namespace=name)}, namespace=name)
if sys.argv[2] == "die":
    with store.transaction():
        store.commit_space(space)
        os._exit(7)
store.commit_space(space)
"""


def in_another_process(path: Path, what: str) -> int:
    command = [sys.executable, "-c", SWITCH, str(path), what]
    return subprocess.run(command, check=False, timeout=300, env={"PYTHONPATH": str(ROOT)}).returncode


def test_a_space_switch_by_another_process_raises_space_changed(store: SqliteStore, path: Path) -> None:
    assert ids(store.search([1, 1, 0], 1)) == ["a"]
    assert in_another_process(path, "live") == 0
    with pytest.raises(SpaceChanged):
        store.search([1, 1, 0])
    assert ids(store.search_text("zorb")) == ["a", "b", "c"]
    with closing(SqliteStore(path)) as again:
        assert ids(again.search([5, 5])) == ["c", "a"]


def test_a_process_dying_during_a_space_switch_leaves_the_old_space_whole(store: SqliteStore, path: Path) -> None:
    before = store.search([1, 1, 0])
    assert in_another_process(path, "die") == 7
    assert (store.search([1, 1, 0]), store.filling()) == (before, SpaceMigration(NEW, 3, {}))
    assert store.verify() == []
    store.commit_space(NEW)
    assert ids(store.search([5, 5])) == ["c", "a"]


def test_a_view_stays_in_the_space_in_which_it_was_opened(store: SqliteStore, path: Path) -> None:
    with closing(SqliteStore(path)) as other:
        with other.view([""]) as view:
            before = view.search([1, 1, 0])
            finish(store)
            assert view.search([1, 1, 0]) == before
            assert [match.entry.id for match in before] == ["a", "b", "c"]
        with pytest.raises(SpaceChanged):
            other.search([1, 1, 0])


def test_a_store_opened_without_a_space_takes_the_space_set_by_another_handle(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "m.db")) as first, closing(SqliteStore(tmp_path / "m.db")) as other:
        first.upsert([Entry("a", text="zorb")])
        assert other.space is None
        first.set_space(OLD)
        first.put_vectors({"a": [1, 0, 0]})
        assert other.space == OLD
        assert ids(other.search([1, 0, 0])) == ["a"]
        first.begin_space(LIKE)
        finish(first, LIKE)
        with pytest.raises(SpaceChanged):
            other.search([1, 0, 0])


def test_a_space_switch_between_vector_check_and_write_raises_space_changed(store: SqliteStore, path: Path) -> None:
    store.abort_space()
    store.begin_space(LIKE)

    class Slow:
        """A vector that takes its time to be read."""

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            with closing(SqliteStore(path)) as other:
                if other.filling() is not None:
                    finish(other, LIKE)
            return np.array([1, 0, 0], dtype=np.float32)

    with pytest.raises(SpaceChanged):
        store.upsert([Entry("new", text="lost"), Entry("a", Slow())])  # type: ignore[arg-type]
    assert store.get(["new"]) == [None]
    assert store.count() == 3


def test_concurrent_writes_during_a_space_migration_are_kept_with_vectors_of_their_texts(path: Path) -> None:
    names = [f"e{i}" for i in range(20)]
    with closing(SqliteStore(path, space=OLD)) as store:
        store.upsert(Entry(name, [0, 0, 1], "0") for name in names)
        store.begin_space(NEW)
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for turn in range(1, 15):
                    store.upsert(Entry(name, text=str(turn)) for name in names[turn % 3 :: 3])
                    store.upsert([Entry(f"new{turn}", text=str(turn))])
            except BaseException as failure:  # handed to the test's own thread
                failures.append(failure)

        writer = threading.Thread(target=write)
        writer.start()
        switched = False
        while not switched:
            for kept in list(store.unfilled()):
                with suppress(RevisionConflict):
                    store.fill_space(NEW, {kept.id: [int(kept.text), 1]}, expect={kept.id: kept.revision})
            with suppress(SpaceNotReady):
                store.commit_space(NEW)
                switched = True
        writer.join(timeout=300)
        assert (failures, writer.is_alive()) == ([], False)
        everything = list(store.scan())
        assert {kept.id for kept in everything} == {*names, *(f"new{turn}" for turn in range(1, 15))}
        assert all(kept.vector is None or kept.vector.tolist() == [int(kept.text), 1] for kept in everything)
        assert store.verify() == []


class Halt(Exception):
    """Leaves a block from inside."""


@contextmanager
def undone(store: SqliteStore) -> Iterator[None]:
    """A transaction that another part of the file begins, and that fails at its end."""
    with pytest.raises(Halt), store.database.write():  # noqa: PT012 - the block is the caller's
        yield
        raise Halt


def test_a_space_switch_rolled_back_by_the_databases_transaction_is_forgotten(store: SqliteStore, path: Path) -> None:
    store.abort_space()
    store.begin_space(LIKE)
    with undone(store):
        finish(store, LIKE)
        assert len(store.search([9, 9, 9])) == 3
    assert (store.space, store.filling()) == (OLD, SpaceMigration(LIKE, 0, {"": 3, "other": 1}))
    with closing(SqliteStore(path)) as other:
        finish(other, LIKE)
    with pytest.raises(SpaceChanged), store.database.write():
        store.search([1, 0, 0])
    with pytest.raises(SpaceChanged), store.database.write():
        store.put_vectors({"a": [1, 0, 0]})


def test_a_search_inside_a_rolled_back_database_transaction_leaves_no_stale_index(
    store: SqliteStore, path: Path
) -> None:
    with undone(store):
        store.upsert([Entry("lost", [1, 0, 0], "prax")])
        assert ids(store.search([1, 0, 0], 1)) == ["lost"]
    with closing(SqliteStore(path)) as other:
        other.upsert([Entry("kept", [0, 0, 1], "vexa")])
    with store.database.write():
        assert ids(store.search([1, 0, 0])) == ["c", "b", "a", "kept"]
        assert (ids(store.search_text("prax")), ids(store.search_text("vexa"))) == ([], ["kept"])


def test_fields_declared_by_another_handle_are_used_after_reopening(store: SqliteStore, path: Path) -> None:
    store.patch({"a": {"n": 1}})
    with closing(SqliteStore(path, fields=())) as other:
        other.declare_fields(("n",))
    assert ids(store.search([1, 1, 0], where={"n": 1})) == ["a"]
    assert store.fields == ()
    with pytest.raises(SettingMismatch):
        SqliteStore(path, fields=())
    with closing(SqliteStore(path, fields=("n",))) as again:
        assert ids(again.search([1, 1, 0], where={"n": 1})) == ["a"]
