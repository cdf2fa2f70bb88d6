"""Fallback retrieval on a store without a lifecycle: the sum of text and vector search, with a note that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tellback.memory.retrieval.candidates import SearchTarget, caller_filters
from tellback.memory.retrieval.index.record import demotion, stored_importance
from tellback.memory.retrieval.index.validity import combine_filters
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.scoring.confidence import TopicConfidence, abstention_bounds, topic_confidence
from tellback.memory.retrieval.scoring.features import importance_scores, scale_to_maximum
from tellback.memory.retrieval.scoring.scores import ScoredCandidates, fuse_scores, sum_features
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.vectorstore import Entry, VectorStore

FALLBACK_NOTE = "this store finds by plain text and vector search alone; one with a lifecycle ranks better"
_COSINE_WEIGHT = 0.45
EntriesByPlace = dict[tuple[str, str], Entry]


def fallback_search(
    store: VectorStore,
    targets: Sequence[SearchTarget],
    query: Query,
    settings: RecallSettings,
    terms: Callable[[str], Sequence[str]],
) -> tuple[list[ScoredCandidates], EntriesByPlace]:
    """Return the scored candidates of each of *targets*, and their entries by store namespace and id.

    *terms* is the split of a text into terms: a memory is about the question by the share of the question's terms that
    it has.
    """
    entries: EntriesByPlace = {}

    def scored(target: SearchTarget, wording: Query) -> ScoredCandidates:
        return _score_target(store, target, wording, settings, terms, entries).calibrated()

    sources = [
        fuse_scores([(variant, scored(target, wording)) for variant, wording in query.wordings()]) for target in targets
    ]
    return sources, entries


def _score_target(
    store: VectorStore,
    target: SearchTarget,
    query: Query,
    settings: RecallSettings,
    terms: Callable[[str], Sequence[str]],
    entries: EntriesByPlace,
) -> ScoredCandidates:
    """Search one target by words and, where the query has one, by its vector; add what is found to *entries*."""
    where = combine_filters([*query.validity.all_conditions(), *caller_filters(query)])
    vector = query.vectors_of(target.partition).get(query.search_text) if store.space is not None else None
    texts = store.search_text(query.search_text, settings.candidates, where=where, namespace=target.name)
    nearest = [] if vector is None else store.search(vector, settings.candidates, where=where, namespace=target.name)
    if not query.all_utterances:
        texts = [match for match in texts if not demotion(match.entry)]
        nearest = [match for match in nearest if not demotion(match.entry)]
    entries |= {(target.name, match.entry.id): match.entry for match in (*texts, *nearest)}
    by_text = {match.entry.id: match.score for match in texts}
    by_vector = {match.entry.id: match.score for match in nearest}
    ids = tuple(sorted(by_text | by_vector))
    text = scale_to_maximum(np.array([by_text.get(id, 0.0) for id in ids]))
    cosine = np.array([by_vector.get(id, 0.0) for id in ids])
    parts = {"text": text, "cosine": _COSINE_WEIGHT * scale_to_maximum(cosine)}
    importance = np.array([stored_importance(entries[target.name, id].metadata) for id in ids])
    parts["importance"] = importance_scores(importance, sum_features(parts, len(ids)))
    question_terms = set(terms(query.search_text))
    shared = [len(question_terms.intersection(terms(entries[target.name, id].text))) for id in ids]
    shares = np.array(shared) / max(len(question_terms), 1)
    known_cosine = None if vector is None else np.array([by_vector.get(id, np.nan) for id in ids])
    bounds = abstention_bounds(settings.abstention, store.count(namespace=target.name))
    topic = topic_confidence(shares, shares, known_cosine, bonus=0.0, bounds=bounds)
    return ScoredCandidates(target.name, target.partition, ids, parts, topic, is_near=TopicConfidence.of(topic).is_near)
