"""Contract of wrappers: every operation that upper layers use equals that of the wrapped store.

    class TestMyWrapper(WrapperContract):
        def make_store(self, path):
            return open_store(f"sqlite:///{path / 'memory.db'}", space=COSINE_SPACE)

        def wrap(self, store):
            return MyWrapper(store)

A wrapper that only forwards passes ``VectorStoreContract`` and ``LifecycleContract``, too; these tests are about what
those cannot see.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tellback.vectorstore.errors import UnsupportedError
from tellback.vectorstore.protocol import LifecycleStore, VectorStore, View
from tellback.vectorstore.testing.model import ModelStore
from tellback.vectorstore.testing.suite import (
    COSINE_SPACE,
    NEXT_SPACE,
    abandoned_transaction,
    declared_members,
    make_entry,
    protocol_calls,
    result_ids,
)
from tellback.vectorstore.wrapper_store import lifecycle_of, missing_operations

STORE_MEMBERS = {**declared_members(VectorStore), **declared_members(LifecycleStore)}
PROPERTIES = sorted(name for name, member in STORE_MEMBERS.items() if isinstance(member, property))
METHODS = sorted(set(STORE_MEMBERS) - set(PROPERTIES))
READING = (
    *("get", "search", "search_many", "search_text", "count", "scan", "namespaces"),
    *("recorded_space", "changes", "filling", "unfilled", "pending_erasure", "verify"),
)


def reading_answers(store: LifecycleStore) -> dict[str, object]:
    """Return what each method that reads answers, those of a view included."""
    calls = protocol_calls(VectorStore, store) | protocol_calls(LifecycleStore, store)
    answers = {name: calls[name]() for name in READING}
    with store.view([""]) as view:
        return answers | {f"view.{name}": call() for name, call in protocol_calls(View, view).items()}


class WrapperContract(ABC):
    """A wrapper around a whole store, and around one that is data-only."""

    @abstractmethod
    def make_store(self, path: Path) -> LifecycleStore:
        """Return a new store of ``COSINE_SPACE`` in the empty folder *path*."""

    @abstractmethod
    def wrap(self, store: VectorStore) -> VectorStore:
        """Return the wrapper around *store*."""

    @pytest.fixture(autouse=True)
    def _stores(self, tmp_path: Path) -> Iterator[None]:
        self.inside = self.make_store(tmp_path)
        self.inside.upsert([make_entry("a", [1, 0, 0], "zorb quil", x=1), make_entry("b", [0, 1, 0], "zorb", x=2)])
        store = lifecycle_of(self.wrap(self.inside))
        assert store is not None, "a wrapper of a whole store is a whole store"
        self.store = store
        yield
        self.store.close()

    @pytest.mark.parametrize("name", PROPERTIES)
    def test_a_property_is_that_of_the_store_inside(self, name: str) -> None:
        outer, inner = getattr(self.store, name), getattr(self.inside, name)
        assert outer is inner or outer == inner

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_has_the_parameters_of_the_protocol(self, name: str) -> None:
        actual = list(inspect.signature(getattr(self.store, name)).parameters.items())
        declared = list(inspect.signature(STORE_MEMBERS[name]).parameters.items())[1:]
        assert [(key, parameter.kind, parameter.default) for key, parameter in actual] == [
            (key, parameter.kind, parameter.default) for key, parameter in declared
        ]

    def test_every_way_of_reading_answers_as_the_store_inside(self) -> None:
        self.inside.begin_space(NEXT_SPACE)
        outer, inner = reading_answers(self.store), reading_answers(self.inside)
        assert outer.keys() == inner.keys() > set(READING)
        for name, answer in outer.items():
            np.testing.assert_equal(answer, inner[name], name)

    def test_a_transaction_covers_calls_through_the_wrapper_and_the_store_inside(self) -> None:
        with abandoned_transaction(self.store):
            self.store.upsert([make_entry("c", text="morp")])
            self.inside.upsert([make_entry("d", text="morp")])
        assert result_ids(self.store.scan()) == result_ids(self.inside.scan()) == ["a", "b"]
        with self.store.transaction():
            self.store.upsert([make_entry("c", text="morp")])
            self.inside.upsert([make_entry("d", text="morp")])
        assert result_ids(self.store.scan()) == result_ids(self.inside.scan()) == ["a", "b", "c", "d"]

    def test_a_space_migration_is_the_same_through_the_wrapper(self) -> None:
        self.store.begin_space(NEXT_SPACE)
        self.store.fill_space(NEXT_SPACE, {"a": [1, 0], "b": [0, 1]})
        assert self.store.recorded_space() == self.inside.recorded_space() == COSINE_SPACE
        self.store.commit_space(NEXT_SPACE)
        assert self.store.space == self.store.recorded_space() == self.inside.recorded_space() == NEXT_SPACE

    def test_changes_go_on_from_a_cursor_of_the_store_inside(self) -> None:
        cursor = self.inside.changes().cursor
        self.store.upsert([make_entry("c", text="morp")])
        assert self.store.changes(cursor) == self.inside.changes(cursor)
        assert self.store.changes(cursor).written == ("c",)

    def test_operations_that_a_data_only_store_lacks_are_refused_by_name(self) -> None:
        model = ModelStore(space=COSINE_SPACE)
        store = self.wrap(model)
        assert missing_operations(store) == missing_operations(model) != ()
        assert lifecycle_of(store) is None
        with pytest.raises(UnsupportedError, match="ModelStore"):
            cast("LifecycleStore", store).verify()
        store.upsert([make_entry("a", [1, 0, 0])])
        assert model.count() == 1
