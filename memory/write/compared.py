"""How like two memories are: by their vectors where both have one, else by their words; one against many at once."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.codec import from_entry
from memory.records import Memory
from memory.write.policies import Near
from vectorstore import Entry, Vector

_WORD: Final = re.compile(r"\w+")
_ROUNDING: Final = 1e-5
"""More than a product of many rows and one of two differ by; what is this near the limit is computed by itself."""
_OVER: Final = -1.0
Key: TypeAlias = tuple[str | None, ...]
"""Kind, role and speaker: only what agrees in all of them is compared."""


def key_of(memory: Memory) -> Key:
    """Return what a memory must share with another one to be compared with it."""
    return (memory.kind, memory.role, memory.speaker)


class Compared:
    """A memory as it is compared: its vector of length 1 where it has one, else its words, read when they are asked."""

    __slots__ = ("_entry", "_memory", "_words", "vector")

    def __init__(self, vector: Vector | None, *, memory: Memory | None = None, entry: Entry | None = None) -> None:
        norm = 0.0 if vector is None else float(np.linalg.norm(vector))
        self.vector = vector / norm if vector is not None and norm else None
        self._memory, self._entry = memory, entry
        self._words: frozenset[str] | None = None

    @property
    def memory(self) -> Memory:
        """The memory itself."""
        if self._memory is None:
            assert self._entry is not None
            self._memory = from_entry(self._entry)
        return self._memory

    @property
    def words(self) -> frozenset[str]:
        """Its words, whatever their case."""
        if self._words is None:
            self._words = frozenset(_WORD.findall(self.memory.text.casefold()))
        return self._words

    def holds(self, now: datetime) -> bool:
        """Whether it has neither expired nor ended."""
        return all(end is None or end > now for end in (self.memory.expires_at, self.memory.valid_to))

    def near(self, other: Compared) -> Near:
        """Return how like *other* is: the cosine in [0, 1], or the share of all words of both that both hold."""
        if self.vector is not None and other.vector is not None and len(self.vector) == len(other.vector):
            cosine = float(np.dot(self.vector, other.vector))
            return Near(other.memory, min(max(cosine, 0.0), 1.0), "meaning")
        every = self.words | other.words
        return Near(other.memory, len(self.words & other.words) / len(every) if every else 1.0, "words")


class Row:
    """Memories of one key, in a matrix where they have vectors, so that one is held against all of them at once."""

    def __init__(self) -> None:
        self._with: list[Compared] = []
        self._without: list[Compared] = []
        self._ending: list[int] = []
        self._matrix: NDArray[np.float32] | None = None

    def add(self, one: Compared) -> None:
        """Put *one* at the end."""
        if one.vector is None or (self._matrix is not None and len(one.vector) != self._matrix.shape[1]):
            self._without.append(one)
            return
        at, before = len(self._with), self._matrix
        if before is None or at == len(before):
            before = self._matrix = np.concatenate(
                [*([] if before is None else [before]), np.empty((max(at, 64), len(one.vector)), np.float32)]
            )
        before[at] = one.vector
        self._with.append(one)
        if one.memory.expires_at is not None or one.memory.valid_to is not None:
            self._ending.append(at)

    def like(self, asked: Compared, k: int, now: datetime) -> list[Compared]:
        """Return those that hold *now* and may be among the *k* most like *asked*, and perhaps some more."""
        found = [one for one in self._without if one.holds(now)]
        if self._matrix is None:
            return found
        if asked.vector is None or len(asked.vector) != self._matrix.shape[1]:
            return [*found, *(one for one in self._with if one.holds(now))]
        scores = np.clip(self._matrix[: len(self._with)] @ asked.vector, 0.0, 1.0)
        scores[[place for place in self._ending if not self._with[place].holds(now)]] = _OVER
        least = np.partition(scores, -k)[-k] - _ROUNDING if k < len(scores) else 0.0
        return [*found, *(self._with[place] for place in np.flatnonzero(scores >= max(least, 0.0)))]
