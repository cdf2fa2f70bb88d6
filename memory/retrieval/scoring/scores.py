"""Scored candidates of one store namespace: weighted features that add up to a score, and fusion of query variants.

Within a namespace, features are relative to the best candidate. ``graded`` brings them to one fixed scale (how much of
the question's words and meaning the best candidate covers), so that partitions can be merged and a score means the
same for every question; the order inside a namespace stays.

Fusion is the weighted mean of graded scores (CombSUM, Fox and Shaw, TREC-2, 1994). The scale is fixed, so that scores
of different variants compare; fusion by ranks would lose their confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MIN_TOPIC = 0.01


@dataclass(frozen=True, slots=True)
class ScoredCandidates:
    """Ids with one value each in every part.

    *topic* in [0, 1] is how far the best candidate is about the question at all; *lead* how far the memories of those
    whom the question names stay ahead of all others' (below 0: somebody else said it), 0 where nobody is named. *newer*
    maps the place of a statement that is outdated to that of the one that is newer.
    """

    namespace: str
    lane: str
    ids: tuple[str, ...]
    parts: Mapping[str, Floats]
    topic: float = 0.0
    lead: float = 0.0
    newer: Mapping[int, int] = field(default_factory=dict)

    def totals(self) -> Floats:
        """Return the sum of the parts of each id, always in the same order."""
        return sum_features(self.parts, len(self.ids))

    def graded(self) -> ScoredCandidates:
        """Return the same order of ids with scores whose best is *topic*; never so low that the order is lost."""
        best = float(self.totals().max(initial=0.0))
        if best <= 0:
            return self
        scale = max(self.topic, _MIN_TOPIC) / best
        parts = {name: part * scale for name, part in self.parts.items()}
        return replace(self, parts=parts)


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One candidate on the fixed scale."""

    score: float
    id: str
    source: ScoredCandidates
    place: int

    def parts(self) -> dict[str, float]:
        """Return the parts that are not 0; they add up to the score."""
        values = {name: float(part[self.place]) for name, part in self.source.parts.items()}
        return {name: value for name, value in values.items() if value}

    def outdated_by(self) -> str | None:
        """Return the id of the newer statement that takes this one's place."""
        newer = self.source.newer.get(self.place)
        return None if newer is None else self.source.ids[newer]


def sum_features(parts: Mapping[str, Floats], size: int) -> Floats:
    """Return the sum of *parts*, always in the same order."""
    total = np.zeros(size)
    for part in parts.values():
        total = total + part
    return total


def merge_ranked(sources: Sequence[ScoredCandidates], count: int) -> list[RankedCandidate]:
    """Return the *count* best of graded *sources*, ties by id, then by namespace."""
    ranked: list[RankedCandidate] = []
    for source in sources:
        totals = source.totals()
        places = top_positions(source.ids, totals, count)
        ranked.extend(RankedCandidate(float(totals[at]), source.ids[at], source, at) for at in places)
    ranked.sort(key=lambda one: (-one.score, one.id, one.source.namespace))
    return ranked[:count]


def top_positions(ids: Sequence[str], scores: Floats, count: int) -> list[int]:
    """Return the places of the *count* best scores, ties by id."""
    if count <= 0:
        return []
    places: list[int] = list(range(len(ids)))
    if count < len(ids):
        places = positions_from_kth(scores, count).tolist()
    places.sort(key=lambda at: (-scores[at], ids[at]))
    return places[:count]


def positions_from_kth(scores: Floats, k: int) -> NDArray[np.intp]:
    """Return the places of all scores that are not below the *k*-th best, in order."""
    if k >= len(scores):
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])


def fuse_scores(wordings: Sequence[tuple[ScoredCandidates, float, bool]]) -> ScoredCandidates:
    """Return one ``ScoredCandidates`` of one namespace for (graded, weight, sure) of each wording; the question's own
    is first.

    What a wording does not find, it gives 0. The best of the result has the topic of the wording that is most about
    something here; one that is not *sure* (an imagined answer) ranks, and says nothing of that.
    """
    own = wordings[0][0]
    if len(wordings) == 1:
        return own
    ids = tuple(dict.fromkeys(id for scored, _, _ in wordings for id in scored.ids))
    place = {id: at for at, id in enumerate(ids)}
    whole = sum(weight for _, weight, _ in wordings)
    parts = {name: np.zeros(len(ids)) for scored, _, _ in wordings for name in scored.parts}
    for scored, weight, _ in wordings:
        at = np.array([place[id] for id in scored.ids], dtype=np.int64)
        for name, values in scored.parts.items():
            parts[name][at] += values * (weight / whole)
    topic = max(scored.topic for scored, _, sure in wordings if sure)
    return replace(own, ids=ids, parts=parts, topic=topic).graded()
