"""The rows of a run as files that every process maps: vectors, kinds, texts, questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Row

KINDS = ("rare", "some", "half", "other")
SHARES = {"rare": 0.01, "some": 0.10, "half": 0.50}
"""The share of rows of each kind that is filtered on; ``other`` is the rest."""
EXTRA = 3_000
"""Rows beyond the first n, for what is written while it is measured."""


@dataclass(frozen=True, slots=True)
class About:
    """Description of the rows: *n* rows of *d* dimensions, called *name*, and how they were made."""

    name: str
    n: int
    d: int
    seed: int
    made: str


class Data:
    """The rows that ``write`` put into *folder*; the vectors are mapped."""

    def __init__(self, folder: Path) -> None:
        self.about = About(**json.loads((folder / "about.json").read_text("utf-8")))
        self.vectors: NDArray[np.float32] = np.load(folder / "vectors.npy", mmap_mode="r")
        self.queries: NDArray[np.float32] = np.load(folder / "queries.npy")
        self.kinds: NDArray[np.uint8] = np.load(folder / "kinds.npy")
        self.questions: list[str] = json.loads((folder / "questions.json").read_text("utf-8"))
        self.texts: list[str] = json.loads((folder / "texts.json").read_text("utf-8"))

    def row(self, at: int, *, text: bool = True) -> Row:
        """Return row *at*; from n on they are the extra ones."""
        metadata: dict[str, Any] = {"kind": KINDS[self.kinds[at]], "session": f"s{at % 200}", "ts": at}
        return Row(id_of(at), np.array(self.vectors[at]), self.texts[at] if text else "", metadata)

    def batches(self, size: int, *, text: bool = True) -> Iterator[list[Row]]:
        """Yield the first n rows in lists of *size*."""
        for start in range(0, self.about.n, size):
            yield [self.row(number, text=text) for number in range(start, min(start + size, self.about.n))]


def id_of(at: int) -> str:
    """Return the id of row *at*."""
    return f"row-{at:07d}"


def write(
    folder: Path,
    about: About,
    *,
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
    texts: Sequence[str],
    questions: Sequence[str],
) -> None:
    """Write the rows of a run, kinds drawn by the seed in their exact shares."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "queries.npy", queries)
    np.save(folder / "kinds.npy", _kinds(about, len(vectors)))
    (folder / "texts.json").write_text(json.dumps(list(texts)), "utf-8")
    (folder / "questions.json").write_text(json.dumps(list(questions)), "utf-8")
    (folder / "about.json").write_text(json.dumps(asdict(about)), "utf-8")


def _kinds(about: About, rows: int) -> NDArray[np.uint8]:
    counts = [max(1, round(share * about.n)) for share in SHARES.values()]
    kinds = np.full(rows, KINDS.index("other"), np.uint8)
    kinds[: sum(counts)] = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    np.random.default_rng(about.seed + 1).shuffle(kinds[: about.n])
    return kinds
