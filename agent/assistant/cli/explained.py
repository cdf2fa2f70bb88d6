"""How a score came about, in a line for people: its parts, the largest first, and the words that matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory import Matched

_PLACES = {"here": "", "before": " before", "after": " after", "question": " in the question it answers"}
_EXACT = 0.995
_UNSEEN = 0.005


def score_line(score: float, parts: Mapping[str, float]) -> str:
    """Return a score as the sum of its parts; those that round to nothing are left out."""
    seen = sorted((part for part in parts.items() if abs(part[1]) >= _UNSEEN), key=lambda part: (-part[1], part[0]))
    line = f"{score:.2f}"
    for number, (name, value) in enumerate(seen):
        sign = "= " if number == 0 and value > 0 else "= -" if number == 0 else "+ " if value > 0 else "- "
        line += f" {sign}{name} {abs(value):.2f}"
    return line


def words_line(matched: Sequence[Matched]) -> str:
    """Return the words of a question with the terms they matched: the same one, or (``~``) one that is near."""
    if not matched:
        return "no word of the question, nor one near it"
    return ", ".join(_pair(one) for one in matched)


def _pair(one: Matched) -> str:
    place = _PLACES[one.where]
    if one.similarity >= _EXACT:
        return f"{one.word}{place}"
    return f"{one.word} ~ {one.by} {one.similarity:.2f}{place}"
