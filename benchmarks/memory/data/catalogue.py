"""Data sets by name: ``hands``, ``locomo=PATH``, or a folder of one's own by its path alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.memory.data.beam import beam
from benchmarks.memory.data.conversations import locomo, realtalk
from benchmarks.memory.data.dataset import DataError, DataSet
from benchmarks.memory.data.hands import hands
from benchmarks.memory.data.json_lines import json_lines
from benchmarks.memory.data.libraries import beir, cranfield, squad
from benchmarks.memory.data.longmemeval import longmemeval

READERS: Mapping[str, Callable[[Path], DataSet]] = {
    "locomo": locomo,
    "realtalk": realtalk,
    "longmemeval": longmemeval,
    "beam": beam,
    "beir": beir,
    "squad": squad,
    "cranfield": cranfield,
}


def read_data(name: str, root: Path | None = None) -> DataSet:
    """Return the data set *name*, ``NAME=PATH``; without a path it is the folder of that name in *root*."""
    kind, given, path = name.partition("=")
    if kind == "hands":
        return hands()
    if kind not in READERS:
        return json_lines(Path(name))
    place = Path(path) if given else (root / kind if root is not None else None)
    if place is None or not place.exists():
        raise DataError(f"no data of {kind}: {kind}=PATH names its files, or --data the folder of all data sets")
    return READERS[kind](place)
