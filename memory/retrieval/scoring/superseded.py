"""Superseded statements: among near-equal statements about one thing, the newest leads and the older ones follow.

Near-equal statements have one speaker, are about the question, and answer it nearly alike in another way ("I live in
Lisbon", "I live in Porto"); the words of the question in them are the same ("The key of the attic …" is no news of the
cellar's). They exchange their scores, so that nothing is lost and the ranks of other candidates stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import NEVER, Cue
from memory.retrieval.index.retrieval_index import Index
from memory.retrieval.index.vocabulary import NOTHING
from memory.retrieval.scoring.scores import best_first
from memory.retrieval.scoring.soft_matching import Words, weighed, word_match

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_LOOKED_AT = 6
_STEP = 1e-6
"""Equal scores must not leave it to their ids which one leads."""
_ALIKE = 0.45
_ALIKE_WHERE_SAID = 0.2
"""Where the later one says itself that something changed, it need not be so alike."""
_ABOUT = 0.5
_LONGEST = 10
"""Terms of a statement; a longer text says several things, and another one does not contradict it as a whole."""


@dataclass(frozen=True, slots=True)
class Change:
    """What each row's score changes by, and for each that is outdated the place of the statement that is newer."""

    scores: Floats
    newer: dict[int, int]


def newest_first(index: Index, rows: Rows, ids: Sequence[str], totals: Floats, words: Words, moment: int) -> Change:
    """Let the newest of near-equal statements lead; those made after *moment* (microseconds) come last.

    *totals* are the scores so far. Equal moments: the later turn of its session first, then by id.
    """
    change = np.zeros(len(rows))
    newer: dict[int, int] = {}
    best = best_first(ids, totals, _LOOKED_AT)
    for group in _groups(index, rows, best, words):
        made = {at: _made(index, int(rows[at])) for at in group}
        turn = {at: index.turn(int(rows[at])) for at in group}
        by_time = sorted(group, key=lambda at: (made[at] > moment, -made[at], -turn[at], ids[at]))
        scores = sorted((float(totals[at]) for at in group), reverse=True)
        for place, (at, score) in enumerate(zip(by_time, scores, strict=True)):
            change[at] = score - place * _STEP - totals[at]
            if place and made[at] < made[by_time[0]]:
                newer[at] = by_time[0]
    return Change(change, newer)


def said_later(index: Index, rows: Rows, moment: int) -> Floats:
    """1 for what was said after *moment* (microseconds) and does not say from when it holds; else 0."""
    said = index.occurred_at.rows[rows]
    unsaid = index.valid_from.rows[rows] == NEVER
    return np.asarray(unsaid & (said != NEVER) & (said > moment), dtype=np.float64)


def _groups(index: Index, rows: Rows, places: Sequence[int], words: Words) -> list[list[int]]:
    """Return the groups of two and more near-equal statements among *places*."""
    stating = [at for at in places if _states(index, int(rows[at]))]
    if len(stating) < 2 or not len(words.numbers):
        return []
    chosen = rows[np.array(stating)]
    about = weighed(word_match(words, chosen, index), words)
    floor = _ABOUT * float(about.max(initial=0.0))
    left = [at for at, share in zip(stating, about.tolist(), strict=True) if share >= floor > 0]
    groups = []
    while left:
        first, *others = left
        same = [at for at in others if _near_equal(index, int(rows[first]), int(rows[at]), words)]
        if same:
            groups.append([first, *same])
        left = [at for at in others if at not in same]
    return groups


def _states(index: Index, row: int) -> bool:
    terms = _terms(index, row)
    return 0 < len(terms) <= _LONGEST and not index.cues.rows[row] & int(Cue.ENDS_ASKING)


def _near_equal(index: Index, one: int, other: int, words: Words) -> bool:
    if index.speaker.rows[one] != index.speaker.rows[other]:
        return False
    later, earlier = (one, other) if _made(index, one) >= _made(index, other) else (other, one)
    a, b = _terms(index, later), _terms(index, earlier)
    says_so = bool(index.cues.rows[later] & int(Cue.CHANGE))
    if not _of_one_thing(np.intersect1d(a, words.numbers), np.intersect1d(b, words.numbers), says_so=says_so):
        return False
    near = np.maximum(index.vectors.cosines_of(a, b), (a[:, None] == b[None, :]).astype(np.float64))
    needed = _ALIKE_WHERE_SAID if says_so else _ALIKE
    return float(min(near.max(axis=1).mean(), near.max(axis=0).mean())) >= needed


def _of_one_thing(later: Rows, earlier: Rows, *, says_so: bool) -> bool:
    """Whether a later and an earlier statement that hold these words of the question speak of the same thing.

    Who says that something changed may leave the question's words altogether ("I moved to Porto"), or say more of them.
    """
    if says_so:
        return not len(later) or bool(np.isin(earlier, later).all())
    return np.array_equal(later, earlier)


def _terms(index: Index, row: int) -> Rows:
    terms = np.unique(index.text_terms(np.array([row], dtype=np.int64))[0])
    return np.asarray(terms[terms != NOTHING])


def _made(index: Index, row: int) -> int:
    """When a statement was made, in microseconds: valid from then, said on that day, or written then."""
    if index.valid_from.rows[row] != NEVER:
        return int(index.valid_from.rows[row])
    return int(index.occurred_at.rows[row] if index.occurred_at.rows[row] != NEVER else index.recorded_at.rows[row])
