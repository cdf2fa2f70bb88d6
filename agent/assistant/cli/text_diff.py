"""Difference of two texts for the screen: the old and the new one, the words that changed coloured on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final

import typer

from agent.assistant.cli.output import escape_controls, one_line, print_line, screen_width, wrap_text
from agent.assistant.resident.host import current_environment

# A character of Chinese, Japanese or Korean is a word of its own.
_WORDS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+|\S")
_INDENT: Final = 2


def print_difference(old: str, new: str, *, aside: bool = False) -> None:
    """Print *old* under "was" and *new* under "now", in lines of the screen; *aside* prints to standard error."""
    stream = sys.stderr if aside else sys.stdout
    environ = current_environment()
    coloured = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    before, after = one_line(old), one_line(new)
    removed, added = changed_characters(before, after)
    for name, text, changed, colour in (("was", before, removed, "red"), ("now", after, added, "green")):
        margin = " " * _INDENT + f"{name}: "
        lines = wrap_text(text, max(screen_width() - len(margin), 20))
        flags = iter(changed)
        shown = [_coloured(line, flags, colour) if coloured else escape_controls(line) for line in lines]
        for index, line in enumerate(shown):
            (_print_aside if aside else print_line)((margin if index == 0 else " " * len(margin)) + line)


def changed_characters(old: str, new: str) -> tuple[list[bool], list[bool]]:
    """Return a flag for each character of *old* and of *new*, spaces left out: its word is not in the other text."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    removed: list[bool] = []
    added: list[bool] = []
    matcher = SequenceMatcher(a=list(map(str.casefold, before)), b=list(map(str.casefold, after)), autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        removed += [kind != "equal"] * len("".join(before[start:end]))
        added += [kind != "equal"] * len("".join(after[new_start:new_end]))
    return removed, added


def _coloured(line: str, flags: Iterator[bool], colour: str) -> str:
    """Return *line* with the flagged characters coloured; a space takes the flag of the character before it."""
    marked: list[tuple[bool, str]] = []
    for character in line:
        is_space = character.isspace()
        marked.append(((marked[-1][0] if marked else False) if is_space else next(flags, False), character))
    parts = []
    for changed, group in groupby(marked, key=lambda pair: pair[0]):
        text = "".join(character for _, character in group)
        parts.append(typer.style(text, fg=colour, bold=True) if changed else text)
    return "".join(parts)


def _print_aside(line: str) -> None:
    typer.echo(line, err=True)
