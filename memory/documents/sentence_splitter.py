"""Sentences of a text as spans, so that a quote is the text itself. Rules, not a model.

A sentence ends at . ! ? … and their wide forms before a blank, at a blank line, and at a line that begins a list item,
heading, quote or table row. A full stop after an initial or an abbreviation, or before a small letter, ends nothing.
"""

from __future__ import annotations

import re

_SENTENCE_BREAK = re.compile(
    r"""
      (?P<stop> [.!?\u2026]+ ["'\u201d\u2019)\]]* (?=\s) )
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


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence in order, blanks at the ends left out; none is empty."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE_BREAK.finditer(text):
        if match["stop"] and not _ends_sentence(text, match):
            continue
        _add_span(spans, text, start, match.end())
        start = match.end()
    _add_span(spans, text, start, len(text))
    return spans


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


def _add_span(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    kept = piece.strip()
    if kept:
        first = start + len(piece) - len(piece.lstrip())
        spans.append((first, first + len(kept)))
