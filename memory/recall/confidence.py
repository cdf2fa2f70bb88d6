"""How far to trust what was found, and the two reasons to answer nothing. On a fixed scale, in [0, 1].

"nothing": no memory is about the question. "other": it was said, but by someone else than the question names.
Whether a passage that is about the question also answers it cannot be told without reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memory.recall.scored import Scored
from memory.recall.settings import Doubt

Reason = Literal["nothing", "other"]
_LEAD = 0.4


def topic(coverage: float, cosine: float | None, *, words: float) -> float:
    """Return how far the best candidate is about the question, in [0, 1].

    *coverage* is the share of the question's words it matches, *cosine* its nearness (None without vectors);
    *words* is what coverage weighs beside the cosine.
    """
    if cosine is None:
        return _within(coverage)
    return _within((max(cosine, 0.0) + words * coverage) / (1 + words))


def judged(
    sources: Sequence[Scored], best: Scored | None, doubt: Doubt, *, vectors: bool
) -> tuple[float, Reason | None]:
    """Return (confidence, reason to abstain) of a recall whose best hit came from *best*."""
    if best is None:
        return 0.0, "nothing"
    top = max(source.topic for source in sources)
    confidence = _within(top + _LEAD * best.lead)
    if not any(source.topic >= _bound(source, doubt, vectors=vectors) for source in sources):
        return confidence, "nothing"
    return confidence, "other" if best.lead < doubt.lead else None


def _bound(source: Scored, doubt: Doubt, *, vectors: bool) -> float:
    if source.lane == "documents":
        return doubt.document if vectors else doubt.document_words
    return doubt.conversation if vectors else doubt.conversation_words


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)
