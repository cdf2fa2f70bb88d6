"""Kinds of utterances, told by rules: statements, questions and commands, with content or without, and small talk.

A text is cut into sentences, each of which has a kind; the text has the kind of most content, so that a greeting or a
question beside a statement never hides it. What no rule knows is a statement. The words stand in the section
[utterances] of the lexicons; the language of a text is the one most of whose words occur in it.

A question states something by signs that add up: "when is my shift?" only asks, "is my sister's dog Rex allowed on
trains?" tells of a dog.

    >>> classify_utterance("Thanks! The interview went well.").kind
    <UtteranceKind.STATEMENT: 'statement'>
    >>> classify_utterance("How far is it to Faro?").kind
    <UtteranceKind.QUESTION: 'question'>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from tellback.memory.models import Memory, Utterance, UtteranceKind
from tellback.memory.retrieval.languages.lexicon import Lexicon, lexicon_for

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?…\n])[\"')\u201d\u2019]*\s+|(?<=[\u3002\uff01\uff1f\n])")
_NO_SENTENCE_END = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Frau|Herr|Sr|Sra|St|no|Nr|z\.B|bzw|e\.g)|(?:^|\s)\d{1,2})\.[\"')]*$"
)
_QUESTION_MARKS = ("?", "\uff1f")
_STRETCHED = re.compile(
    r"(?:ha|he|hi|ja|je){2,}h?|h+m+|o+h+|a+h+|a+w+|u+h*m+|y+a+y+|w+o+w+|w+o+h*o+|s+o+|e+h+|u+gh+|m+|x+|k+|l+o+l+"
)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LANGUAGES: Final = ("english", "german", "spanish")
_LISTS: Final = frozenset(
    [
        "question_words",
        "auxiliaries",
        "subjects",
        "first_person",
        "possessives",
        "other_possessives",
        "persons",
        "being",
        "openers",
        "causes",
        "relatives",
        "articles",
        "no_telling",
        "objects",
        "handing",
        "small_talk",
        "social",
        "functions",
    ]
)
_JUDGED_CHARACTERS: Final = 20_000
"""Length from which the rest of a text is not looked at: a paste of megabytes would take seconds."""
_LONG_QUESTION: Final = 10
_LONG_SMALL_TALK: Final = 12
_BY_CONTENT: Final = (
    UtteranceKind.STATEMENT,
    UtteranceKind.STATING_QUESTION,
    UtteranceKind.STATING_COMMAND,
    UtteranceKind.QUESTION,
    UtteranceKind.COMMAND,
    UtteranceKind.SMALL_TALK,
)
_PLAIN: Final = Utterance(UtteranceKind.STATEMENT)
_STORES: Final = Utterance(UtteranceKind.STATING_COMMAND, "asks to keep something")
_CHATS: Final = Utterance(UtteranceKind.SMALL_TALK, "a set phrase, or words of courtesy alone")


def classify_utterance(text: str) -> Utterance:
    """Return the kind of the utterance *text* and the reason."""
    text = text[:_JUDGED_CHARACTERS]
    if _HAN.search(text):
        return _classify_chinese(text)
    sentences = split_sentences(text.replace("\u2019", "'"))
    if not sentences:
        return _CHATS
    words = _words_of(text)
    by_kind = {
        utterance.kind: utterance for utterance in (_Sentence(sentence, words).classify() for sentence in sentences)
    }
    return next(by_kind[kind] for kind in _BY_CONTENT if kind in by_kind)


def is_judged(kind: object, role: object) -> bool:
    """Return whether the rules judge a memory of this *kind* and *role*: a person's turn, nothing noted on purpose."""
    return kind == "turn" and role not in ("assistant", "tool")


def with_utterance(memory: Memory) -> Memory:
    """Return *memory* with the kind of its utterance, where the rules judge it and nobody else did."""
    if memory.utterance is not None or not is_judged(memory.kind, memory.role):
        return memory
    utterance = classify_utterance(memory.text)
    return replace(memory, utterance=utterance.kind, utterance_reason=utterance.reason)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of *text*, whose ends are not those of a title, an abbreviation or an ordinal number."""
    sentences: list[str] = []
    for part in _SENTENCE_END.split(text):
        if sentences and _NO_SENTENCE_END.search(sentences[-1]):
            sentences[-1] += f" {part}"
        elif part.strip():
            sentences.append(part.strip())
    return sentences


@dataclass(frozen=True, slots=True)
class UtteranceWords:
    """Words of one language by the part that they play, and the *patterns* of its set phrases."""

    lexicon: Lexicon
    lists: dict[str, frozenset[str]]
    patterns: dict[str, re.Pattern[str]]

    def hits(self, words: Sequence[str]) -> int:
        """Return how many of *words* are frequent in this language; a command or greeting in front counts more."""
        names = ("functions", "small_talk", "social", "question_words")
        start = " ".join(words)
        opens = any(
            (match := self.patterns[name].match(start)) and _ends_word(start, match.end())
            for name in ("storing", "asking", "greetings")
        )
        return sum(any(word in self.lists[name] for name in names) for word in words) + 2 * opens


@cache
def utterance_words(language: str) -> UtteranceWords:
    """Return the words of *language*, which is one of those that have a section [utterances]."""
    file = ConfigParser(delimiters=("=",), interpolation=None)
    file.read(Path(__file__).with_name(f"{language}.ini"), "utf-8")
    section = {name: text.replace("\n", "") for name, text in file["utterances"].items()}
    lists = {name: frozenset(filter(None, section.get(name, "").split("|"))) for name in _LISTS}
    patterns = {
        name: re.compile(rf"(?:{text})" if text else r"(?!)", re.IGNORECASE)
        for name, text in section.items()
        if name not in _LISTS
    }
    return UtteranceWords(lexicon_for(language), lists, patterns)


def _words_of(text: str) -> UtteranceWords:
    words = [word.lower() for word in _WORD.findall(text)]
    return max((utterance_words(language) for language in _LANGUAGES), key=lambda known: known.hits(words))


class _Sentence:
    """One sentence as it is judged: its surfaces and its *words* in small letters."""

    def __init__(self, text: str, known: UtteranceWords) -> None:
        self.text = text
        self.known = known
        self.surfaces = _WORD.findall(text)
        self.words = [word.lower() for word in self.surfaces]
        self.asks = text.rstrip("\"')").endswith(_QUESTION_MARKS) or "¿" in text
        self.has_digit = any(character.isdigit() for character in text)

    def classify(self) -> Utterance:
        """Return the kind of the sentence."""
        known, words = self.known, self.words
        if not words:
            return Utterance(UtteranceKind.QUESTION, "only a question mark") if self.asks else _CHATS
        if not self.has_digit and all(self._is_chat(word) for word in words):
            return Utterance(UtteranceKind.QUESTION, "asks back") if self.asks and len(words) == 1 else _CHATS
        if known.patterns["phrases"].fullmatch(" ".join(words)):
            return _CHATS
        rest, courteous = self._without_opening()
        if not rest:
            return _CHATS
        start = " ".join(rest)
        storing = known.patterns["storing"].match(start)
        if storing and _ends_word(start, storing.end()) and not known.patterns["no_storing"].match(start):
            objects = _WORD.findall(start[storing.end() :]) or _WORD.findall(storing[0])[1:]
            return _STORES if self._content(objects, "objects") else Utterance(UtteranceKind.COMMAND, "a bare command")
        if self._is_question(rest, start):
            if len(rest) > 1 and rest[0] in known.lists["functions"] and rest[1] in known.lists["question_words"]:
                rest = rest[1:]  # "in which town", "since when"
            points = self._points(rest)
            long_enough = len(words) >= _LONG_QUESTION and (self._names() or self._first_person())
            if points >= 2 or (points == 1 and long_enough):
                return Utterance(UtteranceKind.STATING_QUESTION, "a question that states something")
            return Utterance(UtteranceKind.QUESTION, "a question that states nothing")
        asking = known.patterns["asking"].match(start)
        if asking and _ends_word(start, asking.end()) and not known.patterns["no_asking"].match(start):
            points = self._points(rest)
            hands = rest[0] in known.lists["handing"] and len(self._content(rest[1:], "objects")) >= 2
            if points >= 2 or (points == 1 and hands):
                return Utterance(UtteranceKind.STATING_COMMAND, "a command that states something")
            return Utterance(UtteranceKind.COMMAND, "a command that states nothing")
        if courteous and self.asks:
            return Utterance(UtteranceKind.QUESTION, "a request that states nothing")
        social = known.lists["social"] | known.lists["small_talk"] | known.lists["functions"]
        others = known.lists["persons"] | {"they"}
        if self.has_digit or self._names() or self._has_date():
            return _PLAIN
        if len(rest) <= _LONG_SMALL_TALK and social.issuperset(rest) and others.isdisjoint(rest):
            return _CHATS
        return _PLAIN

    def _is_chat(self, word: str) -> bool:
        return word in self.known.lists["small_talk"] or _STRETCHED.fullmatch(word) is not None

    def _without_opening(self) -> tuple[list[str], bool]:
        """Return the words without greetings, yes and no, and courtesies at the front; and whether it is a request."""
        words, courteous = self.words, False
        start = " ".join(words)
        while True:
            opening = next(
                (
                    match
                    for name in ("greetings", "polite")
                    if (match := self.known.patterns[name].match(start))
                    and match.end()
                    and _ends_word(start, match.end())
                    and (name == "polite" or self._is_set_off(match[0], start))
                ),
                None,
            )
            if opening is None:
                return start.split(), courteous
            courteous = courteous or (opening.re is self.known.patterns["polite"] and " " in opening[0])
            start = start[opening.end() :].lstrip()

    def _is_set_off(self, opening: str, start: str) -> bool:
        """Return whether the greeting *opening* is no part of the clause: "well, …" is, "good shoes …" is not."""
        last = opening.split()[-1]
        place = len(self.words) - len(start.split()) + len(opening.split())
        if place >= len(self.words):
            return True
        between = re.search(rf"(?i)\b{re.escape(last)}\b([^\w]+){re.escape(self.words[place])}", self.text)
        return between is not None and (between[1].strip() != "" or last in _PLAIN_OPENINGS)

    def _content(self, words: Iterable[str], *lists: str) -> list[str]:
        """Return those of *words* that are neither function words nor in *lists*."""
        empty = self.known.lists["functions"].union(*(self.known.lists[name] for name in lists))
        return [word for word in words if word not in empty]

    def _is_question(self, rest: Sequence[str], start: str) -> bool:
        known = self.known
        if self.asks:
            return True
        if known.patterns["no_question"].match(self._tail(rest)):
            return False
        indirect = known.patterns["indirect"].match(start)
        if indirect and _ends_word(start, indirect.end()):
            return True
        if self.text.endswith("!"):
            return False
        if rest[0] in known.lists["question_words"]:
            following = rest[1:4]
            return any(word in known.lists["auxiliaries"] or word == "to" for word in following) or "'s" in rest[0]
        return rest[0] in known.lists["auxiliaries"] and rest[1:2] != [] and rest[1] in known.lists["subjects"]

    def _tail(self, rest: Sequence[str]) -> str:
        """Return the text from the first of *rest* on, with its commas."""
        starts = [match.start() for match in _WORD.finditer(self.text)]
        return self.text[starts[len(self.words) - len(rest)] :].lower()

    def _first_person(self) -> bool:
        return not self.known.lists["first_person"].isdisjoint(self.words)

    def _has_date(self) -> bool:
        """Return whether a month or a weekday occurs; in small letters, "may" and "march" are none."""
        calendar = {*self.known.lexicon.months, *self.known.lexicon.weekdays} - {"may", "march", "mar", "sat", "sun"}
        return not calendar.isdisjoint(self.words) or not {"May", "March"}.isdisjoint(self.surfaces[1:])

    def _names(self) -> list[str]:
        """Return the capitalised words that are no beginning, no month and no weekday."""
        calendar = {*self.known.lexicon.months, *self.known.lexicon.weekdays}
        pattern = self.known.patterns.get("names")
        if pattern is not None:
            case = re.compile(pattern.pattern)
            names = [match[1] for match in case.finditer(self.text)]
        else:
            names = self.surfaces[1:]
        return [
            name
            for name in names
            if name[:1].isupper()
            and not name.isupper()
            and (lower := name.lower().removesuffix("'s")) not in calendar
            and lower not in self.known.lists["first_person"]
            and lower not in self.known.lists["functions"]
        ]

    def _points(self, rest: Sequence[str]) -> int:
        """Return how many signs there are that a question, or command, states something."""
        known, words = self.known, self.words
        lists, text = known.lists, self._tail(rest)
        names, first_person = self._names(), self._first_person()
        lower_names = {name.lower() for name in names}
        has_number = self.has_digit or known.lexicon.number.search(text) is not None
        has_date = self._has_date()
        tellers = lists["persons"] | lists["first_person"] | lower_names
        points = int(not lists["possessives"].isdisjoint(words)) + bool(names) + (has_number or has_date)
        if len(words) > 7 and ((has_date and re.search(r"\d\d", text)) or len(re.findall(r"\d+", text)) > 1):
            points += 1
        if names and not lists["other_possessives"].isdisjoint(words):
            points += 1
        opener = next(
            (
                i
                for i, word in enumerate(rest)
                if (i or (word in lists["causes"] and "," in text))
                and word in lists["openers"]
                and not self._is_inverted(rest[i:])
                and not tellers.isdisjoint(rest[i + 1 : i + 4])
            ),
            None,
        )
        if opener is not None:
            points += 2 + (rest[opener] in lists["causes"])
        personal = bool(names) or first_person
        for clause in re.findall(r", (?:and )?([\w' ]+)", text):
            first = clause.split()[0] if clause.split() else ""
            if first in lists["persons"] or (
                personal and first in lists["articles"] and not self._is_inverted(clause.split())
            ):
                points += 2
                break
        possessives = lists["possessives"] | lists["other_possessives"]
        for i, word in enumerate(rest):
            if word not in possessives:
                continue
            following = rest[i + 1 : i + 5]
            if not lists["relatives"].isdisjoint(following[1:]):
                points += 2
                break
            if any(name in following[1:3] for name in lower_names):
                points += 1
                break
        points += 2 * self._has_bare_clause(rest)
        if rest[0] not in lists["no_telling"] and not lists["being"].isdisjoint(rest):
            points += 1 if rest[0] in lists["being"] or "like" in rest else 2
        if known.patterns["telling"].match(" ".join(rest)):
            points += 2
        return points

    def _is_inverted(self, words: Sequence[str]) -> bool:
        """Return whether *words* begin as a question does ("which do I"), and not as a relative clause."""
        lists = self.known.lists
        return (
            len(words) > 2
            and words[0] in lists["question_words"]
            and words[1] in lists["auxiliaries"]
            and words[2] in lists["subjects"]
        )

    def _has_bare_clause(self, rest: Sequence[str]) -> bool:
        """Return whether a noun with a clause without a pronoun occurs: "the office I moved to"."""
        lists = self.known.lists
        subjects = {word for word in ("i", "i'm", "i've", "we", "we're", "we've") if word in lists["first_person"]}
        for i, word in enumerate(rest):
            if i < 2 or word not in subjects or not self._content([rest[i - 1]]):
                continue
            if any(before in lists["articles"] for before in rest[max(i - 3, 0) : i - 1]):
                return True
        return False


_PLAIN_OPENINGS: Final = frozenset(
    [
        "thanks",
        "thx",
        "hi",
        "hello",
        "hey",
        "ok",
        "okay",
        "oh",
        "hmm",
        "hm",
        "wow",
        "yes",
        "yeah",
        "yep",
        "no",
        "please",
        "danke",
        "hallo",
        "gracias",
        "hola",
        "vale",
    ]
)


def _ends_word(text: str, end: int) -> bool:
    return end == len(text) or not (text[end].isalnum() or text[end] in "'-")


def _classify_chinese(text: str) -> Utterance:
    chinese = utterance_words("chinese")
    bare = "".join(_WORD.findall(text))
    if chinese.patterns["phrases"].fullmatch(bare):
        return _CHATS
    asks = all(part.rstrip().endswith((*_QUESTION_MARKS, "吗", "呢")) for part in split_sentences(text))
    if asks and not chinese.lists["first_person"].intersection(bare) and not re.search(r"\d", bare):
        return Utterance(UtteranceKind.QUESTION, "a question that states nothing")
    return _PLAIN
