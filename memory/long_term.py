"""Long-term memory: what was said or noted is kept, found again, corrected and forgotten.

The face over the write path (``memory.write``), conversation history (``memory.storage``) and recall
(``memory.recall``). What lists, changes and erases, and what is about vectors, is in ``listing``, ``revising``,
``erasing`` and ``reembedding``, parts of the same face. Not conversation windows (``short_term``) and not the reading
of documents (``rag``).

    >>> memory = LongTermMemory(open_store("numpy:"))
    >>> run_sync(memory.remember("I moved to Lisbon in May.")).outcome
    <Outcome.STORED: 'stored'>
    >>> run_sync(memory.recall("Where did I move?"))[0].memory.text
    'I moved to Lisbon in May.'
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import TypeAlias, TypeVar, Unpack

from memory.codec import from_entry
from memory.embedders.protocol import Embedder, WordVectors
from memory.erasing import Erasing
from memory.errors import ArgumentError, DuplicateKey
from memory.lanes import ARCHIVE, CONVERSATION, DOCUMENTS, store_namespace
from memory.listing import Listing
from memory.messages import Message
from memory.moving import Moving
from memory.recall.query import Query, RecallOptions
from memory.recall.recall import Recaller
from memory.recall.settings import RecallSettings
from memory.records import Found, Memory, Report, WhyNot
from memory.reembedding import Reembedding
from memory.revising import Revising
from memory.scopes import Scopes, filter_of
from memory.storage.in_memory import InMemoryHistory
from memory.storage.protocol import HistoryStorage
from memory.storage.rows import ThreadedHistory
from memory.times import Clock, aware, system_clock
from memory.tokens import default_counter
from memory.write import pending, remembering, turns
from memory.write.cached_vectors import CachedVectors
from memory.write.checking import names, texts
from memory.write.context import WriteContext
from memory.write.embedding import Embedding
from memory.write.embedding_settings import EmbeddingSettings
from memory.write.held import Held, InMemoryHeld
from memory.write.ids import TimeOrderedIds
from memory.write.judging import Rules
from memory.write.operations import InMemoryOperations, Operations
from memory.write.policies import OnFailure, WritePolicy
from memory.write.summary_eraser import SummaryEraser
from memory.write.tombstones import InMemoryTombstones, Tombstones
from vectorstore import Filter, SpaceChanged, VectorStore, VectorStoreError

Memories: TypeAlias = list[Memory]
T = TypeVar("T")
_Notes: TypeAlias = list[str]
_Answers: TypeAlias = list[Memory | None]


class LongTermMemory(Listing, Revising, Erasing, Moving, Reembedding):
    """Everything that is remembered, in one store. Any task and thread may call; store work runs in a thread.

    A call that writes and is cancelled may or may not have written: repeat it with a ``key``, or look.

    On a store in a file, history and tombstones live in the same file (and in its transactions); on another
    they live in the process. Public attributes, for parts built on it: ``store``, ``conversations`` (the
    history), ``embedder``, ``word_vectors``, ``embedding`` (``await embedding.vectors(texts)`` never fails
    a write), ``tombstones`` (``tombstones.key``: the secret of this file), ``clock``, ``zone``, ``policies``,
    ``recall_settings``;
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
        counter: Callable[[str], int] | None = None,
        offline: bool = False,
    ) -> None:
        """*counter* counts tokens for budgets; None is the default one, kept off the network by *offline*.

        *on_policy_failure* says what becomes of a memory that a write policy fails on: "store" keeps it as it was,
        "reject" leaves it out (what was said is in history either way).
        """
        conversations, tombstones, operations = _beside(store, history, clock)
        self.store = store
        self.word_vectors = word_vectors
        self.embedding = Embedding(store, embedder, settings=embedding_settings)
        self.conversations: HistoryStorage = conversations
        self.tombstones = tombstones
        self.clock = clock
        self.zone = zone
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
            clock=clock,
            ids=ids or TimeOrderedIds(clock=clock),
            operation_ids=operation_ids or TimeOrderedIds(clock=clock),
            zone=zone,
            held=_held_beside(store),
            erasers=[SummaryEraser(conversations.rows), CachedVectors(self.embedding)],
        )
        self.erasers, self.carried = self._context.erasers, self._context.carried
        self._next_due = self._context.held.next_due()
        self._recaller = Recaller(store, word_vectors=word_vectors, zone=zone, settings=self.recall_settings)
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

        The same as ``remember`` on each, but that a key used with another text is a line (rejected) and
        raises nothing. A bad item raises before its batch is written. ``on_progress`` gets the number done
        so far.
        """
        store_namespace(namespace, CONVERSATION)
        reports = await remembering.remember_stream(self._context, items, namespace, on_progress)
        await self._catch_up(reports, namespace)
        return reports

    async def remember_turn(
        self, session: str, messages: Sequence[Message], *, namespace: str = "", used: Sequence[str] = ()
    ) -> list[Report]:
        """Append *messages* to the history of *session* and remember what was said, in one transaction.

        One report a message, in order; tool and system messages, and those without text or media, are kept in
        history only (rejected, with the reason). *used*: ids of the memories that an answer was made with; they are
        named when one is forgotten. An answer whose metadata has "quotes" (ids of memories) stays in history
        only and is forgotten with what it quotes.
        """
        store_namespace(namespace, CONVERSATION)
        reports = await turns.remember_turn(self._context, session, messages, namespace, used)
        await self._catch_up(reports, namespace)
        return reports

    async def recall(
        self,
        question: str,
        k: int = 10,
        *,
        context: Sequence[str] = (),
        namespace: str | Sequence[str] = "",
        where: Filter | None = None,
        tags: Sequence[str] = (),
        scopes: Scopes | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        token_budget: int | None = None,
        counter: Callable[[str], int] | None = None,
        explain: bool = False,
        lanes: Sequence[str] = (CONVERSATION, DOCUMENTS),
        collections: Sequence[str] | None = None,
    ) -> Found:
        """Find what is remembered about *question*, best first.

        *context* is what was said before, oldest first: a question that leans on it ("and when was that?") is asked
        together with it. Several namespaces are searched when several are named, each ranked by its own statistics.
        *tags*: any of them; *scopes*: all of them, as ``{"project": "atlas"}`` or with a list of values for any.
        *as_of* asks for what held then, *known_at* for what was recorded by then. Without an embedder, or when it
        fails, words alone decide. ``Found.notes`` say what was done so.
        """
        query, notes = await self._asked(
            question,
            k,
            context=context,
            namespace=namespace,
            where=where,
            tags=tags,
            scopes=scopes,
            as_of=as_of,
            known_at=known_at,
            token_budget=token_budget,
            counter=counter,
            explain=explain,
            lanes=lanes,
            collections=collections,
        )
        found, problem = await self._searched(self._recaller.recall, query)
        notes += [problem] if problem is not None else []
        return replace(found, notes=(*found.notes, *notes)) if notes else found

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """Say why ``recall(question, k, **options)`` does not give the memory *id*, or at which place it does.

        The answer names the first stage that stopped it and its places by words, by vector and in the ranking.
        A store with data alone raises ``UnsupportedError``.
        """
        (name,) = names([id], "id")
        query, _ = await self._asked(question, k, **options)
        answer, _ = await self._searched(lambda query: self._recaller.why_not(query, name), query)
        return answer

    async def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Memory | None]:
        """Return memories, document passages and archived versions ("id@revision") in the order of *ids*."""
        return await asyncio.to_thread(self._get, names(ids, "ids"), namespace)

    async def complete(self) -> int:
        """Remember what history holds and memory lacks, what was forgotten apart; return how many."""
        return await asyncio.to_thread(self.complete_now)

    def complete_now(self) -> int:
        """As ``complete``, in this thread; ``open_memory`` runs it. What is due to be erased is erased, too."""
        self.erase_due()
        return turns.complete(self._context)

    async def __aenter__(self) -> LongTermMemory:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _searched(self, search: Callable[[Query], T], query: Query) -> tuple[T, str | None]:
        """Search; once more where the file was switched to other vectors, with those, or a note that there are none."""
        try:
            return await asyncio.to_thread(search, query), None
        except SpaceChanged:
            await asyncio.to_thread(self.embedding.follow)
            vectors, problem = await self.embedding.queries([*query.vectors])
            return await asyncio.to_thread(search, replace(query, vectors=vectors)), problem

    async def _asked(
        self, question: str, k: int, *, explain: bool = False, **options: Unpack[RecallOptions]
    ) -> tuple[Query, _Notes]:
        """Return what is asked, with the vectors of its wordings; noted is what it leans on, and if there are none."""
        namespace, counter = options.get("namespace", ""), options.get("counter")
        collections, as_of, known_at = options.get("collections"), options.get("as_of"), options.get("known_at")
        query = Query(
            text=question,
            now=aware(self.clock(), self.zone),
            namespaces=(namespace,) if isinstance(namespace, str) else tuple(namespace),
            lanes=tuple(options.get("lanes", (CONVERSATION, DOCUMENTS))),
            collections=None if collections is None else tuple(collections),
            k=k,
            where=filter_of(options.get("scopes"), (), options.get("where")),
            tags=names(options.get("tags", ()), "tags"),
            as_of=None if as_of is None else aware(as_of, self.zone, argument="as_of"),
            known_at=None if known_at is None else aware(known_at, self.zone, argument="known_at"),
            token_budget=options.get("token_budget"),
            counter=self._count if counter is None else counter,
            explain=explain,
        )
        leant_on = self._recaller.leant_on(question, texts(options.get("context", ()), "context"))
        query = replace(query, context=leant_on)
        wordings = await asyncio.to_thread(
            self._recaller.wordings, query.asked, namespaces=query.namespaces, lanes=query.lanes
        )
        vectors, problem = await self.embedding.queries(wordings)
        notes = [f"asked together with what it leans on: {' / '.join(leant_on)}"] if leant_on else []
        return replace(query, vectors=vectors), [*notes, problem] if problem is not None else notes

    async def _found_for(self, query: str, k: int, namespace: str) -> _Notes:
        return [hit.memory.id for hit in await self.recall(query, k, namespace=namespace)]

    def _get(self, ids: Sequence[str], namespace: str) -> _Answers:
        found = {one: entry for one, (_, entry) in self._context.find(ids, namespace).items()}
        if old := [one for one in ids if one not in found and "@" in one]:
            archived = self.store.get(old, namespace=store_namespace(namespace, ARCHIVE))
            found.update({entry.id: entry for entry in archived if entry is not None})
        return [from_entry(found[one]) if one in found else None for one in ids]

    def _count(self, text: str) -> int:
        if self._counter is None:
            self._counter = default_counter(offline=self._offline).count
        return self._counter(text)

    async def _catch_up(self, reports: Sequence[Report], namespace: str) -> None:
        """After a write that was embedded: a batch of what is pending, since the embedder works (again)."""
        if self._something_is_due():
            await asyncio.to_thread(self.erase_due)
        if self.embedder is None or any(report.deferred for report in reports):
            self._caught_up.discard(namespace)
        elif namespace not in self._caught_up:
            try:
                filled = await pending.flush(self._context, namespace, limit=pending.BATCH, patient=False)
            except VectorStoreError:  # the write itself is done and must not seem failed; this is tried again
                return
            if not filled:
                self._caught_up.add(namespace)


def _beside(
    store: VectorStore, history: HistoryStorage | None, clock: Clock
) -> tuple[ThreadedHistory, Tombstones, Operations]:
    """Return history, tombstones and operations: in the store's file where it has one, else in the process."""
    if history is not None and not isinstance(history, ThreadedHistory):
        raise ArgumentError("history", history, "an InMemoryHistory or a SqliteHistory is needed")
    database = getattr(store, "database", None)
    if database is None:
        return history or InMemoryHistory(clock=clock), InMemoryTombstones(), InMemoryOperations()
    from memory.storage.sqlite import SqliteHistory
    from memory.write.operation_tables import SqliteOperations
    from memory.write.tombstone_tables import SqliteTombstones

    kept = history or SqliteHistory(database, clock=clock)
    return kept, SqliteTombstones(database), SqliteOperations(database)


def _held_beside(store: VectorStore) -> Held:
    """Return where what is forgotten waits for the end of its time of grace: in the store's file where it has one."""
    database = getattr(store, "database", None)
    if database is None:
        return InMemoryHeld()
    from memory.write.held_tables import SqliteHeld

    return SqliteHeld(database)
