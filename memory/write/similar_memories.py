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
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.memory.codec import embedding_text, from_entry
from tellback.memory.models import Memory
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.timestamps import Clock
from tellback.memory.write.access_control import may_embed
from tellback.memory.write.embedding_service import NOT_YET_EMBEDDED, EmbeddedText, EmbeddingService
from tellback.memory.write.policies.base import SimilarMemory
from tellback.vectorstore import Entry, Filter, Vector, VectorStore, lifecycle_of

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

    def __init__(self, vector: Vector | None, source: Memory | Entry) -> None:
        norm = 0.0 if vector is None else float(np.linalg.norm(vector))
        self.vector = vector / norm if vector is not None and norm else None
        self._source = source

    @cached_property
    def memory(self) -> Memory:
        """The memory itself."""
        return self._source if isinstance(self._source, Memory) else from_entry(self._source)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words, whatever their case."""
        return frozenset(_WORD.findall(self.memory.text.casefold()))

    def holds(self, now: datetime) -> bool:
        """Return whether it has neither expired nor ended."""
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

    def add(self, memory: ComparedMemory) -> None:
        """Put *memory* at the end."""
        if memory.vector is None or (self._matrix is not None and len(memory.vector) != self._matrix.shape[1]):
            self._without.append(memory)
            return
        row, matrix = len(self._with), self._matrix
        if matrix is None or row == len(matrix):
            matrix = self._matrix = np.concatenate(
                [*([] if matrix is None else [matrix]), np.empty((max(row, 64), len(memory.vector)), np.float32)]
            )
        matrix[row] = memory.vector
        self._with.append(memory)
        if memory.memory.expires_at is not None or memory.memory.valid_to is not None:
            self._ending.append(row)

    def like(self, query: ComparedMemory, k: int, now: datetime) -> list[ComparedMemory]:
        """Return those that hold *now* and may be among the *k* most like *query*, and perhaps some more."""
        found = [memory for memory in self._without if memory.holds(now)]
        if self._matrix is None:
            return found
        if query.vector is None or len(query.vector) != self._matrix.shape[1]:
            return [*found, *(memory for memory in self._with if memory.holds(now))]
        scores = np.clip(self._matrix[: len(self._with)] @ query.vector, 0.0, 1.0)
        scores[[row for row in self._ending if not self._with[row].holds(now)]] = _EXPIRED_SCORE
        least = np.partition(scores, -k)[-k] - _ROUNDING if k < len(scores) else 0.0
        return [*found, *(self._with[row] for row in np.flatnonzero(scores >= max(least, 0.0)))]


_DEFAULT_COUNT: Final = 5
_EXTRA_CANDIDATES: Final = 8
"""Further results that are fetched, since some have expired or are another's words."""
_LookupKey: TypeAlias = tuple[str, str, ComparisonKey]
"""The text of a memory, the text that is embedded of it, and what it shares with those it is compared with."""


@dataclass(slots=True)
class SimilarMemoryLookup:
    """``MemoryLookup`` for one batch into a *namespace*: over *store*, and what the batch adds before it is written.

    *store* is the memory's own (None: it is not looked at), *beside* another one that is searched in the same way.
    *hidden* ids are never seen. With *embeds* off, memories are compared by their words, and no embedder is asked.
    """

    namespace: str
    store: VectorStore | None
    embedding: EmbeddingService
    clock: Clock
    hidden: Container[str] = frozenset()
    beside: VectorStore | None = None
    embeds: bool = True
    ready: dict[str, EmbeddedText] = field(default_factory=dict)
    """Answers of the embedder by text, so that what is stored need not be embedded again."""
    tried: set[str] = field(default_factory=set)
    """The texts that the embedder was asked about."""
    _added: defaultdict[ComparisonKey, ComparedGroup] = field(default_factory=lambda: defaultdict(ComparedGroup))
    _found: dict[_LookupKey, list[ComparedMemory]] = field(default_factory=dict)

    async def prepare(self, memories: Sequence[Memory]) -> None:
        """Embed what is to be written in one go, and look up what is like it."""
        await self.warm(memories)
        wanted = {_lookup_key(memory): memory for memory in memories if _lookup_key(memory) not in self._found}
        self._found.update(await asyncio.to_thread(self._looked_up, list(wanted.values()), _DEFAULT_COUNT))

    async def warm(self, memories: Iterable[Memory]) -> None:
        """Embed what is to be written in one go."""
        embedder = self.embedding.embedder
        if embedder is None or not self.embeds:
            return
        texts = (embedding_text(memory) for memory in memories if may_embed(memory, embedder))
        missing = [text for text in dict.fromkeys(texts) if text not in self.tried and text not in self.ready]
        if not missing:
            return
        self.tried.update(missing)
        answers = zip(missing, await self.embedding.vectors(missing), strict=True)
        self.ready.update((text, embedded) for text, embedded in answers if embedded.vector is not None)

    async def forget_unused(self, stored: Iterable[str]) -> None:
        """Let the embedder's cache forget the texts that were tried and are not *stored*: nobody could later."""
        kept = set(stored) if self.tried else frozenset()
        if unused := [text for text in self.tried if text not in kept]:
            await asyncio.to_thread(self.embedding.forget, unused, keeping=kept)

    def add(self, memory: Memory) -> None:
        """Let the following ones see *memory*, which has its id and is about to be written."""
        if not memory.disabled:
            self._added[comparison_key(memory)].add(self._compared(memory))

    async def nearest(self, memory: Memory, k: int = 5) -> Sequence[SimilarMemory]:
        """As ``MemoryLookup.nearest``, among the live memories of its kind, role and speaker; never itself."""
        await self.warm([memory])
        compared, key = self._compared(memory), comparison_key(memory)
        stored = self._found.get(_lookup_key(memory)) if k <= _DEFAULT_COUNT else None
        if stored is None:
            stored = (await asyncio.to_thread(self._looked_up, [memory], k))[_lookup_key(memory)]
        now, added = self.clock(), self._added.get(key)
        candidates = [other for other in stored if other.holds(now) and comparison_key(other.memory) == key]
        if added is not None:
            candidates += added.like(compared, k + _EXTRA_CANDIDATES, now)
        seen = [
            compared.near(other)
            for other in candidates
            if not _is_same_memory(other.memory, memory) and other.memory.id not in self.hidden
        ]
        return sorted(seen, key=lambda other: (-other.similarity, other.memory.id))[:k]

    def _compared(self, memory: Memory) -> ComparedMemory:
        return ComparedMemory(self.ready.get(embedding_text(memory), NOT_YET_EMBEDDED).vector, memory)

    def _looked_up(self, memories: Sequence[Memory], k: int) -> dict[_LookupKey, list[ComparedMemory]]:
        """Return, for each of *memories*, all different, what is stored in nearly its words or meaning."""
        found: dict[_LookupKey, list[ComparedMemory]] = {_lookup_key(memory): [] for memory in memories}
        groups: defaultdict[ComparisonKey, list[Memory]] = defaultdict(list)
        for memory in memories:
            groups[comparison_key(memory)].append(memory)
        for store in filter(None, (self.store, self.beside)):
            for key, group in groups.items():
                for lookup, similar in self._like(store, key, group, k + _EXTRA_CANDIDATES).items():
                    found[lookup] += similar
        return found

    def _like(
        self, store: VectorStore, key: ComparisonKey, memories: Sequence[Memory], count: int
    ) -> dict[_LookupKey, list[ComparedMemory]]:
        """Return, for each of *memories*, which agree in *key*, what *store* has in nearly its words or meaning."""
        partition = store_namespace(self.namespace, CONVERSATION)
        named = zip(("kind", "role", "speaker"), key, strict=True)
        of_key: list[Filter] = [{name: value} for name, value in named if value is not None]
        where: Filter = {"$and": [{"disabled": {"$ne": True}}, *of_key]}
        entries = _entries_by_text(store, [memory.text for memory in memories], count, where, partition)
        if store.space is not None:
            rows = {place: self._compared(memory).vector for place, memory in enumerate(memories)}
            vectors = {place: row for place, row in rows.items() if row is not None}
            matches = store.search_many(list(vectors.values()), count, where=where, namespace=partition)
            for place, nearest in zip(vectors, matches, strict=True):
                entries[place] += [match.entry for match in nearest]
        compared = {entry.id: ComparedMemory(entry.vector, entry) for found in entries for entry in found}
        return {
            _lookup_key(memory): [compared[id] for id in dict.fromkeys(entry.id for entry in entries[place])]
            for place, memory in enumerate(memories)
        }


def _entries_by_text(
    store: VectorStore, texts: Sequence[str], count: int, where: Filter, partition: str
) -> list[list[Entry]]:
    """Return, for each of *texts*, the entries of which BM25 thinks most; each is fetched once."""
    lifecycle = lifecycle_of(store)
    if lifecycle is None:
        found = (store.search_text(text, count, where=where, namespace=partition) for text in texts)
        return [[match.entry for match in matches] for matches in found]
    with lifecycle.view([partition]) as view:
        ranked = [view.matching(text, count, where=where, namespace=partition) for text in texts]
        ids = list(dict.fromkeys(id for matches in ranked for id, _ in matches))
        entries = {entry.id: entry for entry in view.get(ids, namespace=partition) if entry is not None}
    return [[entries[id] for id, _ in matches if id in entries] for matches in ranked]


def _is_same_memory(memory: Memory, other: Memory) -> bool:
    """Return whether both are the same memory: by id, or by the caller's key, which comes to the same id."""
    return memory.id == other.id or (memory.key is not None and memory.key == other.key)


def _lookup_key(memory: Memory) -> _LookupKey:
    return memory.text, embedding_text(memory), comparison_key(memory)
