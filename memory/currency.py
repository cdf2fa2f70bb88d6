"""Currency: which of two statements holds, and which of several at the time that a question asks for.

``replaces`` is the one judge of two statements: recall, writing, conflicts, the profile and chat ask it, and differ in
their bounds alone (``Bounds``). Its weights and bounds are fitted by ``python -m benchmarks train judge``.

Of several, a statement gains where it stands behind an older one of its topic that is near to the question, where it
tells of a change, and loses where it is a plan, a joke or no statement at all. How much is fitted on the hands by
``python -m benchmarks train weights``: once for questions about now, once for those about a time that is past. A topic
is a part of the line that says what a memory is about; without lines, the nearness of two texts stands for it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from math import exp
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.heads import head
from tellback.memory.analysis.texts import NOT_FACTUAL, Trait

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
FEATURES: Final = ("newer", "older", "newer near", "past", "plan", "unreal", "nothing", "change")
_IRRELEVANT = 0.6
"""Share of the best score below which a candidate is not about what is asked, so that it proves nothing of others."""
_SURE = 4
"""Power of the probability that a text states nothing: a question is surely one, a note may look a little like it."""
_CORRECTS = 0.3
"""Probability from which a statement takes back an older one; of 1,507 notes of the open hands, fourteen have it."""
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
            if (told_as := {"supposed": "plan", "correction": "change"}.get(name, name)) in told:
                told[told_as][known] += shares**_SURE if name == "nothing" else shares
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


def taken_back(statements: Statements) -> dict[int, int]:
    """Return by its place each statement that a newer one takes back, with the newest that does ("no, it is …").

    A correction says no more of what it corrects than what stands in its place: that is the older statement that is
    nearest to it.
    """
    known = np.array([i for i, vector in enumerate(statements.vectors) if vector is not None], np.int64)
    if len(known) < 2:
        return {}
    vectors = np.array([statements.vectors[i] for i in known])
    times, trust = statements.times[known], statements.trust[known]
    corrects = head("change").shares(vectors)["correction"] >= _CORRECTS
    corrects &= head("modality").shares(vectors)["holds"] >= _DOUBTFUL  # else it only rejects: "no, try again"
    found = {}
    for newer in sorted(np.flatnonzero(corrects & statements.usable[known]).tolist(), key=lambda i: int(times[i])):
        near = np.where((times < times[newer]) & (trust[newer] <= trust), vectors @ vectors[newer], -1.0)
        if near.max() >= _UNRELATED:
            found[int(known[near.argmax()])] = int(known[newer])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A statement as the judge sees it: its *terms* in their order, who it is about, and what of.

    *holds* is the probability that it says how things are, *change* that it tells of a change: by the heads over its
    vector, else by letters (``Claim.of_traits``). *subject* is that of ``AnalyzedText``, *topics* are the parts of its
    line, *time* is in microseconds.
    """

    terms: Sequence[Hashable]
    holds: float
    change: float
    subject: str | None = None
    topics: AbstractSet[str] = frozenset()
    time: int = 0

    @classmethod
    def of_traits(
        cls,
        terms: Sequence[Hashable],
        traits: Trait,
        subject: str | None = None,
        topics: AbstractSet[str] = frozenset(),
        time: int = 0,
    ) -> Claim:
        """Return the claim of a text that has these *traits*."""
        return cls(terms, float(not traits & NOT_FACTUAL), float(bool(traits & Trait.CHANGE)), subject, topics, time)

    def by_vector(self, vector: NDArray[np.float32]) -> Claim:
        """Return the same with what the heads tell of its *vector*."""
        holds, same = head("modality").shares(vector[None])["holds"][0], head("change").shares(vector[None])["same"][0]
        return replace(self, holds=float(holds), change=1 - float(same))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Probabilities that ``replaces`` must reach, each chosen by the trainer for a precision on hands left out.

    *marks*: an older statement is called outdated. *proposes*: a person or client is asked. *conflicts*: two
    statements are listed as ones that cannot both hold.
    """

    marks: float
    proposes: float
    conflicts: float


PAIR_FEATURES: Final = ("same line", "other line", "near", "shared", "frame", "change", "holds")
_MIN_FRAME: Final = 1 / 3
"""Share of the longer statement's terms that two of one frame have in common."""
_JUDGE_FILE: Final = Path(__file__).with_name("currency.json")
_TOLD: Final = 0.5
_DOUBTFUL: Final = 0.2
"""Probability that a statement holds below which it replaces nothing, and is replaced by nothing."""


def replaces(older: Claim, newer: Claim, near: float | None = None) -> float:
    """Return the probability that *newer* says what *older* said, otherwise: that *older* holds no longer.

    *near* is the cosine of their vectors by the E5 encoder, None where there are none. The probability is 0 where they
    are about two people, or where either does not say how things are. It is 1 where both have one and the same line,
    whoever they name: a caller who repeats a line says that it is the same thing.
    """
    if min(older.holds, newer.holds) < _DOUBTFUL or not older.terms or not newer.terms:
        return 0.0
    if older.topics and older.topics == newer.topics:
        return 1.0
    if older.subject and newer.subject and older.subject != newer.subject:
        return 0.0
    if (older.subject == "" and newer.subject) or (newer.subject == "" and older.subject):
        return 0.0
    values = pair_features(older, newer, near)
    weights = _judge()["words" if near is None else "vectors"]
    return 1 / (1 + exp(-weights["bias"] - sum(weights[name] * value for name, value in values.items())))


def bounds(*, by_meaning: bool) -> Bounds:
    """Return the bounds of the judge for statements that have vectors (*by_meaning*), or words alone."""
    return Bounds(**_judge()["vectors bounds" if by_meaning else "words bounds"])


def pair_features(older: Claim, newer: Claim, near: float | None) -> dict[str, float]:
    """Return the ``PAIR_FEATURES`` of two statements, each about in [0, 1]."""
    mine, theirs = set(newer.terms), set(older.terms)
    shared = mine & theirs
    begins_alike = older.terms[0] in mine and (newer.terms[0] in theirs or newer.change >= _TOLD)
    frame = begins_alike and not {newer.terms[-1], older.terms[-1]} & shared
    has_lines = bool(older.topics) and bool(newer.topics)
    same = not older.topics.isdisjoint(newer.topics)
    common, holds = len(shared) / max(len(mine), len(theirs)), min(older.holds, newer.holds)
    return {
        "same line": float(same),
        "other line": float(has_lines and not same),
        "near": near or 0.0,
        "shared": common,
        "frame": float(frame and common >= _MIN_FRAME),
        "change": newer.change,
        "holds": holds,
    }


@cache
def _judge() -> Mapping[str, Mapping[str, float]]:
    judge: dict[str, dict[str, float]] = json.loads(_JUDGE_FILE.read_text("utf-8"))
    return judge
