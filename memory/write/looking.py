"""What a write policy may see of what is stored: the memories most like one that is to be written, and no more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    _added: list[Memory] = field(default_factory=list)

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

    def _vector(self, memory: Memory) -> Vector | None:
        made = self.ready.get(to_entry(memory).text)
        return None if made is None else made.vectors[0]

    def add(self, memory: Memory) -> None:
        """Let the following ones see *memory*, which has its id and is about to be written."""
        self._added.append(memory)

    async def nearest(self, memory: Memory, k: int = 5) -> Sequence[Near]:
        """As ``Stored.nearest``, among the live memories of its kind, role and speaker."""
        await self.warm([memory])
        vector = self._vector(memory)
        there = await asyncio.to_thread(self._stored, memory, vector, k)
        there += [
            self._near(memory, vector, one, self._vector(one)) for one in self._added if _key(one) == _key(memory)
        ]
        return sorted(there, key=lambda near: (-near.similarity, near.memory.id))[:k]

    def _stored(self, memory: Memory, vector: Vector | None, k: int) -> list[Near]:
        store, lane = self.context.store, store_namespace(self.namespace, CONVERSATION)
        where: Filter = {"$and": [{"disabled": {"$ne": True}}, *({name: value} for name, value in _filter(memory))]}
        found = {
            match.entry.id: match.entry
            for match in store.search_text(memory.text, k + _BESIDE, where=where, namespace=lane)
        }
        if vector is not None and store.space is not None:
            matches = store.search(vector, k + _BESIDE, where=where, namespace=lane)
            found.update({match.entry.id: match.entry for match in matches})
        now = aware(self.context.clock(), self.context.zone)
        live = ((from_entry(entry), entry.vector) for entry in found.values())
        return [
            self._near(memory, vector, other, beside)
            for other, beside in live
            if _key(other) == _key(memory)
            and (other.expires_at is None or other.expires_at > now)
            and (other.valid_to is None or other.valid_to > now)
        ]

    @staticmethod
    def _near(memory: Memory, vector: Vector | None, other: Memory, beside: Vector | None) -> Near:
        if vector is not None and beside is not None and len(vector) == len(beside):
            norm = float(np.linalg.norm(vector) * np.linalg.norm(beside))
            cosine = float(np.dot(vector, beside)) / norm if norm else 0.0
            return Near(other, min(max(cosine, 0.0), 1.0), "meaning")
        ours, theirs = _words(memory.text), _words(other.text)
        return Near(other, len(ours & theirs) / len(ours | theirs) if ours | theirs else 1.0, "words")


def _key(memory: Memory) -> tuple[str | None, ...]:
    return (memory.kind, memory.role, memory.speaker)


def _filter(memory: Memory) -> Iterable[tuple[str, str]]:
    named = zip(("kind", "role", "speaker"), _key(memory), strict=True)
    return ((name, value) for name, value in named if value is not None)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
