"""Contract of wrappers: everything that an upper layer uses of a store is that of the store inside.

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
from typing import Any, cast

import numpy as np
import pytest

from vectorstore.errors import UnsupportedError
from vectorstore.protocol import LifecycleStore, VectorStore, View
from vectorstore.testing.model import ModelStore
from vectorstore.testing.suite import COSINE_SPACE, TransactionAbandoned, ids_and_scores, make_entry, result_ids
from vectorstore.types import Space
from vectorstore.wrappers import lifecycle_of, missing_operations


def declared_members(protocol: type) -> dict[str, Any]:
    """Return the methods and properties that *protocol* itself names."""
    return {name: member for name, member in vars(protocol).items() if not name.startswith("_")}


STORE_MEMBERS = {**declared_members(VectorStore), **declared_members(LifecycleStore)}
PROPERTIES = sorted(name for name, member in STORE_MEMBERS.items() if isinstance(member, property))
METHODS = sorted(set(STORE_MEMBERS) - set(PROPERTIES))


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

    def test_every_method_of_a_view_answers_as_the_view_inside(self) -> None:
        values: dict[str, Any] = {"vector": [1, 0, 0], "query": "zorb", "ids": ["a", "x"], "terms": ["zorb"]}
        values |= {"n": 3, "k": 3, "where": {"x": 1}, "namespace": ""}
        for name, method in declared_members(View).items():
            options = {key: values[key] for key in list(inspect.signature(method).parameters)[1:]}
            with self.store.view([""]) as view:
                outer = getattr(view, name)(**options)
            with self.inside.view([""]) as view:
                inner = getattr(view, name)(**options)
            if isinstance(inner, np.ndarray):
                assert np.array_equal(outer, inner, equal_nan=inner.dtype.kind == "f"), name
            else:
                assert outer == inner, name

    def test_a_transaction_covers_calls_through_the_wrapper_and_the_store_inside(self) -> None:
        with pytest.raises(TransactionAbandoned), self.store.transaction():  # noqa: PT012 - the block fails at its end
            self.store.upsert([make_entry("c", text="morp")])
            self.inside.upsert([make_entry("d", text="morp")])
            raise TransactionAbandoned
        assert result_ids(self.store.scan()) == result_ids(self.inside.scan()) == ["a", "b"]
        with self.store.transaction():
            self.store.upsert([make_entry("c", text="morp")])
            self.inside.upsert([make_entry("d", text="morp")])
        assert result_ids(self.store.scan()) == result_ids(self.inside.scan()) == ["a", "b", "c", "d"]

    def test_a_transaction_covers_the_tables_beside_the_store(self) -> None:
        database = self.store.database
        if database is None:
            pytest.skip("this store is in no file")
        with database.write() as connection:
            connection.execute("CREATE TABLE beside (value TEXT) STRICT")
        with pytest.raises(TransactionAbandoned), self.store.transaction():  # noqa: PT012 - the block fails at its end
            with database.write() as connection:
                connection.execute("INSERT INTO beside VALUES ('x')")
            raise TransactionAbandoned
        with database.read() as connection:
            assert list(connection.execute("SELECT value FROM beside")) == []
        with self.store.transaction(), database.write() as connection:
            connection.execute("INSERT INTO beside VALUES ('x')")
        with database.read() as connection:
            assert list(connection.execute("SELECT value FROM beside")) == [("x",)]

    def test_a_space_migration_is_the_same_through_the_wrapper(self) -> None:
        wide = Space("wide", 2)
        self.store.begin_space(wide)
        assert self.store.filling() == self.inside.filling()
        assert result_ids(self.store.unfilled()) == result_ids(self.inside.unfilled()) == ["a", "b"]
        self.store.fill_space(wide, {"a": [1, 0], "b": [0, 1]})
        assert self.store.recorded_space() == self.inside.recorded_space() == COSINE_SPACE
        self.store.commit_space(wide)
        assert self.store.space == self.store.recorded_space() == self.inside.recorded_space() == wide

    def test_searches_find_the_same(self) -> None:
        assert ids_and_scores(self.store.search([1, 0.5, 0])) == ids_and_scores(self.inside.search([1, 0.5, 0]))
        assert ids_and_scores(self.store.search_text("zorb quil")) == ids_and_scores(
            self.inside.search_text("zorb quil")
        )

    def test_changes_go_on_from_a_cursor_of_the_store_inside(self) -> None:
        cursor = self.inside.changes().cursor
        self.store.upsert([make_entry("c", text="morp")])
        assert self.store.changes(cursor) == self.inside.changes(cursor)
        assert self.store.changes(cursor).written == ("c",)

    def test_what_a_data_only_store_lacks_is_known_and_refused_by_name(self) -> None:
        model = ModelStore(space=COSINE_SPACE)
        store = self.wrap(model)
        assert missing_operations(store) == missing_operations(model) != ()
        assert lifecycle_of(store) is None
        with pytest.raises(UnsupportedError, match="ModelStore"):
            cast("LifecycleStore", store).verify()
        store.upsert([make_entry("a", [1, 0, 0])])
        assert model.count() == 1
