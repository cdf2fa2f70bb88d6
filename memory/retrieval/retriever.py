"""The retriever: a question in, the memories about it out, each with its score and its reasons.

Synchronous, with one store view per call; ``LongTermMemory`` embeds the question first and calls it in a worker
thread: ask ``wordings``, embed what it returns, then call ``recall``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

import numpy as np

from memory.embedders.protocol import WordVectors
from memory.models import Memory
from memory.partitions import CONVERSATION, DOCUMENTS, parse_store_namespace
from memory.results import RecallResult, RecallStage, WhyNot
from memory.retrieval.context_expansion import NO_NEIGHBOURS_NOTE, expand_context
from memory.retrieval.explain import (
    channel_ranks,
    explain_invalid,
    explain_ranked,
    explain_unranked,
    explain_unsearched,
    find_memory,
    term_matches,
)
from memory.retrieval.fallback import FALLBACK_NOTE, fallback_search
from memory.retrieval.index.index_cache import IndexCache
from memory.retrieval.index.index_sync import IndexSynchronizer
from memory.retrieval.index.record_batch import RecordExtractor
from memory.retrieval.index.validity import ValidityFilter, combine_filters
from memory.retrieval.languages import lexicon_for
from memory.retrieval.namespace_search import NamespaceSearcher, SearchTarget, requested_filters, search_targets
from memory.retrieval.query import Query
from memory.retrieval.query_analysis import follow_up_context
from memory.retrieval.scoring.confidence import assess_confidence
from memory.retrieval.scoring.scores import RankedCandidate, ScoredCandidates, fuse_scores, merge_ranked
from memory.retrieval.scoring.settings import RecallSettings
from memory.retrieval.scoring.soft_matching import weigh_terms
from memory.retrieval.token_budget import pack_candidates
from vectorstore import Analyzer, Entry, UnsupportedError, VectorStore, View, lifecycle_of

__all__ = ["Query", "RecallSettings", "Retriever"]

_DEFAULT_SETTINGS = RecallSettings()
_EXTRA_CANDIDATES = 20


class Retriever:
    """Finds memories in *store*; any thread may call. What it derives from the store is kept and follows
    changes; *segments* keep it for the next process, too.

    *word_vectors* soften the word match (None: words match themselves). *zone* is that of dates in
    questions and of days (None: UTC). The cues are those of the language of the store's analyzer.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        word_vectors: WordVectors | None = None,
        zone: tzinfo | None = None,
        settings: RecallSettings = _DEFAULT_SETTINGS,
        segments: IndexCache | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._zone = zone if zone is not None else UTC
        self._reader: NamespaceSearcher | None = None
        lasting = lifecycle_of(store)
        analyzer = Analyzer() if lasting is None else lasting.analyzer
        self._stem = analyzer.terms
        self._lexicon = lexicon_for(analyzer.language)
        if lasting is not None:
            deriver = RecordExtractor(analyzer=analyzer, lexicon=self._lexicon, zone=self._zone)
            following = IndexSynchronizer(lasting, deriver, word_vectors=word_vectors, segments=segments)
            self._reader = NamespaceSearcher(following, settings, self._lexicon, self._stem, self._zone)

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
        if self._reader is None or set(lanes) == {DOCUMENTS}:
            return (text,)
        wordings = [text] if DOCUMENTS in lanes else []
        wordings += [self._reader.bare(text, namespace) for namespace in namespaces]
        return tuple(dict.fromkeys(wordings))

    def leant_on(self, text: str, context: Sequence[str]) -> tuple[str, ...]:
        """Return the turns of *context* that the question *text* leans on; none where it stands by itself."""
        return follow_up_context(text, context, self._lexicon, self._stem)

    def bare(self, text: str, namespaces: Sequence[str] = ("",)) -> str:
        """Return *text* without the names of those who take part in the conversations of *namespaces*."""
        if self._reader is None:
            return text
        for namespace in namespaces:
            text = self._reader.bare(text, namespace)
        return text

    def recall(self, query: Query) -> RecallResult:
        """Find what is remembered about ``query.text``, best first; ties by id.

        Filtered first: namespace, what stands (enabled, valid, not expired), *where*, any of *tags*.
        """
        places = search_targets(self._store, query)
        if self._reader is None:
            return self._plainly(query, places)
        with self._reader.following.store.view([place.name for place in places]) as view:
            sources = self._sources(self._reader, view, places, query)
            found = self._packed(view, sources, merge_ranked(sources, self._depth(query)), query)
            found = replace(found, searched=sum(view.count(namespace=place.name) for place in places))
            if query.explain:
                found = self._with_words(self._reader, view, places, query, found)
        self._reader.following.keep(place.name for place in places)
        return found

    def widened(self, query: Query, found: RecallResult) -> RecallResult:
        """Return *found*, the answer to *query*, with what stands around its hits as ``query.around`` asks."""
        if self._reader is None:
            return replace(found, notes=(*found.notes, NO_NEIGHBOURS_NOTE))
        places = search_targets(self._store, query)
        with self._reader.following.store.view([place.name for place in places]) as view:
            return expand_context(self._reader, view, places, query, found)

    def why_not(self, query: Query, id: str) -> WhyNot:
        """Say which stage stopped the memory *id* on its way into the answer of ``recall(query)``, or its place there.

        On a store that has data alone this raises ``UnsupportedError``.
        """
        if self._reader is None:
            raise UnsupportedError("why_not", "this store finds by plain search alone, without stages to explain")
        places = search_targets(self._store, query)
        with self._reader.following.store.view([place.name for place in places]) as view:
            held = find_memory(view, places, id)
            if held is not None:
                return self._explained(self._reader, view, places, query, *held)
        return explain_unsearched(self._store, query, id)

    def _explained(
        self,
        reader: NamespaceSearcher,
        view: View,
        places: Sequence[SearchTarget],
        query: Query,
        place: SearchTarget,
        memory: Memory,
    ) -> WhyNot:
        with reader.reading(view, place, query) as reading:
            row = reading.index.row(memory.id)
            if reading.standing.hidden(reading.index, np.array([row]))[0]:
                return explain_invalid(memory, query)
            if not view.passing([memory.id], where=combine_filters(requested_filters(query)), namespace=place.name)[0]:
                return WhyNot(memory.id, RecallStage.FILTER, "the filter or the tags asked for leave it out")
            count = view.count(namespace=place.name)
            by_words = view.matching(query.asked, count, where=reading.where, namespace=place.name)
            by_vector = None
            if reading.vector is not None:
                by_vector = view.nearest(reading.vector, count, where=reading.where, namespace=place.name)
            channels = channel_ranks(memory.id, by_words, by_vector)
        sources = self._sources(reader, view, places, query)
        ranked = merge_ranked(sources, sum(len(source.ids) for source in sources))
        at = next(
            (at for at, one in enumerate(ranked) if (one.id, one.source.namespace) == (memory.id, place.name)), -1
        )
        if at < 0:
            return explain_unranked(memory, channels, reader.candidates(place))
        found = self._packed(view, sources, ranked[: self._depth(query)], query)
        return explain_ranked(found, ranked, at, channels, k=query.k)

    def _with_words(
        self, reader: NamespaceSearcher, view: View, places: Sequence[SearchTarget], query: Query, found: RecallResult
    ) -> RecallResult:
        """Return *found* with the words by which each hit was found."""
        hits = list(found.hits)
        for place in places:
            held = [
                at for at, hit in enumerate(hits) if (hit.namespace, hit.lane) == parse_store_namespace(place.name)[:2]
            ]
            if not held:
                continue
            with reader.reading(view, place, query) as reading:

                def df(terms: Sequence[str], name: str = place.name) -> list[int]:
                    return view.df(terms, namespace=name)

                words = weigh_terms(reading.question, reading.index, df, view.count(namespace=place.name))
                window = () if place.lane == DOCUMENTS else self._settings.conversation.word_window
                for at in held:
                    row = reading.index.row(hits[at].memory.id)
                    if row >= 0:  # else it is of another collection
                        matched = term_matches(reading.question, words, row, reading.index, window=window)
                        hits[at] = replace(hits[at], matched=matched)
        return replace(found, hits=tuple(hits))

    def _sources(
        self, reader: NamespaceSearcher, view: View, places: Sequence[SearchTarget], query: Query
    ) -> list[ScoredCandidates]:
        """Return the graded candidates of each place; with several wordings, fused."""
        return [
            fuse_scores(
                [
                    (reader.scored(view, place, asked).graded(), weight, sure)
                    for asked, weight, sure in _query_variants(query)
                ]
            )
            for place in places
        ]

    def _packed(
        self, view: View, sources: Sequence[ScoredCandidates], ranked: Sequence[RankedCandidate], query: Query
    ) -> RecallResult:
        def fetch(page: Sequence[RankedCandidate]) -> list[Entry | None]:
            return _fetch_entries(view, page)

        return self._found(sources, ranked, query, fetch)

    def _found(
        self,
        sources: Sequence[ScoredCandidates],
        ranked: Sequence[RankedCandidate],
        query: Query,
        fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]],
        *notes: str,
    ) -> RecallResult:
        hits, left_out = pack_candidates(
            ranked,
            k=query.k,
            fetch=fetch,
            token_budget=query.token_budget,
            counter=query.counter,
            explain=query.explain,
        )
        best = ranked[0].source if ranked else None
        confidence, abstain = assess_confidence(sources, best, lead=self._settings.doubt.lead)
        return RecallResult(hits, confidence, abstain, left_out, notes)

    def _plainly(self, query: Query, places: Sequence[SearchTarget]) -> RecallResult:
        standing = ValidityFilter(query.now, query.as_of, query.known_at)
        where = combine_filters([*standing.every_condition(), *requested_filters(query)])
        entries: dict[tuple[str, str], Entry] = {}

        def graded(place: SearchTarget, asked: Query) -> ScoredCandidates:
            found = fallback_search(
                self._store,
                place.name,
                place.lane,
                asked,
                where=where,
                candidates=self._settings.candidates,
                terms=self._stem,
                doubt=self._settings.doubt,
            )
            entries.update(((place.name, id), entry) for id, entry in found.entries.items())
            return found.scored.graded()

        wordings = _query_variants(query)
        sources = [
            fuse_scores([(graded(place, asked), weight, sure) for asked, weight, sure in wordings]) for place in places
        ]
        ranked = merge_ranked(sources, self._depth(query))

        def fetch(page: Sequence[RankedCandidate]) -> list[Entry | None]:
            return [entries[one.source.namespace, one.id] for one in page]

        found = self._found(sources, ranked, query, fetch, FALLBACK_NOTE)
        return replace(found, searched=sum(self._store.count(namespace=place.name) for place in places))

    def _depth(self, query: Query) -> int:
        """How many are ranked for *k* hits: some may be folded or not fit a budget."""
        return query.k * (4 if query.token_budget is None else 10) + _EXTRA_CANDIDATES


def _query_variants(query: Query) -> list[tuple[Query, float, bool]]:
    """Return the question and its other wordings, each with its weight and whether it is sure."""
    return [(query, 1.0, True), *((query.worded(one), one.weight, one.sure) for one in query.wordings)]


def _fetch_entries(view: View, page: Sequence[RankedCandidate]) -> list[Entry | None]:
    found: dict[tuple[str, str], Entry | None] = {}
    for namespace in dict.fromkeys(one.source.namespace for one in page):
        ids = [one.id for one in page if one.source.namespace == namespace]
        entries = view.get(ids, namespace=namespace)
        found.update({(namespace, key): entry for key, entry in zip(ids, entries, strict=True)})
    return [found[one.source.namespace, one.id] for one in page]
