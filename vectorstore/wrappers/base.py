"""Base of wrappers: a store that forwards every call to another; a wrapper overrides the calls that it changes.

Of a store that has only the data part, it forwards that, and refuses the rest by name. It checks nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vectorstore.analyzer import Analyzer
from vectorstore.database import Database
from vectorstore.errors import UnsupportedError
from vectorstore.ordered_scan import ScanPosition, scan_by
from vectorstore.protocol import LifecycleStore, VectorStore, View
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


class MissingOperationError(UnsupportedError, AttributeError):
    """The wrapped store lacks an operation. Also an ``AttributeError``, so that ``hasattr`` can ask for ``fields``."""


def missing_operations(store: VectorStore) -> tuple[str, ...]:
    """Return what *store* lacks of ``LifecycleStore``, sorted; of a wrapper, what the store inside lacks."""
    while isinstance(store, WrapperStore):
        store = store.wrapped
    return tuple(sorted(name for name in vars(LifecycleStore) if name[0] != "_" and not hasattr(store, name)))


def lifecycle_of(store: VectorStore) -> LifecycleStore | None:
    """Return *store* as a ``LifecycleStore``; None if it, or the store that its wrappers hold, is data-only."""
    return None if missing_operations(store) else cast("LifecycleStore", store)


class WrapperStore:
    """Implements ``LifecycleStore`` by the store that is ``wrapped``; each call is passed on as it came."""

    def __init__(self, store: VectorStore) -> None:
        self.wrapped = store
        """The store inside, for what only that kind of store has."""

    @property
    def space(self) -> Space | None:
        """As ``VectorStore.space``."""
        return self.wrapped.space

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``."""
        return self.wrapped.upsert(entries, namespace=namespace, expect=expect, on_progress=on_progress)

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        return self.wrapped.patch(metadata, namespace=namespace, expect=expect)

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        return self.wrapped.put_vectors(vectors, namespace=namespace, expect=expect)

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        return self.wrapped.get(ids, namespace=namespace)

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
        return self.wrapped.search(vector, k, where=where, min_score=min_score, namespace=namespace)

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
        return self.wrapped.search_many(vectors, k, where=where, min_score=min_score, namespace=namespace)

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        return self.wrapped.search_text(query, k, where=where, namespace=namespace)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        return self.wrapped.delete(ids, where=where, namespace=namespace)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        return self.wrapped.count(where=where, namespace=namespace)

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``."""
        return self.wrapped.scan(where=where, namespace=namespace, after=after, embedded=embedded)

    def scan_by(
        self,
        fields: Sequence[str],
        *,
        reverse: bool = False,
        where: Filter | None = None,
        namespace: str = "",
        after: ScanPosition | None = None,
    ) -> Iterator[Entry]:
        """As the function ``scan_by`` of the store inside."""
        return scan_by(self.wrapped, fields, reverse=reverse, where=where, namespace=namespace, after=after)

    def namespaces(self) -> list[str]:
        """As ``VectorStore.namespaces``."""
        return self.wrapped.namespaces()

    def close(self) -> None:
        """As ``VectorStore.close``."""
        self.wrapped.close()

    # The lifecycle.

    @property
    def database(self) -> Database | None:
        """As ``LifecycleStore.database``."""
        return self._lifecycle("database").database

    @property
    def analyzer(self) -> Analyzer:
        """As ``LifecycleStore.analyzer``."""
        return self._lifecycle("analyzer").analyzer

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``."""
        return self._lifecycle("recorded_space").recorded_space()

    @property
    def fields(self) -> tuple[str, ...]:
        """As ``LifecycleStore.fields``."""
        return self._lifecycle("fields").fields

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        return self._lifecycle("changes").changes(since, namespace=namespace)

    def view(self, namespaces: Sequence[str]) -> AbstractContextManager[View]:
        """As ``LifecycleStore.view``."""
        return self._lifecycle("view").view(namespaces)

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``."""
        return self._lifecycle("transaction").transaction()

    def set_space(self, space: Space) -> None:
        """As ``LifecycleStore.set_space``."""
        self._lifecycle("set_space").set_space(space)

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        self._lifecycle("begin_space").begin_space(space)

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        return self._lifecycle("filling").filling()

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        return self._lifecycle("unfilled").unfilled(namespace=namespace, after=after)

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
        inside = self._lifecycle("fill_space")
        return inside.fill_space(space, vectors, no_vector=no_vector, namespace=namespace, expect=expect)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        self._lifecycle("commit_space").commit_space(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        self._lifecycle("abort_space").abort_space()

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        self._lifecycle("declare_fields").declare_fields(fields)

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``."""
        return self._lifecycle("erase").erase(ids, namespace=namespace)

    def pending_erasure(self) -> bool:
        """As ``LifecycleStore.pending_erasure``."""
        return self._lifecycle("pending_erasure").pending_erasure()

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``."""
        return self._lifecycle("verify").verify()

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``."""
        return self._lifecycle("compact").compact()

    def backup(self, path: str) -> None:
        """As ``LifecycleStore.backup``."""
        self._lifecycle("backup").backup(path)

    def _lifecycle(self, operation: str) -> LifecycleStore:
        if not hasattr(self.wrapped, operation):
            kind = type(self.wrapped).__name__
            raise MissingOperationError(
                operation, f"{kind} lacks it; it needs a store with the lifecycle part, LifecycleStore"
            )
        return cast("LifecycleStore", self.wrapped)
