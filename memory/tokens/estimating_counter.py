"""Estimate of token counts where no tokenizer is at hand; it says so, and rather counts too many.

Tokenizers differ. The weights are for the most expensive kind in use (32,000 tokens, digits one by one, rare characters
byte by byte): for such a one, no text of people or of code is counted too low. English is counted half as much again,
other scripts up to twice. Only strings without sense, such as hashes and keys, may take a little more than estimated.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Final

from tellback.memory.errors import ArgumentError

_WEIGHTS: Final = (
    # what is counted together, and how many of it make a token
    (r"[a-z]+", 3.0),
    (r"[A-Z]+", 1.25),
    (r"[!-/:-@\[-`{-~]+", 1.0),  # punctuation and signs
    (r"[0-9]+", 1.0),
    (r" +", 4.0),
    (r"[\x00-\x1f\x7f]+", 1.0),  # line ends, tabs
    (r"[\x80-\u024f]+", 0.5),  # Latin letters with marks
    (r"[\u0400-\u052f]+", 1.5),  # Cyrillic
    (r"[\u0250-\u03ff\u0530-\u08ff]+", 0.8),  # Greek, Hebrew, Arabic …
    (r"[\u0900-\u0fff]+", 0.6),  # the scripts of India, Thai …
    (r"[\u1000-\uffff]+", 0.5),  # Chinese, Japanese, Korean, symbols
    (r"[\U00010000-\U0010ffff]+", 0.25),  # emoji
)
_MAX_CACHED_TEXTS: Final = 2048
_MAX_CACHED_LENGTH: Final = 2000
"""Texts, and characters of each, that are kept with their counts: at most 4 MB."""


@cache
def _piece() -> re.Pattern[str]:
    """Return the pattern of a piece, compiled for the first text. A single space belongs to what follows it."""
    pieces = "|".join(f"({pattern})" for pattern, _ in _WEIGHTS)
    return re.compile(r"(?: (?=[a-zA-Z!-/:-@\[-`{-~]))?(?:" + pieces + ")")


class EstimatingCounter:
    """Adds up what words, signs, digits and letters of other scripts take at most.

    The estimate of two texts joined is at most the sum of theirs, and at least that of each.
    """

    name = "estimate/pieces"
    exact = False

    def __init__(self) -> None:
        # Each turn of a conversation counts all of its messages: what was counted just before is known.
        self._known = lru_cache(maxsize=_MAX_CACHED_TEXTS)(_estimate)

    def count(self, text: str) -> int:
        """As the protocol says."""
        if not isinstance(text, str):
            raise ArgumentError("text", text, "a text is needed")
        return self._known(text) if len(text) <= _MAX_CACHED_LENGTH else _estimate(text)


def _estimate(text: str) -> int:
    total = 0
    for piece in _piece().finditer(text):
        kind = piece.lastindex
        assert kind is not None
        start, end = piece.span(kind)
        total += math.ceil((end - start) / _WEIGHTS[kind - 1][1])
    return total
