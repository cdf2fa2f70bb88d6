"""How far those whom a question names stay ahead of all others: whether it was said, but by somebody else.

Over several memories of each side, since one that happens to be near proves little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.recall.cues import Cue
from memory.recall.index import Index
from memory.recall.people import NOBODY
from memory.recall.question import Question
from memory.recall.signals import cue, said_by_named

Floats = NDArray[np.float64]
_COMPARED = 5
"""Best memories of each side, the first with the first; a pair counts by the square of how good its better one is."""
_ENDS_ASKING = -0.18
_FIRST_PERSON = 0.08
"""What a memory tells of its speaker, beyond what it is worth as an answer: who asks did not do it."""


def lead(index: Index, rows: NDArray[np.int64], question: Question, scores: Floats) -> float:
    """Return the lead of those named over anyone else; 0 where it cannot be asked: nobody or everybody is named.

    *scores* are those of *rows* without what they get for their speaker and for words of other speakers' turns.
    """
    named = said_by_named(index, rows, question) > 0
    others = ~named & (index.speaker.rows[rows] != NOBODY)
    everybody = {number for number, _ in index.people.present()}
    if not named.any() or not others.any() or everybody <= set(question.people):
        return 0.0
    told = (
        scores + _ENDS_ASKING * cue(index, rows, Cue.ENDS_ASKING) + _FIRST_PERSON * cue(index, rows, Cue.FIRST_PERSON)
    )
    ours, theirs = np.sort(told[named])[::-1][:_COMPARED], np.sort(told[others])[::-1][:_COMPARED]
    compared = min(len(ours), len(theirs))
    ours, theirs = ours[:compared], theirs[:compared]
    better = np.maximum(np.maximum(ours, theirs), 0.0)
    weights = (better / better[0]) ** 2 if better[0] > 0 else np.ones(compared)
    return float(((ours - theirs) * weights).sum() / weights.sum())
