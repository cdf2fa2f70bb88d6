"""The contract of time: ``close``, opening again, and several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from vectorstore.errors import StoreClosed
from vectorstore.protocol import VectorStore
from vectorstore.testing.suite import StoreContract, entry, everything, ids_of, one, scored
from vectorstore.types import Entry


def every_call(store: VectorStore) -> dict[str, Callable[[], object]]:
    """Return each method of the data part as a call with good arguments."""
    return {
        "upsert": lambda: store.upsert([entry("a")]),
        "patch": lambda: store.patch({"a": {}}),
        "put_vectors": lambda: store.put_vectors({"a": [1, 0, 0]}),
        "get": lambda: store.get(["a"]),
        "search": lambda: store.search([1, 0, 0]),
        "search_many": lambda: store.search_many([[1, 0, 0]]),
        "search_text": lambda: store.search_text("zorb"),
        "delete": lambda: store.delete(["a"]),
        "count": lambda: store.count(),
        "scan": lambda: list(store.scan()),
        "namespaces": lambda: store.namespaces(),
    }


class ClosingContract(StoreContract):
    """A closed store says so, an opened one is as it was left, and threads may share it."""

    def test_a_closed_store_answers_nothing(self) -> None:
        store = self.open()
        store.upsert([entry("a", [1, 0, 0], "zorb")])
        store.search([1, 0, 0])
        store.close()
        store.close()
        for call in every_call(store).values():
            with pytest.raises(StoreClosed):
                call()

    def test_a_scan_ends_with_its_store(self) -> None:
        store = self.open()
        store.upsert(entry(f"e{i:05}") for i in range(3000))
        scan = store.scan()
        next(scan)
        store.close()
        with pytest.raises(StoreClosed):
            list(scan)

    def test_a_store_opened_again_is_as_it_was_left(self) -> None:
        store = self.open()
        for name in ("", "other", "é"):
            store.upsert(
                (
                    Entry(f"e{i}", None if i % 4 == 0 else [i, 1, 0], f"zorb {'quil ' * i}", "vexa", {"n": i})  # type: ignore[arg-type]
                    for i in range(20)
                ),
                namespace=name,
            )
            store.upsert([Entry("never", text="zorb", no_vector="too long")], namespace=name)
            store.patch({"e3": {"deep": {"list": [1.0, 1, True, None, 2**70]}}}, namespace=name)
            store.put_vectors({"e4": [0.1, 0.2, 0.3]}, namespace=name)
            store.delete(["e5", "e6"], namespace=name)
        names = store.namespaces()
        before = everything(store, names)
        vector = {name: scored(store.search([0.3, 1, 0.1], 99, namespace=name)) for name in names}
        text = {name: scored(store.search_text("zorb quil vexa", 99, namespace=name)) for name in names}
        again = self.reopened(store)
        assert again.space == store.space
        assert again.namespaces() == names
        assert everything(again, names) == before
        assert {name: scored(again.search([0.3, 1, 0.1], 99, namespace=name)) for name in names} == vector
        assert {name: scored(again.search_text("zorb quil vexa", 99, namespace=name)) for name in names} == text
        assert all(vector.values())
        assert all(text.values())

    def test_a_revision_is_not_used_again_after_opening_again(self) -> None:
        store = self.open()
        store.upsert([entry("a"), entry("b")])
        used = max(kept.revision for kept in store.scan())
        store.delete(["a", "b"])
        again = self.reopened(store)
        again.upsert([entry("c")])
        assert one(again, "c").revision > used

    def test_a_store_opened_again_goes_on(self) -> None:
        store = self.open()
        store.upsert([entry("a", [1, 0, 0], "zorb"), entry("b", [0, 1, 0], "quil")])
        again = self.reopened(store)
        again.upsert([entry("c", [1, 0, 0], "zorb vexa"), entry("a", [0, 0, 1], "vexa")])
        assert ids_of(again.search([1, 0, 0], 1)) == ["c"]
        assert ids_of(again.search_text("zorb")) == ["c"]
        assert ids_of(again.search_text("vexa")) == ["a", "c"]
        assert again.delete(["b"]) == 1
        assert ids_of(again.scan()) == ["a", "c"]

    def test_threads_share_a_store(self) -> None:
        store = self.open()
        failures: list[BaseException] = []
        start = threading.Barrier(4)

        def work(number: int) -> None:
            try:
                start.wait(timeout=60)
                for i in range(12):
                    store.upsert([entry(f"{number}-{i}", [number, i, 1], "zorb", n=number)])
                    assert len(store.search([1, 1, 1], 5, where={"n": number})) == min(i + 1, 5)
                    assert store.count(where={"n": number}) == i + 1
                    assert f"{number}-{i}" in ids_of(store.search_text("zorb", 99))
            except BaseException as failure:  # handed to the test's own thread
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert failures == []
        assert store.count() == 48
        assert sorted({kept.revision for kept in store.scan()}) == sorted(kept.revision for kept in store.scan())
