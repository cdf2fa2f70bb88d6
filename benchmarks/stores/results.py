"""Measurements as they are kept: one JSON object a line, with everything needed to repeat it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks.stores.measures import unit_of


@dataclass(frozen=True, slots=True)
class Setting:
    """Facts that all measurements of one run share."""

    seed: int
    machine: str
    command: str
    date: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure: a *store*, of which *version*, on *n* rows of *d* dimensions; *recall* at 10 where it was taken.

    *rounds* are the medians of the single rounds, in order: rounds of one number were measured side by side.
    """

    store: str
    version: str
    data: str
    n: int
    d: int
    measure: str
    unit: str
    p50: float
    p95: float
    min: float
    max: float
    count: int
    rounds: tuple[float, ...]
    seed: int
    machine: str
    command: str
    date: str
    recall: float | None = None
    note: str = ""


def measured(
    setting: Setting,
    store: str,
    measure: str,
    blocks: Sequence[Sequence[float]],
    *,
    data: str = "clustered",
    n: int = 0,
    d: int = 0,
    version: str = "-",
    recall: float | None = None,
    note: str = "",
) -> Measurement:
    """Return a measurement of *blocks* of samples, a block a round; samples of a measure in ms are in seconds."""
    unit = unit_of(measure)
    scaled = [[item * 1e3 for item in block] for block in blocks] if unit == "ms" else blocks
    return Measurement(
        store=store,
        version=version,
        data=data,
        n=n,
        d=d,
        measure=measure,
        unit=unit,
        recall=None if recall is None else round(recall, 4),
        note=note,
        **asdict(setting),
        **summary(scaled),  # type: ignore[arg-type]
    )


def summary(blocks: Sequence[Sequence[float]]) -> dict[str, float | int | tuple[float, ...]]:
    """Return the summary of the samples of several rounds."""
    samples = np.array([item for block in blocks for item in block], dtype=np.float64)
    if not len(samples):
        raise ValueError("a measurement needs a sample")
    low, middle, high = np.percentile(samples, (0, 50, 95))
    return {
        "p50": _rounded(middle),
        "p95": _rounded(high),
        "min": _rounded(low),
        "max": _rounded(samples.max()),
        "count": len(samples),
        "rounds": tuple(_rounded(np.median(block)) for block in blocks if len(block)),
    }


def machine() -> str:
    """Return the machine in a line: processor, cores, memory, system."""
    name = platform.processor() or platform.machine()
    memory = ""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages / 2**30:.0f} GiB"
    except (OSError, ValueError, AttributeError):
        pass
    return f"{name}, {os.cpu_count()} cores{memory}, {platform.system()}, Python {platform.python_version()}"


def write_results(folder: Path, measurements: Iterable[Measurement]) -> None:
    """Write the measurements into *folder*, a file for each number of rows, each file whole."""
    by_rows: dict[int, list[str]] = {}
    for measurement in measurements:
        kept = {name: value for name, value in asdict(measurement).items() if value is not None and value != ""}
        by_rows.setdefault(measurement.n, []).append(json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n")
    for rows, lines in by_rows.items():
        path = folder / (f"stores-{rows}.jsonl" if rows else "stores.jsonl")
        beside = path.with_suffix(".new")
        beside.write_text("".join(lines), "utf-8")
        beside.replace(path)


def read_results(place: Path) -> list[Measurement]:
    """Read a file, or all that ``write_results`` wrote into a folder, few rows first.

    Raises ``ValueError`` naming the first line that is no measurement, and where there is no results file.
    """
    files = [place] if place.is_file() else sorted(place.glob("stores*.jsonl"), key=lambda file: (len(file.name), file))
    if not files:
        raise ValueError(f"{place}: there is no results file")
    return [item for file in files for item in _lines(file)]


def _lines(path: Path) -> list[Measurement]:
    found = []
    names = {field.name for field in fields(Measurement)}
    needed = {field.name for field in fields(Measurement) if field.default is MISSING}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            given = json.loads(line)
            if not needed <= set(given) <= names:
                raise ValueError(f"its keys are not {sorted(names)}")
            found.append(Measurement(**{**given, "rounds": tuple(given["rounds"])}))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a measurement: {error}") from error
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
