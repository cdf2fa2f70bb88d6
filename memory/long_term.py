"""Long-term memory: what was said or noted is kept, found again, corrected and forgotten.

The facade over the write path (``memory.write``), erasure (``memory.erasure``), conversation history
(``memory.history``), retrieval (``memory.retrieval``) and export and import (``memory.export_import``). Not
conversation windows (``memory.history.windows``) and not the reading of documents (``memory.documents``).

    >>> memory = LongTermMemory(open_store("numpy:"))
    >>> run_sync(memory.remember("I moved to Lisbon in May.")).outcome
    <Outcome.STORED: 'stored'>
    >>> run_sync(memory.recall("Where did I move?"))[0].memory.text
    'I moved to Lisbon in May.'
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, Unpack, get_args

from memory.codec import from_entry
from memory.embedders.protocol import Embedder, WordVectors
from memory.entry_store import EntryStore, database_for
from memory.erasure import forget
from memory.erasure.derived_data import CachedVectorEraser, RetrievalIndexEraser, SummaryEraser
from memory.erasure.grace_period import erase_due_soft_deletes, restore_soft_delete
from memory.erasure.selection import checked_selection
from memory.erasure.verify import verify_erasure
from memory.errors import ArgumentError, DuplicateKey, translating
from memory.export_import import exporter, importer
from memory.export_import.report import ExportReport, ImportMode, ImportReport
from memory.history.codec import checked_namespace
from memory.history.protocol import HistoryStorage
from memory.history.sqlite import SqliteHistory
from memory.list_query import ListFilters, ListOrder, ListQuery, collect_stats
from memory.messages import Message
from memory.models import Actor, Memory, Operation, Source, Trust
from memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from memory.pinned import PinnedMemories
from memory.results import (
    ErasureVerification,
    MemoryHistory,
    MemoryPage,
    RecallResult,
    Receipt,
    Report,
    Stats,
    WhyNot,
)
from memory.retrieval.hooks import RecallHooks
from memory.retrieval.index.index_cache import IndexCache
from memory.retrieval.query import RecallOptions
from memory.retrieval.retriever import Retriever
from memory.retrieval.scoring.settings import RecallSettings
from memory.runtime import run_in_thread
from memory.scopes import Scopes, scope_filter
from memory.tables.idempotency_keys import IdempotencyKeyEraser, IdempotencyKeys, TimeOrderedIds
from memory.tables.operation_log import OperationLog
from memory.tables.soft_deletes import SoftDeletes
from memory.tables.tombstones import Tombstones
from memory.timestamps import Clock, aware_clock, system_clock, timestamp_to_text, to_aware, utc_offset
from memory.tokens.counter import default_counter
from memory.validation import (
    checked_actor,
    checked_importance,
    checked_int,
    checked_label,
    checked_labels,
    checked_text,
    checked_trust,
)
from memory.validation import checked_text_list as checked_texts
from memory.write import corrections, crash_recovery, embedding_backfill, pipeline, reembed, turn_writer, undo
from memory.write.context import WriteContext
from memory.write.embedding_backfill import BackfillReport
from memory.write.embedding_service import EmbeddingService, EmbeddingSettings
from memory.write.policies import OnPolicyFailure, WritePolicy
from memory.write.policy_runner import PolicyRules
from memory.write.provenance import memory_versions
from memory.write.reembed import ReembeddingProgress, ReembeddingReport
from vectorstore import (
    Database,
    Filter,
    LifecycleStore,
    Metadata,
    VectorStore,
    VectorStoreError,
    lifecycle_of,
)


@translating
class Recalling:
    """What ``LongTermMemory`` finds again."""

    _retriever: Retriever

    async def recall(self, question: str, k: int = 10, **options: Unpack[RecallOptions]) -> RecallResult:
        """Find what is remembered about *question*: the *k* best memories, best first, ties by id.

        *options*: see ``RecallOptions``; an unknown one raises ``TypeError``. Without an embedder, or when it fails,
        the search is by words alone; ``RecallResult.notes`` say so, and what was done with the question.
        """
        return await self._retriever.recall(question, k, **options)

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """Explain why ``recall(question, k, **options)`` does not find the memory *id*, or at which rank it does.

        The answer names the first stage that stopped it, and its ranks by words, by vector and in the end.
        A store with data alone raises ``UnsupportedError``.
        """
        return await self._retriever.why_not(question, id, k, **options)


@translating
class Listing:
    """What ``LongTermMemory`` lists and counts: everything said or noted, disabled and expired memories too."""

    _context: WriteContext
    _pinned: PinnedMemories

    async def list(
        self,
        *,
        order: ListOrder = "id",
        after: str | None = None,
        limit: int = 100,
        namespace: str = "",
        **filters: Unpack[ListFilters],
    ) -> MemoryPage:
        """Return memories in an order that stays, *limit* at most, those behind the cursor *after*.

        *order*: "id" (of writing; those with a key of yours come last), "oldest" or "newest" first by when they
        were said, or else written; equal times by id. ``page.next`` is the cursor of the next page, None after the
        last; in order of "id" any id is one. In a file, a page reads what is on it and no more; the first one by
        time makes an index for that.
        *filters*: see ``ListFilters``.
        """
        checked_int(limit, "limit")
        selection = self._selection(filters, namespace)
        return await asyncio.to_thread(selection.page, self._context.store, order=order, after=after, limit=limit)

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """Return the pinned memories that hold now, the most important first, then the newest.

        It costs what was written since the last call, not what there is; the first call looks through the namespace.
        """
        now = to_aware(self._context.clock(), self._context.zone)
        return await asyncio.to_thread(self._pinned.standing, namespace, now)

    async def count(self, *, namespace: str = "", **filters: Unpack[ListFilters]) -> int:
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
        selected = scope_filter(scopes, checked_labels(tags, "tags"), where)
        store_namespace(namespace, CONVERSATION)
        now = to_aware(self._context.clock(), self._context.zone)
        return await asyncio.to_thread(collect_stats, self._context.store, namespace, now, selected)

    def _selection(self, filters: ListFilters, namespace: str) -> ListQuery:
        now = to_aware(self._context.clock(), self._context.zone)
        return ListQuery.of(filters, namespace, now=now, zone=self._context.zone)


@translating
class Revising:
    """What ``LongTermMemory`` does to memories that are there. Every call is an operation in the log.

    Marks (pin, disable, tag, importance, expiry) are changed in place: text, vector and validity stay, there is no
    new version, and all of *ids* are changed or none. They return None where nothing differed and nothing was done.
    An unknown id raises ``NoSuchMemory``; an *actor* that is trusted less than a memory, unless one who is trusted
    enough *approved* it, ``NotTrusted``.
    """

    _context: WriteContext

    async def correct(
        self,
        id: str,
        text: str,
        *,
        namespace: str = "",
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expect: int | None = None,
        sensitive: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Put *text* in the place of a memory's; the old version goes to the archive, the id stays.

        *sensitive* marks it, as ``Memory.sensitive`` does what is remembered; what was marked stays so.
        An unknown id raises ``NoSuchMemory``, a policy that says no ``RejectedText``. *expect*: the
        revision that is to be corrected; another one raises ``RevisionConflict``. An *actor* who is trusted less
        than the memory raises ``NotTrusted``, unless it is *approved_by* one who is trusted enough.
        """
        return await corrections.correct_memory(
            self._context,
            id,
            text,
            namespace,
            valid_from=valid_from,
            valid_to=valid_to,
            expect=expect,
            sensitive=sensitive,
            actor=actor,
            approved_by=approved_by,
        )

    async def merge(
        self,
        ids: Sequence[str],
        text: str,
        *,
        namespace: str = "",
        sensitive: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Make one memory of several: the first gets *text*, the others go to the archive and are found no more.

        It names them in ``derived_from``, and each keeps its source in the archive. The first keeps its id, place,
        speaker and time; tags are those of all, trust the least, expiry the earliest. It is marked as sensitive if one
        of them is, or if *sensitive* says so.
        """
        return await corrections.merge_memories(
            self._context, ids, text, namespace, sensitive=sensitive, actor=actor, approved_by=approved_by
        )

    async def end(
        self,
        id: str,
        valid_to: datetime | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Let a memory hold until *valid_to* only; None: without an end again. Text and vector stay."""
        return await asyncio.to_thread(
            corrections.end_memory, self._context, id, valid_to, namespace, actor=actor, approved_by=approved_by
        )

    async def pin(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Pin memories: an assistant is shown them always."""
        return await self._mark("pin", ids, lambda _: {"pinned": True}, namespace, actor, approved_by)

    async def unpin(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Unpin memories."""
        return await self._mark("unpin", ids, lambda _: {"pinned": None}, namespace, actor, approved_by)

    async def disable(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Keep memories, with all their versions, out of every answer; listing still shows them."""
        return await self._mark("disable", ids, lambda _: {"disabled": True}, namespace, actor, approved_by)

    async def enable(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Let disabled memories be found again."""
        return await self._mark("enable", ids, lambda _: {"disabled": None}, namespace, actor, approved_by)

    async def tag(
        self,
        ids: Sequence[str] | str,
        tags: Sequence[str],
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Add *tags* to those that memories have."""
        more = _required_tags(tags)

        def new(old: Metadata) -> Metadata:
            return {"tags": list(dict.fromkeys((*old.get("tags", ()), *more)))}

        return await self._mark("tag", ids, new, namespace, actor, approved_by)

    async def untag(
        self,
        ids: Sequence[str] | str,
        tags: Sequence[str],
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Take *tags* off memories; a tag that one does not have is no error."""
        off = set(_required_tags(tags))

        def new(old: Metadata) -> Metadata:
            return {"tags": [one for one in old.get("tags", ()) if one not in off] or None}

        return await self._mark("untag", ids, new, namespace, actor, approved_by)

    async def set_importance(
        self,
        ids: Sequence[str] | str,
        importance: float | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Say how much memories matter, from 0 to 1; None: nothing is said."""
        weight = checked_importance(importance, "importance")
        return await self._mark("importance", ids, lambda _: {"importance": weight}, namespace, actor, approved_by)

    async def expire(
        self,
        ids: Sequence[str] | str,
        at: datetime | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Let memories, with all their versions, be in no answer from *at* on; None lifts that.

        They are kept and listed; ``forget`` removes. A naive time is taken in the configured zone.
        """
        moment = None if at is None else to_aware(at, self._context.zone, argument="at")
        fields = {
            "expires_at": None if moment is None else timestamp_to_text(moment),
            "expires_at_offset": None if moment is None else utc_offset(moment) or None,
        }
        return await self._mark("expire", ids, lambda _: fields, namespace, actor, approved_by)

    async def undo(
        self, operation: str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation:
        """Take *operation* back, all of it, and return the operation that did; undoing that one does it again.

        What was remembered goes to the archive, what was corrected, ended or merged is as before, a mark has its old
        value. Raises ``CannotUndo``, and changes nothing, where a later operation changed the same memory (of marks:
        the same one), or where what is needed was forgotten. A forgetting with a time of grace is taken back while
        that lasts, as ``restore_soft_delete`` does; any other is final. So is an import in the place of all that was
        here; of another one the memories go, and documents, messages and log stay. What somebody decided who is
        trusted more than *actor* raises ``NotTrusted``.
        """
        id = checked_label(operation, "operation")
        return await asyncio.to_thread(self._undo, id, namespace, actor=actor, approved_by=approved_by)

    async def history(self, id: str, *, namespace: str = "") -> MemoryHistory:
        """Return all versions of a memory, newest first, and what was done to it; an unknown id raises
        ``NoSuchMemory``.
        """
        return await asyncio.to_thread(self._history, checked_label(id, "id"), namespace)

    async def operations(
        self, *, memory: str | None = None, before: str | None = None, limit: int = 100, namespace: str = ""
    ) -> Sequence[Operation]:
        """Return what was done, the newest first: of one *memory*, or from before the operation *before*."""
        if memory is not None:
            checked_label(memory, "memory")
        checked_int(limit, "limit", 1)
        log = self._context.operations
        return await asyncio.to_thread(log.list, namespace, memory=memory, before=before, limit=limit)

    def _history(self, id: str, namespace: str) -> MemoryHistory:
        versions = memory_versions(self._context, id, namespace)
        operations = self._context.operations.list(namespace, memory=id, limit=_NO_LIMIT)
        return MemoryHistory(tuple(versions), tuple(operations))

    def _undo(self, id: str, namespace: str, *, actor: Actor, approved_by: Actor | None) -> Operation:
        if id in self._context.held.of(namespace):  # forgotten, and its time of grace is not over
            return restore_soft_delete(self._context, id, namespace, actor=actor, approved_by=approved_by)
        return undo.undo_operation(self._context, id, namespace, actor=actor, approved_by=approved_by)

    async def _mark(
        self,
        kind: str,
        ids: Sequence[str] | str,
        new: Callable[[Metadata], Metadata],
        namespace: str,
        actor: Actor,
        approved_by: Actor | None,
    ) -> Operation | None:
        return await asyncio.to_thread(
            corrections.set_attributes, self._context, kind, ids, namespace, new, actor=actor, approved_by=approved_by
        )


_NO_LIMIT = 2**31


def _required_tags(tags: Sequence[str]) -> tuple[str, ...]:
    given = checked_labels(tags, "tags")
    if not given:
        raise ArgumentError("tags", tags, "at least one tag is needed")
    return given


_DUE_CHECK_INTERVAL: Final = timedelta(minutes=1)


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
    ) -> Receipt:
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

        *grace*: out of every answer at once, the bytes go when that time is over; ``restore_soft_delete`` brings it
        back until then. *remove_backups* removes the backups of this file that are recorded in it. An *actor* that is
        trusted less than one of the memories raises ``NotTrusted``, unless *approved_by* somebody who is not.
        """
        store_namespace(namespace, CONVERSATION)
        if query is not None:
            found = await self._ids_for(query, k, namespace, dry_run=dry_run)
            ids = found if ids is None else [one for one in ids if one in found]
            if not ids:
                return Receipt((), namespace=namespace, dry_run=True)
        chosen = checked_selection(
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
            forget.forget_memories,
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
    ) -> Receipt:
        """Remove everything of a namespace for good: all lanes, history, the log, caches; return a receipt.

        The ids stay as tombstones, so that an import or an ingest brings nothing of it back.
        """
        store_namespace(namespace, CONVERSATION)
        receipt = await asyncio.to_thread(
            forget.forget_namespace,
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
        checked_label(operation, "operation")
        return await asyncio.to_thread(
            restore_soft_delete, self._context, operation, namespace, actor=actor, approved_by=approved_by
        )

    async def verify_forgotten(self, receipt: Receipt, texts: Sequence[str] = ()) -> ErasureVerification:
        """Look whether what *receipt* names is gone: from every table, from free pages and from the log.

        Given the *texts* again, a child process searches the bytes of the memory's files, and of the copies that the
        receipt names, for them. What is found is named by place, never by its words.
        """
        if not isinstance(receipt, Receipt):
            raise ArgumentError("receipt", receipt, "what forget returned is needed (read_receipt reads one)")
        return await asyncio.to_thread(verify_erasure, self._context, receipt, checked_texts(texts, "texts"))

    def erase_due(self) -> int:
        """Let the bytes go of every forgetting whose time of grace is over; return how many. Opening does it."""
        self._looked_at = self._now()
        done = erase_due_soft_deletes(self._context)
        self._next_due = self._context.held.next_due()
        return done

    def _now(self) -> datetime:
        return to_aware(self._context.clock(), self._context.zone)

    def _something_is_due(self) -> bool:
        """Whether something known here is due, or it is time to look for what another process put aside."""
        now = self._now()
        if self._next_due is not None and self._next_due <= now:
            return True
        return self._looked_at is None or not timedelta(0) <= now - self._looked_at < _DUE_CHECK_INTERVAL

    async def _ids_for(self, query: str, k: int, namespace: str, *, dry_run: bool) -> list[str]:
        if not checked_text(query, "query").strip():
            raise ArgumentError("query", query, "a question that is not blank is needed")
        checked_int(k, "k", 1)
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


@translating
class Moving:
    """What ``LongTermMemory`` writes out and takes in."""

    _context: WriteContext

    async def export(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "",
        vectors: bool = True,
        where: Filter | None = None,
        scopes: Scopes | None = None,
        tags: Sequence[str] = (),
        actor: Actor = "user",
        on_progress: Callable[[int], object] | None = None,
    ) -> ExportReport:
        """Write all of a namespace to *path* (JSON Lines, mode 0600), where nothing may be; whole or not at all.

        Memories, passages, earlier versions, conversation history, the log, documents and the ids of what was
        forgotten, of one state of the file. The same memory always gives the same bytes. *where*, *scopes* and *tags*
        limit it to some memories with what belongs to them. That it was made is recorded, and named by every later
        ``forget``. *on_progress* gets the number of items written so far.
        """
        store_namespace(namespace, CONVERSATION)
        return await asyncio.to_thread(
            exporter.export_namespace,
            self._context,
            path,
            namespace,
            vectors=vectors,
            where=where,
            scopes=scopes,
            tags=tags,
            actor=actor,
            on_progress=on_progress,
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        *,
        mode: ImportMode = "merge",
        namespace: str = "",
        trust: Trust | str | None = None,
        dry_run: bool = False,
        actor: Actor = "user",
        on_progress: Callable[[int, int], object] | None = None,
    ) -> ImportReport:
        """Take the export at *path* in; return what became of every item.

        *mode*: "merge" adds what is not here, "upsert" also corrects what is here otherwise (the old version goes to
        the archive); both write in batches, and importing again takes the rest and nothing twice. "replace" puts the
        file in the place of all that is here, in one transaction. Policies decide as for ``remember``. What was
        forgotten here stays so. Vectors are taken where they are of this memory's space; the others are made later.

        *trust* is the most that anything in the file can have. Without it, a file that this memory recorded as its
        own export is believed; of any other, memories are trusted as a document, and history, log and tombstones are
        left out. Nothing in it is trusted more than *actor*, who may not "replace" what is (``NotTrusted``). A file
        that is broken, cut, edited or of a newer version raises ``UnreadableExport`` with its line.
        """
        store_namespace(namespace, CONVERSATION)
        checked_actor(actor, "actor")
        if mode not in get_args(ImportMode):
            raise ArgumentError("mode", mode, f"one of {', '.join(get_args(ImportMode))} is needed")
        return await importer.import_file(
            self._context,
            Path(os.fsdecode(path)),
            namespace,
            mode=mode,
            trust=None if trust is None else checked_trust(trust, "trust"),
            dry_run=dry_run,
            actor=actor,
            on_progress=on_progress,
        )


_STORE_PATIENCE = 15.0
"""Seconds that a write without its vector may take: a little more than another process may hold the file."""


async def finish_writes(context: WriteContext, wait: float) -> None:
    """Wait at most *wait* seconds for vectors, those that are pending included; then for what is being stored."""
    end = time.monotonic() + wait
    flushing = None
    if wait > 0:
        await _wait_for_writes(context, wait)
        if context.embedding.embedder is not None:
            flushing = asyncio.ensure_future(embedding_backfill.embed_pending_quietly(context, None))
            await asyncio.wait({flushing}, timeout=max(end - time.monotonic(), 0))
    context.under_way.hurry()
    if flushing is not None:
        await asyncio.gather(flushing, return_exceptions=True)  # what is not embedded stays pending
    await _wait_for_writes(context, _STORE_PATIENCE)


async def _wait_for_writes(context: WriteContext, seconds: float) -> None:
    """Wait until nothing is being stored, in a thread of its own: those of the event loop may all be needed for that,
    and cancelled it would keep the loop from ending."""
    await run_in_thread(partial(context.under_way.wait, seconds), name="tellback-closing")


@translating
class Reembedding:
    """What ``LongTermMemory`` does about vectors."""

    _context: WriteContext

    @property
    def embedder(self) -> Embedder | None:
        """What embeds texts and questions; another one after ``reembed``."""
        return self._context.embedding.embedder

    async def pending(self, *, namespace: str | None = None) -> int:
        """Return how many entries wait for their vector, documents included (None: of all namespaces)."""
        chosen = None if namespace is None else checked_namespace(namespace)
        return await asyncio.to_thread(embedding_backfill.count_pending, self._context, chosen)

    async def flush(self, *, namespace: str | None = None) -> BackfillReport:
        """Embed what is pending; say how many got their vector, and of which it holds only the beginning.

        It stops when the embedder fails (``embedding.problem`` says why); a text that it refuses, or always fails at,
        is passed over and stays pending, and has a line that says why.
        """
        return await embedding_backfill.embed_pending(
            self._context, None if namespace is None else checked_namespace(namespace)
        )

    async def reembed(
        self,
        embedder: Embedder | None = None,
        *,
        switch: bool = True,
        again: bool = False,
        on_progress: Callable[[ReembeddingProgress], None] | None = None,
    ) -> ReembeddingReport:
        """Give everything, in every namespace, a vector of *embedder* (None: the memory's own), and go on with it.

        The vectors in use serve until all are made; then it is switched in one step, and ``embedder`` is the new one.
        Stopped at any moment, by an error, a kill or a cancellation, the same call goes on where it was. With *switch*
        off it fills and leaves the switch to a later call. A memory that has the vectors of this very model already
        is left as it is, and only what is pending embedded; *again* makes them anew all the same.

        An embedder that fails raises what it raised, one that answers nonsense ``EmbedderError``; while another
        embedder's vectors are being filled in, ``SpaceNotReady`` (``abandon_reembedding`` ends that); a store with data
        alone, ``UnsupportedError``.
        """
        return await reembed.reembed_store(self._context, embedder, switch=switch, again=again, on_progress=on_progress)

    async def abandon_reembedding(self) -> bool:
        """Drop what was filled in and stay with the vectors in use; return whether anything was begun."""
        return await asyncio.to_thread(reembed.abandon_migration, self._context)

    async def reembedding(self) -> ReembeddingProgress | None:
        """Return how far an embedding anew is that was begun and not ended, here or elsewhere; None without one."""
        return await asyncio.to_thread(reembed.migration_progress, self._context)

    async def close(self, *, wait: float = 0.0) -> None:
        """Release the store, when what is being written is stored.

        Embedders are waited for *wait* seconds at the most, for what is pending too; what has no vector then stays
        pending, and is embedded when the memory is open again. Writing after this raises ``StoreClosed``.
        """
        usable = not isinstance(wait, bool) and isinstance(wait, (int, float)) and math.isfinite(wait) and wait >= 0
        if not usable:
            raise ArgumentError("wait", wait, "a number of seconds, at least 0, is needed")
        await finish_writes(self._context, float(wait))
        await asyncio.to_thread(self._context.embedding.close)
        await asyncio.to_thread(self._context.store.close)


_OptionalMemories: TypeAlias = list[Memory | None]


@translating
class LongTermMemory(Recalling, Listing, Revising, Erasing, Moving, Reembedding):
    """Everything that is remembered, in one store. Any task and thread may call; store work runs in a thread.

    A call that writes and is cancelled may or may not have written: repeat it with a ``key``, or look.

    History, tombstones and the operation log are tables in the database of the store (and in its transactions); a store
    that has none gets one in the process. Public attributes, for parts built on it: ``store``, ``database``,
    ``conversations`` (the
    history), ``embedder``, ``word_vectors``, ``embedding`` (``await embedding.vectors(texts)`` never fails
    a write), ``tombstones`` (``tombstones.key``: the secret of this file), ``clock``, ``zone``, ``policies``,
    ``recall_settings``;
    ``index_cache`` (the cached retrieval indexes; None on a store without a database);
    ``erasers`` and ``carried``, to which a part that keeps something of memories adds itself.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        database: Database | None = None,
        embedder: Embedder | None = None,
        word_vectors: WordVectors | None = None,
        history: HistoryStorage | None = None,
        policies: Sequence[WritePolicy] = (),
        on_policy_failure: OnPolicyFailure = "store",
        clock: Clock = system_clock,
        ids: Callable[[], str] | None = None,
        operation_ids: Callable[[], str] | None = None,
        zone: tzinfo | None = None,
        recall_settings: RecallSettings | None = None,
        embedding_settings: EmbeddingSettings | None = None,
        hooks: RecallHooks | None = None,
        counter: Callable[[str], int] | None = None,
        offline: bool = False,
    ) -> None:
        """*database* has the tables of a store that has none itself; None is one in the memory of the process.

        *counter* counts tokens for budgets; None is the default one, kept off the network by *offline*.

        *hooks* are those of each recall that brings none. *on_policy_failure* says what becomes of a memory that a
        write policy fails on: "store" keeps it as it was, "reject" leaves it out (what was said is in history anyway).
        """
        aware = aware_clock(clock, zone)
        lasting = lifecycle_of(store)
        if history is not None and not isinstance(history, SqliteHistory):
            raise ArgumentError("history", history, "an InMemoryHistory or a SqliteHistory is needed")
        self.database = database_for(store, database)
        conversations = history or SqliteHistory(self.database, clock=aware)
        tombstones = _open_tombstones(self.database)
        keys = IdempotencyKeys(self.database, tombstones.key)
        self.store = store
        self.word_vectors = word_vectors
        self.embedding = EmbeddingService(store, embedder, database=self.database, settings=embedding_settings)
        self.conversations: HistoryStorage = conversations
        self.tombstones = tombstones
        self.clock = clock
        self.zone = zone
        rules = PolicyRules(tuple(policies), on_policy_failure)
        self.policies, self.on_policy_failure = rules.policies, rules.on_failure
        self.recall_settings = recall_settings or RecallSettings()
        # The services that take the place of the context are made here, each with what it uses:
        #   entries = EntryStore(store, conversations.rows)
        #   MemoryWriter(entries, log, keys, tombstones, embedding, rules, clock=, ids=, zone=)
        #   MemoryEraser(entries, log, keys, tombstones, soft_deletes, embedding, erasers, clock=, zone=)
        #   ExportImport(entries, log, keys, tombstones, embedding, rules, writer, erasers, carried, clock=, zone=)
        # ``entries.rows`` is the history, ``log.record`` stamps id and time, ``Caller`` is who acts in which namespace.
        self._context = WriteContext(
            entries=EntryStore(store, conversations.rows),
            tombstones=tombstones,
            operations=OperationLog(self.database, clock=aware, ids=operation_ids),
            embedding=self.embedding,
            rules=rules,
            clock=aware,
            ids=ids or TimeOrderedIds(clock=aware),
            zone=zone,
            held=SoftDeletes(self.database),
            keys=keys,
            erasers=[SummaryEraser(conversations.rows), CachedVectorEraser(self.embedding), IdempotencyKeyEraser(keys)],
        )
        self.erasers, self.carried = self._context.erasers, self._context.carried
        self._next_due = self._context.held.next_due()
        self._pinned = PinnedMemories(store)
        self.index_cache = _open_index_cache(lasting)
        if self.index_cache is not None:
            self._context.erasers.append(RetrievalIndexEraser(self.index_cache))
        self._retriever = Retriever(
            store,
            self.embedding,
            word_vectors=word_vectors,
            settings=self.recall_settings,
            hooks=hooks,
            index_cache=self.index_cache,
            clock=clock,
            zone=zone,
            counter=counter or default_counter(offline=offline).count,
        )
        self._caught_up: set[str] = set()

    async def remember(self, item: str | Memory, *, namespace: str = "") -> Report:
        """Keep one memory and say what became of it.

        The same key with the same text is a duplicate; with another text ``DuplicateKey`` is raised and
        nothing is overwritten. An embedder that fails does not fail the write: the report says what is
        deferred.
        """
        store_namespace(namespace, CONVERSATION)
        (line,) = await pipeline.remember_batch(self._context, [item], namespace, ["item"])
        if isinstance(line, DuplicateKey):
            raise line
        await self._catch_up([line], namespace)
        return line

    async def remember_many(
        self,
        items: Iterable[str | Memory],
        *,
        namespace: str = "",
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Report]:
        """Keep many, a report for each, in order; a batch of 256 is embedded together and is one transaction.

        Of a list, the next batch is embedded while one is stored; another iterable is not read ahead. The
        same as ``remember`` on each, but that a key used with another text is a line (rejected) and raises nothing.
        A bad item raises before its batch is written. ``on_progress`` gets the number done so far.
        """
        store_namespace(namespace, CONVERSATION)
        reports = await pipeline.remember_stream(self._context, items, namespace, on_progress)
        await self._catch_up(reports, namespace)
        return reports

    async def remember_turn(
        self, session: str, messages: Sequence[Message], *, namespace: str = "", used: Sequence[str] = ()
    ) -> list[Report]:
        """Append *messages* to the history of *session* and remember what was said, in one transaction.

        One report a message, in order; system messages, and those without text or media, are kept in history only
        (rejected, with the reason). What a tool answered is remembered below what it was asked, with a tool's trust;
        calls named in the metadata's "recalled" are not. *used*: ids of the memories that an answer was made with; they
        are named when one is forgotten. An answer whose metadata has "quotes" (ids of memories) stays in history only
        and is forgotten with what it quotes.
        """
        store_namespace(namespace, CONVERSATION)
        reports = await turn_writer.remember_turn(self._context, session, messages, namespace, used)
        await self._catch_up(reports, namespace)
        return reports

    async def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Memory | None]:
        """Return memories, document passages and archived versions ("id@revision") in the order of *ids*."""
        return await asyncio.to_thread(self._get, checked_labels(ids, "ids"), namespace)

    async def complete(self) -> int:
        """Remember what history holds and memory lacks, what was forgotten apart; return how many."""
        return await asyncio.to_thread(self.complete_now)

    def complete_now(self) -> int:
        """As ``complete``, in this thread; ``open_memory`` runs it. What is due to be erased is erased, too."""
        self.erase_due()
        return crash_recovery.recover_memories(self._context)

    async def __aenter__(self) -> LongTermMemory:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _found_for(self, query: str, k: int, namespace: str) -> list[str]:
        return [hit.memory.id for hit in await self.recall(query, k, namespace=namespace)]

    def _get(self, ids: Sequence[str], namespace: str) -> _OptionalMemories:
        found = {one: entry for one, (_, entry) in self._context.find(ids, namespace).items()}
        if old := [one for one in ids if one not in found and "@" in one]:
            archived = self.store.get(old, namespace=store_namespace(namespace, ARCHIVE))
            found.update({entry.id: entry for entry in archived if entry is not None})
        return [from_entry(found[one]) if one in found else None for one in ids]

    async def _catch_up(self, reports: Sequence[Report], namespace: str) -> None:
        """After a write that was embedded: a batch of what is pending, since the embedder works (again)."""
        if self._something_is_due():
            await self._see_what_is_due()
        if self.embedder is None or any(report.deferred for report in reports):
            self._caught_up.discard(namespace)
        elif namespace not in self._caught_up:
            try:
                filled = await embedding_backfill.embed_pending_quietly(
                    self._context, namespace, limit=embedding_backfill.BACKFILL_BATCH, patient=False
                )
            except VectorStoreError:  # the write itself is done and must not seem failed; this is tried again
                return
            if not filled:
                self._caught_up.add(namespace)


def _open_tombstones(database: Database) -> Tombstones:
    """Return the tombstones; in the memory of the process their key is zeros: ids of a snapshot must stay the same."""
    from vectorstore.sqlite import InMemoryDatabase

    return Tombstones(database, token=bytes if isinstance(database, InMemoryDatabase) else os.urandom)


def _open_index_cache(store: LifecycleStore | None) -> IndexCache | None:
    """Return the cache of retrieval indexes in the store's database, None without one."""
    database = None if store is None else store.database
    if store is None or database is None or database.path is None:
        return None
    return IndexCache(database, lambda since: store.changes(since, namespace=since.namespace))
