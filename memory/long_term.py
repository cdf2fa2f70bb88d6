"""Long-term memory: what was said or noted is kept, found again, corrected and forgotten.

``LongTermMemory`` is composed of services, each constructed with what it uses: the write path
(``tellback.memory.write``), erasure (``tellback.memory.erasure``), retrieval (``tellback.memory.retrieval``), export
and import (``tellback.memory.export_import``) and conversation history (``tellback.memory.history``). Context windows
are in ``tellback.memory.history.windows``, documents in ``tellback.memory.documents``. The file is long because the
public class stands whole in it, with the documentation of each call.

    >>> memory = LongTermMemory(open_store("numpy:"))
    >>> run_sync(memory.remember("I moved to Lisbon in May.")).outcome
    <Outcome.STORED: 'stored'>
    >>> run_sync(memory.recall("Where did I move?"))[0].memory.text
    'I moved to Lisbon in May.'
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import cached_property, partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, TypeAlias, TypedDict, Unpack, get_args

from tellback.memory.codec import from_entry
from tellback.memory.embedders.protocol import Embedder, WordVectors
from tellback.memory.entry_store import EntryStore, database_for
from tellback.memory.erasure.derived_data import CachedVectorEraser, RetrievalIndexEraser, SummaryEraser
from tellback.memory.errors import ArgumentError, translating
from tellback.memory.history.codec import checked_namespace
from tellback.memory.history.database import DatabaseHistory
from tellback.memory.history.history_copy import HistoryCopy
from tellback.memory.history.protocol import HistoryStorage, checked_history
from tellback.memory.history.rows import HistoryRows
from tellback.memory.models import AboutAuthor, Actor, Memory, Operation, Trust
from tellback.memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from tellback.memory.results import (
    NEWEST,
    Conflict,
    ErasureVerification,
    ExternalCopy,
    KnownPerson,
    MemoryHistory,
    MemoryPage,
    Profile,
    RecallResult,
    Receipt,
    Report,
    Stats,
    WhyNot,
)
from tellback.memory.retrieval.hooks import RecallHooks
from tellback.memory.retrieval.index.index_cache import IndexCache
from tellback.memory.retrieval.query import RecallOptions
from tellback.memory.retrieval.retriever import NEAR_BEST_SHARE, Retriever
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.memory.scopes import Scopes, scope_filter
from tellback.memory.selectors import ForgetSelectors, ListFilters
from tellback.memory.tables.erasers import Eraser, ExportedPart
from tellback.memory.tables.given_log import GivenLog
from tellback.memory.tables.idempotency_keys import IdempotencyKeys, TimeOrderedIds
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.tables.soft_deletes import SoftDeletes
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.timestamps import Clock, aware_clock, system_clock, timestamp_to_text, to_aware, utc_offset
from tellback.memory.tokens.counter import TextMeasure
from tellback.memory.validation import (
    checked_importance,
    checked_int,
    checked_label,
    checked_labels,
    checked_seconds,
    checked_text_list,
    checked_trust,
)
from tellback.memory.write.access_control import Caller, CallerOptions
from tellback.memory.write.embedding_service import EmbeddingService, EmbeddingSettings
from tellback.memory.write.policies.base import OnPolicyFailure, WritePolicy
from tellback.memory.write.policy_runner import PolicyRules, redacted_text, redaction_policies
from tellback.vectorstore import (
    Analyzer,
    Database,
    FileDatabase,
    Filter,
    LifecycleStore,
    Metadata,
    UnsupportedError,
    VectorStore,
    VectorStoreError,
    lifecycle_of,
    missing_operations,
)

if TYPE_CHECKING:
    from tellback.memory.backups import BackupFile
    from tellback.memory.erasure.memory_eraser import MemoryEraser
    from tellback.memory.export_import.exporter import Exporter
    from tellback.memory.export_import.importer import Importer
    from tellback.memory.export_import.report import ExportReport, ImportMode, ImportReport
    from tellback.memory.list_query import ListOrder, ListQuery
    from tellback.memory.messages import Message
    from tellback.memory.pinned import PinnedMemories
    from tellback.memory.write.attributes import Attributes
    from tellback.memory.write.corrections import Corrections
    from tellback.memory.write.crash_recovery import CrashRecovery
    from tellback.memory.write.descriptions import Descriptions
    from tellback.memory.write.embedding_backfill import BackfillReport, EmbeddingBackfill
    from tellback.memory.write.memory_writer import MemoryWriter
    from tellback.memory.write.pipeline import WritePipeline
    from tellback.memory.write.reembed import Reembedding, ReembeddingProgress, ReembeddingReport
    from tellback.memory.write.settlement import Settlement
    from tellback.memory.write.undo import Undo
    from tellback.vectorstore.sqlite import CopyProgress

_log = logging.getLogger(__name__)
_NO_LIMIT = 2**31
_OptionalMemories: TypeAlias = list[Memory | None]


class MemoryParts(TypedDict, total=False):
    """Parts of a memory that a program may replace; those that are not given are the usual ones.

    *policies* decide what is kept; *on_policy_failure* says what becomes of a memory that one of them fails on:
    "store" keeps it as it was, "reject" leaves it out (what was said is in history anyway). *clock* gives the time,
    *zone* is that of naive times, *ids* gives new memories their ids. *hooks* are used by each recall that has
    none. *counter* counts tokens for budgets; None is tiktoken's where its tables are at hand, else an estimate.
    *user_name* is the name of the user: "Where does Ada live?" finds "I live in Lisbon" then.
    """

    embedder: Embedder | None
    word_vectors: WordVectors | None
    policies: Sequence[WritePolicy]
    on_policy_failure: OnPolicyFailure
    clock: Clock
    ids: Callable[[], str] | None
    zone: tzinfo | None
    recall_settings: RecallSettings | None
    embedding_settings: EmbeddingSettings | None
    hooks: RecallHooks | None
    counter: TextMeasure | None
    user_name: str | None


@translating
class LongTermMemory:
    """Everything that is remembered, in one store. Any task and thread may call; store work runs in a thread.

    A call that writes and is cancelled may or may not have written: repeat it with a ``key``, or look.

    Calls that change memories which are there (correct, merge, end, the marks, undo, forget, restore) are operations in
    the log, and take ``CallerOptions``. An unknown id raises ``NoSuchMemory``; an *actor* that is trusted less than a
    memory, unless one who is trusted enough *approved* it, ``NotTrusted``. Marks (pin, disable, tag, importance,
    expiry) are changed in place: text, vector and validity stay, there is no new version, and all of *ids* are changed
    or none; they return None where nothing differed and nothing was done.

    History, tombstones and the operation log are tables in the database of the store (and in its transactions); a store
    that has none gets one in the process. A *history* may also be any ``HistoryStorage``: its messages are appended
    before the memories are written and deleted after these were forgotten, no crash recovery looks through it, and
    ``import_`` and a time of grace raise ``UnsupportedError``.

    What a store with data alone cannot do is logged as a warning; ``forget`` deletes from it, and names in
    ``Receipt.unreached`` what it cannot prove.

    Public attributes, for parts built on it: ``store``, ``database``,
    ``entries`` (the store by partitions), ``conversations`` (the history), ``embedder``, ``word_vectors``,
    ``embedding`` (``await embedding.vectors(texts)`` never fails a write), ``tombstones`` (``tombstones.key``: the
    secret of this file), ``operation_log``, ``soft_deletes``, ``keys``, ``given`` (which memories prompts were
    given), ``clock``, ``zone``, ``policies``, ``recall_settings``; ``open_copy`` (opens a backup, to forget in it);
    ``index_cache`` (the cached retrieval indexes; None on a store without a file); ``erasers`` and ``carried``, to
    which a part that keeps something of memories adds itself.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        database: Database | None = None,
        history: HistoryStorage | None = None,
        operation_ids: Callable[[], str] | None = None,
        **parts: Unpack[MemoryParts],
    ) -> None:
        """*database* has the tables of a store that has none itself; None is one in the memory of the process."""
        clock, zone = parts.get("clock", system_clock), parts.get("zone")
        aware = aware_clock(clock, zone)
        if history is not None:
            checked_history(history, "history")
        self.store = store
        if lifecycle_of(store) is None:
            _log.warning("%s", _limits_of(store, kept=database is not None))
        self.database = database = database_for(store, database)
        conversations = history or DatabaseHistory(database, clock=aware)
        rows = conversations.rows if isinstance(conversations, DatabaseHistory) else HistoryRows(database, clock=aware)
        tombstones, log = _open_tombstones(store, database), OperationLog(database, clock=aware, ids=operation_ids)
        self.word_vectors = parts.get("word_vectors")
        self.conversations: HistoryStorage = conversations
        self.tombstones = tombstones
        self.operation_log = log
        self.keys = IdempotencyKeys(database, tombstones.key)
        self.soft_deletes = SoftDeletes(database)
        words = lifecycle_of(store)
        self.given = GivenLog(database, analyzer=Analyzer() if words is None else words.analyzer, clock=aware)
        self.open_copy: Callable[[Path], LongTermMemory] | None = None
        self.embedding = EmbeddingService(
            store, parts.get("embedder"), database=database, settings=parts.get("embedding_settings")
        )
        self.entries = EntryStore(store, rows)
        self.clock = clock
        self.zone = zone
        rules = PolicyRules(tuple(parts.get("policies", ())), parts.get("on_policy_failure", "store"))
        self.policies, self.on_policy_failure = rules.policies, rules.on_failure
        self.recall_settings = parts.get("recall_settings") or RecallSettings()
        self.index_cache = _open_index_cache(lifecycle_of(store))
        self.carried: list[ExportedPart] = []
        self.erasers: list[Eraser] = [SummaryEraser(rows), CachedVectorEraser(self.embedding), self.keys, self.given]
        if self.index_cache is not None:
            self.erasers.append(RetrievalIndexEraser(self.index_cache))
        self._ids = parts.get("ids") or TimeOrderedIds(clock=aware)
        self._rules, self._aware_clock = rules, aware
        self._looked_for_due: datetime | None = None
        self._retriever = Retriever(
            store,
            self.embedding,
            word_vectors=self.word_vectors,
            settings=self.recall_settings,
            hooks=parts.get("hooks"),
            index_cache=self.index_cache,
            clock=clock,
            zone=zone,
            counter=parts.get("counter"),
            user_name=None if (name := parts.get("user_name")) is None else checked_label(name, "user_name"),
        )
        self.entries.followers.append(self._retriever.follow)
        self._caught_up: set[str] = set()

    # All services but recall are made, and their modules loaded, when they are first asked for: a process that asks one
    # question starts in half the time.

    @cached_property
    def _pipeline(self) -> WritePipeline:
        from tellback.memory.write.pipeline import WritePipeline

        return WritePipeline(
            self.entries,
            self.operation_log,
            self.keys,
            self.tombstones,
            self.embedding,
            self._rules,
            clock=self._aware_clock,
            ids=self._ids,
            zone=self.zone,
        )

    @cached_property
    def _writer(self) -> MemoryWriter:
        from tellback.memory.write.memory_writer import MemoryWriter

        return MemoryWriter(self._pipeline, self._own_history)

    @cached_property
    def _recovery(self) -> CrashRecovery:
        from tellback.memory.write.crash_recovery import CrashRecovery

        return CrashRecovery(self._pipeline)

    @cached_property
    def _settlement(self) -> Settlement:
        from tellback.memory.write.settlement import Settlement

        return Settlement(self._pipeline)

    @cached_property
    def _backfill(self) -> EmbeddingBackfill:
        from tellback.memory.write.embedding_backfill import EmbeddingBackfill

        return EmbeddingBackfill(self.entries, self.embedding)

    @cached_property
    def _eraser(self) -> MemoryEraser:
        from tellback.memory.erasure.backup_eraser import BackupEraser
        from tellback.memory.erasure.memory_eraser import MemoryEraser

        return MemoryEraser(
            self.entries,
            self.operation_log,
            self.tombstones,
            self.soft_deletes,
            self.erasers,
            clock=self._aware_clock,
            backups=BackupEraser(file if isinstance(file := self.database, FileDatabase) else None, self.open_copy),
            zone=self.zone,
            last_due_check=self._looked_for_due,
        )

    @cached_property
    def _pinned(self) -> PinnedMemories:
        from tellback.memory.pinned import PinnedMemories

        return PinnedMemories(self.store)

    @cached_property
    def _attributes(self) -> Attributes:
        from tellback.memory.write.attributes import Attributes

        return Attributes(self.entries, self.operation_log, self.embedding)

    @cached_property
    def _descriptions(self) -> Descriptions:
        from tellback.memory.write.descriptions import Descriptions

        return Descriptions(self._attributes, self._rules)

    @cached_property
    def _corrections(self) -> Corrections:
        from tellback.memory.write.corrections import Corrections

        return Corrections(self._pipeline)

    @cached_property
    def _undo(self) -> Undo:
        from tellback.memory.write.undo import Undo

        return Undo(self.entries, self.operation_log, self.tombstones, self._attributes, clock=self._aware_clock)

    @cached_property
    def _reembedding(self) -> Reembedding:
        from tellback.memory.write.reembed import Reembedding

        return Reembedding(self.entries, self.embedding, self._backfill)

    @cached_property
    def _exporter(self) -> Exporter:
        from tellback.memory.export_import.exporter import Exporter

        return Exporter(self.entries, self.operation_log, self.tombstones, self.embedding, self.carried)

    @cached_property
    def _importer(self) -> Importer:
        from tellback.memory.export_import.importer import Importer

        return Importer(
            self.entries,
            self.operation_log,
            self.keys,
            self.tombstones,
            self.embedding,
            self._rules,
            self.erasers,
            self.carried,
            clock=self._aware_clock,
        )

    def signed_by(self, user: str) -> Self:
        """Return the same memory for *user* of a server: each operation that is done by it names them.

        It shares everything with this one, which is the one to close.
        """
        signed = copy.copy(self)
        signed.operation_log = self.operation_log.signed_by(checked_label(user, "user"))
        for name, service in vars(LongTermMemory).items():
            if isinstance(service, cached_property) and name != "_pinned":
                vars(signed).pop(name, None)
        return signed

    @property
    def _own_history(self) -> HistoryStorage | None:
        """The history where it is a class of the program, which shares no transaction with the memories."""
        return None if isinstance(self.conversations, DatabaseHistory) else self.conversations

    @asynccontextmanager
    async def _with_history(self, namespace: str) -> AsyncIterator[EntryStore]:
        """Yield the entries with the messages of *namespace*; those of a history of one's own are a copy.

        What is erased from the copy, or was in a process that ended before, is deleted in the history at the end.
        """
        if self._own_history is None:
            yield self.entries
            return
        copy = await HistoryCopy.of(self._own_history, namespace)
        entries = EntryStore(self.store, copy.rows)
        await asyncio.to_thread(self._eraser.erase_buried, entries, namespace, copy.messages)
        yield entries
        await copy.delete_erased()

    def _eraser_of(self, entries: EntryStore) -> MemoryEraser:
        """Return the eraser of *entries* that ``_with_history`` yields."""
        return self._eraser if entries is self.entries else replace(self._eraser, entries=entries)

    def _check_history(self, operation: str) -> None:
        """Raise ``UnsupportedError`` where the history takes no message at a place of its own."""
        if (history := self._own_history) is not None:
            reason = f"{type(history).__name__} adds messages at the end of a session alone"
            raise UnsupportedError(operation, reason)

    @property
    def embedder(self) -> Embedder | None:
        """The embedder of texts and questions; another one after ``reembed``."""
        return self.embedding.embedder

    async def similarities(self, question: str, texts: Sequence[str]) -> list[float] | None:
        """Return the cosine of each of *texts* with *question*; None without an embedder on this machine.

        Nothing is kept of them.
        """
        return await self.embedding.similarities(question, texts)

    async def remember(
        self,
        item: str | Memory,
        *,
        replaces: Sequence[str] = (),
        namespace: str = "",
        approved_by: Actor | None = None,
    ) -> Report:
        """Store one memory and return its outcome.

        *replaces*: ids of memories that hold no longer (as ``Memory.replaces``). They and what was derived from them
        alone end at its time, in the same operation; they stay, and are found by questions about their time. An unknown
        id raises ``NoSuchMemory``, a passage or a memory of a later time ``ArgumentError``; where the memory's *actor*
        is trusted less than what it is to replace, ``NotTrusted`` is raised unless *approved_by* one who is not.

        The same key with the same text is a duplicate; with another text ``DuplicateKey`` is raised and
        nothing is overwritten. An embedder that fails does not fail the write: the report says what is
        deferred.
        """
        store_namespace(namespace, CONVERSATION)
        report = await self._writer.remember(item, namespace, replaces, approved_by)
        await self._catch_up([report], namespace)
        return report

    async def remember_many(
        self,
        items: Iterable[str | Memory],
        *,
        namespace: str = "",
        on_progress: Callable[[int], None] | None = None,
        approved_by: Actor | None = None,
    ) -> list[Report]:
        """Store many and return a report for each, in order; a batch of 256 is embedded together, in one transaction.

        Of a list, the next batch is embedded while one is stored; another iterable is not read ahead. The
        same as ``remember`` on each, but that a key used with another text, or a memory that may not replace what it
        names, is a line (rejected) and raises nothing. A memory may replace an earlier one of the list.
        A bad item raises before its batch is written. ``on_progress`` gets the number done so far.
        """
        store_namespace(namespace, CONVERSATION)
        reports = await self._writer.remember_many(items, namespace, on_progress, approved_by)
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
        reports = await self._writer.remember_turn(session, messages, namespace, used)
        await self._catch_up(reports, namespace)
        return reports

    async def get(
        self, ids: Sequence[str] = (), *, keys: Sequence[str] = (), namespace: str = ""
    ) -> list[Memory | None]:
        """Return memories, document passages and archived versions ("id@revision") in the order of *ids*.

        After them come the memories that were remembered under the idempotency *keys*. None where there is none.
        """
        checked_ids, checked_keys = checked_labels(ids, "ids"), checked_labels(keys, "keys")
        return await asyncio.to_thread(self._get, checked_ids, checked_keys, namespace)

    async def find_ids(self, part: str, *, namespace: str = "", limit: int = 10) -> list[str]:
        """Return the ids of memories and passages that begin or end with *part*, *limit* at most, in no promised order.

        It reads the ids of the namespace until *limit* are found.
        """
        checked_label(part, "part")
        checked_int(limit, "limit")
        return await asyncio.to_thread(lambda: list(islice(self.entries.ids_like(part, namespace), limit)))

    async def namespaces(self) -> dict[str, int]:
        """Return how many memories and passages each namespace of the file has, by name: all tenants, for the owner."""
        return await asyncio.to_thread(self.entries.namespaces)

    async def complete(self) -> int:
        """Remember the messages of history that have no memory yet, forgotten ones excepted; return how many.

        A history of one's own is not looked through for such; what was forgotten of it is deleted.
        """
        for namespace in [] if self._own_history is None else await self.conversations.namespaces():
            async with self._with_history(namespace):
                pass
        return await asyncio.to_thread(self.complete_now)

    def complete_now(self) -> int:
        """As ``complete``, in this thread; ``open_memory`` runs it. What is due to be erased is erased, too."""
        self._looked_for_due = self._aware_clock()
        if lifecycle_of(self.store) is None:
            self._eraser.finish_deletions()
        if self.soft_deletes.due(self._looked_for_due):
            self.erase_due()
        return self._recovery.recover() if self.entries.rows.unsettled(1) else 0

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

    async def list(
        self,
        *,
        order: ListOrder = "id",
        after: str | None = None,
        limit: int = 100,
        namespace: str = "",
        **filters: Unpack[ListFilters],
    ) -> MemoryPage:
        """Return memories in a stable order, *limit* at most, those behind the cursor *after*.

        *order*: "id" (of writing; those with a key of yours come last), "oldest" or "newest" first by when they
        were said, or else written; equal times by id. ``page.next`` is the cursor of the next page, None after the
        last; in order of "id" any id is one. In a file, a page reads what is on it and no more; the first one by
        time makes an index for that.
        *filters*: see ``ListFilters``.
        """
        checked_int(limit, "limit")
        selection = self._selection(filters, namespace)
        return await asyncio.to_thread(selection.page, self.store, order=order, after=after, limit=limit)

    def redacted(self, text: str) -> str:
        """Return *text* as it would be kept: without what the write policies take out, such as ``NoSecrets``."""
        return redacted_text(text, redaction_policies(self.policies))[0]

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """Return the pinned memories that hold now, the most important first, then the newest.

        It costs what was written since the last call, not what there is; the first call looks through the namespace.
        """
        return await asyncio.to_thread(self._pinned.current, namespace, self._now())

    async def count(self, *, namespace: str = "", **filters: Unpack[ListFilters]) -> int:
        """Return how many memories there are (that *filters* select)."""
        return await asyncio.to_thread(self._selection(filters, namespace).count, self.store)

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
        selected = scope_filter(scopes, tags, where)
        store_namespace(namespace, CONVERSATION)
        from tellback.memory.list_query import collect_stats

        return await asyncio.to_thread(collect_stats, self.store, namespace, self._now(), selected)

    async def correct(
        self,
        id: str,
        text: str,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expect: int | None = None,
        sensitive: bool = False,
        origin: str = "",
        about: str | None = None,
        **caller: Unpack[CallerOptions],
    ) -> Report:
        """Put *text* in the place of a memory's; the old version goes to the archive, the id stays.

        *origin* names the program through which it is corrected; "" leaves that of the old version. *sensitive* marks
        it, as ``Memory.sensitive`` does what is remembered; what was marked stays so. *about* is the line that says
        what it is about then; without it a caller's line stays, and one of a model goes with the old words.
        An unknown id raises ``NoSuchMemory``, a policy that says no ``RejectedText``. *expect*: the
        revision that is to be corrected; another one raises ``RevisionConflict``. An *actor* who is trusted less
        than the memory raises ``NotTrusted``, unless it is *approved_by* one who is trusted enough.
        """
        return await self._corrections.correct(
            id,
            text,
            Caller(**caller),
            valid_from=valid_from,
            valid_to=valid_to,
            expect=expect,
            sensitive=sensitive,
            origin=origin,
            about=about,
        )

    async def merge(
        self, ids: Sequence[str], text: str, *, sensitive: bool = False, **caller: Unpack[CallerOptions]
    ) -> Report:
        """Make one memory of several: the first gets *text*, the others go to the archive and are found no more.

        It names them in ``derived_from``, and each keeps its source in the archive. The first keeps its id, place,
        speaker and time; tags are those of all, trust the least, expiry the earliest. It is marked as sensitive if one
        of them is, or if *sensitive* says so.
        """
        return await self._corrections.merge(ids, text, Caller(**caller), sensitive=sensitive)

    async def end(self, id: str, valid_to: datetime | None, **caller: Unpack[CallerOptions]) -> Report:
        """End the validity of a memory at *valid_to*; None removes the end. Text and vector stay."""
        return await asyncio.to_thread(self._corrections.end, id, valid_to, Caller(**caller))

    async def conflicts(self, *, namespace: str = "", limit: int = 100) -> Sequence[Conflict]:
        """Return statements that hold now and contradict one another, the newest first, *limit* conflicts at most.

        They are of one speaker, subject and attribute, and end differently ("I live in Lisbon", "I live in Porto"):
        a suggestion by rules, for ``settle``. A store with data alone raises ``UnsupportedError``.
        """
        checked_int(limit, "limit", 1)
        store_namespace(namespace, CONVERSATION)
        return await asyncio.to_thread(self._retriever.conflicts, namespace, limit)

    async def people(self, *, namespace: str = "", where: Filter | None = None) -> Sequence[KnownPerson]:
        """Return who is whose relative, as memories say that hold now and that the filter *where* passes, newest first.

        A question by role finds memories by name, and the other way round. Nothing is kept beside the memories: to
        forget or correct one takes back what it says. So does its tag ``KnownPerson.split_tag``, for one relation.
        """
        store_namespace(namespace, CONVERSATION)
        return await asyncio.to_thread(self._retriever.people, namespace, where)

    async def profile(
        self, *, namespace: str = "", limit: int = 5, attributes: bool = False, where: Filter | None = None
    ) -> Profile:
        """Return what is known about the user and their relatives, by topic, each entry with its memory, by rules.

        Of each topic there are *limit* entries at most, the newest. *attributes*: only name, home and work of the user.
        *where*: only from memories whose metadata passes this filter.
        """
        checked_int(limit, "limit", 1)
        store_namespace(namespace, CONVERSATION)
        profile = partial(self._retriever.profile, limit=limit, attributes=attributes, where=where)
        return await asyncio.to_thread(profile, namespace)

    async def settle(self, ids: Sequence[str], *, keep: str = NEWEST, **caller: Unpack[CallerOptions]) -> Operation:
        """Settle a contradiction: of the memories *ids*, one holds and the others hold no longer, in one operation.

        *keep*: "newest", "most trusted" (of those the newest), or the id that is right. Older ones end at the time of
        what is kept and stay for questions about their own; a later one that is not kept was wrong, and goes to the
        archive. ``undo`` takes it back. An unknown id raises ``NoSuchMemory``.
        """
        return await asyncio.to_thread(self._settlement.settle, ids, keep, Caller(**caller))

    async def pin(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Pin memories: an assistant is shown them always."""
        return await self._set("pin", ids, lambda _: {"pinned": True}, caller)

    async def unpin(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Unpin memories."""
        return await self._set("unpin", ids, lambda _: {"pinned": None}, caller)

    async def disable(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Keep memories, with all their versions, out of every answer; listing still shows them."""
        return await self._set("disable", ids, lambda _: {"disabled": True}, caller)

    async def enable(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Let disabled memories be found again."""
        return await self._set("enable", ids, lambda _: {"disabled": None}, caller)

    async def promote(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Let memories be recalled that were taken for questions, commands, small talk or repetitions."""
        return await self._set("promote", ids, lambda _: {"evidence": True}, caller)

    async def demote(self, ids: Sequence[str] | str, **caller: Unpack[CallerOptions]) -> Operation | None:
        """Keep memories out of what is recalled by default; they stay, as the context of their neighbours, too."""
        return await self._set("demote", ids, lambda _: {"evidence": False}, caller)

    async def tag(
        self, ids: Sequence[str] | str, tags: Sequence[str], **caller: Unpack[CallerOptions]
    ) -> Operation | None:
        """Add *tags* to those that memories have."""
        added = _required_tags(tags)

        def new(old: Metadata) -> Metadata:
            return {"tags": list(dict.fromkeys((*old.get("tags", ()), *added)))}

        return await self._set("tag", ids, new, caller)

    async def untag(
        self, ids: Sequence[str] | str, tags: Sequence[str], **caller: Unpack[CallerOptions]
    ) -> Operation | None:
        """Take *tags* off memories; a tag that one does not have is no error."""
        removed = set(_required_tags(tags))

        def new(old: Metadata) -> Metadata:
            return {"tags": [tag for tag in old.get("tags", ()) if tag not in removed] or None}

        return await self._set("untag", ids, new, caller)

    async def set_importance(
        self, ids: Sequence[str] | str, importance: float | None, **caller: Unpack[CallerOptions]
    ) -> Operation | None:
        """Set the importance of memories, from 0 to 1; None removes it."""
        weight = checked_importance(importance, "importance")
        return await self._set("importance", ids, lambda _: {"importance": weight}, caller)

    async def expire(
        self, ids: Sequence[str] | str, at: datetime | None, **caller: Unpack[CallerOptions]
    ) -> Operation | None:
        """Let memories, with all their versions, expire: no answer has them from *at* on. None removes the expiry.

        They are kept and listed; ``forget`` removes. A naive time is taken in the configured zone.
        """
        moment = None if at is None else to_aware(at, self.zone, argument="at")
        fields = {
            "expires_at": None if moment is None else timestamp_to_text(moment),
            "expires_at_offset": None if moment is None else utc_offset(moment) or None,
        }
        return await self._set("expire", ids, lambda _: fields, caller)

    async def describe(
        self, lines: Mapping[str, str], *, by: AboutAuthor = "caller", **caller: Unpack[CallerOptions]
    ) -> Sequence[Report]:
        """Set the *lines* that say what memories are about, by id, and embed these memories anew.

        "" takes a line away, and says that there is none to write: no worse author writes one.

        One operation for all of them, or none of them; a report for each, in order. *by* is who made the lines: those
        of a caller are not overwritten by a model's or a head's, nor a model's by a head's; such a memory stays as it
        is ("rejected"). Secrets are taken out. Without an embedder they wait for their vector (``deferred``), and are
        found by their words.
        """
        return await self._descriptions.describe(lines, by, Caller(**caller))

    async def undo(self, operation: str, **caller: Unpack[CallerOptions]) -> Operation:
        """Undo all of *operation* and return the operation that did so; undoing that one redoes it.

        What was remembered goes to the archive, what was corrected, ended or merged is as before, a mark has its old
        value. Raises ``CannotUndo``, and changes nothing, where a later operation changed the same memory (of marks:
        the same one), or where what is needed was forgotten. A forgetting with a time of grace is taken back while
        that lasts, as ``restore_forgotten`` does; any other is final. So is an import in the place of all that was
        here; of another one the memories go, and documents, messages and log stay. What somebody decided who is
        trusted more than *actor* raises ``NotTrusted``.
        """
        id, by = checked_label(operation, "operation"), Caller(**caller)
        if await asyncio.to_thread(self._eraser.has_soft_delete, id, by.namespace):
            return await asyncio.to_thread(self._eraser.restore, id, by)
        undoing = await asyncio.to_thread(self._undo.undo, id, by)
        if any("about" in change.new for change in undoing.changes):  # what another line changed waits for its vector
            self._caught_up.discard(by.namespace)
            await self._catch_up((), by.namespace)
        return undoing

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
        log = self.operation_log
        return await asyncio.to_thread(log.list, namespace, memory=memory, before=before, limit=limit)

    async def forget(
        self,
        ids: Sequence[str] | None = None,
        *,
        keys: Sequence[str] = (),
        query: str | None = None,
        k: int = 10,
        namespace: str = "",
        dry_run: bool = False,
        grace: timedelta | None = None,
        remove_backups: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
        **selectors: Unpack[ForgetSelectors],
    ) -> Receipt:
        """Remove memories for good; return a receipt of ids, counts and keyed hashes.

        All selectors must hold: *ids*, with those of idempotency *keys*; a *source* (a session, a document or a
        ``Source``); a *session* or a *document*; *where* (without pinned memories, unless it names ``pinned``, or ids
        are given); every one of *scopes*; any of *tags*; *older_than* a time, or a length of time (said, or else
        recorded, before it; passages of documents only where their document is named). A stretch of conversation
        takes its messages too, also those of which nothing was remembered. Without one, ``ArgumentError`` is raised.
        *query* is for looking only: with *dry_run*, the receipt lists the *k* memories that ``recall`` finds for it and
        that are near the best, none where it abstains; forget what is meant.

        With each memory go its versions, what was derived from it alone, the message it comes from, and every memory,
        passage and message that holds its words verbatim. *dry_run* lists all that and changes nothing. An unknown id
        raises ``NoSuchMemory``, one forgotten before is passed over.

        *grace* is a grace period: a soft delete, out of every answer at once, whose bytes go when the period is over;
        ``restore_forgotten`` brings it back until then. *remove_backups* deletes the backups of this file that are
        recorded in it. An *actor* that is trusted less than one of the memories raises ``NotTrusted``, unless
        *approved_by* somebody who is not.
        """
        caller = Caller(namespace, actor, approved_by)
        if keys:
            keyed = [self.keys.id_of_key(namespace, key) for key in checked_labels(keys, "keys")]
            ids = [*(ids or ()), *keyed]
        if query is not None:
            from tellback.memory.erasure.selection import check_forget_query

            check_forget_query(query, k, dry_run=dry_run)
            found = await self.recall(query, k, namespace=namespace, all_utterances=True)
            least = NEAR_BEST_SHARE * found[0].score if found and found.abstain is None else inf
            recalled = [hit.memory.id for hit in found if hit.score >= least]
            ids = recalled if ids is None else [id for id in ids if id in recalled]
            if not ids:
                return Receipt((), namespace=namespace, dry_run=True)
        if grace is not None:
            self._check_history("forget with a time of grace")
        async with self._with_history(namespace) as entries:
            receipt = await asyncio.to_thread(
                self._eraser_of(entries).forget,
                ids,
                selectors,
                caller,
                dry_run=dry_run,
                grace=grace,
                remove_backups=remove_backups,
            )
        return self._naming_history(receipt)

    async def forget_namespace(
        self,
        namespace: str,
        *,
        dry_run: bool = False,
        remove_backups: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Receipt:
        """Remove everything of a namespace for good: all partitions, history, the log, caches; return a receipt.

        The ids stay as tombstones, so that an import or an ingest brings nothing of it back.
        """
        caller = Caller(namespace, actor, approved_by)
        async with self._with_history(namespace) as entries:
            forget = self._eraser_of(entries).forget_namespace
            receipt = await asyncio.to_thread(forget, caller, dry_run=dry_run, remove_backups=remove_backups)
        return self._naming_history(receipt)

    def _naming_history(self, receipt: Receipt) -> Receipt:
        """Return *receipt* with a history of one's own among what it does not reach: its bytes are not seen here."""
        if self._own_history is None:
            return receipt
        note = "it deletes messages, and cannot prove that their bytes are gone from its files and backups"
        copy = ExternalCopy("history", type(self._own_history).__name__, note=note)
        return replace(receipt, unreached=(*receipt.unreached, copy))

    async def restore_forgotten(self, operation: str, **caller: Unpack[CallerOptions]) -> Operation:
        """Restore a soft delete within its grace period (``receipt.operation``); return the operation that did so.

        ``ArgumentError`` says that the bytes are gone, or that another memory has one of the ids by now; ``NotTrusted``
        that an actor who is trusted more than *actor* forgot it.
        """
        checked_label(operation, "operation")
        self._check_history("restore_forgotten")
        return await asyncio.to_thread(self._eraser.restore, operation, Caller(**caller))

    async def verify_forgotten(self, receipt: Receipt, texts: Sequence[str] = ()) -> ErasureVerification:
        """Verify that what *receipt* names is gone from every table, from free pages and from the write-ahead log.

        Given the *texts* again, a child process searches the bytes of the memory's files, and of the copies that the
        receipt names, for them. A remnant is named by place, never by its words.
        """
        if not isinstance(receipt, Receipt):
            raise ArgumentError("receipt", receipt, "what forget returned is needed (read_receipt reads one)")
        return await asyncio.to_thread(self._eraser.verify, receipt, checked_text_list(texts, "texts"))

    async def backup(
        self, path: str | os.PathLike[str] | None = None, *, on_progress: CopyProgress | None = None
    ) -> BackupFile:
        """Write a complete, checked copy of the whole file (mode 0600) to *path*, where nothing may be.

        Without *path* it goes into the folder of backups beside the memory (``memory.db.backups``). Others go on
        writing meanwhile. *on_progress* is called with the bytes that are copied, and all. A later ``forget`` erases
        from the backups in that folder, and names those elsewhere in its receipt. ``restore_memory`` puts one back.
        """
        from tellback.memory.backups import backup_path, make_backup

        database = self._file("backup")
        place = backup_path(database.path, self._aware_clock()) if path is None else Path(path)
        return await asyncio.to_thread(make_backup, database, place, on_progress=on_progress)

    async def backups(self, *, check: bool = False) -> Sequence[BackupFile]:
        """Return the backups that are known, in the memory's own folder and elsewhere; *check* reads each one whole."""
        from tellback.memory.backups import list_backups

        return await asyncio.to_thread(list_backups, self._file("backups"), check=check)

    def _file(self, call: str) -> FileDatabase:
        if not isinstance(self.database, FileDatabase):
            raise UnsupportedError(call, "the memory is in no file")
        return self.database

    def erase_due(self) -> int:
        """Erase every soft delete whose grace period is over; return how many. Opening a memory does it."""
        return self._eraser.erase_due()

    async def export(
        self,
        path: str | os.PathLike[str] | IO[bytes],
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

        *path* may also be a binary stream open for writing.

        Memories, passages, earlier versions, conversation history, the log, documents and the ids of what was
        forgotten, of one state of the file. The same memory always gives the same bytes. *where*, *scopes* and *tags*
        limit it to some memories with what belongs to them. Messages too damaged to be read are passed over, and named
        in the report (``damaged``). That it was made is recorded, and named by every later
        ``forget``. *on_progress* gets the number of items written so far.
        """
        from tellback.memory.export_import.exporter import ExportSelection

        async with self._with_history(namespace) as entries:
            return await asyncio.to_thread(
                replace(self._exporter, entries=entries).export,
                path,
                Caller(namespace, actor),
                ExportSelection(where, scopes, tags),
                vectors=vectors,
                on_progress=on_progress,
            )

    async def export_notes(
        self,
        folder: str | os.PathLike[str],
        *,
        namespace: str = "",
        where: Filter | None = None,
        scopes: Scopes | None = None,
        tags: Sequence[str] = (),
        actor: Actor = "user",
    ) -> ExportReport:
        """Write the memories of a namespace, conversations apart, as Markdown notes with front matter, one a file.

        *folder* must not be there yet; it is private, recorded as an export is, and named by every later ``forget``.
        """
        from tellback.memory.export_import.exporter import ExportSelection

        place, selection = Path(os.fsdecode(folder)), ExportSelection(where, scopes, tags)
        return await asyncio.to_thread(self._exporter.export_notes, place, Caller(namespace, actor), selection)

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
        """Import the export at *path*; return the outcome of every item.

        *mode*: "merge" adds what is not here, "upsert" also corrects what is here otherwise (the old version goes to
        the archive). Both write in batches; importing again takes the rest and nothing twice. Policies decide as for
        ``remember``. What was forgotten here stays so. Vectors are taken where they are of this memory's space; the
        others are made later.

        *trust* is the most that anything in the file can have. Without it, a file that this memory recorded as its
        own export is believed; of any other, memories are trusted as a document, and history, log and tombstones are
        left out. Nothing in it is trusted more than *actor*. A file that is broken, cut, edited or of a newer version
        raises ``UnreadableExport`` with its line.
        """
        from tellback.memory.export_import.report import ImportMode

        self._check_history("import")
        caller = Caller(namespace, actor)
        if mode not in get_args(ImportMode):
            raise ArgumentError("mode", mode, f"one of {', '.join(get_args(ImportMode))} is needed")
        checked = None if trust is None else checked_trust(trust, "trust")
        file = Path(os.fsdecode(path))
        job = await asyncio.to_thread(self._importer.open_job, file, caller, mode, checked, dry_run, on_progress)
        return await self._importer.run(job)

    async def pending(self, *, namespace: str | None = None) -> int:
        """Return how many entries wait for their vector, documents included (None: of all namespaces)."""
        chosen = None if namespace is None else checked_namespace(namespace)
        return await asyncio.to_thread(self._backfill.count_pending, chosen)

    async def flush(self, *, namespace: str | None = None) -> BackfillReport:
        """Embed what is pending; report how many got their vector, and which texts were cut.

        It stops when the embedder fails (``embedding.problem`` says why); a text that it refuses, or always fails at,
        is passed over and stays pending, and has a line that says why.
        """
        return await self._backfill.embed_pending(None if namespace is None else checked_namespace(namespace))

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
        return await self._reembedding.reembed(embedder, switch=switch, again=again, on_progress=on_progress)

    async def abandon_reembedding(self) -> bool:
        """Drop what was filled in and stay with the vectors in use; return whether anything was begun."""
        return await asyncio.to_thread(self._reembedding.abandon)

    async def reembedding(self) -> ReembeddingProgress | None:
        """Return how far an embedding anew is that was begun and not ended, here or elsewhere; None without one."""
        return await asyncio.to_thread(self._reembedding.progress)

    async def close(self, *, wait: float = 0.0) -> None:
        """Release the store, when what is being written is stored.

        Embedders are waited for *wait* seconds at the most, for what is pending too; what has no vector then stays
        pending, and is embedded when the memory is open again. Writing after this raises ``StoreClosed``.
        """
        await self._backfill.finish_writes(checked_seconds(wait, "wait"))
        await asyncio.to_thread(self.embedding.close)
        await asyncio.to_thread(self.store.close)

    async def __aenter__(self) -> LongTermMemory:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _selection(self, filters: ListFilters, namespace: str) -> ListQuery:
        from tellback.memory.list_query import ListQuery

        return ListQuery.of(filters, namespace, now=self._now(), zone=self.zone)

    def _history(self, id: str, namespace: str) -> MemoryHistory:
        from tellback.memory.write.provenance import memory_versions

        versions = memory_versions(self.entries, id, namespace)
        operations = self.operation_log.list(namespace, memory=id, limit=_NO_LIMIT)
        return MemoryHistory(tuple(versions), tuple(operations))

    async def _set(
        self, kind: str, ids: Sequence[str] | str, new: Callable[[Metadata], Metadata], caller: CallerOptions
    ) -> Operation | None:
        set_fields = partial(self._attributes.set, kind, ids, lambda entry: new(entry.metadata), Caller(**caller))
        return await asyncio.to_thread(set_fields)

    def _get(self, ids: Sequence[str], keys: Sequence[str], namespace: str) -> _OptionalMemories:
        ids = [*ids, *(self.keys.id_of_key(namespace, key) for key in keys)]
        by_id = {id: entry for id, (_, entry) in self.entries.find(ids, namespace).items()}
        if archived := [id for id in ids if id not in by_id and "@" in id]:
            versions = self.store.get(archived, namespace=store_namespace(namespace, ARCHIVE))
            by_id.update({entry.id: entry for entry in versions if entry is not None})
        return [from_entry(by_id[id]) if id in by_id else None for id in ids]

    def _now(self) -> datetime:
        return to_aware(self.clock(), self.zone)

    async def _catch_up(self, reports: Sequence[Report], namespace: str) -> None:
        """Erase what is due; after a write that was embedded, embed a batch of what waits, since the embedder works."""
        if self._eraser.is_due:
            await asyncio.to_thread(self._eraser.erase_due_quietly)
        if self.embedder is None or any(report.deferred for report in reports):
            self._caught_up.discard(namespace)
        elif namespace not in self._caught_up:
            try:
                from tellback.memory.write.embedding_backfill import BACKFILL_BATCH

                filled = await self._backfill.embed_pending_quietly(namespace, limit=BACKFILL_BATCH, patient=False)
            except VectorStoreError:  # the write itself is done and must not seem failed; this is tried again
                return
            if not filled:
                self._caught_up.add(namespace)


def _required_tags(tags: Sequence[str]) -> tuple[str, ...]:
    checked = checked_labels(tags, "tags")
    if not checked:
        raise ArgumentError("tags", tags, "at least one tag is needed")
    return checked


def _limits_of(store: VectorStore, *, kept: bool) -> str:
    """Return what a memory on a *store* with data alone cannot do; *kept*: its tables have a database of their own."""
    parts = [
        f"{type(store).__name__} has data alone (it lacks {', '.join(missing_operations(store)[:3])} …)",
        "correct, end, merge, settle, undo and import raise UnsupportedError",
        "forget deletes, and cannot prove that the bytes are gone",
    ]
    if not kept:
        parts.append(
            "conversations, log and tombstones end with this process, unless database= is given "
            '(vectorstore.sqlite.SqliteDatabase("beside.db"))'
        )
    return "; ".join(parts)


def _open_tombstones(store: VectorStore, database: Database) -> Tombstones:
    """Return the tombstones; of a *database* that ends before its store the key is zeros: ids must stay the same."""
    is_apart = lifecycle_of(store) is None and not database.lasting
    return Tombstones(database, token=bytes if is_apart else os.urandom)


def _open_index_cache(store: LifecycleStore | None) -> IndexCache | None:
    """Return the cache of retrieval indexes in the store's database, None without one."""
    database = None if store is None else store.database
    if store is None or database is None or not database.lasting:
        return None
    return IndexCache(database, lambda since: store.changes(since, namespace=since.namespace))
