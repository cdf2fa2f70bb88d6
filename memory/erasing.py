"""The part of long-term memory's face that removes for good, and proves it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from memory.erasure import forgetting
from memory.erasure.grace import carry_out, restore_forgotten
from memory.erasure.selecting import selection
from memory.erasure.verifying import verify
from memory.errors import ArgumentError, translating
from memory.lanes import CONVERSATION, store_namespace
from memory.records import Actor, Forgotten, Operation, Source, Verified
from memory.scopes import Scopes
from memory.times import aware
from memory.write.checking import name, plain_text, whole
from memory.write.checking import texts as checked_texts
from memory.write.context import WriteContext
from vectorstore import Filter, VectorStoreError

_LOOK_AGAIN: Final = timedelta(minutes=1)


@translating
class Erasing:
    """What ``LongTermMemory`` takes off the disk."""

    _context: WriteContext
    _next_due: datetime | None
    _looked_at: datetime | None = None

    async def forget(
        self,
        ids: Sequence[str] | None = None,
        *,
        source: str | Source | None = None,
        session: str | None = None,
        document: str | None = None,
        where: Filter | None = None,
        scopes: Scopes | None = None,
        tags: Sequence[str] = (),
        older_than: datetime | timedelta | None = None,
        query: str | None = None,
        k: int = 10,
        namespace: str = "",
        dry_run: bool = False,
        grace: timedelta | None = None,
        remove_backups: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Forgotten:
        """Remove memories for good; return a receipt of ids, counts and keyed hashes.

        All that is named must hold: *ids*; a *source* (a session, a document or a ``Source``); a *session* or a
        *document*; *where*; every one of *scopes*; any of *tags*; *older_than* a time, or a length of time (said, or
        else recorded, before it; passages of documents only where their document is named). A stretch of
        conversation takes its messages too, also those of which nothing was remembered. Naming nothing raises
        ``ArgumentError``. *query* is for looking only: with *dry_run*, the receipt lists the *k* memories that
        ``recall`` finds for it; forget those of its ids that are meant.

        With each memory go its versions, what was derived from it alone, the message it comes from, and every memory,
        passage and message that holds its words verbatim. *dry_run* lists all that and changes nothing. An unknown id
        raises ``NoSuchMemory``, one forgotten before is passed over.

        *grace*: out of every answer at once, the bytes go when that time is over; ``restore_forgotten`` brings it
        back until then. *remove_backups* removes the backups of this file that are recorded in it. An *actor* that is
        trusted less than one of the memories raises ``NotTrusted``, unless *approved_by* somebody who is not.
        """
        store_namespace(namespace, CONVERSATION)
        if query is not None:
            found = await self._ids_for(query, k, namespace, dry_run=dry_run)
            ids = found if ids is None else [one for one in ids if one in found]
            if not ids:
                return Forgotten((), namespace=namespace, dry_run=True)
        chosen = selection(
            self._context,
            ids=ids,
            source=source,
            session=session,
            document=document,
            where=where,
            scopes=scopes,
            tags=tags,
            older_than=older_than,
        )
        receipt = await asyncio.to_thread(
            forgetting.forget,
            self._context,
            chosen,
            namespace,
            dry_run=dry_run,
            actor=actor,
            approved_by=approved_by,
            grace=grace,
            remove_backups=remove_backups,
        )
        await self._see_what_is_due()
        return receipt

    async def forget_namespace(
        self,
        namespace: str,
        *,
        dry_run: bool = False,
        remove_backups: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Forgotten:
        """Remove everything of a namespace for good: all lanes, history, the log, caches; return a receipt.

        The ids stay as tombstones, so that an import or an ingest brings nothing of it back.
        """
        store_namespace(namespace, CONVERSATION)
        receipt = await asyncio.to_thread(
            forgetting.forget_namespace,
            self._context,
            namespace,
            dry_run=dry_run,
            actor=actor,
            approved_by=approved_by,
            remove_backups=remove_backups,
        )
        await self._see_what_is_due()
        return receipt

    async def restore_forgotten(
        self, operation: str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation:
        """Take back a forgetting within its time of grace (``receipt.operation``); return what did so.

        ``ArgumentError`` says that the bytes are gone, or that something else has one of the ids by now; ``NotTrusted``
        that it was forgotten by somebody who is trusted more than *actor*.
        """
        name(operation, "operation")
        return await asyncio.to_thread(
            restore_forgotten, self._context, operation, namespace, actor=actor, approved_by=approved_by
        )

    async def verify_forgotten(self, receipt: Forgotten, texts: Sequence[str] = ()) -> Verified:
        """Look whether what *receipt* names is gone: from every table, from free pages and from the log.

        Given the *texts* again, a child process searches the bytes of the memory's files, and of the copies that the
        receipt names, for them. What is found is named by place, never by its words.
        """
        if not isinstance(receipt, Forgotten):
            raise ArgumentError("receipt", receipt, "what forget returned is needed (read_receipt reads one)")
        return await asyncio.to_thread(verify, self._context, receipt, checked_texts(texts, "texts"))

    def erase_due(self) -> int:
        """Let the bytes go of every forgetting whose time of grace is over; return how many. Opening does it."""
        self._looked_at = self._now()
        done = carry_out(self._context)
        self._next_due = self._context.held.next_due()
        return done

    def _now(self) -> datetime:
        return aware(self._context.clock(), self._context.zone)

    def _something_is_due(self) -> bool:
        """Whether something known here is due, or it is time to look for what another process put aside."""
        now = self._now()
        if self._next_due is not None and self._next_due <= now:
            return True
        return self._looked_at is None or not timedelta(0) <= now - self._looked_at < _LOOK_AGAIN

    async def _ids_for(self, query: str, k: int, namespace: str, *, dry_run: bool) -> list[str]:
        if not plain_text(query, "query").strip():
            raise ArgumentError("query", query, "a question that is not blank is needed")
        whole(k, "k", 1)
        if not dry_run:
            expected = "with dry_run=True it lists what it finds; then forget those of the ids that are meant"
            raise ArgumentError("query", query, expected)
        return await self._found_for(query, k, namespace)

    async def _found_for(self, query: str, k: int, namespace: str) -> list[str]:
        """Return the ids of what recall finds; the class that recalls says how."""
        raise NotImplementedError

    async def _see_what_is_due(self) -> None:
        """Let go of what is due. What was asked for is done and must not seem to have failed; this is tried again."""
        with suppress(VectorStoreError):
            await asyncio.to_thread(self.erase_due)
