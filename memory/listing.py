"""The part of long-term memory's face that looks through what is kept, without a question."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TypeAlias

from memory.codec import from_entry
from memory.lanes import CONVERSATION, store_namespace
from memory.records import Memory
from memory.write.checking import whole
from memory.write.context import WriteContext
from vectorstore import Filter

_Memories: TypeAlias = list[Memory]


class Listing:
    """What ``LongTermMemory`` lists and counts."""

    _context: WriteContext

    async def list(
        self, *, where: Filter | None = None, after: str | None = None, limit: int = 100, namespace: str = ""
    ) -> _Memories:
        """Return memories of the conversation lane in order of id, those after the id *after*."""
        whole(limit, "limit")
        return await asyncio.to_thread(self._page, where, after, limit, store_namespace(namespace, CONVERSATION))

    async def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """Return how many memories the conversation lane holds (that match)."""
        lane = store_namespace(namespace, CONVERSATION)
        return await asyncio.to_thread(self._context.store.count, where=where, namespace=lane)

    def _page(self, where: Filter | None, after: str | None, limit: int, lane: str) -> _Memories:
        return [
            from_entry(entry)
            for entry in islice(self._context.store.scan(where=where, namespace=lane, after=after), limit)
        ]
