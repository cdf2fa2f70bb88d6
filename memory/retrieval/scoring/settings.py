"""Settings of retrieval: weights of features, bounds of abstention, limits; measured on several kinds of data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tellback.memory.errors import ArgumentError
from tellback.memory.validation import checked_int

Weights = Mapping[str, float]
"""Weights of features by name."""


@cache
def fitted_weights() -> Mapping[str, Weights]:
    """Return the weights in ``weights.json``.

    Those of what was *told*, of *dialogue* between people and of *passages*; and of the currency of what was told, in
    shares of the best score, where a question asks about *now* or about the *past*.
    """
    weights: dict[str, Weights] = json.loads(Path(__file__).with_name("weights.json").read_text("utf-8"))
    return weights


def _weights_of(kind: str) -> Callable[[], Weights]:
    return lambda: dict(fitted_weights()[kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionBounds:
    """Bounds below which a recall abstains; each was set to refuse one answerable question in twenty.

    The first four bound how far the best candidate is about the question, with vectors and by words alone
    (``confidence.topic_confidence``); they suit the local embedder. Among few memories they are lower
    (``confidence.bounds_for_size``), by the two *few*, and among many chunks of documents higher, by *many_documents*:
    chosen on questions of ``python -m benchmarks documents``, each asked of all four documentations. *lead* bounds how
    far the memories of other speakers may be ahead.
    """

    conversation: float = 0.273
    conversation_words: float = 0.208
    document: float = 0.37
    document_words: float = 0.302
    few: float = 0.26
    few_documents: float = 0.1
    many_documents: float = 0.05
    lead: float = -0.13


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Settings of a memory's recall; the defaults are meant to be left alone.

    *candidates* and *document_candidates*: turns and chunks of documents that each search (text, vector) names for
    scoring. *told*, *dialogue* and *passages* are the weights of features: of what one person told, of turns of a talk
    between people, and of chunks of documents. The weight of the cosine is that of the embedder's profile, unless
    *told* or *dialogue* names another. *now* and *past* weigh the features of ``memory.currency`` in shares of the
    best score, for questions about now and about a time that is past.
    """

    candidates: int = 200
    document_candidates: int = 100
    told: Weights = field(default_factory=_weights_of("told"))
    dialogue: Weights = field(default_factory=_weights_of("dialogue"))
    passages: Weights = field(default_factory=_weights_of("passages"))
    now: Weights = field(default_factory=_weights_of("now"))
    past: Weights = field(default_factory=_weights_of("past"))
    abstention: AbstentionBounds = field(default_factory=AbstentionBounds)

    def __post_init__(self) -> None:
        checked_int(self.candidates, "candidates", 1)
        checked_int(self.document_candidates, "document_candidates", 1)
        for kind in fitted_weights():
            known = {*fitted_weights()[kind], "cosine"}
            if unknown := sorted(set(getattr(self, kind)) - known):
                raise ArgumentError(kind, unknown[0], f"the features are {', '.join(sorted(known))}")
