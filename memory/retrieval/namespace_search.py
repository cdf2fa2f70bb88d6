"""Search in one store namespace: its index in one state, the question analyzed with it, its scored candidates.

The targets of a query are the partitions and collections of its user namespaces. The retriever merges, packs and
explains their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, prefix_of, store_namespace
from memory.retrieval.candidates import add_neighbours, date_candidates, text_and_vector_candidates
from memory.retrieval.index.index_sync import IndexSynchronizer
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.validity import ValidityFilter, combine_filters
from memory.retrieval.languages.base import Lexicon
from memory.retrieval.query import Query
from memory.retrieval.query_analysis import analyze_question, remove_names
from memory.retrieval.scoring.conversation_scorer import score_conversation
from memory.retrieval.scoring.document_scorer import score_documents
from memory.retrieval.scoring.question import AnalyzedQuestion
from memory.retrieval.scoring.scores import ScoredCandidates
from memory.retrieval.scoring.settings import RecallSettings
from memory.scopes import scope_filter
from memory.timestamps import to_zone
from vectorstore import Filter, Vector, VectorStore, View


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """A store namespace and the lane it is."""

    name: str
    lane: str


def search_targets(store: VectorStore, query: Query) -> list[SearchTarget]:
    """Return where to look, each once; the archive too where another time than now is asked for."""
    lanes = dict.fromkeys(query.lanes)
    if CONVERSATION in lanes and (query.as_of is not None or query.known_at is not None):
        lanes[ARCHIVE] = None
    places: dict[SearchTarget, None] = {}
    every = store.namespaces() if DOCUMENTS in lanes and query.collections is None else []
    for namespace in dict.fromkeys(query.namespaces):
        for lane in lanes:
            if lane != DOCUMENTS:
                places[SearchTarget(store_namespace(namespace, lane), lane)] = None
            elif query.collections is None:
                start = prefix_of(namespace) + DOCUMENTS + "/"
                places.update({SearchTarget(name, lane): None for name in every if name.startswith(start)})
            else:
                names = (store_namespace(namespace, lane, collection) for collection in query.collections)
                places.update({SearchTarget(name, lane): None for name in names})
    return list(places)


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """A question as one namespace reads it; *where* is everything that candidates must pass."""

    index: RetrievalIndex
    question: AnalyzedQuestion
    vector: Vector | None
    standing: ValidityFilter
    where: Filter | None


@dataclass(frozen=True, slots=True)
class NamespaceSearcher:
    """Reads the namespaces of a store that *following* keeps indexes of."""

    following: IndexSynchronizer
    settings: RecallSettings
    lexicon: Lexicon
    stem: Callable[[str], Sequence[str]]
    zone: tzinfo

    @contextmanager
    def reading(self, view: View, place: SearchTarget, query: Query) -> Iterator[NamespaceQuery]:
        """Read the question with what is known in *place*."""
        conversation = place.lane != DOCUMENTS
        standing = ValidityFilter(query.now, query.as_of, query.known_at)
        today = to_zone(query.as_of or query.now, self.zone).date()
        with self.following.index(view, place.name, conversation=conversation) as index:
            question = analyze_question(
                query.asked, index, lexicon=self.lexicon, stem=self.stem, today=today, last=query.text
            )
            vector = self._vector(query, question.bare if conversation else query.asked)
            where = combine_filters([*standing.conditions(index), *requested_filters(query)])
            yield NamespaceQuery(index, question, vector, standing, where)

    def scored(self, view: View, place: SearchTarget, query: Query) -> ScoredCandidates:
        """Return the candidates of *place* with their signals."""
        with self.reading(view, place, query) as reading:
            index, question, vector, standing = reading.index, reading.question, reading.vector, reading.standing
            found = text_and_vector_candidates(
                view,
                place.name,
                text=query.asked,
                vector=vector,
                count=self.candidates(place),
                where=reading.where,
            )
            rows = index.rows(found)
            doubt = self.settings.doubt
            if place.lane == DOCUMENTS:
                weights = self.settings.documents
                return score_documents(view, place.name, index, rows, question, vector, weights=weights, doubt=doubt)
            rows = np.union1d(rows, date_candidates(index, question, self.candidates(place)))
            rows = add_neighbours(index, rows, standing=standing, passing=self.passing(view, place, query))
            return score_conversation(
                view,
                place.name,
                index,
                rows,
                question,
                vector,
                lane=place.lane,
                standing=standing,
                weights=self.settings.conversation,
                doubt=doubt,
            )

    def passing(self, view: View, place: SearchTarget, query: Query) -> Callable[[list[str]], NDArray[np.bool_]] | None:
        """Return what tells which ids pass the filters that were asked for; None where none were."""
        asked = requested_filters(query)
        if not asked:
            return None
        return lambda ids: view.passing(ids, where=combine_filters(asked), namespace=place.name)

    def candidates(self, place: SearchTarget) -> int:
        """Return how many a channel are scored."""
        return self.settings.document_candidates if place.lane == DOCUMENTS else self.settings.candidates

    def bare(self, text: str, namespace: str) -> str:
        """Return *text* without the names of those who take part in the conversation of a user's *namespace*."""
        name = store_namespace(namespace, CONVERSATION)
        with self.following.store.view([name]) as view, self.following.index(view, name, conversation=True) as index:
            return remove_names(text, index, lexicon=self.lexicon, stem=self.stem)[0]

    def _vector(self, query: Query, wording: str) -> Vector | None:
        if self.following.store.space is None:
            return None
        return query.vectors.get(wording, query.vectors.get(query.asked))  # names may have changed since wordings()


def requested_filters(query: Query) -> list[Filter]:
    """Return what the caller asked candidates to pass."""
    asked = scope_filter(None, query.tags, query.where)
    return [asked] if asked else []
