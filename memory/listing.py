"""The part of long-term memory's face that looks through what is kept, without a question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from memory.errors import translating
from memory.lanes import CONVERSATION, store_namespace
from memory.listed import Page, Stats
from memory.pinned import Pinned
from memory.records import Memory
from memory.scopes import Scopes, filter_of
from memory.selecting import Filters, Order, Selection
from memory.tallying import tally
from memory.times import aware
from memory.write.checking import names, whole
from memory.write.context import WriteContext
from vectorstore import Filter


@translating
class Listing:
    """What ``LongTermMemory`` lists and counts: everything said or noted, disabled and expired memories too."""

    _context: WriteContext
    _pinned: Pinned

    async def list(
        self,
        *,
        order: Order = "id",
        after: str | None = None,
        limit: int = 100,
        namespace: str = "",
        **filters: Unpack[Filters],
    ) -> Page:
        """Return memories in an order that stays, *limit* at most, those behind the cursor *after*.

        *order*: "id" (of writing; those with a key of yours come last), "oldest" or "newest" first by when they
        were said, or else written; equal times by id. ``page.next`` is the cursor of the next page, None after the
        last; in order of "id" any id is one. In a file, a page reads what is on it and no more; the first one by
        time makes an index for that.
        *filters*: see ``Filters``.
        """
        whole(limit, "limit")
        selection = self._selection(filters, namespace)
        return await asyncio.to_thread(selection.page, self._context.store, order=order, after=after, limit=limit)

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """Return the pinned memories that hold now, the most important first, then the newest.

        It costs what was written since the last call, not what there is; the first call looks through the namespace.
        """
        now = aware(self._context.clock(), self._context.zone)
        return await asyncio.to_thread(self._pinned.standing, namespace, now)

    async def count(self, *, namespace: str = "", **filters: Unpack[Filters]) -> int:
        """Return how many memories there are (that *filters* select)."""
        return await asyncio.to_thread(self._selection(filters, namespace).count, self._context.store)

    async def stats(
        self,
        *,
        namespace: str = "",
        scopes: Scopes | None = None,
        tags: Sequence[str] = (),
        where: Filter | None = None,
    ) -> Stats:
        """Return what the namespace holds, in counts and times; exact, and of it alone.

        *scopes*, *tags* and *where* as in ``recall``: then only what they select is counted, in every lane.
        """
        selected = filter_of(scopes, names(tags, "tags"), where)
        store_namespace(namespace, CONVERSATION)
        now = aware(self._context.clock(), self._context.zone)
        return await asyncio.to_thread(tally, self._context.store, namespace, now, selected)

    def _selection(self, filters: Filters, namespace: str) -> Selection:
        now = aware(self._context.clock(), self._context.zone)
        return Selection.of(filters, namespace, now=now, zone=self._context.zone)
