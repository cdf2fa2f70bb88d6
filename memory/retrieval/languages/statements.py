"""Analysis of a statement: its subject, the people in it, its modality, and whether it tells of a change.

A pure function of the text, computed once, when a memory's index record is derived. The patterns are in
``statements.ini``. English, German and Spanish statements are understood, whatever the language of the memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntFlag
from functools import cache, lru_cache
from itertools import pairwise

from tellback.memory.retrieval.languages.prefilter import PatternPrefilter, small_letters
from tellback.memory.retrieval.languages.statement_patterns import (
    kin_meanings,
    small_letter_pattern,
    statement_pattern,
    statement_words,
)

_MAX_CHARACTERS = 1000
"""Characters of a text that are analyzed: a longer one is no single statement."""
_SUBJECT_END = 20
"""Characters within which the subject of a statement begins."""
_REPORTING_WORDS = 5
"""Words at the beginning among which a verb of reporting makes the rest a quotation."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*['\u2019]?")
_CAPITALISED = re.compile(rf"(?<![^\W_])(?<![^\W_]['\u2019-])(?![a-z\d]){_WORD.pattern}")
"""A word that may begin with a capital, or with a small letter that is not of ASCII."""
_JOINTS = ("'", "\u2019", "-")
_GENITIVE = re.compile("['\u2019]s?$")
_CLAUSE = re.compile(r"[,;:.!?]")
_SENTENCE_ENDS = (".", "!", "?", ":", '"', "“", "„")
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
    THEIR_HOME = 2048
    """Tells where the person lives that it is about."""
    THEIR_WORK = 4096
    """Tells what the person does for a living, or for whom, that it is about."""


NOT_FACTUAL = StatementFeature.PLAN | StatementFeature.HYPOTHESIS | StatementFeature.QUOTATION | StatementFeature.HABIT
"""Modalities in which a statement does not say how things are."""
_OWN_ATTRIBUTES = {
    StatementFeature.OWN_NAME: "name",
    StatementFeature.OWN_HOME: "home",
    StatementFeature.OWN_WORK: "work",
}
_THEIR_ATTRIBUTES = {
    StatementFeature.THEIR_HOME: "their_home",
    StatementFeature.THEIR_WORK: "their_work",
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


class _Statement:
    """A *text*, the same in *small* letters, and which patterns it may have."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.small = small_letters(text)
        self._bits = _prefilter().bits
        self._possible = _prefilter().possible(self.small)

    def may_have(self, name: str) -> bool:
        """Return False where the pattern *name* surely has no match."""
        return self._possible & self._bits[name] > 0

    def has(self, name: str) -> bool:
        """Return whether the pattern *name* has a match."""
        return self.may_have(name) and small_letter_pattern(name).search(self.small) is not None


@cache
def _prefilter() -> PatternPrefilter:
    attributes = (f"tells_{name}" for name in (*_OWN_ATTRIBUTES.values(), *_THEIR_ATTRIBUTES.values()))
    names = ("kin", "marker", "self", "change", "plan", "completed", "hypothesis", "reporting", "habit", *attributes)
    return PatternPrefilter({name: rf"\b(?:{statement_words(name)})\b" for name in names})


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
    statement = _Statement(text[:_MAX_CHARACTERS])
    people = _find_people(statement)
    subject, relations = _subject(statement.text, people), _relations(statement.text, people)
    features = _modality(statement)
    if statement.has("change"):
        features |= StatementFeature.CHANGE
    if _speaks_of_self(statement, people):
        features |= StatementFeature.SELF
    if subject is not None:
        features |= StatementFeature.ABOUT_PERSON
        people = [subject, *people]
    elif _is_about_self(statement.small):
        features |= StatementFeature.ABOUT_SELF
        if small_letter_pattern("elliptical").match(statement.small):
            statement = _Statement(f"I {statement.text}")  # "Moved to Graz" leaves out who did
    attributes = _OWN_ATTRIBUTES if subject is None else {**_OWN_ATTRIBUTES, **_THEIR_ATTRIBUTES}
    for feature, name in attributes.items():
        if statement.has(f"tells_{name}") and statement_pattern(f"tells_{name}").search(statement.text):
            features |= feature
    keys = tuple(dict.fromkeys(person.key for person in people))
    return StatementAnalysis(features, keys, relations)


def may_hold_of_several(text: str) -> bool:
    """Return whether another statement like *text* may be true beside it: a taste, an event, "also"."""
    return statement_pattern("several").search(text) is not None


def is_kin(person: str) -> bool:
    """Return whether *person* is a kin word, as ``StatementAnalysis`` writes it, rather than a name."""
    return person in kin_meanings().values()


def _find_people(statement: _Statement) -> list[_Person]:
    """Return the names and kin words of a statement in their order."""
    text = statement.text
    kin = list(small_letter_pattern("kin").finditer(statement.small)) if statement.may_have("kin") else []
    starts = {match.start() for match in kin}
    names = [match for match in _CAPITALISED.finditer(text) if match.start() not in starts]
    people, end = list[_Person](), 0
    for match in sorted([*kin, *names], key=lambda match: match.start()) if kin else names:
        start = match.start()
        if start in starts:
            if not (text[start - 1 : start] in _JOINTS and text[: start - 1][-1:].isalnum()):  # "ex-wife" is none
                end = match.end()
                owns = text[end : end + 1] in ("'", "\u2019") and not _is_verb_behind(text, end)
                people.append(_Person(kin_meanings()[match[0]], start, end, is_kin=True, owns=owns))
        elif start >= end and _is_name(statement, match):
            name = _GENITIVE.sub("", match[0])
            owns = name != match[0] and not _is_verb_behind(text, match.end())
            people.append(_Person(name.lower(), start, match.end(), is_kin=False, owns=owns))
    return people


def _is_verb_behind(text: str, end: int) -> bool:
    """Return whether the "'s" at *end* of *text* stands for "is" or "has" ("Mum's been moved")."""
    return statement_pattern("behind_verb").match(text[end:].lstrip("'\u2019s ")) is not None


def _is_name(statement: _Statement, match: re.Match[str]) -> bool:
    """Return whether a word is written as a name: capitalised inside a sentence, or at its start before a verb."""
    text, word = statement.text, _GENITIVE.sub("", match[0])
    if len(word) < 2 or not word[0].isupper() or word.isupper() or _is_word(word.lower(), "no_name"):
        return False
    before = text[: match.start()]
    if before.strip(" \t\"'“„(") and not _ends_sentence(before):
        # German writes all nouns with a capital: there, only a title or kin word makes a name of one.
        return not statement.has("marker") or statement_pattern("title").search(before) is not None
    follows = _WORD.match(text[match.end() :].lstrip(" "))
    return word != match[0] or (follows is not None and _is_word(follows[0].lower(), "verb"))


def _ends_sentence(text: str) -> bool:
    """Return whether *text* ends as a sentence, a line or an introduction to speech does."""
    end = text.rstrip()
    return end.endswith(_SENTENCE_ENDS) or "\n" in text[len(end) :]


@lru_cache(maxsize=1 << 14)
def _is_word(word: str, name: str) -> bool:
    """Return whether *word*, in small letters, is one of the pattern *name*."""
    return small_letter_pattern(name).fullmatch(word) is not None


def _subject(text: str, people: list[_Person]) -> _Person | None:
    """Return the person whom the first clause is about, None for the speaker, a thing or nobody."""
    if not people or people[0].start > _SUBJECT_END or statement_pattern("subject").match(text.lstrip()):
        return None
    first = people[0]
    before = _WORD.findall(text[: first.start].lower())
    is_thing = not first.is_kin and bool(before) and _is_word(before[-1], "article")
    while before and _is_word(before[-1], "modifier"):
        before.pop()
    if is_thing or any(_is_word(word, "before_object") for word in before):
        return None
    if len(people) > 1 and (first.is_kin or (first.owns and people[1].is_kin)):
        second = people[1]
        if not text[first.end : second.start].strip(" '\u2019s"):
            return second if not first.owns or len(people) < 3 or not second.is_kin else _named(text, second, people[2])
    return first


def _named(text: str, kin: _Person, name: _Person) -> _Person:
    """Return the person of the *name* right behind a *kin* word, else that of the kin word."""
    return name if not name.is_kin and not text[kin.end : name.start].strip() else kin


def _speaks_of_self(statement: _Statement, people: list[_Person]) -> bool:
    """Return whether a statement has a word of the first person beside one that only says whose kin is meant."""
    if not statement.may_have("self"):
        return False
    whose = {len(statement.text[: person.start].rstrip()) for person in people if person.is_kin}
    return any(match.end() not in whose for match in small_letter_pattern("self").finditer(statement.small))


def _is_about_self(small: str) -> bool:
    first = _WORD.search(small[:60])
    return first is not None and not _is_word(first[0], "article")


def _modality(statement: _Statement) -> StatementFeature:
    features = StatementFeature(0)
    if statement.has("plan") and not statement.has("completed"):
        features |= StatementFeature.PLAN
    opens = small_letter_pattern("opening").match(statement.small.lstrip(" \"'“„")) is not None
    if opens or statement.has("hypothesis"):
        features |= StatementFeature.HYPOTHESIS
    if _reports(statement) or _QUOTED.search(statement.text):
        features |= StatementFeature.QUOTATION
    if statement.has("habit"):
        features |= StatementFeature.HABIT
    return features


def _reports(statement: _Statement) -> bool:
    """Return whether a verb of reporting at the beginning makes the rest what somebody without authority said."""
    if not statement.may_have("reporting"):
        return False
    beginning = " ".join(_WORD.findall(_CLAUSE.split(statement.small, maxsplit=1)[0])[:_REPORTING_WORDS])
    verb = small_letter_pattern("reporting").search(beginning)
    return verb is not None and small_letter_pattern("authority").search(beginning, 0, verb.start()) is None


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
