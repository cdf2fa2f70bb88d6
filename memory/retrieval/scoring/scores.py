"""Scored candidates of one store namespace: weighted features that add up to a score, and fusion of query variants.

Within a namespace, features are relative to the best candidate. ``calibrated`` brings them to one fixed scale (how much
of the question's words and meaning the best candidate covers), so that partitions can be merged and a score means the
same for every question; the order inside a namespace stays.

Fusion is the weighted mean of calibrated scores (CombSUM, Fox and Shaw, TREC-2, 1994). The scale is fixed, so that
scores of different variants compare; fusion by ranks would lose their confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore import Entry

Floats = NDArray[np.float64]
_MIN_TOPIC = 0.01


@dataclass(frozen=True, slots=True)
class ScoredCandidates:
    """Candidates of one store namespace: their ids, and one value for each id in every part of the score.

    *topic* in [0, 1] is how far the best candidate is about the question at all. *lead* is the lead of the memories of
    those whom the question names over those of others (below 0: somebody else stated it), 0 where nobody is named.
    *newer* maps the position of a superseded statement to that of the newer one, *later* that of a newer statement
    which may have changed the first hit to that of the first hit. *is_near*: the best candidate is near enough to be
    shown where there is doubt. *is_likely*: the first rather answers than not. *asks_several*: the question asks for a
    list. *entries* were read to score them: those of the best, by id, None for one that is gone.
    """

    namespace: str
    partition: str
    ids: tuple[str, ...]
    parts: Mapping[str, Floats]
    topic: float = 0.0
    lead: float = 0.0
    newer: Mapping[int, int] = field(default_factory=dict)
    later: Mapping[int, int] = field(default_factory=dict)
    is_near: bool = True
    asks_several: bool = False
    is_likely: bool = True
    entries: Mapping[str, Entry | None] = field(default_factory=dict)

    def totals(self) -> Floats:
        """Return the score of each id: the sum of its parts, always in the same order."""
        return sum_features(self.parts, len(self.ids))

    def calibrated(self) -> ScoredCandidates:
        """Return the candidates with scores whose best is *topic*, in the same order.

        A *topic* of 0 is raised a little, so that the order is not lost.
        """
        best = float(self.totals().max(initial=0.0))
        if best <= 0:
            return self
        scale = max(self.topic, _MIN_TOPIC) / best
        parts = {name: part * scale for name, part in self.parts.items()}
        return replace(self, parts=parts)


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One candidate with its calibrated *score*, at *position* of its *source*."""

    score: float
    id: str
    source: ScoredCandidates
    position: int

    def parts(self) -> dict[str, float]:
        """Return the parts that are not 0; they add up to the score."""
        values = {name: float(part[self.position]) for name, part in self.source.parts.items()}
        return {name: value for name, value in values.items() if value}

    def outdated_by(self) -> str | None:
        """Return the id of the newer statement that supersedes this one, None for none."""
        newer = self.source.newer.get(self.position)
        return None if newer is None else self.source.ids[newer]

    def later_than(self) -> str | None:
        """Return the id of the older statement that this one may have changed, None for none."""
        older = self.source.later.get(self.position)
        return None if older is None else self.source.ids[older]

    def is_likely_change(self) -> bool:
        """Return whether this one has probably changed an older statement."""
        return self.position in self.source.newer.values()


def sum_features(parts: Mapping[str, Floats], size: int) -> Floats:
    """Return the sum of *parts*, always in the same order."""
    total = np.zeros(size)
    for part in parts.values():
        total = total + part
    return total


def merge_ranked(sources: Sequence[ScoredCandidates], count: int) -> list[RankedCandidate]:
    """Return the *count* best of calibrated *sources*, ties by id, then by namespace."""
    ranked: list[RankedCandidate] = []
    for source in sources:
        totals = source.totals()
        positions = top_positions(source.ids, totals, count)
        ranked += [RankedCandidate(float(totals[i]), source.ids[i], source, i) for i in positions]
    if len(sources) > 1:  # those of one are in order
        ranked.sort(key=lambda candidate: (-candidate.score, candidate.id, candidate.source.namespace))
    return ranked[:count]


def top_positions(ids: Sequence[str], scores: Floats, count: int) -> list[int]:
    """Return the positions of the *count* best scores, ties by id."""
    if count <= 0:
        return []
    positions: list[int] = list(range(len(ids)))
    if count < len(ids):
        positions = positions_from_kth(scores, count).tolist()
    ranked = sorted(zip((-scores[positions]).tolist(), map(ids.__getitem__, positions), positions, strict=True))
    return [position for _, _, position in ranked[:count]]


def positions_from_kth(scores: Floats, k: int) -> NDArray[np.intp]:
    """Return the positions of all scores that are not below the *k*-th best, in ascending order."""
    if k >= len(scores):
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])


@dataclass(frozen=True, slots=True)
class QueryVariant:
    """Another wording of a question, and its weight in the fusion, where the question itself has 1.

    A *hypothetical* answer (HyDE) takes part in the ranking, but is no evidence that a memory is about the question.
    """

    text: str
    weight: float = 1.0
    hypothetical: bool = False


def fuse_scores(variants: Sequence[tuple[QueryVariant, ScoredCandidates]]) -> ScoredCandidates:
    """Return the fused candidates of one namespace, given calibrated; the first of *variants* is the question itself.

    A candidate that a variant does not name has the score 0 there. The topic is the highest of all variants but
    hypothetical ones.
    """
    _, question = variants[0]
    if len(variants) == 1:
        return question
    ids = tuple(dict.fromkeys(id for _, scored in variants for id in scored.ids))
    position_of = {id: i for i, id in enumerate(ids)}
    total_weight = sum(variant.weight for variant, _ in variants)
    parts = {name: np.zeros(len(ids)) for _, scored in variants for name in scored.parts}
    for variant, scored in variants:
        positions = np.array([position_of[id] for id in scored.ids], dtype=np.int64)
        for name, values in scored.parts.items():
            parts[name][positions] += values * (variant.weight / total_weight)
    topic = max(scored.topic for variant, scored in variants if not variant.hypothetical)
    is_near = any(scored.is_near for variant, scored in variants if not variant.hypothetical)
    is_likely = any(scored.is_likely for variant, scored in variants if not variant.hypothetical)
    return replace(question, ids=ids, parts=parts, topic=topic, is_near=is_near, is_likely=is_likely).calibrated()
