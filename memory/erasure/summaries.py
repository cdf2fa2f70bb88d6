"""Summaries of conversations, let go with what they tell of: an eraser of forgetting.

Those made of messages that are there go with the messages; these are of messages that a retention took before.
"""

from __future__ import annotations

from memory.erasure.copies import Words
from memory.forgotten.erasers import Gone
from memory.storage.rows import HistoryRows


class SummaryEraser:
    """The summaries beside the *rows* of a history. They can be made again, so none comes back."""

    name = "summaries"

    def __init__(self, rows: HistoryRows) -> None:
        self._rows = rows

    def erase(self, gone: Gone) -> int:
        """As ``Eraser`` says."""
        memories = [id for ids in gone.entries.values() for id in ids]
        return self._rows.erase_summaries(memories, Words(gone.texts).held_by, namespace=gone.namespace)
