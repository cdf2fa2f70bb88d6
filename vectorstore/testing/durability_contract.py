"""Contract of ``transaction``, ``set_space``, ``erase``, ``verify``, ``compact`` and ``backup``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from vectorstore.database import Connection, TableComponent
from vectorstore.errors import (
    ArgumentError,
    RevisionConflict,
    SpaceMismatch,
    StoreClosed,
    UnsupportedError,
    VectorStoreError,
)
from vectorstore.protocol import LifecycleStore
from vectorstore.testing.suite import (
    COSINE_SPACE,
    StoreContract,
    TransactionAbandoned,
    abandoned_transaction,
    all_entries,
    get_entry,
    ids_and_scores,
    make_entry,
    result_ids,
)
from vectorstore.types import Entry, Metric, Space


def fill_store(store: LifecycleStore) -> LifecycleStore:
    """Return *store* with a few entries in two namespaces."""
    store.upsert(
        [make_entry("a", [1, 0, 0], "zorb", x=1), make_entry("b", [0, 1, 0], "quil", x=2), make_entry("c", text="vexa")]
    )
    store.upsert([make_entry("a", [0, 0, 1], "zorb zorb")], namespace="other")
    return store


def store_state(store: LifecycleStore) -> dict[str, Any]:
    """Return all that can be asked of a store that ``fill_store`` wrote."""
    state: dict[str, Any] = {"entries": all_entries(store, ["", "other"]), "namespaces": store.namespaces()}
    for name in ("", "other"):
        state[f"near {name}"] = ids_and_scores(store.search([0.9, 0.1, 0.2], 99, namespace=name))
        state[f"text {name}"] = ids_and_scores(store.search_text("zorb quil vexa morp", 99, namespace=name))
        with store.view([name]) as view:
            state[f"words {name}"] = dict(view.vocabulary(namespace=name))
    return state


def write_everything(store: LifecycleStore) -> None:
    """Use each method that writes, in both namespaces."""
    store.upsert([make_entry("a", [0, 1, 1], "morp", x=9), make_entry("d", [1, 1, 0], "zorb")])
    store.patch({"b": {"x": 7}})
    store.put_vectors({"c": [1, 1, 1], "b": [0, 0, 1]})
    store.upsert([make_entry("e", text="morp")], namespace="other")
    store.delete(["a"], namespace="other")
    store.delete(where={"x": 9})


def _m001_notes(connection: Connection) -> None:
    connection.execute("CREATE TABLE contract_notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")


_NOTES: Final = TableComponent("contract_notes", (_m001_notes,), ("contract_notes",))


class DurabilityContract(StoreContract):
    """Transactions, spaces, erasure, verification and copies, of stores with the second protocol."""

    def test_the_recorded_space_is_the_one_that_was_set(self) -> None:
        store = self.open_lifecycle(None)
        assert store.recorded_space() is None
        with pytest.raises(TransactionAbandoned), store.transaction():  # noqa: PT012 - the block fails at its end
            store.set_space(COSINE_SPACE)
            assert store.recorded_space() == COSINE_SPACE
            raise TransactionAbandoned
        assert store.recorded_space() is None
        store.set_space(COSINE_SPACE)
        assert store.recorded_space() == COSINE_SPACE
        store.close()
        with pytest.raises(StoreClosed):
            store.recorded_space()

    def test_a_transaction_commits_at_its_end(self) -> None:
        store, plain = fill_store(self.open_lifecycle()), fill_store(self.open_lifecycle())
        write_everything(plain)
        with store.transaction():
            write_everything(store)
            inside = store_state(store)
        assert inside == store_state(store) == store_state(plain)

    def test_a_transaction_that_fails_never_was(self) -> None:
        store = fill_store(self.open_lifecycle())
        before, cursor = store_state(store), store.changes().cursor
        with abandoned_transaction(store):
            write_everything(store)
            assert store_state(store) != before
        assert store_state(store) == before
        assert store.changes(cursor).written == ()
        assert store.verify() == []
        write_everything(store)
        assert store_state(store) != before

    def test_a_transaction_that_fails_leaves_no_namespace_behind(self) -> None:
        store = fill_store(self.open_lifecycle())
        with abandoned_transaction(store):
            store.upsert([make_entry("x", [1, 0, 0], "prax")], namespace="new")
        assert store.namespaces() == ["", "other"]
        assert store.search([1, 0, 0], namespace="new") == []
        assert store.search_text("prax", namespace="new") == []

    def test_a_failed_call_inside_leaves_the_rest_of_the_transaction(self) -> None:
        store = fill_store(self.open_lifecycle())
        with store.transaction():
            store.upsert([make_entry("kept", [1, 0, 0], "morp")])
            with pytest.raises(ArgumentError):
                store.upsert([make_entry("lost"), make_entry("")])
            with pytest.raises(RevisionConflict):
                store.patch({"a": {"x": 5}, "b": {"x": 5}}, expect={"b": 0})
            with pytest.raises(LookupError):
                store.upsert(_failing_entries())
        assert result_ids(store.scan()) == ["a", "b", "c", "kept"]
        assert [dict(get_entry(store, name).metadata) for name in "ab"] == [{"x": 1}, {"x": 2}]
        assert store.verify() == []

    def test_transactions_nest_and_the_outermost_commits(self) -> None:
        store = fill_store(self.open_lifecycle())
        before = store_state(store)
        with abandoned_transaction(store):
            with store.transaction():
                write_everything(store)
            assert store_state(store) != before
        assert store_state(store) == before
        with store.transaction(), store.transaction():
            write_everything(store)
        assert store_state(store) != before

    def test_an_inner_transaction_that_fails_is_undone_alone(self) -> None:
        store = fill_store(self.open_lifecycle())
        with store.transaction():
            store.upsert([make_entry("outer", [1, 0, 0], "morp")])
            with abandoned_transaction(store):
                write_everything(store)
            assert result_ids(store.scan()) == ["a", "b", "c", "outer"]
        assert result_ids(store.scan()) == ["a", "b", "c", "outer"]
        assert result_ids(store.search_text("morp")) == ["outer"]
        assert store.verify() == []

    @pytest.mark.parametrize("outermost", ["transaction", "write"])
    def test_tables_beside_the_entries_commit_with_them_or_not_at_all(self, outermost: str) -> None:
        store = fill_store(self.open_lifecycle())
        database = store.database
        if database is None:
            pytest.skip("has no database")
        database.attach(_NOTES)

        def block() -> AbstractContextManager[object]:
            return store.transaction() if outermost == "transaction" else database.write()

        def write(name: str) -> None:
            store.upsert([make_entry(name, [0, 1, 1], "morp")])
            with database.write() as connection:
                connection.execute("INSERT INTO contract_notes (text) VALUES (?)", (name,))

        def written() -> tuple[list[str], list[str]]:
            with database.read() as connection:
                notes = [text for (text,) in connection.execute("SELECT text FROM contract_notes ORDER BY text")]
            return result_ids(store.search_text("morp")), notes

        with block():
            write("first")
        assert written() == (["first"], ["first"])
        before = store_state(store)
        with pytest.raises(TransactionAbandoned), block():  # noqa: PT012 - the block fails in the middle
            write("second")
            write_everything(store)
            with block():
                write("third")
            raise TransactionAbandoned
        assert written() == (["first"], ["first"])
        assert store_state(store) == before
        with block():
            write("fourth")
            with pytest.raises(TransactionAbandoned), block():  # noqa: PT012 - the block fails in the middle
                write("fifth")
                raise TransactionAbandoned
        assert written() == (["first", "fourth"], ["first", "fourth"])
        assert store.verify() == []

    def test_a_space_is_recorded_once(self) -> None:
        store = self.open_lifecycle(None)
        store.upsert([make_entry("a", text="zorb"), Entry("b", no_vector="too long")])
        store.set_space(COSINE_SPACE)
        store.set_space(COSINE_SPACE)
        assert store.space == COSINE_SPACE
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
            store.put_vectors({"a": [1, 0, 0]})
            assert result_ids(store.search([1, 0, 0])) == ["a"]
        assert store.space is None
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0])
        store.set_space(Space("other", 2))
        assert store.put_vectors({"a": [1, 0]}) == 1

    def test_what_is_erased_is_gone_with_its_words(self) -> None:
        store = self.open_lifecycle()
        store.upsert([make_entry("a", [1, 0, 0], "zorb secretword", "contextword"), make_entry("b", [1, 0, 0], "zorb")])
        store.upsert([make_entry("a", text="secretword")], namespace="other")
        erasure = store.erase(["a", "missing", "a"])
        assert erasure.removed == 1
        assert erasure.pending == store.pending_erasure()
        assert (
            result_ids(store.scan())
            == result_ids(store.search([1, 0, 0]))
            == result_ids(store.search_text("zorb"))
            == ["b"]
        )
        with store.view(["", "other"]) as view:
            assert dict(view.vocabulary()) == {"zorb": 1}
            assert dict(view.vocabulary(namespace="other")) == {"secretword": 1}
        assert store.erase(["missing"]).removed == 0
        assert store.verify() == []
        store.upsert([make_entry("a", text="zorb secretword")])
        assert result_ids(store.search_text("secretword")) == ["a"]

    def test_what_is_erased_is_in_no_byte_of_its_files(self) -> None:
        store = self.open_lifecycle()
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb quil " * 20) for i in range(50))
        store.upsert([make_entry("id-of-secret", [1, 0, 0], "secretword", "contextword", key="metadataword")])
        store.search_text("secretword")
        secrets = [b"secretword", b"contextword", b"metadataword"]
        before = self._bytes()
        if not any(secret in before for secret in secrets):
            pytest.skip("keeps no readable files here")
        store.erase(["id-of-secret"])
        assert not store.pending_erasure()
        after = self._bytes()
        assert [secret for secret in secrets if secret in after] == []

    def test_a_good_store_verifies(self) -> None:
        store = fill_store(self.open_lifecycle())
        assert store.verify() == []
        write_everything(store)
        store.erase(["b"])
        assert store.verify() == []

    def test_compacting_changes_nothing_that_can_be_asked(self) -> None:
        store = fill_store(self.open_lifecycle())
        write_everything(store)
        store.upsert([make_entry("short-lived", text="ephemeral")], namespace="passing")
        store.delete(["short-lived"], namespace="passing")
        before, cursor = store_state(store), store.changes().cursor
        revision = get_entry(store, "d").revision
        compaction = store.compact()
        assert (compaction.before >= compaction.after, compaction.pending) == (True, False)
        assert store_state(store) == before
        assert store.verify() == []
        store.upsert([make_entry("later", [1, 1, 0], "ephemeral morp")])
        assert store.changes(cursor).complete
        assert store.changes(cursor).written == ("later",)
        assert get_entry(store, "later").revision > revision
        assert result_ids(store.search_text("ephemeral")) == ["later"]
        assert store.verify() == []

    def test_compacting_gives_back_what_was_deleted(self) -> None:
        store = self.open_lifecycle()
        words = " ".join(f"word{i}" for i in range(300))
        store.upsert(make_entry(f"e{i}", [1, i, 0], f"{words} own{i}") for i in range(300))
        store.delete([f"e{i}" for i in range(290)])
        compaction = store.compact()
        assert (compaction.freed > compaction.after) == (compaction.before > 0)
        with store.view([""]) as view:
            assert len(view.vocabulary()) == 310
        assert len(result_ids(store.search_text("word7", 20))) == 10
        second = store.compact()
        assert second.after == compaction.after

    def test_compacting_is_refused_inside_a_transaction(self) -> None:
        store = fill_store(self.open_lifecycle())
        before = store_state(store)
        with store.transaction():
            store.upsert([make_entry("kept", [1, 0, 0])])
            with pytest.raises(UnsupportedError):
                store.compact()
        store.delete(["kept"])
        assert store_state(store) == before

    def test_a_backup_is_the_whole_store(self) -> None:
        store = fill_store(self.open_lifecycle())
        copy = self.folder() / "copy"
        store.backup(str(copy))
        before = store_state(store)
        write_everything(store)
        with pytest.raises(VectorStoreError):
            store.backup(str(copy))
        restored = self._tracked(self.restore(copy, self.folder()))
        assert isinstance(restored, LifecycleStore)
        assert store_state(restored) == before
        assert restored.verify() == []

    def test_a_closed_store_refuses_all_of_this(self) -> None:
        store = fill_store(self.open_lifecycle())
        store.close()
        with pytest.raises(StoreClosed):
            store.changes()
        with pytest.raises(StoreClosed), store.view([""]):
            pass
        with pytest.raises(StoreClosed), store.transaction():
            pass
        with pytest.raises(StoreClosed):
            store.erase(["a"])
        with pytest.raises(StoreClosed):
            store.verify()
        with pytest.raises(StoreClosed):
            store.compact()

    def _bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())


def _failing_entries() -> Iterator[Entry]:
    yield make_entry("lost")
    raise LookupError("the source went away")
