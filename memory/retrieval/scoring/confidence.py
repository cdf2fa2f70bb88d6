"""Confidence in a result and the two reasons for abstention, on a fixed scale in [0, 1].

"nothing": no memory is about the question. "other": it was stated, but by another speaker than the question names;
several memories of each side are compared, since a single similar one proves little. Abstention begins below one half,
in every partition, with and without vectors. Whether a passage about the question also answers it cannot be known
without reading it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.profile import EmbedderProfile
from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.session_statistics import NOBODY
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion, has_text_feature, speaker_match
from tellback.memory.retrieval.scoring.scores import ScoredCandidates
from tellback.memory.retrieval.scoring.settings import AbstentionBounds

Floats = NDArray[np.float64]
AbstentionReason = Literal["nothing", "other"]
ABSTENTION_LEVEL: Final = 0.5
_SOFT_MATCH_WEIGHT = 0.5
"""Weight of the soft match of words, where their exact match and the cosine have 1 each."""
_UNSEEN_PENALTIES = (0.1, 0.2)
"""Penalty where no term of the question occurs in a turn, and what is added where all of them are names."""
_UNSEEN_PENALTIES_IN_DOCUMENTS = (0.0, 0.1)
"""Documents often use other words than a question, but the same names."""
_LARGE_MEMORY = 80
"""Number of memories from which on the bounds are those of a large memory."""
_SCALE_ROOM = 0.09
"""Room of the scale below a low bound, which would otherwise have none down to 0."""
_NOTE_BONUS_WEIGHT = 0.5
_NEAR_ANSWER = 0.5
LIKELY: Final = 0.5
"""Probability from which the first hit rather answers than not."""
_NOTE_ROOM = 0.3
_NOTE_RANGE = 0.8
"""Range of a note's evidence below its bound, and above it."""
_NEAR_TOPIC = 0.02
"""Confidence below which nothing is near, where the bounds are not those of a profile."""
_NEAR_TOPIC_IN_DOCUMENTS = 0.2
"""The same among documents: a passage that is barely near is noise to a reader."""
_WORD_BONUS = 0.005
_MAX_BONUS_WORDS = 10
"""Terms that get a bonus: a high share of few terms proves less than the same share of many."""


def abstention_bounds(bounds: AbstentionBounds, count: int, *, documents: bool = False) -> tuple[float, float]:
    """Return the bounds among *count* turns, or chunks of documents: for candidates with a vector, and without."""
    if documents:
        return bounds_for_size(
            count, (bounds.document, bounds.document_words), bounds.few_documents, growth=bounds.many_documents
        )
    return bounds_for_size(count, (bounds.conversation, bounds.conversation_words), bounds.few)


def bounds_for_size(
    count: int, bounds: tuple[float, float], reduction: float, *, growth: float = 0.0
) -> tuple[float, float]:
    """Return the bounds of abstention among *count* memories, where those of a large memory are *bounds*.

    The best of few chance matches is lower than the best of many: the maximum of n draws grows with the logarithm of n.
    *reduction* is the share of a bound that is subtracted for each factor e below ``_LARGE_MEMORY``, *growth* the share
    that is added for each factor e above.
    """
    size = log(max(count, 1) / _LARGE_MEMORY)
    share = 1 + (growth if size > 0 else reduction) * size
    with_vector, by_words = (bound * share for bound in bounds)
    return with_vector, by_words


def topic_confidence(
    soft: Floats, exact: Floats, cosine: Floats | None, *, bonus: float, bounds: tuple[float, float]
) -> float:
    """Return how far the best candidate is about the question, in [0, 1]; below ``ABSTENTION_LEVEL`` probably none is.

    *soft* and *exact* are the shares of the question's words that each candidate matches, softly and exactly;
    *cosine* its similarity, NaN for a candidate without a vector, None without vectors. *bonus* is that of the question
    (``question_bonus``). *bounds* are those of abstention for candidates with a vector and without.
    """
    words = _SOFT_MATCH_WEIGHT * soft + exact
    by_words = words / (1 + _SOFT_MATCH_WEIGHT)
    lows = [min(0.0, bound - _SCALE_ROOM) for bound in bounds]
    if cosine is None:
        return to_confidence_scale(_positive_maximum(by_words) + bonus, bounds[1], low=lows[1])
    has_vector = np.isfinite(cosine)
    with_vector = (np.maximum(cosine[has_vector], 0.0) + words[has_vector]) / (2 + _SOFT_MATCH_WEIGHT)
    return max(
        to_confidence_scale(_positive_maximum(with_vector) + bonus, bounds[0], low=lows[0]),
        to_confidence_scale(_positive_maximum(by_words[~has_vector]) + bonus, bounds[1], low=lows[1]),
    )


class TopicConfidence(NamedTuple):
    """Confidence that the best candidate is about the question (*topic*), and whether it is at least near to it.

    *is_likely*: the first hit rather answers it than not, as far as that is told.
    """

    topic: float
    is_near: bool
    is_likely: bool = True

    @classmethod
    def of(cls, topic: float, *, documents: bool = False) -> TopicConfidence:
        """Return the confidence of a *topic* that no profile of an embedder tells more about."""
        return cls(topic, topic >= (_NEAR_TOPIC_IN_DOCUMENTS if documents else _NEAR_TOPIC))


def conversation_confidence(
    soft: Floats,
    exact: Floats,
    cosine: Floats | None,
    is_told: NDArray[np.bool_],
    *,
    bonus: float,
    profile: EmbedderProfile,
    bounds: AbstentionBounds,
    count: int,
) -> TopicConfidence:
    """Return how far the best of *count* turns and notes is about the question, as ``topic_confidence`` does.

    *is_told* marks what one person told for themselves: notes, and their own turns with an assistant. It counts by the
    *profile* of the embedder: said in other words, it shares few with a question, while the turns around another one
    lend it theirs.
    """
    limits = abstention_bounds(bounds, count)
    if cosine is None or profile.unrelated is None:
        return TopicConfidence.of(topic_confidence(soft, exact, cosine, bonus=bonus, bounds=limits))
    unrelated, _ = bounds_for_size(count, (profile.unrelated, 0.0), profile.few)
    by_profile = is_told & np.isfinite(cosine)
    others = ~by_profile
    topic = topic_confidence(soft[others], exact[others], cosine[others], bonus=bonus, bounds=limits)
    if topic < ABSTENTION_LEVEL and float(np.nan_to_num(cosine[others]).max(initial=0.0)) - unrelated >= profile.clear:
        topic = ABSTENTION_LEVEL
    if not by_profile.any():
        return TopicConfidence.of(topic)
    words = (_SOFT_MATCH_WEIGHT * soft + exact)[by_profile].max() / (1 + _SOFT_MATCH_WEIGHT)
    value = float(cosine[by_profile].max()) - unrelated
    value += profile.note_words * float(words) + _NOTE_BONUS_WEIGHT * bonus
    low, high = profile.note_bound - _NOTE_ROOM, profile.note_bound + _NOTE_RANGE
    is_near = topic >= _NEAR_TOPIC or value >= profile.note_bound - profile.near
    return TopicConfidence(max(topic, to_confidence_scale(value, profile.note_bound, low=low, high=high)), is_near)


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """Evidence that one of the first three hits answers a question, by the vectors of the E5 encoder.

    *best* is the best cosine, *mean* that of typical memories. *words* is the share of the question's words that the
    first hit has, *names* that of the question's names which the first hit lacks. *count* is the number of memories.
    """

    best: float
    mean: float
    words: float
    names: float
    count: int

    def values(self) -> dict[str, float]:
        """Return the features of the regression by name."""
        return {
            "best": self.best,
            "mean": self.mean,
            "words": self.words,
            "names": self.names,
            "size": log(max(self.count, 1)),
            "bias": 1.0,
        }

    def probability(self, hits: Literal["first", "three"] = "three") -> float:
        """Return the probability that the first hit, or one of the first three, answers the question."""
        weights = _answer_weights()[hits]
        return 1 / (1 + exp(-sum(weights[name] * value for name, value in self.values().items())))

    def confidence(self) -> TopicConfidence:
        """Return the probability on the scale of confidence; where it is below half its bound, nothing is near.

        The bound is lower in a large memory, where an answer is more often not among the first.
        """
        weights = _answer_weights()["bound"]
        bound = 1 / (1 + exp(-weights["bias"] - weights["size"] * log(max(self.count, 1))))
        probability = self.probability()
        topic, is_likely = to_confidence_scale(probability, bound), self.probability("first") >= LIKELY
        return TopicConfidence(topic, probability >= _NEAR_ANSWER * bound, is_likely)


@cache
def _answer_weights() -> Mapping[str, Mapping[str, float]]:
    weights: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("confidence.json").read_text("utf-8"))
    return weights


def question_bonus(
    weights: Floats, seen: NDArray[np.bool_], is_proper: NDArray[np.bool_], *, documents: bool = False
) -> float:
    """Return the bonus of a question's terms, by their *weights*; negative where it is a penalty.

    Each term adds a little. Terms that no memory has (not *seen*) subtract, and more where they are names
    (*is_proper*).
    """
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    word, name = _UNSEEN_PENALTIES_IN_DOCUMENTS if documents else _UNSEEN_PENALTIES
    missing = word * float(weights[~seen].sum()) + name * float(weights[~seen & is_proper].sum())
    return _WORD_BONUS * min(len(weights), _MAX_BONUS_WORDS) - missing / total


def to_confidence_scale(value: float, bound: float, *, low: float = 0.0, high: float = 1.0) -> float:
    """Return *value*, clipped to [*low*, *high*], on the scale of [0, 1] where *bound* is ``ABSTENTION_LEVEL``."""
    value = min(max(value, low), high)
    if value < bound:
        return ABSTENTION_LEVEL * (value - low) / (bound - low)
    return 1.0 if value >= high else ABSTENTION_LEVEL + (1 - ABSTENTION_LEVEL) * (value - bound) / (high - bound)


def assess_confidence(
    sources: Sequence[ScoredCandidates], best: ScoredCandidates | None, *, lead_bound: float
) -> tuple[float, AbstentionReason | None]:
    """Return (confidence, reason to abstain) of a recall whose best hit came from *best*.

    A lead below *lead_bound* means that another speaker than the question names stated it.
    """
    if best is None:
        return 0.0, "nothing"
    topic = max(source.topic for source in sources)
    attribution = 1.0 if best.lead >= 0 else to_confidence_scale(best.lead, lead_bound, low=-1.0, high=0.0)
    confidence = min(topic, attribution)
    if topic < ABSTENTION_LEVEL:
        return confidence, "nothing"
    return confidence, "other" if attribution < ABSTENTION_LEVEL else None


def _positive_maximum(values: Floats) -> float:
    """Return the maximum, or -1.0 if no value is positive, so that a bonus cannot lift it above a bound."""
    best = float(values.max(initial=0.0))
    return best if best > 0 else -1.0


_COMPARED_MEMORIES = 5
"""Best memories of each side, compared by rank; a pair is weighted by the square of its better score."""
_QUESTION_PENALTY = -0.18
_FIRST_PERSON_BONUS = 0.08
"""The evidence of its speaker that a statement in the first person adds, and a question subtracts."""


def attribution_margin(
    index: RetrievalIndex, rows: NDArray[np.int64], question: AnalyzedQuestion, scores: Floats
) -> float:
    """Return the lead of memories of the speakers that *question* names over those of others.

    0 where there is nothing to compare: nobody or everybody is named. *scores* are those of *rows* without the speaker
    feature and without the words of other speakers' turns.
    """
    is_named = speaker_match(index, rows, question) > 0
    is_other = ~is_named & (index.columns["speaker"][rows] != NOBODY)
    present = {number for number, _ in index.participants.present()}
    if not is_named.any() or not is_other.any() or present <= set(question.participants):
        return 0.0
    evidence = (
        scores
        + _QUESTION_PENALTY * has_text_feature(index, rows, TextFeature.ENDS_ASKING)
        + _FIRST_PERSON_BONUS * has_text_feature(index, rows, TextFeature.FIRST_PERSON)
    )
    named = np.sort(evidence[is_named])[::-1][:_COMPARED_MEMORIES]
    others = np.sort(evidence[is_other])[::-1][:_COMPARED_MEMORIES]
    compared = min(len(named), len(others))
    named, others = named[:compared], others[:compared]
    better = np.maximum(np.maximum(named, others), 0.0)
    weights = (better / better[0]) ** 2 if better[0] > 0 else np.ones(compared)
    return float(((named - others) * weights).sum() / weights.sum())
