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

from memory.retrieval.index.record import NEVER, TextFeature
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.vocabulary import NO_TERM
from memory.retrieval.scoring.scores import top_positions
from memory.retrieval.scoring.soft_matching import QuestionTerms, weighted_sum, word_match

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_COMPARED_STATEMENTS = 6
_TIE_STEP = 1e-6
"""Equal scores must not leave it to their ids which one leads."""
_MIN_SIMILARITY = 0.45
_MIN_SIMILARITY_OF_CHANGE = 0.2
"""Where the later one says itself that something changed, it need not be so alike."""
_MIN_TOPIC_SHARE = 0.5
_MAX_STATEMENT_TERMS = 10
"""Terms of a statement; a longer text says several things, and another one does not contradict it as a whole."""


@dataclass(frozen=True, slots=True)
class Supersession:
    """What each row's score changes by, and for each that is outdated the place of the statement that is newer."""

    scores: Floats
    newer: dict[int, int]


def promote_newest(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats, words: QuestionTerms, moment: int
) -> Supersession:
    """Let the newest of near-equal statements lead; those made after *moment* (microseconds) come last.

    *totals* are the scores so far. Equal moments: the later turn of its session first, then by id.
    """
    change = np.zeros(len(rows))
    newer: dict[int, int] = {}
    best = top_positions(ids, totals, _COMPARED_STATEMENTS)
    for group in _near_equal_groups(index, rows, best, words):
        made = {at: _statement_time(index, int(rows[at])) for at in group}
        turn = {at: index.turn(int(rows[at])) for at in group}
        by_time = sorted(group, key=lambda at: (made[at] > moment, -made[at], -turn[at], ids[at]))
        scores = sorted((float(totals[at]) for at in group), reverse=True)
        for place, (at, score) in enumerate(zip(by_time, scores, strict=True)):
            change[at] = score - place * _TIE_STEP - totals[at]
            if place and made[at] < made[by_time[0]]:
                newer[at] = by_time[0]
    return Supersession(change, newer)


def stated_after(index: RetrievalIndex, rows: Rows, moment: int) -> Floats:
    """1 for what was said after *moment* (microseconds) and does not say from when it holds; else 0."""
    said = index.occurred_at.rows[rows]
    unsaid = index.valid_from.rows[rows] == NEVER
    return np.asarray(unsaid & (said != NEVER) & (said > moment), dtype=np.float64)


def _near_equal_groups(
    index: RetrievalIndex, rows: Rows, places: Sequence[int], words: QuestionTerms
) -> list[list[int]]:
    """Return the groups of two and more near-equal statements among *places*."""
    stating = [at for at in places if _is_statement(index, int(rows[at]))]
    if len(stating) < 2 or not len(words.numbers):
        return []
    chosen = rows[np.array(stating)]
    about = weighted_sum(word_match(words, chosen, index), words)
    floor = _MIN_TOPIC_SHARE * float(about.max(initial=0.0))
    left = [at for at, share in zip(stating, about.tolist(), strict=True) if share >= floor > 0]
    groups = []
    while left:
        first, *others = left
        same = [at for at in others if _are_near_equal(index, int(rows[first]), int(rows[at]), words)]
        if same:
            groups.append([first, *same])
        left = [at for at in others if at not in same]
    return groups


def _is_statement(index: RetrievalIndex, row: int) -> bool:
    terms = _distinct_terms(index, row)
    return 0 < len(terms) <= _MAX_STATEMENT_TERMS and not index.cues.rows[row] & int(TextFeature.ENDS_ASKING)


def _are_near_equal(index: RetrievalIndex, one: int, other: int, words: QuestionTerms) -> bool:
    if index.speaker.rows[one] != index.speaker.rows[other]:
        return False
    later, earlier = (one, other) if _statement_time(index, one) >= _statement_time(index, other) else (other, one)
    a, b = _distinct_terms(index, later), _distinct_terms(index, earlier)
    says_so = bool(index.cues.rows[later] & int(TextFeature.CHANGE))
    if not _have_same_subject(np.intersect1d(a, words.numbers), np.intersect1d(b, words.numbers), says_so=says_so):
        return False
    near = np.maximum(index.vectors.cosines_of(a, b), (a[:, None] == b[None, :]).astype(np.float64))
    needed = _MIN_SIMILARITY_OF_CHANGE if says_so else _MIN_SIMILARITY
    return float(min(near.max(axis=1).mean(), near.max(axis=0).mean())) >= needed


def _have_same_subject(later: Rows, earlier: Rows, *, says_so: bool) -> bool:
    """Whether a later and an earlier statement that hold these words of the question speak of the same thing.

    Who says that something changed may leave the question's words altogether ("I moved to Porto"), or say more of them.
    """
    if says_so:
        return not len(later) or bool(np.isin(earlier, later).all())
    return np.array_equal(later, earlier)


def _distinct_terms(index: RetrievalIndex, row: int) -> Rows:
    terms = np.unique(index.text_terms(np.array([row], dtype=np.int64))[0])
    return np.asarray(terms[terms != NO_TERM])


def _statement_time(index: RetrievalIndex, row: int) -> int:
    """When a statement was made, in microseconds: valid from then, said on that day, or written then."""
    if index.valid_from.rows[row] != NEVER:
        return int(index.valid_from.rows[row])
    return int(index.occurred_at.rows[row] if index.occurred_at.rows[row] != NEVER else index.recorded_at.rows[row])
