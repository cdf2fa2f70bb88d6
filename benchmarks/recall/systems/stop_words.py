"""The words of a question that say something, for the systems that bring no list of their own: ours, given to them."""

from __future__ import annotations

from collections.abc import Iterable

from tellback.vectorstore import Analyzer


def telling(words: Iterable[str]) -> list[str]:
    """Return *words*, each once, without the stop words of Tellback's own analyzer; all of them if none is left."""
    terms = Analyzer().terms
    every = list(dict.fromkeys(words))
    return [word for word in every if terms(word)] or every
