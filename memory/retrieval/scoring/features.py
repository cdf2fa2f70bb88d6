"""The analyzed question, and features of a conversation turn beyond its words.

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
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.dates import DateReference, date_match
from tellback.vectorstore import Filter, Vector, View
from tellback.vectorstore.internals import idf_array, sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_COMPARED_LONG_TEXTS = 20
"""Likeliest long texts whose passages are compared with the question: each reads its text from the file."""
_IMPORTANCE = 0.2
"""Share of a memory's score that lies between the importance 0 and 1; 0.5 leaves the score as it is."""


@dataclass(frozen=True, slots=True)
class AnalyzedQuestion:
    """A question as it is analyzed in one namespace.

    *terms* are those of *text_without_names*, where the names of *participants* are left out, and *forms* the words as
    they were written; *all_terms* are those of *text*. *only_when*: it names a date and nothing else that a memory
    could be about. *proper_terms* are those of *terms* that are written as names. *excluded*: terms of
    what the question sets aside. *asks_digits*: it asks for a number as that of a telephone.
    *asked* is the end of it that asks, where the rest is what it refers to.
    """

    text: str
    text_without_names: str
    terms: tuple[str, ...]
    forms: tuple[str, ...]
    all_terms: tuple[str, ...]
    participants: tuple[int, ...]
    dates: tuple[DateReference, ...]
    asks_time: bool
    asks_several: bool
    only_when: bool = False
    proper_terms: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    asks_digits: bool = False
    asked: str = ""

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
    is everything that candidates must pass. *passages* gives the passages of a long text with their cosines.
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
    passages: Callable[[str, Vector], Sequence[tuple[str, float]]] = lambda text, question: ()
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

        It counts from the base of the profile. A long text has that of its nearest passage, where it is nearer.
        """
        vector = self.vector
        if vector is None:
            return None

        def compute(missing: Rows) -> Floats:
            cosines = self.view.similarity(vector, self.ids(missing), namespace=self.namespace)
            long = np.flatnonzero(has_text_feature(self.index, missing, TextFeature.LONG))
            likely = long[np.argsort(-np.nan_to_num(cosines[long]), kind="stable")[:_COMPARED_LONG_TEXTS]]
            entries = self.view.get(self.ids(missing[likely]), namespace=self.namespace) if len(likely) else []
            for place, entry in zip(likely.tolist(), entries, strict=True):
                nearest = (
                    max((cosine for _, cosine in self.passages(entry.text, vector)), default=-1.0) if entry else -1.0
                )
                cosines[place] = max(cosines[place], nearest)
            return self.profile.rescaled(cosines)

        return self._cosines.of(rows, compute)


def speaker_match(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """Return 1 where the question names the speaker, else 0; 0 everywhere in a namespace of a single speaker."""
    if not question.participants or len(index.participants.present()) < 2:
        return np.zeros(len(rows))
    return np.isin(index.columns["speaker"][rows], question.participants).astype(np.float64)


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
    return np.asarray(_IMPORTANCE * (importance - DEFAULT_IMPORTANCE) * np.maximum(scores, 0.0))


def scale_to_maximum(values: Floats) -> Floats:
    """Return *values* divided by the largest, at least -1; all zero where none is above 0.

    The lower bound matters where all values are near 0: a value just below 0 would become large otherwise.
    """
    top = float(values.max(initial=0.0))
    return np.maximum(values / top, -1.0) if top > 0 else np.zeros(len(values))
