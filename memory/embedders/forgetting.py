"""What an embedder keeps of texts, removed when they are forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memory.embedders.protocol import Embedder


@runtime_checkable
class ForgettingEmbedder(Protocol):
    """An embedder that keeps something of the texts it was given, and can remove it."""

    def forget(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept of *texts*; return how many vectors that were. Called in a worker thread."""
        ...


def forget_texts(embedder: Embedder | None, texts: Sequence[str]) -> int:
    """Remove what *embedder* keeps of *texts*; most keep nothing."""
    return embedder.forget(texts) if isinstance(embedder, ForgettingEmbedder) else 0
