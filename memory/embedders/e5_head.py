"""Head of the E5 encoder: a fitted matrix that brings the vectors of a question and of what answers it together.

The network puts questions near questions and long texts near long ones. An offset for each kind of text takes that
away, and the matrix weighs what tells topics apart. ``python -m benchmarks train`` fits both and writes the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.protocol import EmbeddingKind

E5_HEAD: Final = Path(__file__).with_name("e5_head.npy")
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class E5Head:
    """The *matrix*, shape (384, 384), and what is added before: *of_documents* and *of_queries*, shape (384,)."""

    matrix: Floats
    of_documents: Floats
    of_queries: Floats

    @classmethod
    def load(cls, path: Path = E5_HEAD) -> E5Head:
        """Return the head in the file *path*."""
        rows = np.load(path).astype(np.float32)
        return cls(rows[:-2], rows[-2], rows[-1])

    def save(self, path: Path = E5_HEAD) -> None:
        """Write the head to *path*, in half precision."""
        np.save(path, np.concatenate([self.matrix, [self.of_documents, self.of_queries]]).astype(np.float16))

    def apply(self, vectors: Floats, kind: EmbeddingKind) -> Floats:
        """Return unit vectors for the network's *vectors*, shape (n, 384)."""
        moved = (vectors + (self.of_queries if kind == "query" else self.of_documents)) @ self.matrix
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)


def head_mark() -> str:
    """Return a short hash of the head that is installed."""
    return sha256(E5_HEAD.read_bytes()).hexdigest()[:8]
