"""Contract of ``transaction``, ``set_space``, ``erase``, ``verify``, ``compact`` and ``backup``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

import pytest

from tellback.vectorstore.database import Connection, TableComponent
from tellback.vectorstore.errors import (
    ArgumentError,
    RevisionConflict,
    SpaceMismatch,
    StoreClosed,
    UnsupportedError,
    VectorStoreError,
)
from tellback.vectorstore.protocol import LifecycleStore
from tellback.vectorstore.testing.suite import (
    COSINE_SPACE,
    StoreContract,
    TransactionAbandoned,
    abandoned_transaction,
    calls_not_refused,
    fill_store,
    get_entry,
    make_entry,
    protocol_calls,
    result_ids,
    store_answers,
)
from tellback.vectorstore.types import Entry, Metric, Space


def write_everything(store: LifecycleStore) -> None:
    """Use each method that writes, in both namespaces."""
    store.upsert([make_entry("a", [0, 1, 1], "prax", x=9), make_entry("d", [1, 1, 0], "zorb")])
    store.patch({"b": {"x": 7}})
    store.put_vectors({"pending": [1, 1, 1], "b": [0, 0, 1]})
    store.upsert([make_entry("e", text="prax")], namespace="other")
    store.delete(["a"], namespace="other")
    store.delete(where={"x": 9})


def _m001_notes(connection: Connection) -> None:
    connection.execute("CREATE TABLE contract_notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")


_NOTES: Final = TableComponent("contract_notes", (_m001_notes,), ("contract_notes",))


class DurabilityContract(StoreContract):
    """Transactions, spaces, erasure, verification and copies, of stores with the second protocol."""

    def test_a_transaction_commits_at_its_end(self, filled: LifecycleStore) -> None:
        plain = fill_store(self.open_lifecycle())
        write_everything(plain)
        with filled.transaction():
            write_everything(filled)
            inside = store_answers(filled)
        assert inside == store_answers(filled) == store_answers(plain)
        assert filled.verify() == plain.verify() == []

    def test_a_failed_transaction_leaves_no_trace(self, filled: LifecycleStore) -> None:
        before, cursor = store_answers(filled), filled.changes().cursor
        with abandoned_transaction(filled):
            write_everything(filled)
            filled.upsert([make_entry("x", [1, 0, 0], "prax")], namespace="new")
            assert store_answers(filled) != before
        assert store_answers(filled) == before
        assert filled.search([1, 0, 0], namespace="new") == filled.search_text("prax", namespace="new") == []
        assert filled.changes(cursor).written == ()
        assert filled.verify() == []
        write_everything(filled)
        assert store_answers(filled) != before

    def test_a_failed_call_inside_leaves_the_rest_of_the_transaction(self, filled: LifecycleStore) -> None:
        with filled.transaction():
            filled.upsert([make_entry("kept", [1, 0, 0], "prax")])
            with pytest.raises(ArgumentError):
                filled.upsert([make_entry("lost"), make_entry("")])
            with pytest.raises(RevisionConflict):
                filled.patch({"a": {"x": 5}, "b": {"x": 5}}, expect={"b": 0})
            with pytest.raises(LookupError):
                filled.upsert(_failing_entries())
        assert result_ids(filled.scan()) == ["a", "b", "kept", "never", "pending"]
        assert [dict(get_entry(filled, name).metadata) for name in "ab"] == [{"n": 1}, {"n": 2}]
        assert filled.verify() == []

    def test_transactions_nest_and_the_outermost_commits(self, filled: LifecycleStore) -> None:
        before = store_answers(filled)
        with abandoned_transaction(filled):
            with filled.transaction():
                write_everything(filled)
            assert store_answers(filled) != before
        assert store_answers(filled) == before
        with filled.transaction(), filled.transaction():
            write_everything(filled)
        assert store_answers(filled) != before

    def test_an_inner_transaction_that_fails_is_undone_alone(self, filled: LifecycleStore) -> None:
        with filled.transaction():
            filled.upsert([make_entry("outer", [1, 0, 0], "prax")])
            with abandoned_transaction(filled):
                write_everything(filled)
            assert result_ids(filled.scan()) == ["a", "b", "never", "outer", "pending"]
        assert result_ids(filled.scan()) == ["a", "b", "never", "outer", "pending"]
        assert result_ids(filled.search_text("prax")) == ["outer"]
        assert filled.verify() == []

    @pytest.mark.parametrize("outermost", ["transaction", "write"])
    def test_tables_beside_the_entries_commit_with_them_or_not_at_all(
        self, filled: LifecycleStore, outermost: str
    ) -> None:
        database = filled.database
        if database is None:
            pytest.skip("has no database")
        database.attach(_NOTES)

        def block() -> AbstractContextManager[object]:
            return filled.transaction() if outermost == "transaction" else database.write()

        def write(name: str) -> None:
            filled.upsert([make_entry(name, [0, 1, 1], "prax")])
            with database.write() as connection:
                connection.execute("INSERT INTO contract_notes (text) VALUES (?)", (name,))

        def written() -> tuple[list[str], list[str]]:
            with database.read() as connection:
                notes = [text for (text,) in connection.execute("SELECT text FROM contract_notes ORDER BY text")]
            return result_ids(filled.search_text("prax")), notes

        with block():
            write("first")
        assert written() == (["first"], ["first"])
        before = store_answers(filled)
        with pytest.raises(TransactionAbandoned), block():  # noqa: PT012 - the block fails in the middle
            write("second")
            write_everything(filled)
            with block():
                write("third")
            raise TransactionAbandoned
        assert written() == (["first"], ["first"])
        assert store_answers(filled) == before
        with block():
            write("fourth")
            with pytest.raises(TransactionAbandoned), block():  # noqa: PT012 - the block fails in the middle
                write("fifth")
                raise TransactionAbandoned
        assert written() == (["first", "fourth"], ["first", "fourth"])
        assert filled.verify() == []

    def test_a_space_is_recorded_once(self) -> None:
        store = self.open_lifecycle(None)
        store.upsert([make_entry("a", text="zorb"), Entry("b", no_vector="too long")])
        store.set_space(COSINE_SPACE)
        store.set_space(COSINE_SPACE)
        assert store.space == store.recorded_space() == COSINE_SPACE
        for other in (Space("other", 3), Space("toy", 4), Space("toy", 3, Metric.DOT)):
            with pytest.raises(SpaceMismatch):
                store.set_space(other)
        assert result_ids(store.scan(embedded=False)) == ["a"]
        assert store.search([1, 0, 0]) == []
        assert store.put_vectors({"a": [1, 0, 0]}) == 1
        store.upsert([make_entry("c", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0])) == ["a", "c"]
        assert result_ids(store.search_text("zorb")) == ["a"]

    def test_a_space_recorded_in_a_transaction_that_fails_is_not(self) -> None:
        store = self.open_lifecycle(None)
        store.upsert([make_entry("a", text="zorb")])
        with abandoned_transaction(store):
            store.set_space(COSINE_SPACE)
            assert store.recorded_space() == COSINE_SPACE
            store.put_vectors({"a": [1, 0, 0]})
            assert result_ids(store.search([1, 0, 0])) == ["a"]
        assert store.space is store.recorded_space() is None
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0])
        store.set_space(Space("other", 2))
        assert store.put_vectors({"a": [1, 0]}) == 1

    def test_an_erased_entry_is_gone_with_its_words(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb secretword", "contextword"), make_entry("b", [1, 0, 0], "zorb")])
        store.upsert([make_entry("a", text="secretword")], namespace="other")
        erasure = store.erase(["a", "missing", "a"])
        assert erasure.removed == 1
        assert erasure.pending == store.pending_erasure()
        for found in (store.scan(), store.search([1, 0, 0]), store.search_text("zorb")):
            assert result_ids(found) == ["b"]
        with store.view(["", "other"]) as view:
            assert dict(view.vocabulary()) == {"zorb": 1}
            assert dict(view.vocabulary(namespace="other")) == {"secretword": 1}
        assert store.erase(["missing"]).removed == 0
        assert store.verify() == []
        store.upsert([make_entry("a", text="zorb secretword")])
        assert result_ids(store.search_text("secretword")) == ["a"]

    def test_an_erased_entry_is_in_no_byte_of_the_files(self, store: LifecycleStore) -> None:
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb quil " * 20) for i in range(50))
        store.upsert([make_entry("id-of-secret", [1, 0, 0], "secretword", "contextword", key="metadataword")])
        store.search_text("secretword")
        secrets = [b"secretword", b"contextword", b"metadataword"]
        if not any(secret in self.bytes_on_disk() for secret in secrets):
            pytest.skip("keeps no readable files here")
        store.erase(["id-of-secret"])
        assert not store.pending_erasure()
        after = self.bytes_on_disk()
        assert [secret for secret in secrets if secret in after] == []

    def test_compacting_changes_no_answer(self, filled: LifecycleStore) -> None:
        write_everything(filled)
        filled.upsert([make_entry("short-lived", text="ephemeral")], namespace="passing")
        filled.delete(["short-lived"], namespace="passing")
        before, cursor = store_answers(filled), filled.changes().cursor
        revision = get_entry(filled, "d").revision
        compaction = filled.compact()
        assert (compaction.before >= compaction.after, compaction.pending) == (True, False)
        assert store_answers(filled) == before
        assert filled.verify() == []
        filled.upsert([make_entry("later", [1, 1, 0], "ephemeral prax")])
        assert filled.changes(cursor).complete
        assert filled.changes(cursor).written == ("later",)
        assert get_entry(filled, "later").revision > revision
        assert result_ids(filled.search_text("ephemeral")) == ["later"]
        assert filled.verify() == []

    def test_compacting_frees_the_space_of_deleted_entries(self, store: LifecycleStore) -> None:
        words = " ".join(f"word{i}" for i in range(300))
        store.upsert(make_entry(f"e{i}", [1, i, 0], f"{words} own{i}") for i in range(300))
        store.delete([f"e{i}" for i in range(290)])
        compaction = store.compact()
        assert (compaction.freed > compaction.after) == (compaction.before > 0)
        with store.view([""]) as view:
            assert len(view.vocabulary()) == 310
        assert len(result_ids(store.search_text("word7", 20))) == 10
        assert store.compact().after == compaction.after

    def test_compacting_is_refused_inside_a_transaction(self, filled: LifecycleStore) -> None:
        before = store_answers(filled)
        with filled.transaction():
            filled.upsert([make_entry("kept", [1, 0, 0])])
            with pytest.raises(UnsupportedError):
                filled.compact()
        filled.delete(["kept"])
        assert store_answers(filled) == before

    def test_a_backup_is_the_whole_store(self, filled: LifecycleStore) -> None:
        copy = self.folder() / "copy"
        filled.backup(str(copy))
        before = store_answers(filled)
        write_everything(filled)
        with pytest.raises(VectorStoreError):
            filled.backup(str(copy))
        restored = self.restored(filled, copy)
        assert store_answers(restored) == before
        assert restored.verify() == []

    def test_a_closed_store_refuses_every_method_of_the_lifecycle(self, migrating: LifecycleStore) -> None:
        migrating.close()
        assert calls_not_refused(StoreClosed, protocol_calls(LifecycleStore, migrating)) == []


def _failing_entries() -> Iterator[Entry]:
    yield make_entry("lost")
    raise LookupError("the source went away")
