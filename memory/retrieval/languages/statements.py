"""Analysis of a statement: its subject, the people in it, its modality, and whether it tells of a change.

A pure function of the text, computed once, when a memory's index record is derived. The patterns are in
``statements.ini``. English, German and Spanish statements are understood, whatever the language of the memory.
"""

from __future__ import annotations

import re
from enum import IntFlag
from itertools import pairwise

from memory.retrieval.languages.statement_patterns import kin_meanings, statement_pattern
from vectorstore.value_class import dataclass

_MAX_CHARACTERS = 1000
"""Characters of a text that are analyzed: a longer one is no single statement."""
_SUBJECT_END = 20
"""Characters within which the subject of a statement begins."""
_REPORTING_WORDS = 5
"""Words at the beginning among which a verb of reporting makes the rest a quotation."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*['\u2019]?")
_GENITIVE = re.compile("['\u2019]s?$")
_CLAUSE = re.compile(r"[,;:.!?]")
_SENTENCE_END = re.compile(r"[.!?:\n\"“„]\s*$")
_QUOTED = re.compile(r"[\"“„«][^\"“”»]{12,}[\"”“»]")
_NAME_APPOSITION = re.compile(r"\W{1,2}")


class StatementFeature(IntFlag):
    """Features of a statement."""

    PLAN = 1
    HYPOTHESIS = 2
    QUOTATION = 4
    HABIT = 8
    """Tells what was once usual."""
    CHANGE = 16
    """Has a word by which a change is told: new, moved, no longer."""
    SELF = 32
    """Has a word of the first person, but for "my" before a kin word."""
    ABOUT_SELF = 64
    """Its subject is the speaker; so is that of a statement without a subject ("Sold the bike")."""
    ABOUT_PERSON = 128
    """Its subject is the first of its people."""
    OWN_NAME = 256
    """Tells the name of its speaker."""
    OWN_HOME = 512
    """Tells where its speaker lives."""
    OWN_WORK = 1024
    """Tells what its speaker does for a living, or for whom."""


NOT_FACTUAL = StatementFeature.PLAN | StatementFeature.HYPOTHESIS | StatementFeature.QUOTATION | StatementFeature.HABIT
"""Modalities in which a statement does not say how things are."""
_OWN_ATTRIBUTES = {
    StatementFeature.OWN_NAME: "name",
    StatementFeature.OWN_HOME: "home",
    StatementFeature.OWN_WORK: "work",
}


@dataclass(frozen=True, slots=True)
class StatementAnalysis:
    """The *features* of a statement and the *people* in it, its subject first where that is a person.

    People are names and kin words in small letters, kin words by one word in every language ("mother"). *relations*
    are pairs of a kin word and the name of that person ("my sister Ana", "Ana is my sister").
    """

    features: StatementFeature
    people: tuple[str, ...] = ()
    relations: tuple[tuple[str, str], ...] = ()

    @property
    def subject(self) -> str | None:
        """Its person, "" for the speaker, None for a thing or nobody."""
        if self.features & StatementFeature.ABOUT_PERSON:
            return self.people[0]
        return "" if self.features & StatementFeature.ABOUT_SELF else None

    @property
    def is_factual(self) -> bool:
        """True unless it is a plan, a hypothesis, a quotation or a past habit."""
        return not self.features & NOT_FACTUAL


@dataclass(frozen=True, slots=True)
class _Person:
    """A person at *start* to *end* of a text; *owns*: written as a genitive ("Dana's")."""

    key: str
    start: int
    end: int
    is_kin: bool
    owns: bool


def analyze_statement(text: str) -> StatementAnalysis:
    """Return the analysis of *text*; of a long one, that of its beginning."""
    text = text[:_MAX_CHARACTERS]
    people = _find_people(text)
    subject, relations = _subject(text, people), _relations(text, people)
    features = _modality(text)
    if statement_pattern("change").search(text):
        features |= StatementFeature.CHANGE
    if _speaks_of_self(text, people):
        features |= StatementFeature.SELF
    if subject is not None:
        features |= StatementFeature.ABOUT_PERSON
        people = [subject, *people]
    elif _is_about_self(text):
        features |= StatementFeature.ABOUT_SELF
        # "Moved to Graz" leaves out who did.
        text = f"I {text}" if statement_pattern("elliptical").match(text) else text
    features |= _own_attributes(text, "tells")
    keys = tuple(dict.fromkeys(person.key for person in people))
    return StatementAnalysis(features, keys, relations)


def asked_attributes(text: str) -> StatementFeature:
    """Return which attributes of its asker the question *text* asks for: name, home, work."""
    return _own_attributes(text, "asks")


def _own_attributes(text: str, verb: str) -> StatementFeature:
    features = StatementFeature(0)
    for feature, name in _OWN_ATTRIBUTES.items():
        if statement_pattern(f"{verb}_{name}").search(text):
            features |= feature
    return features


def may_hold_of_several(text: str) -> bool:
    """Return whether another statement like *text* may be true beside it: a taste, an event, "also"."""
    return statement_pattern("several").search(text) is not None


def is_about_possession(text: str) -> bool:
    """Return whether *text* begins with what belongs to a person ("Malik's best man …"), and is not about that one."""
    people = _find_people(text[:_MAX_CHARACTERS])
    return bool(people) and people[0].owns and people[0].start <= _SUBJECT_END


def people_of(text: str) -> tuple[str, ...]:
    """Return the people that *text* names, as in ``StatementAnalysis``, in their order."""
    return tuple(dict.fromkeys(person.key for person in _find_people(text)))


def is_kin(person: str) -> bool:
    """Return whether *person* is a kin word, as ``StatementAnalysis`` writes it, rather than a name."""
    return person in kin_meanings().values()


def _find_people(text: str) -> list[_Person]:
    """Return the names and kin words of *text* in their order."""
    kin = {match.start(): match for match in statement_pattern("kin").finditer(text)}
    people, end = [], 0
    for match in _WORD.finditer(text):
        if match.start() in kin:
            word = kin[match.start()]
            end = word.end()
            key = kin_meanings()[word[0].lower()]
            people.append(_Person(key, word.start(), end, is_kin=True, owns=text[end : end + 1] in ("'", "\u2019")))
        elif match.start() >= end and _is_name(text, match):
            name = _GENITIVE.sub("", match[0])
            people.append(_Person(name.lower(), match.start(), match.end(), is_kin=False, owns=name != match[0]))
    return people


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Return whether a word is written as a name: capitalised inside a sentence, or at its start before a verb."""
    word = _GENITIVE.sub("", match[0])
    if len(word) < 2 or not word[0].isupper() or word.isupper() or statement_pattern("no_name").fullmatch(word):
        return False
    before = text[: match.start()]
    if before.strip(" \t\"'“„(") and not _SENTENCE_END.search(before):
        # German writes all nouns with a capital: there, only a title or kin word makes a name of one.
        return statement_pattern("marker").search(text) is None or statement_pattern("title").search(before) is not None
    follows = _WORD.match(text[match.end() :].lstrip(" "))
    return word != match[0] or (follows is not None and statement_pattern("verb").fullmatch(follows[0]) is not None)


def _subject(text: str, people: list[_Person]) -> _Person | None:
    """Return the person whom the first clause is about, None for the speaker, a thing or nobody."""
    if not people or people[0].start > _SUBJECT_END or statement_pattern("subject").match(text.lstrip()):
        return None
    first = people[0]
    before = _WORD.findall(text[: first.start].lower())
    is_thing = not first.is_kin and bool(before) and statement_pattern("article").fullmatch(before[-1]) is not None
    while before and statement_pattern("modifier").fullmatch(before[-1]):
        before.pop()
    if is_thing or any(statement_pattern("before_object").fullmatch(word) for word in before):
        return None
    if len(people) > 1 and (first.is_kin or (first.owns and people[1].is_kin)):
        second = people[1]
        if not text[first.end : second.start].strip(" '\u2019s"):
            return second if not first.owns or len(people) < 3 or not second.is_kin else _named(text, second, people[2])
    return first


def _named(text: str, kin: _Person, name: _Person) -> _Person:
    """Return the person of the *name* right behind a *kin* word, else that of the kin word."""
    return name if not name.is_kin and not text[kin.end : name.start].strip() else kin


def _speaks_of_self(text: str, people: list[_Person]) -> bool:
    """Return whether *text* has a word of the first person beside one that only says whose kin is meant."""
    whose = {len(text[: person.start].rstrip()) for person in people if person.is_kin}
    return any(match.end() not in whose for match in statement_pattern("self").finditer(text))


def _is_about_self(text: str) -> bool:
    words = _WORD.findall(text[:60])
    return bool(words) and statement_pattern("article").fullmatch(words[0]) is None


def _modality(text: str) -> StatementFeature:
    features = StatementFeature(0)
    if statement_pattern("plan").search(text) and not statement_pattern("completed").search(text):
        features |= StatementFeature.PLAN
    if statement_pattern("opening").match(text.lstrip(" \"'“„")) or statement_pattern("hypothesis").search(text):
        features |= StatementFeature.HYPOTHESIS
    beginning = " ".join(_WORD.findall(_CLAUSE.split(text, maxsplit=1)[0])[:_REPORTING_WORDS])
    reports = statement_pattern("reporting").search(beginning)
    if reports is not None and statement_pattern("authority").search(beginning, 0, reports.start()):
        reports = None
    if reports is not None or _QUOTED.search(text):
        features |= StatementFeature.QUOTATION
    if statement_pattern("habit").search(text):
        features |= StatementFeature.HABIT
    return features


def _relations(text: str, people: list[_Person]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a kin word and a name beside it: "my sister Ana", "Ana, my sister", "Ana is my sister"."""
    ordered = sorted(set(people), key=lambda person: person.start)
    pairs = []
    for first, second in pairwise(ordered):
        between = text[first.end : second.start]
        if first.is_kin and statement_pattern("owned").search(text[: first.start]):
            continue  # "Tomasz's mother Halina" is not the speaker's
        if first.is_kin and not second.is_kin and not first.owns and _NAME_APPOSITION.fullmatch(between):
            pairs.append((first.key, second.key))
        elif not first.is_kin and second.is_kin and not first.owns and statement_pattern("is_my").fullmatch(between):
            pairs.append((second.key, first.key))
    return tuple(dict.fromkeys(pairs))
