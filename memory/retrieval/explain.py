"""Explanations of a recall: the terms that matched a hit, and the stage at which a memory was left out.

For each term of the question, the match is its nearest term in the memory or in its neighbouring turns. Nothing is
ranked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memory.codec import from_entry
from memory.models import Memory
from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, parse_store_namespace, prefix_of, store_namespace
from memory.results import RecallResult, RecallStage, TermMatch, WhyNot
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.turn_links import NO_ROW
from memory.retrieval.index.vocabulary import NO_TERM
from memory.retrieval.namespace_search import SearchTarget
from memory.retrieval.query import Query
from memory.retrieval.scoring.neighbour_window import neighbour_window
from memory.retrieval.scoring.question import AnalyzedQuestion
from memory.retrieval.scoring.scores import RankedCandidate
from memory.retrieval.scoring.soft_matching import QuestionTerms, term_similarities
from vectorstore import VectorStore, View

_PARTITION_NAMES = {CONVERSATION: "the conversation", DOCUMENTS: "the documents", ARCHIVE: "the archive"}


@dataclass(frozen=True, slots=True)
class ChannelRanks:
    """The place of a memory, from 1, in the two searches that name candidates; None where it does not occur."""

    by_words: int | None = None
    by_vector: int | None = None


def explain_unsearched(store: VectorStore, query: Query, id: str) -> WhyNot:
    """Explain a memory that is in none of the places asked: old, in another lane, or nowhere in these namespaces."""
    for namespace in query.namespaces:
        version, _, revision = id.rpartition("@")
        old = version and revision.isdigit() and ARCHIVE not in query.lanes
        if old and store.get([id], namespace=store_namespace(namespace, ARCHIVE))[0] is not None:
            reason = f"an earlier version, superseded by {version}; ask with as_of or known_at for what held then"
            return WhyNot(id, RecallStage.SUPERSEDED, reason)
        for name in _user_partitions(store, namespace):
            if store.get([id], namespace=name)[0] is not None:
                lane = _PARTITION_NAMES.get(parse_store_namespace(name)[1], "another lane")
                return WhyNot(id, RecallStage.LANE, f"it is in {lane}, which was not asked")
    return WhyNot(id, RecallStage.UNKNOWN, "no memory of that id is in what was asked")


def explain_invalid(memory: Memory, query: Query) -> WhyNot:
    """Explain a memory that does not stand at the time asked for."""
    moment = query.as_of or query.now
    if memory.disabled:
        return WhyNot(memory.id, RecallStage.DISABLED, "it is disabled")
    if memory.expires_at is not None and memory.expires_at <= query.now:
        return WhyNot(memory.id, RecallStage.EXPIRED, f"it expired at {memory.expires_at.isoformat()}")
    if memory.valid_from is not None and memory.valid_from > moment:
        return WhyNot(memory.id, RecallStage.VALIDITY, f"it holds only from {memory.valid_from.isoformat()}")
    if memory.valid_to is not None and memory.valid_to <= moment:
        return WhyNot(memory.id, RecallStage.VALIDITY, f"it held until {memory.valid_to.isoformat()}")
    if memory.retired_at is not None:
        version = memory.id.rpartition("@")[0]
        return WhyNot(memory.id, RecallStage.SUPERSEDED, f"superseded by {version} at {memory.retired_at.isoformat()}")
    return WhyNot(memory.id, RecallStage.VALIDITY, "it was not known, or did not hold, at the time asked for")


def explain_unranked(memory: Memory, channels: ChannelRanks, candidates: int) -> WhyNot:
    """Explain a memory that passes and is no candidate."""
    words = "shares no word with the question" if channels.by_words is None else f"number {channels.by_words} by words"
    vector = "" if channels.by_vector is None else f", number {channels.by_vector} by vector"
    reason = f"not among the best {candidates} of either search, nor beside one of them: {words}{vector}"
    return WhyNot(memory.id, RecallStage.CANDIDATES, reason, by_words=channels.by_words, by_vector=channels.by_vector)


def explain_ranked(
    found: RecallResult, ranked: Sequence[RankedCandidate], place: int, channels: ChannelRanks, *, k: int
) -> WhyNot:
    """Explain a memory that was ranked: *place* is its index in *ranked*, *found* what was handed out."""
    one = ranked[place]
    stage, reason = RecallStage.RANK, f"ranked {place + 1}; {k} were asked for"
    at = next((number for number, hit in enumerate(found, start=1) if hit.memory.id == one.id), None)
    out = next((left for left in found.left_out if left.id == one.id), None)
    if at is not None:
        stage, reason = RecallStage.FOUND, f"hit {at} of {len(found)}"
    elif out is not None:
        stage, reason = (RecallStage.FOLDED if out.into is not None else RecallStage.BUDGET), out.reason
    elif len(found) < k and place < len(found):
        stage, reason = RecallStage.UNKNOWN, "it went while it was being fetched"
    return WhyNot(
        id=one.id,
        stage=stage,
        reason=reason,
        rank=place + 1,
        score=one.score,
        needed=found.hits[-1].score if found.hits else None,
        parts=one.parts(),
        by_words=channels.by_words,
        by_vector=channels.by_vector,
    )


def channel_ranks(
    id: str, by_words: Sequence[tuple[str, float]], by_vector: Sequence[tuple[str, float]] | None
) -> ChannelRanks:
    """Return the place of *id* in the two rankings."""
    return ChannelRanks(_rank_of(id, by_words), None if by_vector is None else _rank_of(id, by_vector))


def find_memory(view: View, places: Sequence[SearchTarget], id: str) -> tuple[SearchTarget, Memory] | None:
    """Return the memory *id* and the place that holds it, None where none does."""
    for place in places:
        (entry,) = view.get([id], namespace=place.name)
        if entry is not None:
            return place, from_entry(entry)
    return None


def _user_partitions(store: VectorStore, namespace: str) -> list[str]:
    start = prefix_of(namespace)
    return [name for name in store.namespaces() if name.startswith(start)]


def _rank_of(id: str, ranking: Sequence[tuple[str, float]]) -> int | None:
    return next((at for at, (name, _) in enumerate(ranking, start=1) if name == id), None)


MatchPosition = Literal["here", "before", "after", "question"]
_SIDES: tuple[MatchPosition, ...] = ("before", "after", "before", "after")
_MIN_SIMILARITY = 0.2
"""Below this similarity of two words there is nothing to see."""


def term_matches(
    question: AnalyzedQuestion, words: QuestionTerms, row: int, index: RetrievalIndex, *, window: Sequence[float] = ()
) -> tuple[TermMatch, ...]:
    """Return the words by which *row* matches *question*, the weightiest first.

    *window* is what a word counts one turn before, one after, two before and two after; none for a document.
    """
    if not len(words.numbers):
        return ()
    places: list[tuple[int, float, MatchPosition]] = [(row, 1.0, "here")]
    if window:
        surroundings = neighbour_window(index.order, np.array([row], dtype=np.int64))
        sides = [int(side[0]) for side in surroundings.sides]
        places += list(zip(sides, window, _SIDES, strict=True))
        places.append((int(surroundings.answers[0]), 1.0, "question"))
    best: list[TermMatch | None] = [None] * len(words.numbers)
    for place, part, where in places:
        if place == NO_ROW:
            continue
        terms = np.unique(index.text_terms(np.array([place], dtype=np.int64))[0])
        near = part * term_similarities(words, terms, index)
        for at, (term, similarity) in enumerate(_nearest_terms(terms, near)):
            held = best[at]
            if similarity >= _MIN_SIMILARITY and (held is None or similarity > held.similarity):
                weight = float(words.weights[at]) / words.total if words.total > 0 else 0.0
                best[at] = TermMatch(question.forms[at], index.stems.form(term), similarity, weight, where)
    found = [one for one in best if one is not None]
    return tuple(sorted(found, key=lambda one: (-one.similarity * one.weight, one.word)))


def _nearest_terms(terms: NDArray[np.int64], near: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Return (term, similarity) of the nearest of *terms* to each word."""
    at = near.argmax(axis=0)
    return [
        (int(terms[place]), round(float(near[place, word]), 4)) if terms[place] != NO_TERM else (NO_TERM, 0.0)
        for word, place in enumerate(at.tolist())
    ]
