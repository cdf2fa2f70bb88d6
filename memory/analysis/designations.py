"""Designations: numbers that say which of several things is meant ("locker 7", "PX-1200"), in any language.

>>> contradicts("What is in box 651?", "Box 1517 has the winter coats.")
True
>>> contradicts("What is in box 651?", "Box 651 has the lamps, box 1517 the coats.")
False
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

_TOKEN: Final = re.compile(r"\d+(?:[:.,/]\d+)+|[^\W_]+")
_NUMBER: Final = re.compile(r"(?P<letters>[^\W\d_]{0,5}?)(?P<number>\d+[a-z]?)")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_LEAST_LETTERS: Final = 3
"""Letters of a word that may name a kind of thing: shorter ones are mostly prepositions and articles ("at 7")."""
_AHEAD: Final = 2
"""Words before a number among which is what it counts: "locker no. 7"."""


def contradicts(question: str, text: str) -> bool:
    """Return whether *text* has the kind of thing that *question* names by a number with another number, not that one.

    Years, times and amounts with a point say when or how much, not which.
    """
    asked = _designations(question)
    if not asked:
        return False
    said = _designations(text)
    known = {number for number, _ in said} | {token.casefold() for token in _TOKEN.findall(text)}
    return any(number not in known and any(words & others for _, others in said) for number, words in asked)


def has_designations(question: str, texts: Iterable[str]) -> bool:
    """Return whether one of *texts* has a number by which *question* names a thing, behind the same word."""
    asked = _designations(question)
    said = [designation for text in texts for designation in _designations(text)]
    return any(number == other and words & others for number, words in asked for other, others in said)


def _designations(text: str) -> list[tuple[str, AbstractSet[str]]]:
    """Return the numbers of *text* in small letters, each with the words right before it."""
    tokens = [token.casefold() for token in _TOKEN.findall(text)]
    found: list[tuple[str, AbstractSet[str]]] = []
    for place, token in enumerate(tokens):
        match = _NUMBER.fullmatch(token)
        if match is None or _YEAR.fullmatch(token):
            continue
        words = {word for word in tokens[max(0, place - _AHEAD) : place] if word.isalpha()}
        kept = {word for word in words if len(word) >= _LEAST_LETTERS}
        letters = match["letters"] or (tokens[place - 1] if place and re.search(rf"\w-{token}\b", text) else "")
        if kept or letters:
            found.append((match["number"], kept | ({f"{letters}-"} if letters else set())))
    return found
