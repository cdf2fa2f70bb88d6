"""Reader of memory and documents: history, pinned memories, and recalled items for a prompt.

Failures of reading are returned, not raised. Storing a turn is ``turn_store``.

The history of a session is read as a model is shown it: an answer that consists of quotes is stored as references, and
gets its present text here. A conversation policy, which keeps something of its own such as a summary, reads the session
itself; a read policy is applied later, within the budget.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from tellback.agent.agent_memory import NOT_SENSITIVE_FILTER, AgentMemory, MemoryOptions, PassageRetriever
from tellback.agent.context_items import ContextItem, item_from_hit, item_from_passage, with_standing
from tellback.agent.errors import ArgumentError
from tellback.agent.results import ErrorRecord, MemoryAccess, MemoryPart
from tellback.agent.turn_store import with_quoted_words
from tellback.memory import (
    Hit,
    Memory,
    Message,
    RecallResult,
    TokenCounter,
    TokenWindow,
    WindowPolicy,
)
from tellback.memory.internals import (
    Clock,
    Conversation,
    ConversationWindowPolicy,
    FullWindow,
    Omitted,
    Passages,
    StoredMessage,
    redact_secrets,
    system_clock,
    to_zone,
)

if TYPE_CHECKING:
    from tellback.memory import HistoryStorage
    from tellback.vectorstore import Analyzer, Filter

NO_SEQUENCE = -1
"""Sequence of a message that is a policy's own, such as a summary."""


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """*messages* with their *sequences* in the session (``NO_SEQUENCE``: a policy's own), how many messages were left
    out before them (*dropped*), and *notes* on what the policy did differently than asked; *degraded* are those among
    them that tell of a failure."""

    messages: tuple[Message, ...] = ()
    sequences: tuple[int, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    def last_user_texts(self, count: int) -> list[str]:
        """Return the last *count* texts of the user, oldest first."""
        numbered = zip(self.messages, self.sequences, strict=True)
        texts = [message.text for message, number in numbered if message.role == "user" and number != NO_SEQUENCE]
        return texts[-count:]


def history_bound(window: WindowPolicy | None, budget: int | None, counter: TokenCounter) -> WindowPolicy:
    """Return the policy that bounds how much of a conversation can be shown: *window*, else a *budget* of tokens."""
    if window is None:
        return FullWindow() if budget is None else TokenWindow(budget, counter)
    if isinstance(window, type) or not isinstance(window, WindowPolicy):
        raise ArgumentError("window", window, "a read policy is needed, such as FixedWindow(turns=20), or None")
    return window


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads sessions of *memory*, or of a *history* alone: the messages that *policy* reads, or else the newest ones.

    The newest *limit* messages are read, and more as long as *bound* (None: no more), which chooses from them later,
    would leave none of them out. System messages are always read.
    """

    memory: AgentMemory | None
    history: HistoryStorage | None
    policy: WindowPolicy | None
    namespace: str = ""
    limit: int = 200
    bound: WindowPolicy | None = None

    async def read(self, session: str) -> SessionHistory:
        """Return the history of *session*."""
        storage = self.history if self.memory is None else self.memory.conversations
        if storage is None:
            return SessionHistory()
        if isinstance(self.policy, ConversationWindowPolicy):
            return await self._read_with_policy(self.policy, storage, session)
        newest, notes = await self._newest(storage, session)
        stored = await with_quoted_words(newest, self.memory, self.namespace)
        messages = tuple(item.message for item in stored)
        return SessionHistory(messages, tuple(item.sequence for item in stored), notes=notes)

    async def _newest(self, storage: HistoryStorage, session: str) -> tuple[list[StoredMessage], tuple[str, ...]]:
        """Return the newest messages that may be shown, and a note where there are older ones."""
        limit = self.limit
        while True:
            stored = await storage.load(session, limit=limit + 1, namespace=self.namespace)
            if len(stored) <= limit:
                return stored, ()
            stored = stored[1:]
            # References to quoted words are shorter here than the words: rather too many are read than too few.
            if self.bound is None or self.bound.apply([item.message for item in stored]).dropped:
                break
            limit *= 4
        first = stored[0].sequence
        system = await storage.load(session, roles=["system"], namespace=self.namespace)
        earlier = [message for message in system if message.sequence < first]
        return [*earlier, *stored], (f"of this conversation, nothing before its message {first} was looked at",)

    async def _read_with_policy(
        self, policy: ConversationWindowPolicy, storage: HistoryStorage, session: str
    ) -> SessionHistory:
        by_identity: dict[int, StoredMessage] = {}  # holds the messages, so that no id is used again

        async def with_quotes(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
            shown = await with_quoted_words(stored, self.memory, self.namespace)
            by_identity.update((id(item.message), item) for item in shown)
            return shown

        window = await policy.window(Conversation(storage, session, self.namespace, with_quotes))
        stored = [by_identity.get(id(message)) for message in window.messages]
        sequences = tuple(NO_SEQUENCE if item is None else item.sequence for item in stored)
        return SessionHistory(window.messages, sequences, window.dropped, window.notes, window.degraded)


T = TypeVar("T")

_CONTEXT_TURNS = 3
"""Number of the user's last texts that a question may lean on."""
_BELOW_LIMIT = "below the first {k} of what was found"
_BELOW_SHARE = "scored below {share:.0%} of the best"
_NOTHING_NEAR = "nothing was near"
_DOUBTS: Final[Sequence[Literal["nothing", "other"]]] = ("nothing", "other")
"""Doubts, the widest first: what may not be about the question at all may also be about somebody else."""
_FROM_DOUBTFUL_SOURCE = "found where nothing seemed to be about it, while the other source was sure"


DEFAULT_RELEVANCE_FLOOR = 0.3
"""Share of the best score below which an item is left out."""
_SMALL_MEMORY = 20
"""Memories up to which the best one is never left out: reading it costs less than missing it."""


def above_floor(
    items: Sequence[ContextItem], result: RecallResult | Passages, *, share: float, searched: int | None = None
) -> tuple[list[ContextItem], list[Omitted]]:
    """Return the items above the floor, in their order, and those below it with the reason.

    Items that score less than *share* of the best are left out, and all items where *result*, from which they come,
    doubts that any is near. *searched* is the number of items that were searched (None: not known); in a small memory
    the best one always stays. A *share* of 0 leaves nothing out.
    """
    best = max((item.score for item in items), default=0.0)
    if best <= 0 or not share:
        return list(items), []
    lowest, reason = best * share, _BELOW_SHARE.format(share=share)
    if result.abstain is not None and not (result.near and (result.confidence or result.abstain == "other")):
        lowest, reason = best, _NOTHING_NEAR
        if searched is None or searched > _SMALL_MEMORY:
            return [], [Omitted(item.id, reason) for item in items]
    kept = [item for item in items if item.score >= lowest]
    return kept, [Omitted(item.id, reason) for item in items if item.score < lowest]


@dataclass(frozen=True, slots=True)
class GatheredContext:
    """History and memories read for a prompt. *pinned* come most important first, then newest, *recalled* best first.

    *left_out* was found beside them, *searched* is the number that there were to find (None: not known). *accesses* are
    the reads with their times and problems, *errors* the exceptions of those that failed, *notes* what recall did
    differently than asked. *likely*: the best item rather answers than not.
    """

    history: SessionHistory = field(default_factory=SessionHistory)
    pinned: tuple[ContextItem, ...] = ()
    recalled: tuple[ContextItem, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    abstain: Literal["nothing", "other"] | None = None
    likely: bool = True
    searched: int | None = None
    notes: tuple[str, ...] = ()
    accesses: tuple[MemoryAccess, ...] = ()
    errors: tuple[Exception, ...] = ()


@dataclass(slots=True, eq=False)
class ReadRecorder:
    """Recorder of the reads of one run: *accesses* with their times and problems, *errors* of those that failed.

    *timer* gives the seconds since the run began.
    """

    timer: Callable[[], float] = time.monotonic
    accesses: list[MemoryAccess] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def read(self, part: MemoryPart, read: Callable[[], Awaitable[T]], default: T, *, when: bool = True) -> T:
        """Return the result of *read*, or *default* where it fails or *when* is False."""
        if not when:
            return default
        began, count, problem, record = self.timer(), 0, "", None
        try:
            value = await read()
            items = value.messages if isinstance(value, SessionHistory) else value
            count = len(items) if isinstance(items, Sequence) else 0
            problem, _ = redact_secrets("; ".join(getattr(value, "degraded", ())))
            return value
        except Exception as error:  # a store, an embedder, a disk: the run goes on without, and says so
            self.errors.append(error)
            record = ErrorRecord.of(error)
            problem = str(record)
            return default
        except asyncio.CancelledError:
            problem = "it had no answer yet when the run ended"
            raise
        finally:
            self.accesses.append(MemoryAccess(part, began, self.timer() - began, count, problem, record))


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """Reads for each prompt the session's history, the pinned memories, and *k* memories and passages about it."""

    memory: AgentMemory | None
    sessions: HistoryReader
    knowledge: PassageRetriever | None
    namespace: str = ""
    k: int = 10
    sensitive: bool = True
    """Show memories marked sensitive to the model."""
    floor: float = DEFAULT_RELEVANCE_FLOOR
    """Share of the best score below which an item is left out."""
    options: MemoryOptions = field(default_factory=MemoryOptions)
    knows_user: bool = False
    """Show name, home and work of the user with the pinned memories."""
    zone: tzinfo | None = None
    """Time zone of the days shown with items; None: that of the machine."""
    clock: Clock = system_clock

    @property
    def analyzer(self) -> Analyzer | None:
        """Analyzer of the memory's store; None where it has none of its own."""
        from tellback.vectorstore import lifecycle_of

        store = None if self.memory is None else lifecycle_of(self.memory.store)
        return None if store is None else store.analyzer

    async def gather(self, question: str, session: str, *, recorder: ReadRecorder | None = None) -> GatheredContext:
        """Read the conversation, then all else at once; a read that fails is left out, and its error returned.

        *recorder* has the reads so far, also where this is cancelled.
        """
        recorder = ReadRecorder() if recorder is None else recorder
        no_memories: Sequence[Memory] = ()
        has_memory, is_asked = self.memory is not None, bool(question.strip())
        history = await recorder.read(
            "history",
            lambda: self.sessions.read(session),
            SessionHistory(),
            when=has_memory or self.sessions.history is not None,
        )
        earlier = history.last_user_texts(_CONTEXT_TURNS)
        pinned, recall, passages = await asyncio.gather(
            recorder.read("profile", self._about_user, no_memories, when=has_memory),
            recorder.read(
                "recall", lambda: self._recall(question, earlier), RecallResult(()), when=has_memory and is_asked
            ),
            recorder.read(
                "knowledge",
                lambda: self._retrieve(question),
                Passages(()),
                when=self.knowledge is not None and is_asked,
            ),
        )
        recalled, left_out, abstain = self._merge(recall, passages)
        scores = {item.id: item.score for item in recalled}
        # Pinned ones are numbered first, so that their block stays the same from turn to turn.
        profile = [item_from_hit(Hit(memory, scores.get(memory.id, 0.0)), 0) for memory in pinned]
        beside = with_standing((*profile, *recalled), self.zone, today=to_zone(self.clock(), self.zone))
        beside[: len(profile)] = [replace(item, standing="") for item in beside[: len(profile)]]  # that may change
        numbered = [replace(item, number=number) for number, item in enumerate(beside, start=1)]
        return GatheredContext(
            history=history,
            pinned=tuple(numbered[: len(profile)]),
            recalled=tuple(numbered[len(profile) :]),
            left_out=(*recall.left_out, *left_out),
            abstain=abstain,
            likely=recall.likely or not recalled or recalled[0].lane == "documents",
            searched=recall.searched if self.memory is not None and self.knowledge is None else None,
            notes=tuple(dict.fromkeys((*history.notes, *recall.notes, *passages.notes))),
            accesses=tuple(sorted(recorder.accesses, key=lambda access: access.began)),
            errors=tuple(recorder.errors),
        )

    async def _about_user(self) -> Sequence[Memory]:
        memories = () if self.memory is None else await self.memory.pinned(namespace=self.namespace)
        admitted = [memory for memory in memories if self._admits(memory)]
        if self.memory is None or not self.knows_user:
            return admitted
        shown = {memory.id for memory in admitted}
        # One of each attribute: the newest, unless it has ended.
        profile = await self.memory.profile(namespace=self.namespace, limit=1, attributes=True, where=self._where())
        own = {entry.memory.id: entry.memory for entry in profile if entry.until is None}
        return [*admitted, *(memory for id, memory in own.items() if id not in shown and self._admits(memory))]

    def _admits(self, memory: Memory) -> bool:
        return self.options.admits(memory) and (self.sensitive or not memory.sensitive)

    async def _recall(self, question: str, earlier: Sequence[str]) -> RecallResult:
        if self.memory is None or not question.strip():
            return RecallResult(())
        options = self.options.recall_options()
        options |= {"context": earlier, "namespace": self.namespace, "where": self._where()}
        return await self.memory.recall(question, self.k, **options)

    def _where(self) -> Filter | None:
        filters = [self.options.where, None if self.sensitive else NOT_SENSITIVE_FILTER]
        conditions = [condition for condition in filters if condition is not None]
        return {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)

    async def _retrieve(self, question: str) -> Passages:
        if self.knowledge is None or not question.strip():
            return Passages(())
        return await self.knowledge.retrieve(question, self.k)

    def _merge(
        self, recall: RecallResult, passages: Passages
    ) -> tuple[list[ContextItem], list[Omitted], Literal["nothing", "other"] | None]:
        """Return the items of both sources, best first, each once, those left out, and the reason to abstain.

        A source that abstains yields to one that does not. Where both do, the doubt is one that holds for all items.
        """
        sources = []
        if self.memory is not None:
            items = [item_from_hit(hit, 0) for hit in recall]
            searched = recall.searched if self.knowledge is None else None
            sources.append((*above_floor(items, recall, share=self.floor, searched=searched), recall.abstain))
        if self.knowledge is not None:
            items = [item_from_passage(passage) for passage in passages]
            sources.append((*above_floor(items, passages, share=self.floor), passages.abstain))
        sure = [source for source in sources if source[0] and source[2] is None]
        chosen = sure or sources
        by_id: dict[str, ContextItem] = {}
        for item in (item for items, _, _ in chosen for item in items):
            by_id.setdefault(item.id, item)
        ranked = sorted(by_id.values(), key=lambda item: -item.score)
        reasons = {item.id: _BELOW_LIMIT.format(k=self.k) for item in ranked[self.k :]}
        for item in (item for source in sources if source not in chosen for item in source[0]):
            if item.id not in by_id:
                reasons[item.id] = _FROM_DOUBTFUL_SOURCE
        doubts = {abstain for items, _, abstain in chosen if items} or {abstain for _, _, abstain in chosen}
        below = [omitted for _, omitted_items, _ in sources for omitted in omitted_items if omitted.id not in by_id]
        left_out = [*(Omitted(id, reason) for id, reason in reasons.items()), *below]
        return ranked[: self.k], left_out, None if sure else next(filter(doubts.__contains__, _DOUBTS), None)
