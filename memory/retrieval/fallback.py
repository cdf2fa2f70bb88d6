"""Fallback retrieval on a store without a lifecycle: the sum of text and vector search, with a note that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memory.retrieval.query import Query
from memory.retrieval.scoring.confidence import conversation_bounds, topic_confidence
from memory.retrieval.scoring.features import scale_to_maximum
from memory.retrieval.scoring.scores import ScoredCandidates
from memory.retrieval.scoring.settings import AbstentionBounds
from vectorstore import Entry, Filter, Vector, VectorStore

FALLBACK_NOTE = "this store finds by plain text and vector search alone; one with a lifecycle ranks better"
_COSINE_WEIGHT = 0.45


@dataclass(frozen=True, slots=True)
class FallbackResult:
    """The result of a fallback search in one namespace: scored candidates, and their entries by id."""

    scored: ScoredCandidates
    entries: dict[str, Entry]


def fallback_search(
    store: VectorStore,
    namespace: str,
    partition: str,
    query: Query,
    *,
    where: Filter | None,
    candidates: int,
    terms: Callable[[str], Sequence[str]],
    abstention: AbstentionBounds,
) -> FallbackResult:
    """Search one namespace of *store* by words and, where the query has one, by its vector.

    *candidates* is the limit of each search. *terms* is the split of a text into terms: a memory is about the question
    by the share of the question's terms that it has.
    """
    texts = store.search_text(query.search_text, candidates, where=where, namespace=namespace)
    vector: Vector | None = query.vectors.get(query.search_text) if store.space is not None else None
    nearest = [] if vector is None else store.search(vector, candidates, where=where, namespace=namespace)
    entries = {match.entry.id: match.entry for match in (*texts, *nearest)}
    by_text = {match.entry.id: match.score for match in texts}
    by_vector = {match.entry.id: match.score for match in nearest}
    ids = tuple(sorted(entries))
    text = scale_to_maximum(np.array([by_text.get(id, 0.0) for id in ids]))
    cosine = np.array([by_vector.get(id, 0.0) for id in ids])
    parts = {"text": text, "cosine": _COSINE_WEIGHT * scale_to_maximum(cosine)}
    question_terms = set(terms(query.search_text))
    shares = np.array(
        [len(question_terms.intersection(terms(entries[id].text))) / max(len(question_terms), 1) for id in ids]
    )
    known_cosine = None if vector is None else np.array([by_vector.get(id, np.nan) for id in ids])
    bounds = conversation_bounds(abstention, store.count(namespace=namespace))
    topic = topic_confidence(shares, shares, known_cosine, bonus=0.0, bounds=bounds)
    return FallbackResult(ScoredCandidates(namespace, partition, ids, parts, topic), entries)
