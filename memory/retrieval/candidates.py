"""Candidates of one store namespace: the best by BM25, by vector and by date, and answers to those that ask, scored.

A query searches several store namespaces (``search_targets``): the partitions and collections of its namespaces. Each
is searched by itself, with its own index and statistics; the retriever merges, packs and explains the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date, tzinfo

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.profile import UNKNOWN_PROFILE, EmbedderProfile
from tellback.memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, prefix_of, store_namespace
from tellback.memory.retrieval.index.index_sync import IndexSynchronizer
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.validity import combine_filters
from tellback.memory.retrieval.languages.agent_nouns import agent_nouns
from tellback.memory.retrieval.languages.lexicon import Lexicon
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.query_analysis import analyze_question, remove_names
from tellback.memory.retrieval.scoring.conversation_scorer import score_conversation
from tellback.memory.retrieval.scoring.document_scorer import score_documents
from tellback.memory.retrieval.scoring.features import (
    AnalyzedQuestion,
    NamespaceQuery,
    TermFrequencies,
    date_fit,
)
from tellback.memory.retrieval.scoring.scores import ScoredCandidates
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.memory.timestamps import to_zone
from tellback.vectorstore import Filter, Vector, VectorStore, View
from tellback.vectorstore.internals import sorted_distinct

Rows = NDArray[np.int64]
_MIN_DATE_FIT = 0.7
"""A date that fits less well names no candidate by itself: every memory of that year would be one."""


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """A store namespace (*name*) and the *partition* that it belongs to."""

    name: str
    partition: str


def search_targets(store: VectorStore, query: Query) -> list[SearchTarget]:
    """Return the store namespaces to search, each once; the archive too for a query about another time than now."""
    partitions = dict.fromkeys(query.partitions)
    if CONVERSATION in partitions and query.validity.past:
        partitions[ARCHIVE] = None
    targets: dict[SearchTarget, None] = {}
    for namespace in dict.fromkeys(query.namespaces):
        for partition in partitions:
            if partition != DOCUMENTS:
                targets[SearchTarget(store_namespace(namespace, partition), partition)] = None
            elif query.collections is None:
                prefix = prefix_of(namespace) + DOCUMENTS + "/"
                targets.update({SearchTarget(name, partition): None for name in store.namespaces(prefix=prefix)})
            else:
                for collection in query.collections:
                    targets[SearchTarget(store_namespace(namespace, partition, collection), partition)] = None
    return list(targets)


def caller_filters(query: Query) -> list[Filter]:
    """Return the filters that the caller asked for: none, or one."""
    return [query.where] if query.where else []


@dataclass(frozen=True, slots=True)
class NamespaceSearcher:
    """Finds and scores candidates in the store namespaces of which *indexes* keeps retrieval indexes.

    *terms* is the analyzer's split of a text into terms; *zone* is that of the days of a question; *profiles* gives the
    profile of the embedder of a space by its name, *passages* those of a long text with their cosines to a question.
    """

    indexes: IndexSynchronizer
    settings: RecallSettings
    lexicon: Lexicon
    terms: Callable[[str], Sequence[str]]
    zone: tzinfo
    profiles: Callable[[str], EmbedderProfile]
    passages: Callable[[str, Vector], Sequence[tuple[str, float]]]

    @contextmanager
    def analyze(self, view: View, target: SearchTarget, query: Query) -> Iterator[NamespaceQuery]:
        """Yield *query* as analyzed with the index of *target*, which is locked until the block ends.

        Where the namespace is too large for the memory of the process, it is an index of the candidates alone.
        """
        conversation = target.partition != DOCUMENTS
        validity = query.validity
        is_whole = view.in_memory(namespace=target.name)
        indexes = self.indexes.index(view, target.name, conversation=conversation) if is_whole else None
        with indexes or nullcontext(self._index_of_candidates(view, target, query)) as index:

            def df(terms: Sequence[str]) -> list[int]:
                return view.df(terms, namespace=target.name)

            question = analyze_question(
                query.search_text if conversation else self._with_agent_nouns(query.search_text, df),
                index,
                lexicon=self.lexicon,
                terms=self.terms,
                today=self.today(query),
                last_question=query.text,
                excluded=query.excluded,
            )
            vector = self._vector(query, target, question.text_without_names if conversation else query.search_text)
            times = validity.conditions(index) if is_whole else validity.all_conditions()
            where = combine_filters([*times, *caller_filters(query)])
            frequencies = TermFrequencies(df, view.count(namespace=target.name))
            yield NamespaceQuery(
                view,
                target.name,
                target.partition,
                index,
                question,
                vector,
                self._profile(),
                validity,
                where,
                frequencies,
                self.passages,
            )

    def score(self, view: View, target: SearchTarget, query: Query) -> ScoredCandidates:
        """Return the scored candidates of *target*."""
        abstention = self.settings.abstention
        with self.analyze(view, target, query) as analyzed:
            index, where = analyzed.index, analyzed.where
            count = self.candidate_count(target)
            if view.in_memory(namespace=target.name):
                candidates = view.matching(analyzed.question.text, count, where=where, namespace=target.name)
                if analyzed.vector is not None:
                    nearest = view.nearest(analyzed.vector, count, where=where, namespace=target.name)
                    candidates = [*candidates, *nearest]
                rows = index.rows(list(dict(candidates)))
            else:
                rows = np.arange(len(index.ids), dtype=np.int64)  # the index is of the candidates
            if target.partition == DOCUMENTS:
                return score_documents(analyzed, rows, weights=self.settings.passages, abstention=abstention)
            question = analyzed.question
            is_found = np.zeros(len(index.ids) + 1, dtype=np.bool_)  # NO_ROW is the place behind the last
            is_found[rows] = True
            answers = np.flatnonzero(is_found[index.links.answers.rows])
            rows = sorted_distinct(np.concatenate([rows, answers, date_candidates(index, question, count)]))
            rows = self._admitted(analyzed, rows, query)
            silent = np.zeros(len(rows), dtype=np.bool_) if query.all_utterances else index.hidden_utterances(rows)
            return score_conversation(
                analyzed,
                rows[~silent],
                silent=rows[silent],
                settings=self.settings,
            )

    def candidate_count(self, target: SearchTarget) -> int:
        """Return how many candidates each search (text, vector, date) names."""
        return self.settings.document_candidates if target.partition == DOCUMENTS else self.settings.candidates

    def text_to_embed(self, text: str, namespace: str) -> str:
        """Return *text* as the conversations of the user's *namespace* are searched for it: without participants."""
        name = store_namespace(namespace, CONVERSATION)
        with self.indexes.store.view([name]) as view:
            if not view.in_memory(namespace=name):
                return text
            with self.indexes.index(view, name, conversation=True) as index:
                return remove_names(text, index, lexicon=self.lexicon, terms=self.terms).text_without_names

    def today(self, query: Query) -> date:
        """Return the day from which the relative dates of *query* count."""
        return to_zone(query.as_of or query.now, self.zone).date()

    def _index_of_candidates(self, view: View, target: SearchTarget, query: Query) -> RetrievalIndex:
        """Return an index of what is nearest to *query* by its words, and by its vector where it has one."""
        count = self.candidate_count(target)
        where = combine_filters([*query.validity.all_conditions(), *caller_filters(query)])
        found = view.matching(query.search_text, count, where=where, namespace=target.name)
        if (vector := self._vector(query, target, query.search_text)) is not None:
            found = [*found, *view.nearest(vector, count, where=where, namespace=target.name)]
        ids = list(dict.fromkeys(id for id, _ in found))
        return self.indexes.index_of(view, target.name, ids, conversation=target.partition != DOCUMENTS)

    def _admitted(self, analyzed: NamespaceQuery, rows: Rows, query: Query) -> Rows:
        """Return those of *rows* that hold at the times of the query and pass the caller's filters."""
        rows = rows[~analyzed.validity.hidden(analyzed.index, rows)]
        filters = caller_filters(query)
        if not filters or not len(rows):
            return rows
        where = combine_filters(filters)
        return rows[analyzed.view.passing(analyzed.ids(rows), where=where, namespace=analyzed.namespace)]

    def _with_agent_nouns(self, text: str, df: Callable[[Sequence[str]], Sequence[int]]) -> str:
        """Return *text* with the agent nouns behind its verbs that the documents have, more seldom than the verb.

        Documents tell who founded a project as its founder; the user of what was used is anybody.
        """
        for noun, verb in agent_nouns(text).items():
            counts = df([*self.terms(noun), *self.terms(verb)])
            if len(counts) == 2 and 0 < counts[0] < counts[1]:
                text = text.replace(verb, f"{verb} {noun}", 1)
        return text

    def _profile(self) -> EmbedderProfile:
        space = self.indexes.store.space
        return UNKNOWN_PROFILE if space is None else self.profiles(space.fingerprint)

    def _vector(self, query: Query, target: SearchTarget, text: str) -> Vector | None:
        if self.indexes.store.space is None:
            return None
        # The names of participants may have changed since texts_to_embed().
        vectors = query.vectors_of(target.partition)
        return vectors.get(text, vectors.get(query.search_text))


def date_candidates(index: RetrievalIndex, question: AnalyzedQuestion, count: int) -> Rows:
    """Return the *count* rows that best fit a date of *question*, the latest first among equals.

    Rows that hardly fit are left out; without dates in the question there are none.
    """
    if not question.dates:
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(index.alive.rows)
    fit = date_fit(index, rows, question)
    rows, fit = rows[fit >= _MIN_DATE_FIT], fit[fit >= _MIN_DATE_FIT]
    latest_first = np.lexsort((-index.columns["day"][rows], -fit))[:count]
    return np.asarray(rows[latest_first], dtype=np.int64)
