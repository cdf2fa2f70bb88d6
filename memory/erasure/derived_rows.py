"""What recall derived of memories and keeps in the file goes with them: an eraser."""

from __future__ import annotations

from memory.forgotten.erasers import Gone
from memory.lanes import prefix_of
from memory.recall.segment_tables import SqliteSegments


class DerivedRows:
    """Removes the rows that recall derived of what is gone, and of whatever else is no more."""

    name = "derived rows"

    def __init__(self, segments: SqliteSegments) -> None:
        self._segments = segments

    def erase(self, gone: Gone) -> int:
        """As ``Eraser`` says."""
        prefix = prefix_of(gone.namespace)
        if gone.everything:
            return self._segments.clear(prefix)
        return self._segments.let_go(self._segments.names(prefix))
