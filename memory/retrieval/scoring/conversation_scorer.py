"""The scorer of conversations: a matrix of features, one weighted sum, reorderings in a declared order, one confidence.

What one person told (notes, turns with an assistant) is found by its meaning and its rare words. A turn between people
says half of what it means: its session, its speaker and the question that it answers count, too. Which features count
for which, and how much, is in ``weights.json``; each is there because it gained on texts that nobody tuned on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.designations import contradicts, has_designations
from tellback.memory.analysis.heads import head, letter_groups
from tellback.memory.analysis.texts import NOT_FACTUAL, Trait
from tellback.memory.currency import Bounds, Claim, Statements, bounds, currency_features, replaces, taken_back
from tellback.memory.embedders.profile import EmbedderProfile
from tellback.memory.models import Trust
from tellback.memory.retrieval.index.record import TextFeature, to_microseconds
from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.turn_links import NO_ROW
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.scoring.confidence import (
    ABSTENTION_LEVEL,
    AnswerEvidence,
    TopicConfidence,
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
    scale_to_maximum,
    speaker_match,
    stated_after,
)
from tellback.memory.retrieval.scoring.scores import ScoredCandidates, positions_from_kth, sum_features, top_positions
from tellback.memory.retrieval.scoring.settings import AbstentionBounds, RecallSettings
from tellback.memory.retrieval.scoring.soft_matching import (
    QuestionTerms,
    exact_match_shares,
    question_similarity,
    weigh_terms,
    weighted_sum,
    word_match,
)
from tellback.vectorstore.internals import sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_RESCORED_CANDIDATES = 32
"""Candidates whose answered questions are compared: those that could still be among the first."""
_SET_ASIDE = -0.5
"""Share of the best score that a memory loses which has what the question sets aside ("besides Rome")."""
_STATED_LATER = -1.0
_COMPARED = 20
"""Best candidates whose currency is compared: of these, the fitted weights know."""
_LEAD = 1e-6
"""Share of the best score by which one that replaces the first stands above it."""
_MARKED = 5
"""Best candidates among which older ones are marked as outdated."""
_ASKS_PAST = 0.4
"""Probability from which a question asks about a time that is past."""
_DISTRUST = 0.1
"""Share of its score that a memory loses which is trusted less than its user."""
_RECENCY = 0.05
_TYPICAL_MEMORIES = 256
_ALL_WORDS = 0.999
"""Share of a question's words that a memory has which has all of them."""
_UNTOLD_TOPIC = 0.45
"""Confidence where a number is asked for, and none of the best turns has one, or the number of another thing."""
_NUMBERED_TURNS, _NUMBERED_SHARE = 5, 0.7
"""Best turns that are searched for a number, if they have this share of the best score."""
_NAMED_HITS = 3
"""Best memories one of which has the number that the question names, else another thing is meant."""
_YEAR_FIT = 0.3
"""Fit of a day in a year that is named; where a question asks for nothing but a time, that is an answer."""


@dataclass(frozen=True, slots=True)
class ConversationFeatures:
    """Features of *rows*, in columns of one value a row; what confidence needs of them lies beside.

    *told* marks what one person told, in a note or to an assistant. *stated_words* has the words of the turn itself,
    *cosine* its similarity, NaN without a vector (None where the question has none).
    """

    rows: Rows
    columns: Mapping[str, Floats]
    told: NDArray[np.bool_]
    words: QuestionTerms
    stated_words: Floats
    text: Floats
    cosine: Floats | None

    def parts(self, settings: RecallSettings, profile: EmbedderProfile) -> dict[str, Floats]:
        """Return the features as parts of a score: each weighed as for what was told, or as for a talk."""
        told, dialogue = {"cosine": profile.notes, **settings.told}, {"cosine": profile.turns, **settings.dialogue}
        return {
            name: np.where(self.told, told.get(name, 0.0), dialogue.get(name, 0.0)) * column
            for name, column in self.columns.items()
        }


def score_conversation(
    query: NamespaceQuery,
    rows: Rows,
    *,
    silent: Rows,
    settings: RecallSettings,
) -> ScoredCandidates:
    """Score the turns in *rows* of the index for the question; *silent* ones beside them state nothing."""
    ids, question = query.ids(rows), query.question
    if question.only_when:
        fit = date_fit(query.index, rows, question)
        parts = {"date": fit, "recency": _RECENCY * _recency_ranks(query.index, rows)}
        topic = to_confidence_scale(float(fit.max(initial=0.0)), _YEAR_FIT)
        return ScoredCandidates(query.namespace, query.partition, tuple(ids), parts, topic)
    features = conversation_features(query, rows)
    parts = features.parts(settings, query.profile)
    parts["asked"] = parts["asked"] * _answered_question_scores(query, features, parts)
    if features.told.any() and not features.told.all():
        parts["talk"] = _beside_notes(features, ids, parts, settings, query.profile)
    for name, reorder in REORDERINGS.items():
        change = reorder(query, rows, sum_features(parts, len(ids)))
        if change is not None:
            parts[name] = change
    confidence = _confidence(query, features, silent, settings.abstention, sum_features(parts, len(ids)))
    lead = attribution_margin(query.index, rows, question, features.stated_words)
    candidates = ScoredCandidates(
        query.namespace,
        query.partition,
        tuple(ids),
        parts,
        confidence.topic,
        lead,
        is_near=confidence.is_near,
        is_likely=confidence.is_likely,
        asks_several=question.asks_several,
    )
    return _with_currency(candidates, query, features, settings)


def conversation_features(query: NamespaceQuery, rows: Rows) -> ConversationFeatures:
    """Return the features of *rows* for the question of *query*; each is in [0, 1] or a share of the best cosine.

    *asked* is 1 for all here: to compare the questions that turns answer takes long, so only the likeliest are.
    """
    index, question = query.index, query.question
    words = weigh_terms(question, index, query.frequencies)
    text = query.text_scores(question.text_without_names, query.ids(rows))
    own_words, stated_words = _word_matches(index, rows, words)
    cosine = query.cosines(rows)
    columns = {
        "words": scale_to_maximum(own_words),
        "text": scale_to_maximum(text),
        "cosine": np.zeros(len(rows)) if cosine is None else scale_to_maximum(np.nan_to_num(cosine)),
        "session": _session_scores(index, rows, question),
        "asked": np.ones(len(rows)),
        "speaker": speaker_match(index, rows, question),
        "time": has_text_feature(index, rows, TextFeature.TIME) * question.asks_time,
        "date": date_fit(index, rows, question),
    }
    return ConversationFeatures(rows, columns, ~index.between_people(rows), words, stated_words, text, cosine)


def _beside_notes(
    features: ConversationFeatures,
    ids: Sequence[str],
    parts: Mapping[str, Floats],
    settings: RecallSettings,
    profile: EmbedderProfile,
) -> Floats:
    """Return what turns of a talk between people gain so that their scores can stand beside those of notes.

    The weights of both differ too much to be compared. Scored as notes, the turns have places among them: these they
    share out, the best of the talk takes the best place, of equals the one with the lowest id.
    """
    talk, own = np.flatnonzero(~features.told), sum_features(parts, len(features.rows))
    as_notes = {"cosine": profile.notes, **settings.told}
    places = sum(weight * features.columns[name][talk] for name, weight in as_notes.items())
    gained, best_first = np.zeros(len(own)), sorted(talk.tolist(), key=lambda i: (-own[i], ids[i]))
    gained[best_first] = np.sort(places)[::-1] - own[best_first]
    return gained


Reordering = Callable[[NamespaceQuery, Rows, Floats], Floats | None]


def _set_aside(query: NamespaceQuery, rows: Rows, totals: Floats) -> Floats | None:
    """Take off what has the words that the question sets aside; a question may set the same aside."""
    if not query.question.excluded:
        return None
    asks = has_text_feature(query.index, rows, TextFeature.ENDS_ASKING)
    has_excluded = (1 - asks) * has_any_term(query.index, rows, query.question.excluded)
    return _SET_ASIDE * float(totals.max(initial=0.0)) * has_excluded


def _importance(query: NamespaceQuery, rows: Rows, totals: Floats) -> Floats:
    return importance_scores(query.index.columns["importance"][rows], totals)


def _stated_later(query: NamespaceQuery, rows: Rows, totals: Floats) -> Floats | None:
    """Let what was said after the time that is asked about come last."""
    as_of = query.validity.as_of
    return None if as_of is None else _STATED_LATER * stated_after(query.index, rows, to_microseconds(as_of))


def _trust(query: NamespaceQuery, rows: Rows, totals: Floats) -> Floats:
    """Let what a tool or a stranger wrote come behind what its user said, where both are about as near."""
    distrusted = query.index.columns["trust"][rows] >= Trust.TOOL.rank
    return np.where(distrusted, -_DISTRUST * np.maximum(totals, 0.0), 0.0)


REORDERINGS: Mapping[str, Reordering] = {
    "excluded": _set_aside,
    "importance": _importance,
    "trust": _trust,
    "later": _stated_later,
}
"""Changes of the order by name, as ``explain`` shows them, applied one after the other to the weighted sum."""


def _with_currency(
    candidates: ScoredCandidates, query: NamespaceQuery, features: ConversationFeatures, settings: RecallSettings
) -> ScoredCandidates:
    """Return *candidates* with the parts that say which of the best ones hold at the time that is asked for."""
    totals = candidates.totals()
    best = top_positions(candidates.ids, totals, _COMPARED)
    best = [i for i in best if features.told[i] and totals[i] > 0]
    if len(best) < 2:
        return candidates
    asks_past = _asks_past(query)
    rows, vectors = features.rows[best], list[NDArray[np.float32] | None]([None] * len(best))
    if query.profile.has_heads and query.vector is not None:
        ids = query.ids(rows)
        entries = dict(zip(ids, query.view.get(ids, namespace=query.namespace), strict=True))
        candidates = replace(candidates, entries=entries)  # the same are likely to be the hits
        vectors = [None if entry is None else entry.vector for entry in entries.values()]
    statements = _statements(query, rows, vectors, totals[best] / totals[best].max())
    parts = dict(candidates.parts)
    for name, values in currency_features(statements).items():
        if values.any():
            parts[name] = np.zeros(len(totals))
            parts[name][best] = (settings.past if asks_past else settings.now)[name] * totals[best].max() * values
    candidates = replace(candidates, parts=parts)
    if asks_past or query.question.asks_several:
        return candidates
    return _judged(candidates, query, features.rows, statements, {i: place for place, i in enumerate(best)})


def _judged(
    candidates: ScoredCandidates, query: NamespaceQuery, rows: Rows, statements: Statements, place_of: Mapping[int, int]
) -> ScoredCandidates:
    """Return *candidates* where the newest one leads of which the judge is sure that it replaces the first one.

    Those that it replaces are outdated by it; a newer one that may replace the leading one is said to be later.
    *place_of* are the places of candidates among *statements*.
    """
    totals = candidates.totals()
    first, *others = top_positions(candidates.ids, totals, _MARKED)
    places = {i: place_of[i] for i in (first, *others) if i in place_of and statements.usable[place_of[i]]}
    if first not in places:
        return candidates
    by_words = {i: _claim(query, int(rows[i]), int(statements.times[place])) for i, place in places.items()}
    vectors = {i: vector for i, place in places.items() if (vector := statements.vectors[place]) is not None}
    by_vector = {i: by_words[i].by_vector(vector) for i, vector in vectors.items()}
    is_older, corrected = statements.is_older, taken_back(statements)

    def likely(older: int, newer: int) -> tuple[float, Bounds]:
        if older not in vectors or newer not in vectors:
            return replaces(by_words[older], by_words[newer]), bounds(by_meaning=False)
        near = float(vectors[older] @ vectors[newer])
        return replaces(by_vector[older], by_vector[newer], near), bounds(by_meaning=True)

    def is_sure(older: int, newer: int) -> bool:
        if not is_older[places[newer], places[older]]:
            return False
        share, limits = likely(older, newer)
        return share >= limits.marks or corrected.get(places[older]) == places[newer]

    leader = max((i for i in places if is_sure(first, i)), key=lambda i: by_words[i].time, default=first)
    if leader != first:
        part = np.zeros(len(totals))
        part[leader] = (1 + _LEAD) * totals[first] - totals[leader]
        candidates = replace(candidates, parts={**candidates.parts, "replaces": part})
    newer = {i: leader for i in places if is_sure(i, leader)}
    later = {}
    for i in (i for i in places if i != leader and by_words[i].time >= by_words[leader].time):
        share, limits = likely(leader, i)
        if share >= limits.proposes:
            later[i] = leader
    return replace(candidates, newer=newer, later=later)


def _claim(query: NamespaceQuery, row: int, time: int) -> Claim:
    index, terms = query.index, query.index.text_terms(np.array([row], dtype=np.int64))[0]
    traits = Trait(int(index.columns["statement_features"][row]))
    about_person = str(index.columns["subject"][row]) if traits & Trait.ABOUT_PERSON else None
    subject = "" if about_person is None and traits & Trait.ABOUT_SELF else about_person
    kept = [term for term in terms.tolist() if term != NO_TERM]
    return Claim.of_traits(kept, traits, subject, index.topics(row), time)


def _statements(
    query: NamespaceQuery, rows: Rows, vectors: Sequence[NDArray[np.float32] | None], relevance: Floats
) -> Statements:
    times = query.index.statement_times(rows)
    return Statements(
        relevance,
        times,
        (times <= to_microseconds(query.validity.as_of or query.validity.now))
        & ((query.index.columns["statement_features"][rows] & int(NOT_FACTUAL)) == 0),
        query.index.columns["trust"][rows].astype(np.int64),
        [query.index.topics(int(row)) for row in rows],
        vectors,
    )


def _asks_past(query: NamespaceQuery) -> bool:
    """Return whether the question asks about a time that is past, or names one."""
    if query.question.dates:
        return True
    if query.profile.has_heads and query.vector is not None:
        shares = head("time").shares(query.vector[None])
    else:
        shares = head("time by letters").shares(letter_groups([query.question.asked]))
    return float(shares["past"][0]) > _ASKS_PAST


def _confidence(
    query: NamespaceQuery, features: ConversationFeatures, silent: Rows, bounds: AbstentionBounds, totals: Floats
) -> TopicConfidence:
    """Return how far the best of the rows is about the question."""
    index, question, words, count = query.index, query.question, features.words, query.frequencies.count
    total = words.total_weight
    soft = features.stated_words / total if total > 0 else features.stated_words
    if query.profile.has_heads and features.cosine is not None and features.told.all() and len(totals):
        confidence = _answer_evidence(query, features, features.cosine, totals).confidence()
    else:
        seen = _terms_seen_beside(query, silent) if len(silent) else words.seen
        confidence = conversation_confidence(
            soft,
            exact_match_shares(features.text, words),
            features.cosine,
            features.told,
            bonus=question_bonus(words.bounded_weights, seen, question.is_proper),
            profile=query.profile,
            bounds=bounds,
            count=count,
        )
    topic, _, is_likely = confidence
    if words.has_rare_term and float(soft.max(initial=0.0)) >= _ALL_WORDS:
        topic, is_likely = max(topic, ABSTENTION_LEVEL), True
    if (question.asks_digits and not _has_number(index, features.rows, totals)) or _names_another(
        query, features.rows, totals
    ):
        topic = min(topic, _UNTOLD_TOPIC)
    return TopicConfidence(topic, confidence.is_near, is_likely)


def _names_another(query: NamespaceQuery, rows: Rows, totals: Floats) -> bool:
    """Return whether the first of *rows* has another number where the question says which of several it means."""
    if not any(map(str.isdigit, query.question.asked)):
        return False
    ids = query.ids(rows)
    entries = query.view.get([ids[i] for i in top_positions(ids, totals, _NAMED_HITS)], namespace=query.namespace)
    texts = [entry.text for entry in entries if entry is not None]
    return (
        bool(texts)
        and contradicts(query.question.asked, texts[0])
        and not has_designations(query.question.asked, texts)
    )


def _answer_evidence(
    query: NamespaceQuery, features: ConversationFeatures, cosine: Floats, totals: Floats
) -> AnswerEvidence:
    index, question, words = query.index, query.question, features.words
    first = features.rows[top_positions(query.ids(features.rows), totals, 1)]
    terms, _ = index.text_terms(first, labels=True)
    has, total = words.seen & np.isin(words.numbers, terms), max(words.total_weight, 1e-9)
    names = question.is_proper
    return AnswerEvidence(
        best=float(np.nan_to_num(cosine).max()),
        mean=_mean_cosine(query),
        words=float(words.bounded_weights[has].sum()) / total,
        names=float((~has)[names].mean()) if names.any() else 0.0,
        count=query.frequencies.count,
    )


def _has_number(index: RetrievalIndex, rows: Rows, totals: Floats) -> bool:
    """Return whether one of the rows whose scores *totals* are near the best has a number."""
    best = top_positions([index.ids[row] for row in rows.tolist()], totals, _NUMBERED_TURNS)
    near = [i for i in best if totals[i] >= _NUMBERED_SHARE * totals[best[0]]]
    return bool(near) and bool(has_text_feature(index, rows[near], TextFeature.NUMBER).any())


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


def _word_matches(index: RetrievalIndex, rows: Rows, words: QuestionTerms) -> tuple[Floats, Floats]:
    """Return the weighted match of each row's words, with those of the question that it answers, and without."""
    if not len(words.numbers):
        return np.zeros(len(rows)), np.zeros(len(rows))
    answered = index.links.answers.rows[rows].astype(np.int64)
    has_question = answered != NO_ROW
    every = sorted_distinct(np.concatenate([rows, answered[has_question]]))
    of_every = word_match(words, every, index)
    match = of_every[np.searchsorted(every, rows)]
    stated = weighted_sum(match, words)
    if not has_question.any():
        return stated, stated
    of_question = of_every[np.searchsorted(every, answered[has_question])]
    match[has_question] = np.maximum(match[has_question], of_question)
    return weighted_sum(match, words), stated


def _answered_question_scores(
    query: NamespaceQuery, features: ConversationFeatures, parts: Mapping[str, Floats]
) -> Floats:
    """Return the similarity of the question with the one that each of the likeliest rows answers, else 0.

    Where the question names participants, only their answers count. Earlier answers of the assistant do not count: they
    were made from memories that are candidates themselves, or from none.
    """
    index, question, rows = query.index, query.question, features.rows
    similarities = np.zeros(len(rows))
    if features.told.all() or (question.asks_time and not question.asks_several):
        return similarities
    totals = sum_features({name: part for name, part in parts.items() if name != "asked"}, len(rows))
    likely = positions_from_kth(totals, _RESCORED_CANDIDATES)
    likely = likely[~index.columns["assistant"][rows[likely]]]
    if question.participants and len(index.participants.present()) > 1:
        likely = likely[np.isin(index.columns["speaker"][rows[likely]], question.participants)]
    answered = index.links.answers.rows[rows[likely]].astype(np.int64)
    similarities[likely] = question_similarity(features.words, answered, index, query.frequencies)
    return similarities


def _recency_ranks(index: RetrievalIndex, rows: Rows) -> Floats:
    """Return the rank of each row by day, recorded time and id, scaled to (0, 1]; the latest has 1."""
    days, recorded = index.columns["day"][rows].tolist(), index.columns["recorded_at"][rows].tolist()
    oldest_first = sorted(range(len(rows)), key=lambda i: (days[i], recorded[i], index.ids[rows[i]]))
    ranks = np.empty(len(rows))
    ranks[oldest_first] = np.arange(1, len(rows) + 1)
    return np.asarray(ranks / max(len(rows), 1))


def _session_scores(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """Return BM25 of each row's session, 0 for a memory without one."""
    sessions = index.columns["session"][rows]
    in_session = sessions != NO_SESSION
    numbers = [number for term in question.all_terms if (number := index.vocabulary.find(term))]
    by_session = index.session_bm25.scores(numbers)
    scores = np.zeros(len(rows))
    if len(by_session):
        scores[in_session] = by_session[sessions[in_session]]
    return scale_to_maximum(scores)
