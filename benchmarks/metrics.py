"""Figures of retrieval over ranked ids and the ids that should be among them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome: what was *ranked*, best first, and the *evidence* with its grade (1 if ungraded)."""

    group: str
    ranked: tuple[str, ...]
    evidence: Mapping[str, int]


def recall_at(answers: Sequence[Answer], k: int) -> float:
    """Return the share of each question's evidence among its first *k*, averaged over questions."""
    return _mean([len(set(one.ranked[:k]) & set(one.evidence)) / len(one.evidence) for one in answers])


def all_at(answers: Sequence[Answer], k: int) -> float:
    """Return the share of questions whose evidence is all among the first *k*."""
    return _mean([float(set(one.evidence) <= set(one.ranked[:k])) for one in answers])


def mrr(answers: Sequence[Answer]) -> float:
    """Return the mean of 1 / place of the first evidence; 0 where none was found."""
    return _mean([next((1 / at for at, id in enumerate(one.ranked, 1) if id in one.evidence), 0.0) for one in answers])


def ndcg_at(answers: Sequence[Answer], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first *k*, gain = grade."""
    return _mean([_gain(one, k) / _best_gain(one, k) for one in answers])


def _gain(answer: Answer, k: int) -> float:
    return sum(answer.evidence.get(id, 0) / log2(at + 1) for at, id in enumerate(answer.ranked[:k], 1))


def _best_gain(answer: Answer, k: int) -> float:
    best = sorted(answer.evidence.values(), reverse=True)[:k]
    return sum(grade / log2(at + 1) for at, grade in enumerate(best, 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
