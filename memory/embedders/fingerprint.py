"""Fingerprints of embedding models: probe texts that reveal another model under the same name, and its mark.

If a model was changed under the same name and a memory was embedded again with it, a mark of the model's vectors
follows the name of its space: ``openai-compatible/some-model/full/unit#1f0c…``.
"""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.normalization import normalize_rows
from tellback.memory.embedders.protocol import Embedder


def marked_fingerprint(fingerprint: str, probes: NDArray[np.float32]) -> str:
    """Return *fingerprint* with the mark of the model that gave *probes*: for one changed under the same name."""
    return f"{fingerprint}#{hashlib.blake2b(np.round(probes, 2).tobytes(), digest_size=6).hexdigest()}"


PROBES = (
    "The lighthouse keeper wrote down the weather every evening.",
    "def area(width, height): return width * height",
    "Morgen früh fährt der Zug nach Köln um sieben Uhr ab.",
)
"""Never changed: files hold their vectors."""

MIN_PROBE_SIMILARITY = 0.99
"""Cosine from which two vectors of one text count as the same model's: other hardware, batches or a half-precision
table differ by less than .001, another model or another quantisation of a small one by more than .01."""


@runtime_checkable
class ProbedEmbedder(Protocol):
    """Embedder that must not answer the probes itself, such as a cache."""

    async def probe(self) -> NDArray[np.float32]:
        """Return the vectors of ``PROBES``, shape (len(PROBES), dimension), as the model behind it gives them now."""


async def probe_embedder(embedder: Embedder) -> NDArray[np.float32]:
    """Return *embedder*'s vectors of ``PROBES``; an answer that is no vector raises ``EmbedderError``."""
    if isinstance(embedder, ProbedEmbedder):
        return await embedder.probe()
    answer = await embedder.embed(PROBES)
    return normalize_rows(list(np.asarray(answer)), expected=0, who=f"the embedder {embedder.fingerprint}")


def names_weights(embedder: Embedder) -> bool:
    """Return whether the fingerprint of *embedder* names its weights by their bytes, so that probes reveal nothing.

    It says so by an attribute ``names_weights``; one that says nothing is probed.
    """
    return bool(getattr(embedder, "names_weights", False))


def probe_similarity(before: NDArray[np.float32], now: NDArray[np.float32]) -> float:
    """Return the least cosine between two answers to ``PROBES``, in [-1, 1]; -1 where they cannot be compared."""
    if before.shape != now.shape:
        return -1.0
    return float(np.einsum("ij,ij->i", before, now, dtype=np.float64).min())


def is_same_model(before: NDArray[np.float32], now: NDArray[np.float32]) -> bool:
    """Return whether two answers to ``PROBES`` are the same model's."""
    return probe_similarity(before, now) >= MIN_PROBE_SIMILARITY
