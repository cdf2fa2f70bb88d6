"""Reader of memory and documents: history, pinned memories, and recalled items for a prompt.

Failures of reading are returned, not raised. Storing a turn is ``turn_store``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from agent.context.history_reader import HistoryReader, SessionHistory
from agent.context_items import ContextItem, item_from_hit, item_from_passage
from agent.usage import UsageLedger
from memory import Hit, Memory, RecallResult
from memory.internals import Omitted, Passages

if TYPE_CHECKING:
    from memory import LongTermMemory
    from vectorstore import Analyzer

T = TypeVar("T")

NOT_SENSITIVE_FILTER = {"sensitive": {"$ne": True}}
"""What a remote model is shown of the memory, unless the setting allows more."""
_CONTEXT_TURNS = 3
"""What the user said last, for a question that leans on it."""
_BELOW_LIMIT = "below the first {k} of what was found"
_FROM_DOUBTFUL_SOURCE = "found where nothing seemed to be about it, while the other source was sure"


class PassageRetriever(Protocol):
    """Documents that passages can be retrieved from, such as ``memory.KnowledgeBase``."""

    async def retrieve(self, question: str, k: int = 5) -> Passages:
        """Return the passages that are most about *question*, best first."""
        ...


@dataclass(frozen=True, slots=True)
class GatheredContext:
    """What was read. *pinned* come most important first, then newest; *recalled* best first, *left_out* is what was
    found beside them, *searched* how many there were to find (None: not known). *problems* are what could not be read,
    *notes* what recall did differently than asked."""

    said: SessionHistory = field(default_factory=SessionHistory)
    pinned: tuple[ContextItem, ...] = ()
    recalled: tuple[ContextItem, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    abstain: Literal["nothing", "other"] | None = None
    searched: int | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[Exception, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """Reads, for each prompt: the session's history, the pinned memories, and *k* memories and passages about it."""

    memory: LongTermMemory | None
    sessions: HistoryReader
    knowledge: PassageRetriever | None
    namespace: str = ""
    k: int = 10
    sensitive: bool = True
    """Whether memories that were marked sensitive may be shown to the model."""

    @property
    def analyzer(self) -> Analyzer | None:
        """What makes words comparable in the memory; None where it has none of its own."""
        from vectorstore import lifecycle_of

        store = None if self.memory is None else lifecycle_of(self.memory.store)
        return None if store is None else store.analyzer

    async def gather(self, question: str, session: str, ledger: UsageLedger | None = None) -> GatheredContext:
        """Read the conversation, then all else at once; what fails is left out and named.

        What a model is asked for it, such as a summary of what left the window, is counted in *ledger*.
        """
        no_memories: Sequence[Memory] = ()
        said, lost = await _value_or_error(lambda: self.sessions.read(session, ledger), SessionHistory())
        before = said.last_of_the_user(_CONTEXT_TURNS)
        read = await asyncio.gather(
            _value_or_error(self._pinned, no_memories),
            _value_or_error(lambda: self._memories(question, before), RecallResult(())),
            _value_or_error(lambda: self._passages(question), Passages(())),
        )
        pinned, found, passages = read[0][0], read[1][0], read[2][0]
        problems = tuple(problem for problem in (lost, *(problem for _, problem in read)) if problem is not None)
        recalled, lost_items, abstain = self._merged(found, passages)
        scores = {item.id: item.score for item in recalled}
        # Pinned ones are numbered first: so their block stays the same from turn to turn.
        profile = tuple(
            item_from_hit(Hit(one, scores.get(one.id, 0.0)), number) for number, one in enumerate(pinned, start=1)
        )
        return GatheredContext(
            said=said,
            pinned=profile,
            recalled=tuple(replace(item, number=n) for n, item in enumerate(recalled, start=len(profile) + 1)),
            left_out=(*found.left_out, *lost_items),
            abstain=abstain,
            searched=found.searched if self.memory is not None and self.knowledge is None else None,
            notes=tuple(dict.fromkeys((*said.notes, *found.notes, *passages.notes))),
            problems=problems,
        )

    async def _pinned(self) -> Sequence[Memory]:
        found = () if self.memory is None else await self.memory.pinned(namespace=self.namespace)
        return [one for one in found if self.sensitive or not one.sensitive]

    async def _memories(self, question: str, before: Sequence[str]) -> RecallResult:
        if self.memory is None or not question.strip():
            return RecallResult(())
        return await self.memory.recall(
            question, self.k, context=before, namespace=self.namespace, where=self._shown or None
        )

    @property
    def _shown(self) -> dict[str, Any]:
        return {} if self.sensitive else dict(NOT_SENSITIVE_FILTER)

    async def _passages(self, question: str) -> Passages:
        if self.knowledge is None or not question.strip():
            return Passages(())
        return await self.knowledge.retrieve(question, self.k)

    def _merged(
        self, found: RecallResult, passages: Passages
    ) -> tuple[list[ContextItem], list[Omitted], Literal["nothing", "other"] | None]:
        """Return items of both, best first, each once, and what is left out of them. One side that has nothing about
        it yields to the other."""
        sides = []
        if self.memory is not None:
            sides.append(([item_from_hit(hit, 0) for hit in found], found.abstain))
        if self.knowledge is not None:
            sides.append(([item_from_passage(passage) for passage in passages], passages.abstain))
        sure = [side for side in sides if side[0] and side[1] is None]
        chosen = sure or sides
        by_id: dict[str, ContextItem] = {}
        for item in (item for side, _ in chosen for item in side):
            by_id.setdefault(item.id, item)
        ranked = sorted(by_id.values(), key=lambda item: -item.score)
        lost = {item.id: _BELOW_LIMIT.format(k=self.k) for item in ranked[self.k :]}
        for item in (item for side in sides if side not in chosen for item in side[0]):
            if item.id not in by_id:
                lost[item.id] = _FROM_DOUBTFUL_SOURCE
        doubts = [abstain for _, abstain in chosen if abstain is not None]
        left_out = [Omitted(id, reason) for id, reason in lost.items()]
        return ranked[: self.k], left_out, None if sure or not doubts else max(doubts)


async def _value_or_error(reading: Callable[[], Awaitable[T]], instead: T) -> tuple[T, Exception | None]:
    try:
        return await reading(), None
    except Exception as error:  # a store, an embedder, a disk: the run goes on without, and says so
        return instead, error
