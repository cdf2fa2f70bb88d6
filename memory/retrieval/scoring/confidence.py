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
from memory.retrieval.index.record import TextFeature
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.scoring.features import has_text_feature, speaker_match
from memory.retrieval.scoring.question import AnalyzedQuestion
from memory.retrieval.scoring.scores import ScoredCandidates

Floats = NDArray[np.float64]
AbstentionReason = Literal["nothing", "other"]
ABSTENTION_LEVEL: Final = 0.5
_SOFT_MATCH_WEIGHT = 0.5
"""What words matched by near ones weigh, beside the same words and the cosine with 1 each."""
_UNSEEN_PENALTIES = (0.1, 0.2)
"""What words of a question that no turn holds take off where they are all of it, and names among them besides."""
_UNSEEN_PENALTIES_IN_DOCUMENTS = (0.0, 0.1)
"""Documents say much in other words than those who ask; their names they hold."""
_LARGE_MEMORY = 80
"""From so many memories on, doubt begins where it begins among many."""
_SCALE_ROOM = 0.09
"""So far below a low bound confidence ends, where it would else have no room down to 0."""
_WORD_BONUS = 0.005
_MAX_BONUS_WORDS = 10
"""So much is added for each word, and for so many at most: a share of few words proves less than one of many."""


def bound_for_size(count: int, bound: float, less: float) -> float:
    """Return where doubt begins among *count* memories, if it begins at *bound* among many.

    The best of few chance matches is lower than the best of many: what n draws reach grows with the logarithm of n.
    *less* is the part of *bound* that goes for each factor e below ``_LARGE_MEMORY``.
    """
    return bound * (1 - less * max(log(_LARGE_MEMORY / max(count, 1)), 0.0))


def topic_confidence(
    soft: Floats, exact: Floats, cosine: Floats | None, *, more: float, bounds: tuple[float, float]
) -> float:
    """Return how far the best candidate is about the question, in [0, 1]; below ``ABSTENTION_LEVEL`` none may be.

    *soft* and *exact* are the shares of the question's words that each matches, by near words and by the same ones;
    *cosine* its nearness, NaN for one that has no vector, None without vectors. *more* is what the question itself
    adds or takes off (``question_bonus``). *bounds* are where doubt begins for candidates with a vector and without.
    """
    words = _SOFT_MATCH_WEIGHT * soft + exact
    by_words = words / (1 + _SOFT_MATCH_WEIGHT)
    leasts = [min(0.0, bound - _SCALE_ROOM) for bound in bounds]
    if cosine is None:
        return to_confidence_scale(_maximum(by_words) + more, bounds[1], least=leasts[1])
    there = np.isfinite(cosine)
    with_vector = (np.maximum(cosine[there], 0.0) + words[there]) / (2 + _SOFT_MATCH_WEIGHT)
    return max(
        to_confidence_scale(_maximum(with_vector) + more, bounds[0], least=leasts[0]),
        to_confidence_scale(_maximum(by_words[~there]) + more, bounds[1], least=leasts[1]),
    )


def question_bonus(
    weights: Floats, seen: NDArray[np.bool_], named: NDArray[np.bool_], *, documents: bool = False
) -> float:
    """Return what the words of a question add or take off, by their *weights*.

    Many add a little; those that the memory never saw take off, and more where they are names (*named*).
    """
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    word, name = _UNSEEN_PENALTIES_IN_DOCUMENTS if documents else _UNSEEN_PENALTIES
    missing = word * float(weights[~seen].sum()) + name * float(weights[~seen & named].sum())
    return _WORD_BONUS * min(len(weights), _MAX_BONUS_WORDS) - missing / total


def to_confidence_scale(value: float, bound: float, *, least: float = 0.0, most: float = 1.0) -> float:
    """Return *value* of [*least*, *most*] on the scale where *bound* is ``ABSTENTION_LEVEL``."""
    value = min(max(value, least), most)
    if value < bound:
        return ABSTENTION_LEVEL * (value - least) / (bound - least)
    return 1.0 if value >= most else ABSTENTION_LEVEL + (1 - ABSTENTION_LEVEL) * (value - bound) / (most - bound)


def assess_confidence(
    sources: Sequence[ScoredCandidates], best: ScoredCandidates | None, *, lead: float
) -> tuple[float, AbstentionReason | None]:
    """Return (confidence, reason to abstain) of a recall whose best hit came from *best*.

    *lead* is the bound below which somebody else said it.
    """
    if best is None:
        return 0.0, "nothing"
    top = max(source.topic for source in sources)
    said = 1.0 if best.lead >= 0 else to_confidence_scale(best.lead, lead, least=-1.0, most=0.0)
    confidence = min(top, said)
    if top < ABSTENTION_LEVEL:
        return confidence, "nothing"
    return confidence, "other" if said < ABSTENTION_LEVEL else None


def _maximum(values: Floats) -> float:
    """The largest; so little that nothing is added to it where there is none."""
    best = float(values.max(initial=0.0))
    return best if best > 0 else -1.0


_COMPARED_MEMORIES = 5
"""Best memories of each side, the first with the first; a pair counts by the square of how good its better one is."""
_QUESTION_PENALTY = -0.18
_FIRST_PERSON_BONUS = 0.08
"""What a memory tells of its speaker, beyond what it is worth as an answer: who asks did not do it."""


def attribution_margin(
    index: RetrievalIndex, rows: NDArray[np.int64], question: AnalyzedQuestion, scores: Floats
) -> float:
    """Return the lead of those named over anyone else; 0 where it cannot be asked: nobody or everybody is named.

    *scores* are those of *rows* without what they get for their speaker and for words of other speakers' turns.
    """
    named = speaker_match(index, rows, question) > 0
    others = ~named & (index.speaker.rows[rows] != NOBODY)
    everybody = {number for number, _ in index.people.present()}
    if not named.any() or not others.any() or everybody <= set(question.people):
        return 0.0
    told = (
        scores
        + _QUESTION_PENALTY * has_text_feature(index, rows, TextFeature.ENDS_ASKING)
        + _FIRST_PERSON_BONUS * has_text_feature(index, rows, TextFeature.FIRST_PERSON)
    )
    ours, theirs = np.sort(told[named])[::-1][:_COMPARED_MEMORIES], np.sort(told[others])[::-1][:_COMPARED_MEMORIES]
    compared = min(len(ours), len(theirs))
    ours, theirs = ours[:compared], theirs[:compared]
    better = np.maximum(np.maximum(ours, theirs), 0.0)
    weights = (better / better[0]) ** 2 if better[0] > 0 else np.ones(compared)
    return float(((ours - theirs) * weights).sum() / weights.sum())
