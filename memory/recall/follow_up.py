"""A question that leans on what was said before ("and when was that?"), and what it leans on. Pure.

Without a model its pronouns cannot be resolved; but asked together with the turn before, it finds what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.recall.lexicon import Lexicon

_HARDLY_ANY = 1
"""A question of no more telling words leans on something, pronoun or not; but of one's own ("Where do I work?")."""
_FEW = 3
"""With more telling words, what a pronoun points to mostly stands in the question itself."""
_BACK = 3
"""Turns looked back for one that stands by itself."""
_LONGEST = 400
"""Characters of a turn that are taken; the first ones, which say what it is about."""


def leans(text: str, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]) -> bool:
    """Whether *text* says too little by itself: it goes on from something, has hardly a word, or few and points back.

    A question that names somebody stands by itself: its pronouns mean that one. So does one about whoever asks.
    """
    if lexicon.goes_on.search(text) is not None:
        return True
    telling = len(set(terms(text)))
    points_back = lexicon.points_back.search(text) is not None
    if telling <= _HARDLY_ANY:
        return points_back or not telling or lexicon.first_person.search(text) is None
    return telling <= _FEW and points_back and lexicon.name.search(text) is None


def leant_on(
    text: str, context: Sequence[str], lexicon: Lexicon, terms: Callable[[str], Sequence[str]]
) -> tuple[str, ...]:
    """Return the turns of *context* (oldest first) that *text* leans on, oldest first: back to one that stands alone.

    Empty where *text* stands by itself, or nothing was said before.
    """
    if not leans(text, lexicon, terms):
        return ()
    taken: list[str] = []
    for turn in [turn for turn in context if turn.strip()][: -_BACK - 1 : -1]:
        taken.append(turn[:_LONGEST])
        if not leans(turn, lexicon, terms):
            break
    return tuple(reversed(taken))
