"""The vector store of Tellback: ids, vectors, text and metadata in; the nearest out.

>>> from vectorstore import Entry, Space, open_store
>>> store = open_store("numpy:", space=Space("toy", 2))
>>> store.upsert([Entry("a", [1, 0], "north"), Entry("b", [0, 1], "east")])
2
>>> store.search([1, 0.1], k=1)[0].entry.text
'north'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vectorstore.analyzer import Analyzer
    from vectorstore.database import Component, Connection, Database, Dialect, Migration, TableComponent
    from vectorstore.errors import (
        ArgumentError,
        BusyError,
        DamageError,
        DimensionError,
        FilterError,
        ForkedError,
        MissingExtra,
        NewerFile,
        NotAStore,
        RevisionConflict,
        SettingMismatch,
        SpaceChanged,
        SpaceMismatch,
        SpaceNotReady,
        StorageFull,
        StorageUnwritable,
        StoreClosed,
        UnsupportedError,
        VectorStoreError,
    )
    from vectorstore.index.bm25 import BM25_B, BM25_K1, idf, idf_array
    from vectorstore.index.growable_array import GrowableArray
    from vectorstore.open import open_store, salvage_store
    from vectorstore.ordered_scan import OrderedStore, ScanPosition, scan_by, scan_position
    from vectorstore.protocol import LifecycleStore, VectorStore, View
    from vectorstore.recall_eval import RecallReport, measure_recall
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
        Metric,
        ProgressCallback,
        SearchMode,
        Space,
        SpaceMigration,
        Vector,
        VectorLike,
    )
    from vectorstore.wrappers import ObservableStore, StoreEvent, WrapperStore, lifecycle_of, missing_operations

__all__ = [  # noqa: RUF022 - in plain order, capitals too
    "Analyzer",
    "ArgumentError",
    "BM25_B",
    "BM25_K1",
    "BusyError",
    "Changes",
    "Compaction",
    "Component",
    "Connection",
    "Cursor",
    "DamageError",
    "Database",
    "Dialect",
    "DimensionError",
    "Entry",
    "Erasure",
    "SpaceMigration",
    "Filter",
    "FilterError",
    "Finding",
    "ForkedError",
    "GrowableArray",
    "LifecycleStore",
    "Match",
    "Metadata",
    "Metric",
    "Migration",
    "MissingExtra",
    "NewerFile",
    "NotAStore",
    "ObservableStore",
    "OrderedStore",
    "ScanPosition",
    "ProgressCallback",
    "RecallReport",
    "RevisionConflict",
    "SearchMode",
    "SettingMismatch",
    "Space",
    "SpaceChanged",
    "SpaceMismatch",
    "SpaceNotReady",
    "StorageFull",
    "StorageUnwritable",
    "StoreClosed",
    "StoreEvent",
    "TableComponent",
    "UnsupportedError",
    "Vector",
    "VectorLike",
    "VectorStore",
    "VectorStoreError",
    "View",
    "WrapperStore",
    "idf",
    "idf_array",
    "missing_operations",
    "lifecycle_of",
    "measure_recall",
    "open_store",
    "scan_position",
    "salvage_store",
    "scan_by",
]

_NAMES: Final = {
    "vectorstore.analyzer": "Analyzer",
    "vectorstore.database": "Component Connection Database Dialect Migration TableComponent",
    "vectorstore.errors": (
        "ArgumentError BusyError DamageError DimensionError FilterError ForkedError MissingExtra NewerFile "
        "NotAStore RevisionConflict SettingMismatch SpaceChanged SpaceMismatch SpaceNotReady StorageFull "
        "StorageUnwritable StoreClosed UnsupportedError VectorStoreError"
    ),
    "vectorstore.index.bm25": "BM25_B BM25_K1 idf idf_array",
    "vectorstore.index.growable_array": "GrowableArray",
    "vectorstore.open": "open_store salvage_store",
    "vectorstore.ordered_scan": "OrderedStore ScanPosition scan_by scan_position",
    "vectorstore.protocol": "LifecycleStore VectorStore View",
    "vectorstore.recall_eval": "RecallReport measure_recall",
    "vectorstore.types": (
        "Changes Compaction Cursor Entry Erasure Filter Finding Match Metadata Metric ProgressCallback SearchMode "
        "Space SpaceMigration Vector VectorLike"
    ),
    "vectorstore.wrappers": "ObservableStore StoreEvent WrapperStore lifecycle_of missing_operations",
}
"""The public names, by where they are."""
_WHERE: Final = {name: part for part, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: catching an error of the store loads neither numpy nor SQLite."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
