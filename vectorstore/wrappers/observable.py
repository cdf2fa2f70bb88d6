"""Observable store: an event for each call, with its size, its duration and its error.

    store = ObservableStore(open_store("sqlite:///memory.db"), on_event=print)

It adds nothing to an answer and takes nothing away: iterables and iterators are counted as they pass. It keeps no
history; that is the observer's.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vectorstore.protocol import VectorStore, View
from vectorstore.types import Entry, Filter, Space, VectorLike
from vectorstore.wrappers.base import WrapperStore

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
class CallSizes:
    """Sizes of a call, as far as they are known while it runs."""

    given: int | None = None
    returned: int | None = None


@dataclass(frozen=True, slots=True)
class CallReporter:
    """Reports each call to *observer*."""

    observer: Observer
    clock: MonotonicClock

    @contextmanager
    def call(self, operation: str, namespace: object, given: int | None = None) -> Iterator[CallSizes]:
        """Report one event for the block, whatever ends it."""
        sizes, start = CallSizes(given), self.clock()
        error: type[BaseException] | None = None
        try:
            yield sizes
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            self.report(operation, namespace, sizes, self.clock() - start, error)

    @contextmanager
    def beginning(self, operation: str, namespace: object, given: int | None = None) -> Iterator[None]:
        """Run the first part of a call that goes on afterwards: an event is reported only if it fails here."""
        start = self.clock()
        try:
            yield
        except BaseException as error:
            self.report(operation, namespace, CallSizes(given), self.clock() - start, type(error))
            raise

    def report(
        self,
        operation: str,
        namespace: object,
        sizes: CallSizes,
        seconds: float,
        error: type[BaseException] | None,
        *,
        complete: bool = True,
    ) -> None:
        """Hand an event to the observer; what it raises is logged and goes no further."""
        name = namespace if isinstance(namespace, str) else None
        returned = sizes.returned if error is None else None
        event = StoreEvent(operation, name, sizes.given, returned, seconds, error, complete)
        try:
            self.observer(event)
        except Exception:  # a call that was done must not look as if it had failed
            import logging  # only where it is needed: a program that observes nothing starts sooner

            logging.getLogger(__name__).exception(
                "the observer of %s raised; the call itself is not affected", operation
            )


T = TypeVar("T")


class CountedIterator(Generic[T]):
    """An iterator that counts what is drawn from it; it draws once, and only when asked."""

    def __init__(self, source: Iterator[T], sizes: CallSizes) -> None:
        self._source = source
        self._sizes = sizes
        sizes.given = 0

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        drawn = next(self._source)
        self._sizes.given = (self._sizes.given or 0) + 1
        return drawn


def known_size(value: object) -> int | None:
    """Return how many *value* holds, if that is known without drawing from it."""
    try:
        return len(value) if isinstance(value, Sized) else None
    except TypeError:  # an array of no dimension calls itself sized and is not
        return None


def count_items(value: Iterable[T], sizes: CallSizes) -> Iterable[T]:
    """Return *value* itself, or an iterator that draws from it once; the number of items is put into *sizes*.

    What is no iterable is returned as it is, for the store to refuse.
    """
    if isinstance(value, Sized):
        sizes.given = known_size(value)
        return value
    items: Any = value
    return CountedIterator(iter(items), sizes) if isinstance(items, Iterable) else value


class ObservedEntries:
    """Entries of a ``scan``; reports its one event when it ends, fails, is closed, or is dropped."""

    def __init__(
        self, source: Iterator[Entry], reporter: CallReporter, operation: str, namespace: object, seconds: float
    ) -> None:
        self._source = source
        self._reporter = reporter
        self._operation, self._namespace = operation, namespace
        self._seconds = seconds
        self._sizes = CallSizes(returned=0)
        self._reported = False

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        start = self._reporter.clock()
        try:
            entry = next(self._source)
        except StopIteration:
            self._end(start, None)
            raise
        except BaseException as error:
            self._end(start, type(error))
            raise
        self._seconds += self._reporter.clock() - start
        self._sizes.returned = (self._sizes.returned or 0) + 1
        return entry

    def close(self) -> None:
        """Leave the rest; harmless at the end, and twice."""
        start = self._reporter.clock()
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        self._end(start, None, complete=False)

    def __del__(self) -> None:
        if not getattr(self, "_reported", True):
            self.close()

    def _end(self, start: float, error: type[BaseException] | None, *, complete: bool = True) -> None:
        if not self._reported:
            self._reported = True
            seconds = self._seconds + self._reporter.clock() - start
            self._reporter.report(self._operation, self._namespace, self._sizes, seconds, error, complete=complete)


class Given(Enum):
    """Way in which the event of an operation counts its first argument."""

    NOTHING = "is not counted"
    ONE = "is one vector or question"
    SIZE = "is counted where its size is known"
    DRAWN = "is counted while the store draws from it"


P = ParamSpec("P")
R = TypeVar("R")


def no_number(result: object) -> None:
    """Count nothing: the result is no number of things."""


def as_number(result: int) -> int:
    """Return the result itself."""
    return result


def found_entries(result: Sequence[Entry | None]) -> int:
    """Count the entries that there are."""
    return sum(entry is not None for entry in result)


def scored(result: NDArray[np.float64]) -> int:
    """Count the scores that are numbers."""
    return int(np.count_nonzero(~np.isnan(result)))


def nonzero(result: NDArray[Any]) -> int:
    """Count the values that are not zero or False."""
    return int(np.count_nonzero(result))


def observed(
    method: Callable[P, R],
    given: Given = Given.NOTHING,
    returned: Callable[[R], int | None] = no_number,
    *,
    of_view: bool = False,
) -> Callable[P, R]:
    """Return *method* of a store, or of the protocol of a view, with an event for each call.

    *given* is what the event counts of the first argument, *returned* counts the result.
    """
    name = method.__name__
    parameters = list(inspect.signature(method).parameters)
    subject, has_namespace = parameters[1:2], "namespace" in parameters
    operation = f"view.{name}" if of_view else name

    @wraps(method)
    def call(self: Any, *values: Any, **options: Any) -> R:
        namespace = options.get("namespace", "") if has_namespace else None
        with self._reporter.call(operation, namespace) as sizes:
            if given is Given.ONE:
                sizes.given = 1
            elif given is not Given.NOTHING:
                value = values[0] if values else options.get(subject[0], ())
                if given is Given.SIZE:
                    sizes.given = known_size(value)
                elif values:
                    values = (count_items(value, sizes), *values[1:])
                else:
                    options[subject[0]] = count_items(value, sizes)
            target: Any = getattr(self._view, name) if of_view else method.__get__(self)
            result: R = target(*values, **options)
            sizes.returned = returned(result)
            return result

    return cast("Callable[P, R]", call)


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
    score_text = observed(View.score_text, Given.SIZE, nonzero, of_view=True)
    passing = observed(View.passing, Given.SIZE, nonzero, of_view=True)
    terms = observed(View.terms, Given.SIZE, len, of_view=True)
    df = observed(View.df, Given.SIZE, len, of_view=True)
    vocabulary = observed(View.vocabulary, Given.NOTHING, len, of_view=True)
    count = observed(View.count, Given.NOTHING, as_number, of_view=True)
    cursor = observed(View.cursor, of_view=True)


class ObservableStore(WrapperStore):
    """Calls *on_event* with one ``StoreEvent`` for each call of the store or of a view of it, after the call.

    *on_event* runs in the thread of the call, inside its transaction or view if there is one, so it should be quick
    and must not use this store (``wrapped`` may be used where no such block is open). What it raises never reaches
    the caller: it is logged, with its traceback, to the logger ``vectorstore.wrappers.observable``. The properties
    ``space``, ``fields``, ``database`` and ``analyzer`` are no calls. *clock* gives the seconds.
    """

    def __init__(self, store: VectorStore, on_event: Observer, *, clock: MonotonicClock = time.perf_counter) -> None:
        super().__init__(store)
        self._reporter = CallReporter(on_event, clock)

    upsert = observed(WrapperStore.upsert, Given.DRAWN, as_number)
    patch = observed(WrapperStore.patch, Given.SIZE, as_number)
    put_vectors = observed(WrapperStore.put_vectors, Given.SIZE, as_number)
    get = observed(WrapperStore.get, Given.SIZE, found_entries)
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
    commit_space = observed(WrapperStore.commit_space)
    abort_space = observed(WrapperStore.abort_space)
    declare_fields = observed(WrapperStore.declare_fields, Given.SIZE)
    erase = observed(WrapperStore.erase, Given.DRAWN, lambda erasure: erasure.removed)
    pending_erasure = observed(WrapperStore.pending_erasure)
    verify = observed(WrapperStore.verify, Given.NOTHING, len)
    compact = observed(WrapperStore.compact, Given.NOTHING, lambda compaction: compaction.freed)
    backup = observed(WrapperStore.backup)

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``; reported when it ends, is closed, or is dropped."""
        start = self._reporter.clock()
        with self._reporter.beginning("scan", namespace):
            entries = super().scan(where=where, namespace=namespace, after=after, embedded=embedded)
        return ObservedEntries(entries, self._reporter, "scan", namespace, self._reporter.clock() - start)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``; reported when it ends, is closed, or is dropped."""
        start = self._reporter.clock()
        with self._reporter.beginning("unfilled", namespace):
            entries = super().unfilled(namespace=namespace, after=after)
        return ObservedEntries(entries, self._reporter, "unfilled", namespace, self._reporter.clock() - start)

    def fill_space(
        self,
        space: Space,
        vectors: Mapping[str, VectorLike],
        *,
        no_vector: Mapping[str, str] | None = None,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``LifecycleStore.fill_space``; vectors and reasons are counted together."""
        counts = [size for size in (known_size(vectors), known_size(no_vector)) if size is not None]
        with self._reporter.call("fill_space", namespace, sum(counts) if counts else None) as sizes:
            filled = super().fill_space(space, vectors, no_vector=no_vector, namespace=namespace, expect=expect)
            sizes.returned = filled
            return filled

    def view(self, namespaces: Sequence[str]) -> AbstractContextManager[View]:
        """As ``LifecycleStore.view``; each call of the view is reported too."""
        given = known_size(namespaces)
        with self._reporter.beginning("view", None, given):
            view = super().view(namespaces)
        return self._observed(view, given)

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``; reported at its end, after the calls inside."""
        with self._reporter.beginning("transaction", None):
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
