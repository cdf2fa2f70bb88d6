"""Re-embedding by space migration: a second space is filled while the first serves, and then switched to.

What was filled lasts, across a crash too: the same call again goes on where it stopped. Nothing is lost by stopping, by
an embedder that fails, or by what is written meanwhile; an entry that is corrected while its vector is made is embedded
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from tellback.memory.codec import entry_embedding_text
from tellback.memory.embedders.fingerprint import is_same_model, marked_fingerprint, probe_embedder
from tellback.memory.embedders.lines import embed_with_lines, embedded_parts
from tellback.memory.embedders.protocol import Embedder, checked_embedder, forget_texts, is_space_of
from tellback.memory.entry_store import EntryStore
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.memory.partitions import parse_store_namespace
from tellback.memory.tables.embedder_probes import ProbeVectors
from tellback.memory.write.access_control import SENSITIVE_REASON, may_embed_entry
from tellback.memory.write.embedding_backfill import EmbeddingBackfill, embed_entries, store_each
from tellback.memory.write.embedding_service import (
    EMBEDDER_REFUSED,
    ZERO_VECTOR,
    EmbeddedText,
    EmbeddingService,
    checked_embeddings,
    embedded_texts,
    partition_embedder,
)
from tellback.vectorstore import Entry, LifecycleStore, RevisionConflict, Space, SpaceNotReady

REEMBED_BATCH = 256
_MAX_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class ReembeddingProgress:
    """Progress of embedding anew: *done* of *total* entries of all namespaces, documents and old versions included.

    What has nothing to embed is not counted; what is written meanwhile is, when the rest is done.
    """

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ReembeddingReport:
    """Result of embedding anew: from which space *before* (None: there was none) to which one (*space*).

    *embedded* entries got their vector in this call, *without* got none (the embedder refused the text, it may not be
    sent, or there is nothing to embed), *truncated* were cut by the embedder. *switched*: whether
    the memory has the new vectors now; else they wait beside the old ones. *already*: nothing was to be done.
    """

    before: str | None
    space: str
    embedded: int = 0
    without: int = 0
    truncated: int = 0
    switched: bool = True
    already: bool = False


OnReembeddingProgress = Callable[[ReembeddingProgress], None]


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Gives every entry a vector of an embedder, and switches the memory to it."""

    entries: EntryStore
    embedding: EmbeddingService
    backfill: EmbeddingBackfill

    async def reembed(
        self,
        embedder: Embedder | None,
        *,
        switch: bool,
        again: bool,
        on_progress: OnReembeddingProgress | None,
    ) -> ReembeddingReport:
        """Fill the space of *embedder* (None: the memory's own) and switch to it; see ``LongTermMemory.reembed``."""
        store = self.entries.lifecycle("reembed")
        chosen = embedder if embedder is not None else self.embedding.embedder
        if chosen is None:
            expected = "the memory has none of its own, so the one to embed with is needed"
            raise ArgumentError("embedder", embedder, expected)
        checked_embedder(chosen)
        if on_progress is not None and not callable(on_progress):
            raise ArgumentError("on_progress", on_progress, "a function of a ReembeddingProgress is needed")
        probes = await probe_embedder(chosen)
        before = await asyncio.to_thread(self.entries.follow_space)
        if before is None:
            space = Space(chosen.fingerprint, probes.shape[1])  # no second space is needed
            await asyncio.to_thread(self._record_space, store, space, probes, store.set_space)
            self.embedding.use(chosen, space)
            return await self._embed_all_pending(space, on_progress)
        target = await asyncio.to_thread(self._target, store, chosen, probes, before, again=again)
        if target == before:
            self.embedding.use(chosen, before)
            report = await self._embed_all_pending(before, on_progress)
            return replace(report, before=before.fingerprint, already=not (report.embedded or report.without))
        await asyncio.to_thread(_retry_refused, store, chosen)
        run = _MigrationRun(self.entries, self.embedding, store, chosen, target, on_progress)
        await asyncio.to_thread(self._record_space, store, target, probes, store.begin_space)
        await run.fill()
        for _ in range(_MAX_ROUNDS):
            if not switch:
                return run.report(before, switched=False)
            if await asyncio.to_thread(_switch_space, store, target):
                self.embedding.use(chosen, target)
                return run.report(before, switched=True)
            await run.fill()  # something was written meanwhile
        raise EmbedderError("others write faster than this embedder embeds; call reembed again when they have ended")

    def abandon(self) -> bool:
        """Drop the second space and what was filled in it; return whether there was one. In a thread."""
        store = self.entries.lifecycle("abandon_reembedding")
        with store.transaction():
            begun = store.filling() is not None
            store.abort_space()
        return begun

    def progress(self) -> ReembeddingProgress | None:
        """Return how far a second space is that was begun and not ended; None where there is none. In a thread."""
        return _migration_progress(self.entries.lifecycle_store)

    async def _embed_all_pending(self, space: Space, on_progress: OnReembeddingProgress | None) -> ReembeddingReport:
        """Embed what is pending; raise where the embedder fails at it, or gives nothing but zeros."""
        total = await asyncio.to_thread(self.backfill.count_pending, None)
        report = ReembeddingReport(None, space.fingerprint)
        while total:
            batch = await self.backfill.embed_pending(None, limit=REEMBED_BATCH)
            report = replace(
                report,
                embedded=report.embedded + batch.embedded,
                without=report.without + batch.without,
                truncated=report.truncated + batch.truncated,
            )
            if on_progress is not None:
                on_progress(ReembeddingProgress(report.embedded, total))
            if not batch.embedded:
                if self.embedding.problem is not None:
                    raise EmbedderError(self.embedding.problem)
                if not report.embedded and any(str(line.deferred).endswith(ZERO_VECTOR) for line in batch.waiting):
                    raise EmbedderError(f"none of {total} texts has a vector: {batch.waiting[0].deferred}")
                return replace(report, without=report.without + len(batch.waiting))
        return report

    def _target(
        self, store: LifecycleStore, embedder: Embedder, probes: ProbeVectors, before: Space, *, again: bool
    ) -> Space:
        """Return the space to fill: the one that is being filled for this very model, the one in use, or a new one."""
        recorded = self.embedding.probes
        filling = store.filling()
        if filling is not None:
            known = recorded.get(filling.space.fingerprint)
            if is_space_of(filling.space, embedder) and known is not None and is_same_model(known, probes):
                return filling.space
            raise SpaceNotReady(
                f"vectors of {filling.space} are being filled in; go on with that embedder, or abandon it first "
                "(abandon_reembedding, tellback reembed --abandon)",
                filling=filling.space,
            )
        if not is_space_of(before, embedder):
            return Space(embedder.fingerprint, probes.shape[1])
        known = recorded.first(before.fingerprint, probes) if before.dimension == probes.shape[1] else None
        if known is not None and is_same_model(known, probes) and not again:
            return before
        plain = embedder.fingerprint
        return Space(plain if plain != before.fingerprint else marked_fingerprint(plain, probes), probes.shape[1])

    def _record_space(
        self, store: LifecycleStore, space: Space, probes: ProbeVectors, begin: Callable[[Space], None]
    ) -> None:
        with store.transaction():
            if store.recorded_space() != space:  # else another process has switched to it meanwhile
                begin(space)
            self.embedding.probes.put(space.fingerprint, probes)


def _migration_progress(store: LifecycleStore | None) -> ReembeddingProgress | None:
    filling = None if store is None else store.filling()
    if filling is None:
        return None
    return ReembeddingProgress(filling.filled, filling.filled + sum(filling.pending.values()))


def _retry_refused(store: LifecycleStore, embedder: Embedder) -> None:
    """Make pending what another embedder refused, or was not given: this one may take it."""
    for partition in store.namespaces():
        for entry in store.scan(namespace=partition):
            reason = entry.no_vector or ""
            if reason.startswith(EMBEDDER_REFUSED) or (reason == SENSITIVE_REASON and may_embed_entry(entry, embedder)):
                with suppress(RevisionConflict):  # written meanwhile: then it is embedded anyway
                    waiting, expect = replace(entry, no_vector=None), {entry.id: entry.revision}
                    store.upsert([waiting], namespace=partition, expect=expect)


def _switch_space(store: LifecycleStore, target: Space) -> bool:
    """Switch; False where something is pending again. It may be that another process has switched already."""
    try:
        store.commit_space(target)
    except SpaceNotReady as error:
        if error.filling == target and error.pending:
            return False
        if error.filling is None:
            store.set_space(target)  # raises where the other one ended it otherwise
            return True
        raise
    return True


@dataclass(slots=True)
class _MigrationRun:
    """Work of one call, and how far it is."""

    entries: EntryStore
    embedding: EmbeddingService
    store: LifecycleStore
    embedder: Embedder
    target: Space
    on_progress: OnReembeddingProgress | None
    embedded: int = 0
    without: int = 0
    truncated: int = 0
    progress: ReembeddingProgress = ReembeddingProgress(0, 0)

    def report(self, before: Space, *, switched: bool) -> ReembeddingReport:
        """Return what was done."""
        counts = (self.embedded, self.without, self.truncated)
        return ReembeddingReport(before.fingerprint, self.target.fingerprint, *counts, switched)

    async def fill(self) -> None:
        """Give every entry that is pending in the second space its vector there, or a reason for none."""
        try:
            if (progress := await asyncio.to_thread(_migration_progress, self.store)) is not None:
                self.progress = progress
            self._report_progress()
            for partition in await asyncio.to_thread(self.store.namespaces):
                after: str | None = None
                while batch := await asyncio.to_thread(self._page, partition, after):
                    after = batch[-1].id
                    with self.embedding.in_flight.write():
                        embedded = await embed_entries(batch, self.embedder, partial(self._embed, partition))
                        store = partial(self._fill, partition)
                        await asyncio.to_thread(store_each, batch, embedded, store, self._forget)
                    self._report_progress()
        except SpaceNotReady as error:
            if error.filling is not None or await asyncio.to_thread(self.entries.follow_space) != self.target:
                raise
            # another process has filled the rest and switched: it is done

    async def _embed(self, partition: str, batch: Sequence[Entry]) -> list[EmbeddedText]:
        texts = [entry_embedding_text(entry) for entry in batch]
        embedder = partition_embedder(self.embedder, parse_store_namespace(partition)[1])
        embeddings, passages = await embed_with_lines(embedder, texts)
        answer = checked_embeddings(embeddings, texts)
        await self.embedding.keep_passages(self.target, passages)
        zeros = next((place for place, reason in answer.refused.items() if reason == ZERO_VECTOR), None)
        if zeros is not None:  # no word of the embedder's that it will not have the text: it is broken
            raise EmbedderError(
                f"{self.embedder.fingerprint} gave a vector of zeros for the text of {batch[zeros].id}, so it "
                "is not switched to; the vectors in use stay"
            )
        if answer.vectors.shape[1] != self.target.dimension:
            raise EmbedderError(f"vectors of {answer.vectors.shape[1]} numbers, after {self.target.dimension} before")
        if answer.refused:
            await probe_embedder(self.embedder)  # raises where it is not about the texts
        return embedded_texts(answer, self.target)

    def _page(self, partition: str, after: str | None) -> list[Entry]:
        return list(islice(self.store.unfilled(namespace=partition, after=after), REEMBED_BATCH))

    def _forget(self, texts: Sequence[str]) -> None:
        self.embedding.forget(texts)
        forget_texts(self.embedder, embedded_parts(texts))

    def _fill(self, partition: str, batch: Sequence[Entry], embedded: Sequence[EmbeddedText]) -> None:
        vectors, reasons = {}, {}
        for entry, text in zip(batch, embedded, strict=True):
            if text.vector is not None:
                vectors[entry.id] = text.vector
            elif (reason := text.no_vector or text.refused) is not None:
                reasons[entry.id] = reason
        expect = {entry.id: entry.revision for entry in batch}
        self.store.fill_space(self.target, vectors, no_vector=reasons, namespace=partition, expect=expect)
        self.embedded += len(vectors)
        self.without += len(reasons)
        self.truncated += sum(text.truncated is not None for text in embedded)
        self.progress = ReembeddingProgress(self.progress.done + len(vectors), self.progress.total - len(reasons))

    def _report_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.progress)
