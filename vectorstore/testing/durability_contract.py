"""Contract of ``transaction``, ``set_space``, ``erase``, ``verify``, ``compact`` and ``backup``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vectorstore.errors import (
    ArgumentError,
    RevisionConflict,
    SpaceMismatch,
    StoreClosed,
    UnsupportedError,
    VectorStoreError,
)
from vectorstore.protocol import LifecycleStore
from vectorstore.testing.suite import COSINE, Halt, StoreContract, abandoned, entry, everything, ids_of, one, scored
from vectorstore.types import Entry, Metric, Space


def filled(store: LifecycleStore) -> LifecycleStore:
    """Return *store* with a few entries in two namespaces."""
    store.upsert([entry("a", [1, 0, 0], "zorb", x=1), entry("b", [0, 1, 0], "quil", x=2), entry("c", text="vexa")])
    store.upsert([entry("a", [0, 0, 1], "zorb zorb")], namespace="other")
    return store


def state(store: LifecycleStore) -> dict[str, Any]:
    """Return all that can be asked of a store that ``filled`` wrote."""
    shown: dict[str, Any] = {"entries": everything(store, ["", "other"]), "namespaces": store.namespaces()}
    for name in ("", "other"):
        shown[f"near {name}"] = scored(store.search([0.9, 0.1, 0.2], 99, namespace=name))
        shown[f"text {name}"] = scored(store.search_text("zorb quil vexa morp", 99, namespace=name))
        with store.view([name]) as view:
            shown[f"words {name}"] = dict(view.vocabulary(namespace=name))
    return shown


def write_all(store: LifecycleStore) -> None:
    """Use each method that writes, in both namespaces."""
    store.upsert([entry("a", [0, 1, 1], "morp", x=9), entry("d", [1, 1, 0], "zorb")])
    store.patch({"b": {"x": 7}})
    store.put_vectors({"c": [1, 1, 1], "b": [0, 0, 1]})
    store.upsert([entry("e", text="morp")], namespace="other")
    store.delete(["a"], namespace="other")
    store.delete(where={"x": 9})


class LastingContract(StoreContract):
    """Transactions, spaces, erasure, verification and copies, of stores with the second protocol."""

    def test_the_recorded_space_is_the_one_that_was_set(self) -> None:
        store = self.open_lifecycle(None)
        assert store.recorded_space() is None
        with pytest.raises(Halt), store.transaction():  # noqa: PT012 - the block fails at its end
            store.set_space(COSINE)
            assert store.recorded_space() == COSINE
            raise Halt
        assert store.recorded_space() is None
        store.set_space(COSINE)
        assert store.recorded_space() == COSINE
        store.close()
        with pytest.raises(StoreClosed):
            store.recorded_space()

    def test_a_transaction_commits_at_its_end(self) -> None:
        store, plain = filled(self.open_lifecycle()), filled(self.open_lifecycle())
        write_all(plain)
        with store.transaction():
            write_all(store)
            inside = state(store)
        assert inside == state(store) == state(plain)

    def test_a_transaction_that_fails_never_was(self) -> None:
        store = filled(self.open_lifecycle())
        before, cursor = state(store), store.changes().cursor
        with abandoned(store):
            write_all(store)
            assert state(store) != before
        assert state(store) == before
        assert store.changes(cursor).written == ()
        assert store.verify() == []
        write_all(store)
        assert state(store) != before

    def test_a_transaction_that_fails_leaves_no_namespace_behind(self) -> None:
        store = filled(self.open_lifecycle())
        with abandoned(store):
            store.upsert([entry("x", [1, 0, 0], "prax")], namespace="new")
        assert store.namespaces() == ["", "other"]
        assert store.search([1, 0, 0], namespace="new") == []
        assert store.search_text("prax", namespace="new") == []

    def test_a_failed_call_inside_leaves_the_rest_of_the_transaction(self) -> None:
        store = filled(self.open_lifecycle())
        with store.transaction():
            store.upsert([entry("kept", [1, 0, 0], "morp")])
            with pytest.raises(ArgumentError):
                store.upsert([entry("lost"), entry("")])
            with pytest.raises(RevisionConflict):
                store.patch({"a": {"x": 5}, "b": {"x": 5}}, expect={"b": 0})
            with pytest.raises(LookupError):
                store.upsert(_failing())
        assert ids_of(store.scan()) == ["a", "b", "c", "kept"]
        assert [dict(one(store, name).metadata) for name in "ab"] == [{"x": 1}, {"x": 2}]
        assert store.verify() == []

    def test_transactions_nest_and_the_outermost_commits(self) -> None:
        store = filled(self.open_lifecycle())
        before = state(store)
        with abandoned(store):
            with store.transaction():
                write_all(store)
            assert state(store) != before
        assert state(store) == before
        with store.transaction(), store.transaction():
            write_all(store)
        assert state(store) != before

    def test_an_inner_transaction_that_fails_is_undone_alone(self) -> None:
        store = filled(self.open_lifecycle())
        with store.transaction():
            store.upsert([entry("outer", [1, 0, 0], "morp")])
            with abandoned(store):
                write_all(store)
            assert ids_of(store.scan()) == ["a", "b", "c", "outer"]
        assert ids_of(store.scan()) == ["a", "b", "c", "outer"]
        assert ids_of(store.search_text("morp")) == ["outer"]
        assert store.verify() == []

    def test_a_space_is_recorded_once(self) -> None:
        store = self.open_lifecycle(None)
        store.upsert([entry("a", text="zorb"), Entry("b", no_vector="too long")])
        store.set_space(COSINE)
        store.set_space(COSINE)
        assert store.space == COSINE
        for other in (Space("other", 3), Space("toy", 4), Space("toy", 3, Metric.DOT)):
            with pytest.raises(SpaceMismatch):
                store.set_space(other)
        assert ids_of(store.scan(embedded=False)) == ["a"]
        assert store.search([1, 0, 0]) == []
        assert store.put_vectors({"a": [1, 0, 0]}) == 1
        store.upsert([entry("c", [0, 1, 0])])
        assert ids_of(store.search([1, 0, 0])) == ["a", "c"]
        assert ids_of(store.search_text("zorb")) == ["a"]

    def test_a_space_recorded_in_a_transaction_that_fails_is_not(self) -> None:
        store = self.open_lifecycle(None)
        store.upsert([entry("a", text="zorb")])
        with abandoned(store):
            store.set_space(COSINE)
            store.put_vectors({"a": [1, 0, 0]})
            assert ids_of(store.search([1, 0, 0])) == ["a"]
        assert store.space is None
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0])
        store.set_space(Space("other", 2))
        assert store.put_vectors({"a": [1, 0]}) == 1

    def test_what_is_erased_is_gone_with_its_words(self) -> None:
        store = self.open_lifecycle()
        store.upsert([entry("a", [1, 0, 0], "zorb secretword", "contextword"), entry("b", [1, 0, 0], "zorb")])
        store.upsert([entry("a", text="secretword")], namespace="other")
        erasure = store.erase(["a", "missing", "a"])
        assert erasure.removed == 1
        assert erasure.pending == store.pending_erasure()
        assert ids_of(store.scan()) == ids_of(store.search([1, 0, 0])) == ids_of(store.search_text("zorb")) == ["b"]
        with store.view(["", "other"]) as view:
            assert dict(view.vocabulary()) == {"zorb": 1}
            assert dict(view.vocabulary(namespace="other")) == {"secretword": 1}
        assert store.erase(["missing"]).removed == 0
        assert store.verify() == []
        store.upsert([entry("a", text="zorb secretword")])
        assert ids_of(store.search_text("secretword")) == ["a"]

    def test_what_is_erased_is_in_no_byte_of_its_files(self) -> None:
        store = self.open_lifecycle()
        store.upsert(entry(f"e{i}", [i, 1, 0], "zorb quil " * 20) for i in range(50))
        store.upsert([entry("id-of-secret", [1, 0, 0], "secretword", "contextword", key="metadataword")])
        store.search_text("secretword")
        secrets = [b"secretword", b"contextword", b"metadataword"]
        held = self._bytes()
        if not any(secret in held for secret in secrets):
            pytest.skip("keeps no readable files here")
        store.erase(["id-of-secret"])
        assert not store.pending_erasure()
        left = self._bytes()
        assert [secret for secret in secrets if secret in left] == []

    def test_a_good_store_verifies(self) -> None:
        store = filled(self.open_lifecycle())
        assert store.verify() == []
        write_all(store)
        store.erase(["b"])
        assert store.verify() == []

    def test_compacting_changes_nothing_that_can_be_asked(self) -> None:
        store = filled(self.open_lifecycle())
        write_all(store)
        store.upsert([entry("short-lived", text="ephemeral")], namespace="passing")
        store.delete(["short-lived"], namespace="passing")
        before, cursor = state(store), store.changes().cursor
        revision = one(store, "d").revision
        done = store.compact()
        assert (done.before >= done.after, done.pending) == (True, False)
        assert state(store) == before
        assert store.verify() == []
        store.upsert([entry("later", [1, 1, 0], "ephemeral morp")])
        assert store.changes(cursor).complete
        assert store.changes(cursor).written == ("later",)
        assert one(store, "later").revision > revision
        assert ids_of(store.search_text("ephemeral")) == ["later"]
        assert store.verify() == []

    def test_compacting_gives_back_what_was_deleted(self) -> None:
        store = self.open_lifecycle()
        words = " ".join(f"word{i}" for i in range(300))
        store.upsert(entry(f"e{i}", [1, i, 0], f"{words} own{i}") for i in range(300))
        store.delete([f"e{i}" for i in range(290)])
        done = store.compact()
        assert (done.freed > done.after) == (done.before > 0)
        with store.view([""]) as view:
            assert len(view.vocabulary()) == 310
        assert len(ids_of(store.search_text("word7", 20))) == 10
        again = store.compact()
        assert again.after == done.after

    def test_compacting_is_refused_inside_a_transaction(self) -> None:
        store = filled(self.open_lifecycle())
        before = state(store)
        with store.transaction():
            store.upsert([entry("kept", [1, 0, 0])])
            with pytest.raises(UnsupportedError):
                store.compact()
        store.delete(["kept"])
        assert state(store) == before

    def test_a_backup_is_the_whole_store(self) -> None:
        store = filled(self.open_lifecycle())
        copy = self.folder() / "copy"
        store.backup(str(copy))
        before = state(store)
        write_all(store)
        with pytest.raises(VectorStoreError):
            store.backup(str(copy))
        restored = self._kept(self.restore(copy, self.folder()))
        assert isinstance(restored, LifecycleStore)
        assert state(restored) == before
        assert restored.verify() == []

    def test_a_closed_store_refuses_all_of_this(self) -> None:
        store = filled(self.open_lifecycle())
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


def _failing() -> Iterator[Entry]:
    yield entry("lost")
    raise LookupError("the source went away")
