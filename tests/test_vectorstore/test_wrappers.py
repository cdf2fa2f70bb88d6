"""Wrappers keep the contract of the wrapped store on both engines, and observers get every event.

Inner parts, on no face: ``tellback.vectorstore.testing.suite``, ``tellback.vectorstore.testing.wrapper_contract``.
"""

import inspect
from pathlib import Path
from typing import Any

import pytest

from tellback.vectorstore import (
    Entry,
    LifecycleStore,
    NumpyStore,
    Space,
    SqliteStore,
    UnsupportedError,
    VectorStore,
    WrapperStore,
    missing_operations,
)
from tellback.vectorstore.testing import (
    FilterContract,
    LifecycleContract,
    ModelStore,
    VectorStoreContract,
    WrapperContract,
)
from tellback.vectorstore.testing.suite import declared_members
from tellback.vectorstore.testing.wrapper_contract import PROPERTIES, STORE_MEMBERS

TOY = Space("toy", 2)


@pytest.mark.slow
class TestWrappedNumpyStore(VectorStoreContract, FilterContract, LifecycleContract):
    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        return WrapperStore(NumpyStore(space=space, fields=fields))

    def restore(self, backup: Path, path: Path) -> VectorStore:
        return WrapperStore(NumpyStore.open(backup))


@pytest.mark.slow
class TestWrappedSqliteStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = shares = True

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        return WrapperStore(SqliteStore(path / "memory.db", space=space, fields=fields))

    def reopen(self, store: VectorStore, path: Path) -> VectorStore:
        store.close()
        return WrapperStore(SqliteStore(path / "memory.db"))

    def open_beside(self, store: VectorStore, path: Path) -> VectorStore:
        return WrapperStore(SqliteStore(path / "memory.db"))

    def restore(self, backup: Path, path: Path) -> VectorStore:
        return WrapperStore(SqliteStore(backup))


class NumpyInside(WrapperContract):
    def make_store(self, path: Path) -> LifecycleStore:
        return NumpyStore(space=Space("toy", 3))


class SqliteInside(WrapperContract):
    def make_store(self, path: Path) -> LifecycleStore:
        return SqliteStore(path / "memory.db", space=Space("toy", 3))


def plainly(self: WrapperContract, store: VectorStore) -> VectorStore:
    return WrapperStore(store)


class TestPlainWrapperOfNumpy(NumpyInside):
    wrap = plainly


class TestPlainWrapperOfSqlite(SqliteInside):
    wrap = plainly


# Nothing is lost: every name of the protocols, found by looking at them.


METHODS = {name: member for name, member in STORE_MEMBERS.items() if callable(member)}


class Recording:
    """A store that notes each call, bound to the signature of the protocol, and returns something of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in PROPERTIES:
            return self.answers.setdefault(name, object())
        if name not in METHODS:
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            bound = inspect.signature(METHODS[name]).bind(self, *arguments, **options).arguments
            self.calls.append((name, {key: value for key, value in bound.items() if key != "self"}))
            return self.answers.setdefault(name, object())

        return call


def arguments_of(method: Any) -> dict[str, Any]:
    """Return an argument of its own for each parameter; none is what a default would be."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return {parameter.name: f"<{parameter.name}>" for parameter in parameters}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_wrapper_passes_on_every_protocol_method_with_all_arguments(name: str) -> None:
    inside = Recording()
    given = arguments_of(METHODS[name])
    parameters = inspect.signature(METHODS[name]).parameters
    placed = [value for key, value in given.items() if parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY]
    named = {key: value for key, value in given.items() if parameters[key].kind is inspect.Parameter.KEYWORD_ONLY}
    answer = getattr(WrapperStore(inside), name)(*placed, **named)
    assert inside.calls == [(name, given)]
    if inspect.signature(METHODS[name]).return_annotation != "None":
        assert answer is inside.answers[name]


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_of_the_protocols_is_passed_on(name: str) -> None:
    inside = Recording()
    assert getattr(WrapperStore(inside), name) is inside.answers[name]  # type: ignore[arg-type]


def test_a_wrapper_has_the_signatures_of_the_protocols() -> None:
    for name, method in METHODS.items():
        ours, theirs = inspect.signature(getattr(WrapperStore, name)), inspect.signature(method)
        assert ours == theirs, name


# Operations missing in the wrapped store.


def test_a_wrapper_refuses_operations_missing_in_the_wrapped_store_by_name() -> None:
    lifecycle = (set(METHODS) & set(declared_members(LifecycleStore))) - {
        "transaction"
    }  # the one part that the model has
    assert len(lifecycle) > 8
    store = WrapperStore(ModelStore(space=TOY))
    for name in lifecycle:
        with pytest.raises(UnsupportedError, match="ModelStore") as caught:
            getattr(store, name)(**arguments_of(METHODS[name]))
        assert caught.value.operation == name
    store.upsert([Entry("a", [1, 0])])  # type: ignore[arg-type]
    assert store.count() == 1


def test_missing_operations_lists_the_lifecycle_operations_a_store_lacks() -> None:
    assert missing_operations(NumpyStore()) == missing_operations(WrapperStore(NumpyStore())) == ()
    missing = missing_operations(WrapperStore(WrapperStore(ModelStore())))
    assert set(missing) == set(declared_members(LifecycleStore)) - {"transaction", "fields"}
    assert list(missing) == sorted(missing)


def test_a_wrapper_of_a_lifecycle_store_is_a_lifecycle_store() -> None:
    assert isinstance(WrapperStore(NumpyStore()), LifecycleStore)
