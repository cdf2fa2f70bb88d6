"""The scorer of conversation turns: weighted words of a window of turns, answered questions, speaker, time and kind.

It scores candidates of one store namespace; the features are pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import Cue, micros
from memory.retrieval.index.record_batch import NO_SESSION
from memory.retrieval.index.retrieval_index import Index
from memory.retrieval.index.validity import Standing
from memory.retrieval.scoring.confidence import about, lead, of_words, on_scale
from memory.retrieval.scoring.features import (
    cue,
    date_named,
    feedback,
    largest_to_one,
    named_take_part,
    said_by_named,
)
from memory.retrieval.scoring.neighbour_window import around, places, smoothed_scores, smoothed_words
from memory.retrieval.scoring.question import Question
from memory.retrieval.scoring.scores import Scored, at_least_kth, best_first, summed
from memory.retrieval.scoring.settings import ConversationWeights, Doubt
from memory.retrieval.scoring.soft_matching import Words, exact_shares, question_match, weighed, word_match, words_of
from memory.retrieval.scoring.superseded import newest_first, said_later
from vectorstore import Vector, View

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_FEEDBACK_FROM = 5
_LOOKED_INTO = 32
"""Candidates whose questions are looked into: those that could still be among the first."""
_ALONE = (0.0, 0.0, 0.0, 0.0)
_ECHO = 0.9
_MORE = 3
"""A question that was asked once holds so much of this one's words, and so many others at most: it answers nothing."""
_YEAR = 0.3
"""How well what lies in a year that is named fits it; where nothing but a time is asked for, that is an answer."""


def score_conversation(
    view: View,
    namespace: str,
    index: Index,
    rows: Rows,
    question: Question,
    vector: Vector | None,
    *,
    lane: str,
    standing: Standing,
    weights: ConversationWeights,
    doubt: Doubt,
) -> Scored:
    """Score *rows* of *index* for *question*."""
    ids = [index.ids[row] for row in rows.tolist()]
    count = view.count(namespace=namespace)

    def df(terms: Sequence[str]) -> list[int]:
        return view.df(terms, namespace=namespace)

    dated = date_named(index, rows, question)
    if question.only_when:
        parts = {"date": weights.date * dated, "recency": weights.recency * _recency(index, rows)}
        return Scored(namespace, lane, tuple(ids), parts, on_scale(float(dated.max(initial=0.0)), _YEAR))
    words = words_of(question, index, df, count)
    matched = _matched(view, namespace, index, rows, words, vector, standing=standing, weights=weights)
    near = matched.near
    bare = view.score_text(question.bare, ids, namespace=namespace)
    session = weights.session_several if question.asks_several else weights.session
    parts = {
        "words": weights.words * largest_to_one(near),
        "cosine": weights.cosine * largest_to_one(matched.cosine),
        "speaker": weights.speaker * said_by_named(index, rows, question),
        "participant": weights.participant * named_take_part(index, rows, question),
        "session": session * _session(index, rows, question, bare),
        "echo": weights.echo * matched.echoes.astype(np.float64),
        "turn": weights.ends_asking * cue(index, rows, Cue.ENDS_ASKING)
        + weights.first_person * cue(index, rows, Cue.FIRST_PERSON),
        "kind": _kind(index, rows, question, weights),
        "date": weights.date * dated,
        "text": weights.text * largest_to_one(bare),
    }
    if weights.asked:
        parts["asked"] = weights.asked * _asked(index, rows, question, words, matched.answered, parts, df, count)
    if question.asks_several:
        best = rows[best_first(ids, summed(parts, len(ids)), _FEEDBACK_FROM)]
        parts["feedback"] = weights.feedback * feedback(index, rows, best, df, count)
    if standing.as_of is not None:
        parts["later"] = weights.later * said_later(index, rows, micros(standing.as_of))
    newer: dict[int, int] = {}
    if weights.newest and question.asks_state and not (question.asks_several or question.dates):
        moment = micros(standing.as_of or standing.now)
        change = newest_first(index, rows, ids, summed(parts, len(ids)), words, moment)
        parts["newest"], newer = change.scores, change.newer
    tells = ~matched.echoes
    seen = words.seen if tells.all() else np.array(df(question.terms)) > np.count_nonzero(~tells)
    topic = about(
        (matched.told / words.total if words.total > 0 else matched.told)[tells],
        exact_shares(bare, words)[tells],
        None if matched.own_cosine is None else matched.own_cosine[tells],
        more=of_words(words.bounded, seen, question.named),
        bounds=doubt.of_conversation(count),
    )
    nothing = np.zeros(len(ids))
    own_words = weights.words * largest_to_one(matched.own)
    told = {**parts, "words": own_words, "speaker": nothing, "echo": nothing, "asked": nothing}
    ahead = lead(index, rows, question, summed(told, len(ids)))
    return Scored(namespace, lane, tuple(ids), parts, topic, ahead, newer)


@dataclass(frozen=True, slots=True)
class _Match:
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


def _matched(
    view: View,
    namespace: str,
    index: Index,
    rows: Rows,
    words: Words,
    vector: Vector | None,
    *,
    standing: Standing,
    weights: ConversationWeights,
) -> _Match:
    surroundings = around(index.order, rows)
    every = surroundings.every()
    hidden = np.zeros(len(index.ids), dtype=np.bool_)
    hidden[every[standing.hidden(index, every)]] = True
    surroundings = surroundings.without(hidden)
    place = places(every, len(index.ids))
    near = told = own = np.zeros(len(rows))
    echoes = np.zeros(len(rows), dtype=np.bool_)
    asked_before = np.zeros(0, dtype=np.int64)
    if len(words.numbers):
        match = np.concatenate([word_match(words, every, index), np.zeros((1, len(words.numbers)), np.float32)])
        near = told = weighed(smoothed_words(match, surroundings, place, weights.word_window), words)
        own = weighed(smoothed_words(match, surroundings, place, _ALONE), words)
        asked_before = np.flatnonzero(_echoes(index, every, words, match[:-1]))
        if len(asked_before):
            echoes[:] = np.isin(rows, every[asked_before])
            match[asked_before] = 0.0  # nor do they say anything of the turns beside them, but for their answer
            told = weighed(smoothed_words(match, surroundings, place, weights.word_window), words)
            near = np.maximum(told, own)
    if vector is None:
        return _Match(near, told, own, np.zeros(len(rows)), None, echoes, surroundings.answers)
    ids = [index.ids[row] for row in every.tolist()]
    cosines = np.append(view.similarity(vector, ids, namespace=namespace), 0.0)
    near_in_meaning = np.nan_to_num(cosines)
    near_in_meaning[asked_before] = 0.0
    smoothed = smoothed_scores(near_in_meaning, surroundings, place, weights.cosine_window)
    own_cosine = np.asarray(cosines[place[rows]], dtype=np.float64)
    return _Match(near, told, own, smoothed, own_cosine, echoes, surroundings.answers)


def _asked(
    index: Index,
    rows: Rows,
    question: Question,
    words: Words,
    answered: Rows,
    parts: Mapping[str, Floats],
    df: Callable[[Sequence[str]], list[int]],
    count: int,
) -> Floats:
    """How near the question is that each of the likeliest *rows* answers, where it is answered by who is named.

    What the assistant answered once is no news: it was found here, or it was not.
    """
    likely = at_least_kth(summed(parts, len(rows)), _LOOKED_INTO)
    likely = likely[~index.assistant.rows[rows[likely]]]
    if question.people and len(index.people.present()) > 1:
        likely = likely[np.isin(index.speaker.rows[rows[likely]], question.people)]
    near = np.zeros(len(rows))
    near[likely] = question_match(words, answered[likely], index, df, count)
    return near


def _recency(index: Index, rows: Rows) -> Floats:
    """The place of each row in order of day, of writing and of id, in [0, 1]; the latest has 1."""
    days, written = index.day.rows[rows].tolist(), index.recorded_at.rows[rows].tolist()
    order = sorted(range(len(rows)), key=lambda at: (days[at], written[at], index.ids[rows[at]]))
    place = np.empty(len(rows))
    place[order] = np.arange(1, len(rows) + 1)
    return np.asarray(place / max(len(rows), 1))


def _session(index: Index, rows: Rows, question: Question, text: Floats) -> Floats:
    """BM25 of each row's session; a memory of no session is one of its own, and has that of its *text*."""
    sessions = index.session.rows[rows]
    alone = sessions == NO_SESSION
    numbers = [number for term in question.all_terms if (number := index.stems.find(term))]
    by_session = index.session_terms.scores(numbers)
    result = np.zeros(len(rows))
    if len(by_session):
        result[~alone] = by_session[sessions[~alone]]
    result = largest_to_one(result)
    result[alone] = largest_to_one(text)[alone]
    return result


def _echoes(index: Index, rows: Rows, words: Words, match: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which *rows*, that *match* so, only asked the same."""
    terms, starts = index.text_terms(rows)
    short = np.diff(starts, append=len(terms)) <= len(words.numbers) + 1 + _MORE  # and the mark at its end
    asks = cue(index, rows, Cue.ENDS_ASKING) > 0
    return np.asarray(short & asks & (weighed(match, words) >= _ECHO * words.total))


def _kind(index: Index, rows: Rows, question: Question, weights: ConversationWeights) -> Floats:
    total = np.zeros(len(rows))
    if question.asks_time:
        timed = cue(index, rows, Cue.TIME) + weights.time_number * cue(index, rows, Cue.NUMBER)
        total = total + weights.time * timed
    if question.asks_place:
        total = total + weights.place * cue(index, rows, Cue.NAME)
    if question.asks_number:
        total = total + weights.number * cue(index, rows, Cue.NUMBER)
    return total
