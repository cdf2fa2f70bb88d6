"""Vectors for what is written: an embedder that fails never fails a write.

What could not be embedded is stored without a vector, found by its words, and embedded later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memory.embedders.protocol import Embedder, EmbeddingKind
from memory.errors import EmbedderError, EmbedderMismatch
from vectorstore import LifecycleStore, Space, SpaceMismatch, UnsupportedError, Vector, VectorStore

NOTHING_TO_EMBED = "nothing to embed"
NO_EMBEDDER = "no embedder is configured"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each text or None; *reasons* say why one never has one, *deferred* why all must wait."""

    vectors: tuple[Vector | None, ...]
    reasons: tuple[str | None, ...]
    deferred: str | None = None

    @classmethod
    def later(cls, count: int, why: str) -> Embedded:
        """Return *count* texts whose vectors are still to come."""
        return cls((None,) * count, (None,) * count, why)


class Embedding:
    """An embedder (or none) for one store; sets the store's space on first use."""

    def __init__(self, store: VectorStore, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self._store = store
        if embedder is None:
            return
        if store.space is not None and store.space.fingerprint != embedder.fingerprint:
            raise EmbedderMismatch(store.space.fingerprint, embedder.fingerprint)
        if store.space is None and not isinstance(store, LifecycleStore):
            reason = "a store without the lifecycle part needs its space when it is made"
            raise UnsupportedError("embedder", reason)

    async def vectors(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of *texts* for storing; raises nothing but cancellation."""
        if not texts:
            return Embedded((), ())
        if self.embedder is None:
            return Embedded.later(len(texts), NO_EMBEDDER)
        try:
            rows = await self._embed(self.embedder, texts, "document")
        except Exception as error:  # a stranger's embedder may raise anything; what was said is kept all the same
            _log.warning("embedding failed, vectors are pending: %s", type(error).__name__)
            return Embedded.later(len(texts), f"the embedder failed: {str(error) or type(error).__name__}")
        filled = [bool(row.any()) for row in rows]
        return Embedded(
            tuple(row.copy() if some else None for row, some in zip(rows, filled, strict=True)),
            tuple(None if some else NOTHING_TO_EMBED for some in filled),
        )

    async def queries(self, texts: Sequence[str]) -> tuple[dict[str, Vector], str | None]:
        """Return the vectors of a question's wordings, and a note where words alone must do."""
        if self.embedder is None:
            return {}, "searched by words alone: no embedder is configured"
        if not texts or self._store.space is None:
            return {}, None if not texts else "searched by words alone: nothing has a vector yet"
        try:
            rows = await self._embed(self.embedder, texts, "query")
        except Exception as error:  # as in vectors(): a failing embedder degrades the recall and says so
            return {}, f"searched by words alone: the embedder failed: {str(error) or type(error).__name__}"
        return {text: row for text, row in zip(texts, rows, strict=True) if row.any()}, None

    async def _embed(self, embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind) -> Vector:
        rows = np.asarray(await embedder.embed(texts, kind), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            raise EmbedderError(f"{len(texts)} texts gave vectors of shape {rows.shape}, or some not finite")
        if self._store.space is None and isinstance(self._store, LifecycleStore):
            await asyncio.to_thread(self._set_space, self._store, Space(embedder.fingerprint, rows.shape[1]))
        space = self._store.space
        if space is not None and (space.fingerprint, space.dimension) != (
            embedder.fingerprint,
            rows.shape[1],
        ):
            raise EmbedderMismatch(str(space), f"{embedder.fingerprint} ({rows.shape[1]} dimensions)")
        return rows

    @staticmethod
    def _set_space(store: LifecycleStore, space: Space) -> None:
        try:
            store.set_space(space)
        except SpaceMismatch as error:
            raise EmbedderMismatch(str(error.recorded), str(space)) from error
