"""Embedding of a text together with the line that says what it is about.

The vector is the mean of two: of line and text, and of the line alone. On texts of strangers that found .36 first where
line and text in one found .30, and two separate vectors as much as their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from tellback.memory.codec import LINE_END
from tellback.memory.embedders.protocol import Embedder, EmbeddingKind, Embeddings, embed_detailed


def embedded_parts(texts: Iterable[str]) -> list[str]:
    """Return what an embedder is given of *texts*: themselves, or line and text, and the line."""
    return list(chain.from_iterable(map(_parts, texts)))


async def embed_with_lines(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
    """Return a vector for each of *texts*, which may have a line in front (``codec.embedding_text``)."""
    parts = list(map(_parts, texts))
    if all(len(of_text) == 1 for of_text in parts):
        return await embed_detailed(embedder, texts, kind)
    answer = await embed_detailed(embedder, list(chain.from_iterable(parts)), kind)
    firsts = np.cumsum([0, *map(len, parts)])[:-1]
    given = np.asarray(answer.vectors)
    rows = np.array(
        [given[first : first + len(of_text)].sum(axis=0) for first, of_text in zip(firsts, parts, strict=True)]
    )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    place_of = {int(first): place for place, first in enumerate(firsts)}
    return Embeddings(
        np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0),
        {place_of[place]: cut for place, cut in answer.truncated.items() if place in place_of},
        {place_of[place]: why for place, why in answer.refused.items() if place in place_of},
    )


def _parts(text: str) -> tuple[str, ...]:
    line, mark, rest = text.partition(LINE_END)
    return (f"{line}: {rest}", line) if mark else (text,)
