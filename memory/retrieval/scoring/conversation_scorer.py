"""The scorer of conversation turns: weighted words of a window of turns, answered questions, speaker, time and kind.

It scores candidates of one store namespace; the features are pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import TextFeature, to_microseconds
from memory.retrieval.index.record_batch import NO_SESSION
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.validity import ValidityFilter
from memory.retrieval.scoring.confidence import (
    attribution_margin,
    question_bonus,
    to_confidence_scale,
    topic_confidence,
)
from memory.retrieval.scoring.features import (
    date_fit,
    has_text_feature,
    participant_share,
    relevance_feedback,
    scale_to_maximum,
    speaker_match,
)
from memory.retrieval.scoring.neighbour_window import (
    neighbour_window,
    row_positions,
    smooth_scores,
    smooth_word_matches,
)
from memory.retrieval.scoring.question import AnalyzedQuestion
from memory.retrieval.scoring.scores import ScoredCandidates, positions_from_kth, sum_features, top_positions
from memory.retrieval.scoring.settings import AbstentionBounds, ConversationWeights
from memory.retrieval.scoring.soft_matching import (
    QuestionTerms,
    exact_match_shares,
    question_similarity,
    weigh_terms,
    weighted_sum,
    word_match,
)
from memory.retrieval.scoring.superseded import promote_newest, stated_after
from vectorstore import Vector, View

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_FEEDBACK_TURNS = 5
_RESCORED_CANDIDATES = 32
"""Candidates whose questions are looked into: those that could still be among the first."""
_NO_WINDOW = (0.0, 0.0, 0.0, 0.0)
_ECHO_SHARE = 0.9
_ECHO_EXTRA_WORDS = 3
"""A question that was asked once holds so much of this one's words, and so many others at most: it answers nothing."""
_YEAR_FIT = 0.3
"""How well what lies in a year that is named fits it; where nothing but a time is asked for, that is an answer."""


def score_conversation(
    view: View,
    namespace: str,
    index: RetrievalIndex,
    rows: Rows,
    question: AnalyzedQuestion,
    vector: Vector | None,
    *,
    lane: str,
    standing: ValidityFilter,
    weights: ConversationWeights,
    doubt: AbstentionBounds,
) -> ScoredCandidates:
    """Score *rows* of *index* for *question*."""
    ids = [index.ids[row] for row in rows.tolist()]
    count = view.count(namespace=namespace)

    def df(terms: Sequence[str]) -> list[int]:
        return view.df(terms, namespace=namespace)

    dated = date_fit(index, rows, question)
    if question.only_when:
        parts = {"date": weights.date * dated, "recency": weights.recency * _recency_ranks(index, rows)}
        return ScoredCandidates(
            namespace, lane, tuple(ids), parts, to_confidence_scale(float(dated.max(initial=0.0)), _YEAR_FIT)
        )
    words = weigh_terms(question, index, df, count)
    matched = _match_turns(view, namespace, index, rows, words, vector, standing=standing, weights=weights)
    near = matched.near
    bare = view.score_text(question.bare, ids, namespace=namespace)
    session = weights.session_several if question.asks_several else weights.session
    parts = {
        "words": weights.words * scale_to_maximum(near),
        "cosine": weights.cosine * scale_to_maximum(matched.cosine),
        "speaker": weights.speaker * speaker_match(index, rows, question),
        "participant": weights.participant * participant_share(index, rows, question),
        "session": session * _session_scores(index, rows, question, bare),
        "echo": weights.echo * matched.echoes.astype(np.float64),
        "turn": weights.ends_asking * has_text_feature(index, rows, TextFeature.ENDS_ASKING)
        + weights.first_person * has_text_feature(index, rows, TextFeature.FIRST_PERSON),
        "kind": _answer_kind_scores(index, rows, question, weights),
        "date": weights.date * dated,
        "text": weights.text * scale_to_maximum(bare),
    }
    if weights.asked:
        parts["asked"] = weights.asked * _answered_question_scores(
            index, rows, question, words, matched.answered, parts, df, count
        )
    if question.asks_several:
        best = rows[top_positions(ids, sum_features(parts, len(ids)), _FEEDBACK_TURNS)]
        parts["feedback"] = weights.feedback * relevance_feedback(index, rows, best, df, count)
    if standing.as_of is not None:
        parts["later"] = weights.later * stated_after(index, rows, to_microseconds(standing.as_of))
    newer: dict[int, int] = {}
    if weights.newest and question.asks_state and not (question.asks_several or question.dates):
        moment = to_microseconds(standing.as_of or standing.now)
        change = promote_newest(index, rows, ids, sum_features(parts, len(ids)), words, moment)
        parts["newest"], newer = change.scores, change.newer
    tells = ~matched.echoes
    seen = words.seen if tells.all() else np.array(df(question.terms)) > np.count_nonzero(~tells)
    topic = topic_confidence(
        (matched.told / words.total if words.total > 0 else matched.told)[tells],
        exact_match_shares(bare, words)[tells],
        None if matched.own_cosine is None else matched.own_cosine[tells],
        more=question_bonus(words.bounded, seen, question.named),
        bounds=doubt.of_conversation(count),
    )
    nothing = np.zeros(len(ids))
    own_words = weights.words * scale_to_maximum(matched.own)
    told = {**parts, "words": own_words, "speaker": nothing, "echo": nothing, "asked": nothing}
    ahead = attribution_margin(index, rows, question, sum_features(told, len(ids)))
    return ScoredCandidates(namespace, lane, tuple(ids), parts, topic, ahead, newer)


@dataclass(frozen=True, slots=True)
class _TurnMatches:
    """What rows match of a question's words and meaning.

    *near* counts the words of the turns around in part, *own* only those of the turn and of the question it answers;
    so do *cosine* and *own_cosine* (NaN without a vector; None where the question has none). *echoes* only asked the
    same once and prove nothing: *told* is *near* without their words. *answered* are the rows
    of the questions that they may answer.
    """

    near: Floats
    told: Floats
    own: Floats
    cosine: Floats
    own_cosine: Floats | None
    echoes: NDArray[np.bool_]
    answered: Rows


def _match_turns(
    view: View,
    namespace: str,
    index: RetrievalIndex,
    rows: Rows,
    words: QuestionTerms,
    vector: Vector | None,
    *,
    standing: ValidityFilter,
    weights: ConversationWeights,
) -> _TurnMatches:
    surroundings = neighbour_window(index.order, rows)
    every = surroundings.every()
    hidden = np.zeros(len(index.ids), dtype=np.bool_)
    hidden[every[standing.hidden(index, every)]] = True
    surroundings = surroundings.without(hidden)
    place = row_positions(every, len(index.ids))
    near = told = own = np.zeros(len(rows))
    echoes = np.zeros(len(rows), dtype=np.bool_)
    asked_before = np.zeros(0, dtype=np.int64)
    if len(words.numbers):
        match = np.concatenate([word_match(words, every, index), np.zeros((1, len(words.numbers)), np.float32)])
        near = told = weighted_sum(smooth_word_matches(match, surroundings, place, weights.word_window), words)
        own = weighted_sum(smooth_word_matches(match, surroundings, place, _NO_WINDOW), words)
        asked_before = np.flatnonzero(_detect_echoes(index, every, words, match[:-1]))
        if len(asked_before):
            echoes[:] = np.isin(rows, every[asked_before])
            match[asked_before] = 0.0  # nor do they say anything of the turns beside them, but for their answer
            told = weighted_sum(smooth_word_matches(match, surroundings, place, weights.word_window), words)
            near = np.maximum(told, own)
    if vector is None:
        return _TurnMatches(near, told, own, np.zeros(len(rows)), None, echoes, surroundings.answers)
    ids = [index.ids[row] for row in every.tolist()]
    cosines = np.append(view.similarity(vector, ids, namespace=namespace), 0.0)
    near_in_meaning = np.nan_to_num(cosines)
    near_in_meaning[asked_before] = 0.0
    smoothed = smooth_scores(near_in_meaning, surroundings, place, weights.cosine_window)
    own_cosine = np.asarray(cosines[place[rows]], dtype=np.float64)
    return _TurnMatches(near, told, own, smoothed, own_cosine, echoes, surroundings.answers)


def _answered_question_scores(
    index: RetrievalIndex,
    rows: Rows,
    question: AnalyzedQuestion,
    words: QuestionTerms,
    answered: Rows,
    parts: Mapping[str, Floats],
    df: Callable[[Sequence[str]], list[int]],
    count: int,
) -> Floats:
    """How near the question is that each of the likeliest *rows* answers, where it is answered by who is named.

    What the assistant answered once is no news: it was found here, or it was not.
    """
    likely = positions_from_kth(sum_features(parts, len(rows)), _RESCORED_CANDIDATES)
    likely = likely[~index.assistant.rows[rows[likely]]]
    if question.people and len(index.people.present()) > 1:
        likely = likely[np.isin(index.speaker.rows[rows[likely]], question.people)]
    near = np.zeros(len(rows))
    near[likely] = question_similarity(words, answered[likely], index, df, count)
    return near


def _recency_ranks(index: RetrievalIndex, rows: Rows) -> Floats:
    """The place of each row in order of day, of writing and of id, in [0, 1]; the latest has 1."""
    days, written = index.day.rows[rows].tolist(), index.recorded_at.rows[rows].tolist()
    order = sorted(range(len(rows)), key=lambda at: (days[at], written[at], index.ids[rows[at]]))
    place = np.empty(len(rows))
    place[order] = np.arange(1, len(rows) + 1)
    return np.asarray(place / max(len(rows), 1))


def _session_scores(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion, text: Floats) -> Floats:
    """BM25 of each row's session; a memory of no session is one of its own, and has that of its *text*."""
    sessions = index.session.rows[rows]
    alone = sessions == NO_SESSION
    numbers = [number for term in question.all_terms if (number := index.stems.find(term))]
    by_session = index.session_terms.scores(numbers)
    result = np.zeros(len(rows))
    if len(by_session):
        result[~alone] = by_session[sessions[~alone]]
    result = scale_to_maximum(result)
    result[alone] = scale_to_maximum(text)[alone]
    return result


def _detect_echoes(
    index: RetrievalIndex, rows: Rows, words: QuestionTerms, match: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Which *rows*, that *match* so, only asked the same."""
    terms, starts = index.text_terms(rows)
    short = np.diff(starts, append=len(terms)) <= len(words.numbers) + 1 + _ECHO_EXTRA_WORDS  # and the mark at its end
    asks = has_text_feature(index, rows, TextFeature.ENDS_ASKING) > 0
    return np.asarray(short & asks & (weighted_sum(match, words) >= _ECHO_SHARE * words.total))


def _answer_kind_scores(
    index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion, weights: ConversationWeights
) -> Floats:
    total = np.zeros(len(rows))
    if question.asks_time:
        timed = has_text_feature(index, rows, TextFeature.TIME) + weights.time_number * has_text_feature(
            index, rows, TextFeature.NUMBER
        )
        total = total + weights.time * timed
    if question.asks_place:
        total = total + weights.place * has_text_feature(index, rows, TextFeature.NAME)
    if question.asks_number:
        total = total + weights.number * has_text_feature(index, rows, TextFeature.NUMBER)
    return total
