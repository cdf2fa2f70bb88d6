"""Sentences of a text: the rules by which it is split into them, for any script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

TextSpan: TypeAlias = tuple[int, int]
"""Where a piece begins in a text, and where it ends."""

_SENTENCE_BREAK = re.compile(
    r"""
      (?P<stop> [.!?\u2026]+ ["'\u201d\u2019)\]]* (?=\s) )
    | (?P<script> [\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u17d4\u0f0d]+ (?=\s) )
    | (?P<wide> [\u3002\uff01\uff1f]+ [\u300d\u300f\u201d\uff09]? )
    | (?P<gap> \n [ \t]* \n )
    | (?P<line> \n (?= [ \t]{0,8} (?: [-*+\u2022][ \t] | \d{1,3}[.)][ \t] | [#>|] ) ) )
    | (?P<head> ^\# [^\n]* \n )
    """,
    re.VERBOSE | re.MULTILINE,
)
_WORD_BEFORE = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_ABBREVIATION_TEXT = (
    "al approx bzw ca cf ch co corp dept dr eq eqs etc fig figs inc jr ltd mr mrs ms no nos pp prof sec sr "
    "st vol vs apr aug dec feb jan jul jun mar nov oct sep sept a.m d.h e.g i.e p.m ph.d u.k u.s z.b"
)
_ABBREVIATIONS = frozenset(_ABBREVIATION_TEXT.split())


def split_sentences(text: str) -> list[TextSpan]:
    """Return (start, end) of each sentence in order, blanks at the ends left out; none is empty.

    Rules, not a model: a sentence ends at . ! ? …, at their forms in other scripts (Arabic, Armenian, Burmese,
    Chinese and Japanese, Devanagari, Ethiopic, Khmer, Tibetan), at a blank line, and at a line that begins a list
    item, heading, quote or table row. A full stop after an initial or an abbreviation, or before a small letter, ends
    nothing.
    """
    breaks = _SENTENCE_BREAK.finditer(text)
    ends = [match.end() for match in breaks if not match["stop"] or _ends_sentence(text, match)]
    spans = (strip_span(text, start, end) for start, end in pairwise((0, *ends, len(text))))
    return [(start, end) for start, end in spans if start < end]


def line_spans(text: str, start: int, end: int) -> Iterator[TextSpan]:
    """Yield the lines of ``text[start:end]``, each with its break."""
    while start < end:
        stop = text.find("\n", start, end) + 1 or end
        yield start, stop
        start = stop


def strip_span(text: str, start: int, end: int) -> TextSpan:
    """Return the span without the blanks at its ends; start and end do not ascend if nothing is left."""
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    if stop[0][0] != ".":
        return True
    following = text[stop.end() : stop.end() + 80].lstrip()
    if following[:1].islower():
        return False
    before = _WORD_BEFORE.search(text, max(0, stop.start() - 40), stop.start())
    if before is None or len(stop[0]) > 1:
        return True
    word = before[0]
    initial = len(word) == 1 and word.isupper() and word != "I"
    return not (initial or word.lower() in _ABBREVIATIONS)
