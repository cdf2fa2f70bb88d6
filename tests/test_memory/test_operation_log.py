"""Operation log: every change with its actor, in write order.

Inner parts, on no face: ``tellback.memory.tables.operation_log``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import ArgumentError, LongTermMemory, Memory, Message, run_sync
from tellback.memory.internals import MemoryChange, Operation
from tellback.memory.tables.operation_log import OperationLog
from tellback.vectorstore import Database, Entry, LifecycleStore, lifecycle_of, open_store
from tellback.vectorstore.sqlite import InMemoryDatabase, SqliteDatabase
from tellback.vectorstore.testing import ModelStore

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def log(database: Database) -> OperationLog:
    return OperationLog(database)


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store)


def operation(id: str, *changes: MemoryChange, at: datetime = NOW) -> Operation:
    return Operation(id, "pin", "user", at, changes)


def test_the_operation_log_lists_newest_first_by_write_order_not_by_time(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1), at=NOW))
    log.add("", operation("b", MemoryChange("n", 2), at=NOW - timedelta(days=400)))
    assert [item.id for item in log.list("")] == ["b", "a"]
    assert [item.id for item in log.list("", before="b")] == ["a"]
    assert [item.id for item in log.list("", limit=1)] == ["b"]


def test_an_operation_comes_back_as_it_was(log: OperationLog) -> None:
    given = operation(
        "a", MemoryChange("m", 3, old={"tags": ["x"]}, new={"tags": []}), MemoryChange("n", None, gone=True)
    )
    log.add("", given)
    assert log.get("", "a") == given
    assert log.get("", "b") is None


def test_the_operation_log_can_be_read_by_memory_and_by_namespace(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1)))
    log.add("", operation("b", MemoryChange("n", 1)))
    log.add("other", operation("c", MemoryChange("m", 1)))
    assert [item.id for item in log.list("", memory="m")] == ["a"]
    assert [item.id for item in log.list("other")] == ["c"]
    assert log.get("other", "a") is None


def test_later_groups_the_following_operations_by_memory_with_only_its_changes(log: OperationLog) -> None:
    """Other memories and other namespaces are not in it, nor is what came before."""
    first, pinned = MemoryChange("m", 1), MemoryChange("m", 2, old={"pinned": None}, new={"pinned": True})
    log.add("", operation("before", first, MemoryChange("n", 1)))
    log.add("", operation("it", first, MemoryChange("n", 1), MemoryChange("o", 1)))
    log.add("", operation("b", pinned, MemoryChange("p", 1)))
    log.add("else", operation("d", MemoryChange("m", 3)))
    log.add("", operation("c", MemoryChange("n", None, gone=True), MemoryChange("m", 3), at=NOW - timedelta(days=400)))
    log.undone("", "b", "c")
    later = log.later("", "it")
    assert {id: [item.id for item in those] for id, those in later.items()} == {"m": ["c", "b"], "n": ["c"]}
    assert [item.changes for item in later["m"]] == [(MemoryChange("m", 3),), (pinned,)]
    assert later["m"][1].undone_by == "c"
    assert dict(log.later("", "c")) == {}
    with pytest.raises(ArgumentError, match="d"):
        log.later("", "d")


def test_an_undone_operation_names_the_operation_that_undid_it(log: OperationLog) -> None:
    log.add("", operation("a", MemoryChange("m", 1)))
    log.undone("", "a", "b")
    assert log.list("")[0].undone_by == "b"
    log.undone("", "a", None)
    assert log.list("")[0].undone_by is None


def test_forgetting_erases_the_values_of_a_memory_from_the_operation_log(log: OperationLog) -> None:
    log.add(
        "", operation("a", MemoryChange("m", 1, old={"tags": ["secret"]}), MemoryChange("n", 1, old={"tags": ["kept"]}))
    )
    log.add("other", operation("b", MemoryChange("m", 1, old={"tags": ["theirs"]})))
    log.erase("", ["m"], lambda text: False)
    assert [change.old for change in log.list("")[0].changes] == [{}, {"tags": ["kept"]}]
    assert log.list("other")[0].changes[0].old == {"tags": ["theirs"]}


@pytest.mark.parametrize("fields", [{"old": {"tags": ["a secret"]}}, {"new": {"tags": ["fine", "a secret"]}}])
def test_forgotten_words_are_erased_from_log_values_of_other_memories(
    log: OperationLog, fields: dict[str, Any]
) -> None:
    export = MemoryChange("", new={"path": "a secret.jsonl"})  # the name of an existing file, which the log keeps
    log.add("", operation("a", MemoryChange("m", 1, **fields), MemoryChange("n", 1, new={"tags": ["kept"]}), export))
    log.add("other", operation("b", MemoryChange("m", 1, **fields)))
    log.erase("", [], lambda text: "secret" in text)
    assert [(change.old, change.new) for change in log.list("")[0].changes] == [
        ({}, {}),
        ({}, {"tags": ["kept"]}),
        ({}, {"path": "a secret.jsonl"}),
    ]
    assert log.list("other")[0].changes[0] == MemoryChange("m", 1, **fields)


def test_listing_the_operation_log_before_an_unknown_operation_is_refused(log: OperationLog) -> None:
    with pytest.raises(ArgumentError, match=r"operation.*nowhere"):
        log.list("", before="nowhere")


def test_each_change_of_a_memory_is_logged_with_its_actor(memory: LongTermMemory) -> None:
    kept = run_sync(memory.remember("I live in Lisbon."))
    corrected = run_sync(memory.correct(kept.id, "I live in Porto.", actor="assistant", approved_by="user"))
    gone = run_sync(memory.forget([kept.id]))
    log = run_sync(memory.operations(memory=kept.id))
    assert [(item.kind, item.actor) for item in log] == [
        ("forget", "user"),
        ("correct", "assistant"),
        ("remember", "user"),
    ]
    assert [item.id for item in log] == [gone.operation, corrected.operation, kept.operation]
    assert log[0].changes[0].gone


def test_remember_many_and_remember_turn_log_one_operation_of_the_least_trusted_actor(memory: LongTermMemory) -> None:
    lines = run_sync(memory.remember_many(["one thing", Memory(text="another", actor="tool", trust="tool")]))
    turn = run_sync(memory.remember_turn("s", [Message.user("I sail."), Message.assistant("Where do you sail?")]))
    newest, older = run_sync(memory.operations())
    assert {line.operation for line in lines} == {older.id}
    assert {line.operation for line in turn} == {newest.id}
    assert (older.actor, newest.actor) == ("tool", "assistant")


def test_calls_without_effect_are_not_logged(memory: LongTermMemory) -> None:
    kept = run_sync(memory.remember(Memory(text="once", key="k")))
    again = run_sync(memory.remember(Memory(text="once", key="k")))
    run_sync(memory.correct(kept.id, "once"))
    run_sync(memory.forget([kept.id], dry_run=True))
    assert again.operation is None
    assert len(run_sync(memory.operations())) == 1


def test_a_data_only_store_keeps_memory_tables_in_the_given_database(tmp_path: Path) -> None:
    texts = ["I moved to Lisbon.", "I moved to Porto."]
    for count, text in enumerate(texts, start=1):
        with SqliteDatabase(tmp_path / "beside.db") as database:
            memory = LongTermMemory(ModelStore(), database=database)
            run_sync(memory.remember_turn("s", [Message.user(text)]))
            memory.tombstones.add("/conversation", [str(count)], NOW)
            stored = [row.message.text for row in run_sync(memory.conversations.load("s"))]
            assert stored == texts[:count]
            assert memory.tombstones.which("/conversation", ["1", "2"]) == {str(n) for n in range(1, count + 1)}


def test_a_store_with_its_own_database_refuses_another(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="database: this store has a database of its own"):
        LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), database=InMemoryDatabase())
    store = open_store("numpy:")
    assert LongTermMemory(store, database=lifecycle_of(store).database).database is lifecycle_of(store).database  # type: ignore[union-attr]


def test_a_rolled_back_in_memory_transaction_undoes_entries_and_tombstones() -> None:
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
