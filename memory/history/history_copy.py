"""Copy of one namespace of a history of one's own, for the parts of a memory that read messages inside a transaction.

Forgetting plans over the copy and erases from it; what went from the copy is then deleted in the history. A process
that ends in between leaves tombstones of the messages, by which the next copy finds them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tellback.memory.history.protocol import HistoryRow, HistoryStorage
from tellback.memory.history.rows import HistoryRows


@dataclass(frozen=True, slots=True)
class HistoryCopy:
    """The messages that *storage* had in *namespace*, as *rows* of a database in the memory of the process."""

    storage: HistoryStorage
    namespace: str
    rows: HistoryRows
    messages: tuple[HistoryRow, ...]

    @classmethod
    async def of(cls, storage: HistoryStorage, namespace: str) -> HistoryCopy:
        """Return a copy of what *storage* has in *namespace* now."""
        from tellback.vectorstore.sqlite import InMemoryDatabase

        messages = [
            HistoryRow(namespace, info.session, stored.sequence, stored.message, stored.at, stored.memory or "")
            for info in await storage.sessions(namespace=namespace)
            for stored in await storage.load(info.session, namespace=namespace)
        ]
        rows = HistoryRows(InMemoryDatabase())
        await asyncio.to_thread(rows.place, messages)
        return cls(storage, namespace, rows, tuple(messages))

    async def delete_erased(self) -> None:
        """Delete from the storage what was erased from the copy."""
        kept = await asyncio.to_thread(lambda: {_place(row) for row in self.rows.kept(namespace=self.namespace)})
        erased: dict[str, list[int]] = {}
        for row in self.messages:
            if _place(row) not in kept:
                erased.setdefault(row.session, []).append(row.sequence)
        for session, sequences in erased.items():
            await self.storage.delete(session, sequences, namespace=self.namespace)


def _place(row: HistoryRow) -> tuple[str, int]:
    return row.session, row.sequence
