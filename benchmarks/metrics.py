"""Figures of retrieval over ranked ids and the ids that should be among them. Pure.

Each figure is the mean over questions of a number that one question has by itself (``MEASURES``), so that two runs can
be compared question by question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2

DEPTHS = (1, 3, 5, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome: what was *ranked*, best first, and the *evidence* with its grade (1 if ungraded)."""

    group: str
    ranked: tuple[str, ...]
    evidence: Mapping[str, int]


def share_of(answer: Answer, k: int) -> float:
    """Return the share of the evidence among the first *k*."""
    return len(set(answer.ranked[:k]) & set(answer.evidence)) / len(answer.evidence)


def any_of(answer: Answer, k: int) -> float:
    """Return 1 if any of the evidence is among the first *k*, else 0."""
    return float(not set(answer.evidence).isdisjoint(answer.ranked[:k]))


def all_of(answer: Answer, k: int) -> float:
    """Return 1 if all of the evidence is among the first *k*, else 0."""
    return float(set(answer.evidence) <= set(answer.ranked[:k]))


def reciprocal(answer: Answer) -> float:
    """Return 1 / place of the first evidence; 0 where none was found."""
    return next((1 / position for position, id in enumerate(answer.ranked, 1) if id in answer.evidence), 0.0)


def gain(answer: Answer, k: int) -> float:
    """Return the normalised discounted cumulative gain of the first *k*, gain = grade, discount log2(place + 1)."""
    return _gain(answer, k) / _best_gain(answer, k)


MEASURES: dict[str, Callable[[Answer], float]] = {
    **{f"R@{k}": partial(share_of, k=k) for k in DEPTHS},
    **{f"any@{k}": partial(any_of, k=k) for k in DEPTHS},
    **{f"all@{k}": partial(all_of, k=k) for k in DEPTHS},
    "MRR": reciprocal,
    "nDCG@10": partial(gain, k=10),
}
"""Measures of one question, by the name of the figure that is their mean."""


def recall_at(answers: Sequence[Answer], k: int) -> float:
    """Return the share of each question's evidence among its first *k*, averaged over questions."""
    return mean([share_of(item, k) for item in answers])


def all_at(answers: Sequence[Answer], k: int) -> float:
    """Return the share of questions whose evidence is all among the first *k*."""
    return mean([all_of(item, k) for item in answers])


def mrr(answers: Sequence[Answer]) -> float:
    """Return the mean of 1 / place of the first evidence; 0 where none was found."""
    return mean([reciprocal(item) for item in answers])


def ndcg_at(answers: Sequence[Answer], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first *k*, gain = grade."""
    return mean([gain(item, k) for item in answers])


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def _gain(answer: Answer, k: int) -> float:
    return sum(answer.evidence.get(id, 0) / log2(position + 1) for position, id in enumerate(answer.ranked[:k], 1))


def _best_gain(answer: Answer, k: int) -> float:
    best = sorted(answer.evidence.values(), reverse=True)[:k]
    return sum(grade / log2(position + 1) for position, grade in enumerate(best, 1))
