"""Fallback retrieval on a store without a lifecycle: text and vector search, added up, with a note that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memory.retrieval.query import Query
from memory.retrieval.scoring.confidence import topic_confidence
from memory.retrieval.scoring.features import scale_to_maximum
from memory.retrieval.scoring.scores import ScoredCandidates
from memory.retrieval.scoring.settings import AbstentionBounds
from vectorstore import Entry, Filter, Vector, VectorStore

FALLBACK_NOTE = "this store finds by plain text and vector search alone; one with a lifecycle ranks better"
_COSINE_WEIGHT = 0.45


@dataclass(frozen=True, slots=True)
class FallbackResult:
    """What plain search found in one namespace: scores, and the entries that came with them."""

    scored: ScoredCandidates
    entries: dict[str, Entry]


def fallback_search(
    store: VectorStore,
    namespace: str,
    lane: str,
    query: Query,
    *,
    where: Filter | None,
    candidates: int,
    terms: Callable[[str], Sequence[str]],
    doubt: AbstentionBounds,
) -> FallbackResult:
    """Search one namespace of *store* by words and, where there is one, by the vector of the question.

    *terms* make words comparable: how far a memory is about the question is the share of them that it holds.
    """
    texts = store.search_text(query.asked, candidates, where=where, namespace=namespace)
    vector: Vector | None = query.vectors.get(query.asked) if store.space is not None else None
    nearest = [] if vector is None else store.search(vector, candidates, where=where, namespace=namespace)
    entries = {match.entry.id: match.entry for match in (*texts, *nearest)}
    by_text = {match.entry.id: match.score for match in texts}
    by_vector = {match.entry.id: match.score for match in nearest}
    ids = tuple(sorted(entries))
    text = scale_to_maximum(np.array([by_text.get(one, 0.0) for one in ids]))
    cosine = np.array([by_vector.get(one, 0.0) for one in ids])
    parts = {"text": text, "cosine": _COSINE_WEIGHT * scale_to_maximum(cosine)}
    asked = set(terms(query.asked))
    held = np.array([len(asked.intersection(terms(entries[one].text))) / max(len(asked), 1) for one in ids])
    near = None if vector is None else np.array([by_vector.get(one, np.nan) for one in ids])
    bounds = doubt.of_conversation(store.count(namespace=namespace))
    return FallbackResult(
        ScoredCandidates(namespace, lane, ids, parts, topic_confidence(held, held, near, more=0.0, bounds=bounds)),
        entries,
    )
