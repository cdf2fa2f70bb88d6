"""Difference of two texts for the screen: the old and the new one, the words that changed coloured on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellback.agent.assistant.cli.output import console, one_line, screen_width
from tellback.agent.word_difference import word_difference

if TYPE_CHECKING:
    from rich.text import Text


def print_difference(old: str, new: str, *, aside: bool = False) -> None:
    """Print *old* under "was" and *new* under "now", in lines of the screen; *aside* prints to standard error."""
    from rich.text import Text

    screen = console(error=aside)
    for label, text in zip(("  was: ", "  now: "), marked_difference(old, new), strict=True):
        for number, line in enumerate(text.wrap(screen, max(screen_width() - len(label), 20))):
            line.rstrip()
            screen.print(Text(" " * len(label) if number else label) + line, soft_wrap=True)


def marked_difference(old: str, new: str) -> tuple[Text, Text]:
    """Return *old* and *new* on one line each, with a style on the words that are not in the other."""
    from rich.text import Text

    before, after = Text(one_line(old)), Text(one_line(new))
    removed, added = word_difference(before.plain, after.plain)
    for text, spans, style in ((before, removed, "bold red"), (after, added, "bold green")):
        for span in spans:
            text.stylize(style, *span)
    return before, after
