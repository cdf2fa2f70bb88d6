"""By which words a memory was found: for each word of the question its nearest term, here or in the turns around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import Index
from memory.recall.matching import Words, similarities
from memory.recall.order import NO_ROW
from memory.recall.question import Question
from memory.recall.stems import NOTHING
from memory.recall.window import around
from memory.records import Matched

Where = Literal["here", "before", "after", "question"]
_SIDES: tuple[Where, ...] = ("before", "after", "before", "after")
_SHOWN = 0.2
"""Below this similarity of two words there is nothing to see."""


def matched_words(
    question: Question, words: Words, row: int, index: Index, *, window: Sequence[float] = ()
) -> tuple[Matched, ...]:
    """Return the words by which *row* matches *question*, the weightiest first.

    *window* is what a word counts one turn before, one after, two before and two after; none for a document.
    """
    if not len(words.numbers):
        return ()
    places: list[tuple[int, float, Where]] = [(row, 1.0, "here")]
    if window:
        surroundings = around(index.order, np.array([row], dtype=np.int64))
        sides = [int(side[0]) for side in surroundings.sides]
        places += list(zip(sides, window, _SIDES, strict=True))
        places.append((int(surroundings.answers[0]), 1.0, "question"))
    best: list[Matched | None] = [None] * len(words.numbers)
    for place, part, where in places:
        if place == NO_ROW:
            continue
        terms = np.unique(index.text_terms(np.array([place], dtype=np.int64))[0])
        near = part * similarities(words, terms, index)
        for at, (term, similarity) in enumerate(_best(terms, near)):
            held = best[at]
            if similarity >= _SHOWN and (held is None or similarity > held.similarity):
                weight = float(words.weights[at]) / words.total if words.total > 0 else 0.0
                best[at] = Matched(question.forms[at], index.stems.form(term), similarity, weight, where)
    found = [one for one in best if one is not None]
    return tuple(sorted(found, key=lambda one: (-one.similarity * one.weight, one.word)))


def _best(terms: NDArray[np.int64], near: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Return (term, similarity) of the nearest of *terms* to each word."""
    at = near.argmax(axis=0)
    return [
        (int(terms[place]), round(float(near[place, word]), 4)) if terms[place] != NOTHING else (NOTHING, 0.0)
        for word, place in enumerate(at.tolist())
    ]
