"""Patterns of statements in several languages at once: those of ``statements.ini``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from configparser import ConfigParser
from functools import cache
from pathlib import Path

_LANGUAGES = ("english", "german", "spanish", "chinese")
_IS_MY = r"(?:,|\s+is|\s+ist|\s+es|,?\s+the|\s+was)\s+(?:my|our|meine?|unsere?|mi|nuestr[oa])(?:\s+\w+)?\s+"
"""Stands between a name and the kin word for that person."""
_LETTER_SET = re.compile(r"\[\w[^\]\\]*\]")
_WEEKDAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"


@cache
def statement_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern *name*, of whole words in any case."""
    if name == "is_my":
        return re.compile(_IS_MY, re.IGNORECASE)
    if name == "owned":
        return re.compile(r"(?:['\u2019]s|\b(?:his|her|their))\s+$", re.IGNORECASE)
    if name == "title":
        return re.compile(rf"\b(?:{statement_words('role')}|{statement_words('kin')}) $", re.IGNORECASE)
    return re.compile(rf"\b(?:{statement_words(name)})\b", re.IGNORECASE)


@cache
def small_letter_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern *name* for texts in small letters: several times as fast as the one for any case.

    Where a pattern demands a capital, any letter will do.
    """
    words = _LETTER_SET.sub(lambda letters: letters[0].lower(), statement_words(name))
    return re.compile(rf"\b(?:{words})\b")


def statement_words(name: str) -> str:
    """Return the alternatives of the pattern *name*."""
    return _words()[name]


@cache
def kin_meanings() -> Mapping[str, str]:
    """Return the word that stands for each kin word, both in small letters ("mother" for "mum")."""
    return {word: meaning for meaning, words in _file()["kin"].items() for word in words.split("|")}


@cache
def _file() -> ConfigParser:
    file = ConfigParser(delimiters=("=",), interpolation=None)
    file.read(Path(__file__).with_name("statements.ini"), "utf-8")
    return file


@cache
def _words() -> Mapping[str, str]:
    """Return the alternatives of each pattern, those of all languages joined."""
    parts: dict[str, list[str]] = {}
    for language in _LANGUAGES:
        for name, text in _file()[language].items():
            parts.setdefault(name, []).append(text.replace("\n", ""))
    words = {name: "|".join(texts) for name, texts in parts.items()}
    words["no_name"] = "|".join([words["opener"], words["role"], words["self"], _WEEKDAYS, _MONTHS])
    words["modifier"] = "|".join([words["role"], words["self"], words["article"]])
    words["before_object"] = "|".join([words["oblique"], words["self"], words["verb"], words["elliptical"]])
    words["kin"] = "(?:" + "|".join(sorted(kin_meanings(), key=len, reverse=True)) + r")\b(?!-)"
    return words
