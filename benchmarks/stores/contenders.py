"""Contenders: the stores in the race, each with its name, adapter and abilities."""

from __future__ import annotations

from dataclasses import dataclass
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
    """Module that must be importable."""
    package: str
    """Package whose version is printed."""
    measures: frozenset[str]
    approximate: bool = False
    durable: bool = True
    """True where a write is on disk when the call returns."""
    rows: bool = True
    """True where answers have text and metadata; else ids alone."""
    file_of: str | None = None
    """Key of the store whose file it opens a copy of."""
    ours: bool = False


_ALL = READING | WRITING | KEPT

CONTENDERS: tuple[Contender, ...] = (
    Contender(
        "bare", "bare numpy", "bare:Bare", "numpy", "numpy", frozenset({"search"}), durable=False, rows=False
    ),
    Contender(
        "sqlite-rows", "SQLite rows", "sqlite_by_hand:SqliteRows", "sqlite_vec", "sqlite-vec",
        frozenset({"search", "filter", "file"}) | WRITING
    ),
    Contender(
        "sqlite-vec", "sqlite-vec by hand", "sqlite_by_hand:SqliteVec", "sqlite_vec", "sqlite-vec", _ALL
    ),
    Contender(
        "sqlite-vec-fts5", "sqlite-vec and FTS5", "sqlite_by_hand:SqliteVecFts5", "sqlite_vec", "sqlite-vec",
        frozenset({"text", "file", "cold", "memory"})
    ),
    Contender("chroma", "Chroma", "chroma:Chroma", "chromadb", "chromadb", _ALL, approximate=True),
    Contender("lancedb", "LanceDB flat", "lance:LanceFlat", "lancedb", "lancedb", _ALL | {"text"}),
    Contender(
        "lancedb-indexed", "LanceDB indexed", "lance:LanceIndexed", "lancedb", "lancedb", _ALL | {"text"},
        approximate=True,
    ),
    Contender(
        "tellback-numpy", "Tellback in memory", "tellback:TellbackNumpy", "tellback.vectorstore", "tellback",
        _ALL | {"text"},
        durable=False, ours=True
    ),
    Contender(
        "tellback-sqlite", "Tellback in a file", "tellback:TellbackSqlite", "tellback.vectorstore", "tellback",
        _ALL | {"text"},
        ours=True
    ),
    Contender(
        "tellback-tenth", "Tellback, a tenth in memory", "tellback:TellbackSqliteTenth", "tellback.vectorstore",
        "tellback",
        READING - {"many"} | {"text", "cold", "memory"}, ours=True, file_of="tellback-sqlite",
    ),
    Contender(
        "tellback-numpy-faster", "Tellback in memory, faster", "tellback:TellbackNumpyFaster",
        "tellback.vectorstore", "tellback",
        READING - {"many"}, approximate=True, durable=False, ours=True, file_of="tellback-numpy",
    ),
    Contender(
        "tellback-sqlite-faster", "Tellback in a file, faster", "tellback:TellbackSqliteFaster",
        "tellback.vectorstore", "tellback",
        READING - {"many"}, approximate=True, ours=True, file_of="tellback-sqlite",
    ),
)  # fmt: skip

BY_KEY = {contender.key: contender for contender in CONTENDERS}
PEERS = ("sqlite-vec", "chroma", "lancedb", "lancedb-indexed")
"""The persistent embedded peers; Tellback is compared with the best of them in each line."""


def missing(contender: Contender) -> str | None:
    """Return why a store cannot be measured here, None if its package is there."""
    if find_spec(contender.module) is None:
        return f"{contender.package} is not installed: pip install '.[bench]'"
    return None
