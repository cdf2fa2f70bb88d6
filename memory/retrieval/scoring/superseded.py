"""Superseded statements: among near-equal statements about one thing, the newest leads and the older ones follow.

Near-equal statements have one speaker, are about the question, and answer it nearly alike in another way ("I live in
Lisbon", "I live in Porto"); the words of the question in them are the same ("The key of the attic …" is no news of the
cellar's). They exchange their scores, so that nothing is lost and the ranks of other candidates stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import NEVER, TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.dates import NO_DAY, day_number
from tellback.memory.retrieval.scoring.scores import top_positions
from tellback.memory.retrieval.scoring.soft_matching import QuestionTerms, weighted_sum, word_match
from tellback.vectorstore.internals import sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_COMPARED_STATEMENTS = 6
TIE_STEP = 1e-6
"""Step between equal scores, so that ids do not decide which statement leads."""
_MIN_SIMILARITY = 0.45
_MIN_SIMILARITY_OF_CHANGE = 0.2
"""Similarity needed where the later statement says itself that something changed."""
_MIN_TOPIC_SHARE = 0.5
_MIN_EARLIER_SHARE = 0.3
_MIN_TRUSTED_SHARE = 0.95
"""Share of the question's words in the best statement that a more trusted one needs to lead it."""
_DAY_MICROSECONDS = 86_400_000_000
_MAX_STATEMENT_TERMS = 10
"""Terms of a statement; a longer text states several things, and another text does not contradict it as a whole."""


def promote_newest(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats, words: QuestionTerms, moment: int
) -> tuple[Floats, dict[int, int]]:
    """Let the newest of near-equal statements lead; those made after *moment* (microseconds) come last.

    A statement that is trusted less leads none that is trusted more. Returns the change of each row's score, and for
    each superseded row the position of the newer statement. *totals* are the scores so far. Of statements of equal
    times, the later turn of its session leads, then the lower id.
    """
    change = np.zeros(len(rows))
    newer: dict[int, int] = {}
    best = top_positions(ids, totals, _COMPARED_STATEMENTS)
    for group in _near_equal_groups(index, rows, best, words):
        times = dict(zip(group, statement_times(index, rows[group]).tolist(), strict=True))
        turns = {i: index.turn(int(rows[i])) for i in group}
        trust = {i: int(index.columns["trust"][rows[i]]) for i in group}
        newest_first = sorted(group, key=lambda i: (times[i] > moment, trust[i], -times[i], -turns[i], ids[i]))
        scores = sorted((float(totals[i]) for i in group), reverse=True)
        for rank, (i, score) in enumerate(zip(newest_first, scores, strict=True)):
            change[i] = score - rank * TIE_STEP - totals[i]
            if rank and times[i] < times[newest_first[0]]:
                newer[i] = newest_first[0]
    return change, newer


def trusted_lead(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats, words: QuestionTerms, own: Sequence[int]
) -> Floats:
    """Return the change of scores by which a statement leads the best one where that is trusted less.

    It is the best of those that have as much of the question's words; *own* are the speakers that are one person. What
    a tool notes of the user may be right, but it answers nothing in the place of the user's own words.
    """
    change, columns = np.zeros(len(rows)), index.fields(rows)
    best = [i for i in top_positions(ids, totals, _COMPARED_STATEMENTS) if columns["speaker"][i] in own]
    if not best or not columns["trust"][best[0]] or columns["assistant"][best[0]] or not len(words.numbers):
        return change
    topic = weighted_sum(word_match(words, rows[np.array(best)], index), words)
    for i, share in zip(best[1:], topic[1:].tolist(), strict=True):
        is_trusted = columns["trust"][i] < columns["trust"][best[0]] and _is_statement(index, int(rows[i]))
        if is_trusted and share >= _MIN_TRUSTED_SHARE * topic[0] > 0:
            change[i] = totals[best[0]] + TIE_STEP - totals[i]
            break
    return change


def made_after(index: RetrievalIndex, rows: Rows, day: date, totals: Floats) -> Floats:
    """Return the deductions from the scores *totals* of rows about a time after *day*: the best of *totals* each.

    Nothing falls where no row until then has a fair share of the best score: then the statement came later.
    """
    best = float(totals.max(initial=0.0))
    valid_from, days = index.columns["valid_from"][rows], index.columns["day"][rows].astype(np.int64)
    stated_days = np.where(valid_from == NEVER, days, valid_from // _DAY_MICROSECONDS)
    is_later = (stated_days > day_number(day)) & (days != NO_DAY)
    earlier = float(totals[~is_later].max(initial=0.0))
    return np.where(is_later, -best, 0.0) if earlier >= _MIN_EARLIER_SHARE * best > 0 else np.zeros(len(rows))


def stated_after(index: RetrievalIndex, rows: Rows, moment: int) -> Floats:
    """Return 1 for rows said after *moment* (microseconds) that do not say from when they are valid; else 0."""
    occurred_at = index.columns["occurred_at"][rows]
    is_undated = index.columns["valid_from"][rows] == NEVER
    return np.asarray(is_undated & (occurred_at != NEVER) & (occurred_at > moment), dtype=np.float64)


def _near_equal_groups(
    index: RetrievalIndex, rows: Rows, positions: Sequence[int], words: QuestionTerms
) -> list[list[int]]:
    """Return the groups of two and more near-equal statements among *positions* of *rows*."""
    statements = [i for i in positions if _is_statement(index, int(rows[i]))]
    if len(statements) < 2 or not len(words.numbers):
        return []
    chosen = rows[np.array(statements)]
    topic = weighted_sum(word_match(words, chosen, index), words)
    floor = _MIN_TOPIC_SHARE * float(topic.max(initial=0.0))
    ungrouped = [i for i, share in zip(statements, topic.tolist(), strict=True) if share >= floor > 0]
    groups = []
    while ungrouped:
        first, *others = ungrouped
        same = [i for i in others if _are_near_equal(index, int(rows[first]), int(rows[i]), words)]
        if same:
            groups.append([first, *same])
        ungrouped = [i for i in others if i not in same]
    return groups


def _is_statement(index: RetrievalIndex, row: int) -> bool:
    terms = _distinct_terms(index, row)
    asks = index.columns["text_features"][row] & int(TextFeature.ENDS_ASKING)
    return 0 < len(terms) <= _MAX_STATEMENT_TERMS and not asks


def _are_near_equal(index: RetrievalIndex, row: int, other: int, words: QuestionTerms) -> bool:
    if index.columns["speaker"][row] != index.columns["speaker"][other]:
        return False
    time, other_time = statement_times(index, np.array([row, other])).tolist()
    later, earlier = (row, other) if time >= other_time else (other, row)
    later_terms, earlier_terms = _distinct_terms(index, later), _distinct_terms(index, earlier)
    announced = bool(index.columns["text_features"][later] & int(TextFeature.CHANGE))
    question_terms = sorted_distinct(words.numbers)
    later_topic = np.intersect1d(later_terms, question_terms, assume_unique=True)
    earlier_topic = np.intersect1d(earlier_terms, question_terms, assume_unique=True)
    if not _have_same_subject(later_topic, earlier_topic, announced=announced):
        return False
    equal = (later_terms[:, None] == earlier_terms[None, :]).astype(np.float64)
    similarities = np.maximum(index.vectors.cosines_of(later_terms, earlier_terms), equal)
    needed = _MIN_SIMILARITY_OF_CHANGE if announced else _MIN_SIMILARITY
    return float(min(similarities.max(axis=1).mean(), similarities.max(axis=0).mean())) >= needed


def _have_same_subject(later: Rows, earlier: Rows, *, announced: bool) -> bool:
    """Return whether two statements are about one subject, by the question's words in the *later* and *earlier* one.

    A statement that announces a change may have none of the question's words ("I moved to Porto"), or more of them.
    """
    if announced:
        return not len(later) or bool(np.isin(earlier, later).all())
    return np.array_equal(later, earlier)


def _distinct_terms(index: RetrievalIndex, row: int) -> Rows:
    terms = sorted_distinct(index.text_terms(np.array([row], dtype=np.int64))[0])
    return np.asarray(terms[terms != NO_TERM])


def statement_times(index: RetrievalIndex, rows: Rows) -> NDArray[np.int64]:
    """Return the time of each statement in microseconds: its valid_from, else when it was said, else recorded."""
    valid_from, occurred_at, recorded_at = (
        index.columns[name][rows] for name in ("valid_from", "occurred_at", "recorded_at")
    )
    return np.where(valid_from != NEVER, valid_from, np.where(occurred_at != NEVER, occurred_at, recorded_at))
