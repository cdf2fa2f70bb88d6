"""Difference of two texts by words, for whoever shows what a correction changed."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final, TypeAlias

# A character of Chinese, Japanese or Korean is a word of its own.
_WORDS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+|\S")
Spans: TypeAlias = list[tuple[int, int]]


def word_difference(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the spans of the words of *old* that are not in *new*, and those of *new* that are not in *old*."""
    removed, added = (list(_WORDS.finditer(text)) for text in (old, new))
    words, new_words = ([word[0].casefold() for word in side] for side in (removed, added))
    before: Spans = []
    after: Spans = []
    for kind, start, end, new_start, new_end in SequenceMatcher(a=words, b=new_words, autojunk=False).get_opcodes():
        if kind != "equal":
            before += [word.span() for word in removed[start:end]]
            after += [word.span() for word in added[new_start:new_end]]
    return before, after
