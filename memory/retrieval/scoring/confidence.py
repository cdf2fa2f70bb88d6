"""Confidence in a result and the two reasons for abstention, on a fixed scale in [0, 1].

"nothing": no memory is about the question. "other": it was stated, but by another speaker than the question names; for
that, several memories of each side are compared, since a single near one proves little. Abstention begins below one
half, in every partition, with and without vectors. Whether a passage about the question also answers it cannot be known
without reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.participants import NOBODY
from memory.retrieval.index.record import Cue
from memory.retrieval.index.retrieval_index import Index
from memory.retrieval.scoring.features import cue, said_by_named
from memory.retrieval.scoring.question import Question
from memory.retrieval.scoring.scores import Scored

Floats = NDArray[np.float64]
Reason = Literal["nothing", "other"]
DOUBTFUL: Final = 0.5
_SOFT = 0.5
"""What words matched by near ones weigh, beside the same words and the cosine with 1 each."""
_UNSEEN = (0.1, 0.2)
"""What words of a question that no turn holds take off where they are all of it, and names among them besides."""
_UNSEEN_IN_DOCUMENTS = (0.0, 0.1)
"""Documents say much in other words than those who ask; their names they hold."""
_ENOUGH = 80
"""From so many memories on, doubt begins where it begins among many."""
_BELOW = 0.09
"""So far below a low bound confidence ends, where it would else have no room down to 0."""
_LONGER = 0.005
_LONG = 10
"""So much is added for each word, and for so many at most: a share of few words proves less than one of many."""


def among(count: int, bound: float, less: float) -> float:
    """Return where doubt begins among *count* memories, if it begins at *bound* among many.

    The best of few chance matches is lower than the best of many: what n draws reach grows with the logarithm of n.
    *less* is the part of *bound* that goes for each factor e below ``_ENOUGH``.
    """
    return bound * (1 - less * max(log(_ENOUGH / max(count, 1)), 0.0))


def about(soft: Floats, exact: Floats, cosine: Floats | None, *, more: float, bounds: tuple[float, float]) -> float:
    """Return how far the best candidate is about the question, in [0, 1]; below ``DOUBTFUL`` none may be.

    *soft* and *exact* are the shares of the question's words that each matches, by near words and by the same ones;
    *cosine* its nearness, NaN for one that has no vector, None without vectors. *more* is what the question itself
    adds or takes off (``of_words``). *bounds* are where doubt begins for candidates with a vector and without.
    """
    words = _SOFT * soft + exact
    by_words = words / (1 + _SOFT)
    leasts = [min(0.0, bound - _BELOW) for bound in bounds]
    if cosine is None:
        return on_scale(_best(by_words) + more, bounds[1], least=leasts[1])
    there = np.isfinite(cosine)
    with_vector = (np.maximum(cosine[there], 0.0) + words[there]) / (2 + _SOFT)
    return max(
        on_scale(_best(with_vector) + more, bounds[0], least=leasts[0]),
        on_scale(_best(by_words[~there]) + more, bounds[1], least=leasts[1]),
    )


def of_words(weights: Floats, seen: NDArray[np.bool_], named: NDArray[np.bool_], *, documents: bool = False) -> float:
    """Return what the words of a question add or take off, by their *weights*.

    Many add a little; those that the memory never saw take off, and more where they are names (*named*).
    """
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    word, name = _UNSEEN_IN_DOCUMENTS if documents else _UNSEEN
    missing = word * float(weights[~seen].sum()) + name * float(weights[~seen & named].sum())
    return _LONGER * min(len(weights), _LONG) - missing / total


def on_scale(value: float, bound: float, *, least: float = 0.0, most: float = 1.0) -> float:
    """Return *value* of [*least*, *most*] on the scale where *bound* is ``DOUBTFUL``."""
    value = min(max(value, least), most)
    if value < bound:
        return DOUBTFUL * (value - least) / (bound - least)
    return 1.0 if value >= most else DOUBTFUL + (1 - DOUBTFUL) * (value - bound) / (most - bound)


def judged(sources: Sequence[Scored], best: Scored | None, *, lead: float) -> tuple[float, Reason | None]:
    """Return (confidence, reason to abstain) of a recall whose best hit came from *best*.

    *lead* is the bound below which somebody else said it.
    """
    if best is None:
        return 0.0, "nothing"
    top = max(source.topic for source in sources)
    said = 1.0 if best.lead >= 0 else on_scale(best.lead, lead, least=-1.0, most=0.0)
    confidence = min(top, said)
    if top < DOUBTFUL:
        return confidence, "nothing"
    return confidence, "other" if said < DOUBTFUL else None


def _best(values: Floats) -> float:
    """The largest; so little that nothing is added to it where there is none."""
    best = float(values.max(initial=0.0))
    return best if best > 0 else -1.0


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
