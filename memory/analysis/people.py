"""People in a text, by rule: names, kin words, whom its first clause is about, and who is whose relative.

English, German and Spanish, whatever the language of the memory. The words are in ``people.ini``: of a kin word by
what it means, and of those that tell a name at the beginning of a sentence from another capitalised word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

_SUBJECT_END: Final = 20
"""Characters within which the subject of a statement begins."""
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*['\u2019]?")
_GENITIVE: Final = re.compile("['\u2019]s?$")
_MOST_NAMES: Final = 3
"""Names of one role, from more of which none is meant."""
_ENDS: Final = (".", "!", "?", ":", '"', "\u201c", "\u201e")
_APPOSITION: Final = re.compile(r"\W{1,2}")
_OWNED: Final = re.compile(r"(?:['\u2019]s|\b(?:his|her|their))\s+$", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"\b(?:the|der|die|la|le|el)\s+$", re.IGNORECASE)
_OF: Final = re.compile(r"\s+(?:of|de|di)\s+\w|\s+d['\u2019]\w", re.IGNORECASE)
"""Stands behind a kin word, before the person whose relative is meant."""
_OWN: Final = re.compile(
    r"\b(?:my|our|mein\w{0,2}|unse?re?\w?|mis?|nuestr\w+|mon|ma|mes|notre|mi[ao]|meu|minha)\s+$", re.IGNORECASE
)
_IS_MY: Final = re.compile(
    r"(?:,|\s+is|\s+ist|\s+es|,?\s+the|\s+was)\s+(?:my|our|meine?|unsere?|mi|nuestr[oa])(?:\s+\w+)?\s+", re.IGNORECASE
)
"""Stands between a name and the kin word for that person."""
_IS_CALLED: Final = re.compile(
    r"(?:['\u2019]s name is|\s+(?:is (?:called|named)|hei(?:\u00df|ss)t|se llama|s['\u2019]appelle|si chiama))\s+"
    r"(?P<called>[^\W\d_]+(?: [^\W\d_a-z][\w'\u2019-]+)?)"
    r"|\s+(?:is|es|est|\u00e8)\s+(?P<is>[^\W\d_a-z][\w'\u2019-]+(?: [^\W\d_a-z][\w'\u2019-]+)?)"
    r"(?<!ish)(?<!ese)(?<!ican)(?=\s*(?:[.,;!)]|$)|\s+(?:and|und|y|et|e)\s)"
)
"""Stands behind a kin word, with the name ("My wife is Lena."). Not German "ist": a trade has a capital there, too."""
_LINE_PERSON: Final = re.compile(r"\s*(?P<name>[^\W\d_a-z][^():;]*?) \((?P<role>[^()]+)\):")
"""Begins a part of a structured line: "Ana (sister): birthday"."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The *name* of a relative of the speaker and the *role*, both as they are written ("Ana", "my sister").

    *kin* is the word that stands for the role in every language ("sister").
    """

    name: str
    role: str
    kin: str

    @property
    def key(self) -> str:
        """The same for relations that say the same, in small letters: "ana/sister"."""
        return f"{self.name.lower()}/{self.kin}"


@dataclass(frozen=True, slots=True)
class People:
    """People of a text, its *subject* first where that is a person, and their *relations* to the speaker.

    Names and kin words are in small letters, kin words by one word in every language ("mother"). The subject is ""
    where the text is about its speaker, None where it is about a thing or nobody. *speaks_of_self*: it has a word of
    the first person beside one that only says whose kin is meant.
    """

    names: tuple[str, ...] = ()
    subject: str | None = None
    relations: tuple[Relation, ...] = ()
    speaks_of_self: bool = False


@dataclass(frozen=True, slots=True)
class _Person:
    """A person at *start* to *end* of a text; *owns*: written as a genitive ("Dana's")."""

    key: str
    start: int
    end: int
    is_kin: bool
    owns: bool


def find_people(text: str) -> People:
    """Return the people of *text*."""
    words = list(_WORD.finditer(text))
    people = _persons(text, words)
    subject, small = _subject(text, people), [word[0].lower().replace("\u2019", "'") for word in words]
    whose = {len(text[: person.start].rstrip()) for person in people if person.is_kin}
    is_self = any(_is("self", small[i]) and word.end() not in whose for i, word in enumerate(words))
    ordered = people if subject is None else [subject, *people]
    about_self = bool(small) and not _is("article", small[0])
    return People(
        tuple(dict.fromkeys(person.key for person in ordered)),
        subject.key if subject is not None else "" if about_self else None,
        _relations(text, people),
        is_self,
    )


def is_kin(person: str) -> bool:
    """Return whether *person* is a kin word, as ``People`` writes it, rather than a name."""
    return person in kin_meanings().values()


@cache
def kin_meanings() -> Mapping[str, str]:
    """Return the word that stands for each kin word, both in small letters ("mother" for "mum")."""
    return {word: meaning for meaning, words in _file()["kin"].items() for word in words.split("|")}


@cache
def _first_of_pairs() -> frozenset[str]:
    """Return the first word of each kin word of two ("meine" of "meine frau")."""
    return frozenset(word.partition(" ")[0] for word in kin_meanings() if " " in word)


@cache
def _file() -> ConfigParser:
    file = ConfigParser(delimiters=("=",), interpolation=None)
    file.read(Path(__file__).with_name("people.ini"), "utf-8")
    return file


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_file()["words"][name].replace("\n", "").split("|"))


def _is(name: str, word: str) -> bool:
    """Return whether *word*, in small letters, is one of the words *name*; a form with an apostrophe like its stem."""
    return word in _words(name) or ("'" in word and word.partition("'")[0] in _words(name))


def _persons(text: str, words: Sequence[re.Match[str]]) -> list[_Person]:
    """Return the names and kin words of *text* in their order."""
    people, end, meanings, pairs = list[_Person](), 0, kin_meanings(), _first_of_pairs()
    small_words = [word[0].lower() for word in words]
    is_german = any(_is("german", small) for small in small_words)
    for i, word in enumerate(words):
        if word.start() < end:
            continue
        bare = _GENITIVE.sub("", word[0])
        owns = bare != word[0] and not (i + 1 < len(words) and _is("behind_verb", small_words[i + 1]))
        after = words[i + 1] if i + 1 < len(words) else None
        pair = ""
        if after is not None and small_words[i] in pairs:
            pair = f"{small_words[i]} {_GENITIVE.sub('', small_words[i + 1])}"
        if after is not None and pair in meanings:
            end = after.end()
            people.append(_Person(meanings[pair], word.start(), end, is_kin=True, owns=after[0].endswith("s")))
        elif (small := bare.lower()) in meanings:
            end = word.start() + len(bare)
            people.append(_Person(meanings[small], word.start(), end, is_kin=True, owns=owns))
        elif _is_name(text, word, bare, after, is_german=is_german):
            people.append(_Person(small, word.start(), word.end(), is_kin=False, owns=owns))
    return people


def _is_name(text: str, word: re.Match[str], bare: str, after: re.Match[str] | None, *, is_german: bool) -> bool:
    """Return whether *word* is written as a name: capitalised inside a sentence, or at its start before a verb."""
    small = bare.lower()
    if len(bare) < 2 or not bare[0].isupper() or bare.isupper() or _is("no_name", small) or _is("self", small):
        return False
    before = text[: word.start()]
    if before.strip(" \t\"'\u201c\u201e(") and not before.rstrip().endswith(_ENDS) and "\n" not in before[-1:]:
        # German writes all nouns with a capital: there, only a title or kin word makes a name of one.
        last = before.split()[-1].lower()
        return not is_german or _is("role", last) or last in kin_meanings()
    return bare != word[0] or (after is not None and (_is("verb", after[0].lower()) or after[0].endswith("ed")))


def _subject(text: str, people: Sequence[_Person]) -> _Person | None:
    """Return the person whom the first clause is about, None for the speaker, a thing or nobody."""
    first_words = [word.lower() for word in _WORD.findall(text[:_SUBJECT_END])[:1]]
    if not people or people[0].start > _SUBJECT_END or (first_words and _is("subject", first_words[0])):
        return None
    first = people[0]
    before = [word.lower() for word in _WORD.findall(text[: first.start])]
    is_thing = not first.is_kin and bool(before) and _is("article", before[-1])
    while before and any(_is(name, before[-1]) for name in ("role", "self", "article")):
        before.pop()
    if is_thing or any(_is(name, word) for word in before for name in ("oblique", "self", "verb")):
        return None
    if any(word.endswith("ed") for word in before):
        return None
    if len(people) > 1 and (first.is_kin or (first.owns and people[1].is_kin)):
        second = people[1]
        if not text[first.end : second.start].strip(" '\u2019s"):
            return second if not first.owns or len(people) < 3 or not second.is_kin else _named(text, second, people[2])
    return first


def _named(text: str, kin: _Person, name: _Person) -> _Person:
    """Return the person of the *name* right behind a *kin* word, else that of the kin word."""
    return name if not name.is_kin and not text[kin.end : name.start].strip() else kin


def _relations(text: str, people: Sequence[_Person]) -> tuple[Relation, ...]:
    """Return the relations of *text*: "my sister Ana", "Ana, my sister", "Ana is my sister", "My sister is Ana"."""
    found = []
    for first, second in pairwise(people):
        kin_word = text[second.start : second.end].split()[-1]  # of "meine Frau", which is one kin word
        if first.is_kin and not second.is_kin and not first.owns:
            if _APPOSITION.fullmatch(text[first.end : second.start]) and not _ARTICLE.search(text[: first.start]):
                found.append((first, _GENITIVE.sub("", text[second.start : second.end])))
        elif not first.is_kin and second.is_kin and _IS_MY.fullmatch(text[first.end : second.end - len(kin_word)]):
            found.append((second, text[first.start : first.end]))
    for person in people:
        if person.is_kin and (called := _IS_CALLED.match(text, person.end)):
            found.append((person, called["is"] or called["called"]))
    return distinct_relations(
        Relation(name[0].upper() + name[1:], _role(text, kin), kin.key)
        for kin, name in found
        if name.lower() not in kin_meanings() and not _OWNED.search(text[: kin.start])
    )  # "Tomasz's mother Halina" is not the speaker's


def _role(text: str, kin: _Person) -> str:
    """Return what the speaker calls the person of a *kin* word: "my sister"."""
    owner = _OWN.search(text[: kin.start])
    role = text[kin.start if owner is None else owner.start() : kin.end]
    return role[0].lower() + role[1:]


def distinct_relations(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Return *relations*, of those that say the same the last."""
    return tuple({relation.key: relation for relation in relations}.values())


def relations_of_line(line: str) -> tuple[Relation, ...]:
    """Return the relations that the line of a memory says: "Ana (sister): birthday; Tom (brother): job"."""
    people = [(person["name"], person["role"]) for part in line.split(";") if (person := _LINE_PERSON.match(part))]
    kin = {**_kin_by_last_word(), **kin_meanings()}
    return distinct_relations(Relation(name, role, kin[role.lower()]) for name, role in people if role.lower() in kin)


@cache
def _kin_by_last_word() -> Mapping[str, str]:
    """Return the kin words that need an owner in a sentence without it: "frau" for "meine frau"."""
    return {word.split()[-1]: meaning for word, meaning in kin_meanings().items()}


def with_names(question: str, relations: Sequence[Relation]) -> str | None:
    """Return *question* with names in the place of roles; None where it has no role of somebody known.

    Of a role that several have, all names are put that are said half as often as the one said most. Somebody else's
    relatives stay ("Rhona's brother"), and so does a role beside its name.
    """
    spans = []
    for person in _persons(question, list(_WORD.finditer(question))):
        if not person.is_kin or _OWNED.search(question[: person.start]) or _OF.match(question, person.end):
            continue
        counts = Counter(relation.name for relation in relations if relation.kin == person.key)
        names = [name for name, count in counts.items() if 2 * count >= max(counts.values())]
        if 0 < len(names) <= _MOST_NAMES and not any(_written(name, question) for name in counts):
            spans.append((person.end - len(_role(question, person)), person.end, ", ".join(names)))
    return _replaced(question, spans)


def with_roles(question: str, relations: Sequence[Relation]) -> str | None:
    """Return *question* with roles in the place of names; None where it names nobody known, or has the role itself."""
    kin = {person.key for person in _persons(question, list(_WORD.finditer(question))) if person.is_kin}
    roles = {relation.name: relation for relation in relations}
    return _replaced(
        question,
        [
            (match.start(), match.end(), relation.role)
            for relation in roles.values()
            if relation.kin not in kin
            for match in _written(relation.name, question)
        ],
    )


def _written(name: str, question: str) -> list[re.Match[str]]:
    """Return where *question* has *name*, also as a genitive; in small letters where it has no others."""
    flags = re.IGNORECASE if question.islower() else 0
    return list(re.finditer(rf"(?<!\w){re.escape(name)}(?=['\u2019]?s?(?!\w))", question, flags))


def _replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str | None:
    """Return *text* with the words of *spans* in their places; None without a span."""
    replaced, begin = text, len(text)
    for start, end, words in sorted(spans, reverse=True):
        if end <= begin:
            replaced, begin = replaced[:start] + words + replaced[end:], start
    return None if replaced == text else replaced
