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
from itertools import islice

from memory.embedders.fingerprint import is_same_model, is_space_of, marked_fingerprint, probe_embedder
from memory.embedders.protocol import Embedder, checked_embedder, forget_texts
from memory.errors import ArgumentError, EmbedderError
from memory.tables.embedder_probes import ProbeVectors
from memory.write import embedding_backfill
from memory.write.access_control import SENSITIVE_REASON, may_embed_entry
from memory.write.context import WriteContext
from memory.write.embedding_service import (
    EMBEDDER_REFUSED,
    ZERO_VECTOR,
    EmbeddingResult,
    embed_distinct,
    embedding_result,
)
from vectorstore import Entry, LifecycleStore, RevisionConflict, Space, SpaceNotReady

REEMBED_BATCH = 256
_MAX_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class ReembeddingProgress:
    """How far embedding anew is: *done* of *total* entries of all namespaces, documents and old versions included.

    What has nothing to embed is not counted; what is written meanwhile is, when the rest is done.
    """

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ReembeddingReport:
    """What embedding anew did: from which space *before* (None: there was none) to which one (*space*).

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


async def reembed_store(
    context: WriteContext,
    embedder: Embedder | None,
    *,
    switch: bool,
    again: bool,
    on_progress: OnReembeddingProgress | None,
) -> ReembeddingReport:
    """Fill the space of *embedder* (None: the memory's own) and switch to it, as ``LongTermMemory.reembed`` says."""
    store = context.lifecycle("reembed")
    chosen = embedder if embedder is not None else context.embedding.embedder
    if chosen is None:
        raise ArgumentError("embedder", embedder, "the memory has none of its own, so the one to embed with is needed")
    checked_embedder(chosen)
    if on_progress is not None and not callable(on_progress):
        raise ArgumentError("on_progress", on_progress, "a function of a ReembeddingProgress is needed")
    seen = await probe_embedder(chosen)
    before = await asyncio.to_thread(context.embedding.follow)
    if before is None:
        return await _embed_first(context, store, chosen, seen, on_progress)
    target = await asyncio.to_thread(_target, context, store, chosen, seen, before, again=again)
    if target == before:
        context.embedding.use(chosen, before)
        done = await _embed_all_pending(context, before, on_progress)
        return replace(done, before=before.fingerprint, already=not (done.embedded or done.without))
    await asyncio.to_thread(_retry_refused, store, chosen)
    run = _MigrationRun(context, store, chosen, target, on_progress)
    await asyncio.to_thread(_begin_migration, context, store, target, seen)
    await run.fill()
    for _ in range(_MAX_ROUNDS):
        if not switch:
            return run.report(before, switched=False)
        if await asyncio.to_thread(_switch_space, store, target):
            context.embedding.use(chosen, target)
            return run.report(before, switched=True)
        await run.fill()  # something was written meanwhile
    raise EmbedderError("others write faster than this embedder embeds; call reembed again when they have ended")


def abandon_migration(context: WriteContext) -> bool:
    """Drop the second space and what was filled in it; return whether there was one."""
    store = context.lifecycle("abandon_reembedding")
    with store.transaction():
        there = store.filling() is not None
        store.abort_space()
    return there


def migration_progress(context: WriteContext) -> ReembeddingProgress | None:
    """Return how far a second space is that was begun and not ended; None where there is none."""
    filling = None if context.lasting is None else context.lasting.filling()
    if filling is None:
        return None
    return ReembeddingProgress(filling.filled, filling.filled + sum(filling.pending.values()))


async def _embed_first(
    context: WriteContext,
    store: LifecycleStore,
    embedder: Embedder,
    seen: ProbeVectors,
    on_progress: OnReembeddingProgress | None,
) -> ReembeddingReport:
    """Embed a memory that has no vectors yet: there is nothing to fill beside."""
    space = Space(embedder.fingerprint, seen.shape[1])

    def record() -> None:
        with store.transaction():
            store.set_space(space)
            context.embedding.probes.put(space.fingerprint, seen)

    await asyncio.to_thread(record)
    context.embedding.use(embedder, space)
    return await _embed_all_pending(context, space, on_progress)


async def _embed_all_pending(
    context: WriteContext, space: Space, on_progress: OnReembeddingProgress | None
) -> ReembeddingReport:
    """Embed what is pending; raise where the embedder fails at it, or gives nothing but zeros."""
    total = await asyncio.to_thread(embedding_backfill.count_pending, context, None)
    done = ReembeddingReport(None, space.fingerprint)
    while total:
        now = await embedding_backfill.embed_pending(context, None, limit=REEMBED_BATCH)
        done = replace(
            done,
            embedded=done.embedded + now.embedded,
            without=done.without + now.without,
            truncated=done.truncated + now.truncated,
        )
        if on_progress is not None:
            on_progress(ReembeddingProgress(done.embedded, total))
        if not now.embedded:
            if context.embedding.problem is not None:
                raise EmbedderError(context.embedding.problem)
            if not done.embedded and any(str(line.deferred).endswith(ZERO_VECTOR) for line in now.waiting):
                raise EmbedderError(f"none of {total} texts has a vector: {now.waiting[0].deferred}")
            return replace(done, without=done.without + len(now.waiting))
    return done


def _target(
    context: WriteContext, store: LifecycleStore, embedder: Embedder, seen: ProbeVectors, before: Space, *, again: bool
) -> Space:
    """Return the space to fill: the one that is being filled for this very model, the one in use, or a new one."""
    probes = context.embedding.probes
    filling = store.filling()
    if filling is not None:
        known = probes.get(filling.space.fingerprint)
        if is_space_of(filling.space, embedder) and known is not None and is_same_model(known, seen):
            return filling.space
        raise SpaceNotReady(
            f"vectors of {filling.space} are being filled in; go on with that embedder, or abandon it first "
            "(abandon_reembedding, tellback reembed --abandon)",
            filling=filling.space,
        )
    if not is_space_of(before, embedder):
        return Space(embedder.fingerprint, seen.shape[1])
    known = probes.first(before.fingerprint, seen) if before.dimension == seen.shape[1] else None
    if known is not None and is_same_model(known, seen) and not again:
        return before
    plain = embedder.fingerprint
    return Space(plain if plain != before.fingerprint else marked_fingerprint(plain, seen), seen.shape[1])


def _retry_refused(store: LifecycleStore, embedder: Embedder) -> None:
    """Let wait what another embedder refused, or was not given: this one may take it."""
    for lane in store.namespaces():
        for entry in store.scan(namespace=lane):
            why = entry.no_vector or ""
            if why.startswith(EMBEDDER_REFUSED) or (why == SENSITIVE_REASON and may_embed_entry(entry, embedder)):
                with suppress(RevisionConflict):  # written meanwhile: then it is asked for anyway
                    store.upsert([replace(entry, no_vector=None)], namespace=lane, expect={entry.id: entry.revision})


def _begin_migration(context: WriteContext, store: LifecycleStore, target: Space, seen: ProbeVectors) -> None:
    with store.transaction():
        store.begin_space(target)
        context.embedding.probes.put(target.fingerprint, seen)


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


class _MigrationRun:
    """One call's work: what it embedded, and how far it is."""

    def __init__(
        self,
        context: WriteContext,
        store: LifecycleStore,
        embedder: Embedder,
        target: Space,
        on_progress: OnReembeddingProgress | None,
    ) -> None:
        self._context = context
        self._store = store
        self._embedder = embedder
        self._target = target
        self._on_progress = on_progress
        self._embedded = self._without = self._truncated = 0
        self._done = self._total = 0

    def report(self, before: Space, *, switched: bool) -> ReembeddingReport:
        """Return what was done."""
        return ReembeddingReport(
            before.fingerprint,
            self._target.fingerprint,
            self._embedded,
            self._without,
            self._truncated,
            switched=switched,
        )

    async def fill(self) -> None:
        """Give every entry that is pending in the second space its vector there, or a reason for none."""
        try:
            if (now := await asyncio.to_thread(migration_progress, self._context)) is not None:
                self._done, self._total = now.done, now.total
            self._tell()
            for lane in await asyncio.to_thread(self._store.namespaces):
                after: str | None = None
                while batch := await asyncio.to_thread(self._page, lane, after):
                    after = batch[-1].id
                    with self._context.under_way.write():
                        made = await self._made(batch)
                        await asyncio.to_thread(self._put, lane, batch, made)
                    self._tell()
        except SpaceNotReady as error:
            if error.filling is not None or await asyncio.to_thread(self._context.embedding.follow) != self._target:
                raise
            # another process has filled the rest and switched: it is done

    async def _made(self, batch: Sequence[Entry]) -> EmbeddingResult:
        sent = [place for place, entry in enumerate(batch) if may_embed_entry(entry, self._embedder)]
        texts = [batch[place].text for place in sent]
        if not texts:
            return EmbeddingResult((), (), space=self._target).among(len(batch), (), SENSITIVE_REASON)
        made = await embed_distinct(self._embedder, texts)
        if (
            ZERO_VECTOR in made.refused.values()
        ):  # no word of the embedder's that it will not have the text: it is broken
            place = next(place for place, why in made.refused.items() if why == ZERO_VECTOR)
            raise EmbedderError(
                f"{self._embedder.fingerprint} gave a vector of zeros for the text of {batch[sent[place]].id}, so it "
                "is not switched to; the vectors in use stay"
            )
        if made.vectors.shape[1] != self._target.dimension:
            raise EmbedderError(f"vectors of {made.vectors.shape[1]} numbers, after {self._target.dimension} before")
        if made.refused:
            await probe_embedder(self._embedder)  # raises where it is not about the texts
        return embedding_result(made, self._target).among(len(batch), sent, SENSITIVE_REASON)

    def _page(self, lane: str, after: str | None) -> list[Entry]:
        return list(islice(self._store.unfilled(namespace=lane, after=after), REEMBED_BATCH))

    def _put(self, lane: str, batch: Sequence[Entry], made: EmbeddingResult) -> None:
        try:
            self._fill(lane, batch, made)
        except RevisionConflict:  # one was corrected meanwhile; it is pending again, the others are to be filled
            if len(batch) > 1:
                for place, entry in enumerate(batch):
                    self._put(lane, [entry], made.part([place]))
            else:  # or it was forgotten: then nothing of it may stay in a cache
                self._context.embedding.forget([batch[0].text])
                forget_texts(self._embedder, [batch[0].text])

    def _fill(self, lane: str, batch: Sequence[Entry], made: EmbeddingResult) -> None:
        vectors = {entry.id: row for entry, row in zip(batch, made.vectors, strict=True) if row is not None}
        reasons = {
            entry.id: why
            for place, (entry, never) in enumerate(zip(batch, made.reasons, strict=True))
            if (why := never or made.refused.get(place)) is not None
        }
        expect = {entry.id: entry.revision for entry in batch}
        self._store.fill_space(self._target, vectors, no_vector=reasons, namespace=lane, expect=expect)
        self._embedded += len(vectors)
        self._done += len(vectors)
        self._total -= len(reasons)
        self._without += len(reasons)
        self._truncated += len(made.truncated)

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(ReembeddingProgress(self._done, self._total))
