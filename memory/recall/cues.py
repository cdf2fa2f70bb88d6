"""Seven yes/no cues of a memory's text, as bits of one byte. Nothing here depends on other memories."""

from __future__ import annotations

from enum import IntFlag

from memory.recall.lexicon import Lexicon


class Cue(IntFlag):
    """What a text shows at a glance."""

    ASKS = 1
    """Holds a question mark."""
    ENDS_ASKING = 2
    """Ends with a question mark, and so says little itself."""
    FIRST_PERSON = 4
    """Its speaker speaks of themself."""
    TIME = 8
    NUMBER = 16
    NAME = 32
    """A capitalised word inside a sentence."""
    CHANGE = 64
    """Says that something is no longer as it was."""


_ENDS = ("?", "\uff1f")


def cues_of(text: str, lexicon: Lexicon) -> int:
    """Return the cues of *text*, or'ed."""
    found = 0
    if "?" in text or "\uff1f" in text:
        found |= Cue.ASKS
        if text.rstrip(" \t\n\"')\u201d\u2019").endswith(_ENDS):
            found |= Cue.ENDS_ASKING
    if lexicon.first_person.search(text):
        found |= Cue.FIRST_PERSON
    if lexicon.time.search(text):
        found |= Cue.TIME
    if lexicon.number.search(text):
        found |= Cue.NUMBER
    if lexicon.name.search(text):
        found |= Cue.NAME
    if lexicon.change.search(text):
        found |= Cue.CHANGE
    return int(found)
