"""Explanations of a recall: the terms that matched a hit, and the stage at which a memory was left out.

For each term of the question, the match is its nearest term in the memory or in the question that it answers. Nothing
is ranked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from tellback.memory.analysis.texts import with_utterance
from tellback.memory.codec import from_entry
from tellback.memory.models import Memory
from tellback.memory.partitions import (
    ARCHIVE,
    CONVERSATION,
    DOCUMENTS,
    parse_store_namespace,
    prefix_of,
    store_namespace,
)
from tellback.memory.results import RecallResult, RecallStage, TermMatch, WhyNot
from tellback.memory.retrieval.candidates import NamespaceSearcher, SearchTarget
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.turn_links import NO_ROW
from tellback.memory.retrieval.index.vocabulary import renumber
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion
from tellback.memory.retrieval.scoring.scores import RankedCandidate
from tellback.memory.retrieval.scoring.soft_matching import QuestionTerms, term_similarities, weigh_terms
from tellback.vectorstore import VectorStore, View
from tellback.vectorstore.internals import sorted_distinct

_PARTITION_NAMES = {CONVERSATION: "the conversation", DOCUMENTS: "the documents", ARCHIVE: "the archive"}


def explain_unsearched(store: VectorStore, query: Query, id: str) -> WhyNot:
    """Explain a memory that no search target has: a superseded version, of another partition, or unknown."""
    for namespace in query.namespaces:
        version, _, revision = id.rpartition("@")
        is_version = version and revision.isdigit() and ARCHIVE not in query.partitions
        if is_version and store.get([id], namespace=store_namespace(namespace, ARCHIVE))[0] is not None:
            reason = f"an earlier version, superseded by {version}; ask with as_of or known_at for what held then"
            return WhyNot(id, RecallStage.SUPERSEDED, reason)
        for name in store.namespaces(prefix=prefix_of(namespace)):
            if store.get([id], namespace=name)[0] is not None:
                partition = _PARTITION_NAMES.get(parse_store_namespace(name)[1], "another partition")
                return WhyNot(id, RecallStage.PARTITION, f"it is in {partition}, which was not asked")
    return WhyNot(id, RecallStage.UNKNOWN, "no memory of that id is in what was asked")


def explain_invalid(memory: Memory, query: Query) -> WhyNot:
    """Explain a memory that is hidden at the times of *query* (``ValidityFilter.hidden``)."""
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


def explain_demoted(memory: Memory) -> WhyNot:
    """Explain a memory that states nothing."""
    judged = with_utterance(memory)
    kind = judged.utterance.value if judged.utterance is not None and memory.evidence is None else "demoted"
    reason = f"{kind}: {judged.utterance_reason}" if judged.utterance_reason and kind != "demoted" else kind
    return WhyNot(memory.id, RecallStage.EVIDENCE, f"not recalled by default ({reason}); promote it, or ask for all")


def explain_unranked(memory: Memory, by_words: int | None, by_vector: int | None, candidates: int) -> WhyNot:
    """Explain a memory that passes all filters and is no candidate, by its ranks in text and vector search."""
    words = "shares no word with the question" if by_words is None else f"number {by_words} by words"
    vector = "" if by_vector is None else f", number {by_vector} by vector"
    reason = f"not among the best {candidates} of either search, nor beside one of them: {words}{vector}"
    return WhyNot(memory.id, RecallStage.CANDIDATES, reason, by_words=by_words, by_vector=by_vector)


def explain_ranked(found: RecallResult, candidate: RankedCandidate, position: int, query: Query) -> WhyNot:
    """Explain the *candidate* that was ranked at *position*; *found* is the result of *query* with any confidence."""
    k, bound = query.k, query.min_confidence
    stage, reason = RecallStage.RANK, f"ranked {position + 1}; {k} were asked for"
    hit_number = _hit_number(found, candidate.id)
    omission = next((omission for omission in found.left_out if omission.id == candidate.id), None)
    if hit_number is not None and found.confidence < bound:
        stage, reason = RecallStage.CONFIDENCE, f"confidence {found.confidence:.2f}; {bound:g} was asked for"
    elif hit_number is not None:
        stage, reason = RecallStage.FOUND, f"hit {hit_number} of {len(found)}"
    elif omission is not None:
        stage, reason = (RecallStage.FOLDED if omission.into is not None else RecallStage.BUDGET), omission.reason
    elif len(found) < k and position < len(found):
        stage, reason = RecallStage.UNKNOWN, "it went while it was being fetched"
    return WhyNot(
        id=candidate.id,
        stage=stage,
        reason=reason,
        rank=position + 1,
        score=candidate.score,
        needed=found.hits[-1].score if found.hits else None,
        parts=candidate.parts(),
    )


def explain_reranked(answer: WhyNot, found: RecallResult) -> WhyNot:
    """Return *answer*, made without the reranker, corrected by the reranked result *found*."""
    hit_number = _hit_number(found, answer.id)
    if hit_number is not None:
        reason = f"hit {hit_number} of {len(found)}, as the reranker ordered them"
        return replace(answer, stage=RecallStage.FOUND, reason=reason)
    if answer.stage == RecallStage.FOUND:
        reason = f"ranked {answer.rank}; the reranker put others before it"
        return replace(answer, stage=RecallStage.RANK, reason=reason)
    return answer


def find_memory(view: View, targets: Sequence[SearchTarget], id: str) -> tuple[SearchTarget, Memory] | None:
    """Return the memory *id* and the first target that has it, None where none has."""
    for target in targets:
        (entry,) = view.get([id], namespace=target.name)
        if entry is not None:
            return target, from_entry(entry)
    return None


def rank_of(id: str, ranking: Sequence[tuple[str, float]]) -> int | None:
    """Return the rank of *id*, from 1, in a *ranking* of (id, score); None where it does not occur."""
    return next((rank for rank, (other, _) in enumerate(ranking, start=1) if other == id), None)


def _hit_number(found: RecallResult, id: str) -> int | None:
    return next((number for number, hit in enumerate(found, start=1) if hit.memory.id == id), None)


MatchPosition = Literal["here", "question"]
_MIN_SIMILARITY = 0.2
"""Similarity of two words below which a match explains nothing."""


def add_term_matches(
    searcher: NamespaceSearcher, view: View, targets: Sequence[SearchTarget], query: Query, found: RecallResult
) -> RecallResult:
    """Return *found* with the terms that matched each hit."""
    hits = list(found.hits)
    for target in targets:
        owner = parse_store_namespace(target.name)[:2]
        positions = [i for i, hit in enumerate(hits) if (hit.namespace, hit.partition) == owner]
        if not positions:
            continue
        with searcher.analyze(view, target, query) as analyzed:
            words = weigh_terms(analyzed.question, analyzed.index, analyzed.frequencies)
            # A hit without a row is of another collection.
            rows = {i: row for i in positions if (row := analyzed.index.row(hits[i].memory.id)) >= 0}
            answers = target.partition != DOCUMENTS
            matches = term_matches(analyzed.question, words, [*rows.values()], analyzed.index, answers=answers)
            for i, matched in zip(rows, matches, strict=True):
                hits[i] = replace(hits[i], matched=matched)
    return replace(found, hits=tuple(hits))


def term_matches(
    question: AnalyzedQuestion, words: QuestionTerms, rows: Sequence[int], index: RetrievalIndex, *, answers: bool
) -> list[tuple[TermMatch, ...]]:
    """Return for each of *rows* the terms by which it matches *question*, the heaviest first.

    *answers*: the words of the question that it answers count, too.
    """
    if not rows or not len(words.numbers):
        return [()] * len(rows)
    compared: list[tuple[int, int, MatchPosition]] = [(i, row, "here") for i, row in enumerate(rows)]
    if answers:
        answered = index.links.answers.rows[rows].tolist()
        compared += [(i, row, "question") for i, row in enumerate(answered) if row != NO_ROW]
    terms, starts = index.text_terms(np.array([row for _, row, _ in compared], dtype=np.int64), labels=True)
    distinct, places = renumber(terms, len(index.vocabulary))
    similarities = np.concatenate([block for _, block in term_similarities(words, distinct, index)], axis=1)
    weights = (words.weights / (words.total_weight or np.inf)).tolist()
    best: list[dict[int, TermMatch]] = [{} for _ in rows]
    for (i, _, where), own in zip(compared, np.split(places, starts[1:]), strict=True):
        ascending = sorted_distinct(own)
        nearest = ascending[similarities[ascending].argmax(axis=0)]
        for word, place in enumerate(nearest.tolist()):
            similarity = round(float(similarities[place, word]), 4)
            if similarity >= _MIN_SIMILARITY and (word not in best[i] or similarity > best[i][word].similarity):
                form = index.vocabulary.written_form(int(distinct[place]))
                best[i][word] = TermMatch(question.forms[word], form, similarity, weights[word], where)
    return [
        tuple(sorted(matches.values(), key=lambda match: (-match.similarity * match.weight, match.word)))
        for matches in best
    ]
