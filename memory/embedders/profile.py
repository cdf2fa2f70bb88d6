"""Profile of an embedder: the weight of its cosines in recall, and the bounds below which they mean that nothing fits.

How far apart an embedder puts what belongs together and what does not differs from model to model, so the weight of the
vector channel belongs to the embedder and not to recall. Profiles of known embedders are found by the beginning of
their fingerprints; another embedder gets a conservative one by a few probe texts (``probe_pairs``), which is kept with
the memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderProfile:
    """Weights of an embedder's cosine beside the words of a question, which weigh 1.

    *turns* is for turns of a talk between people; *notes* for what one person told, alone or to an assistant.

    *unrelated* is the cosine that the best of some hundred memories has with a question about none of them (the median
    over fifty questions about what hardly anybody notes), *few* the share of it that is subtracted for each factor
    e below that number, since the best of few chance cosines is lower. Doubt
    counts from there: what a person told proves by how much its cosine is above *unrelated*, and the share of the
    question's words by *note_words*.
    Below *note_bound* it is doubted; turns between people whose best is *clear* above *unrelated* are not. None: it was
    never measured, and doubt goes by the bounds of the static vectors. Farther than *near* below the bound, nothing is
    even near.
    *base*: cosines count from here, where an embedder puts all texts near one another. *has_heads*: the heads of
    ``memory.analysis`` were fitted to its vectors.
    """

    turns: float = 0.45
    notes: float = 0.45
    unrelated: float | None = None
    few: float = 0.26
    note_words: float = 0.5
    note_bound: float = 0.05
    clear: float = 0.2
    near: float = 0.29
    base: float = 0.0
    has_heads: bool = False

    def rescaled(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return *cosines* counted from *base*, so that 1 stays 1."""
        return cosines if not self.base else (cosines - self.base) / (1 - self.base)


UNKNOWN_PROFILE: Final = EmbedderProfile()
"""Profile of an unknown embedder: its cosines do not outweigh the words."""

_KNOWN: Final = {
    "local/multilingual-e5-small-": EmbedderProfile(
        turns=0.45, notes=10.0, unrelated=0.25, few=0.18, note_words=0.1, note_bound=-0.02, has_heads=True
    ),
    "local/use-multilingual-3-": EmbedderProfile(
        turns=0.45,
        notes=1.3,
        unrelated=0.205,
        few=0.18,
        note_words=0.0,
        note_bound=-0.01,
    ),
    "local/wordllama-": EmbedderProfile(unrelated=0.205, note_bound=0.025),
}


def known_profile(fingerprint: str) -> EmbedderProfile | None:
    """Return the profile of the embedder with this *fingerprint*, None for one that nobody measured."""
    known = (profile for beginning, profile in _KNOWN.items() if fingerprint.startswith(beginning))
    return next(known, None)


def profile_of_fields(fields: Mapping[str, Any]) -> EmbedderProfile:
    """Return the profile with these *fields*; that of an unknown embedder where they are none."""
    if not all(
        value is None or (isinstance(value, (int, float)) and math.isfinite(value)) for value in fields.values()
    ):
        return UNKNOWN_PROFILE
    try:
        return EmbedderProfile(**fields)
    except TypeError:  # fields of another version
        return UNKNOWN_PROFILE
