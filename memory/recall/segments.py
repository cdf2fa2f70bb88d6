"""What recall derived, kept in pieces: what a piece says, which of several pieces says it last, and who keeps them.

A namespace's pieces together are its derived rows at one place of its change log; what came later is derived from the
entries. So they may be late, or missing, and are never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory.recall.columns import Columns, joined


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that came or were replaced, and ids that went; it overrules the segments before it."""

    columns: Columns
    removed: frozenset[str] = frozenset()


class Segments(Protocol):
    """Keeps segments; each call stands alone. *basis* says what derived them: what another derived is nothing."""

    def load(self, namespace: str, basis: str, take: Callable[[Columns], object]) -> int | None:
        """Hand all rows that are kept of a namespace to *take*, piece by piece and no two of one id.

        Returns the place of the change log that they are of; None where nothing is kept, or it is damaged: then what
        *take* was given is of no use.
        """
        ...

    def save(
        self,
        namespace: str,
        basis: str,
        segments: Sequence[Segment],
        *,
        since: int | None,
        position: int,
        unchanged: Callable[[], bool],
    ) -> bool:
        """Keep what happened from *since* (None: ever) until *position*; say whether it is kept now.

        Not where somebody else writes, where the file can only be read or the disk is full, or where *unchanged*, asked
        inside the transaction, says no: what was erased meanwhile must not come back.
        """
        ...


def lasting(said: Sequence[tuple[Sequence[str], frozenset[str]]]) -> list[NDArray[np.int64] | None]:
    """Return which rows of each segment no later one overrules, None: all; *said* are its ids, and those that went."""
    found: list[NDArray[np.int64] | None] = []
    seen: set[str] = set()
    for ids, removed in reversed(said):
        left = None if seen.isdisjoint(ids) else [at for at, id in enumerate(ids) if id not in seen]
        found.append(None if left is None else np.array(left, dtype=np.int64))
        seen.update(ids, removed)
    return found[::-1]


def merged(segments: Sequence[Segment]) -> Segment:
    """Return one segment that says what *segments* say one after the other."""
    rows = lasting([(segment.columns.ids, segment.removed) for segment in segments])
    parts = [one.columns if left is None else one.columns.taken(left) for one, left in zip(segments, rows, strict=True)]
    columns = joined(parts)
    gone = frozenset[str]().union(*(segment.removed for segment in segments))
    return Segment(columns, gone.difference(columns.ids))


def without(segment: Segment, ids: Iterable[str]) -> Segment:
    """Return *segment* without rows of *ids*, and without a word of them."""
    dropped = frozenset(ids)
    left = [at for at, id in enumerate(segment.columns.ids) if id not in dropped]
    return Segment(segment.columns.taken(np.array(left, dtype=np.int64)), segment.removed - dropped)
