"""Observable store: an event for each call, with its size, its duration and its error.

    store = ObservableStore(open_store("sqlite:///memory.db"), on_event=print)

It adds nothing to an answer and takes nothing away: iterables and iterators are counted as they pass. It keeps no
history; that is the observer's. Longer than 500 lines, since it has each method of the store and of its view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vectorstore.protocol import VectorStore, View
from vectorstore.types import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Filter,
    Finding,
    Match,
    Metadata,
    ProgressCallback,
    Space,
    SpaceMigration,
    VectorLike,
)
from vectorstore.wrappers.base import WrapperStore

Observer: TypeAlias = Callable[["StoreEvent"], object]
MonotonicClock: TypeAlias = Callable[[], float]
"""Seconds that only go forward, like ``time.perf_counter``."""


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One call that ended.

    *given*: how many entries, ids, vectors, questions or names came in; None where the call takes none, or ended
    before it could be told. *returned*: how many came out, were written, removed, counted or found wrong; None
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
    """What is known of a call while it runs."""

    given: int | None = None
    returned: int | None = None


@dataclass(frozen=True, slots=True)
class CallReporter:
    """Tells *observer* of each call that ran under it."""

    observer: Observer
    clock: MonotonicClock

    @contextmanager
    def call(self, operation: str, namespace: object, given: int | None = None) -> Iterator[CallSizes]:
        """One call: whatever ends it, one event is told."""
        sizes, start = CallSizes(given), self.clock()
        error: type[BaseException] | None = None
        try:
            yield sizes
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            self.tell(operation, namespace, sizes, self.clock() - start, error)

    @contextmanager
    def beginning(self, operation: str, namespace: object, given: int | None = None) -> Iterator[None]:
        """The first part of a call that goes on afterwards: an event only if it fails here."""
        start = self.clock()
        try:
            yield
        except BaseException as error:
            self.tell(operation, namespace, CallSizes(given), self.clock() - start, type(error))
            raise

    def tell(
        self,
        operation: str,
        namespace: object,
        sizes: CallSizes,
        seconds: float,
        error: type[BaseException] | None,
        *,
        complete: bool = True,
    ) -> None:
        """Hand an event to the observer; what that one raises is logged and goes no further."""
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
    """Return how many *value* holds, if that can be told without drawing from it."""
    try:
        return len(value) if isinstance(value, Sized) else None
    except TypeError:  # an array of no dimension calls itself sized and is not
        return None


def count_items(value: Iterable[T], sizes: CallSizes) -> Iterable[T]:
    """Return *value* itself, or what draws from it once; *sizes* comes to know how many there were.

    What is no iterable is returned as it is: to refuse it is the store's business.
    """
    if isinstance(value, Sized):
        sizes.given = known_size(value)
        return value
    given: Any = value
    return CountedIterator(iter(given), sizes) if isinstance(given, Iterable) else value


class ObservedEntries:
    """The entries of a ``scan``; tells its one event when it ends, fails, is closed, or is dropped."""

    def __init__(
        self, source: Iterator[Entry], watch: CallReporter, operation: str, namespace: object, seconds: float
    ) -> None:
        self._source = source
        self._watch = watch
        self._operation, self._namespace = operation, namespace
        self._seconds = seconds
        self._sizes = CallSizes(returned=0)
        self._told = False

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        start = self._watch.clock()
        try:
            entry = next(self._source)
        except StopIteration:
            self._end(start, None)
            raise
        except BaseException as error:
            self._end(start, type(error))
            raise
        self._seconds += self._watch.clock() - start
        self._sizes.returned = (self._sizes.returned or 0) + 1
        return entry

    def close(self) -> None:
        """Leave the rest; harmless at the end, and twice."""
        start = self._watch.clock()
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        self._end(start, None, complete=False)

    def __del__(self) -> None:
        if not getattr(self, "_told", True):
            self.close()

    def _end(self, start: float, error: type[BaseException] | None, *, complete: bool = True) -> None:
        if not self._told:
            self._told = True
            seconds = self._seconds + self._watch.clock() - start
            self._watch.tell(self._operation, self._namespace, self._sizes, seconds, error, complete=complete)


class ObservedView:
    """Implements ``View`` by another one."""

    def __init__(self, view: View, watch: CallReporter) -> None:
        self._view = view
        self._watch = watch

    def search(
        self, vector: VectorLike, k: int = 10, *, where: Filter | None = None, namespace: str = ""
    ) -> list[Match]:
        """As ``View.search``."""
        with self._watch.call("view.search", namespace, 1) as sizes:
            found = self._view.search(vector, k, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``View.search_text``."""
        with self._watch.call("view.search_text", namespace, 1) as sizes:
            found = self._view.search_text(query, k, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``View.get``."""
        with self._watch.call("view.get", namespace, known_size(ids)) as sizes:
            found = self._view.get(ids, namespace=namespace)
            sizes.returned = sum(entry is not None for entry in found)
            return found

    def nearest(
        self, vector: VectorLike, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """As ``View.nearest``."""
        with self._watch.call("view.nearest", namespace, 1) as sizes:
            found = self._view.nearest(vector, n, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def matching(
        self, query: str, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """As ``View.matching``."""
        with self._watch.call("view.matching", namespace, 1) as sizes:
            found = self._view.matching(query, n, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def similarity(self, vector: VectorLike, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """As ``View.similarity``."""
        with self._watch.call("view.similarity", namespace, known_size(ids)) as sizes:
            scores = self._view.similarity(vector, ids, namespace=namespace)
            sizes.returned = int(np.count_nonzero(~np.isnan(scores)))
            return scores

    def score_text(self, query: str, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """As ``View.score_text``."""
        with self._watch.call("view.score_text", namespace, known_size(ids)) as sizes:
            scores = self._view.score_text(query, ids, namespace=namespace)
            sizes.returned = int(np.count_nonzero(scores))
            return scores

    def passing(self, ids: Sequence[str], *, where: Filter | None = None, namespace: str = "") -> NDArray[np.bool_]:
        """As ``View.passing``."""
        with self._watch.call("view.passing", namespace, known_size(ids)) as sizes:
            passed = self._view.passing(ids, where=where, namespace=namespace)
            sizes.returned = int(np.count_nonzero(passed))
            return passed

    def terms(self, ids: Sequence[str], *, namespace: str = "") -> list[tuple[tuple[str, ...], ...]]:
        """As ``View.terms``."""
        with self._watch.call("view.terms", namespace, known_size(ids)) as sizes:
            terms = self._view.terms(ids, namespace=namespace)
            sizes.returned = len(terms)
            return terms

    def df(self, terms: Sequence[str], *, namespace: str = "") -> list[int]:
        """As ``View.df``."""
        with self._watch.call("view.df", namespace, known_size(terms)) as sizes:
            counts = self._view.df(terms, namespace=namespace)
            sizes.returned = len(counts)
            return counts

    def vocabulary(self, *, namespace: str = "") -> Mapping[str, int]:
        """As ``View.vocabulary``."""
        with self._watch.call("view.vocabulary", namespace) as sizes:
            words = self._view.vocabulary(namespace=namespace)
            sizes.returned = len(words)
            return words

    def count(self, *, namespace: str = "") -> int:
        """As ``View.count``."""
        with self._watch.call("view.count", namespace) as sizes:
            sizes.returned = count = self._view.count(namespace=namespace)
            return count

    def cursor(self, *, namespace: str = "") -> Cursor:
        """As ``View.cursor``."""
        with self._watch.call("view.cursor", namespace):
            return self._view.cursor(namespace=namespace)


class ObservableStore(WrapperStore):
    """Calls *on_event* with one ``StoreEvent`` for each call of the store or of a view of it, after the call.

    *on_event* runs in the thread of the call, inside its transaction or view if there is one, so it should be quick
    and must not use this store (``wrapped`` may be used where no such block is open). What it raises never reaches
    the caller: it is logged, with its traceback, to the logger ``vectorstore.wrappers.observable``. The properties
    ``space``, ``fields``, ``database`` and ``analyzer`` are no calls. *clock* gives the seconds.
    """

    def __init__(self, store: VectorStore, on_event: Observer, *, clock: MonotonicClock = time.perf_counter) -> None:
        super().__init__(store)
        self._watch = CallReporter(on_event, clock)

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``; *entries* are drawn once, as the store inside draws them."""
        with self._watch.call("upsert", namespace) as sizes:
            passing = count_items(entries, sizes)
            sizes.returned = super().upsert(passing, namespace=namespace, expect=expect, on_progress=on_progress)
            return sizes.returned

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        with self._watch.call("patch", namespace, known_size(metadata)) as sizes:
            sizes.returned = super().patch(metadata, namespace=namespace, expect=expect)
            return sizes.returned

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        with self._watch.call("put_vectors", namespace, known_size(vectors)) as sizes:
            sizes.returned = super().put_vectors(vectors, namespace=namespace, expect=expect)
            return sizes.returned

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        with self._watch.call("get", namespace, known_size(ids)) as sizes:
            found = super().get(ids, namespace=namespace)
            sizes.returned = sum(entry is not None for entry in found)
            return found

    def search(
        self,
        vector: VectorLike,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        """As ``VectorStore.search``."""
        with self._watch.call("search", namespace, 1) as sizes:
            found = super().search(vector, k, where=where, min_score=min_score, namespace=namespace)
            sizes.returned = len(found)
            return found

    def search_many(
        self,
        vectors: Sequence[VectorLike] | NDArray[np.float32],
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        """As ``VectorStore.search_many``."""
        with self._watch.call("search_many", namespace, known_size(vectors)) as sizes:
            found = super().search_many(vectors, k, where=where, min_score=min_score, namespace=namespace)
            sizes.returned = sum(map(len, found))
            return found

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        with self._watch.call("search_text", namespace, 1) as sizes:
            found = super().search_text(query, k, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        with self._watch.call("delete", namespace) as sizes:
            sizes.returned = super().delete(count_items(ids, sizes), where=where, namespace=namespace)
            return sizes.returned

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        with self._watch.call("count", namespace) as sizes:
            sizes.returned = count = super().count(where=where, namespace=namespace)
            return count

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``; told when it ends, is closed, or is dropped."""
        start = self._watch.clock()
        with self._watch.beginning("scan", namespace):
            entries = super().scan(where=where, namespace=namespace, after=after, embedded=embedded)
        return ObservedEntries(entries, self._watch, "scan", namespace, self._watch.clock() - start)

    def namespaces(self) -> list[str]:
        """As ``VectorStore.namespaces``."""
        with self._watch.call("namespaces", None) as sizes:
            names = super().namespaces()
            sizes.returned = len(names)
            return names

    def close(self) -> None:
        """As ``VectorStore.close``."""
        with self._watch.call("close", None):
            super().close()

    # The lifecycle.

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        with self._watch.call("changes", namespace) as sizes:
            changes = super().changes(since, namespace=namespace)
            sizes.returned = len(changes.written) + len(changes.removed)
            return changes

    def view(self, namespaces: Sequence[str]) -> AbstractContextManager[View]:
        """As ``LifecycleStore.view``; each call of the view is told too."""
        given = known_size(namespaces)
        with self._watch.beginning("view", None, given):
            view = super().view(namespaces)
        return self._observed(view, given)

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``; told at its end, after the calls inside."""
        with self._watch.beginning("transaction", None):
            block = super().transaction()
        return self._until_its_end(block)

    def set_space(self, space: Space) -> None:
        """As ``LifecycleStore.set_space``."""
        with self._watch.call("set_space", None):
            super().set_space(space)

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        with self._watch.call("begin_space", None):
            super().begin_space(space)

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``."""
        with self._watch.call("recorded_space", None):
            return super().recorded_space()

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        with self._watch.call("filling", None) as sizes:
            filling = super().filling()
            sizes.returned = None if filling is None else filling.filled
            return filling

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``; told when it ends, is closed, or is dropped."""
        start = self._watch.clock()
        with self._watch.beginning("unfilled", namespace):
            entries = super().unfilled(namespace=namespace, after=after)
        return ObservedEntries(entries, self._watch, "unfilled", namespace, self._watch.clock() - start)

    def fill_space(
        self,
        space: Space,
        vectors: Mapping[str, VectorLike],
        *,
        no_vector: Mapping[str, str] | None = None,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``LifecycleStore.fill_space``."""
        given = [size for size in (known_size(vectors), known_size(no_vector)) if size is not None]
        with self._watch.call("fill_space", namespace, sum(given) if given else None) as sizes:
            filled = super().fill_space(space, vectors, no_vector=no_vector, namespace=namespace, expect=expect)
            sizes.returned = filled
            return filled

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        with self._watch.call("commit_space", None):
            super().commit_space(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self._watch.call("abort_space", None):
            super().abort_space()

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        with self._watch.call("declare_fields", None, known_size(fields)):
            super().declare_fields(fields)

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``."""
        with self._watch.call("erase", namespace) as sizes:
            erasure = super().erase(count_items(ids, sizes), namespace=namespace)
            sizes.returned = erasure.removed
            return erasure

    def pending_erasure(self) -> bool:
        """As ``LifecycleStore.pending_erasure``."""
        with self._watch.call("pending_erasure", None):
            return super().pending_erasure()

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``."""
        with self._watch.call("verify", None) as sizes:
            findings = super().verify()
            sizes.returned = len(findings)
            return findings

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``; its event's *returned* are the bytes given back."""
        with self._watch.call("compact", None) as sizes:
            done = super().compact()
            sizes.returned = done.freed
            return done

    def backup(self, path: str) -> None:
        """As ``LifecycleStore.backup``."""
        with self._watch.call("backup", None):
            super().backup(path)

    @contextmanager
    def _observed(self, view: AbstractContextManager[View], given: int | None) -> Iterator[View]:
        with self._watch.call("view", None, given), view as inside:
            yield ObservedView(inside, self._watch)

    @contextmanager
    def _until_its_end(self, block: AbstractContextManager[None]) -> Iterator[None]:
        with self._watch.call("transaction", None), block:
            yield
