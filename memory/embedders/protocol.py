"""What an embedder is, and what its answers must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory.errors import ArgumentError

EmbeddingKind: TypeAlias = Literal["document", "query"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    *fingerprint* names the model, its version and normalisation: equal fingerprints mean comparable vectors.
    *dimension* may be 0 until the first call of an embedder that must ask its server.
    """

    @property
    def fingerprint(self) -> str:
        """What made the vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        ...

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimension), float32, in the order of *texts*.

        A text without anything to embed (no letter, no digit) may get a row of zeros, which callers store as "no
        vector"; a blank one always does. An empty list gives shape (0, dimension). A text with lone surrogates raises
        ``ArgumentError``, a failing or inconsistent provider ``EmbedderError``. Calls may be made at the same time.
        """
        ...


def checked_embedder(embedder: object, argument: str = "embedder") -> Embedder:
    """Return *embedder* if it is one; a class that makes one is none."""
    if isinstance(embedder, type) or not isinstance(embedder, Embedder):
        expected = "an embedder (fingerprint, dimension, async embed) is needed, such as LocalEmbedder()"
        raise ArgumentError(argument, embedder, expected)
    return embedder


@runtime_checkable
class WordVectors(Protocol):
    """Vectors of single words, for the soft word match of recall; works whatever embeds the texts."""

    @property
    def fingerprint(self) -> str:
        """What made the vectors."""
        ...

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector a word, shape (len(words), d), float32; zeros for a blank word."""
        ...
