"""Difference of two texts for the screen: the old and the new one, the words that changed coloured on a terminal."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.cli.output import console, one_line, screen_width

if TYPE_CHECKING:
    from rich.text import Text

# A character of Chinese, Japanese or Korean is a word of its own.
_WORDS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+|\S")


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
    removed, added = (list(_WORDS.finditer(text.plain)) for text in (before, after))
    words, new_words = ([word[0].casefold() for word in side] for side in (removed, added))
    for kind, start, end, new_start, new_end in SequenceMatcher(a=words, b=new_words, autojunk=False).get_opcodes():
        for word in removed[start:end] if kind != "equal" else ():
            before.stylize("bold red", *word.span())
        for word in added[new_start:new_end] if kind != "equal" else ():
            after.stylize("bold green", *word.span())
    return before, after
