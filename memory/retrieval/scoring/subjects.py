"""Subjects of statements against the people whom a question asks about: their match, and doubt where it fails.

A question about Mira is not answered by a statement about Ana. Statements that name none of the people asked about are
demoted; where such a statement fits the rest of the question, and none that names them comes near, somebody else's
attribute would be given, which is doubted. People are compared as ``StatementAnalysis`` writes them, with one hop over
kin ("Ana is my sister"). Participants of a conversation are left to the features of speakers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import ROLES, TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.languages.statement_patterns import statement_pattern, statement_words
from tellback.memory.retrieval.languages.statements import StatementFeature, is_kin, people_of
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion, NamespaceQuery, neighbour_window, row_positions
from tellback.memory.retrieval.scoring.soft_matching import QuestionTerms

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_GENITIVE = re.compile("['\u2019]s?$")
_MIN_LEAD = 0.2
"""Lead from which a statement about somebody else raises doubt."""
_WORDS_WEIGHT = 0.5
"""Weight of the question's other words beside the cosine."""


@dataclass(frozen=True, slots=True)
class AskedPeople:
    """People whom a question asks about: those *named* in it, and *all* with the names and kin words of the same."""

    named: tuple[str, ...]
    all: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubjectMismatch:
    """Attribute asked of the person *asked* and known of *known* (None: the speaker or a thing); *lead* is below 0."""

    asked: str
    known: str | None
    lead: float

    @property
    def note(self) -> str:
        """The mismatch in words."""
        known = "something like it is known" if self.known is None else f"known of {_shown(self.known)}"
        return f"{known}, not of {_shown(self.asked)}"


def asked_people(question: AnalyzedQuestion, index: RetrievalIndex) -> AskedPeople | None:
    """Return the people whom *question* asks about, None where it names nobody known to be a person.

    Names count before kin words beside them ("Ana's sister" is asked of Ana).
    """
    speakers = {part.lower() for _, name in index.participants.present() for part in (name, *name.split())}
    question_text = statement_pattern("which_kin").sub(
        " ", question.text
    )  # "which of my friends" asks who, not about them
    mentions = [person for person in people_of(question_text) if person not in speakers]
    known = [person for person in mentions if index.people.is_person(person) or _is_asked(person, question.text, index)]
    named = tuple([person for person in known if not is_kin(person)] or known)
    return AskedPeople(named, index.people.with_relations(named)) if named else None


def _is_asked(name: str, text: str, index: RetrievalIndex) -> bool:
    """Return whether a *name* stands in the question *text* where a person does.

    It is one that memories mention as a name, or do not mention at all: then nothing is known of that person.
    """
    slot = rf"\b(?:{statement_words('before_person')})\s+{re.escape(name)}\b|\b{re.escape(name)}['\u2019]s?\b"
    is_possible = name in index.people or index.vocabulary.find_form(name) == NO_TERM
    return is_possible and re.search(slot, text, re.IGNORECASE) is not None


def lacks_subject(index: RetrievalIndex, rows: Rows, asked: AskedPeople) -> NDArray[np.bool_]:
    """Return which of *rows* name none of the people *asked* about, nor do their neighbours.

    Turns of participants with names never lack one: who speaks says more there than who is named.
    """
    window = neighbour_window(index.links, rows)
    distinct = window.distinct_rows()
    named = np.append(_names_any(index, distinct, asked), False)
    positions = row_positions(distinct, len(index.ids))
    lacking = ~named[positions[rows]]
    for side in (*window.sides, window.answered):
        lacking &= ~named[positions[side]]
    of_people = [number for number, name in index.participants.present() if name not in ROLES]
    return np.asarray(lacking & ~np.isin(index.columns["speaker"][rows], of_people))


def _names_any(index: RetrievalIndex, rows: Rows, asked: AskedPeople) -> NDArray[np.bool_]:
    numbers = [number for person in asked.all if (number := index.vocabulary.find_form(person)) != NO_TERM]
    terms, starts = index.text_terms(rows)
    has_name = np.logical_or.reduceat(np.isin(terms, numbers), starts)
    return np.asarray(has_name | index.people.mentions_any(rows, asked.all))


def subject_mismatch(
    query: NamespaceQuery,
    rows: Rows,
    asked: AskedPeople,
    lacking: NDArray[np.bool_],
    words: QuestionTerms,
    match: NDArray[np.float32],
) -> SubjectMismatch | None:
    """Return the mismatch if one of *rows* about somebody else fits the question better than all that name the people.

    *lacking* is that of ``lacks_subject``, *match* that of ``word_match``. Compared are the words of the question
    beside the people in it, and its cosine.
    """
    index, question = query.index, query.question
    is_topic = np.array([not _is_person(form, asked) for form in question.forms], dtype=np.float64)
    weights = words.bounded_weights * is_topic
    total = float(weights.sum())
    if total <= 0:
        return None
    fit = _WORDS_WEIGHT * (match * weights).sum(axis=1) / total
    cosines = query.cosines(rows)
    if cosines is not None:
        fit += np.nan_to_num(cosines)
    states = (index.columns["text_features"][rows] & int(TextFeature.ENDS_ASKING)) == 0
    if not (lacking & states).any():
        return None
    best = int(np.argmax(np.where(lacking & states, fit, -np.inf)))
    lead = float(fit[~lacking].max(initial=0.0) - fit[best])
    if lead > -_MIN_LEAD:
        return None
    people = index.people.of(int(rows[best]))
    is_person = index.columns["statement_features"][rows[best]] & int(StatementFeature.ABOUT_PERSON)
    return SubjectMismatch(asked.named[0], people[0] if is_person else None, lead)


def _is_person(form: str, asked: AskedPeople) -> bool:
    return _GENITIVE.sub("", form) in asked.all or bool(people_of(form))


def _shown(person: str) -> str:
    return f"your {person}" if is_kin(person) else person.title()
