"""The contract of several objects on one store: a switch made by one is noticed by the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import SpaceChanged, SpaceMismatch, SpaceNotReady
from vectorstore.protocol import LifecycleStore
from vectorstore.testing.second_space import LIKE, NEXT, fill_all, filled, numbers
from vectorstore.testing.suite import COSINE, StoreContract, entry, ids_of, lifecycle, one
from vectorstore.types import Entry, Filling, Metric, Space


def calls_with_a_vector(store: LifecycleStore, vector: list[float]) -> dict[str, Callable[[], object]]:
    """Return each call that takes a vector of the space in use."""

    def viewed(method: str, *arguments: Any) -> object:
        with store.view([""]) as view:
            return getattr(view, method)(vector, *arguments)

    return {
        "upsert": lambda: store.upsert([entry("new", text="lost"), entry("a", vector)]),
        "put_vectors": lambda: store.put_vectors({"a": vector}),
        "search": lambda: store.search(vector),
        "search_many": lambda: store.search_many([vector]),
        "view.search": lambda: viewed("search"),
        "view.nearest": lambda: viewed("nearest", 3),
        "view.similarity": lambda: viewed("similarity", ["a"]),
    }


def everything_of(store: LifecycleStore) -> list[Entry]:
    """Return all entries of both namespaces."""
    return [kept for name in ("", "other") for kept in store.scan(namespace=name)]


class SharingContract(StoreContract):
    """Objects that have the same store open, of stores with the second protocol that *share*."""

    def test_a_switch_by_another_is_noticed_by_who_gives_a_vector(self) -> None:
        store = filled(self.open_lifecycle())
        other = self._beside(store)
        store.abort_space()
        store.begin_space(LIKE)
        assert ids_of(other.search([1, 0, 0], 1)) == ["a"]
        assert other.filling() == Filling(LIKE, 0, {"": 3, "other": 1})
        for name in ("", "other"):
            vectors = {kept.id: [0, 0, i + 1] for i, kept in enumerate(store.unfilled(namespace=name))}
            store.fill_space(LIKE, vectors, namespace=name)
        store.commit_space(LIKE)
        state = everything_of(store)
        for call in calls_with_a_vector(other, [1, 0, 0]).values():
            with pytest.raises(SpaceChanged) as caught:
                call()
            assert (caught.value.recorded, caught.value.given) == (LIKE, COSINE)
            with pytest.raises(SpaceChanged), other.transaction():
                call()
        assert everything_of(store) == everything_of(other) == state
        assert other.space == COSINE

    def test_the_recorded_space_is_that_of_the_last_switch_whoever_made_it(self) -> None:
        store = filled(self.open_lifecycle())
        other = self._beside(store)
        assert other.recorded_space() == other.space == COSINE
        fill_all(store)
        with store.transaction():
            store.commit_space(NEXT)
            assert store.recorded_space() == NEXT
        assert (other.recorded_space(), other.space) == (NEXT, COSINE)
        other.set_space(NEXT)
        assert other.recorded_space() == other.space == NEXT

    def test_a_vector_of_the_new_dimension_says_that_the_space_changed_and_not_that_it_is_too_short(self) -> None:
        store = filled(self.open_lifecycle())
        other = self._beside(store)
        assert ids_of(other.search([1, 0, 0], 1)) == ["a"]
        fill_all(store)
        store.commit_space(NEXT)
        state = everything_of(store)
        for call in calls_with_a_vector(other, [1, 2]).values():
            with pytest.raises(SpaceChanged):
                call()
        assert everything_of(store) == state

    def test_whoever_gives_no_vector_goes_on_after_a_switch_by_another(self) -> None:
        store = filled(self.open_lifecycle())
        other = self._beside(store)
        assert ids_of(other.search([1, 0, 0], 1)) == ["a"]
        fill_all(store)
        store.commit_space(NEXT)
        assert ids_of(other.search_text("zorb")) == ["a"]
        assert other.upsert([entry("c", text="zorb zorb")]) == 1
        other.patch({"a": {"n": 5}})
        assert other.delete(["b"]) == 1
        kept = one(other, "a")
        assert (numbers(kept), dict(kept.metadata)) == ([1, 2], {"n": 5})
        with other.view([""]) as view:
            assert [name for name, _ in view.matching("zorb", 9)] == ["c", "a"]
        other.begin_space(COSINE)
        assert store.filling() == Filling(COSINE, 0, {"": 3, "other": 1})
        assert ids_of(store.search([1, 2])) == ["a", "pending"]
        assert other.verify() == []

    def test_after_a_switch_by_another_one_goes_on_by_opening_again(self) -> None:
        store = filled(self.open_lifecycle())
        other, third = self._beside(store), self._beside(store)
        fill_all(store)
        store.commit_space(NEXT)
        again = self._beside(store)
        assert (again.space, ids_of(again.search([1, 2], 1))) == (NEXT, ["a"])
        with pytest.raises(SpaceChanged):
            other.search([1, 0, 0])
        other.set_space(NEXT)
        assert (other.space, ids_of(other.search([1, 2], 1))) == (NEXT, ["a"])
        with pytest.raises(SpaceMismatch):
            third.set_space(COSINE)
        with pytest.raises(SpaceNotReady):
            third.fill_space(NEXT, {"a": [1, 2]})
        again.upsert([entry("c", [1, 2])])
        assert ids_of(store.search([1, 2], 2)) == ids_of(other.search([1, 2], 2)) == ["a", "c"]

    def test_a_filling_that_another_ended_is_not_mixed_with_its_own(self) -> None:
        store = filled(self.open_lifecycle())
        other = self._beside(store)
        other.fill_space(NEXT, {"a": [1, 2]})
        store.abort_space()
        store.begin_space(Space("another", 2, Metric.L2))
        for call in (other.commit_space, lambda space: other.fill_space(space, {"b": [3, 4]})):
            with pytest.raises(SpaceNotReady):
                call(NEXT)
        assert other.filling() == Filling(Space("another", 2, Metric.L2), 0, {"": 3, "other": 1})

    def _beside(self, store: LifecycleStore) -> LifecycleStore:
        return lifecycle(self.beside(store))
