"""Profile of an embedder: what its cosines weigh in recall, and from where on they say that nothing fits.

How far apart an embedder puts what belongs together and what does not differs from model to model, so the weight of the
vector channel belongs to the embedder and not to recall. Profiles of known embedders are found by the beginning of
their fingerprints; ``python -m benchmarks calibrate`` measures that of another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderProfile:
    """Weights of an embedder's cosine beside the words of a question, which weigh 1.

    *turns* is for turns of a conversation, whose neighbours speak along; *notes* for memories without a session.
    *note_session* is the share of the session's weight that a note's own BM25 has in its place. *cover*: words weigh
    less by the share of the question that no memory has, so that meaning leads where no word fits.

    *unrelated* is the cosine that the best of some hundred memories has with a question about none of them (the median
    over ``PROBE_QUESTIONS``). Doubt counts from it: a note proves what its cosine is above it, and .6 of the share of
    the words, and below *note_bound* it is doubted; turns whose best is *clear* above it are not. None: it was never
    measured, and doubt goes by the bounds of the static vectors.
    """

    turns: float = 0.45
    notes: float = 0.45
    note_session: float = 1.0
    cover: bool = False
    unrelated: float | None = None
    note_bound: float = 0.075
    clear: float = 0.25


UNKNOWN_PROFILE: Final = EmbedderProfile()
"""Profile of an embedder that nobody measured: it leads nowhere against the words."""

_KNOWN: Final = {
    "local/use-multilingual-3-": EmbedderProfile(turns=0.45, notes=1.3, note_session=0.0, cover=True, unrelated=0.205),
    "local/wordllama-": EmbedderProfile(unrelated=0.205, note_bound=0.025),
}


def known_profile(fingerprint: str) -> EmbedderProfile:
    """Return the profile of the embedder with this *fingerprint*; the conservative one of a stranger."""
    known = (profile for beginning, profile in _KNOWN.items() if fingerprint.startswith(beginning))
    return next(known, UNKNOWN_PROFILE)
