"""Conflicts: statements that hold now and give one attribute of one subject different values.

The judge of ``memory.currency`` says which statements cannot both hold; of tastes and of what one may have several of,
both do. Only statements that share a subject and a term are compared, and of a
large group of these each with its neighbours in time: the cost grows with the statements, not with their pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.texts import NOT_FACTUAL, Trait
from tellback.memory.currency import Claim, bounds, pair_features, replaces
from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.memory.retrieval.index.vocabulary import NO_TERM

Terms = tuple[int, ...]
_MAX_TERMS: Final = 10
"""Terms of a statement; a longer text states several things."""
_COMPARED_IN_TIME: Final = 24
"""Statements of one subject and term with which one is compared: the next ones in time."""


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
        claims = _claim(index, other, terms, times), _claim(index, row, terms, times)
        traits = _traits(index, other), _traits(index, row)
        several = bool(traits[0] & traits[1] & Trait.SEVERAL)
        if first != second and _contradict(*claims, both_may_hold=several):
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
    if features & Trait.ABOUT_PERSON:
        return (speaker, "person", int(index.columns["subject"][row]))
    return (speaker, "") if features & Trait.SELF else (speaker, terms[0])


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


def _claim(index: RetrievalIndex, row: int, terms: Mapping[int, Terms], times: Mapping[int, int]) -> Claim:
    """Return the statement of *row* as the judge sees it; who it is about is compared before."""
    return Claim.of_traits(terms[row], _traits(index, row), None, index.topics(row), times[row])


def _traits(index: RetrievalIndex, row: int) -> Trait:
    return Trait(int(index.columns["statement_features"][row]))


def _contradict(older: Claim, newer: Claim, *, both_may_hold: bool) -> bool:
    """Return whether two statements cannot both hold: alike but for their end, or of one line, and judged so."""
    alike = pair_features(older, newer, None)
    of_one_thing = alike["frame"] or alike["same line"]
    return bool(of_one_thing and not both_may_hold and replaces(older, newer) >= bounds(by_meaning=False).conflicts)
