"""Conflicts: statements that hold now and give one attribute of one subject different values.

Two statements contradict each other where they have one speaker and one subject, share a third of their terms, begin
alike and end differently: "I live in Lisbon", "I live in Porto". Questions, plans, hypotheses, quotations and past
habits contradict nothing, and what many may be true of ("I like tea", "I bought a bike") is left out.

Only statements that share a subject and a term are compared, and of a large group of these each with its neighbours in
time: the cost grows with the statements, not with their pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.statements import NOT_FACTUAL, StatementFeature

Terms = tuple[int, ...]
_MAX_TERMS: Final = 10
"""Terms of a statement; a longer text states several things."""
_COMPARED_IN_TIME: Final = 24
"""Statements of one subject and term with which one is compared: the next ones in time."""
_MIN_SHARED: Final = 1 / 3
"""Share of the terms of the longer statement that the other has, too."""


def conflicting_groups(index: RetrievalIndex, validity: ValidityFilter) -> list[list[str]]:
    """Return the ids of statements that contradict one another, each group newest first, the newest group first."""
    rows = _statement_rows(index, validity)
    terms = {row: _row_terms(index, row) for row in rows}
    times = dict(zip(rows, index.statement_times(np.array(rows, dtype=np.int64)).tolist(), strict=True))
    newest_first = sorted(
        (row for row in rows if 0 < len(set(terms[row])) <= _MAX_TERMS), key=lambda row: (-times[row], index.ids[row])
    )
    leader: dict[int, int] = {}

    def find(row: int) -> int:
        while leader.get(row, row) != row:
            row = leader[row]
        return row

    for row, other in _compared_pairs(index, newest_first, terms):
        first, second = find(row), find(other)
        if first != second and _contradict(terms[row], terms[other], announced=_announces_change(index, row)):
            leader[second] = first
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for row in newest_first:
        groups[find(row)].append(index.ids[row])
    return [ids for ids in groups.values() if len(ids) > 1]


def _statement_rows(index: RetrievalIndex, validity: ValidityFilter) -> list[int]:
    """Return the rows that hold now and state how things are; an assistant's words and small talk are none of them."""
    rows: NDArray[np.int64] = np.flatnonzero(index.alive.rows).astype(np.int64)
    columns = index.fields(rows)
    is_none = (columns["statement_features"] & int(NOT_FACTUAL)) | (
        columns["text_features"] & int(TextFeature.ENDS_ASKING)
    )
    kept = (is_none == 0) & ~columns["assistant"] & ~validity.hidden(index, rows) & ~index.hidden_utterances(rows)
    return [int(row) for row in rows[kept]]


def _row_terms(index: RetrievalIndex, row: int) -> Terms:
    """Return the terms of a text in their order."""
    terms, _ = index.text_terms(np.array([row], dtype=np.int64))
    return tuple(int(term) for term in terms if term != NO_TERM)


def _subject(index: RetrievalIndex, row: int, terms: Terms) -> tuple[object, ...]:
    """Return what two statements of one subject share: the speaker and a person; of a thing, its first word."""
    features, speaker = int(index.columns["statement_features"][row]), int(index.columns["speaker"][row])
    if features & StatementFeature.ABOUT_PERSON:
        return (speaker, "person", int(index.columns["subject"][row]))
    return (speaker, "") if features & StatementFeature.SELF else (speaker, terms[0])


def _compared_pairs(
    index: RetrievalIndex, newest_first: list[int], terms: dict[int, Terms]
) -> Iterator[tuple[int, int]]:
    """Yield each pair of statements that share a subject and a term, and are near in time among those, once."""
    groups: defaultdict[tuple[object, int], list[int]] = defaultdict(list)
    for row in newest_first:
        subject = _subject(index, row, terms[row])
        for term in set(terms[row]):
            groups[subject, term].append(row)
    seen: set[tuple[int, int]] = set()
    for group in groups.values():
        for place, row in enumerate(group):
            for other in islice(group, place + 1, place + 1 + _COMPARED_IN_TIME):
                if (row, other) not in seen:
                    seen.add((row, other))
                    yield row, other


def _announces_change(index: RetrievalIndex, row: int) -> bool:
    return bool(int(index.columns["statement_features"][row]) & StatementFeature.CHANGE)


def _contradict(terms: Terms, others: Terms, *, announced: bool) -> bool:
    """Return whether two statements share what they are about and differ in what they end with.

    They begin with a shared word; where the newer one, of *terms*, tells of a change, it may begin with that.
    """
    mine, theirs = set(terms), set(others)
    shared = mine & theirs
    if others[0] not in shared or not (announced or terms[0] in shared) or {terms[-1], others[-1]} & shared:
        return False
    return len(shared) >= _MIN_SHARED * max(len(mine), len(theirs))
