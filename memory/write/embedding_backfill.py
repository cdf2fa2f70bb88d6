"""Embedding backfill: memories without a vector are counted, and embedded later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memory.partitions import parse_store_namespace
from memory.results import Outcome, Report
from memory.write.access_control import SENSITIVE_REASON, may_embed_entry
from memory.write.context import WriteContext
from memory.write.embedding_service import EmbeddingResult
from vectorstore import Entry, RevisionConflict

BACKFILL_BATCH = 256
_MAX_FAILED_TEXTS = 16
"""Texts that the embedder failed at one by one, after which it is the embedder that is to blame."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """What became of what was pending: *embedded* entries got their vector, *without* never get one.

    *lines* are of those of which there is more to say: of a text too long for the embedder only the beginning is in
    the vector (*kept* of *total* tokens); one that it refused or failed at is pending still (*deferred* says why).
    """

    embedded: int = 0
    without: int = 0
    lines: tuple[Report, ...] = ()

    @property
    def truncated(self) -> int:
        """Of how many the vector holds only the beginning."""
        return sum(line.kept is not None for line in self.lines)

    @property
    def waiting(self) -> tuple[Report, ...]:
        """The lines of those that are pending still, since the embedder refused or failed at each of them."""
        return tuple(line for line in self.lines if line.deferred is not None)


class _EmbedderStopped(Exception):
    """It is the embedder that does not work."""


def partitions_of(context: WriteContext, namespace: str | None) -> list[str]:
    """Return the store namespaces of a user, or of all."""
    lanes = context.store.namespaces()
    return lanes if namespace is None else [lane for lane in lanes if parse_store_namespace(lane)[0] == namespace]


def count_pending(context: WriteContext, namespace: str | None) -> int:
    """Return how many entries have no vector and no reason for none."""
    return sum(
        1 for lane in partitions_of(context, namespace) for _ in context.store.scan(namespace=lane, embedded=False)
    )


async def embed_pending(
    context: WriteContext, namespace: str | None, *, limit: int | None = None, patient: bool = True
) -> BackfillReport:
    """Embed what is pending, batch by batch (at most *limit* entries); say what became of it.

    It stops when the embedder fails; a text that it cannot embed, and what was corrected meanwhile, is passed over.
    """
    filler = _Backfill(context, patient=patient)
    for lane in await asyncio.to_thread(partitions_of, context, namespace):
        after: str | None = None
        while limit is None or filler.embedded < limit:
            batch = await asyncio.to_thread(_pending_page, context, lane, after)
            if not batch:
                break
            after = batch[-1].id
            try:
                await filler.fill(lane, batch)
            except _EmbedderStopped:
                return filler.flushed()
    return filler.flushed()


async def embed_pending_quietly(
    context: WriteContext, namespace: str | None, *, limit: int | None = None, patient: bool = True
) -> int:
    """As ``embed_pending`` where nobody reads the lines: what was cut is in the log; return how many got their
    vector."""
    flushed = await embed_pending(context, namespace, limit=limit, patient=patient)
    if flushed.truncated:
        _log.warning("%d texts that waited were cut: the beginning alone is in the vector", flushed.truncated)
    return flushed.embedded


class _Backfill:
    """Fills batches; finds the text that is to blame where one of them fails as a whole."""

    def __init__(self, context: WriteContext, *, patient: bool) -> None:
        self.embedded = 0
        self._without = 0
        self._lines: list[Report] = []
        self._context = context
        self._patient = patient
        self._blamed = 0

    def flushed(self) -> BackfillReport:
        """Return what was done."""
        return BackfillReport(self.embedded, self._without, tuple(self._lines))

    async def fill(self, lane: str, batch: Sequence[Entry]) -> None:
        """Give *batch* its vectors; raise where nothing can be embedded."""
        if await self._filled(lane, batch):
            return
        shortest = min(batch, key=lambda entry: len(entry.text))
        if len(batch) == 1 or self._context.embedding.resting or not await self._filled(lane, [shortest]):
            raise _EmbedderStopped
        await self._halves(lane, [entry for entry in batch if entry is not shortest])

    async def _halves(self, lane: str, batch: Sequence[Entry]) -> None:
        half = (len(batch) + 1) // 2
        for part in filter(None, (batch[:half], batch[half:])):
            if await self._filled(lane, part):
                continue
            if len(part) > 1:
                await self._halves(lane, part)
                continue
            self._lines.append(Report(Outcome.STORED, part[0].id, deferred=self._context.embedding.problem))
            self._blamed += 1
            if self._blamed >= _MAX_FAILED_TEXTS:
                raise _EmbedderStopped

    async def _filled(self, lane: str, batch: Sequence[Entry]) -> bool:
        with self._context.under_way.write():
            embedding = self._context.embedding
            sent = [place for place, entry in enumerate(batch) if may_embed_entry(entry, embedding.embedder)]
            made = await embedding.vectors([batch[place].text for place in sent], patient=self._patient)
            made = made.among(len(batch), sent, SENSITIVE_REASON)
            if made.deferred is None:
                await asyncio.to_thread(self._fill, lane, batch, made)
        return made.deferred is None

    def _fill(self, lane: str, batch: Sequence[Entry], made: EmbeddingResult) -> None:
        try:
            made = _store_vectors(self._context, lane, batch, made)
        except RevisionConflict:  # one was corrected or forgotten meanwhile; the others are still to be filled
            if len(batch) == 1:
                self._context.embedding.forget([batch[0].text])
                return
            for place, entry in enumerate(batch):
                self._fill(lane, [entry], made.part([place]))
            return
        self.embedded += sum(vector is not None for vector in made.vectors)
        self._without += sum(reason is not None for reason in made.reasons)
        for place, entry in enumerate(batch):
            cut, refused = made.truncated.get(place), made.refused.get(place)
            if refused is not None:
                self._lines.append(Report(Outcome.STORED, entry.id, deferred=refused))
            elif cut is not None:
                self._lines.append(Report(Outcome.STORED, entry.id, kept=cut.kept, total=cut.of))


def _pending_page(context: WriteContext, lane: str, after: str | None) -> list[Entry]:
    return list(islice(context.store.scan(namespace=lane, after=after, embedded=False), BACKFILL_BATCH))


def _store_vectors(context: WriteContext, lane: str, batch: Sequence[Entry], made: EmbeddingResult) -> EmbeddingResult:
    """Store what *made* has for *batch*; return what of it was stored, which is nothing after a switch."""
    expect = {entry.id: entry.revision for entry in batch}
    with context.transaction():
        made = context.embedding.still(made)
        vectors = {entry.id: vector for entry, vector in zip(batch, made.vectors, strict=True) if vector is not None}
        without = [
            replace(entry, no_vector=reason)
            for entry, reason in zip(batch, made.reasons, strict=True)
            if reason is not None
        ]
        if vectors:
            known = {one: expect[one] for one in vectors}
            context.store.put_vectors(vectors, namespace=lane, expect=known)
        if without:
            context.store.upsert(without, namespace=lane, expect={entry.id: expect[entry.id] for entry in without})
    return made
