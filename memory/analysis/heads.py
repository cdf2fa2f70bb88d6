"""Heads: linear classifiers that tell what a text is, over the vectors of the E5 encoder or over its letters.

Over vectors: whether a note holds, is of the past, a plan, not meant or no statement (*modality*); whether it tells of
a *change*; for which *time* a question asks. Over hashed groups of two to five letters, for a memory without that
encoder: the time of a question. What a note is, letters tell too seldom: .65 of five classes, where vectors tell .86.
``python -m benchmarks train heads`` fits them to sentences by several writers and writes the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

HEADS_FILE: Final = Path(__file__).with_name("heads.npz")
LETTER_GROUPS: Final = 2048
_GROUP_SIZES = range(2, 6)
_MAX_CHARACTERS = 2_000
"""Characters of a question whose groups count."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Softmax over *classes*: *weights* have shape (classes, dimension), *bias* (classes,)."""

    classes: tuple[str, ...]
    weights: Floats
    bias: Floats

    def shares(self, vectors: ArrayLike) -> dict[str, Floats]:
        """Return the probability of each class for each of *vectors*, shape (n, dimension); arrays of shape (n,)."""
        logits = np.asarray(vectors, np.float32) @ self.weights.T + self.bias
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return dict(zip(self.classes, (shares / shares.sum(axis=1, keepdims=True)).T, strict=True))


@cache
def head(name: str) -> Head:
    """Return the fitted head *name*: "modality", "change", "time" or "time by letters"."""
    with np.load(HEADS_FILE) as file:
        rows, classes = file[name].astype(np.float32), tuple(file[f"{name} classes"].tolist())
    return Head(classes, rows[:, :-1], rows[:, -1])


def save_heads(heads: Mapping[str, Head], path: Path = HEADS_FILE) -> None:
    """Write *heads* by name to *path*, in half precision, the bias of a class behind its weights."""
    rows = {name: np.c_[head.weights, head.bias].astype(np.float16) for name, head in heads.items()}
    classes = {f"{name} classes": np.array(head.classes) for name, head in heads.items()}
    np.savez_compressed(path, allow_pickle=False, **rows, **classes)


def letter_groups(text: str) -> Floats:
    """Return the hashed groups of letters of *text*, shape (``LETTER_GROUPS``,): logarithms of counts, length 1."""
    padded = f" {text[:_MAX_CHARACTERS].lower()} "
    groups = [padded[i : i + size] for size in _GROUP_SIZES for i in range(len(padded) - size + 1)]
    counts = np.bincount([zlib.crc32(group.encode()) % LETTER_GROUPS for group in groups], minlength=LETTER_GROUPS)
    values = np.log1p(counts.astype(np.float32))
    return np.asarray(values / max(float(np.linalg.norm(values)), 1.0), np.float32)
