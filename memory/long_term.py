"""Long-term memory: what was said or noted is kept, found again, corrected and forgotten.

The face over the write path (``memory.write``), erasure (``memory.erasure``), conversation history
(``memory.storage``) and recall (``memory.recall``). What answers, lists, changes and erases, and what is about
vectors, is in ``recalling``, ``listing``, ``revising``, ``erasing`` and ``reembedding``, parts of the same face. Not
conversation windows (``short_term``) and not the reading of documents (``rag``).

    >>> memory = LongTermMemory(open_store("numpy:"))
    >>> run_sync(memory.remember("I moved to Lisbon in May.")).outcome
    <Outcome.STORED: 'stored'>
    >>> run_sync(memory.recall("Where did I move?"))[0].memory.text
    'I moved to Lisbon in May.'
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import TypeAlias

from memory.codec import from_entry
from memory.embedders.protocol import Embedder, WordVectors
from memory.erasing import Erasing
from memory.erasure.cached_vectors import CachedVectors
from memory.erasure.derived_rows import DerivedRows
from memory.erasure.summaries import SummaryEraser
from memory.errors import ArgumentError, DuplicateKey, translating
from memory.forgotten.held import Held, InMemoryHeld
from memory.forgotten.tombstones import InMemoryTombstones, Tombstones
from memory.lanes import ARCHIVE, CONVERSATION, store_namespace
from memory.listing import Listing
from memory.messages import Message
from memory.moving import Moving
from memory.pinned import Pinned
from memory.recall.hooks import RecallHooks
from memory.recall.recall import Recaller
from memory.recall.segment_tables import SqliteSegments
from memory.recall.settings import RecallSettings
from memory.recalling import Recalling
from memory.records import Memory, Report
from memory.reembedding import Reembedding
from memory.revising import Revising
from memory.storage.in_memory import InMemoryHistory
from memory.storage.protocol import HistoryStorage
from memory.storage.rows import ThreadedHistory
from memory.times import Clock, aware_clock, system_clock
from memory.write import completing, pending, remembering, turns
from memory.write.checking import names
from memory.write.context import WriteContext
from memory.write.embedding import Embedding
from memory.write.embedding_settings import EmbeddingSettings
from memory.write.ids import TimeOrderedIds
from memory.write.judging import Rules
from memory.write.keys import InMemoryKeys, KeptKeys, Keys
from memory.write.operations import InMemoryOperations, Operations
from memory.write.policies import OnFailure, WritePolicy
from vectorstore import LifecycleStore, VectorStore, VectorStoreError, lifecycle_of

_Answers: TypeAlias = list[Memory | None]


@translating
class LongTermMemory(Recalling, Listing, Revising, Erasing, Moving, Reembedding):
    """Everything that is remembered, in one store. Any task and thread may call; store work runs in a thread.

    A call that writes and is cancelled may or may not have written: repeat it with a ``key``, or look.

    On a store in a file, history and tombstones live in the same file (and in its transactions); on another
    they live in the process. Public attributes, for parts built on it: ``store``, ``conversations`` (the
    history), ``embedder``, ``word_vectors``, ``embedding`` (``await embedding.vectors(texts)`` never fails
    a write), ``tombstones`` (``tombstones.key``: the secret of this file), ``clock``, ``zone``, ``policies``,
    ``recall_settings``;
    ``segments`` (what recall derived, in the file; None where there is none);
    ``erasers`` and ``carried``, to which a part that keeps something of memories adds itself.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        embedder: Embedder | None = None,
        word_vectors: WordVectors | None = None,
        history: HistoryStorage | None = None,
        policies: Sequence[WritePolicy] = (),
        on_policy_failure: OnFailure = "store",
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
        """*counter* counts tokens for budgets; None is the default one, kept off the network by *offline*.

        *hooks* are those of each recall that brings none. *on_policy_failure* says what becomes of a memory that a
        write policy fails on: "store" keeps it as it was, "reject" leaves it out (what was said is in history anyway).
        """
        aware = aware_clock(clock, zone)
        lasting = lifecycle_of(store)
        conversations, tombstones, operations = _beside(lasting, history, aware)
        keys = _keys_beside(lasting)
        self.store = store
        self.word_vectors = word_vectors
        self.embedding = Embedding(store, embedder, settings=embedding_settings)
        self.conversations: HistoryStorage = conversations
        self.tombstones = tombstones
        self.clock = clock
        self.zone = zone
        self._hooks = None
        self._hooks = self._hooks_for(hooks)
        rules = Rules(tuple(policies), on_policy_failure)
        self.policies, self.on_policy_failure = rules.policies, rules.on_failure
        self.recall_settings = recall_settings or RecallSettings()
        self._counter = counter
        self._offline = offline
        self._context = WriteContext(
            store=store,
            rows=conversations.rows,
            tombstones=tombstones,
            operations=operations,
            embedding=self.embedding,
            rules=rules,
            clock=aware,
            ids=ids or TimeOrderedIds(clock=aware),
            operation_ids=operation_ids or TimeOrderedIds(clock=aware),
            zone=zone,
            held=_held_beside(lasting),
            keys=keys,
            erasers=[SummaryEraser(conversations.rows), CachedVectors(self.embedding), KeptKeys(keys)],
        )
        self.erasers, self.carried = self._context.erasers, self._context.carried
        self._next_due = self._context.held.next_due()
        self._pinned = Pinned(store)
        self.segments = _segments_beside(lasting)
        if self.segments is not None:
            self._context.erasers.append(DerivedRows(self.segments))
        self._recaller = Recaller(
            store, word_vectors=word_vectors, zone=zone, settings=self.recall_settings, segments=self.segments
        )
        self._caught_up: set[str] = set()

    async def remember(self, item: str | Memory, *, namespace: str = "") -> Report:
        """Keep one memory and say what became of it.

        The same key with the same text is a duplicate; with another text ``DuplicateKey`` is raised and
        nothing is overwritten. An embedder that fails does not fail the write: the report says what is
        deferred.
        """
        store_namespace(namespace, CONVERSATION)
        (line,) = await remembering.remember_batch(self._context, [item], namespace, ["item"])
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
        reports = await remembering.remember_stream(self._context, items, namespace, on_progress)
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
        reports = await turns.remember_turn(self._context, session, messages, namespace, used)
        await self._catch_up(reports, namespace)
        return reports

    async def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Memory | None]:
        """Return memories, document passages and archived versions ("id@revision") in the order of *ids*."""
        return await asyncio.to_thread(self._get, names(ids, "ids"), namespace)

    async def complete(self) -> int:
        """Remember what history holds and memory lacks, what was forgotten apart; return how many."""
        return await asyncio.to_thread(self.complete_now)

    def complete_now(self) -> int:
        """As ``complete``, in this thread; ``open_memory`` runs it. What is due to be erased is erased, too."""
        self.erase_due()
        return completing.complete(self._context)

    async def __aenter__(self) -> LongTermMemory:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _found_for(self, query: str, k: int, namespace: str) -> list[str]:
        return [hit.memory.id for hit in await self.recall(query, k, namespace=namespace)]

    def _get(self, ids: Sequence[str], namespace: str) -> _Answers:
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
                filled = await pending.catch_up(self._context, namespace, limit=pending.BATCH, patient=False)
            except VectorStoreError:  # the write itself is done and must not seem failed; this is tried again
                return
            if not filled:
                self._caught_up.add(namespace)


def _beside(
    store: LifecycleStore | None, history: HistoryStorage | None, clock: Clock
) -> tuple[ThreadedHistory, Tombstones, Operations]:
    """Return history, tombstones and operations: in the store's file where it has one, else in the process."""
    if history is not None and not isinstance(history, ThreadedHistory):
        raise ArgumentError("history", history, "an InMemoryHistory or a SqliteHistory is needed")
    database = None if store is None else store.database
    if database is None:
        return history or InMemoryHistory(clock=clock), InMemoryTombstones(), InMemoryOperations()
    from memory.forgotten.tombstone_tables import SqliteTombstones
    from memory.storage.sqlite import SqliteHistory
    from memory.write.operation_tables import SqliteOperations

    kept = history or SqliteHistory(database, clock=clock)
    return kept, SqliteTombstones(database), SqliteOperations(database)


def _keys_beside(store: LifecycleStore | None) -> Keys:
    database = None if store is None else store.database
    if database is None:
        return InMemoryKeys()
    from memory.write.key_tables import SqliteKeys

    return SqliteKeys(database)


def _segments_beside(store: LifecycleStore | None) -> SqliteSegments | None:
    """Return where what recall derives is kept: in the store's file where it has one."""
    database = None if store is None else store.database
    if store is None or database is None:
        return None
    return SqliteSegments(database, lambda since: store.changes(since, namespace=since.namespace))


def _held_beside(store: LifecycleStore | None) -> Held:
    """Return where what is forgotten waits for the end of its time of grace: in the store's file where it has one."""
    database = None if store is None else store.database
    if database is None:
        return InMemoryHeld()
    from memory.forgotten.held_tables import SqliteHeld

    return SqliteHeld(database)
