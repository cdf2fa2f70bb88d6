"""The lexicon of a language: patterns for time, number, person and kind of question beyond its stems.

A language without a lexicon of its own gets the neutral one: question marks, digits and numeric dates are recognised,
the other features stay off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_MATCH = re.compile(r"(?!)")
_NO_MONTHS: Mapping[str, int] = MappingProxyType({})
_NO_ENGLISH_WORDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """Patterns of one language.

    ``call`` captures a capitalised word by which somebody is addressed, ``proper`` one inside a sentence, which is a
    name where a language writes only names so; ``goes_on`` finds the beginning of a
    continuation, ``points_back`` a word that stands for something said before. ``frame`` are words that say nothing of
    what a question is about when it asks for a time alone ("what did I say yesterday").

    ``possessive`` may follow a name. ``ordinal`` follows the number of a day and ``of`` joins it to its month and that
    to its year; ``dates`` are other ways to write one, with groups "year", "month" or "name", and "day". ``reckoned``
    finds days counted from another, with the groups of ``reckoned.py``, and ``canon`` gives its words in English.
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
    frame: frozenset[str] = frozenset()
    goes_on: re.Pattern[str] = _NO_MATCH
    points_back: re.Pattern[str] = _NO_MATCH
    months: Mapping[str, int] = field(default_factory=lambda: _NO_MONTHS)
    possessive: str = r"(?:['\u2019]s?)?"
    ordinal: str = r"(?:st|nd|rd|th)?\b"
    of: str = " of"
    dates: tuple[re.Pattern[str], ...] = ()
    reckoned: re.Pattern[str] | None = None
    canon: Mapping[str, str] = field(default_factory=lambda: _NO_ENGLISH_WORDS)


def whole_words(alternatives: str) -> re.Pattern[str]:
    """Return a pattern of whole words, whatever their case."""
    return re.compile(rf"\b(?:{alternatives})\b", re.IGNORECASE)


NEUTRAL = Lexicon()
