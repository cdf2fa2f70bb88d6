"""Who is in the race: each store's name, what its adapter is, and what of it can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

READING = frozenset({"search", "filter", "many"})
WRITING = frozenset({"add", "seen", "delete"})
KEPT = frozenset({"file", "cold", "memory"})


@dataclass(frozen=True, slots=True)
class Contender:
    """A store of the race. *approximate*: its recall is asked for, not demanded."""

    key: str
    title: str
    adapter: str
    """``module:class`` below ``benchmarks.stores.adapters``."""
    module: str
    """What must be importable."""
    package: str
    """Whose version is printed."""
    measures: frozenset[str]
    approximate: bool = False
    durable: bool = True
    """What was written is on disk when the call returns."""
    rows: bool = True
    """Answers carry text and metadata; else ids alone."""
    file_of: str | None = None
    """It opens a copy of this store's file."""
    ours: bool = False
    bulk_rounds: int = 1
    """How often it is filled for the bulk figures, which are raced only among some."""


_ALL = READING | WRITING | KEPT

CONTENDERS: tuple[Contender, ...] = (
    Contender(
        "bare", "bare numpy", "bare:Bare", "numpy", "numpy", frozenset({"search"}), durable=False, rows=False
    ),
    Contender(
        "numpy", "numpy by hand", "numpy_by_hand:NumpyByHand", "numpy", "numpy", _ALL, durable=False
    ),
    Contender(
        "sqlite-rows", "SQLite rows", "sqlite_by_hand:SqliteRows", "sqlite_vec", "sqlite-vec",
        frozenset({"search", "filter", "file"}) | WRITING, bulk_rounds=3,
    ),
    Contender(
        "sqlite-vec", "sqlite-vec by hand", "sqlite_by_hand:SqliteVec", "sqlite_vec", "sqlite-vec", _ALL, bulk_rounds=3
    ),
    Contender(
        "sqlite-vec-fts5", "sqlite-vec and FTS5", "sqlite_by_hand:SqliteVecFts5", "sqlite_vec", "sqlite-vec",
        frozenset({"text", "file", "cold", "memory"}), bulk_rounds=3,
    ),
    Contender(
        "faiss", "FAISS flat", "faiss_flat:FaissFlat", "faiss", "faiss-cpu", _ALL, durable=False, rows=False
    ),
    Contender(
        "hnswlib", "hnswlib", "hnswlib_index:HnswlibIndex", "hnswlib", "hnswlib", _ALL,
        approximate=True, durable=False, rows=False,
    ),
    Contender("chroma", "Chroma", "chroma:Chroma", "chromadb", "chromadb", _ALL, approximate=True),
    Contender("lancedb", "LanceDB flat", "lance:LanceFlat", "lancedb", "lancedb", _ALL | {"text"}),
    Contender(
        "lancedb-indexed", "LanceDB indexed", "lance:LanceIndexed", "lancedb", "lancedb", _ALL | {"text"},
        approximate=True,
    ),
    Contender(
        "mneme-numpy", "Mneme in memory", "mneme:MnemeNumpy", "vectorstore", "mneme", _ALL | {"text"},
        durable=False, ours=True, bulk_rounds=3,
    ),
    Contender(
        "mneme-sqlite", "Mneme in a file", "mneme:MnemeSqlite", "vectorstore", "mneme", _ALL | {"text"},
        ours=True, bulk_rounds=3,
    ),
    Contender(
        "mneme-tenth", "Mneme, a tenth in memory", "mneme:MnemeSqliteTenth", "vectorstore", "mneme",
        READING - {"many"} | {"text", "cold", "memory"}, ours=True, file_of="mneme-sqlite",
    ),
    Contender(
        "mneme-numpy-faster", "Mneme in memory, faster", "mneme_faster:MnemeNumpyFaster", "vectorstore", "mneme",
        READING - {"many"}, approximate=True, durable=False, ours=True, file_of="mneme-numpy",
    ),
    Contender(
        "mneme-sqlite-faster", "Mneme in a file, faster", "mneme_faster:MnemeSqliteFaster", "vectorstore", "mneme",
        READING - {"many"}, approximate=True, ours=True, file_of="mneme-sqlite",
    ),
)  # fmt: skip

BY_KEY = {one.key: one for one in CONTENDERS}
PEERS = ("sqlite-vec", "chroma", "lancedb", "lancedb-indexed")
"""The persistent embedded ones, of which the best in a line is raced against."""


def missing(contender: Contender) -> str | None:
    """Return why a store cannot be measured here, None if its package is there."""
    if find_spec(contender.module) is None:
        return f"{contender.package} is not installed: pip install -e '.[bench]'"
    return None


def version_of(contender: Contender) -> str:
    """Return the version of the store's package, ``-`` where it is not installed."""
    try:
        return version(contender.package)
    except PackageNotFoundError:
        return "-"
