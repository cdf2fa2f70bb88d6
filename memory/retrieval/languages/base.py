"""The lexicon of a language: patterns for time, number, person and kind of question beyond its stems.

A language without a lexicon of its own gets the neutral one: question marks, digits and numeric dates are recognised,
the other features stay off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_MATCH = re.compile(r"(?!)")
_NO_MONTHS: Mapping[str, int] = MappingProxyType({})
_NO_ENGLISH_WORDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """Patterns of one language.

    - ``call`` captures a capitalised word by which somebody is addressed, ``proper`` one inside a sentence: a name, in
      a language that writes only names so.
    - ``continuation`` finds the beginning of a follow-up, ``back_reference`` a word that refers to something said
      before. ``frame_words`` say nothing of a question's topic when it asks for a time alone ("what did I say
      yesterday").
    - ``possessive`` may follow a name. ``ordinal`` follows the number of a day, ``of`` joins it to its month and that
      to its year.
    - ``date_patterns`` find further ways to write a date, with groups "year", "month" or "name", and "day".
      ``relative_dates`` finds days relative to another, with the groups of the English pattern in ``dates``;
      ``english_words`` has its words in English.
    """

    first_person: re.Pattern[str] = _NO_MATCH
    second_person: re.Pattern[str] = _NO_MATCH
    time: re.Pattern[str] = _NO_MATCH
    number: re.Pattern[str] = re.compile(r"\d")
    name: re.Pattern[str] = _NO_MATCH
    call: re.Pattern[str] = _NO_MATCH
    proper: re.Pattern[str] = _NO_MATCH
    asks_time: re.Pattern[str] = _NO_MATCH
    asks_place: re.Pattern[str] = _NO_MATCH
    asks_number: re.Pattern[str] = _NO_MATCH
    asks_several: re.Pattern[str] = _NO_MATCH
    asks_state: re.Pattern[str] = _NO_MATCH
    change: re.Pattern[str] = _NO_MATCH
    frame_words: frozenset[str] = frozenset()
    continuation: re.Pattern[str] = _NO_MATCH
    back_reference: re.Pattern[str] = _NO_MATCH
    months: Mapping[str, int] = field(default_factory=lambda: _NO_MONTHS)
    possessive: str = r"(?:['\u2019]s?)?"
    ordinal: str = r"(?:st|nd|rd|th)?\b"
    of: str = " of"
    date_patterns: tuple[re.Pattern[str], ...] = ()
    relative_dates: re.Pattern[str] | None = None
    english_words: Mapping[str, str] = field(default_factory=lambda: _NO_ENGLISH_WORDS)


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern of any of *words*, the longest first."""
    return "|".join(sorted(words, key=len, reverse=True))


def whole_words(pattern: str) -> re.Pattern[str]:
    """Return *pattern* for whole words, in upper or lower case."""
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


NEUTRAL = Lexicon()
