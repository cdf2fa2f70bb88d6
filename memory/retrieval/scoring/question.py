"""The analyzed question: terms without names, mentioned participants and dates, and the kind of question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.languages.dates import DateReference


@dataclass(frozen=True, slots=True)
class AnalyzedQuestion:
    """What one namespace makes of a question; *forms* are the words of *terms* as they were written.

    *asks_state*: how something is, and not what happened. *only_when*: it names a date and nothing else that a memory
    could be about. *names* are those of *terms* that are written as names.
    """

    text: str
    bare: str
    terms: tuple[str, ...]
    forms: tuple[str, ...]
    all_terms: tuple[str, ...]
    people: tuple[int, ...]
    dates: tuple[DateReference, ...]
    asks_time: bool
    asks_place: bool
    asks_number: bool
    asks_several: bool
    asks_state: bool = False
    only_when: bool = False
    names: frozenset[str] = frozenset()

    @property
    def named(self) -> NDArray[np.bool_]:
        """Which of *terms* are written as names."""
        return np.array([term in self.names for term in self.terms], dtype=np.bool_)
