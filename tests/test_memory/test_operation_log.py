"""The log of operations: every change is in it, with its actor, in the order in which it was done.

Inner parts, on no face: ``memory.tables.operation_log``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory import ArgumentError, LongTermMemory, Memory, Message, run_sync
from memory.internals import MemoryChange, Operation
from memory.tables.operation_log import OperationLog
from vectorstore import Entry, LifecycleStore, lifecycle_of, open_store
from vectorstore.sqlite import InMemoryDatabase, SqliteDatabase
from vectorstore.testing import ModelStore

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OperationLog]:
    if request.param == "memory":
        yield OperationLog(InMemoryDatabase())
        return
    database = SqliteDatabase(tmp_path / "log.db")
    yield OperationLog(database)
    database.close()


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store)


def operation(id: str, *changes: MemoryChange, at: datetime = NOW) -> Operation:
    return Operation(id, "pin", "user", at, changes)


def test_the_newest_comes_first_whatever_the_clock_said(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1), at=NOW))
    log.add("", operation("b", MemoryChange("n", 2), at=NOW - timedelta(days=400)))
    assert [one.id for one in log.list("")] == ["b", "a"]
    assert [one.id for one in log.list("", before="b")] == ["a"]
    assert [one.id for one in log.list("", limit=1)] == ["b"]


def test_an_operation_comes_back_as_it_was(log: OperationLog) -> None:
    given = operation(
        "a", MemoryChange("m", 3, old={"tags": ["x"]}, new={"tags": []}), MemoryChange("n", None, gone=True)
    )
    log.add("", given)
    assert log.get("", "a") == given
    assert log.get("", "b") is None


def test_one_memory_has_its_own_operations_and_one_namespace_too(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1)))
    log.add("", operation("b", MemoryChange("n", 1)))
    log.add("other", operation("c", MemoryChange("m", 1)))
    assert [one.id for one in log.list("", memory="m")] == ["a"]
    assert [one.id for one in log.list("other")] == ["c"]
    assert log.get("other", "a") is None


def test_what_came_later_is_told_by_memory_with_the_change_of_that_one_alone(log: OperationLog) -> None:
    """Other memories and other namespaces are not in it, nor is what came before."""
    first, pinned = MemoryChange("m", 1), MemoryChange("m", 2, old={"pinned": None}, new={"pinned": True})
    log.add("", operation("before", first, MemoryChange("n", 1)))
    log.add("", operation("it", first, MemoryChange("n", 1), MemoryChange("o", 1)))
    log.add("", operation("b", pinned, MemoryChange("p", 1)))
    log.add("else", operation("d", MemoryChange("m", 3)))
    log.add("", operation("c", MemoryChange("n", None, gone=True), MemoryChange("m", 3), at=NOW - timedelta(days=400)))
    log.undone("", "b", "c")
    later = log.later("", "it")
    assert {id: [one.id for one in those] for id, those in later.items()} == {"m": ["c", "b"], "n": ["c"]}
    assert [one.changes for one in later["m"]] == [(MemoryChange("m", 3),), (pinned,)]
    assert later["m"][1].undone_by == "c"
    assert dict(log.later("", "c")) == {}
    with pytest.raises(ArgumentError, match="d"):
        log.later("", "d")


def test_what_was_taken_back_says_by_what(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1)))
    log.undone("", "a", "b")
    assert log.list("")[0].undone_by == "b"
    log.undone("", "a", None)
    assert log.list("")[0].undone_by is None


def test_what_was_forgotten_keeps_no_values_in_the_log(log: OperationLog) -> None:
    log.add(
        "", operation("a", MemoryChange("m", 1, old={"tags": ["secret"]}), MemoryChange("n", 1, old={"tags": ["kept"]}))
    )
    log.add("other", operation("b", MemoryChange("m", 1, old={"tags": ["theirs"]})))
    log.erase("", ["m"], lambda text: False)
    assert [change.old for change in log.list("")[0].changes] == [{}, {"tags": ["kept"]}]
    assert log.list("other")[0].changes[0].old == {"tags": ["theirs"]}


@pytest.mark.parametrize("fields", [{"old": {"tags": ["a secret"]}}, {"new": {"tags": ["fine", "a secret"]}}])
def test_words_that_were_forgotten_stay_in_no_value_of_another_memory(
    log: OperationLog, fields: dict[str, Any]
) -> None:
    export = MemoryChange(
        "", new={"path": "a secret.jsonl"}
    )  # the name of a file that is still there, and is to be named
    log.add("", operation("a", MemoryChange("m", 1, **fields), MemoryChange("n", 1, new={"tags": ["kept"]}), export))
    log.add("other", operation("b", MemoryChange("m", 1, **fields)))
    log.erase("", [], lambda text: "secret" in text)
    assert [(change.old, change.new) for change in log.list("")[0].changes] == [
        ({}, {}),
        ({}, {"tags": ["kept"]}),
        ({}, {"path": "a secret.jsonl"}),
    ]
    assert log.list("other")[0].changes[0] == MemoryChange("m", 1, **fields)


def test_an_unknown_place_in_the_log_is_named(log: OperationLog) -> None:
    with pytest.raises(ArgumentError, match=r"operation.*nowhere"):
        log.list("", before="nowhere")


def test_each_change_of_a_memory_is_logged_with_its_actor(memory: LongTermMemory) -> None:
    kept = run_sync(memory.remember("I live in Lisbon."))
    corrected = run_sync(memory.correct(kept.id, "I live in Porto.", actor="assistant", approved_by="user"))
    gone = run_sync(memory.forget([kept.id]))
    log = run_sync(memory.operations(memory=kept.id))
    assert [(one.kind, one.actor) for one in log] == [
        ("forget", "user"),
        ("correct", "assistant"),
        ("remember", "user"),
    ]
    assert [one.id for one in log] == [gone.operation, corrected.operation, kept.operation]
    assert log[0].changes[0].gone


def test_what_is_remembered_together_is_one_operation_of_its_least_trusted(memory: LongTermMemory) -> None:
    lines = run_sync(memory.remember_many(["one thing", Memory(text="another", actor="tool", trust="tool")]))
    turn = run_sync(memory.remember_turn("s", [Message.user("I sail."), Message.assistant("Where do you sail?")]))
    newest, older = run_sync(memory.operations())
    assert {one.operation for one in lines} == {older.id}
    assert {one.operation for one in turn} == {newest.id}
    assert (older.actor, newest.actor) == ("tool", "assistant")


def test_nothing_done_is_nothing_logged(memory: LongTermMemory) -> None:
    kept = run_sync(memory.remember(Memory(text="once", key="k")))
    again = run_sync(memory.remember(Memory(text="once", key="k")))
    run_sync(memory.correct(kept.id, "once"))
    run_sync(memory.forget([kept.id], dry_run=True))
    assert again.operation is None
    assert len(run_sync(memory.operations())) == 1


def test_a_store_with_data_alone_keeps_its_tables_in_the_database_that_it_is_given(tmp_path: Path) -> None:
    texts = ["I moved to Lisbon.", "I moved to Porto."]
    for count, text in enumerate(texts, start=1):
        with SqliteDatabase(tmp_path / "beside.db") as database:
            memory = LongTermMemory(ModelStore(), database=database, offline=True)
            run_sync(memory.remember_turn("s", [Message.user(text)]))
            memory.tombstones.add("/conversation", [str(count)], NOW)
            stored = [row.message.text for row in run_sync(memory.conversations.load("s"))]
            assert stored == texts[:count]
            assert memory.tombstones.which("/conversation", ["1", "2"]) == {str(n) for n in range(1, count + 1)}


def test_a_store_with_a_database_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="database: this store has a database of its own"):
        LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), database=InMemoryDatabase())
    store = open_store("numpy:")
    assert LongTermMemory(store, database=lifecycle_of(store).database).database is lifecycle_of(store).database  # type: ignore[union-attr]


def test_operations_of_a_store_in_the_process_are_undone_with_its_entries() -> None:
    memory = LongTermMemory(open_store("numpy:"))

    def fail_within_a_transaction() -> None:
        with memory.store.transaction():  # type: ignore[attr-defined]
            memory.store.upsert([Entry("a", None, "never stored")], namespace="/conversation")
            memory.tombstones.add("/conversation", ["b"], NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within_a_transaction()
    assert memory.store.get(["a"], namespace="/conversation") == [None]
    assert memory.tombstones.which("/conversation", ["b"]) == set()
