"""A store that tells of each call: what was asked, how much of it, how long it took, what went wrong.

    store = ObservableStore(open_store("sqlite:///memory.db"), on_event=print)

It adds nothing to an answer and takes nothing away. It keeps no history; that is the observer's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
from numpy.typing import NDArray

from vectorstore.protocol import VectorStore, View
from vectorstore.types import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Filling,
    Filter,
    Finding,
    Match,
    Metadata,
    Progress,
    Space,
    VectorLike,
)
from vectorstore.wrappers.base import WrapperStore
from vectorstore.wrappers.event import Clock, Observer, Watch
from vectorstore.wrappers.observed_view import ObservedView
from vectorstore.wrappers.passing import ObservedEntries, counted, size_of


class ObservableStore(WrapperStore):
    """Calls *on_event* with one ``StoreEvent`` for each call of the store or of a view of it, after the call.

    *on_event* runs in the thread of the call, inside its transaction or view if there is one, so it should be quick
    and must not use this store (``wrapped`` may be used where no such block is open). What it raises never reaches
    the caller: it is logged, with its traceback, to the logger ``vectorstore.wrappers.event``. The properties
    ``space``, ``fields``, ``database`` and ``analyzer`` are no calls. *clock* gives the seconds.
    """

    def __init__(self, store: VectorStore, on_event: Observer, *, clock: Clock = time.perf_counter) -> None:
        super().__init__(store)
        self._watch = Watch(on_event, clock)

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: Progress | None = None,
    ) -> int:
        """As ``VectorStore.upsert``; *entries* are drawn once, as the store inside draws them."""
        with self._watch.call("upsert", namespace) as sizes:
            passing = counted(entries, sizes)
            sizes.returned = super().upsert(passing, namespace=namespace, expect=expect, on_progress=on_progress)
            return sizes.returned

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        with self._watch.call("patch", namespace, size_of(metadata)) as sizes:
            sizes.returned = super().patch(metadata, namespace=namespace, expect=expect)
            return sizes.returned

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        with self._watch.call("put_vectors", namespace, size_of(vectors)) as sizes:
            sizes.returned = super().put_vectors(vectors, namespace=namespace, expect=expect)
            return sizes.returned

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        with self._watch.call("get", namespace, size_of(ids)) as sizes:
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
        with self._watch.call("search_many", namespace, size_of(vectors)) as sizes:
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
            sizes.returned = super().delete(counted(ids, sizes), where=where, namespace=namespace)
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
        given = size_of(namespaces)
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

    def filling(self) -> Filling | None:
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
        given = [size for size in (size_of(vectors), size_of(no_vector)) if size is not None]
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
        with self._watch.call("declare_fields", None, size_of(fields)):
            super().declare_fields(fields)

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``."""
        with self._watch.call("erase", namespace) as sizes:
            erasure = super().erase(counted(ids, sizes), namespace=namespace)
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
