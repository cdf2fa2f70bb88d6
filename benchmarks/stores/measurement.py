"""Measurements of stores and the file that keeps a run; looking them up, and ratios of two with their spread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figure import short
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import PEERS


@dataclass(frozen=True, slots=True)
class Measurement:
    """Samples of a *measure* of one *store*, on *n* rows of *d* dimensions; *recall* at 10 where it was taken.

    *rounds* are the medians of the single rounds, in order: rounds of one number were measured side by side.
    """

    store: str
    measure: str
    p50: float
    p95: float
    count: int
    rounds: tuple[float, ...]
    data: str = "clustered"
    n: int = 0
    d: int = 0
    version: str = "-"
    recall: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What of a store was not measured on which rows (0: on any), and *why*."""

    store: str
    what: str
    why: str
    data: str = ""
    n: int = 0


def measured(store: str, measure: str, blocks: Sequence[Sequence[float]], **more: Any) -> Measurement:
    """Return the measurement of *blocks* of samples, a block a round; samples of a measure in ms are in seconds."""
    scale = 1e3 if m.unit_of(measure) == "ms" else 1.0
    samples = np.array([item for block in blocks for item in block], dtype=np.float64) * scale
    if not len(samples):
        raise ValueError("a measurement needs a sample")
    middle, high = np.percentile(samples, (50, 95))
    rounds = tuple(_rounded(np.median(block) * scale) for block in blocks if len(block))
    return Measurement(store, measure, _rounded(middle), _rounded(high), len(samples), rounds, **more)


@dataclass
class Results:
    """One run: its circumstances (*about*), measurements and failures; of what was measured twice the later counts."""

    about: dict[str, Any] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def get(self, store: str, measure: str, data: str, n: int) -> Measurement | None:
        """Return the measurement, None where there is none."""
        wanted = (store, measure, data, n)
        found = (
            item for item in reversed(self.measurements) if (item.store, item.measure, item.data, item.n) == wanted
        )
        return next(found, None)

    def best_peer(self, measure: str, data: str, n: int, peers: Sequence[str] = PEERS) -> Measurement | None:
        """Return the best of *peers* (the persistent ones) in that line."""
        items = [item for key in peers if (item := self.get(key, measure, data, n)) is not None]
        best = max if m.is_rate(measure) else min
        return best(items, key=lambda item: item.p50) if items else None

    def sizes(self) -> list[tuple[str, int]]:
        """Return what was raced: (data, n), made-up rows first, small ones first."""
        guards = (m.BESIDE_NONE, m.BESIDE_MANY)
        found = (item for item in self.measurements if item.measure == m.SEARCH and item.store not in guards)
        return sorted({(item.data, item.n) for item in found})

    def write(self, path: Path) -> None:
        """Write the run to *path*, whole, a measurement a line."""
        rows = (_kept(item) for item in self.measurements)
        parts = [f'"about": {json.dumps(self.about, ensure_ascii=False)}']
        parts.append(f'"failures": {json.dumps(list(map(_kept, self.failures)), ensure_ascii=False)}')
        lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        parts.append(f'"measurements": [\n{lines}\n]')
        beside = path.with_suffix(".new")
        beside.write_text("{" + ",\n".join(parts) + "}\n", "utf-8")
        beside.replace(path)


def read_results(path: Path) -> Results:
    """Return the run of the file *path*; ``ValueError`` names what is no measurement."""
    try:
        given = json.loads(path.read_text("utf-8"))
        rows = [{**row, "rounds": tuple(row["rounds"])} for row in given["measurements"]]
        return Results(
            given["about"], [Measurement(**row) for row in rows], [Failure(**row) for row in given["failures"]]
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not the results of `stores`: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the upper to the lower: of the medians, and lowest and highest over the rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.value)} × ({short(self.low)} to {short(self.high)})"


def ratio(upper: Measurement, lower: Measurement) -> Ratio:
    """Return upper / lower. Rounds measured side by side are paired; else the spread is of extremes."""
    value = upper.p50 / lower.p50
    if len(upper.rounds) == len(lower.rounds) > 1:
        each: Sequence[float] = [up / low for up, low in zip(upper.rounds, lower.rounds, strict=True)]
        return Ratio(value, min(each), max(each))
    return Ratio(value, min(upper.rounds) / max(lower.rounds), max(upper.rounds) / min(lower.rounds))


def _kept(row: Measurement | Failure) -> Mapping[str, Any]:
    """Return the fields of *row* that are not at their default."""
    defaults = {each.name: each.default for each in fields(row)}
    return {name: value for name, value in asdict(row).items() if defaults[name] is MISSING or value != defaults[name]}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
