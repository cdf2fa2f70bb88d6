"""Metrics of retrieval over ranked ids, and of answers as texts. Pure.

Each metric is a number that one question has by itself; the figure of a run is its mean, so that two runs are compared
question by question.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log2

_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def place_of(ranked: Sequence[str], wanted: Iterable[str]) -> int:
    """Return the best place of any of *wanted*, counted from 1; 0 where none was found."""
    ids = frozenset(wanted)
    return next((place for place, id in enumerate(ranked, 1) if id in ids), 0)


def recall_at(ranked: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """Return the share of *gold* among the first *k*; 0 without gold."""
    return len(set(ranked[:k]) & gold.keys()) / len(gold) if gold else 0.0


def any_at(ranked: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """Return 1 if any of *gold* is among the first *k*, else 0."""
    return float(0 < place_of(ranked, gold) <= k)


def all_at(ranked: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """Return 1 if all of *gold* is among the first *k*, else 0."""
    return float(bool(gold) and gold.keys() <= set(ranked[:k]))


def reciprocal_rank(place: int) -> float:
    """Return 1 / *place*; 0 for the place 0 of what was not found."""
    return 1 / place if place else 0.0


def ndcg_at(ranked: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first *k*: gain = grade, discount log2(place + 1)."""
    ideal = _discounted(sorted(gold.values(), reverse=True)[:k])
    return _discounted([gold.get(id, 0) for id in ranked[:k]]) / ideal if ideal else 0.0


def token_f1(given: str, wanted: str, *, stem: Callable[[str], str] = str) -> float:
    """Return the F1 of the words of an answer, as SQuAD's script and LoCoMo's count them (which stems them)."""
    ours, theirs = ([stem(word) for word in normalized_answer(text).split()] for text in (given, wanted))
    same = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * same / (len(ours) + len(theirs)) if same else 0.0


def list_f1(given: str, wanted: str, *, stem: Callable[[str], str] = str) -> float:
    """Return the mean over the parts of *wanted*, split at commas, of the best F1 of any part of *given*."""
    parts = [part.strip() for part in given.split(",")]
    best = [max(token_f1(part, one.strip(), stem=stem) for part in parts) for one in wanted.split(",")]
    return sum(best) / len(best)


def normalized_answer(text: str) -> str:
    """Return *text* in lower case without punctuation, articles and "and"."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def contains_answer(given: str, wanted: str) -> bool:
    """Return whether the words of *wanted* stand in *given* in this order, side by side."""
    return bool(wanted.strip()) and f" {normalized_answer(wanted)} " in f" {normalized_answer(given)} "


def agreement(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the share of equal verdicts of two judges, and Cohen's kappa."""
    pairs = list(zip(one, other, strict=True))
    alike = sum(a == b for a, b in pairs) / len(pairs) if pairs else 0.0
    chance = sum((one.count(kind) / len(pairs)) * (other.count(kind) / len(pairs)) for kind in set(one))
    return alike, (alike - chance) / (1 - chance) if chance < 1 else float(alike == 1)


def area_under_curve(sure: Sequence[float], unsure: Sequence[float]) -> float:
    """Return the probability that a value of *sure* is above one of *unsure*, ties counted half; .5 without values."""
    pairs = [(a > b) + (a == b) / 2 for a in sure for b in unsure]
    return sum(pairs) / len(pairs) if pairs else 0.5


def _discounted(grades: Sequence[int]) -> float:
    return sum(grade / log2(place + 1) for place, grade in enumerate(grades, 1))
