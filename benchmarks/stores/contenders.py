"""Contenders: the stores in the race, as ``contenders.toml`` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.about import version_of


@dataclass(frozen=True, slots=True)
class Contender:
    """A store of the race. *approximate*: its recall is asked for, not demanded."""

    key: str
    title: str
    adapter: str
    """``module:class`` below ``benchmarks.stores.adapters``."""
    package: str
    """Package that must be installed, whose version is printed."""
    measures: frozenset[str]
    approximate: bool = False
    durable: bool = True
    """True where a write is on disk when the call returns."""
    rows: bool = True
    """True where answers have text and metadata; else ids alone."""
    file_of: str | None = None
    """Key of the store whose file it opens a copy of."""
    ours: bool = False


def _contenders() -> Iterator[Contender]:
    for key, fields in tomllib.loads(Path(__file__).with_name("contenders.toml").read_text("utf-8")).items():
        yield Contender(key, **{**fields, "measures": frozenset(fields["measures"])})


CONTENDERS = tuple(_contenders())
BY_KEY = {contender.key: contender for contender in CONTENDERS}
PEERS = ("sqlite-vec", "chroma", "lancedb", "lancedb-indexed")
"""The persistent embedded peers; Tellback is compared with the best of them in each line."""


def missing(contender: Contender) -> str | None:
    """Return why a store cannot be measured here, None if its package is there."""
    if version_of(contender.package) == "-":
        return f"{contender.package} is not installed: pip install '.[bench]'"
    return None
