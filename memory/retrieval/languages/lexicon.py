"""The lexicon of a language: patterns for time, number, person and kind of question beyond its stems.

A language with a lexicon of its own has it in a file beside this one, such as ``german.ini``:

- [months], [weekdays], [days], [counts], [units]: words by their meaning, which is the number of a month or of a
  weekday (Monday is 0), days ago, a count, or a unit of time in English.
- [lists]: words and parts of patterns that patterns name in braces.
- [words], [patterns]: patterns of the ``Lexicon``, of whole words in any case or as they are.
- [fragments], [dates]: ``possessive``, ``ordinal`` and ``of``; the ``date_patterns``.

Line breaks inside a pattern are left out. Any other language gets the neutral lexicon: question marks, digits and
numeric dates are recognised, the other features stay off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tellback.memory.errors import ArgumentError

_NO_MATCH = re.compile(r"(?!)")
_LIST_NAME = re.compile(r"\{([a-z_]+)\}")
_TABLES = ("months", "weekdays", "days", "counts", "units")
_LANGUAGES = ("chinese", "english", "german", "spanish")
_CODES: Mapping[str, str] = MappingProxyType(
    {
        "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
        "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french",
        "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian",
        "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
        "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
        "zh": "chinese",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """Patterns of one language.

    - ``call`` captures a capitalised word by which somebody is addressed, ``proper`` one inside a sentence: a name, in
      a language that writes only names so.
    - ``continuation`` finds the beginning of a follow-up, ``back_reference`` a word that refers to something said
      before. ``frame_words`` say nothing of a question's topic when it asks for a time alone ("what did I say
      yesterday").
    - ``exclusion`` finds what a question sets aside ("besides tea"), ``order`` a word that asks for one of several in
      time ("the latest"), or for an age ("how old"), and names no topic; ``light_verb`` one that says little of it
      ("take", "go").
    - ``possessive`` may follow a name. ``ordinal`` follows the number of a day, ``of`` joins it to its month and that
      to its year.
    - ``own_words``: how the user is meant by themselves, as subject, possessive and behind ``prepositions``: "I|my|me".
    - ``date_patterns`` find further ways to write a date, with groups "year", "month" or "name", and "day".
      ``relative_dates`` finds days relative to another, with the groups that ``dates`` reads; ``weekdays``, ``days``,
      ``counts`` and ``units`` say what their words mean.
    """

    first_person: re.Pattern[str] = _NO_MATCH
    second_person: re.Pattern[str] = _NO_MATCH
    time: re.Pattern[str] = _NO_MATCH
    number: re.Pattern[str] = re.compile(r"\d")
    name: re.Pattern[str] = _NO_MATCH
    asks_number: re.Pattern[str] = _NO_MATCH
    call: re.Pattern[str] = _NO_MATCH
    proper: re.Pattern[str] = _NO_MATCH
    asks_time: re.Pattern[str] = _NO_MATCH
    asks_several: re.Pattern[str] = _NO_MATCH
    continuation: re.Pattern[str] = _NO_MATCH
    back_reference: re.Pattern[str] = _NO_MATCH
    exclusion: re.Pattern[str] = _NO_MATCH
    order: re.Pattern[str] = _NO_MATCH
    light_verb: re.Pattern[str] = _NO_MATCH
    relative_dates: re.Pattern[str] = _NO_MATCH
    date_patterns: tuple[re.Pattern[str], ...] = ()
    frame_words: frozenset[str] = frozenset()
    months: Mapping[str, int] = field(default_factory=dict)
    weekdays: Mapping[str, int] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    possessive: str = r"(?:['\u2019]s?)?"
    ordinal: str = r"(?:st|nd|rd|th)?\b"
    of: str = "(?: of)?"
    own_words: str = ""
    prepositions: str = "(?!)"


NEUTRAL = Lexicon()


@cache
def lexicon_for(language: str) -> Lexicon:
    """Return what is known of *language* (an analyzer's name for it); the neutral lexicon for any without its own."""
    if language not in _LANGUAGES:
        return NEUTRAL
    file = ConfigParser(delimiters=("=",), interpolation=None)
    file.read(Path(__file__).with_name(f"{language}.ini"), "utf-8")
    tables: dict[str, Any] = {name: _meanings(file[name]) for name in _TABLES if name in file}
    lists = {name: alternatives(words) for name, words in tables.items()}

    def pattern(text: str) -> str:
        return _LIST_NAME.sub(lambda braces: lists[braces[1]], text.replace("\n", ""))

    for name, text in file["lists"].items():
        lists[name] = pattern(text)
    parts: dict[str, Any] = {**tables, **file["fragments"]}
    parts |= {name: re.compile(rf"\b(?:{pattern(text)})\b", re.IGNORECASE) for name, text in file["words"].items()}
    parts |= {name: re.compile(pattern(text)) for name, text in file["patterns"].items()}
    parts["date_patterns"] = tuple(re.compile(pattern(text)) for text in file["dates"].values())
    parts["frame_words"] = frozenset(lists["frame_words"].split("|"))
    return Lexicon(**parts)


def analyzer_language(language: str) -> str:
    """Return the analyzer's name of *language*, given by it or by a code ("de", "de-AT"); an unknown one as it is."""
    if not isinstance(language, str) or not language:
        raise ArgumentError("language", language, "a code such as 'de' or a name such as 'german' is needed")
    return _CODES.get(re.split("[-_]", language.lower())[0], language.lower())


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern of any of *words*, the longest first."""
    return "|".join(sorted(words, key=len, reverse=True))


def _meanings(table: Mapping[str, str]) -> dict[str, int | str]:
    """Return the meaning of each word of a *table* that lists words by meaning."""
    meanings = {meaning: int(meaning) if meaning.isdigit() else meaning for meaning in table}
    return {word: meanings[meaning] for meaning, words in table.items() for word in words.split("|")}
