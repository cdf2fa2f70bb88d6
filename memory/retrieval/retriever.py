"""The retriever: a question in, the memories about it out, each with its score and its reasons.

``recall`` and ``why_not`` are the service behind ``LongTermMemory``: they run the hooks, embed the question and search
in a worker thread. ``search`` and the other synchronous methods work on one view of the store per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial
from typing import TypeAlias, TypeVar, Unpack

import numpy as np

from tellback.memory.analysis.people import Relation, with_names, with_roles
from tellback.memory.codec import entry_text, from_entry
from tellback.memory.embedders.lines import passages_of
from tellback.memory.embedders.protocol import WordVectors
from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory
from tellback.memory.partitions import CONVERSATION, DOCUMENTS, parse_store_namespace, store_namespace
from tellback.memory.results import Conflict, Hit, KnownPerson, Omitted, Profile, RecallResult, RecallStage, WhyNot
from tellback.memory.retrieval.candidates import NamespaceSearcher, SearchTarget, caller_filters, search_targets
from tellback.memory.retrieval.conflicts import conflicting_groups
from tellback.memory.retrieval.context_expansion import NO_NEIGHBOURS_NOTE, expand_neighbours
from tellback.memory.retrieval.explain import (
    add_term_matches,
    explain_demoted,
    explain_invalid,
    explain_ranked,
    explain_reranked,
    explain_unranked,
    explain_unsearched,
    find_memory,
    rank_of,
)
from tellback.memory.retrieval.fallback import FALLBACK_NOTE, fallback_search
from tellback.memory.retrieval.hook_runner import ExpandedQuestion, expand_question, query_for_reranking, rerank_hits
from tellback.memory.retrieval.hooks import RecallHooks
from tellback.memory.retrieval.index.index_cache import IndexCache
from tellback.memory.retrieval.index.index_sync import IndexSynchronizer
from tellback.memory.retrieval.index.record_batch import RecordExtractor
from tellback.memory.retrieval.index.validity import ValidityFilter, combine_filters
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.memory.retrieval.long_question import shorten_question
from tellback.memory.retrieval.query import Query, RecallOptions
from tellback.memory.retrieval.query_analysis import (
    excluded_terms,
    follow_up_context,
    in_first_person,
    remove_exclusions,
)
from tellback.memory.retrieval.relations import known_people, relation_ids
from tellback.memory.retrieval.scoring.confidence import assess_confidence
from tellback.memory.retrieval.scoring.scores import (
    QueryVariant,
    RankedCandidate,
    ScoredCandidates,
    fuse_scores,
    merge_ranked,
)
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.memory.retrieval.token_budget import fetch_hits, pack_hits
from tellback.memory.timestamps import Clock, system_clock, to_aware
from tellback.memory.tokens.counter import TextMeasure, default_counter, measures_exactly
from tellback.memory.validation import checked_labels, checked_text_list
from tellback.memory.write.embedding_service import EmbeddedQuery, EmbeddingService
from tellback.vectorstore import (
    Analyzer,
    Entry,
    Filter,
    SpaceChanged,
    UnsupportedError,
    VectorStore,
    View,
    lifecycle_of,
)

T = TypeVar("T")
_Wanted: TypeAlias = tuple[tuple[str, ...], bool]
_EXTRA_CANDIDATES = 20
_LIST_FACTOR = 2
_KNOWN_PARTITIONS = 1000
"""Partitions whose relations are kept; those of the one used the longest time ago go first."""
_NAMES_WEIGHT, _ROLES_WEIGHT = 1.0, 0.25
"""Weights of a question with names for roles, and with roles for names: a name says more than a role."""
NEAR_BEST_SHARE = 0.6
"""For a list question: the factor of k up to which hits may come, and the share of the best score that they need."""


class Retriever:
    """Finds memories in *store*; any task and thread may call. The indexes that it derives follow the store's changes.

    *embedding* embeds questions. *word_vectors* soften the match of words (None: a word matches itself alone).
    *hooks* are those of each recall that brings none. *index_cache* keeps the indexes for the next process. *zone* is
    that of days and of naive times (None: UTC for days, the system's for naive times). *counter* counts tokens for
    budgets. *user_name*: a question with that name is asked in the first person. The language rules are those of
    the store's analyzer.
    """

    def __init__(
        self,
        store: VectorStore,
        embedding: EmbeddingService,
        *,
        word_vectors: WordVectors | None = None,
        settings: RecallSettings | None = None,
        hooks: RecallHooks | None = None,
        index_cache: IndexCache | None = None,
        clock: Clock = system_clock,
        zone: tzinfo | None = None,
        counter: TextMeasure | None = None,
        user_name: str | None = None,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._settings = settings or RecallSettings()
        self._hooks = _checked_hooks(hooks)
        self._clock = clock
        self._zone = zone
        self._counter = counter or default_counter()
        self._user_name = user_name
        self._known_relations: dict[str, dict[str, tuple[int, list[Relation]]]] = {}
        """Memories that say who is whose relative, with their revisions, by partition and id."""
        self._searcher: NamespaceSearcher | None = None
        lifecycle_store = lifecycle_of(store)
        analyzer = Analyzer() if lifecycle_store is None else lifecycle_store.analyzer
        self._terms = analyzer.terms
        self._lexicon = lexicon_for(analyzer.language)
        if lifecycle_store is not None:
            day_zone = zone if zone is not None else UTC
            extractor = RecordExtractor(analyzer=analyzer, lexicon=self._lexicon, zone=day_zone)
            indexes = IndexSynchronizer(lifecycle_store, extractor, word_vectors=word_vectors, cache=index_cache)
            self._searcher = NamespaceSearcher(
                indexes,
                self._settings,
                self._lexicon,
                self._terms,
                day_zone,
                embedding.profile,
                embedding.passage_cosines,
            )

    async def recall(self, question: str, k: int = 10, **options: Unpack[RecallOptions]) -> RecallResult:
        """Find what is remembered about *question*, best first, as ``LongTermMemory.recall`` documents."""
        hooks = self._hooks_for(options)
        query, notes = await self._prepare(question, k, options, hooks)
        found, query, search_notes = await self._find(query, hooks)
        notes += search_notes
        if query.neighbours and found.hits:
            found = await asyncio.to_thread(self.expand, query, found)
        if found.beyond:
            notes += RecallNotes((f"a list was asked for, so {found.beyond} more than {query.k} are shown",))
        if query.token_budget is not None:
            found = replace(found, tokens_exact=measures_exactly(options.get("counter") or self._counter))
        return notes.added_to(found)

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """Explain why ``recall(question, k, **options)`` does not find the memory *id*, or at which rank it does."""
        (id,) = checked_labels([id], "id")
        hooks = self._hooks_for(options)
        query, _ = await self._prepare(question, k, options, hooks)
        answer, query, _ = await self._in_current_space(partial(self.diagnose, id=id), query)
        if hooks is None or hooks.rerank is None or answer.rank is None:
            return answer
        found, _, _ = await self._find(query, hooks)
        return explain_reranked(answer, found)

    def search(self, query: Query) -> RecallResult:
        """Find what is remembered about ``query.text``, best first; ties by id.

        Filters come first: namespace, validity (enabled, valid, known, not expired), and the caller's own.
        """
        targets = search_targets(self._store, query)
        names = [target.name for target in targets]
        if self._searcher is None:
            sources, entries = fallback_search(self._store, targets, query, self._settings, self._terms)
            found = self._pack(
                sources, query, lambda page: [entries[place.source.namespace, place.id] for place in page]
            )
            searched = sum(self._store.count(namespace=name) for name in names)
            return replace(found, notes=(FALLBACK_NOTE,), searched=searched)
        with self._searcher.indexes.store.view(names) as view:
            found = self._pack(
                _score_targets(self._searcher, view, targets, query), query, partial(_fetch_entries, view)
            )
            found = replace(found, searched=sum(view.count(namespace=name) for name in names))
            if query.explain:
                found = add_term_matches(self._searcher, view, targets, query, found)
        self._searcher.indexes.save(names)
        return found

    def follow(self, partition: str, count: int) -> None:
        """Take note of *count* entries that were added to *partition*; from time to time, derive what recall needs."""
        if self._searcher is not None:
            conversation = parse_store_namespace(partition)[1] != DOCUMENTS
            self._searcher.indexes.follow(partition, count, conversation=conversation)

    def expand(self, query: Query, found: RecallResult) -> RecallResult:
        """Return *found*, the result of *query*, with the neighbours of each hit that the query asks for."""
        if self._searcher is None:
            return replace(found, notes=(*found.notes, NO_NEIGHBOURS_NOTE))
        targets = search_targets(self._store, query)
        with self._searcher.indexes.store.view([target.name for target in targets]) as view:
            return expand_neighbours(self._searcher, view, targets, query, found)

    def conflicts(self, namespace: str, limit: int) -> list[Conflict]:
        """Return contradictions among the memories of *namespace*, the newest first, *limit* at most.

        A store with data alone raises ``UnsupportedError``.
        """
        if self._searcher is None:
            raise UnsupportedError("conflicts", "this store finds by plain search alone, without an index")
        partition, conflicts = store_namespace(namespace, CONVERSATION), list[Conflict]()
        validity = ValidityFilter(to_aware(self._clock(), self._zone))
        indexes = self._searcher.indexes
        with indexes.store.view([partition]) as view, indexes.index(view, partition, conversation=True) as index:
            for ids in conflicting_groups(index, validity):
                entries = (entry for entry in view.get(ids, namespace=partition) if entry is not None)
                memories = tuple(map(from_entry, entries))
                if len(memories) > 1:
                    conflicts.append(Conflict(memories))
                if len(conflicts) == limit:
                    break
        indexes.save([partition])
        return conflicts

    def profile(self, namespace: str, *, limit: int, attributes: bool = False, where: Filter | None = None) -> Profile:
        """Return what the user of *namespace* said of themselves and their relatives; only their own *attributes*.

        A store with data alone has no index to find them by, and gives nothing.
        """
        if self._searcher is None:
            return Profile(())
        from tellback.memory.retrieval.profile import make_profile, profile_ids

        partition, now = store_namespace(namespace, CONVERSATION), to_aware(self._clock(), self._zone)
        indexes = self._searcher.indexes
        with indexes.store.view([partition]) as view, indexes.index(view, partition, conversation=True) as index:
            ids = profile_ids(index, attributes=attributes)
            if where is not None and ids:
                ids = [ids[place] for place in np.flatnonzero(view.passing(ids, where=where, namespace=partition))]
            entries, space = view.get(ids, namespace=partition), indexes.store.space
        indexes.save([partition])
        stored = [entry for entry in entries if entry is not None]
        has_heads = space is not None and self._embedding.profile(space.fingerprint).has_heads
        vectors = [entry.vector for entry in stored] if has_heads else []
        return make_profile(list(map(from_entry, stored)), now, limit=limit, terms=self._terms, vectors=vectors)

    def people(self, namespace: str, where: Filter | None = None) -> list[KnownPerson]:
        """Return who is whose relative, as the memories of *namespace* say that hold now, the newest first."""
        if self._searcher is None:
            return []
        validity = ValidityFilter(to_aware(self._clock(), self._zone))
        partition = store_namespace(namespace, CONVERSATION)
        with self._relating(partition, validity, where) as (view, revisions):
            entries = view.get(list(reversed(revisions)), namespace=partition)
        return [person for entry in entries if entry is not None for person in known_people(entry)]

    def _relations(self, partition: str, validity: ValidityFilter, where: Filter | None) -> list[Relation]:
        """Return the relations that *partition* tells of, oldest first; each memory is read once."""
        with self._relating(partition, validity, where) as (view, revisions):
            before = self._known_relations.pop(partition, {})
            known = {id: found for id, found in before.items() if revisions.get(id) == found[0]}
            missing = [id for id in revisions if id not in known]
            for entry in view.get(missing, namespace=partition) if missing else ():
                if entry is not None:
                    people = known_people(entry)
                    known[entry.id] = entry.revision, [Relation(one.name, one.role, one.kin) for one in people]
        if known:
            self._known_relations[partition] = known
        while len(self._known_relations) > _KNOWN_PARTITIONS:
            self._known_relations.pop(next(iter(self._known_relations)), None)
        return [relation for id in revisions if id in known for relation in known[id][1]]

    @contextmanager
    def _relating(
        self, partition: str, validity: ValidityFilter, where: Filter | None
    ) -> Iterator[tuple[View, dict[str, int]]]:
        """Yield a view of *partition*, and the memories there that say who is whose relative: revision by id, oldest
        first. There are none in a partition that is too large for an index of all."""
        assert self._searcher is not None
        indexes = self._searcher.indexes
        with indexes.store.view([partition]) as view:
            if not view.in_memory(namespace=partition):
                yield view, {}
                return
            with indexes.index(view, partition, conversation=True) as index:
                ids = relation_ids(index, view, partition, validity, where)
                revisions = {id: index.revision(id) for id in ids}
            yield view, revisions

    def _with_counterparts(self, query: Query) -> QueryVariant | None:
        """Return the question with names for roles, else with roles for names, as the caller's memories tell them."""
        if CONVERSATION not in query.partitions or self._searcher is None:
            return None
        where = combine_filters(caller_filters(query))
        partitions = [store_namespace(namespace, CONVERSATION) for namespace in query.namespaces]
        known = [relation for name in partitions for relation in self._relations(name, query.validity, where)]
        if not known:
            return None
        if (by_name := with_names(query.search_text, known)) is not None:
            return QueryVariant(by_name, _NAMES_WEIGHT)
        by_role = with_roles(query.search_text, known)
        return None if by_role is None else QueryVariant(by_role, _ROLES_WEIGHT)

    def diagnose(self, query: Query, id: str) -> WhyNot:
        """Return the stage of ``search(query)`` that stopped the memory *id*, or its rank in the result.

        A store with data alone raises ``UnsupportedError``.
        """
        if self._searcher is None:
            raise UnsupportedError("why_not", "this store finds by plain search alone, without stages to explain")
        targets = search_targets(self._store, query)
        with self._searcher.indexes.store.view([target.name for target in targets]) as view:
            located = find_memory(view, targets, id)
            if located is not None:
                target, memory = located
                return self._diagnose_searched(self._searcher, view, targets, query, target, memory)
        return explain_unsearched(self._store, query, id)

    def texts_to_embed(self, query: Query) -> tuple[str, ...]:
        """Return the texts of *query* to embed as queries, for ``Query.vectors``; usually one or two.

        For documents that is the search text itself, for conversations the text without the names of participants; for
        each variant likewise. A text whose vector is a row of zeros is left out of ``Query.vectors``.
        """
        texts = query.texts
        if self._searcher is None or set(query.partitions) == {DOCUMENTS}:
            return texts
        texts_by_order: dict[str, None] = {}
        for text in texts:
            if DOCUMENTS in query.partitions:
                texts_by_order[text] = None
            for namespace in query.namespaces:
                texts_by_order[self._searcher.text_to_embed(text, namespace)] = None
        return tuple(texts_by_order)

    async def _prepare(
        self, question: str, k: int, options: RecallOptions, hooks: RecallHooks | None
    ) -> tuple[Query, RecallNotes]:
        """Return the query of *question*, rewritten, expanded and embedded, and notes on what was done with it."""
        query = Query.of(
            question, k, options, now=to_aware(self._clock(), self._zone), zone=self._zone, counter=self._counter
        )
        context = tuple(checked_text_list(options.get("context", ()), "context"))
        expanded = ExpandedQuestion(question) if hooks is None else await expand_question(question, context, hooks)
        wording = expanded.text
        if self._user_name is not None:
            wording = in_first_person(wording, self._user_name, self._lexicon)
        as_user = (f"asked of you: {wording}",) if wording != expanded.text else ()
        text, excluded = remove_exclusions(wording, self._lexicon, self._terms)
        aside = excluded_terms(wording, self._lexicon, self._terms) if excluded else frozenset()
        query = replace(query, text=text, excluded=aside, context=context, variants=expanded.variants)
        query, wanted, shortened, too = await asyncio.to_thread(self._completed, query)
        query, embedding_notes = await self._embedded(query, wanted)
        leaning = (f"asked together with what it leans on: {' / '.join(query.context)}",) if query.context else ()
        cut = tuple(note for note in (excluded, shortened) if note is not None)
        notes = RecallNotes((*leaning, *as_user, *expanded.notes, *too, *cut)) + RecallNotes.of_failures(
            expanded.failures
        )
        return query, notes + embedding_notes

    def _completed(self, query: Query) -> tuple[Query, _Wanted, str | None, tuple[str, ...]]:
        """Return *query* shortened, with what it leans on and its wording by relation, what to embed of it, and notes.

        In a thread: all that is read before the question is embedded.
        """
        query, shortened = self._shorten(query)
        query = replace(query, context=follow_up_context(query.text, query.context, self._lexicon, self._terms))
        by_relation = self._with_counterparts(query)
        if by_relation is None:
            return query, self._wanted(query), shortened, ()
        query = replace(query, variants=(*query.variants, by_relation))
        return query, self._wanted(query), shortened, (f"asked too: {by_relation.text}",)

    def _wanted(self, query: Query) -> _Wanted:
        """Return the texts of *query* to embed, and whether its own texts are compared with passages too."""
        is_of_both = set(query.partitions) != {DOCUMENTS} and self._embedding.has_passages
        return self.texts_to_embed(query), is_of_both and self._has_documents(query)

    async def _embedded(self, query: Query, wanted: _Wanted | None = None) -> tuple[Query, RecallNotes]:
        """Return *query* with its vectors, and a note where it must do with words alone."""
        alone = DOCUMENTS if set(query.partitions) == {DOCUMENTS} else CONVERSATION
        texts, is_of_both = await asyncio.to_thread(self._wanted, query) if wanted is None else wanted
        passages = embedded = await self._embedding.queries(texts, partition=alone)
        if is_of_both and embedded.vectors:
            passages = await self._embedding.queries(query.texts, partition=DOCUMENTS)
        notes = RecallNotes.of_embedding(embedded)
        if passages is not embedded:
            notes += RecallNotes.of_embedding(passages)
        return replace(query, vectors=embedded.vectors, passage_vectors=passages.vectors), notes

    def _has_documents(self, query: Query) -> bool:
        return any(target.partition == DOCUMENTS for target in search_targets(self._store, query))

    def _shorten(self, query: Query) -> tuple[Query, str | None]:
        """Return *query* with the words of its text that are searched for, and a note if those are not all."""

        def df(terms: Sequence[str]) -> Sequence[int]:
            if self._searcher is None:
                return [1] * len(terms)
            names = [target.name for target in search_targets(self._store, query)]
            with self._searcher.indexes.store.view(names) as view:
                frequencies = [view.df(terms, namespace=name) for name in names]
            return [sum(counts) for counts in zip([0] * len(terms), *frequencies, strict=True)]

        text, note = shorten_question(query.text, self._terms, df)
        return replace(query, text=text), note

    async def _find(self, query: Query, hooks: RecallHooks | None) -> tuple[RecallResult, Query, RecallNotes]:
        """Return the reranked result of *query*, the query with the vectors that were used, and notes."""
        if hooks is None or hooks.rerank is None or not query.k:
            return await self._in_current_space(self.search, query)
        deep_query = query_for_reranking(query, hooks)
        found, deep_query, notes = await self._in_current_space(self.search, deep_query)
        query = replace(query, vectors=deep_query.vectors, passage_vectors=deep_query.passage_vectors)
        return await rerank_hits(query, found, hooks), query, notes

    async def _in_current_space(self, work: Callable[[Query], T], query: Query) -> tuple[T, Query, RecallNotes]:
        """Return the result of *work* on *query*, done in a thread, and the query with the vectors that were used.

        If the store was switched to another vector space meanwhile, the work is done once more with vectors of that
        one, and a note says if there are none.
        """
        try:
            return await asyncio.to_thread(work, query), query, RecallNotes()
        except SpaceChanged:
            await asyncio.to_thread(self._embedding.follow)
            query, notes = await self._embedded(query)
            return await asyncio.to_thread(work, query), query, notes

    def _hooks_for(self, options: RecallOptions) -> RecallHooks | None:
        hooks = _checked_hooks(options.get("hooks"))
        return self._hooks if hooks is None else hooks

    def _diagnose_searched(
        self,
        searcher: NamespaceSearcher,
        view: View,
        targets: Sequence[SearchTarget],
        query: Query,
        target: SearchTarget,
        memory: Memory,
    ) -> WhyNot:
        """Diagnose *memory*, which *target* has."""
        with searcher.analyze(view, target, query) as analyzed:
            row = analyzed.index.row(memory.id)
            if analyzed.validity.hidden(analyzed.index, np.array([row]))[0]:
                return explain_invalid(memory, query)
            if not view.passing([memory.id], where=combine_filters(caller_filters(query)), namespace=target.name)[0]:
                return WhyNot(memory.id, RecallStage.FILTER, "the filter or the tags asked for leave it out")
            if not query.all_utterances and analyzed.index.hidden_utterances(np.array([row]))[0]:
                return explain_demoted(memory)
            count = view.count(namespace=target.name)
            named = view.matching(query.search_text, count, where=analyzed.where, namespace=target.name)
            by_words, by_vector = rank_of(memory.id, named), None
            if analyzed.vector is not None:
                near = view.nearest(analyzed.vector, count, where=analyzed.where, namespace=target.name)
                by_vector = rank_of(memory.id, near)
        sources = _score_targets(searcher, view, targets, query)
        ranked = merge_ranked(sources, sum(len(source.ids) for source in sources))
        key = memory.id, target.name
        positions = (i for i, candidate in enumerate(ranked) if (candidate.id, candidate.source.namespace) == key)
        position = next(positions, None)
        if position is None:
            return explain_unranked(memory, by_words, by_vector, searcher.candidate_count(target))
        found = self._pack(sources, replace(query, min_confidence=0.0), partial(_fetch_entries, view))
        answer = explain_ranked(found, ranked[position], position, query)
        return replace(answer, by_words=by_words, by_vector=by_vector)

    def _with_passage(self, hit: Hit, query: Query) -> Hit:
        """Return *hit* with the passage of its long text that is nearest to the question, or has most of its words."""
        text = entry_text(hit.memory)
        if hit.partition == DOCUMENTS or not (passages := passages_of(text)):
            return hit
        vector = next(iter(query.vectors_of(hit.partition).values()), None)
        cosines = dict(() if vector is None else self._embedding.passage_cosines(text, vector))
        asked = set(self._terms(query.search_text))
        shares = {passage: len(asked.intersection(self._terms(passage))) for passage in passages}
        return replace(hit, passage=max(passages, key=lambda part: (cosines.get(part, -1.0), shares[part])))

    def _pack(
        self,
        sources: Sequence[ScoredCandidates],
        query: Query,
        fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]],
    ) -> RecallResult:
        """Return the hits of *query* among the candidates of *sources*."""
        # More than k candidates are ranked: some may be folded, or not fit a token budget.
        depth = query.k * (4 if query.token_budget is None else 10) + _EXTRA_CANDIDATES
        ranked = merge_ranked(sources, depth)
        best = ranked[0].source if ranked else None
        most = query.k * _LIST_FACTOR if best is not None and best.asks_several else query.k
        fetched = fetch_hits(ranked, most, fetch, explain=query.explain)
        hits, omitted = pack_hits(fetched, k=most, token_budget=query.token_budget, counter=query.counter)
        near_best = [hit for hit in hits[query.k :] if hit.score >= NEAR_BEST_SHARE * hits[0].score]
        hits = tuple(self._with_passage(hit, query) for hit in (*hits[: query.k], *near_best))
        confidence, abstain = assess_confidence(sources, best, lead_bound=self._settings.abstention.lead)
        if confidence < query.min_confidence:
            unsure = f"confidence {confidence:.2f} is below the {query.min_confidence:g} asked for"
            omitted, hits, near_best = (*omitted, *(Omitted(hit.memory.id, unsure) for hit in hits)), (), []
        return RecallResult(
            hits,
            confidence,
            abstain,
            omitted,
            near=any(source.is_near for source in sources),
            beyond=len(near_best),
            likely=best is None or best.is_likely,
        )


@dataclass(frozen=True, slots=True)
class RecallNotes:
    """Notes on a recall; *degraded* are those among them that tell of a failure."""

    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @classmethod
    def of_failures(cls, notes: tuple[str, ...]) -> RecallNotes:
        """Return *notes* that all tell of failures."""
        return cls(notes, notes)

    @classmethod
    def of_embedding(cls, embedded: EmbeddedQuery) -> RecallNotes:
        """Return the note on the vectors of a question, if there is one."""
        notes = () if embedded.note is None else (embedded.note,)
        return cls(notes, notes if embedded.failed else ())

    def __add__(self, other: RecallNotes) -> RecallNotes:
        return RecallNotes((*self.notes, *other.notes), (*self.degraded, *other.degraded))

    def added_to(self, found: RecallResult) -> RecallResult:
        """Return *found* with these notes after its own."""
        return replace(found, notes=(*found.notes, *self.notes), degraded=(*found.degraded, *self.degraded))


def _checked_hooks(hooks: object) -> RecallHooks | None:
    if hooks is not None and not isinstance(hooks, RecallHooks):
        raise ArgumentError("hooks", hooks, "a RecallHooks is needed")
    return hooks


def _score_targets(
    searcher: NamespaceSearcher, view: View, targets: Sequence[SearchTarget], query: Query
) -> list[ScoredCandidates]:
    """Return the calibrated candidates of each target; those of several variants fused."""
    return [
        fuse_scores(
            [(variant, searcher.score(view, target, wording).calibrated()) for variant, wording in query.wordings()]
        )
        for target in targets
    ]


def _fetch_entries(view: View, page: Sequence[RankedCandidate]) -> list[Entry | None]:
    """Return the entries of the candidates of *page*, read namespace by namespace."""
    entries: dict[tuple[str, str], Entry | None] = {}
    for namespace in dict.fromkeys([candidate.source.namespace for candidate in page]):
        of_page = [candidate for candidate in page if candidate.source.namespace == namespace]
        known = of_page[0].source.entries
        ids = [candidate.id for candidate in of_page if candidate.id not in known]
        entries.update({(namespace, id): entry for id, entry in known.items()})
        of_namespace = view.get(ids, namespace=namespace) if ids else []
        entries.update({(namespace, id): entry for id, entry in zip(ids, of_namespace, strict=True)})
    return [entries[candidate.source.namespace, candidate.id] for candidate in page]
