"""The space of an embedder, as a vector store records it."""

from __future__ import annotations

from memory.embedders.protocol import Embedder
from memory.errors import EmbedderError
from vectorstore import Metric, Space


def embedder_space(embedder: Embedder) -> Space:
    """Return the space of *embedder*'s vectors; it must know its dimension, which may take a first call."""
    if embedder.dimension < 1:
        raise EmbedderError(f"{embedder.fingerprint} does not know its dimension before its first text")
    return Space(embedder.fingerprint, embedder.dimension, Metric.COSINE)
