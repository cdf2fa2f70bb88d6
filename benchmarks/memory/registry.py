"""Systems that take part, with their packages, their settings, and the reason why some are not measured."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory.data.dataset import DataError

SHARED = "+shared"
"""Suffix of a system's key where it uses the embedder that all of a run share."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One system with one setting. *packages* have an environment of their own; empty: that of the bench."""

    key: str
    title: str
    place: str = ""
    settings: str = ""
    packages: tuple[str, ...] = ()
    shared: bool = False
    """It asks the embedder that all of a run share."""
    texts: bool = False
    """It embeds texts without date and speaker, too."""
    options: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    """It gives everything, and is not cut to equal k and tokens."""
    oracle: bool = False
    not_measured: str = ""
    """Reason why there is no figure of it; it is named, and not run."""


def _entries() -> Iterator[Entry]:
    for key, fields in tomllib.loads(Path(__file__).with_name("systems.toml").read_text("utf-8")).items():
        yield Entry(key, **{**fields, "packages": tuple(fields.get("packages", ()))})


ENTRIES = tuple(_entries())
"""All systems, as ``systems.toml`` has them."""
BY_KEY = {entry.key: entry for entry in ENTRIES}
MEASURED = tuple(entry.key for entry in ENTRIES if not entry.not_measured)
BASELINES = tuple(key for key in MEASURED if not BY_KEY[key].packages)


def entry_of(name: str) -> Entry:
    """Return the entry of *name*: a key, or ``module:Class`` of one's own (``+shared``: with the shared embedder)."""
    if name in BY_KEY:
        return BY_KEY[name]
    place, shared = name.removesuffix(SHARED), name.endswith(SHARED)
    module, _, cls = place.partition(":")
    if not module or not cls:
        raise DataError(f"no system {name}: {', '.join(BY_KEY)}, or module:Class of your own")
    return Entry(place.replace(":", ".") + (SHARED if shared else ""), cls, place, "yours", shared=shared, texts=True)
