"""Conflicts: statements that hold now and give one attribute of one subject different values.

The judge of ``memory.currency`` says which statements cannot both hold; of tastes and of what one may have several of,
both do. Only statements that share a subject and a term are compared, and of a
large group of these each with its neighbours in time: the cost grows with the statements, not with their pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
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

_MAX_TERMS: Final = 10
"""Terms of a statement; a longer text states several things."""
_COMPARED_IN_TIME: Final = 24
"""Statements of one subject and term with which one is compared: the next ones in time."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement as the judge sees it; what two of one *subject* share is the speaker and a person, or a thing.

    *several*: of what one may have several. *words* are its terms, each once.
    """

    id: str
    claim: Claim
    words: frozenset[int]
    subject: Hashable
    several: bool


def conflicting_groups(index: RetrievalIndex, validity: ValidityFilter) -> list[list[str]]:
    """Return the ids of statements that contradict one another, each group newest first, the newest group first."""
    statements = sorted(_statements(index, validity), key=lambda statement: (-statement.claim.time, statement.id))
    leader: dict[int, int] = {}

    def find(place: int) -> int:
        while leader.get(place, place) != place:
            place = leader[place]
        return place

    for newer, older in _compared_pairs(statements):
        first, second = find(newer), find(older)
        if first != second and _contradict(statements[older], statements[newer]):
            leader[second] = first
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for place, statement in enumerate(statements):
        groups[find(place)].append(statement.id)
    return [ids for ids in groups.values() if len(ids) > 1]


def _statements(index: RetrievalIndex, validity: ValidityFilter) -> Iterator[_Statement]:
    """Yield what holds now and states how things are; an assistant's words and small talk do not."""
    rows: NDArray[np.int64] = np.flatnonzero(index.alive.rows).astype(np.int64)
    columns = index.columns
    is_none = (columns["statement_features"][rows] & int(NOT_FACTUAL)) | (
        columns["text_features"][rows] & int(TextFeature.ENDS_ASKING)
    )
    is_left_out = columns["assistant"][rows] | validity.hidden(index, rows) | index.hidden_utterances(rows)
    rows = rows[(is_none == 0) & ~is_left_out]
    if not len(rows):
        return
    times = index.statement_times(rows).tolist()
    features, speakers, subjects = (
        columns[name][rows].tolist() for name in ("statement_features", "speaker", "subject")
    )
    all_terms, starts = index.text_terms(rows)
    for place, of_text in enumerate(np.split(all_terms, starts[1:])):
        terms = tuple(term for term in of_text.tolist() if term != NO_TERM)
        words, traits, row = frozenset(terms), Trait(features[place]), int(rows[place])
        if not 0 < len(words) <= _MAX_TERMS:
            continue
        subject: tuple[object, ...] = (speakers[place], terms[0])
        if traits & Trait.ABOUT_PERSON:
            subject = (speakers[place], "person", subjects[place])
        elif traits & Trait.SELF:
            subject = (speakers[place], "")
        # who a statement is about is compared before: the judge need not
        claim = Claim.of_traits(terms, traits, None, index.topics(row), times[place])
        yield _Statement(index.ids[row], claim, words, subject, bool(traits & Trait.SEVERAL))


def _compared_pairs(newest_first: Sequence[_Statement]) -> Iterator[tuple[int, int]]:
    """Yield the places of statements, newer and older, that share a subject and a term, are near in time among those
    and may contradict: the newer has the older one's first word, or its line."""
    groups: defaultdict[tuple[Hashable, int], list[int]] = defaultdict(list)
    for place, statement in enumerate(newest_first):
        for term in statement.words:
            groups[statement.subject, term].append(place)
    seen: set[tuple[int, int]] = set()
    for group in groups.values():
        for number, place in enumerate(group):
            newer = newest_first[place]
            words, topics = newer.words, newer.claim.topics
            for other in islice(group, number + 1, number + 1 + _COMPARED_IN_TIME):
                older = newest_first[other].claim
                if older.terms[0] not in words and (not topics or topics.isdisjoint(older.topics)):
                    continue
                if (place, other) not in seen:
                    seen.add((place, other))
                    yield place, other


def _contradict(older: _Statement, newer: _Statement) -> bool:
    """Return whether two statements cannot both hold: alike but for their end, or of one line, and judged so."""
    if older.several and newer.several:
        return False
    alike = pair_features(older.claim, newer.claim, None)
    of_one_thing = alike["frame"] or alike["same line"]
    return bool(of_one_thing and replaces(older.claim, newer.claim) >= bounds(by_meaning=False).conflicts)
