"""Newer statements of the same matter, for questions about now: which leads the older one, which is shown behind it.

A statement about a question is mostly older than the one that changed it, and nearer to the question's words. Among
near ties the newest leads. Where nothing is certain, the newer statement that is linked best with the first hit comes
right behind it. Plans, hypotheses, quotations, past habits, and statements about other people do neither. The evidence
of a link is a sum of log odds, rounded from logistic regressions on stories of change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.session_statistics import NOBODY
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.question_time import TimeKind
from tellback.memory.retrieval.languages.statements import (
    ATTRIBUTES,
    NOT_FACTUAL,
    StatementFeature,
    is_about_possession,
    tells_amount,
)
from tellback.memory.retrieval.scoring.features import NamespaceQuery, term_weights
from tellback.memory.retrieval.scoring.scores import top_positions
from tellback.memory.retrieval.scoring.superseded import TIE_STEP, statement_times
from tellback.vectorstore.internals import sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_NEAR_TIE = 0.9
"""Share of the best score above which a newer statement leads."""
_NEAR_OLDER = 0.8
"""Share of the best score from which an older statement may be what the best one has changed."""
_COMPARED_TIES = 8
_MIN_TIE_COSINE = 0.3
_MIN_EVIDENCE = -6.0
"""Evidence of a link from which a newer statement is shown behind the first hit."""
_LIKELY_EVIDENCE, _LIKELY_EVIDENCE_WITHOUT_CHANGE = -5.0, -3.0
"""Evidence from which an answer may say it beside the first: with a word of change, and without one."""
_SURE_EVIDENCE = -1.25
"""Evidence from which a newer statement with a word of change leads."""
_COSINE, _QUESTION_COSINE, _WORDS, _SHARED_NAME, _CHANGE, _BIAS = 6.5, 4.0, 4.0, 1.4, 1.5, -7.9
_CHANCE_STATEMENTS = 3
"""Newer statements up to which no more evidence is needed: among more, more resemble by chance."""
_CHECKED_LINKS = 24
_MODAL_LOSS, _PLAN_LOSS = 0.1, 0.06
"""Shares of the best score that a statement loses which does not say how things are."""


@dataclass(frozen=True, slots=True)
class NewerStatements:
    """Changes of scores by position: *leading* of statements that lead, *linked* of one shown behind the first hit.

    *newer* maps the position of an older statement to that of the one that has probably changed it, *later* that of a
    newer statement to that of one which it may have changed. *likely* has the positions of those among the newer ones
    whose evidence is good enough for an answer to say both.
    """

    leading: Floats
    linked: Floats
    newer: dict[int, int]
    later: dict[int, int]
    likely: set[int]


def own_speakers(index: RetrievalIndex) -> list[int]:
    """Return the participants whose statements are of one person: nobody, the user, or the only one with a name."""
    present = index.participants.present()
    named = [number for number, name in present if name not in ("user", "assistant")]
    users = [number for number, name in present if name == "user"]
    return [NOBODY, *users, *(named if len(named) == 1 else ())]


def spoken_alone(index: RetrievalIndex, speakers: Rows) -> NDArray[np.bool_]:
    """Return which of *speakers* are those of one person (``own_speakers``)."""
    return np.asarray(np.logical_or.reduce([speakers == own for own in own_speakers(index)]), dtype=np.bool_)


def find_newer_statements(
    query: NamespaceQuery, rows: Rows, ids: Sequence[str], totals: Floats, moment: int
) -> NewerStatements:
    """Find the newer statements of the best of *rows* by *totals*, among those made until *moment* (microseconds)."""
    changes = NewerStatements(np.zeros(len(rows)), np.zeros(len(rows)), {}, {}, set())
    best = top_positions(ids, totals, _COMPARED_TIES)
    if len(best) < 2 or totals[best[0]] <= 0:
        return changes
    matter = _Matter(query, rows, ids, best[0], moment)
    tie = matter.newest_tie([i for i in best[1:] if totals[i] >= _NEAR_TIE * totals[best[0]]])
    if tie is not None:
        changes.leading[tie] = totals[best[0]] + TIE_STEP - totals[tie]
        if matter.is_likely(tie):
            changes.newer[best[0]] = tie
            changes.likely.add(tie)
        else:
            changes.later[tie] = best[0]
        matter = _Matter(query, rows, ids, tie, moment)
    second = best[1]
    is_near_older = tie is None and totals[second] >= _NEAR_OLDER * totals[best[0]] and matter.is_newer_than(second)
    if (
        is_near_older
        and not matter.is_unasked(second)
        and _Matter(query, rows, ids, second, moment).is_changed_by(best[0])
    ):
        changes.newer[second] = best[0]
        changes.likely.add(best[0])
    linked = matter.best_link()
    if linked is not None:
        is_likely = matter.is_likely(linked)
        changes.likely.update({linked} if is_likely else ())
        if tie is None and is_likely and matter.is_sure(linked):
            changes.leading[linked] = totals[best[0]] + TIE_STEP - totals[linked]
            changes.newer[best[0]] = linked
            return changes
        raised = totals + changes.leading
        second = top_positions(ids, raised, 2)[1]
        changes.later[linked] = matter.position
        if linked != second:
            # Half a step: it stays behind the first hit, which may lead the second by one step.
            changes.linked[linked] = raised[second] + TIE_STEP / 2 - raised[linked]
    return changes


def find_older_statement(
    query: NamespaceQuery, rows: Rows, ids: Sequence[str], totals: Floats, moment: int
) -> NewerStatements:
    """Find the older statement that the best of *rows* by *totals* has probably changed: it leads where that is asked.

    *moment* (microseconds) is that until which statements count.
    """
    changes = NewerStatements(np.zeros(len(rows)), np.zeros(len(rows)), {}, {}, set())
    best = top_positions(ids, totals, _COMPARED_TIES)
    if not best or totals[best[0]] <= 0:
        return changes
    times = statement_times(query.index, rows)
    for older in best[1:]:
        if times[older] < times[best[0]] and _Matter(query, rows, ids, older, moment).is_changed_by(best[0]):
            changes.leading[older] = totals[best[0]] + TIE_STEP - totals[older]
            changes.newer[older] = best[0]
            changes.likely.add(best[0])
            break
    return changes


def modality_scores(query: NamespaceQuery, rows: Rows, totals: Floats) -> Floats:
    """Return the deductions for notes that do not say how things are, as shares of the best of *totals*.

    A turn of a conversation mostly says several things in several modalities, and does not fall.

    Nothing falls where the question asks for an event, for several things, for plans, or for what somebody said.
    """
    question = query.question
    if question.asks_modal or question.asks_several or question.time.kind == TimeKind.EVENT:
        return np.zeros(len(rows))
    columns = query.index.fields(rows)
    features = columns["statement_features"]
    plain = (features & int(NOT_FACTUAL)) == 0
    share = np.where(features & int(StatementFeature.PLAN), _PLAN_LOSS, _MODAL_LOSS)
    is_note = (columns["session"] == NO_SESSION) & spoken_alone(query.index, columns["speaker"])
    share[plain | ~is_note] = 0.0
    return np.asarray(-share * max(float(totals.max(initial=0.0)), 0.0))


class _Matter:
    """The statement at *position*, and the newer factual ones about the same person."""

    def __init__(self, query: NamespaceQuery, rows: Rows, ids: Sequence[str], position: int, moment: int) -> None:
        index, columns = query.index, query.index.fields(rows)
        self.position = position
        self._query, self._index, self._rows = query, index, rows
        self._features = columns["statement_features"]
        self._times = statement_times(index, rows)
        barred = (self._features & int(NOT_FACTUAL)) != 0
        barred |= (columns["text_features"] & int(TextFeature.ENDS_ASKING)) != 0
        is_own = spoken_alone(index, columns["speaker"])
        barred |= ~is_own | columns["assistant"]
        barred |= (
            columns["trust"] > columns["trust"][position]
        )  # what a tool says of the user changes no word of theirs
        is_newer = (self._times > self._times[position]) & (self._times <= moment) & ~barred
        own = is_own[position] and not columns["assistant"][position]
        self._newer = np.flatnonzero(is_newer) if own else np.zeros(0, dtype=np.int64)
        self._cosines = np.zeros(len(rows))
        self._ids = ids
        measures = query.profile.is_measured  # else two statements may look alike to the embedder whatever they say
        (entry,) = query.view.get([ids[position]], namespace=query.namespace) if len(self._newer) else (None,)
        self._text = "" if entry is None else entry.text
        if measures and entry is not None and entry.vector is not None:
            newer_ids = [ids[i] for i in self._newer.tolist()]
            cosines = query.view.similarity(entry.vector, newer_ids, namespace=query.namespace)
            self._cosines[self._newer] = np.nan_to_num(query.profile.rescaled(cosines))
        of_question = query.cosines(rows[self._newer]) if measures else None
        self._evidence = self._evidence_by_position(of_question) if len(self._newer) else np.zeros(0)

    def newest_tie(self, positions: Sequence[int]) -> int | None:
        """Return the newest of *positions* that leads the statement, None for none."""
        newer = set(self._newer.tolist())
        ties = [i for i in positions if i in newer and self._cosines[i] >= _MIN_TIE_COSINE and not self._is_other(i)]
        ties = [i for i in ties if not self._tells_only_amount(i)]
        return max(ties, key=lambda i: (self._times[i], -positions.index(i)), default=None)

    def _evidence_by_position(self, of_question: Floats | None) -> Floats:
        """Return the evidence of a link of each newer statement, but for the people that it shares.

        *of_question* are its cosines with the question.
        """
        evidence = _COSINE * self._cosines[self._newer] + _WORDS * self._word_shares()
        if of_question is not None:
            evidence += _QUESTION_COSINE * np.nan_to_num(of_question)
        evidence += _CHANGE * ((self._features[self._newer] & int(StatementFeature.CHANGE)) != 0)
        evidence += _BIAS - math.log(max(1.0, len(self._newer) / _CHANCE_STATEMENTS))
        return np.asarray(evidence)

    def best_link(self) -> int | None:
        """Return the newer statement with the most evidence for a link, None for none."""
        best: tuple[float, int] | None = None
        for k in np.argsort(-self._evidence, kind="stable")[:_CHECKED_LINKS].tolist():
            position, shared = int(self._newer[k]), self._shared_people(int(self._newer[k]))
            score = float(self._evidence[k]) + (_SHARED_NAME if shared else 0.0)
            if score < _MIN_EVIDENCE or (best is not None and score <= best[0]):
                continue
            if shared or not (self._is_other(position) or self._have_other_subjects(position)):
                best = score, position
        return None if best is None else best[1]

    def is_likely(self, position: int) -> bool:
        """Return whether there is much evidence, and neither or both statements are about what a person has.

        A statement that tells a home, a work or a name changes nothing else that is asked for.
        """
        if self.is_unasked(position):
            return False
        evidence = self._evidence_of(position)
        changes = self._features[position] & int(StatementFeature.CHANGE)
        if evidence < (_LIKELY_EVIDENCE if changes else _LIKELY_EVIDENCE_WITHOUT_CHANGE):
            return False
        text = self._text_at(position)
        is_same = bool(text) and is_about_possession(text) == is_about_possession(self._text)
        return is_same and not self._tells_only_amount(position)

    def is_unasked(self, position: int) -> bool:
        """Return whether a statement tells a home, a work or a name that the question does not ask for."""
        tells = StatementFeature(int(self._features[position])) & ATTRIBUTES
        return bool(tells) and not tells & self._query.question.own

    def _tells_only_amount(self, position: int) -> bool:
        """Return whether a statement tells an amount alone where a name, a home, a work or an age is asked for."""
        asked, tells = self._query.question.own, StatementFeature(int(self._features[position]))
        return bool(asked) and not tells & asked and tells_amount(self._text_at(position))

    def _text_at(self, position: int) -> str:
        (entry,) = self._query.view.get([self._ids[position]], namespace=self._query.namespace)
        return "" if entry is None else entry.text

    def is_newer_than(self, position: int) -> bool:
        """Return whether the statement is newer than the one at *position*."""
        return bool(self._times[self.position] > self._times[position])

    def is_changed_by(self, position: int) -> bool:
        """Return whether the statement at *position* is a newer one about the same that has probably changed this."""
        return position in self._newer and not self._have_other_subjects(position) and self.is_likely(position)

    def is_sure(self, position: int) -> bool:
        """Return whether a statement with a word of change has so much evidence that it leads."""
        changes = bool(self._features[position] & int(StatementFeature.CHANGE))
        return changes and self._evidence_of(position) >= _SURE_EVIDENCE

    def _evidence_of(self, position: int) -> float:
        evidence = float(self._evidence[self._newer == position][0])
        return evidence + (_SHARED_NAME if self._shared_people(position) else 0.0)

    def _word_shares(self) -> Floats:
        """Return the share of the statement's words, weighted by idf, that each newer one has."""
        own = sorted_distinct(self._index.text_terms(self._rows[[self.position]])[0])
        own = own[own != NO_TERM]
        weights = self._query.frequencies.idf([self._index.vocabulary.term(number) for number in own.tolist()])
        shares = term_weights(self._index, self._rows[self._newer], own, weights)
        return shares / max(float(weights.sum()), 1e-9)

    def _shared_people(self, position: int) -> set[str]:
        """Return the people that both statements name, beside those that the question asks about."""
        people = self._index.people
        own, other = people.of(int(self._rows[self.position])), people.of(int(self._rows[position]))
        return set(own) & set(other) - self._query.question.people

    def _is_other(self, position: int) -> bool:
        """Return whether a statement is about a person whom the question does not ask about."""
        features, question = int(self._features[position]), self._query.question
        if not features & StatementFeature.ABOUT_PERSON or self._is_asked(position):
            return False
        if question.people:
            return question.people.isdisjoint(self._index.people.of(int(self._rows[position])))
        return question.about_self and not features & StatementFeature.SELF

    def _have_other_subjects(self, position: int) -> bool:
        """Return whether the two statements are about different people."""
        first, second = self._subject(self.position), self._subject(position)
        if not first or not second or first == second or self._is_asked(position):
            return False
        shared_features = int(self._features[self.position]) & int(self._features[position]) & StatementFeature.SELF
        return not ("self" in (first, second) and shared_features)

    def _is_asked(self, position: int) -> bool:
        """Return whether the question has the word for the person whom a statement is about ("the roofer")."""
        features = int(self._features[position])
        if not features & StatementFeature.ABOUT_PERSON:
            return False
        return self._index.people.of(int(self._rows[position]))[0] in self._query.question.forms

    def _subject(self, position: int) -> str:
        features = int(self._features[position])
        if features & StatementFeature.ABOUT_PERSON:
            return self._index.people.of(int(self._rows[position]))[0]
        return "self" if features & StatementFeature.ABOUT_SELF else ""
