"""What an embedder can say of its answer beside the vectors: which texts were cut, and which were refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import Embedder, EmbeddingKind

_NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Truncation:
    """A text of which only the beginning is in its vector: *kept* of *of* tokens, as the embedder counts them."""

    kept: int
    of: int

    def __str__(self) -> str:
        return f"truncated (kept {self.kept} of {self.of} tokens)"


def truncation(part: str, whole: str, measure: Callable[[str], int], *, kept: int | None = None) -> Truncation:
    """Return what was cut of *whole* when *part* of it was embedded; *kept* where the server has counted itself."""
    tokens = measure(part) if kept is None else kept
    return Truncation(tokens, max(measure(whole), tokens + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """An answer: *vectors* as ``Embedder.embed`` gives them; by place in the list, what was cut and what was refused.

    A refused text has a row of zeros; the reason is the embedder's. The others are as good as without it.
    """

    vectors: NDArray[np.float32]
    truncated: Mapping[int, Truncation] = field(default_factory=lambda: MappingProxyType({}))
    refused: Mapping[int, str] = field(default_factory=lambda: _NONE)


@runtime_checkable
class DetailedEmbedder(Embedder, Protocol):
    """An embedder that tells what it did with each text. Those of this package that can cut or refuse are."""

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``embed``; a text that is refused by itself is told in ``refused`` and raises nothing."""
        ...


async def embed_detailed(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
    """Return *embedder*'s answer with what it tells of it; nothing is told where it is a plain one."""
    if hasattr(embedder, "embed_detailed"):  # to ask for all of the protocol would read each of its properties
        return await cast("DetailedEmbedder", embedder).embed_detailed(texts, kind)
    return Embeddings(await embedder.embed(texts, kind))
