"""Base of wrappers: a store that forwards every call to another; a wrapper overrides the calls that it changes.

Of a store that has only the data part, it forwards that, and refuses the rest by name. It checks nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Database
from tellback.vectorstore.errors import UnsupportedError
from tellback.vectorstore.ordered_scan import ScanPosition, scan_by
from tellback.vectorstore.protocol import LifecycleStore, VectorStore
from tellback.vectorstore.text_scan import scan_holding
from tellback.vectorstore.types import Entry, Filter, Space

P = ParamSpec("P")
R = TypeVar("R")


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


_ASKED_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "view": ("get", "search", "search_many", "search_text", "count"),
    "scan_by": ("scan",),
    "scan_holding": ("scan",),
    "erase": ("delete",),
}
"""Methods that a memory asks, each with those whose work it does without calling them."""


def check_overrides(store: VectorStore) -> None:
    """Raise ``UnsupportedError`` for a wrapper with a method of its own that a memory would pass by.

    An access check in ``search`` alone would look as if it worked. The method that is asked instead must be defined in
    the same class, or in one derived from it.
    """
    lacking = missing_operations(store)
    while isinstance(store, WrapperStore):
        classes = type(store).__mro__
        for asked, passed_by in _ASKED_INSTEAD.items():
            place = next(place for place, kind in enumerate(classes) if asked in vars(kind))
            own = next((name for kind in classes[:place] for name in passed_by if name in vars(kind)), None)
            if own is not None and asked not in lacking:
                reason = (
                    f"{type(store).__name__} changes {own!r}, and a memory asks {asked!r} instead; override that too"
                )
                raise UnsupportedError(own, reason)
        store = store.wrapped


def forwarded(method: Callable[P, R]) -> Callable[P, R]:
    """Return *method* of a protocol, with its signature and docstring, as one that asks the store inside."""
    name = method.__name__

    @wraps(method)
    def call(self: WrapperStore, *values: Any, **options: Any) -> Any:
        return self._inside(name)(*values, **options)

    return cast("Callable[P, R]", call)


class WrapperStore:
    """Implements ``LifecycleStore`` by the store that is ``wrapped``; each call is passed on as it came."""

    def __init__(self, store: VectorStore) -> None:
        self.wrapped = store
        """The store inside, for what only that kind of store has."""

    upsert = forwarded(VectorStore.upsert)
    patch = forwarded(VectorStore.patch)
    put_vectors = forwarded(VectorStore.put_vectors)
    get = forwarded(VectorStore.get)
    search = forwarded(VectorStore.search)
    search_many = forwarded(VectorStore.search_many)
    search_text = forwarded(VectorStore.search_text)
    delete = forwarded(VectorStore.delete)
    count = forwarded(VectorStore.count)
    scan = forwarded(VectorStore.scan)
    namespaces = forwarded(VectorStore.namespaces)
    close = forwarded(VectorStore.close)

    recorded_space = forwarded(LifecycleStore.recorded_space)
    changes = forwarded(LifecycleStore.changes)
    view = forwarded(LifecycleStore.view)
    transaction = forwarded(LifecycleStore.transaction)
    set_space = forwarded(LifecycleStore.set_space)
    begin_space = forwarded(LifecycleStore.begin_space)
    filling = forwarded(LifecycleStore.filling)
    unfilled = forwarded(LifecycleStore.unfilled)
    fill_space = forwarded(LifecycleStore.fill_space)
    commit_space = forwarded(LifecycleStore.commit_space)
    abort_space = forwarded(LifecycleStore.abort_space)
    declare_fields = forwarded(LifecycleStore.declare_fields)
    erase = forwarded(LifecycleStore.erase)
    pending_erasure = forwarded(LifecycleStore.pending_erasure)
    verify = forwarded(LifecycleStore.verify)
    compact = forwarded(LifecycleStore.compact)
    backup = forwarded(LifecycleStore.backup)

    @property
    def space(self) -> Space | None:
        """As ``VectorStore.space``."""
        return self.wrapped.space

    @property
    def database(self) -> Database | None:
        """As ``LifecycleStore.database``."""
        return cast("Database | None", self._inside("database"))

    @property
    def analyzer(self) -> Analyzer:
        """As ``LifecycleStore.analyzer``."""
        return cast("Analyzer", self._inside("analyzer"))

    @property
    def fields(self) -> tuple[str, ...]:
        """As ``LifecycleStore.fields``."""
        return cast("tuple[str, ...]", self._inside("fields"))

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

    def scan_holding(self, texts: Sequence[str], *, names: Sequence[str] = (), namespace: str = "") -> Iterator[Entry]:
        """As the function ``scan_holding`` of the store inside."""
        return scan_holding(self.wrapped, texts, names=names, namespace=namespace)

    def _inside(self, operation: str) -> Any:
        """Return a method or a property of the store inside; one that it lacks is refused by name."""
        try:
            return getattr(self.wrapped, operation)
        except AttributeError as error:
            kind = type(self.wrapped).__name__
            raise MissingOperationError(
                operation, f"{kind} lacks it; it needs a store with the lifecycle part, LifecycleStore"
            ) from error
