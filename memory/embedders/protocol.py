"""Embedder protocols: vectors of texts and of words, details of truncated and refused texts, forgetting of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellback.memory.errors import ArgumentError
from tellback.vectorstore import Space

EmbeddingKind: TypeAlias = Literal["document", "query"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    *fingerprint* names the model, its version and normalisation: equal fingerprints mean comparable vectors.
    *dimension* may be 0 until the first call of an embedder that must ask its server.
    """

    @property
    def fingerprint(self) -> str:
        """Name of the model, its version and normalisation."""

    @property
    def dimension(self) -> int:
        """Length of the vectors."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimension), float32, in the order of *texts*.

        A text without anything to embed (no letter, no digit) may get a row of zeros, which callers store as "no
        vector"; a blank one always does. An empty list gives shape (0, dimension). A text with lone surrogates raises
        ``ArgumentError``, a failing or inconsistent provider ``EmbedderError``. Calls may be made at the same time.
        """


def checked_embedder(embedder: object, argument: str = "embedder") -> Embedder:
    """Return *embedder* if it implements ``Embedder``; a class does not."""
    if isinstance(embedder, type) or not isinstance(embedder, Embedder):
        expected = "an embedder (fingerprint, dimension, async embed) is needed, such as LocalEmbedder()"
        raise ArgumentError(argument, embedder, expected)
    return embedder


@runtime_checkable
class WordVectors(Protocol):
    """Vectors of single words, for the soft word match of recall; works whatever embeds the texts."""

    @property
    def fingerprint(self) -> str:
        """Name of the model, its version and normalisation."""

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector a word, shape (len(words), d), float32; zeros for a blank word."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Truncation of a text whose vector is of its beginning: *kept* of *of* tokens, as the embedder counts them."""

    kept: int
    of: int

    def __str__(self) -> str:
        return f"truncated (kept {self.kept} of {self.of} tokens)"


def measure_truncation(part: str, whole: str, measure: Callable[[str], int], *, kept: int | None = None) -> Truncation:
    """Return the truncation of *whole* when *part* of it was embedded; *kept* where the server has counted itself."""
    tokens = measure(part) if kept is None else kept
    return Truncation(tokens, max(measure(whole), tokens + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Answer of an embedder: *vectors* as ``Embedder.embed`` gives them; truncations and refusals by position.

    A refused text has a row of zeros; the reason is the embedder's. The others are as good as without it.
    """

    vectors: NDArray[np.float32]
    truncated: Mapping[int, Truncation] = field(default_factory=lambda: MappingProxyType({}))
    refused: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))


@runtime_checkable
class DetailedEmbedder(Embedder, Protocol):
    """Embedder that reports truncations and refusals. Those of this package that can cut or refuse are detailed."""

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``embed``; a text that is refused by itself is listed in ``refused`` and raises nothing."""


async def embed_detailed(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
    """Return *embedder*'s detailed answer; a plain embedder reports no truncations and refusals."""
    if hasattr(embedder, "embed_detailed"):  # to ask for all of the protocol would read each of its properties
        return await cast("DetailedEmbedder", embedder).embed_detailed(texts, kind)
    return Embeddings(await embedder.embed(texts, kind))


@runtime_checkable
class ForgettingEmbedder(Protocol):
    """Embedder that keeps something of the texts it was given, and can remove it."""

    def forget(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept of *texts*; return how many vectors that were. Called in a worker thread."""


def forget_texts(embedder: Embedder | None, texts: Sequence[str]) -> int:
    """Remove what *embedder* keeps of *texts*; most keep nothing."""
    return embedder.forget(texts) if isinstance(embedder, ForgettingEmbedder) else 0


@runtime_checkable
class PassageEmbedder(Embedder, Protocol):
    """Embedder of notes and turns that has another one for *passages* of documents.

    Vectors of both have one length, lie in one space by its name, and are never compared with each other.
    """

    @property
    def passages(self) -> Embedder:
        """Embedder of passages, and of questions about them."""


def passage_embedder(embedder: Embedder) -> Embedder:
    """Return the embedder of passages: *embedder* itself where it has no other."""
    return embedder.passages if isinstance(embedder, PassageEmbedder) else embedder


_MODEL_MARK = re.compile(r"#[0-9a-f]{12}\Z")


def is_space_of(space: Space, embedder: Embedder) -> bool:
    """Return whether *space* has the name of *embedder*'s vectors, with the mark of a changed model or without."""
    return space.fingerprint == embedder.fingerprint or _MODEL_MARK.sub("", space.fingerprint) == embedder.fingerprint
