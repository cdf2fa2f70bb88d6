"""The embedding cache, keyed by space, kind and a keyed hash of the text, and the embedder that asks it first.

embedder = CachedEmbedder(OpenAICompatibleEmbedder(…), SqliteEmbeddingCache.at("vectors.db"))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory.embedders.batching import check_embedder_input, distinct_texts
from memory.embedders.fingerprint import PROBES, is_same_model, probe_embedder
from memory.embedders.protocol import (
    Embedder,
    EmbeddingKind,
    Embeddings,
    Truncation,
    checked_embedder,
    embed_detailed,
    forget_texts,
)
from memory.errors import ArgumentError
from memory.http.requests import is_remote
from vectorstore import VectorStoreError

CachedKind: TypeAlias = Literal["document", "query", "probe"]
"""What a vector was made as; a probe's is kept for as long as the cache is."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedVector:
    """A vector, shape (d,), float32, and what was cut of its text."""

    vector: NDArray[np.float32]
    truncation: Truncation | None = None


@runtime_checkable
class EmbeddingCache(Protocol):
    """Keeps vectors between calls and runs, in bounded room: what was asked for longest ago goes first.

    Any thread and process may use it. It may lose what it keeps at any time, and gives nothing that is not whole.
    """

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[CachedVector | None]:
        """Return what is kept for each of *texts*."""
        ...

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, CachedVector]) -> None:
        """Keep vectors by their texts; others make room for them."""
        ...

    def erase(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept for *texts*, of every space and kind; return how many vectors that were."""
        ...

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove what is kept of one space, or (None) everything; return how many vectors that were."""
        ...


_log = logging.getLogger(__name__)


class CachedEmbedder:
    """Keeps the vectors of *inner* in *cache*; equal to it in every answer.

    Questions are passed on unless *queries*: nobody forgets a question by its id, so what is kept of it stays until
    there is no more room. A model changed under the same name is noticed before the first new vector is used, and what
    was kept of it goes. A cache that cannot be read or written costs its use, never the answer.
    """

    def __init__(self, inner: Embedder, cache: EmbeddingCache, *, queries: bool = False) -> None:
        checked_embedder(inner, "inner")
        if isinstance(cache, type) or not isinstance(cache, EmbeddingCache):
            raise ArgumentError("cache", cache, "an EmbeddingCache is needed")
        self._inner = inner
        self._cache = cache
        self._kinds = {"document", "query"} if queries else {"document"}
        self._dimension = 0
        self._known = False

    @property
    def fingerprint(self) -> str:
        """That of the embedder inside."""
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until there was one."""
        return self._inner.dimension or self._dimension

    @property
    def remote(self) -> bool:
        """Whether the embedder inside is somewhere else, or does not say."""
        return is_remote(self._inner)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; what the embedder inside raises, or would have raised, is raised."""
        check_embedder_input(texts, kind)
        if kind not in self._kinds:
            return await self._inner.embed(texts, kind)
        asked, places = distinct_texts(texts)
        found, refused = await self._found(asked, kind, strict=True)
        return self._spread(len(texts), places, found, refused).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``; what was cut is told of a kept vector, too."""
        check_embedder_input(texts, kind)
        if kind not in self._kinds:
            return await embed_detailed(self._inner, texts, kind)
        asked, places = distinct_texts(texts)
        found, refused = await self._found(asked, kind, strict=False)
        return self._spread(len(texts), places, found, refused)

    async def probe(self) -> NDArray[np.float32]:
        """Return the probes of the embedder inside, asked now; what was kept of another model of its name goes."""
        now = await probe_embedder(self._inner)
        known = await asyncio.to_thread(self._kept, PROBES, "probe")
        if any(text not in known for text in PROBES):
            await asyncio.to_thread(self._keep, dict(zip(PROBES, map(CachedVector, now), strict=True)), "probe")
        elif not is_same_model(np.stack([known[text].vector for text in PROBES]), now):
            _log.warning("the model of %s was changed: its kept vectors are dropped", self.fingerprint)
            await asyncio.to_thread(self._cache.clear, self.fingerprint)
            await asyncio.to_thread(self._keep, dict(zip(PROBES, map(CachedVector, now), strict=True)), "probe")
        self._known = True
        return now

    def forget(self, texts: Sequence[str]) -> int:
        """Remove what is kept for *texts*, and what the embedder inside keeps; return how many vectors. In a thread."""
        return self._cache.erase(texts) + forget_texts(self._inner, texts)

    async def _found(
        self, asked: Sequence[str], kind: EmbeddingKind, *, strict: bool
    ) -> tuple[dict[str, CachedVector], dict[str, str]]:
        found = await asyncio.to_thread(self._kept, asked, kind)
        missing = [text for text in asked if text not in found]
        if not missing:
            return found, {}
        if not self._known:
            await self.probe()
            found = await asyncio.to_thread(self._kept, asked, kind)  # nothing is left of another model
            missing = [text for text in asked if text not in found]
        if strict:
            made = Embeddings(await self._inner.embed(missing, kind))
        else:
            made = await embed_detailed(self._inner, missing, kind)
        new = {
            text: CachedVector(row.copy(), made.truncated.get(place))
            for place, (text, row) in enumerate(zip(missing, made.vectors, strict=True))
            if row.any()
        }
        await asyncio.to_thread(self._keep, new, kind)
        return {**found, **new}, {missing[place]: why for place, why in made.refused.items()}

    def _spread(
        self, count: int, places: dict[str, list[int]], found: dict[str, CachedVector], refused: dict[str, str]
    ) -> Embeddings:
        self._dimension = next((len(one.vector) for one in found.values()), self._dimension)
        vectors = np.zeros((count, self.dimension), np.float32)
        truncated: dict[int, Truncation] = {}
        for text, one in found.items():
            vectors[places[text]] = one.vector
            if one.truncation is not None:
                truncated.update(dict.fromkeys(places[text], one.truncation))
        by_place = {place: why for text, why in refused.items() for place in places[text]}
        return Embeddings(vectors, truncated, by_place)

    def _kept(self, texts: Sequence[str], kind: str) -> dict[str, CachedVector]:
        try:
            kept = self._cache.get(self.fingerprint, cast("CachedKind", kind), texts)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be read: %s", type(error).__name__)
            return {}
        length = self.dimension
        whole = {text: one for text, one in zip(texts, kept, strict=True) if one is not None}
        length = length or next((len(one.vector) for one in whole.values()), 0)
        return {text: one for text, one in whole.items() if len(one.vector) == length}

    def _keep(self, kept: dict[str, CachedVector], kind: str) -> None:
        try:
            self._cache.put(self.fingerprint, cast("CachedKind", kind), kept)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be written: %s", type(error).__name__)

    def __repr__(self) -> str:
        return f"CachedEmbedder({self._inner!r})"
