"""Features of a conversation turn beyond its words, and the neighbour window over which its matches are smoothed.

Pure functions of the analyzed question and the columns of the index. Each feature is one value per row; the scorer
weights them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.profile import EmbedderProfile
from tellback.memory.models import DEFAULT_IMPORTANCE
from tellback.memory.retrieval.index.record import NEVER, TextFeature
from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.session_statistics import NOBODY
from tellback.memory.retrieval.index.turn_links import NO_ROW, TurnLinks
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.dates import DateReference, date_match
from tellback.memory.retrieval.languages.question_time import QuestionTime, TimeKind
from tellback.vectorstore import Filter, Vector, View
from tellback.vectorstore.internals import idf, idf_array, sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_FEEDBACK_TERMS = 10
_NOW = QuestionTime(TimeKind.NOW, None, "")


@dataclass(frozen=True, slots=True)
class AnalyzedQuestion:
    """A question as it is analyzed in one namespace.

    *terms* are those of *text_without_names*, where the names of *participants* are left out, and *forms* the words as
    they were written; *all_terms* are those of *text*. *only_when*: it names a date and nothing else that a memory
    could be about. *proper_terms* are those of *terms* that are written as names. *time* is what it asks about.
    *excluded*: terms of what the question sets aside. *asks_digits*: it asks for a number as that of a telephone.
    """

    text: str
    text_without_names: str
    terms: tuple[str, ...]
    forms: tuple[str, ...]
    all_terms: tuple[str, ...]
    participants: tuple[int, ...]
    dates: tuple[DateReference, ...]
    asks_time: bool
    asks_place: bool
    asks_number: bool
    asks_several: bool
    only_when: bool = False
    proper_terms: frozenset[str] = frozenset()
    time: QuestionTime = _NOW
    excluded: frozenset[str] = frozenset()
    asks_digits: bool = False

    @property
    def is_proper(self) -> NDArray[np.bool_]:
        """Return for each of *terms* whether it is written as a name."""
        return np.array([term in self.proper_terms for term in self.terms], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class TermFrequencies:
    """The memories of a namespace: their *count*, and in *df* how many of them have each of some terms."""

    df: Callable[[Sequence[str]], list[int]]
    count: int

    def idf(self, terms: Sequence[str]) -> Floats:
        """Return the idf of each of *terms*."""
        return idf_array(self.count, np.array(self.df(terms), dtype=np.float64))


class RowCosines:
    """Cosines by row of an index of *size* rows, each computed when it is first asked for."""

    def __init__(self, size: int) -> None:
        self._values = np.empty(size)
        self._is_known = np.zeros(size, dtype=np.bool_)

    def of(self, rows: Rows, compute: Callable[[Rows], Floats]) -> Floats:
        """Return the cosines of *rows*; *compute* gives those of rows."""
        missing = sorted_distinct(rows[~self._is_known[rows]])
        if len(missing):
            self._values[missing] = compute(missing)
            self._is_known[missing] = True
        return np.asarray(self._values[rows])


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """A question as it is analyzed in one store namespace, with the *view* and the *index* that it is scored with.

    *vector* is that of the question there, None without one, and *profile* that of the embedder it comes from; *where*
    is everything that candidates must pass.
    """

    view: View
    namespace: str
    partition: str
    index: RetrievalIndex
    question: AnalyzedQuestion
    vector: Vector | None
    profile: EmbedderProfile
    validity: ValidityFilter
    where: Filter | None
    frequencies: TermFrequencies
    _cosines: RowCosines = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cosines", RowCosines(len(self.index.ids)))

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of *rows*."""
        return list(map(self.index.ids.__getitem__, rows.tolist()))

    def text_scores(self, text: str, ids: Sequence[str]) -> Floats:
        """Return BM25 of *text* for each of *ids*."""
        return self.view.score_text(text, ids, namespace=self.namespace)

    def cosines(self, rows: Rows) -> Floats | None:
        """Return the cosine of the question with each of *rows*, NaN without a vector; None without the question's.

        It counts from the base of the profile.
        """
        vector = self.vector
        if vector is None:
            return None

        def compute(missing: Rows) -> Floats:
            return self.profile.rescaled(self.view.similarity(vector, self.ids(missing), namespace=self.namespace))

        return self._cosines.of(rows, compute)


def speaker_match(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """Return 1 where the question names the speaker, else 0; 0 everywhere in a namespace of a single speaker."""
    if not question.participants or len(index.participants.present()) < 2:
        return np.zeros(len(rows))
    return np.isin(index.columns["speaker"][rows], question.participants).astype(np.float64)


def participant_share(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """Return the share of the participants named by the question that take part in each row's session.

    For a memory without a session it is 1 where the question names its speaker, or it has none.
    """
    if not question.participants:
        return np.zeros(len(rows))
    sessions, speakers = index.columns["session"][rows], index.columns["speaker"][rows]
    alone = sessions == NO_SESSION
    total = np.zeros(len(rows))
    for participant in question.participants:
        total += np.isin(sessions, index.participants.sessions(participant))
    share = total / len(question.participants)
    share[alone] = (speakers[alone] == NOBODY) | np.isin(speakers[alone], question.participants)
    return np.asarray(share)


def date_fit(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """Return how well a date of the question fits the day of each row, or the day that its text mentions, in [0, 1]."""
    of_day = date_match(index.columns["day"][rows], question.dates)
    return np.maximum(of_day, date_match(index.columns["mentioned_day"][rows], question.dates))


def stated_after(index: RetrievalIndex, rows: Rows, moment: int) -> Floats:
    """Return 1 for rows said after *moment* (microseconds) that do not say from when they are valid; else 0."""
    occurred_at = index.columns["occurred_at"][rows]
    is_undated = index.columns["valid_from"][rows] == NEVER
    return np.asarray(is_undated & (occurred_at != NEVER) & (occurred_at > moment), dtype=np.float64)


def has_text_feature(index: RetrievalIndex, rows: Rows, feature: TextFeature) -> Floats:
    """Return 1 where the text has *feature*, else 0."""
    return np.asarray((index.columns["text_features"][rows] & int(feature)) != 0, dtype=np.float64)


def has_any_term(index: RetrievalIndex, rows: Rows, words: Iterable[str]) -> Floats:
    """Return 1 where the text has any of the terms *words*, else 0."""
    numbers = [number for word in words if (number := index.vocabulary.find(word)) != NO_TERM]
    if not numbers:
        return np.zeros(len(rows))
    terms, starts = index.text_terms(rows)
    return np.asarray(np.logical_or.reduceat(np.isin(terms, numbers), starts), dtype=np.float64)


def importance_scores(importance: Floats, scores: Floats) -> Floats:
    """Return what the *importance* of each row adds to its score: in proportion to it, and nothing at the default.

    So it decides between memories that are about as near to the question, and lifts none that is not about it.
    """
    return np.asarray((importance - DEFAULT_IMPORTANCE) * np.maximum(scores, 0.0))


def relevance_feedback(index: RetrievalIndex, rows: Rows, best: Rows, frequencies: TermFrequencies) -> Floats:
    """Return the share of the heaviest terms of the *best* turns, given best first, that each of *rows* has.

    A term weighs the sum of its idf divided by the rank of each best turn that has it.
    """
    terms_of_best = [sorted(set(index.text_terms(best[i : i + 1])[0].tolist()) - {NO_TERM}) for i in range(len(best))]
    distinct = sorted({term for terms in terms_of_best for term in terms})
    df = frequencies.df([index.vocabulary.term(number) for number in distinct])
    idf_of = {term: idf(frequencies.count, occurrences) for term, occurrences in zip(distinct, df, strict=True)}
    weights = dict.fromkeys(distinct, 0.0)
    for rank, terms in enumerate(terms_of_best, 1):
        for term in terms:
            weights[term] += idf_of[term] / rank
    heaviest = sorted(weights, key=lambda term: (-weights[term], index.vocabulary.term(term)))[:_FEEDBACK_TERMS]
    share = term_weights(index, rows, np.array(heaviest, dtype=np.int64), np.ones(len(heaviest)))
    return share / max(len(heaviest), 1)


def term_weights(index: RetrievalIndex, rows: Rows, terms: Rows, weights: Floats) -> Floats:
    """Return the sum of the *weights* of those of the distinct *terms* that the text of each of *rows* has."""
    positions = row_positions(terms, len(index.vocabulary))
    text_terms, starts = index.text_terms(rows)
    matches = np.flatnonzero(positions[text_terms] < len(terms))
    owners = np.searchsorted(starts, matches, side="right") - 1
    pairs = sorted_distinct(owners * len(terms) + positions[text_terms[matches]])
    total = np.zeros(len(rows))
    np.add.at(total, pairs // max(len(terms), 1), weights[pairs % max(len(terms), 1)])
    return total


def scale_to_maximum(values: Floats) -> Floats:
    """Return *values* divided by the largest, at least -1; all zero where none is above 0.

    The lower bound matters where all values are near 0: a value just below 0 would become large otherwise.
    """
    top = float(values.max(initial=0.0))
    return np.maximum(values / top, -1.0) if top > 0 else np.zeros(len(values))


@dataclass(frozen=True, slots=True)
class NeighbourWindow:
    """Turns and their neighbours: for each of *rows*, in *sides*, the row one before, one after, two before, two after.

    *answered* has for each row the question that it may answer. ``NO_ROW`` where its session has none.
    """

    rows: Rows
    sides: tuple[Rows, Rows, Rows, Rows]
    answered: Rows

    def distinct_rows(self) -> Rows:
        """Return all rows of the window, each once, in ascending order."""
        rows = sorted_distinct(np.concatenate([self.rows, *self.sides, self.answered]))
        return np.asarray(rows[rows != NO_ROW])

    def without(self, hidden: NDArray[np.bool_]) -> NeighbourWindow:
        """Return the window without neighbours that are *hidden* (one value per row of the index)."""
        first, second, third, fourth = (_without_hidden(side, hidden) for side in self.sides)
        return NeighbourWindow(self.rows, (first, second, third, fourth), _without_hidden(self.answered, hidden))

    def without_statements(self, states: NDArray[np.bool_], *, of: NDArray[np.bool_]) -> NeighbourWindow:
        """Return the window where the rows that *of* marks have no neighbours that state something.

        *states* has one value per row of the index, *of* one for each of *rows*.
        """
        first, second, third, fourth = (
            np.where(of & (side != NO_ROW) & states[side], NO_ROW, side) for side in self.sides
        )
        return NeighbourWindow(self.rows, (first, second, third, fourth), self.answered)


def neighbour_window(links: TurnLinks, rows: Rows) -> NeighbourWindow:
    """Return the neighbour window of *rows*."""
    before, after, answers = links.before.rows, links.after.rows, links.answers.rows
    one_before, one_after = _linked_rows(before, rows), _linked_rows(after, rows)
    sides = (one_before, one_after, _linked_rows(before, one_before), _linked_rows(after, one_after))
    return NeighbourWindow(rows, sides, _linked_rows(answers, rows))


def smooth_word_matches(
    match: NDArray[np.float32], window: NeighbourWindow, positions: Rows, shares: Sequence[float]
) -> NDArray[np.float32]:
    """Return for each row and word the best match of the row itself, of its neighbours, and of the answered question.

    Neighbours count by their *shares*, in the order of ``NeighbourWindow.sides``. *match* has one line for each row
    that *positions* points to, and a last one of zeros for ``NO_ROW``.
    """
    best = match[positions[window.rows]]
    for share, side in zip(shares, window.sides, strict=True):
        best = np.maximum(best, np.float32(share) * match[positions[side]])
    return np.asarray(np.maximum(best, match[positions[window.answered]]))


def smooth_scores(scores: Floats, window: NeighbourWindow, positions: Rows, shares: Sequence[float]) -> Floats:
    """Return each row's score plus the *shares* of its neighbours' scores; arguments as in ``smooth_word_matches``."""
    total = scores[positions[window.rows]]
    for share, side in zip(shares, window.sides, strict=True):
        total = total + share * scores[positions[side]]
    return np.asarray(total)


def row_positions(rows: Rows, size: int) -> Rows:
    """Return the position of each row number below *size* in *rows*; ``len(rows)`` for all others and ``NO_ROW``."""
    positions = np.full(size + 1, len(rows), dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    return positions


def _linked_rows(links: NDArray[np.int32], rows: Rows) -> Rows:
    return np.where(rows == NO_ROW, NO_ROW, links[rows]).astype(np.int64)


def _without_hidden(rows: Rows, hidden: NDArray[np.bool_]) -> Rows:
    return np.where((rows != NO_ROW) & ~hidden[rows], rows, NO_ROW)
