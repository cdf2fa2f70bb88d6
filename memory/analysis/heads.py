"""Heads: linear classifiers that tell what a text is, over the vectors of the E5 encoder or over its letters.

Over vectors: whether a note holds, is of the past, a plan, not meant or no statement (*modality*); whether it tells of
a *change*; for which *time* a question asks. Over hashed groups of letters and words, which need no encoder, the same
and two more: the *kind* of an utterance, and the *topic* of a statement about a person. ``python -m benchmarks train
heads`` fits them to sentences by several writers and writes the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
_DIGIT = re.compile("[0-9]")
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


def letter_groups(texts: Sequence[str]) -> Floats:
    """Return the hashed groups of *texts*, shape (n, ``LETTER_GROUPS`` + ``WORD_GROUPS``): two parts of length 1 each.

    The first are groups of two to five letters; the second words, pairs of words, the first and the last one, and how
    many words, numbers and capitals there are. A text has the same row alone and among others.
    """
    beginnings = [" ".join(text[:_MAX_CHARACTERS].replace("\u2019", "'").split()) for text in texts]
    padded = [f" {text.lower()} " for text in beginnings]
    return np.concatenate([_letters(padded), _words(beginnings, padded)], axis=1)


def _letters(padded: Sequence[str]) -> Floats:
    """Return the counts of all groups of letters of each text, hashed by multiplication and shifts."""
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32)
    rows = np.repeat(np.arange(len(padded)), list(map(len, padded)))
    places = []
    for size in _GROUP_SIZES:
        is_inside = rows[: max(len(rows) - size + 1, 0)] == rows[size - 1 :]
        hashed = np.full(len(is_inside), size, np.uint32)
        for start in range(size):
            hashed = (hashed ^ codes[start : start + len(hashed)]) * np.uint32(0x5BD1E995)
            hashed ^= hashed >> np.uint32(15)
        places.append((rows[: len(hashed)] * LETTER_GROUPS + hashed % np.uint32(LETTER_GROUPS))[is_inside])
    return _counted(np.concatenate(places), len(padded), LETTER_GROUPS)


def _words(texts: Sequence[str], padded: Sequence[str]) -> Floats:
    """Return the counts of the words of each text, and of what is told by them; *padded* in small letters."""
    places: list[int] = []
    lengths = []
    for text, small in zip(texts, padded, strict=True):
        words = [word.encode("utf-8", "surrogatepass") for word in _WORD.findall(small)]
        sums = list(map(zlib.crc32, words))
        own = [*sums, *(zlib.crc32(b" " + word, before) for before, word in zip(sums, words[1:], strict=False))]
        if words:
            first = zlib.crc32(b"^" + words[0])
            own += [first, zlib.crc32(b" " + words[1], first) if len(words) > 1 else first]
            own.append(zlib.crc32(b"$", sums[-1]))
        capitals = sum(word[0].isupper() for word in _WORD.findall(text)[1:])
        marks = f"#{min(len(words), 20) // 2}", f"A{min(capitals, 3)}", f"0{has_digit(text)}"
        own += [zlib.crc32(mark.encode()) for mark in marks]
        places += own
        lengths.append(len(own))
    rows = np.repeat(np.arange(len(padded)), lengths)
    return _counted(rows * WORD_GROUPS + np.array(places, np.int64) % WORD_GROUPS, len(padded), WORD_GROUPS)


def has_digit(text: str) -> bool:
    """Return whether *text* has a digit of any script, a raised one included."""
    return _DIGIT.search(text) is not None or (not text.isascii() and any(map(str.isdigit, text)))


def _counted(places: NDArray[np.int64], n: int, size: int) -> Floats:
    """Return how often each of *size* places of each of *n* texts occurs, as logarithms, each row of length 1."""
    counts = np.bincount(places, minlength=n * size).reshape(n, size)
    values = np.log1p(np.arange(counts.max(initial=0) + 1, dtype=np.float32))[counts]
    norms = [max(float(np.linalg.norm(row)), 1.0) for row in values]
    return np.asarray(values / np.array(norms, np.float32)[:, None], np.float32)
