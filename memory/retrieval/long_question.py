"""Long questions: one that is pasted text is searched for by the words of it that tell memories apart best.

The cost of a recall grows with the words of its question. Beyond ``MAX_TERMS`` different ones, those that many memories
have change little: the rarest are kept, in their order, and the beginning and the end, where the question itself
mostly stands (Lucene's "more like this" selects terms of a document in the same way).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

MAX_TERMS: Final = 256
"""Different terms of a question that are searched for, give or take those that the last word adds."""
MAX_CHARACTERS: Final = 100_000
"""Characters of a question that are read; of a longer one, the first and the last."""
_EDGE_PIECES: Final = 32
"""Words at either end that are kept whatever they are."""
_PIECE: Final = re.compile(r"\S{1,64}")
"""A word; what is written without spaces is cut."""


def excerpt(text: str, limit: int) -> str:
    """Return *text* if it has at most *limit* characters, else so many of its beginning and its end."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} {text[-half:]}"


def shorten_question(
    text: str, terms: Callable[[str], Sequence[str]], df: Callable[[Sequence[str]], Sequence[int]]
) -> tuple[str, str | None]:
    """Return the text to search for instead of *text*, and a note on what was left out; *text* and None if it is short.

    *terms* is the analyzer's split of a text into terms; *df* gives the number of memories that have each of some
    terms. Terms that no memory has are kept last; ties by their place in the text.
    """
    excerpted = excerpt(text, MAX_CHARACTERS)
    distinct = tuple(dict.fromkeys(terms(excerpted)))
    if len(distinct) <= MAX_TERMS and excerpted == text:
        return text, None
    rarity = dict(zip(distinct, df(distinct), strict=True))
    pieces = _PIECE.findall(excerpted)
    terms_of = [terms(piece) for piece in pieces]

    def rank(index: int) -> tuple[bool, int]:
        least = min((count for term in terms_of[index] if (count := rarity.get(term, 0))), default=0)
        return not least, least

    chosen = {*range(min(_EDGE_PIECES, len(pieces))), *range(max(len(pieces) - _EDGE_PIECES, 0), len(pieces))}
    kept = {term for index in chosen for term in terms_of[index]}
    for index in sorted(range(len(pieces)), key=rank):
        if len(kept) >= MAX_TERMS:
            break
        if not kept.issuperset(terms_of[index]):
            chosen.add(index)
            kept.update(terms_of[index])
    part = "" if excerpted == text else f" of its first and last {MAX_CHARACTERS // 2:,} characters"
    note = f"a long question: searched by the {len(kept):,} rarest of the {len(distinct):,} different words{part}"
    return " ".join(pieces[index] for index in sorted(chosen)), note
