"""Vectors for what is written: an embedder that fails, hangs or talks nonsense never fails a write.

What could not be embedded is stored without a vector, found by its words, and embedded later. Which space a vector is
of is looked at before it is stored, so that a switch to other vectors, here or in another process, mixes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from memory.embedders.cache_tables import MAX_BYTES, SqliteEmbeddingCache
from memory.embedders.cached import CachedEmbedder
from memory.embedders.details import Embeddings
from memory.embedders.forgetting import forget_texts
from memory.embedders.probe import agree, nearness, probe
from memory.embedders.protocol import Embedder, EmbeddingKind, checked_embedder
from memory.embedders.space import named_for
from memory.errors import EmbedderChanged, EmbedderError, EmbedderMismatch
from memory.redaction import redacted
from memory.write.embedded import NO_EMBEDDER, SWITCHED, Embedded, asked_once, embedded
from memory.write.embedding_settings import EmbeddingSettings, checked_settings
from memory.write.probe_tables import SqliteProbes
from memory.write.probes import InMemoryProbes, Probes, Rows
from memory.write.under_way import UnderWay
from vectorstore import Space, SpaceMismatch, UnsupportedError, Vector, VectorStore, lifecycle_of

_WORDS_ALONE = "searched by words alone"

_log = logging.getLogger(__name__)


class Embedding:
    """An embedder (or none) for one store; sets the store's space on first use. Any task may call.

    *problem* is why the last try to embed failed, None where it did not. *under_way* knows the writes that have begun.
    """

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder | None,
        *,
        settings: EmbeddingSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = checked_settings(settings)
        self.problem: str | None = None
        self.under_way = UnderWay()
        self._store = store
        self._lasting = lifecycle_of(store)
        self._clock = clock
        self._rests_until = -1.0
        self._trusted: Space | None = None
        if embedder is not None:
            checked_embedder(embedder)
            if store.space is None and self._lasting is None:
                reason = "a store without the lifecycle part needs its space when it is made"
                raise UnsupportedError("embedder", reason)
            if self.settings.mismatch == "raise":
                _check_name(store.space, embedder)
        database = None if self._lasting is None else self._lasting.database
        self.probes: Probes = InMemoryProbes() if database is None else SqliteProbes(database)
        limit = self.settings.cache_bytes or MAX_BYTES
        self._cache = None if database is None else SqliteEmbeddingCache(database, max_bytes=limit)
        self.embedder = embedder if embedder is None else self._kept(embedder)

    @property
    def resting(self) -> bool:
        """Whether the embedder is left alone, since it did not answer in time or nobody waits any more."""
        return self._clock() < self._rests_until or self.under_way.closing

    async def vectors(self, texts: Sequence[str], *, patient: bool = False) -> Embedded:
        """Return the vectors of *texts* for storing; raises nothing but cancellation. *patient*: without a limit."""
        if not texts:
            return Embedded((), ())
        if self.embedder is None:
            return Embedded.later(len(texts), NO_EMBEDDER)
        patience = None if patient else self.settings.write_patience + self.settings.per_text * len(texts)
        try:
            made, space = await self._asked(self.embedder, texts, "document", patience)
        except Exception as error:  # a stranger's embedder may raise anything; what was said is kept all the same
            if not isinstance(error, EmbedderMismatch):  # which is nobody's failure, and is in the item's line
                _log.warning("embedding failed: %s", type(error).__name__)
            return Embedded.later(len(texts), self._failed(error))
        return embedded(made, space)

    async def queries(self, texts: Sequence[str]) -> tuple[dict[str, Vector], str | None]:
        """Return the vectors of a question's wordings, and a note where words alone must do."""
        if self.embedder is None:
            return {}, f"{_WORDS_ALONE}: {NO_EMBEDDER}"
        if not texts or self._store.space is None:
            return {}, None if not texts else f"{_WORDS_ALONE}: nothing has a vector yet"
        try:
            made, _ = await self._asked(self.embedder, texts, "query", self.settings.question_patience)
        except Exception as error:  # as in vectors(): a failing embedder degrades the recall and says so
            return {}, f"{_WORDS_ALONE}: {self._failed(error)}"
        found = {text: row for text, row in zip(texts, made.vectors, strict=True) if row.any()}
        refused = next(iter(made.refused.values()), None)
        return found, f"{_WORDS_ALONE}: the embedder refused: {refused}" if refused and not found else None

    async def mismatch(self) -> str | None:
        """Ask the embedder for the probes; return why its vectors are not the memory's, None where they are.

        Nothing is written. One that fails raises what it raised.
        """
        embedder, space = self.embedder, self._store.space
        if embedder is None or space is None:
            return None
        try:
            _check_name(space, embedder)
            known = await asyncio.to_thread(self.probes.get, space.fingerprint)
            if known is not None:
                _check_probes(embedder, known, await probe(embedder))
        except EmbedderMismatch as error:
            return str(error)
        return None

    def follow(self) -> Space | None:
        """Return the space of the store's vectors now, whoever switched it; the store then takes those. In a thread."""
        space = self._store.space
        if space is None or self._lasting is None:
            return space
        recorded = self._lasting.recorded_space()
        if recorded is not None and recorded != space:
            self._lasting.set_space(recorded)
        return self._store.space

    def still(self, made: Embedded) -> Embedded:
        """Return *made* if its vectors may be stored, else as still to come; in the transaction that stores them."""
        if made.space is None or self.follow() == made.space:
            return made
        return Embedded.later(len(made.vectors), SWITCHED)

    def use(self, embedder: Embedder, space: Space) -> None:
        """Go on with *embedder*, whose vectors the store has now."""
        self.embedder, self._trusted, self.problem = self._kept(embedder), space, None
        self._rests_until = -1.0

    def forget(self, texts: Sequence[str]) -> None:
        """Remove what is kept of *texts*, which are to be erased; in the transaction that erases them.

        What a file's cache holds goes whichever embedder is in use now.
        """
        if self._cache is not None:
            self._cache.erase(texts)
        forget_texts(self.embedder, texts)

    def kept(self) -> int:
        """Return how many bytes of vectors the file's cache holds, whether it is used now or not. In a thread."""
        return 0 if self._cache is None else self._cache.size()

    def close(self) -> None:
        """Write down what the cache was asked for. In a thread."""
        if self._cache is not None and self.settings.cache_bytes:
            self._cache.close()

    def _kept(self, embedder: Embedder) -> Embedder:
        if self._cache is None or not self.settings.cache_bytes or isinstance(embedder, CachedEmbedder):
            return embedder
        return CachedEmbedder(embedder, self._cache)

    def _failed(self, error: Exception) -> str:
        self._trusted = None  # what comes back may be another model
        said = str(error) if isinstance(error, EmbedderMismatch) else redacted(str(error)) or type(error).__name__
        self.problem = said if isinstance(error, EmbedderMismatch) else f"the embedder failed: {said}"
        return self.problem

    async def _asked(
        self, embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind, patience: float | None
    ) -> tuple[Embeddings, Space]:
        if self.under_way.closing:
            raise EmbedderError("the memory is being closed")
        if self.resting and patience is not None:
            raise EmbedderError(f"it did not answer in time, and is left alone for {self.settings.rest:g} s")
        try:
            async with self.under_way.embedding(patience) as limit:
                made, space = await self._embed(embedder, texts, kind)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise EmbedderError("it cancelled itself") from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            if self.under_way.closing:
                raise EmbedderError("the memory is being closed") from error
            self._rests_until = self._clock() + self.settings.rest
            raise EmbedderError(f"no answer within {patience:g} s") from error
        self.problem = None
        return made, space

    async def _embed(self, embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind) -> tuple[Embeddings, Space]:
        space = self._store.space
        if space is not None and not named_for(space, embedder):  # it may have been switched to this one elsewhere
            space = await asyncio.to_thread(self.follow)
            _check_name(space, embedder)
        async with _beside(probe(embedder) if self._trusted is None or self._trusted != space else None) as probing:
            made = await asked_once(embedder, texts, kind)
            seen = None if probing is None else await probing
        if seen is not None or space is None:
            return made, await asyncio.to_thread(self._settle, embedder, made.vectors.shape[1], seen)
        _check_length(space, embedder, made.vectors.shape[1])
        return made, space

    def _settle(self, embedder: Embedder, dimension: int, seen: Rows | None) -> Space:
        """Hold what the embedder gave against what the memory was filled with; the first to come is recorded."""
        if self._store.space is None and self._lasting is not None:
            try:
                self._lasting.set_space(Space(embedder.fingerprint, dimension))
            except SpaceMismatch as error:
                raise EmbedderMismatch(str(error.recorded), f"{embedder.fingerprint} ({dimension})") from error
        space = self._store.space
        assert space is not None
        _check_name(space, embedder)
        _check_length(space, embedder, dimension)
        if seen is not None:
            _check_probes(embedder, self.probes.first(space.fingerprint, seen), seen)
            self._trusted = space
        return space


def _check_name(space: Space | None, embedder: Embedder) -> None:
    if space is not None and not named_for(space, embedder):
        raise EmbedderMismatch(space.fingerprint, embedder.fingerprint)


def _check_length(space: Space, embedder: Embedder, dimension: int) -> None:
    if space.dimension != dimension:
        raise EmbedderMismatch(str(space), f"{embedder.fingerprint} ({dimension} dimensions)")


def _check_probes(embedder: Embedder, known: Rows, seen: Rows) -> None:
    if not agree(known, seen):
        raise EmbedderChanged(embedder.fingerprint, nearness(known, seen))


@asynccontextmanager
async def _beside(work: Any) -> AsyncIterator[asyncio.Task[Rows] | None]:
    """Run *work* beside the block; it does not outlive it, and its failure is the block's to see."""
    if work is None:
        yield None
        return
    task: asyncio.Task[Rows] = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
