"""The one road on which things become memories: judged beside what is stored, drafted with what is made of them.

Added items, turns, corrections and imports go along it alike; what differs is said in its ``Rules``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from memory.codec import text_of
from memory.records import Memory, Outcome, Report
from memory.write.context import WriteContext
from memory.write.embedded import Embedded
from memory.write.judging import Judged, Rules, judge_turn, judge_turns
from memory.write.looking import StoredMemories
from memory.write.sensitive import NOT_SENT, may_embed
from memory.write.writer import Draft, draft
from vectorstore import VectorStore


@dataclass(frozen=True, slots=True)
class Taken:
    """What becomes of memories that came together: for each its draft or its line, and what is *made* of them.

    What is made comes with the places of those it was made from.
    """

    own: list[Draft | Report]
    made: list[tuple[Draft | Report, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Road:
    """The road into one *namespace*; *stored* is what the policies see of it, None where none of them looks."""

    context: WriteContext
    namespace: str
    rules: Rules
    stored: StoredMemories | None = None

    @classmethod
    def into(
        cls,
        context: WriteContext,
        namespace: str,
        *,
        rules: Rules | None = None,
        hidden: Container[str] = frozenset(),
        beside: VectorStore | None = None,
        own: bool = True,
    ) -> Road:
        """Return the road for one batch; the rest as ``StoredMemories``."""
        rules = context.rules if rules is None else rules
        stored = StoredMemories(context, namespace, hidden=hidden, beside=beside, own=own) if rules.looking else None
        return cls(context, namespace, rules, stored)

    @property
    def ready(self) -> Mapping[str, Embedded]:
        """Answers for texts that were embedded on the way."""
        return MappingProxyType({}) if self.stored is None else self.stored.ready

    def unused(self, stored: Iterable[str]) -> list[str]:
        """Return the texts that were embedded on the way and are not *stored*."""
        tried = () if self.stored is None else self.stored.tried
        kept = set(stored) if tried else frozenset()
        return [text for text in tried if text not in kept]

    async def let_go(self, stored: Iterable[str]) -> None:
        """Let the embedder's cache forget what was embedded on the way and is not *stored*: nobody could later."""
        if unused := self.unused(stored):
            await asyncio.to_thread(self.context.embedding.forget, unused)

    async def judged(self, memories: Sequence[Memory]) -> tuple[list[Judged], list[Judged]]:
        """Return what the policies make of *memories*, which came together, and what they make beside them."""
        return await judge_turn(memories, self.rules, self.stored)

    async def together(self, memories: Sequence[Memory]) -> Taken:
        """Take *memories*, which came together."""
        judged, made = await self.judged(memories)
        return (await self._drafts([(judged, made)]))[0]

    async def apart(self, turns: Sequence[Sequence[Memory]]) -> list[Taken]:
        """Take *turns*, none of which is seen beside another or beside what is stored; a few at once."""
        return await self._drafts(await judge_turns(turns, self.rules))

    async def _drafts(self, judged: Sequence[tuple[Sequence[Judged], Sequence[Judged]]]) -> list[Taken]:
        keyed = any(one.memory is not None and one.memory.key is not None for own, _ in judged for one in own)
        if keyed:  # which id a key has is looked up
            return await asyncio.to_thread(lambda: [self._taken(*one) for one in judged])
        return [self._taken(*one) for one in judged]

    def _taken(self, judged: Sequence[Judged], made: Sequence[Judged]) -> Taken:
        own = [self._drafted(one, one.memory) for one in judged]
        facts = []
        for one in made:
            ids = (source.memory.id for source in (own[place] for place in one.places) if isinstance(source, Draft))
            memory = one.memory
            if memory is not None:
                memory = replace(memory, derived_from=tuple(dict.fromkeys((*memory.derived_from, *ids))))
            facts.append((self._drafted(one, memory), one.places))
        return Taken(own, facts)

    def _drafted(self, judged: Judged, memory: Memory | None) -> Draft | Report:
        if memory is None:
            return Report(judged.outcome, judged.of or "", judged.reason, of=judged.of)
        made = draft(self.context, memory, self.namespace)
        if judged.outcome is Outcome.STORED and not judged.reason and judged.of is None:
            return made
        return replace(made, outcome=judged.outcome, reason=judged.reason, spans=judged.spans, of=judged.of)


async def embedded(
    context: WriteContext, drafts: Sequence[Draft], ready: Mapping[str, Embedded] = MappingProxyType({})
) -> list[Draft]:
    """Return *drafts* with their vectors, or with the reason why there are none.

    What is sensitive is not given to a remote embedder. *ready* are answers, of a text each, that were had before.
    """
    texts = [text_of(one.memory) for one in drafts]
    may = [may_embed(one.memory, context.embedding.embedder) for one in drafts]
    asked = [place for place, text in enumerate(texts) if may[place] and text not in ready]
    made = await context.embedding.vectors([texts[place] for place in asked])
    made = made.among(len(drafts), asked, NOT_SENT)
    return [
        _with_vector(one, ready[text], 0) if may[place] and text in ready else _with_vector(one, made, place)
        for place, (one, text) in enumerate(zip(drafts, texts, strict=True))
    ]


def _with_vector(draft: Draft, made: Embedded, place: int) -> Draft:
    reason = made.reasons[place]
    return replace(
        draft,
        vector=made.vectors[place],
        no_vector=reason,
        deferred=reason if reason == NOT_SENT else made.waits(place),
        truncated=made.truncated.get(place),
        space=made.space,
    )
