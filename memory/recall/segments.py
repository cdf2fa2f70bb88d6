"""What recall derived, kept in pieces: what a piece says, which of several pieces says it last, and who keeps them.

A namespace's pieces together are its derived rows at one place of its change log; what came later is derived from the
entries. So they may be late, or missing, and are never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from memory.recall.columns import Columns, joined


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that came or were replaced, and ids that went; it overrules the segments before it."""

    columns: Columns
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Kept:
    """All rows of a namespace at *position* of its change log, no two of one id."""

    position: int
    parts: tuple[Columns, ...]


class Segments(Protocol):
    """Keeps segments; each call stands alone. *basis* says what derived them: what another derived is nothing."""

    def load(self, namespace: str, basis: str) -> Kept | None:
        """Return what is kept of a namespace; None where it is nothing, or damaged."""
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

        Not where somebody else writes, where the file can only be read, or where *unchanged*, asked inside the
        transaction, says no: what was erased meanwhile must not come back.
        """
        ...


def latest(segments: Sequence[Segment]) -> list[Columns]:
    """Return the rows that *segments* leave, those that stayed the same and in the same pieces."""
    found: list[Columns] = []
    seen: set[str] = set()
    for segment in reversed(segments):
        ids = segment.columns.ids
        if not seen.isdisjoint(ids):
            left = [at for at, id in enumerate(ids) if id not in seen]
            found.append(segment.columns.taken(np.array(left, dtype=np.int64)))
        else:
            found.append(segment.columns)
        seen.update(ids, segment.removed)
    return [columns for columns in reversed(found) if len(columns)]


def merged(segments: Sequence[Segment]) -> Segment:
    """Return one segment that says what *segments* say one after the other."""
    columns = joined(latest(segments))
    gone = frozenset[str]().union(*(segment.removed for segment in segments))
    return Segment(columns, gone.difference(columns.ids))


def without(segment: Segment, ids: Iterable[str]) -> Segment:
    """Return *segment* without rows of *ids*, and without a word of them."""
    dropped = frozenset(ids)
    left = [at for at, id in enumerate(segment.columns.ids) if id not in dropped]
    return Segment(segment.columns.taken(np.array(left, dtype=np.int64)), segment.removed - dropped)
