"""The scorer of conversation turns: weighted words of a window of turns, answered questions, speaker, time and kind.

The candidates are those of one store namespace; the features are pure functions (``features``, ``soft_matching``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import TextFeature, to_microseconds
from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.scoring.confidence import (
    ABSTENTION_LEVEL,
    TopicEvidence,
    attribution_margin,
    conversation_confidence,
    question_bonus,
    to_confidence_scale,
)
from tellback.memory.retrieval.scoring.features import (
    AnalyzedQuestion,
    NamespaceQuery,
    date_fit,
    has_any_term,
    has_text_feature,
    importance_scores,
    neighbour_window,
    participant_share,
    relevance_feedback,
    row_positions,
    scale_to_maximum,
    smooth_scores,
    smooth_word_matches,
    speaker_match,
    stated_after,
)
from tellback.memory.retrieval.scoring.lists import spread_scores
from tellback.memory.retrieval.scoring.same_topic import lead_with_newest
from tellback.memory.retrieval.scoring.scores import ScoredCandidates, positions_from_kth, sum_features, top_positions
from tellback.memory.retrieval.scoring.settings import AbstentionBounds, ConversationWeights
from tellback.memory.retrieval.scoring.soft_matching import (
    QuestionTerms,
    exact_match_shares,
    question_similarity,
    weigh_terms,
    weighted_sum,
    word_match,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_FEEDBACK_TURNS = 5
_RESCORED_CANDIDATES = 32
"""Candidates whose answered questions are compared: those that could still be among the first."""
_NO_WINDOW = (0.0, 0.0, 0.0, 0.0)
_ECHO_SHARE = 0.9
_ECHO_EXTRA_WORDS = 3
"""An echo is a turn that asked the same question before and states nothing: it has at least this share of the
question's words, and at most so many others."""
_TYPICAL_MEMORIES = 256
_ALL_WORDS = 0.999
"""Share of a question's words that a memory has which has all of them."""
_UNTOLD_TOPIC = 0.45
"""Confidence where a number is asked for, and none of the best turns has one."""
_NUMBERED_TURNS, _NUMBERED_SHARE = 5, 0.7
"""Best turns that are searched for a number, if they have this share of the best score."""
_YEAR_FIT = 0.3
"""Fit of a day in a year that is named; where a question asks for nothing but a time, that is an answer."""


def score_conversation(
    query: NamespaceQuery,
    rows: Rows,
    *,
    silent: Rows,
    weights: ConversationWeights,
    abstention: AbstentionBounds,
) -> ScoredCandidates:
    """Score the turns in *rows* of the index for the question; *silent* ones beside them state nothing.

    The words of a silent turn count for its neighbours, and prove nothing by themselves.
    """
    index, question, validity, frequencies = query.index, query.question, query.validity, query.frequencies
    ids = query.ids(rows)
    fit = date_fit(index, rows, question)
    if question.only_when:
        parts = _turn_parts(index, rows, question, fit, weights)
        parts["recency"] = weights.recency * _recency_ranks(index, rows)
        parts["importance"] = _importance_part(index, rows, parts, weights)
        topic = to_confidence_scale(float(fit.max(initial=0.0)), _YEAR_FIT)
        return ScoredCandidates(query.namespace, query.partition, tuple(ids), parts, topic)
    words = weigh_terms(question, index, frequencies)
    matches = _match_turns(query, rows, words, weights)
    bm25 = query.text_scores(question.text_without_names, ids)
    channel = _vector_channel(query, rows, weights)
    cover = _word_cover(matches.words, words) if channel.cover else 1.0
    session_weight = weights.session_several if question.asks_several else weights.session
    parts = {
        "words": cover * weights.words * scale_to_maximum(matches.words),
        "cosine": channel.cosine * scale_to_maximum(matches.cosine),
        "session": cover * session_weight * channel.session * _session_scores(index, rows, question, bm25),
        "echo": weights.echo * matches.is_echo.astype(np.float64),
        **_turn_parts(index, rows, question, fit, weights),
        "text": cover * weights.text * scale_to_maximum(bm25),
    }
    if weights.asked and (question.asks_several or not question.asks_time):
        parts["asked"] = weights.asked * _answered_question_scores(query, rows, words, matches.answered, parts)
    if question.asks_several:
        first = rows[top_positions(ids, sum_features(parts, len(ids)), _FEEDBACK_TURNS)]
        parts["feedback"] = weights.feedback * relevance_feedback(index, rows, first, frequencies)
    if question.excluded:
        best_total = float(sum_features(parts, len(ids)).max(initial=0.0))
        asks = has_text_feature(index, rows, TextFeature.ENDS_ASKING)  # it may set the same aside
        has_excluded = (1 - asks) * has_any_term(index, rows, question.excluded)
        parts["excluded"] = weights.excluded * best_total * has_excluded
    parts["importance"] = _importance_part(index, rows, parts, weights)
    if validity.as_of is not None:
        parts["later"] = weights.later * stated_after(index, rows, to_microseconds(validity.as_of))
    states = ~matches.is_echo
    unstated = np.concatenate([rows[~states], silent])
    seen = words.seen if not len(unstated) else _terms_seen_beside(query, unstated)
    total_weight = words.total_weight
    evidence = TopicEvidence(
        (matches.stated_words / total_weight if total_weight > 0 else matches.stated_words)[states],
        exact_match_shares(bm25, words)[states],
        None if matches.own_cosine is None else matches.own_cosine[states],
        question_bonus(words.bounded_weights, seen, question.is_proper),
        _is_told(index, rows)[states],
        _mean_cosine(query),
    )
    confidence = conversation_confidence(evidence, query.profile, abstention, frequencies.count)
    topic = confidence.topic
    if words.has_rare_term and float(evidence.soft.max(initial=0.0)) >= _ALL_WORDS:
        topic = max(topic, ABSTENTION_LEVEL)
    if question.asks_digits and not _has_number(index, rows, ids, sum_features(parts, len(ids))):
        topic = min(topic, _UNTOLD_TOPIC)
    zeros = np.zeros(len(ids))
    own_words = weights.words * scale_to_maximum(matches.own_words)
    own_parts = {**parts, "words": own_words, "speaker": zeros, "echo": zeros, "asked": zeros, "importance": zeros}
    lead = attribution_margin(index, rows, question, sum_features(own_parts, len(ids)))
    if question.asks_several and lead >= abstention.lead:  # else somebody else stated it, and there is no list
        parts["spread"] = weights.spread * spread_scores(index, rows, ids, sum_features(parts, len(ids)))
    candidates = ScoredCandidates(
        query.namespace,
        query.partition,
        tuple(ids),
        parts,
        topic,
        lead,
        is_near=confidence.is_near,
        asks_several=question.asks_several,
    )
    return lead_with_newest(candidates, query, rows)


def _has_number(index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats) -> bool:
    """Return whether one of the rows whose scores *totals* are near the best has a number."""
    best = top_positions(ids, totals, _NUMBERED_TURNS)
    near = [i for i in best if totals[i] >= _NUMBERED_SHARE * totals[best[0]]]
    return bool(near) and bool(has_text_feature(index, rows[near], TextFeature.NUMBER).any())


def _is_told(index: RetrievalIndex, rows: Rows) -> NDArray[np.bool_]:
    """Return which of *rows* are notes, or turns of the one person who talks here, with an assistant."""
    columns = index.fields(rows)
    is_own = index.spoken_alone(columns["speaker"]) & ~columns["assistant"]
    return np.asarray((columns["session"] == NO_SESSION) | is_own)


def _mean_cosine(query: NamespaceQuery) -> float:
    """Return the mean cosine of the question with the typical memories; 0 without vectors."""
    cosines = query.cosines(_typical_rows(query.index))
    finite = np.zeros(0) if cosines is None else cosines[np.isfinite(cosines)]
    return float(finite.mean()) if len(finite) else 0.0


def _typical_rows(index: RetrievalIndex) -> Rows:
    """Return ``_TYPICAL_MEMORIES`` rows, evenly spread.

    What states nothing is left out: a question is near to other questions.
    """
    alive = np.flatnonzero(index.alive.rows)
    spread = alive[:: -(-len(alive) // _TYPICAL_MEMORIES) or 1]
    return np.asarray(spread[~index.hidden_utterances(spread)], dtype=np.int64)


def _terms_seen_beside(query: NamespaceQuery, unstated: Rows) -> NDArray[np.bool_]:
    """Return which terms of the question occur in another memory than those *unstated*."""
    index, terms = query.index, query.question.terms
    text_terms, starts = index.text_terms(unstated)
    numbers = [index.vocabulary.find(term) for term in terms]
    unproven = [int(np.count_nonzero(np.logical_or.reduceat(text_terms == number, starts))) for number in numbers]
    return np.asarray(np.array(query.frequencies.df(terms)) > np.array(unproven, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class _TurnMatches:
    """Matches of turns with the words and the vector of a question.

    *words* counts the words of neighbouring turns in part, *own_words* only those of the turn itself and of the
    question that it answers; likewise *cosine* and *own_cosine* (NaN without a vector; None where the question has
    none). *by_word* has each word in the turn itself. *is_echo* marks turns that only asked the same question and prove
    nothing: *stated_words* is *words* without theirs. *answered* are the rows of the questions that the turns may
    answer.
    """

    words: Floats
    stated_words: Floats
    own_words: Floats
    by_word: NDArray[np.float32]
    cosine: Floats
    own_cosine: Floats | None
    is_echo: NDArray[np.bool_]
    answered: Rows


def _match_turns(query: NamespaceQuery, rows: Rows, words: QuestionTerms, weights: ConversationWeights) -> _TurnMatches:
    index = query.index
    window = neighbour_window(index.links, rows)
    distinct = window.distinct_rows()
    if len(invalid := distinct[query.validity.hidden(index, distinct)]):
        hidden = np.zeros(len(index.ids), dtype=np.bool_)
        hidden[invalid] = True
        window = window.without(hidden)
    if (alone := index.monologues(rows)).any():
        window = window.without_statements(index.columns["demotion"] == 0, of=alone)
    positions = row_positions(distinct, len(index.ids))
    smoothed = stated_words = own_words = np.zeros(len(rows))
    by_word = np.zeros((len(rows), len(words.numbers)), dtype=np.float32)
    is_echo = np.zeros(len(rows), dtype=np.bool_)
    echoes = np.zeros(0, dtype=np.int64)
    if len(words.numbers):
        match = np.concatenate([word_match(words, distinct, index), np.zeros((1, len(words.numbers)), np.float32)])
        by_word = match[positions[rows]]
        smoothed = stated_words = weighted_sum(
            smooth_word_matches(match, window, positions, weights.word_window), words
        )
        own_words = weighted_sum(smooth_word_matches(match, window, positions, _NO_WINDOW), words)
        echoes = np.flatnonzero(_detect_echoes(index, distinct, words, match[:-1]))
        if len(echoes):
            is_echo[:] = np.isin(rows, distinct[echoes])
            match[echoes] = 0.0  # an echo is no evidence for its neighbours either, except for its answer (*own_words*)
            stated_words = weighted_sum(smooth_word_matches(match, window, positions, weights.word_window), words)
            smoothed = np.maximum(stated_words, own_words)
    similarities = query.cosines(np.concatenate([distinct, _typical_rows(index)]))  # all at once is cheaper
    if similarities is None:
        return _TurnMatches(
            smoothed, stated_words, own_words, by_word, np.zeros(len(rows)), None, is_echo, window.answered
        )
    cosines = np.append(similarities[: len(distinct)], 0.0)
    finite = np.nan_to_num(cosines)
    finite[echoes] = 0.0
    cosine = smooth_scores(finite, window, positions, weights.cosine_window)
    own_cosine = np.asarray(cosines[positions[rows]], dtype=np.float64)
    return _TurnMatches(smoothed, stated_words, own_words, by_word, cosine, own_cosine, is_echo, window.answered)


@dataclass(frozen=True, slots=True)
class _VectorChannel:
    """Weight of the *cosine* of each row, and of the *session*, by the profile of the embedder.

    *cover*: the weight of words falls with the share of the question that they leave open.
    """

    cosine: Floats
    session: Floats
    cover: bool


def _vector_channel(query: NamespaceQuery, rows: Rows, weights: ConversationWeights) -> _VectorChannel:
    alone = query.index.columns["session"][rows] == NO_SESSION
    profile = query.profile
    turns, notes = (profile.turns, profile.notes) if weights.cosine is None else (weights.cosine, weights.cosine)
    if query.vector is None:
        return _VectorChannel(np.zeros(len(rows)), np.ones(len(rows)), cover=False)
    session = np.where(alone, profile.note_session, 1.0)
    return _VectorChannel(np.where(alone, notes, turns), session, profile.cover)


def _word_cover(matches: Floats, words: QuestionTerms) -> float:
    """Return the share of the question's weight that the best row matches, in [0, 1]; 1 for a question of no words."""
    total = words.total_weight
    return min(1.0, float(matches.max(initial=0.0)) / total) if total > 0 else 1.0


def _answered_question_scores(
    query: NamespaceQuery, rows: Rows, words: QuestionTerms, answered: Rows, parts: Mapping[str, Floats]
) -> Floats:
    """Return the similarity of the question with the one that each of the likeliest *rows* answers, else 0.

    Where the question names participants, only their answers count. Earlier answers of the assistant do not count: they
    were made from memories that are candidates themselves, or from none.
    """
    index, question = query.index, query.question
    likely = positions_from_kth(sum_features(parts, len(rows)), _RESCORED_CANDIDATES)
    likely = likely[~index.columns["assistant"][rows[likely]]]
    if question.participants and len(index.participants.present()) > 1:
        likely = likely[np.isin(index.columns["speaker"][rows[likely]], question.participants)]
    similarities = np.zeros(len(rows))
    similarities[likely] = question_similarity(words, answered[likely], index, query.frequencies)
    return similarities


def _turn_parts(
    index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion, fit: Floats, weights: ConversationWeights
) -> dict[str, Floats]:
    """Return the parts of the score that need no word of the question: speaker, session, form, kind and date.

    *fit* is that of the dates that the question names.
    """
    return {
        "speaker": weights.speaker * speaker_match(index, rows, question),
        "participant": weights.participant * participant_share(index, rows, question),
        "turn": weights.ends_asking * has_text_feature(index, rows, TextFeature.ENDS_ASKING)
        + weights.first_person * has_text_feature(index, rows, TextFeature.FIRST_PERSON),
        "kind": _answer_kind_scores(index, rows, question, weights),
        "date": weights.date * fit,
    }


def _importance_part(
    index: RetrievalIndex, rows: Rows, parts: Mapping[str, Floats], weights: ConversationWeights
) -> Floats:
    return weights.importance * importance_scores(index.columns["importance"][rows], sum_features(parts, len(rows)))


def _recency_ranks(index: RetrievalIndex, rows: Rows) -> Floats:
    """Return the rank of each row by day, recorded time and id, scaled to (0, 1]; the latest has 1."""
    days, recorded = index.columns["day"][rows].tolist(), index.columns["recorded_at"][rows].tolist()
    oldest_first = sorted(range(len(rows)), key=lambda i: (days[i], recorded[i], index.ids[rows[i]]))
    ranks = np.empty(len(rows))
    ranks[oldest_first] = np.arange(1, len(rows) + 1)
    return np.asarray(ranks / max(len(rows), 1))


def _session_scores(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion, bm25: Floats) -> Floats:
    """Return BM25 of each row's session; a memory without a session has its own *bm25* instead."""
    sessions = index.columns["session"][rows]
    alone = sessions == NO_SESSION
    numbers = [number for term in question.all_terms if (number := index.vocabulary.find(term))]
    by_session = index.session_bm25.scores(numbers)
    scores = np.zeros(len(rows))
    if len(by_session):
        scores[~alone] = by_session[sessions[~alone]]
    scores = scale_to_maximum(scores)
    scores[alone] = scale_to_maximum(bm25)[alone]
    return scores


def _detect_echoes(
    index: RetrievalIndex, rows: Rows, words: QuestionTerms, match: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Return which of *rows*, with their word *match*, only asked the same question."""
    terms, starts = index.text_terms(rows)
    is_short = np.diff(starts, append=len(terms)) <= len(words.numbers) + 1 + _ECHO_EXTRA_WORDS  # and the end mark
    asks = has_text_feature(index, rows, TextFeature.ENDS_ASKING) > 0
    return np.asarray(is_short & asks & (weighted_sum(match, words) >= _ECHO_SHARE * words.total_weight))


def _answer_kind_scores(
    index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion, weights: ConversationWeights
) -> Floats:
    """Return the scores of text features that an answer to this kind of question has: a time, a name, a number."""
    total = np.zeros(len(rows))
    if question.asks_time:
        numbers = has_text_feature(index, rows, TextFeature.NUMBER)
        total = total + weights.time * (has_text_feature(index, rows, TextFeature.TIME) + weights.time_number * numbers)
    if question.asks_place:
        total = total + weights.place * has_text_feature(index, rows, TextFeature.NAME)
    if question.asks_number:
        total = total + weights.number * has_text_feature(index, rows, TextFeature.NUMBER)
    return total
