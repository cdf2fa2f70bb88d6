"""Fallback among embedders of the same space: the next one is asked where one fails.

embedder = FallbackEmbedder(OllamaEmbedder(model, base_url="http://gpu:11434"), OllamaEmbedder(model))
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_embedder_input
from tellback.memory.embedders.fingerprint import is_same_model, probe_embedder, probe_similarity
from tellback.memory.embedders.protocol import (
    Embedder,
    EmbeddingKind,
    Embeddings,
    checked_embedder,
    embed_detailed,
    forget_texts,
)
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.memory.http.requests import is_remote

T = TypeVar("T")

_log = logging.getLogger(__name__)


class FallbackEmbedder:
    """Asks *first*, and *others* in their order where it fails.

    All must have one fingerprint: vectors of another model cannot stand in for these, so another embedder is refused.
    (While one is down, a memory finds by words, and embeds later; to change models for good, re-embed it.) And the
    name alone is not believed: each is asked for the probes before its first answer is used, and passed over where
    they are not what the first of them that answered had given.
    """

    def __init__(self, first: Embedder, *others: Embedder) -> None:
        if not others:
            raise ArgumentError("others", others, "an embedder to fall back on is needed")
        checked_embedder(first, "first")
        for index, other in enumerate(others):
            if checked_embedder(other, f"others[{index}]").fingerprint != first.fingerprint:
                raise ArgumentError(
                    f"others[{index}]",
                    other.fingerprint,
                    f"an embedder of the same space, {first.fingerprint}, is needed (give two names of one model the "
                    "same fingerprint=)",
                )
        self._members = (first, *others)
        self._known: NDArray[np.float32] | None = None
        self._trusted: set[int] = set()

    @property
    def fingerprint(self) -> str:
        """The fingerprint that all have."""
        return self._members[0].fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until one of them knows."""
        return next((member.dimension for member in self._members if member.dimension), 0)

    @property
    def remote(self) -> bool:
        """True if one of them is somewhere else, or does not say."""
        return any(is_remote(member) for member in self._members)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; raises the last error when all fail."""
        check_embedder_input(texts, kind)
        return await self._first_answer(lambda member: member.embed(texts, kind))

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``."""
        check_embedder_input(texts, kind)
        return await self._first_answer(lambda member: embed_detailed(member, texts, kind))

    async def probe(self) -> NDArray[np.float32]:
        """Return the probes of the embedder that answers now."""
        return await self._first_answer(probe_embedder)

    def forget(self, texts: Sequence[str]) -> int:
        """Remove what any of them keeps of *texts*; return how many vectors. In a thread."""
        return sum(forget_texts(member, texts) for member in self._members)

    async def _first_answer(self, ask: Callable[[Embedder], Awaitable[T]]) -> T:
        for index, member in enumerate(self._members):
            try:
                await self._check(index, member)
                return await ask(member)
            except ArgumentError:
                raise
            except Exception as error:
                if index == len(self._members) - 1:
                    raise
                counts = index + 1, len(self._members)
                _log.warning("embedder %d of %d failed (%s), asking the next", *counts, type(error).__name__)
        raise AssertionError("unreachable")

    async def _check(self, index: int, member: Embedder) -> None:
        if index in self._trusted:
            return
        probes = await probe_embedder(member)
        if self._known is None:
            self._known = probes
        elif not is_same_model(self._known, probes):
            raise EmbedderError(
                f"embedder {index + 1} of {self.fingerprint} is another model than the one that answered first "
                f"(nearness {probe_similarity(self._known, probes):.2f})"
            )
        self._trusted.add(index)

    def __repr__(self) -> str:
        return f"FallbackEmbedder({self.fingerprint!r}, {len(self._members)} of them)"
