"""Recall: a question in, the memories about it out, each with its score and the reason.

Synchronous, one store view a call; made to be run in a worker thread by ``LongTermMemory``, which embeds the
question first: ask ``wordings``, embed what it names, then ``recall``. Not embedding, and not writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import WordVectors
from memory.lanes import CONVERSATION, DOCUMENTS, store_namespace
from memory.recall.candidates import best_of_both, with_neighbours
from memory.recall.confidence import judged
from memory.recall.conversation import score_conversation
from memory.recall.documents import score_documents
from memory.recall.following import Following
from memory.recall.lexicon import lexicon_for
from memory.recall.packing import pack
from memory.recall.places import Place, places_of
from memory.recall.plain import NOTE, PlainFound, search_plainly
from memory.recall.query import Query
from memory.recall.question import understood, without_names
from memory.recall.scored import Ranked, Scored, merged
from memory.recall.settings import RecallSettings
from memory.recall.standing import Standing, all_of
from memory.records import Found
from vectorstore import Entry, Filter, LifecycleStore, Vector, VectorStore, View

__all__ = ["Query", "RecallSettings", "Recaller"]

_DEFAULTS = RecallSettings()
_SPARE = 20


class Recaller:
    """Finds memories in *store*; any thread may call. What it derives from the store is kept and follows
    changes.

    *word_vectors* soften the word match (None: words match themselves). *zone* is that of dates in
    questions and of days (None: UTC).
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        word_vectors: WordVectors | None = None,
        zone: tzinfo | None = None,
        settings: RecallSettings = _DEFAULTS,
        language: str = "english",
    ) -> None:
        self._store = store
        self._settings = settings
        self._zone = zone if zone is not None else UTC
        self._lexicon = lexicon_for(language)
        self._following: Following | None = None
        analyser = getattr(store, "analyser", None)
        if isinstance(store, LifecycleStore) and analyser is not None:
            self._stem = analyser.terms
            self._following = Following(
                store, analyser=analyser, lexicon=self._lexicon, zone=self._zone, word_vectors=word_vectors
            )

    def wordings(
        self,
        text: str,
        *,
        namespaces: Sequence[str] = ("",),
        lanes: Sequence[str] = (CONVERSATION, DOCUMENTS),
    ) -> tuple[str, ...]:
        """Return the wordings of the question to embed: itself for documents, without participants' names for
        conversations.

        Usually one or two; embed them as queries, in one call, and hand them over as ``Query.vectors``
        (``dict(zip(wordings, vectors))``; leave out those whose vector is a row of zeros).
        """
        if self._following is None or set(lanes) == {DOCUMENTS}:
            return (text,)
        wordings = [text] if DOCUMENTS in lanes else []
        wordings += [self._bare(text, namespace) for namespace in namespaces]
        return tuple(dict.fromkeys(wordings))

    def bare(self, text: str, namespaces: Sequence[str] = ("",)) -> str:
        """Return *text* without the names of those who take part in the conversations of *namespaces*."""
        for namespace in namespaces if self._following is not None else ():
            text = self._bare(text, namespace)
        return text

    def recall(self, query: Query) -> Found:
        """Find what is remembered about ``query.text``, best first; ties by id.

        Filtered first: namespace, what stands (enabled, valid, not expired), *where*, every one of *tags*.
        """
        places = places_of(self._store, query)
        if self._following is None:
            return self._plainly(query, places)
        following = self._following
        names = [place.name for place in places]
        with following.store.view(names) as view:
            sources = [self._scored(following, view, place, query).graded() for place in places]

            def fetch(page: Sequence[Ranked]) -> list[Entry | None]:
                return _fetched(view, page)

            ranked = merged(sources, self._depth(query))
            hits, left_out = pack(
                ranked,
                k=query.k,
                fetch=fetch,
                token_budget=query.token_budget,
                counter=query.counter,
                explain=query.explain,
            )
        best = ranked[0].source if ranked else None
        confidence, abstain = judged(sources, best, self._settings.doubt, vectors=bool(query.vectors))
        return Found(hits, confidence, abstain, left_out)

    def _scored(self, following: Following, view: View, place: Place, query: Query) -> Scored:
        conversation = place.lane != DOCUMENTS
        standing = Standing(query.now, query.as_of, query.known_at)
        today = (query.as_of or query.now).astimezone(self._zone).date()
        with following.index(view, place.name, conversation=conversation) as index:
            question = understood(query.text, index, lexicon=self._lexicon, stem=self._stem, today=today)
            vector = self._vector(query, question.bare if conversation else query.text)
            asked = _asked(query)
            where = all_of([*standing.conditions(index), *asked])
            count = self._settings.candidates if conversation else self._settings.document_candidates
            found = best_of_both(view, place.name, text=query.text, vector=vector, count=count, where=where)
            rows = index.rows(found)
            if not conversation:
                return score_documents(
                    view, place.name, index, rows, question, vector, weights=self._settings.documents
                )

            def passing(ids: list[str]) -> NDArray[np.bool_]:
                return view.passing(ids, where=all_of(asked), namespace=place.name)

            rows = with_neighbours(index, rows, standing=standing, passing=passing if asked else None)
            return score_conversation(
                view,
                place.name,
                index,
                rows,
                question,
                vector,
                lane=place.lane,
                standing=standing,
                weights=self._settings.conversation,
            )

    def _plainly(self, query: Query, places: Sequence[Place]) -> Found:
        standing = Standing(query.now, query.as_of, query.known_at)
        where = all_of([*standing.every_condition(), *_asked(query)])
        found: dict[str, PlainFound] = {
            place.name: search_plainly(
                self._store, place.name, place.lane, query, where=where, candidates=self._settings.candidates
            )
            for place in places
        }
        sources = [one.scored.graded() for one in found.values()]
        ranked = merged(sources, self._depth(query))

        def fetch(page: Sequence[Ranked]) -> list[Entry | None]:
            return [found[one.source.namespace].entries[one.id] for one in page]

        hits, left_out = pack(
            ranked,
            k=query.k,
            fetch=fetch,
            token_budget=query.token_budget,
            counter=query.counter,
            explain=query.explain,
        )
        best = ranked[0].source if ranked else None
        confidence, abstain = judged(sources, best, self._settings.doubt, vectors=bool(query.vectors))
        return Found(hits, confidence, abstain, left_out, (NOTE,))

    def _bare(self, text: str, namespace: str) -> str:
        assert self._following is not None
        name = store_namespace(namespace, CONVERSATION)
        with (
            self._following.store.view([name]) as view,
            self._following.index(view, name, conversation=True) as index,
        ):
            return without_names(text, index, lexicon=self._lexicon, stem=self._stem)[0]

    def _vector(self, query: Query, wording: str) -> Vector | None:
        if self._store.space is None:
            return None
        return query.vectors.get(wording, query.vectors.get(query.text))  # names may have changed since wordings()

    def _depth(self, query: Query) -> int:
        """How many are ranked for *k* hits: some may be folded or not fit a budget."""
        return query.k * (4 if query.token_budget is None else 10) + _SPARE


def _asked(query: Query) -> list[Filter]:
    tags: list[Filter] = [{"tags": {"$contains": tag}} for tag in query.tags]
    return [*([query.where] if query.where else []), *tags]


def _fetched(view: View, page: Sequence[Ranked]) -> list[Entry | None]:
    found: dict[tuple[str, str], Entry | None] = {}
    for namespace in dict.fromkeys(one.source.namespace for one in page):
        ids = [one.id for one in page if one.source.namespace == namespace]
        entries = view.get(ids, namespace=namespace)
        found.update({(namespace, key): entry for key, entry in zip(ids, entries, strict=True)})
    return [found[one.source.namespace, one.id] for one in page]
