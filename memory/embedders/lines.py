"""Embedding of a text with the line that says what it is about, and of a long text by its passages.

The vector of a text with a line is the mean of two: of line and text, and of the line alone. On texts of strangers that
found .36 first where line and text in one found .30, and two separate vectors as much as their mean. The vector of a
long text is the mean of those of its passages, since encoders read only the beginning of a long one; each passage's own
is given, too, so that what the text says in one place is found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.chunking.sentences import split_sentences
from tellback.memory.codec import LINE_END
from tellback.memory.embedders.protocol import Embedder, EmbeddingKind, Embeddings, embed_detailed

LONG_CHARACTERS: Final = 1500
"""Characters above which a text is long."""
_PASSAGE_CHARACTERS: Final = 700
_MOST_PASSAGES: Final = 64
"""Passages that have vectors: the beginning of a text as long as a small book."""


def passages_of(text: str) -> tuple[str, ...]:
    """Return the passages of a long text: whole sentences up to 700 characters together; none of a shorter one.

    A sentence that is longer is cut.
    """
    if len(text) <= LONG_CHARACTERS:
        return ()
    return tuple(dict.fromkeys(_passages(text)))[:_MOST_PASSAGES]


def _passages(text: str) -> Iterator[str]:
    start = end = 0
    for sentence_start, sentence_end in split_sentences(text):
        for begin in range(sentence_start, sentence_end, _PASSAGE_CHARACTERS):
            stop = min(begin + _PASSAGE_CHARACTERS, sentence_end)
            if end and stop - start > _PASSAGE_CHARACTERS:
                yield text[start:end]
                end = 0
            start, end = (start if end else begin), stop
    if end:
        yield text[start:end]


def embedded_parts(texts: Iterable[str]) -> list[str]:
    """Return what an embedder is given of *texts*: their passages or themselves, line and text, and the line."""
    return list(chain.from_iterable(map(_parts, texts)))


async def embed_with_lines(
    embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document"
) -> tuple[Embeddings, dict[str, NDArray[np.float32]]]:
    """Return a vector for each of *texts*, and those of the passages of the long ones, by their words.

    A text may have a line in front (``codec.embedding_text``). A question (*kind* "query") is one, however long.
    """
    parts = [(text,) for text in texts] if kind == "query" else list(map(_parts, texts))
    if all(len(of_text) == 1 for of_text in parts):
        return await embed_detailed(embedder, texts, kind), {}
    answer = await embed_detailed(embedder, list(chain.from_iterable(parts)), kind)
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    given, passages = np.asarray(answer.vectors), dict[str, NDArray[np.float32]]()
    rows = np.zeros((len(parts), given.shape[1] if given.ndim == 2 else 0), np.float32)
    for place, (of_text, first) in enumerate(zip(parts, ends, strict=False)):
        count = len(passages_of(texts[place].rpartition(LINE_END)[2]))
        own = given[first : first + len(of_text)]
        passages |= {part: row for part, row in zip(of_text[:count], own[:count], strict=True) if row.any()}
        rows[place] = own.sum(axis=0) if not count else _unit(own[:count].sum(axis=0)) + own[count:].sum(axis=0)
    place_of = {first: place for place, first in enumerate(ends[:-1])}
    embeddings = Embeddings(
        np.array(list(map(_unit, rows))),
        {place_of[place]: cut for place, cut in answer.truncated.items() if place in place_of},
        {place_of[place]: why for place, why in answer.refused.items() if place in place_of},
    )
    return embeddings, passages


def _parts(text: str) -> tuple[str, ...]:
    """Return the passages of a long *text* or the text with its line, and then the line alone, where it has one."""
    line, mark, rest = text.partition(LINE_END)
    if not mark:
        return passages_of(text) or (text,)
    return (*(passages_of(rest) or (f"{line}: {rest}",)), line)


def _unit(row: NDArray[np.float32]) -> NDArray[np.float32]:
    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length > 0 else row
