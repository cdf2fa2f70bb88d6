"""Similar memories: the stored ones that are most like one to be written, as a write policy may see them.

Two memories are compared by their vectors where both have one, else by their words. A batch is looked up at once,
before the policies see the first of it: the store does not change while they run.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.codec import entry_text, from_entry
from memory.models import Memory
from memory.partitions import CONVERSATION, store_namespace
from memory.timestamps import to_aware
from memory.write.access_control import may_embed
from memory.write.context import WriteContext
from memory.write.embedding_service import EmbeddingResult
from memory.write.policies import SimilarMemory
from vectorstore import Entry, Filter, Vector, VectorStore, lifecycle_of

_WORD: Final = re.compile(r"\w+")
_ROUNDING: Final = 1e-5
"""More than a product of many rows and one of two differ by; what is this near the limit is computed by itself."""
_EXPIRED_SCORE: Final = -1.0
ComparisonKey: TypeAlias = tuple[str | None, ...]
"""Kind, role and speaker: only what agrees in all of them is compared."""


def comparison_key(memory: Memory) -> ComparisonKey:
    """Return what a memory must share with another one to be compared with it."""
    return (memory.kind, memory.role, memory.speaker)


class ComparedMemory:
    """A memory as it is compared: its vector of length 1 where it has one, else its words, read when they are asked."""

    __slots__ = ("_entry", "_memory", "_words", "vector")

    def __init__(self, vector: Vector | None, *, memory: Memory | None = None, entry: Entry | None = None) -> None:
        norm = 0.0 if vector is None else float(np.linalg.norm(vector))
        self.vector = vector / norm if vector is not None and norm else None
        self._memory, self._entry = memory, entry
        self._words: frozenset[str] | None = None

    @property
    def memory(self) -> Memory:
        """The memory itself."""
        if self._memory is None:
            assert self._entry is not None
            self._memory = from_entry(self._entry)
        return self._memory

    @property
    def words(self) -> frozenset[str]:
        """Its words, whatever their case."""
        if self._words is None:
            self._words = frozenset(_WORD.findall(self.memory.text.casefold()))
        return self._words

    def holds(self, now: datetime) -> bool:
        """Whether it has neither expired nor ended."""
        return all(end is None or end > now for end in (self.memory.expires_at, self.memory.valid_to))

    def near(self, other: ComparedMemory) -> SimilarMemory:
        """Return how like *other* is: the cosine in [0, 1], or the share of all words of both that both hold."""
        if self.vector is not None and other.vector is not None and len(self.vector) == len(other.vector):
            cosine = float(np.dot(self.vector, other.vector))
            return SimilarMemory(other.memory, min(max(cosine, 0.0), 1.0), "meaning")
        every = self.words | other.words
        return SimilarMemory(other.memory, len(self.words & other.words) / len(every) if every else 1.0, "words")


class ComparedGroup:
    """Memories of one key, in a matrix where they have vectors, so that one is held against all of them at once."""

    def __init__(self) -> None:
        self._with: list[ComparedMemory] = []
        self._without: list[ComparedMemory] = []
        self._ending: list[int] = []
        self._matrix: NDArray[np.float32] | None = None

    def add(self, one: ComparedMemory) -> None:
        """Put *one* at the end."""
        if one.vector is None or (self._matrix is not None and len(one.vector) != self._matrix.shape[1]):
            self._without.append(one)
            return
        at, before = len(self._with), self._matrix
        if before is None or at == len(before):
            before = self._matrix = np.concatenate(
                [*([] if before is None else [before]), np.empty((max(at, 64), len(one.vector)), np.float32)]
            )
        before[at] = one.vector
        self._with.append(one)
        if one.memory.expires_at is not None or one.memory.valid_to is not None:
            self._ending.append(at)

    def like(self, asked: ComparedMemory, k: int, now: datetime) -> list[ComparedMemory]:
        """Return those that hold *now* and may be among the *k* most like *asked*, and perhaps some more."""
        found = [one for one in self._without if one.holds(now)]
        if self._matrix is None:
            return found
        if asked.vector is None or len(asked.vector) != self._matrix.shape[1]:
            return [*found, *(one for one in self._with if one.holds(now))]
        scores = np.clip(self._matrix[: len(self._with)] @ asked.vector, 0.0, 1.0)
        scores[[place for place in self._ending if not self._with[place].holds(now)]] = _EXPIRED_SCORE
        least = np.partition(scores, -k)[-k] - _ROUNDING if k < len(scores) else 0.0
        return [*found, *(self._with[place] for place in np.flatnonzero(scores >= max(least, 0.0)))]


_DEFAULT_COUNT: Final = 5
_EXTRA_CANDIDATES: Final = 8
"""So many more than asked for are looked at, since some have expired or are another's words."""
_LookupKey: TypeAlias = tuple[str, str, ComparisonKey]
"""The text of a memory, the text that is embedded of it, and its key."""


@dataclass(slots=True)
class SimilarMemoryLookup:
    """``MemoryLookup`` over one namespace, for one batch: what is in the store, and what the batch adds before it is
    written.

    ``ready`` are the answers for texts that were embedded for it, so that they need not be embedded again. *hidden*
    are never seen; *beside* is looked at in the same way as the memory's own store, where *own* is looked at at all.
    """

    context: WriteContext
    namespace: str
    ready: dict[str, EmbeddingResult] = field(default_factory=dict)
    hidden: Container[str] = frozenset()
    beside: VectorStore | None = None
    own: bool = True
    embeds: bool = True
    """Whether the embedder is asked; else memories are held against each other by their words."""
    tried: set[str] = field(default_factory=set)
    """The texts that the embedder was asked about."""
    _rows: defaultdict[ComparisonKey, ComparedGroup] = field(default_factory=lambda: defaultdict(ComparedGroup))
    _found: dict[_LookupKey, list[ComparedMemory]] = field(default_factory=dict)

    async def prepare(self, memories: Sequence[Memory]) -> None:
        """Embed what is to be written in one go, and look up what is like it."""
        await self.warm(memories)
        wanted = {_lookup_key(one): one for one in memories if _lookup_key(one) not in self._found}
        self._found.update(await asyncio.to_thread(self._looked_up, list(wanted.values()), _DEFAULT_COUNT))

    async def warm(self, memories: Iterable[Memory]) -> None:
        """Embed what is to be written in one go."""
        embedder = self.context.embedding.embedder
        if embedder is None or not self.embeds:
            return
        texts = (entry_text(one) for one in memories if may_embed(one, embedder))
        missing = [text for text in dict.fromkeys(texts) if text not in self.tried and text not in self.ready]
        if not missing:
            return
        self.tried.update(missing)
        made = await self.context.embedding.vectors(missing)
        if made.deferred is None:
            parts = ((text, made.part([place])) for place, text in enumerate(missing))
            self.ready.update({text: part for text, part in parts if part.vectors[0] is not None})

    def add(self, memory: Memory) -> None:
        """Let the following ones see *memory*, which has its id and is about to be written."""
        if not memory.disabled:
            self._rows[comparison_key(memory)].add(self._compared(memory))

    async def nearest(self, memory: Memory, k: int = 5) -> Sequence[SimilarMemory]:
        """As ``MemoryLookup.nearest``, among the live memories of its kind, role and speaker; never itself."""
        await self.warm([memory])
        asked, key = self._compared(memory), comparison_key(memory)
        there = self._found.get(_lookup_key(memory)) if k <= _DEFAULT_COUNT else None
        if there is None:
            there = (await asyncio.to_thread(self._looked_up, [memory], k))[_lookup_key(memory)]
        now, row = to_aware(self.context.clock(), self.context.zone), self._rows.get(key)
        there = [one for one in there if one.holds(now) and comparison_key(one.memory) == key]
        near = [asked.near(one) for one in (*there, *(row.like(asked, k + _EXTRA_CANDIDATES, now) if row else ()))]
        seen = [one for one in near if not _is_same_memory(one.memory, memory) and one.memory.id not in self.hidden]
        return sorted(seen, key=lambda one: (-one.similarity, one.memory.id))[:k]

    def _compared(self, memory: Memory) -> ComparedMemory:
        made = self.ready.get(entry_text(memory))
        return ComparedMemory(None if made is None else made.vectors[0], memory=memory)

    def _looked_up(self, memories: Sequence[Memory], k: int) -> dict[_LookupKey, list[ComparedMemory]]:
        """Return, for each of *memories*, all different, what is stored in nearly its words or meaning."""
        found: dict[_LookupKey, list[ComparedMemory]] = {_lookup_key(one): [] for one in memories}
        groups: defaultdict[ComparisonKey, list[Memory]] = defaultdict(list)
        for one in memories:
            groups[comparison_key(one)].append(one)
        stores = ([self.context.store] if self.own else []) + ([self.beside] if self.beside is not None else [])
        for store in stores:
            for key, group in groups.items():
                for one, there in zip(group, self._like(store, key, group, k + _EXTRA_CANDIDATES), strict=True):
                    found[_lookup_key(one)] += there
        return found

    def _like(
        self, store: VectorStore, key: ComparisonKey, memories: Sequence[Memory], count: int
    ) -> list[list[ComparedMemory]]:
        lane = store_namespace(self.namespace, CONVERSATION)
        where: Filter = {"$and": [{"disabled": {"$ne": True}}, *_key_conditions(key)]}
        entries = _entries_by_text(store, [one.text for one in memories], count, where, lane)
        if store.space is not None:
            rows = {place: self._compared(one).vector for place, one in enumerate(memories)}
            asked = {place: row for place, row in rows.items() if row is not None}
            matches = store.search_many(list(asked.values()), count, where=where, namespace=lane) if asked else []
            for place, nearest in zip(asked, matches, strict=True):
                entries[place] += [match.entry for match in nearest]
        once: dict[str, ComparedMemory] = {}
        for entry in (entry for those in entries for entry in those):
            if entry.id not in once:
                once[entry.id] = ComparedMemory(entry.vector, entry=entry)
        return [[once[id] for id in dict.fromkeys(entry.id for entry in those)] for those in entries]


def _entries_by_text(
    store: VectorStore, texts: Sequence[str], count: int, where: Filter, lane: str
) -> list[list[Entry]]:
    """Return, for each of *texts*, the entries of which BM25 thinks most; each is fetched once."""
    lasting = lifecycle_of(store)
    if lasting is None:
        found = (store.search_text(text, count, where=where, namespace=lane) for text in texts)
        return [[match.entry for match in matches] for matches in found]
    with lasting.view([lane]) as view:
        named = [view.matching(text, count, where=where, namespace=lane) for text in texts]
        ids = list(dict.fromkeys(id for those in named for id, _ in those))
        entries = {entry.id: entry for entry in view.get(ids, namespace=lane) if entry is not None}
    return [[entries[id] for id, _ in those if id in entries] for those in named]


def _is_same_memory(one: Memory, other: Memory) -> bool:
    """Whether both are one memory: by the id, or by the key that the caller gave, which comes to the same id."""
    return one.id == other.id or (one.key is not None and one.key == other.key)


def _lookup_key(memory: Memory) -> _LookupKey:
    return memory.text, memory.caption, comparison_key(memory)


def _key_conditions(key: ComparisonKey) -> Iterable[Filter]:
    named = zip(("kind", "role", "speaker"), key, strict=True)
    return ({name: value} for name, value in named if value is not None)
