"""The space of an embedder, as a vector store records it.

The name of a space is the embedder's fingerprint. Where a model was changed under the same name and a memory was
embedded again with it, a mark of the model's vectors follows: ``openai-compatible/some-model/full/unit#1f0c…``.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import Embedder
from memory.errors import EmbedderError
from vectorstore import Metric, Space

_MARK = re.compile(r"#[0-9a-f]{12}\Z")


def embedder_space(embedder: Embedder) -> Space:
    """Return the space of *embedder*'s vectors; it must know its dimension, which may take a first call."""
    if embedder.dimension < 1:
        raise EmbedderError(f"{embedder.fingerprint} does not know its dimension before its first text")
    return Space(embedder.fingerprint, embedder.dimension, Metric.COSINE)


def named_for(space: Space, embedder: Embedder) -> bool:
    """Whether *space* has the name of *embedder*'s vectors, with a mark behind it or without."""
    return space.fingerprint == embedder.fingerprint or _MARK.sub("", space.fingerprint) == embedder.fingerprint


def marked(fingerprint: str, probes: NDArray[np.float32]) -> str:
    """Return *fingerprint* with the mark of the model that gave *probes*: for one changed under the same name."""
    return f"{fingerprint}#{hashlib.blake2b(np.round(probes, 2).tobytes(), digest_size=6).hexdigest()}"
