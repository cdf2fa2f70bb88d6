"""Currency: which of several statements holds at the time that a question asks for.

A statement gains where it stands behind an older one of its topic that is near to the question, where it tells of a
change, and loses where it is a plan, a joke or no statement at all. How much is fitted on the hands by
``python -m benchmarks train weights``: once for questions about now, once for those about a time that is past. A topic
is a part of the line that says what a memory is about; without lines, the nearness of two texts stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.heads import head

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
FEATURES: Final = ("newer", "older", "newer near", "past", "plan", "unreal", "nothing", "change")
_IRRELEVANT = 0.6
"""Share of the best score below which a candidate is not about what is asked, so that it proves nothing of others."""
_UNRELATED = 0.3
"""Cosine of two notes of different topics: half of all pairs of the training texts lie below."""


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """The likeliest answers of a question, best first.

    *relevance*: the score of each as a share of the best. *times* in microseconds; what was said after the time that is
    asked for, or states nothing that holds, is not *usable*. *trust*: ranks, 0 the most trusted. *topics*: the parts of
    each line. *vectors*: those of the E5 encoder, shape (384,); of a text without one, only its topics are known.
    """

    relevance: Floats
    times: NDArray[np.int64]
    usable: Flags
    trust: NDArray[np.int64]
    topics: Sequence[AbstractSet[str]]
    vectors: Sequence[NDArray[np.float32] | None]

    @property
    def is_older(self) -> Flags:
        """Return whether statement j is older than i and may be replaced by it, shape (n, n): not if more trusted."""
        older = self.times[None, :] < self.times[:, None]
        return np.asarray(older & (self.trust[:, None] <= self.trust[None, :]) & self.usable[:, None])

    @property
    def shares_topic(self) -> Flags:
        """Return whether statements i and j have a topic in common, shape (n, n); none has one with itself."""
        pairs = [[i != j and not a.isdisjoint(b) for j, b in enumerate(self.topics)] for i, a in enumerate(self.topics)]
        return np.array(pairs, dtype=np.bool_).reshape(len(self.topics), len(self.topics))


def currency_features(statements: Statements) -> dict[str, Floats]:
    """Return the ``FEATURES`` of each statement, each in [0, 1]."""
    count = len(statements.vectors)
    relevance = np.clip((statements.relevance - _IRRELEVANT) / (1 - _IRRELEVANT), 0.0, 1.0)
    older, same, near = statements.is_older, statements.shares_topic, np.zeros((count, count))
    told = {name: np.zeros(count) for name in ("past", "plan", "unreal", "nothing", "change")}
    holds = np.ones(count)
    known = [i for i, vector in enumerate(statements.vectors) if vector is not None]
    if known:
        vectors = np.array([statements.vectors[i] for i in known])
        for name, shares in {**head("modality").shares(vectors), **head("change").shares(vectors)}.items():
            if name in told:
                told[name][known] = shares
            elif name == "holds":
                holds[known] = shares
        near[np.ix_(known, known)] = np.clip((vectors @ vectors.T - _UNRELATED) / (1 - _UNRELATED), 0.0, 1.0)
        has_line = np.array([bool(topics) for topics in statements.topics])
        near[np.ix_(has_line, has_line)] = 0.0
    return {
        "newer": (same * older * relevance).max(axis=1, initial=0.0),
        "older": (same * older.T * relevance * holds).max(axis=1, initial=0.0),
        "newer near": (near * older * relevance).max(axis=1, initial=0.0),
        **told,
    }
