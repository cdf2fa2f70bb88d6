"""Observable store: an event for each call, with its size, its duration and its error.

    store = ObservableStore(open_store("sqlite:///memory.db"), on_event=print)

It adds nothing to an answer and takes nothing away: iterables and iterators are counted as they pass. It keeps no
history; that is the observer's.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.protocol import VectorStore, View
from tellback.vectorstore.types import Entry
from tellback.vectorstore.wrappers.base import WrapperStore

Observer: TypeAlias = Callable[["StoreEvent"], object]
MonotonicClock: TypeAlias = Callable[[], float]
"""Seconds that only go forward, like ``time.perf_counter``."""


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """Event of one call that ended.

    *given*: how many entries, ids, vectors, questions or names came in; None where the call takes none, or ended
    before it was known. *returned*: how many came out, were written, removed, counted or found wrong; None
    where that is no number, or the call failed. *seconds*: of the call; of an iterator, only those spent in the
    store; of a ``view`` or a ``transaction``, until its block ended. *error*: the class of what the call raised, or
    of what left that block. *complete*: False for an iterator that was left before its end.
    """

    operation: str
    """The method; of a view ``view.search`` and so on."""
    namespace: str | None
    """None where the call has none, or where it was given no text."""
    given: int | None
    returned: int | None
    seconds: float
    error: type[BaseException] | None
    complete: bool = True


@dataclass(slots=True)
class RunningCall:
    """A call, with its sizes as far as they are known while it runs."""

    operation: str
    namespace: object
    given: int | None = None
    returned: int | None = None


@dataclass(frozen=True, slots=True)
class CallReporter:
    """Reports each call to *observer*."""

    observer: Observer
    clock: MonotonicClock

    @contextmanager
    def call(
        self, operation: str, namespace: object, given: int | None = None, *, goes_on: bool = False
    ) -> Iterator[RunningCall]:
        """Report one event for the block, whatever ends it; of a call that *goes_on* afterwards only if it fails."""
        call, start = RunningCall(operation, namespace, given), self.clock()
        error: type[BaseException] | None = None
        try:
            yield call
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            if error is not None or not goes_on:
                self.report(call, self.clock() - start, error)

    def entries(self, operation: str, namespace: object, begin: Callable[[], Iterator[Entry]]) -> Iterator[Any]:
        """Yield None once *begin* has opened a scan, then its entries; report one event when it ends or is left."""
        call, seconds, start = RunningCall(operation, namespace, returned=0), 0.0, self.clock()
        error: type[BaseException] | None = None
        complete = True
        try:
            entries = begin()
            seconds += self.clock() - start
            yield None
            start = self.clock()
            for count, entry in enumerate(entries, 1):
                call.returned = count
                seconds += self.clock() - start
                yield entry
                start = self.clock()
        except GeneratorExit:
            start, complete = self.clock(), False
            if hasattr(entries, "close"):
                entries.close()
            raise
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            self.report(call, seconds + self.clock() - start, error, complete=complete)

    def report(
        self, call: RunningCall, seconds: float, error: type[BaseException] | None, *, complete: bool = True
    ) -> None:
        """Hand an event to the observer; what it raises is logged and goes no further."""
        namespace = call.namespace if isinstance(call.namespace, str) else None
        returned = call.returned if error is None else None
        event = StoreEvent(call.operation, namespace, call.given, returned, seconds, error, complete)
        try:
            self.observer(event)
        except Exception:  # a call that was done must not look as if it had failed
            import logging  # only where it is needed: a program that observes nothing starts sooner

            logging.getLogger(__name__).exception(
                "the observer of %s raised; the call itself is not affected", call.operation
            )


T = TypeVar("T")


def known_size(value: object) -> int | None:
    """Return how many *value* holds, if that is known without drawing from it."""
    try:
        return len(value) if isinstance(value, Sized) else None
    except TypeError:  # an array of no dimension calls itself sized and is not
        return None


def count_items(value: Iterable[T], call: RunningCall) -> Iterable[T]:
    """Return *value* itself, or an iterator that draws from it once; the number of items is put into *call*.

    What is no iterable is returned as it is, for the store to refuse.
    """
    if isinstance(value, Sized) or not isinstance(value, Iterable):
        call.given = known_size(value)
        return value
    call.given = 0
    return _counted_items(value, call)


def _counted_items(source: Iterable[T], call: RunningCall) -> Iterator[T]:
    for number, item in enumerate(source, 1):
        call.given = number
        yield item


class Given(Enum):
    """Way in which the event of an operation counts its first argument."""

    NOTHING = "is not counted"
    ONE = "is one vector or question"
    SIZE = "is counted where its size is known"
    DRAWN = "is counted while the store draws from it"


P = ParamSpec("P")
R = TypeVar("R")


def as_number(result: int) -> int:
    """Return the result itself."""
    return result


def found_entries(result: Sequence[Entry | None]) -> int:
    """Count the entries that there are."""
    return sum(entry is not None for entry in result)


def scored(result: NDArray[np.float64]) -> int:
    """Count the scores that are numbers."""
    return int(np.count_nonzero(~np.isnan(result)))


def observed(
    method: Callable[P, R],
    given: Given = Given.NOTHING,
    returned: Callable[[R], int | None] | None = None,
    *,
    counted: Sequence[str] = (),
    of_view: bool = False,
) -> Callable[P, R]:
    """Return *method* of a store, or of the protocol of a view, with an event for each call.

    *given* is what the event counts of the arguments *counted* (of the first one unless named), *returned* counts
    the result.
    """
    name = method.__name__
    parameters = list(inspect.signature(method).parameters)[1:]
    subjects, has_namespace = counted or parameters[:1], "namespace" in parameters
    operation = f"view.{name}" if of_view else name

    @wraps(method)
    def call(self: Any, *values: Any, **options: Any) -> R:
        namespace = options.get("namespace", "") if has_namespace else None
        with self._reporter.call(operation, namespace) as running:
            if given is Given.ONE:
                running.given = 1
            elif given is Given.SIZE:
                arguments = dict(zip(parameters, values, strict=False)) | options
                known = [size for subject in subjects if (size := known_size(arguments.get(subject))) is not None]
                running.given = sum(known) if known else None
            elif given is Given.DRAWN and values:
                values = (count_items(values[0], running), *values[1:])
            elif given is Given.DRAWN:
                options[subjects[0]] = count_items(options.get(subjects[0], ()), running)
            target: Any = getattr(self._view, name) if of_view else method.__get__(self)
            result: R = target(*values, **options)
            running.returned = None if returned is None else returned(result)
            return result

    return cast("Callable[P, R]", call)


def observed_scan(method: Callable[P, Iterator[Entry]]) -> Callable[P, Iterator[Entry]]:
    """Return a method that scans with one event, when its entries end or fail, or it is closed or dropped."""

    @wraps(method)
    def call(self: Any, *values: Any, **options: Any) -> Iterator[Entry]:
        begin = partial(method, self, *values, **options)
        entries = self._reporter.entries(method.__name__, options.get("namespace", ""), begin)
        next(entries)  # opens the scan
        return cast("Iterator[Entry]", entries)

    return cast("Callable[P, Iterator[Entry]]", call)


class ObservedView:
    """Implements ``View`` by another one."""

    def __init__(self, view: View, reporter: CallReporter) -> None:
        self._view = view
        self._reporter = reporter

    search = observed(View.search, Given.ONE, len, of_view=True)
    search_text = observed(View.search_text, Given.ONE, len, of_view=True)
    get = observed(View.get, Given.SIZE, found_entries, of_view=True)
    nearest = observed(View.nearest, Given.ONE, len, of_view=True)
    matching = observed(View.matching, Given.ONE, len, of_view=True)
    similarity = observed(View.similarity, Given.SIZE, scored, of_view=True)
    score_text = observed(View.score_text, Given.SIZE, np.count_nonzero, of_view=True)
    passing = observed(View.passing, Given.SIZE, np.count_nonzero, of_view=True)
    terms = observed(View.terms, Given.SIZE, len, of_view=True)
    df = observed(View.df, Given.SIZE, len, of_view=True)
    vocabulary = observed(View.vocabulary, Given.NOTHING, len, of_view=True)
    count = observed(View.count, Given.NOTHING, as_number, of_view=True)
    cursor = observed(View.cursor, of_view=True)


class ObservableStore(WrapperStore):
    """Calls *on_event* with one ``StoreEvent`` for each call of the store or of a view of it, after the call.

    *on_event* runs in the thread of the call, inside its transaction or view if there is one, so it should be quick
    and must not use this store (``wrapped`` may be used where no such block is open). What it raises never reaches
    the caller: it is logged, with its traceback, to the logger ``tellback.vectorstore.wrappers.observable``. The
    properties ``space``, ``fields``, ``database`` and ``analyzer`` are no calls. *clock* gives the seconds.
    """

    def __init__(self, store: VectorStore, on_event: Observer, *, clock: MonotonicClock = time.perf_counter) -> None:
        super().__init__(store)
        self._reporter = CallReporter(on_event, clock)

    upsert = observed(WrapperStore.upsert, Given.DRAWN, as_number)
    patch = observed(WrapperStore.patch, Given.SIZE, as_number)
    put_vectors = observed(WrapperStore.put_vectors, Given.SIZE, as_number)
    get = observed(WrapperStore.get, Given.SIZE, found_entries)
    scan = observed_scan(WrapperStore.scan)
    scan_by = observed_scan(WrapperStore.scan_by)
    scan_holding = observed_scan(WrapperStore.scan_holding)
    search = observed(WrapperStore.search, Given.ONE, len)
    search_many = observed(WrapperStore.search_many, Given.SIZE, lambda found: sum(map(len, found)))
    search_text = observed(WrapperStore.search_text, Given.ONE, len)
    delete = observed(WrapperStore.delete, Given.DRAWN, as_number)
    count = observed(WrapperStore.count, Given.NOTHING, as_number)
    namespaces = observed(WrapperStore.namespaces, Given.NOTHING, len)
    close = observed(WrapperStore.close)
    changes = observed(WrapperStore.changes, Given.NOTHING, lambda changes: len(changes.written) + len(changes.removed))
    set_space = observed(WrapperStore.set_space)
    recorded_space = observed(WrapperStore.recorded_space)
    begin_space = observed(WrapperStore.begin_space)
    filling = observed(WrapperStore.filling, Given.NOTHING, lambda filling: None if filling is None else filling.filled)
    unfilled = observed_scan(WrapperStore.unfilled)
    fill_space = observed(WrapperStore.fill_space, Given.SIZE, as_number, counted=("vectors", "no_vector"))
    commit_space = observed(WrapperStore.commit_space)
    abort_space = observed(WrapperStore.abort_space)
    declare_fields = observed(WrapperStore.declare_fields, Given.SIZE)
    erase = observed(WrapperStore.erase, Given.DRAWN, lambda erasure: erasure.removed)
    pending_erasure = observed(WrapperStore.pending_erasure)
    verify = observed(WrapperStore.verify, Given.NOTHING, len)
    compact = observed(WrapperStore.compact, Given.NOTHING, lambda compaction: compaction.freed)
    backup = observed(WrapperStore.backup)

    def view(self, namespaces: Sequence[str]) -> AbstractContextManager[View]:
        """As ``LifecycleStore.view``; each call of the view is reported too."""
        count = known_size(namespaces)
        with self._reporter.call("view", None, count, goes_on=True):
            view = super().view(namespaces)
        return self._observed(view, count)

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``; reported at its end, after the calls inside."""
        with self._reporter.call("transaction", None, goes_on=True):
            block = super().transaction()
        return self._until_its_end(block)

    @contextmanager
    def _observed(self, view: AbstractContextManager[View], given: int | None) -> Iterator[View]:
        with self._reporter.call("view", None, given), view as inside:
            yield ObservedView(inside, self._reporter)

    @contextmanager
    def _until_its_end(self, block: AbstractContextManager[None]) -> Iterator[None]:
        with self._reporter.call("transaction", None), block:
            yield
