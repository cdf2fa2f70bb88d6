"""The vector store of Tellback: ids, vectors, text and metadata in; the nearest out.

>>> from vectorstore import Entry, Space, open_store
>>> store = open_store("numpy:", space=Space("toy", 2))
>>> store.upsert([Entry("a", [1, 0], "north"), Entry("b", [0, 1], "east")])
2
>>> store.search([1, 0.1], k=1)[0].entry.text
'north'
"""

from __future__ import annotations

import sys
from typing import Final

from vectorstore.lazy_face import LazyFace as _LazyFace

if sys.version_info < (3, 11):  # noqa: UP036  # a checkout on Python's path is not held back by pip
    raise ImportError(f"Tellback needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")

_EXPORTS: Final = {
    "vectorstore.analyzer": "Analyzer",
    "vectorstore.database": "Component Connection Database Dialect Migration TableComponent",
    "vectorstore.engines.numpy_store": "NumpyStore",
    "vectorstore.engines.sqlite_store": "SqliteStore",
    "vectorstore.errors": (
        "ArgumentError BusyError DamageError DimensionError FilterError ForkedError MissingExtra NewerFile "
        "NotAStore RevisionConflict SettingMismatch SpaceChanged SpaceMismatch SpaceNotReady StorageFull "
        "StorageUnwritable StoreClosed UnsupportedError VectorStoreError"
    ),
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
"""The public names by the module that defines them; the stub beside this file lists the same for type checkers."""
_FACE: Final = _LazyFace(__name__, _EXPORTS)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
