"""One namespace read for one question: its index in one state, the question as it is understood there, its candidates.

What ``recall`` asks of each place; it merges, packs and explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from memory.lanes import CONVERSATION, DOCUMENTS, store_namespace
from memory.recall.candidates import best_of_both, of_dates, with_neighbours
from memory.recall.conversation import score_conversation
from memory.recall.documents import score_documents
from memory.recall.following import Following
from memory.recall.index import Index
from memory.recall.lexicon import Lexicon
from memory.recall.places import Place
from memory.recall.query import Query
from memory.recall.question import Question, understood, without_names
from memory.recall.scored import Scored
from memory.recall.settings import RecallSettings
from memory.recall.standing import Standing, all_of
from memory.scopes import filter_of
from vectorstore import Filter, Vector, View


@dataclass(frozen=True, slots=True)
class Reading:
    """A question as one namespace reads it; *where* is everything that candidates must pass."""

    index: Index
    question: Question
    vector: Vector | None
    standing: Standing
    where: Filter | None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the namespaces of a store that *following* keeps indexes of."""

    following: Following
    settings: RecallSettings
    lexicon: Lexicon
    stem: Callable[[str], Sequence[str]]
    zone: tzinfo

    @contextmanager
    def reading(self, view: View, place: Place, query: Query) -> Iterator[Reading]:
        """Read the question with what is known in *place*."""
        conversation = place.lane != DOCUMENTS
        standing = Standing(query.now, query.as_of, query.known_at)
        today = (query.as_of or query.now).astimezone(self.zone).date()
        with self.following.index(view, place.name, conversation=conversation) as index:
            question = understood(
                query.asked, index, lexicon=self.lexicon, stem=self.stem, today=today, last=query.text
            )
            vector = self._vector(query, question.bare if conversation else query.asked)
            where = all_of([*standing.conditions(index), *asked_filters(query)])
            yield Reading(index, question, vector, standing, where)

    def scored(self, view: View, place: Place, query: Query) -> Scored:
        """Return the candidates of *place* with their signals."""
        with self.reading(view, place, query) as reading:
            index, question, vector, standing = reading.index, reading.question, reading.vector, reading.standing
            found = best_of_both(
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
            rows = np.union1d(rows, of_dates(index, question, self.candidates(place)))
            rows = with_neighbours(index, rows, standing=standing, passing=self.passing(view, place, query))
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

    def passing(self, view: View, place: Place, query: Query) -> Callable[[list[str]], NDArray[np.bool_]] | None:
        """Return what tells which ids pass the filters that were asked for; None where none were."""
        asked = asked_filters(query)
        if not asked:
            return None
        return lambda ids: view.passing(ids, where=all_of(asked), namespace=place.name)

    def candidates(self, place: Place) -> int:
        """Return how many a channel are scored."""
        return self.settings.document_candidates if place.lane == DOCUMENTS else self.settings.candidates

    def bare(self, text: str, namespace: str) -> str:
        """Return *text* without the names of those who take part in the conversation of a user's *namespace*."""
        name = store_namespace(namespace, CONVERSATION)
        with self.following.store.view([name]) as view, self.following.index(view, name, conversation=True) as index:
            return without_names(text, index, lexicon=self.lexicon, stem=self.stem)[0]

    def _vector(self, query: Query, wording: str) -> Vector | None:
        if self.following.store.space is None:
            return None
        return query.vectors.get(wording, query.vectors.get(query.asked))  # names may have changed since wordings()


def asked_filters(query: Query) -> list[Filter]:
    """Return what the caller asked candidates to pass."""
    asked = filter_of(None, query.tags, query.where)
    return [asked] if asked else []
