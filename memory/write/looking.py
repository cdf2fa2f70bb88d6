"""What a write policy may see of what is stored: the memories most like one that is to be written, and no more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from memory.codec import from_entry, to_entry
from memory.lanes import CONVERSATION, store_namespace
from memory.records import Memory
from memory.times import aware
from memory.write.context import WriteContext
from memory.write.embedded import Embedded
from memory.write.policies import Near
from memory.write.sensitive import may_embed
from vectorstore import Filter, Vector

_WORD: Final = re.compile(r"\w+")
_BESIDE: Final = 8
"""So many more than asked for are looked at, since some have expired or are another's words."""


@dataclass(slots=True)
class StoredMemories:
    """``Stored`` over one namespace, for one batch: what is in the store, and what the batch adds before it is written.

    ``ready`` are the answers for texts that were embedded for it, so that they need not be embedded again.
    """

    context: WriteContext
    namespace: str
    ready: dict[str, Embedded] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)
    added: dict[str, Memory] = field(default_factory=dict)
    """By id, what comes before in the batch and is about to be written."""
    _seen: list[_Looked] = field(default_factory=list)

    async def warm(self, memories: Iterable[Memory]) -> None:
        """Embed what is to be written in one go."""
        embedder = self.context.embedding.embedder
        if embedder is None:
            return
        texts = (to_entry(one).text for one in memories if may_embed(one, embedder))
        missing = list(dict.fromkeys(text for text in texts if text not in self._tried))
        self._tried.update(missing)
        made = await self.context.embedding.vectors(missing)
        if made.deferred is None:
            parts = ((text, made.part([place])) for place, text in enumerate(missing))
            self.ready.update({text: part for text, part in parts if part.vectors[0] is not None})

    def add(self, memory: Memory) -> None:
        """Let the following ones see *memory*, which has its id and is about to be written."""
        self.added[memory.id] = memory
        if not memory.disabled:
            self._seen.append(self._looked_at(memory))

    async def nearest(self, memory: Memory, k: int = 5) -> Sequence[Near]:
        """As ``Stored.nearest``, among the live memories of its kind, role and speaker."""
        await self.warm([memory])
        asked = self._looked_at(memory)
        there = await asyncio.to_thread(self._stored, asked, k)
        now, key = aware(self.context.clock(), self.context.zone), _key(memory)
        near = [
            asked.near(other)
            for other in (*there, *self._seen)
            if _key(other.memory) == key and all(end is None or end > now for end in _ends(other.memory))
        ]
        return sorted(near, key=lambda one: (-one.similarity, one.memory.id))[:k]

    def _looked_at(self, memory: Memory) -> _Looked:
        made = self.ready.get(to_entry(memory).text)
        return _Looked.at(memory, None if made is None else made.vectors[0])

    def _stored(self, asked: _Looked, k: int) -> list[_Looked]:
        store, lane = self.context.store, store_namespace(self.namespace, CONVERSATION)
        where: Filter = {"$and": [{"disabled": {"$ne": True}}, *_conditions(asked.memory)]}
        matches = store.search_text(asked.memory.text, k + _BESIDE, where=where, namespace=lane)
        if asked.vector is not None and store.space is not None:
            matches += store.search(asked.vector, k + _BESIDE, where=where, namespace=lane)
        found = {match.entry.id: match.entry for match in matches}
        return [_Looked.at(from_entry(entry), entry.vector) for entry in found.values()]


@dataclass(frozen=True, slots=True)
class _Looked:
    """A memory as it is compared: its words, and its vector of length 1 where it has one."""

    memory: Memory
    words: frozenset[str]
    vector: Vector | None

    @classmethod
    def at(cls, memory: Memory, vector: Vector | None) -> _Looked:
        norm = 0.0 if vector is None else float(np.linalg.norm(vector))
        words = frozenset(_WORD.findall(memory.text.casefold()))
        return cls(memory, words, vector / norm if vector is not None and norm else None)

    def near(self, other: _Looked) -> Near:
        if self.vector is not None and other.vector is not None and len(self.vector) == len(other.vector):
            cosine = float(np.dot(self.vector, other.vector))
            return Near(other.memory, min(max(cosine, 0.0), 1.0), "meaning")
        every = self.words | other.words
        return Near(other.memory, len(self.words & other.words) / len(every) if every else 1.0, "words")


def _key(memory: Memory) -> tuple[str | None, ...]:
    return (memory.kind, memory.role, memory.speaker)


def _conditions(memory: Memory) -> Iterable[Filter]:
    named = zip(("kind", "role", "speaker"), _key(memory), strict=True)
    return ({name: value} for name, value in named if value is not None)


def _ends(memory: Memory) -> tuple[datetime | None, ...]:
    return (memory.expires_at, memory.valid_to)
