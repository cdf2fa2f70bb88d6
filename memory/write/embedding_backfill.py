"""Embedding backfill: memories without a vector are counted, and embedded later."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

from tellback.memory.codec import entry_embedding_text
from tellback.memory.entry_store import EntryStore
from tellback.memory.partitions import parse_store_namespace
from tellback.memory.results import Outcome, Report
from tellback.memory.runtime import run_in_thread
from tellback.memory.write.access_control import may_embed_entry
from tellback.memory.write.embedding_service import NOT_SENT, EmbeddedText, EmbeddingService
from tellback.vectorstore import Entry, RevisionConflict

BACKFILL_BATCH = 256
_MAX_FAILED_TEXTS = 16
"""Texts that fail one by one, after which the embedder itself counts as failing."""

_STORE_PATIENCE: Final = 15.0
"""Seconds that a write without its vector may take: a little more than another process may hold the file."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """Result of embedding what was pending: *embedded* entries got their vector, *without* never get one.

    *lines* has entries with a remark: of a text too long for the embedder only the beginning is in the vector (*kept*
    of *total* tokens); one that it refused or failed at is still pending (*deferred* says why).
    """

    embedded: int = 0
    without: int = 0
    lines: tuple[Report, ...] = ()

    @property
    def truncated(self) -> int:
        """Number of entries whose vector is of the beginning of their text."""
        return sum(line.kept is not None for line in self.lines)

    @property
    def waiting(self) -> tuple[Report, ...]:
        """The lines of those that are pending still, since the embedder refused or failed at each of them."""
        return tuple(line for line in self.lines if line.deferred is not None)


class _EmbedderStopped(Exception):
    """The embedder fails whatever the text is."""


@dataclass(frozen=True, slots=True)
class EmbeddingBackfill:
    """Embeds entries that wait for their vector, in every partition."""

    entries: EntryStore
    embedding: EmbeddingService

    def count_pending(self, namespace: str | None) -> int:
        """Return how many entries of a namespace (None: of all) have no vector and no reason for none. In a thread."""
        scan = self.entries.store.scan
        return sum(1 for name in self._partitions(namespace) for _ in scan(namespace=name, embedded=False))

    async def embed_pending(
        self, namespace: str | None, *, limit: int | None = None, patient: bool = True
    ) -> BackfillReport:
        """Embed what is pending, batch by batch (at most *limit* entries); return what became of it.

        It stops when the embedder fails; a text that it cannot embed, and what was corrected meanwhile, is passed over.
        """
        run = _BackfillRun(self.entries, self.embedding, patient=patient)
        for partition in await asyncio.to_thread(self._partitions, namespace):
            after: str | None = None
            while limit is None or run.embedded < limit:
                batch = await asyncio.to_thread(self._page, partition, after)
                if not batch:
                    break
                after = batch[-1].id
                try:
                    await run.fill(partition, batch)
                except _EmbedderStopped:
                    return run.report()
        return run.report()

    async def embed_pending_quietly(
        self, namespace: str | None, *, limit: int | None = None, patient: bool = True
    ) -> int:
        """As ``embed_pending`` where nobody reads the lines; return how many got their vector. Cut texts are logged."""
        report = await self.embed_pending(namespace, limit=limit, patient=patient)
        if report.truncated:
            _log.warning("%d texts that waited were cut: the beginning alone is in the vector", report.truncated)
        return report.embedded

    async def finish_writes(self, wait: float) -> None:
        """Wait at most *wait* seconds for vectors, those that are pending included; then for what is being stored."""
        end = time.monotonic() + wait
        flushing = None
        if wait > 0:
            await self._wait_for_writes(wait)
            if self.embedding.embedder is not None:
                flushing = asyncio.ensure_future(self.embed_pending_quietly(None))
                await asyncio.wait({flushing}, timeout=max(end - time.monotonic(), 0))
        self.embedding.in_flight.hurry()
        if flushing is not None:
            await asyncio.gather(flushing, return_exceptions=True)  # what is not embedded stays pending
        await self._wait_for_writes(_STORE_PATIENCE)

    async def _wait_for_writes(self, seconds: float) -> None:
        """Wait until nothing is being stored, in a thread of its own.

        Those of the event loop may all be needed for that, and cancelled it would keep the loop from ending.
        """
        await run_in_thread(partial(self.embedding.in_flight.wait, seconds), name="tellback-closing")

    def _partitions(self, namespace: str | None) -> list[str]:
        return self.entries.store.namespaces() if namespace is None else self.entries.partitions(namespace)

    def _page(self, partition: str, after: str | None) -> list[Entry]:
        return list(islice(self.entries.store.scan(namespace=partition, after=after, embedded=False), BACKFILL_BATCH))


async def embed_entries(
    batch: Sequence[Entry], embedder: object, embed: Callable[[Sequence[Entry]], Awaitable[Sequence[EmbeddedText]]]
) -> list[EmbeddedText]:
    """Return the answer of *embed* for each entry of *batch*; what *embedder* may not see gets no vector.

    Entries of which one text is embedded are given to *embed* once.
    """
    allowed = [entry for entry in batch if may_embed_entry(entry, embedder)]
    sent: dict[str, Entry] = {}
    for entry in allowed:
        sent.setdefault(entry_embedding_text(entry), entry)
    answers = dict(zip(sent, await embed([*sent.values()]) if sent else (), strict=True))
    by_id = {entry.id: answers[entry_embedding_text(entry)] for entry in allowed}
    return [by_id.get(entry.id, NOT_SENT) for entry in batch]


def store_each(
    batch: Sequence[Entry],
    embedded: Sequence[EmbeddedText],
    store: Callable[[Sequence[Entry], Sequence[EmbeddedText]], None],
    forget: Callable[[list[str]], None],
) -> None:
    """Let *store* keep what is *embedded* of *batch*, or of each entry by itself where one was changed meanwhile.

    That one was corrected, and is pending again, or forgotten: caches are to *forget* its text.
    """
    try:
        store(batch, embedded)
    except RevisionConflict:
        if len(batch) == 1:
            forget([entry_embedding_text(batch[0])])
            return
        for entry, text in zip(batch, embedded, strict=True):
            store_each([entry], [text], store, forget)


@dataclass(slots=True)
class _BackfillRun:
    """Work of one call: fills batches, and finds the text that makes a whole batch fail."""

    entries: EntryStore
    embedding: EmbeddingService
    patient: bool
    embedded: int = 0
    without: int = 0
    lines: list[Report] = field(default_factory=list)
    blamed: int = 0

    def report(self) -> BackfillReport:
        """Return what was done."""
        return BackfillReport(self.embedded, self.without, tuple(self.lines))

    async def fill(self, partition: str, batch: Sequence[Entry]) -> None:
        """Give *batch* its vectors; raise where nothing can be embedded."""
        if await self._filled(partition, batch):
            return
        shortest = min(batch, key=lambda entry: len(entry.text))
        if len(batch) == 1 or self.embedding.resting or not await self._filled(partition, [shortest]):
            raise _EmbedderStopped
        await self._fill_halves(partition, [entry for entry in batch if entry is not shortest])

    async def _fill_halves(self, partition: str, batch: Sequence[Entry]) -> None:
        half = (len(batch) + 1) // 2
        for part in filter(None, (batch[:half], batch[half:])):
            if await self._filled(partition, part):
                continue
            if len(part) > 1:
                await self._fill_halves(partition, part)
                continue
            self.lines.append(Report(Outcome.STORED, part[0].id, deferred=self.embedding.problem))
            self.blamed += 1
            if self.blamed >= _MAX_FAILED_TEXTS:
                raise _EmbedderStopped

    async def _filled(self, partition: str, batch: Sequence[Entry]) -> bool:
        """Embed and store *batch*; return whether the embedder answered."""
        with self.embedding.in_flight.write():
            embedded = await embed_entries(batch, self.embedding.embedder, partial(self._vectors, partition))
            answered = all(text.space is not None or text.deferred is None for text in embedded)
            if answered:
                store = partial(self._store, partition)
                await asyncio.to_thread(store_each, batch, embedded, store, self.embedding.forget)
        return answered

    async def _vectors(self, partition: str, batch: Sequence[Entry]) -> Sequence[EmbeddedText]:
        texts, lane = [entry_embedding_text(entry) for entry in batch], parse_store_namespace(partition)[1]
        return await self.embedding.vectors(texts, partition=lane, patient=self.patient)

    def _store(self, partition: str, batch: Sequence[Entry], embedded: Sequence[EmbeddedText]) -> None:
        """Store what is *embedded* of *batch*; nothing after a switch."""
        store, expect = self.entries.store, {entry.id: entry.revision for entry in batch}
        with self.entries.transaction(partition):
            embedded = self.embedding.still(embedded)
            pairs = list(zip(batch, embedded, strict=True))
            vectors = {entry.id: text.vector for entry, text in pairs if text.vector is not None}
            without = [replace(entry, no_vector=text.no_vector) for entry, text in pairs if text.no_vector is not None]
            if vectors:
                store.put_vectors(vectors, namespace=partition, expect={id: expect[id] for id in vectors})
            if without:
                store.upsert(without, namespace=partition, expect={entry.id: expect[entry.id] for entry in without})
        self.embedded += len(vectors)
        self.without += len(without)
        for entry, text in pairs:
            if text.refused is not None:
                self.lines.append(Report(Outcome.STORED, entry.id, deferred=text.refused))
            elif text.truncated is not None:
                kept, total = text.truncated.kept, text.truncated.of
                self.lines.append(Report(Outcome.STORED, entry.id, kept=kept, total=total))
