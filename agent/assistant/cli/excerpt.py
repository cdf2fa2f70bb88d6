"""Excerpt of a long text: the few lines in which most words of the question stand; on a terminal they are bold."""

from __future__ import annotations

import re
import sys
from typing import Final

from tellback.agent.assistant.cli.output import escape_controls, has_styles, screen_width, wrap_text

_LINES: Final = 4
_LEAST_WORD_LENGTH: Final = 3
_STEM_LENGTH: Final = 5
"""Characters in which two words must agree to count as forms of one: crude, but only the display depends on it."""
_WORD: Final = re.compile(r"\w+")
CUT: Final = "…"


def question_pattern(question: str) -> re.Pattern[str] | None:
    """Return a pattern of the words of *question*, in any of their endings; None where it has none."""
    words = {word.casefold() for word in _WORD.findall(question) if len(word) >= _LEAST_WORD_LENGTH}
    stems = sorted(re.escape(word[:_STEM_LENGTH]) for word in words)
    return re.compile(rf"\b(?:{'|'.join(stems)})\w*", re.IGNORECASE) if stems else None


def excerpt(text: str, pattern: re.Pattern[str] | None, *, indent: int, full: bool) -> tuple[list[str], bool]:
    """Return *text* in safe lines of the screen's width less *indent*, and whether lines were left out.

    A longer text is cut to the four neighbouring lines with the most different words of *pattern*, the first such four.
    With *full* all lines of the text are returned, unbroken.
    """
    plain = escape_controls(text)
    if full:
        return [_bold(line, pattern) for line in plain.split("\n")], False
    lines = wrap_text(plain, max(screen_width() - indent, 20))
    start = 0
    if len(lines) > _LINES and pattern is not None:
        seen = [{match[0].casefold()[:_STEM_LENGTH] for match in pattern.finditer(line)} for line in lines]
        windows = range(len(lines) - _LINES + 1)
        start = max(windows, key=lambda first: (len(set().union(*seen[first : first + _LINES])), -first))
    shown = lines[start : start + _LINES]
    if not (cut := len(shown) < len(lines)):
        return [_bold(line, pattern) for line in shown], cut
    before, after = CUT * (start > 0), CUT * (start + _LINES < len(lines))
    shown = [_bold(line, pattern) for line in shown]
    return [before + shown[0], *shown[1:-1], f"{shown[-1]} {after}".rstrip()], cut


def _bold(line: str, pattern: re.Pattern[str] | None) -> str:
    if pattern is None or not has_styles(sys.stdout):
        return line
    return pattern.sub(lambda match: f"\x1b[1m{match[0]}\x1b[0m", line)
