"""Heads: linear classifiers that tell what a text is, over the vectors of the E5 encoder or over its letters.

Over vectors: whether a note holds, is of the past, a plan, not meant or no statement (*modality*); whether it tells of
a *change*; for which *time* a question asks. Over hashed groups of letters and words, which need no encoder, the same
and two more: the *kind* of an utterance, and the *topic* of a statement about a person. ``python -m benchmarks train
heads`` fits them to sentences by several writers and writes the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

HEADS_FILE: Final = Path(__file__).with_name("heads.npz")
LETTER_GROUPS: Final = 2048
WORD_GROUPS: Final = 1024
_GROUP_SIZES = range(2, 6)
_MAX_CHARACTERS = 400
"""Characters whose groups count: what a text is shows at its beginning."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*|[?!\u00bf\u00a1\uff1f\uff01]")
_LEVELS = 127

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
    """Return the fitted head *name*: "modality", "change", "time" over vectors; with "by letters", "kind", "topic"."""
    with np.load(HEADS_FILE) as file:
        levels, scale, bias = (file[f"{name} {part}"] for part in ("levels", "scale", "bias"))
        return Head(tuple(file[f"{name} classes"].tolist()), levels * (scale / _LEVELS), bias)


def save_heads(heads: Mapping[str, Head], path: Path = HEADS_FILE) -> None:
    """Write *heads* by name to *path*, each weight in one byte, as a share of the greatest of its class."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, head in heads.items():
        scale = np.abs(head.weights).max(axis=1, keepdims=True)
        arrays[f"{name} levels"] = np.round(head.weights / scale * _LEVELS).astype(np.int8)
        arrays |= {f"{name} scale": scale, f"{name} bias": head.bias, f"{name} classes": np.array(head.classes)}
    np.savez_compressed(path, allow_pickle=False, **arrays)


def letter_groups(text: str) -> Floats:
    """Return the hashed groups of *text*, shape (``LETTER_GROUPS`` + ``WORD_GROUPS``,): two parts of length 1 each.

    The first are groups of two to five letters; the second words, pairs of words, the first and the last one, and how
    many words, numbers and capitals there are.
    """
    text = " ".join(text[:_MAX_CHARACTERS].replace("\u2019", "'").split())
    padded = f" {text.lower()} "
    words = _WORD.findall(padded)
    groups = [*words, *map(" ".join, pairwise(words))]
    if words:
        groups += [f"^{words[0]}", f"^{' '.join(words[:2])}", f"{words[-1]}$"]
    capitals = sum(word[0].isupper() for word in _WORD.findall(text)[1:])
    groups += [f"#{min(len(words), 20) // 2}", f"A{min(capitals, 3)}", f"0{any(map(str.isdigit, text))}"]
    places = [zlib.crc32(group.encode("utf-8", "surrogatepass")) % WORD_GROUPS for group in groups]
    return np.concatenate([_counted(_letter_places(padded), LETTER_GROUPS), _counted(places, WORD_GROUPS)])


def _letter_places(padded: str) -> NDArray[np.uint32]:
    """Return the places of all groups of letters of *padded*, hashed by multiplication and shifts."""
    codes = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), np.uint32)
    groups = []
    for size in _GROUP_SIZES:
        hashed = np.full(max(len(codes) - size + 1, 0), size, np.uint32)
        for start in range(size):
            hashed = (hashed ^ codes[start : start + len(hashed)]) * np.uint32(0x5BD1E995)
            hashed ^= hashed >> np.uint32(15)
        groups.append(hashed % np.uint32(LETTER_GROUPS))
    return np.concatenate(groups)


def _counted(places: ArrayLike, size: int) -> Floats:
    """Return how often each of *size* places occurs, as logarithms, of length 1."""
    counts = np.bincount(np.asarray(places, np.int64), minlength=size)
    values = np.log1p(counts.astype(np.float32))
    return np.asarray(values / max(float(np.linalg.norm(values)), 1.0), np.float32)
