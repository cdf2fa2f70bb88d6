"""What a cache of vectors is: by the name of a space, the kind and a keyed hash of the text, never by the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory.embedders.details import Truncation

CachedKind: TypeAlias = Literal["document", "query", "probe"]
"""What a vector was made as; a probe's is kept for as long as the cache is."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A vector, shape (d,), float32, and what was cut of its text."""

    vector: NDArray[np.float32]
    truncation: Truncation | None = None


@runtime_checkable
class EmbeddingCache(Protocol):
    """Keeps vectors between calls and runs, in bounded room: what was asked for longest ago goes first.

    Any thread and process may use it. It may lose what it keeps at any time, and gives nothing that is not whole.
    """

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[Kept | None]:
        """Return what is kept for each of *texts*."""
        ...

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, Kept]) -> None:
        """Keep vectors by their texts; others make room for them."""
        ...

    def erase(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept for *texts*, of every space and kind; return how many vectors that were."""
        ...

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove what is kept of one space, or (None) everything; return how many vectors that were."""
        ...
