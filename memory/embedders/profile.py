"""Profile of an embedder: what its cosines weigh in recall.

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
    """

    turns: float = 0.45
    notes: float = 0.45
    note_session: float = 1.0
    cover: bool = False


UNKNOWN_PROFILE: Final = EmbedderProfile()
"""Profile of an embedder that nobody measured: it leads nowhere against the words."""

_KNOWN: Final = {
    "local/use-multilingual-3-": EmbedderProfile(turns=0.45, notes=1.3, note_session=0.0, cover=True),
    "local/wordllama-": EmbedderProfile(),
}


def known_profile(fingerprint: str) -> EmbedderProfile:
    """Return the profile of the embedder with this *fingerprint*; the conservative one of a stranger."""
    known = (profile for beginning, profile in _KNOWN.items() if fingerprint.startswith(beginning))
    return next(known, UNKNOWN_PROFILE)
