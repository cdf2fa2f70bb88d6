"""Results of a run as they are kept: JSON Lines, format version 1, described in benchmarks/README.md.

The first line is the header; then a ``fill`` for each memory that was filled and an ``answer`` for each question,
errors among them. No text of the data stands in it: questions and evidence are named by their ids.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from benchmarks.metrics import Answer

FORMAT, VERSION = "tellback-recall-results", 1


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about the whole run. *systems* and *tasks* say of each what the report prints about it."""

    command: str
    at: str
    machine: str
    load: float | None
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    data: Mapping[str, str]
    seed: int
    systems: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[str, Mapping[str, Any]]
    not_run: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fill:
    """One memory of *system* was filled with *items* in *seconds*; *error* says why not."""

    system: str
    task: str
    corpus: str
    items: int
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One question of *system*: the *hits* (id and score, best first), the *evidence* with its grades, *ms*.

    An *error* leaves no hits, and the question counts as not found.
    """

    system: str
    task: str
    corpus: str
    question: str
    group: str
    evidence: Mapping[str, int]
    hits: tuple[tuple[str, float], ...]
    ms: float
    confidence: float | None = None
    abstain: str | None = None
    error: str = ""

    def answer(self) -> Answer:
        """Return it as figures are made from it."""
        return Answer(self.group, tuple(id for id, _ in self.hits), self.evidence)


@dataclass(frozen=True, slots=True)
class Results:
    """A whole file."""

    header: Header
    fills: tuple[Fill, ...]
    answers: tuple[AnswerRow, ...]


class Writer:
    """Writer of the rows of a run, one by one; a file whose name ends in ``.gz`` is compressed."""

    def __init__(self, path: Path) -> None:
        self._file = _opened(path, "wt")

    def write(self, row: Header | Fill | AnswerRow) -> None:
        """Append *row*."""
        self._file.write(json.dumps(_plain(row), ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """End the file."""
        self._file.close()


def read_results(path: Path) -> Results:
    """Read a file; raise ``ValueError`` naming the first line that is wrong."""
    rows = list(_rows(path))
    if not rows or not isinstance(rows[0], Header):
        raise ValueError(f"{path}, line 1: not the header of a results file, format {FORMAT!r}, version {VERSION}")
    return Results(
        rows[0],
        tuple(item for item in rows if isinstance(item, Fill)),
        tuple(item for item in rows if isinstance(item, AnswerRow)),
    )


def _rows(path: Path) -> Iterator[Header | Fill | AnswerRow]:
    with _opened(path, "rt") as file:
        for number, line in enumerate(file, 1):
            try:
                yield _row(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: not a row of a results file: {error}") from error


def _row(fields: dict[str, Any]) -> Header | Fill | AnswerRow:
    kind = fields.pop("row")
    if kind == "header":
        if (fields.pop("format"), fields.pop("version")) != (FORMAT, VERSION):
            raise ValueError(f"its format is not {FORMAT!r}, version {VERSION}")
        return Header(**fields)
    if kind == "fill":
        return Fill(**fields)
    if kind == "answer":
        return AnswerRow(**{**fields, "hits": tuple((str(id), float(score)) for id, score in fields["hits"])})
    raise ValueError(f"no such row: {kind!r}")


def _plain(row: Header | Fill | AnswerRow) -> dict[str, Any]:
    if isinstance(row, Header):
        return {"row": "header", "format": FORMAT, "version": VERSION, **asdict(row)}
    defaults = {field.name: field.default for field in fields(row)}
    kept = {name: value for name, value in asdict(row).items() if value != defaults[name]}
    if isinstance(row, Fill):
        return {"row": "fill", **kept, "seconds": round(row.seconds, 6)}
    hits = [[id, round(score, 6)] for id, score in row.hits]
    return {"row": "answer", **kept, "hits": hits, "ms": round(row.ms, 4)}


def _opened(path: Path, mode: str) -> IO[str]:
    if path.name.endswith(".gz"):
        return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]
    return path.open(mode, encoding="utf-8")
