"""Wrappers keep the contract of the wrapped store on both engines, and observers get every event.

Inner parts, on no face: ``tellback.vectorstore.testing.suite``, ``tellback.vectorstore.testing.wrapper_contract``.
"""

import inspect
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore import (
    ArgumentError,
    Entry,
    LifecycleStore,
    NumpyStore,
    ObservableStore,
    Space,
    SqliteStore,
    StoreClosed,
    StoreEvent,
    UnsupportedError,
    VectorStore,
    View,
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


def watched(store: VectorStore) -> VectorStore:
    """Return the store observed by one that breaks at each event, as no call may notice."""

    def broken(event: StoreEvent) -> None:
        raise RuntimeError(event)

    return ObservableStore(store, broken)


@pytest.mark.slow
class TestWrappedNumpyStore(VectorStoreContract, FilterContract, LifecycleContract):
    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        return WrapperStore(NumpyStore(space=space, fields=fields))

    def restore(self, backup: Path, path: Path) -> VectorStore:
        return WrapperStore(NumpyStore.open(backup))


@pytest.mark.slow
@pytest.mark.usefixtures("caplog")
class TestObservedSqliteStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = shares = True

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        return watched(SqliteStore(path / "memory.db", space=space, fields=fields))

    def reopen(self, store: VectorStore, path: Path) -> VectorStore:
        store.close()
        return watched(SqliteStore(path / "memory.db"))

    def open_beside(self, store: VectorStore, path: Path) -> VectorStore:
        return watched(SqliteStore(path / "memory.db"))

    def restore(self, backup: Path, path: Path) -> VectorStore:
        return watched(SqliteStore(backup))


class NumpyInside(WrapperContract):
    def make_store(self, path: Path) -> LifecycleStore:
        return NumpyStore(space=Space("toy", 3))


class SqliteInside(WrapperContract):
    def make_store(self, path: Path) -> LifecycleStore:
        return SqliteStore(path / "memory.db", space=Space("toy", 3))


def plainly(self: WrapperContract, store: VectorStore) -> VectorStore:
    return WrapperStore(store)


def observing(self: WrapperContract, store: VectorStore) -> VectorStore:
    return ObservableStore(store, lambda event: None)


class TestPlainWrapperOfNumpy(NumpyInside):
    wrap = plainly


class TestPlainWrapperOfSqlite(SqliteInside):
    wrap = plainly


class TestObservableOfNumpy(NumpyInside):
    wrap = observing


class TestObservableOfSqlite(SqliteInside):
    wrap = observing


# Nothing is lost: every name of the protocols, found by looking at them.


METHODS = {name: member for name, member in STORE_MEMBERS.items() if callable(member)}
SPECIAL: dict[str, Any] = {
    # What an observer reads of an answer has to be there.
    "get": [],
    "search": [],
    "search_many": [],
    "search_text": [],
    "namespaces": [],
    "verify": [],
    "filling": None,
    "scan": iter(()),
    "unfilled": iter(()),
    "view": nullcontext(),
    "transaction": nullcontext(),
}


class Answer:
    """An answer that is nothing else; an observer may count it."""

    written = removed = ()
    freed = 0


class Recording:
    """A store that notes each call, bound to the signature of the protocol, and returns something of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in PROPERTIES:
            return self.answers.setdefault(name, Answer())
        if name not in METHODS:
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            bound = inspect.signature(METHODS[name]).bind(self, *arguments, **options).arguments
            self.calls.append((name, {key: value for key, value in bound.items() if key != "self"}))
            return self.answers.setdefault(name, SPECIAL.get(name, Answer()))

        return call


def arguments_of(method: Any) -> dict[str, Any]:
    """Return an argument of its own for each parameter; none is what a default would be."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return {parameter.name: f"<{parameter.name}>" for parameter in parameters}


@pytest.mark.parametrize("wrap", [WrapperStore, lambda store: ObservableStore(store, lambda event: None)])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_wrapper_passes_on_every_protocol_method_with_all_arguments(name: str, wrap: Any) -> None:
    inside = Recording()
    given = arguments_of(METHODS[name])
    parameters = inspect.signature(METHODS[name]).parameters
    placed = [value for key, value in given.items() if parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY]
    named = {key: value for key, value in given.items() if parameters[key].kind is inspect.Parameter.KEYWORD_ONLY}
    answer = getattr(wrap(inside), name)(*placed, **named)
    assert inside.calls == [(name, given)]
    if wrap is WrapperStore and inspect.signature(METHODS[name]).return_annotation != "None":
        assert answer is inside.answers[name]


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_of_the_protocols_is_passed_on(name: str) -> None:
    inside = Recording()
    assert getattr(WrapperStore(inside), name) is inside.answers[name]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrapper", [WrapperStore, ObservableStore])
def test_a_wrapper_has_the_signatures_of_the_protocols(wrapper: type) -> None:
    for name, method in METHODS.items():
        ours, theirs = inspect.signature(getattr(wrapper, name)), inspect.signature(method)
        assert ours == theirs, name


def test_the_observable_store_overrides_every_protocol_method() -> None:
    assert set(METHODS) - set(vars(ObservableStore)) == set()


def test_an_observed_view_has_every_method_of_a_view_and_passes_it_on() -> None:
    items: list[StoreEvent] = []
    methods = declared_members(View)
    store = ObservableStore(filled(), items.append)
    given = {"vector": [1, 0], "query": "zorb", "ids": ["a", "x"], "terms": ["zorb"], "n": 3, "k": 3}
    given |= {"where": {"x": 1}, "namespace": ""}
    with store.view([""]) as view, store.wrapped.view([""]) as plain:  # type: ignore[attr-defined]
        for name, method in methods.items():
            options = {key: given[key] for key in list(inspect.signature(method).parameters)[1:]}
            ours, theirs = getattr(view, name)(**options), getattr(plain, name)(**options)
            assert ours == pytest.approx(theirs, nan_ok=True) if isinstance(ours, np.ndarray) else ours == theirs
            assert inspect.signature(getattr(type(view), name)) == inspect.signature(method)
    assert [event.operation for event in items] == [f"view.{name}" for name in methods] + ["view"]


# Operations missing in the wrapped store.


def test_a_wrapper_refuses_operations_missing_in_the_wrapped_store_by_name() -> None:
    lifecycle = (set(METHODS) & set(declared_members(LifecycleStore))) - {
        "transaction"
    }  # the one part that the model has
    assert len(lifecycle) > 8
    for store in (WrapperStore(ModelStore(space=TOY)), ObservableStore(ModelStore(space=TOY), lambda event: None)):
        for name in lifecycle:
            with pytest.raises(UnsupportedError, match="ModelStore") as caught:
                getattr(store, name)(**arguments_of(METHODS[name]))
            assert caught.value.operation == name
        store.upsert([Entry("a", [1, 0])])  # type: ignore[arg-type]
        assert store.count() == 1


def test_missing_operations_lists_the_lifecycle_operations_a_store_lacks() -> None:
    assert missing_operations(NumpyStore()) == missing_operations(WrapperStore(NumpyStore())) == ()
    missing = missing_operations(ObservableStore(WrapperStore(ModelStore()), lambda event: None))
    assert set(missing) == set(declared_members(LifecycleStore)) - {"transaction", "fields"}
    assert list(missing) == sorted(missing)


def test_a_wrapper_of_a_lifecycle_store_is_a_lifecycle_store() -> None:
    assert isinstance(WrapperStore(NumpyStore()), LifecycleStore)


# Events.


def filled() -> NumpyStore:
    store = NumpyStore(space=TOY)
    store.upsert([Entry("a", [1, 0], "zorb quil", metadata={"x": 1}), Entry("b", text="zorb")])  # type: ignore[arg-type]
    return store


def observed(store: VectorStore | None = None) -> tuple[ObservableStore, list[StoreEvent]]:
    """Return an observed store, whose clock goes on by one second each time it is read, and what it told."""
    ticks = iter(range(10**6))
    items: list[StoreEvent] = []
    return ObservableStore(store or filled(), items.append, clock=lambda: float(next(ticks))), items


def sizes(told: list[StoreEvent]) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(event.operation, event.namespace, event.given, event.returned) for event in told]


def test_an_observer_receives_an_event_with_sizes_for_each_call() -> None:
    store, reported = observed()
    store.upsert([Entry("c"), Entry("d"), Entry("c")], namespace="other")
    store.patch({"a": {}, "missing": {}})
    store.put_vectors({"b": [0, 1]})
    store.get(["a", "missing"])
    store.search([1, 0])
    store.search_many(np.eye(2), 1)
    store.search_text("quil")
    store.delete(["missing"])
    store.delete(where={"x": 1})
    store.count()
    store.namespaces()
    store.changes()
    store.erase(iter(["c", "missing"]), namespace="other")
    store.verify()
    assert sizes(reported) == [
        ("upsert", "other", 3, 2),
        ("patch", "", 2, 1),
        ("put_vectors", "", 1, 1),
        ("get", "", 2, 1),
        ("search", "", 1, 2),
        ("search_many", "", 2, 2),
        ("search_text", "", 1, 1),
        ("delete", "", 1, 0),
        ("delete", "", 0, 0),
        ("count", "", None, 2),
        ("namespaces", None, None, 2),
        ("changes", "", None, 0),
        ("erase", "other", 2, 1),
        ("verify", None, None, 0),
    ]
    assert [(event.seconds, event.error, event.complete) for event in reported] == [(1.0, None, True)] * len(reported)


def test_an_observer_receives_the_events_of_a_space_migration() -> None:
    store, reported = observed()
    wide = Space("wide", 3)
    store.begin_space(wide)
    assert [entry.id for entry in store.unfilled()] == ["a", "b"]
    store.fill_space(wide, {"a": [1, 0, 0], "missing": [1, 0, 0]}, no_vector={"b": "too long"})
    assert store.filling() is not None
    store.commit_space(wide)
    store.abort_space()
    store.declare_fields(["x"])
    assert store.fields == ("x",)
    assert sizes(reported) == [
        ("begin_space", None, None, None),
        ("unfilled", "", None, 2),
        ("fill_space", "", 3, 2),
        ("filling", None, None, 1),
        ("commit_space", None, None, None),
        ("abort_space", None, None, None),
        ("declare_fields", None, 1, None),
    ]


def test_an_event_cannot_be_changed() -> None:
    store, reported = observed()
    store.count()
    with pytest.raises(AttributeError):
        reported[0].operation = "search"  # type: ignore[misc]


def test_a_failing_call_raises_and_its_event_carries_the_error() -> None:
    store, reported = observed()
    with pytest.raises(ArgumentError):
        store.search([1, 0], -1)
    with pytest.raises(ArgumentError):
        store.count(namespace=7)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        store.scan(where={"$near": 1})
    with pytest.raises(ArgumentError):
        store.upsert(None)  # type: ignore[arg-type]
    store.close()
    with pytest.raises(StoreClosed), store.view([""]):
        pass
    with pytest.raises(StoreClosed):
        store.scan()
    assert [(event.operation, event.error and issubclass(event.error, ArgumentError)) for event in reported] == [
        ("search", True),
        ("count", True),
        ("scan", True),
        ("upsert", True),
        ("close", None),
        ("view", False),
        ("scan", False),
    ]
    assert reported[1].namespace is None
    assert {event.returned for event in reported} == {None}


def test_an_unsupported_operation_gives_an_event_with_its_error() -> None:
    store, reported = observed(ModelStore())
    for call in (store.verify, lambda: store.view([""]), store.unfilled):
        with pytest.raises(UnsupportedError):
            call()
    assert [event.operation for event in reported] == ["verify", "view", "unfilled"]
    assert all(event.error and issubclass(event.error, UnsupportedError) for event in reported)


def test_an_observed_upsert_draws_its_generator_once_and_counts_the_entries() -> None:
    store, reported = observed()
    drawn: list[int] = []

    def many() -> Iterator[Entry]:
        for i in range(1500):
            drawn.append(i)
            yield Entry(f"e{i}")

    steps: list[tuple[int, int]] = []
    assert store.upsert(many(), on_progress=lambda done: steps.append((done, len(drawn)))) == 1500
    assert steps == [(1000, 1000), (1500, 1500)]
    assert len(drawn) == 1500
    assert sizes(reported) == [("upsert", "", 1500, 1500)]


def test_an_observed_upsert_counts_the_entries_before_its_generator_failed() -> None:
    store, reported = observed()

    def failing() -> Iterator[Entry]:
        yield Entry("x")
        raise LookupError("the source went away")

    with pytest.raises(LookupError, match="went away"):
        store.upsert(failing())
    assert sizes(reported) == [("upsert", "", 1, None)]
    assert reported[0].error is LookupError


def test_an_observed_scan_gives_its_event_at_the_end_with_the_time_spent_in_the_store() -> None:
    now = 0.0

    class Slow(NumpyStore):
        def scan(self, **options: Any) -> Iterator[Entry]:
            for entry in super().scan(**options):
                spend(1.0)
                yield entry

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    items: list[StoreEvent] = []
    inside = Slow()
    inside.upsert([Entry("a"), Entry("b")])
    scan = ObservableStore(inside, items.append, clock=lambda: now).scan()
    for _ in scan:
        assert items == []
        spend(100.0)
    assert list(scan) == []
    assert sizes(items) == [("scan", "", None, 2)]
    assert (items[0].seconds, items[0].complete) == (2.0, True)


def test_an_abandoned_observed_scan_gives_one_incomplete_event() -> None:
    for leave in (lambda scan: scan.close(), lambda scan: None):
        store, reported = observed()
        scan = store.scan()
        next(scan)
        leave(scan)
        del scan
        assert [(event.operation, event.returned, event.complete) for event in reported] == [("scan", 1, False)]


def test_an_observed_scan_without_iteration_gives_an_incomplete_event() -> None:
    store, reported = observed()
    store.scan(namespace="other")
    assert [(event.operation, event.namespace, event.complete) for event in reported] == [("scan", "other", False)]


def test_a_failing_observed_scan_gives_an_event_with_its_error() -> None:
    store, reported = observed()
    store.wrapped.upsert(Entry(f"e{i:03}") for i in range(600))
    scan = store.scan()
    next(scan)
    store.wrapped.close()
    with pytest.raises(StoreClosed):
        list(scan)
    assert [(event.operation, event.error) for event in reported] == [("scan", StoreClosed)]


def test_the_event_of_a_transaction_follows_the_events_of_its_calls() -> None:
    store, reported = observed()
    with store.transaction():
        store.upsert([Entry("c")])
    with pytest.raises(LookupError), store.transaction():  # noqa: PT012 - the block fails at its end
        store.delete(["a"])
        raise LookupError
    assert [(event.operation, event.error) for event in reported] == [
        ("upsert", None),
        ("transaction", None),
        ("delete", None),
        ("transaction", LookupError),
    ]
    assert [entry.id for entry in store.wrapped.scan()] == ["a", "b", "c"]


def test_a_raising_observer_is_logged_and_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    store = watched(filled())
    with caplog.at_level(logging.ERROR):
        assert store.count() == 2
        assert [entry.id for entry in store.scan()] == ["a", "b"]
        with pytest.raises(ArgumentError):
            store.search([1, 0], -1)
    assert [(record.name, record.exc_info and record.exc_info[0]) for record in caplog.records] == [
        ("tellback.vectorstore.wrappers.observable", RuntimeError)
    ] * 3
    assert "the observer of count raised" in caplog.text


def test_a_keyboard_interrupt_of_an_observer_is_raised() -> None:
    def stop(event: StoreEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ObservableStore(filled(), stop).count()
