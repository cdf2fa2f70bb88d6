"""Real rows: pieces of the public texts that ``benchmarks/README.md`` names, with vectors of the local embedder.

There are about 12,000 pieces of 24 words. For more rows the same texts are cut again, into pieces of other lengths, so
that no piece is there twice but its words are; ``About.made`` says how many rows were made that way.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.memory.data.catalogue import read_data
from benchmarks.memory.data.dataset import DataSet
from benchmarks.stores.data import EXTRA, About, write
from tellback.memory import LocalEmbedder

_SETS = ("locomo", "squad", "cranfield")
_LENGTHS = (24, 16, 36, 12, 30, 20, 42, 10, 27, 14, 33, 18, 39, 22, 45, 11)
_SHORTEST = 8
_QUESTION_TERMS = 6


def make(folder: Path, texts: Path, *, n: int, seed: int, queries: int) -> None:
    """Write *n* rows (and the extra ones) cut from the data sets in *texts*; queries are their questions."""
    rng = np.random.default_rng(seed)
    sets = [read_data(name, texts) for name in _SETS]
    documents, asked = _documents(sets), _questions(sets)
    pieces, first_cut = _pieces(documents, n + EXTRA, rng)
    rng.shuffle(asked)
    embedder = LocalEmbedder()
    vectors = asyncio.run(embedder.embed(pieces))
    lengths = np.linalg.norm(vectors, axis=1)
    if not lengths.all():
        raise ValueError("a piece of text has no vector: the local embedder knows none of its words")
    again = max(0, n + EXTRA - first_cut)
    made = f"texts of {', '.join(f'{one.name} {one.hash[:8]}' for one in sets)}, {embedder.fingerprint}; " + (
        f"{again} of {n + EXTRA} pieces repeat words of others, cut at other places and lengths"
        if again
        else "no words repeated"
    )
    write(
        folder,
        About("real", n, embedder.dimension, seed, made),
        vectors=vectors,
        queries=asyncio.run(embedder.embed(asked[:queries], "query")),
        texts=pieces,
        questions=_six_terms(asked, pieces, queries),
    )


def _documents(sets: Sequence[DataSet]) -> list[list[str]]:
    """Return the words of each document, and of each session of a conversation."""
    values: dict[str, list[str]] = {}
    for item in (item for one in sets for corpus in one.corpora for item in corpus.items):
        values.setdefault(item.session or item.id, []).append(item.text)
    return [" ".join(parts).split() for parts in values.values()]


def _questions(sets: Sequence[DataSet]) -> list[str]:
    return list(dict.fromkeys(asked.question.text for one in sets for asked in one.questions.values() if asked.gold))


def _pieces(documents: Sequence[Sequence[str]], count: int, rng: np.random.Generator) -> tuple[list[str], int]:
    """Return *count* distinct pieces in random order, and how many the first cut gave."""
    found: dict[str, None] = {}
    first = 0
    for position, length in enumerate(_LENGTHS):
        cut = list(dict.fromkeys(_cut(documents, length, position)))
        rng.shuffle(cut)
        found.update(dict.fromkeys(cut))
        first = first or len(found)
        if len(found) >= count:
            break
    if len(found) < count:
        raise ValueError(f"the texts give {len(found)} distinct pieces, {count} are needed")
    chosen = list(itertools.islice(found, count))
    rng.shuffle(chosen)
    return chosen, first


def _cut(documents: Sequence[Sequence[str]], length: int, shift: int) -> Iterator[str]:
    for words in documents:
        for start in range(3 * shift % length, len(words), length):
            piece = words[start : start + length]
            if len(piece) >= _SHORTEST:
                yield " ".join(piece)


def _six_terms(asked: Sequence[str], pieces: Sequence[str], count: int) -> list[str]:
    """Return questions of six words that real questions have, each in at most 5 per cent of the rows."""
    frequency = Counter(word for piece in pieces for word in {_bare(word) for word in piece.split()})
    terms = [
        word
        for question in asked
        for word in dict.fromkeys(map(_bare, question.split()))
        if len(word) > 3 and word.isalpha() and 1 <= frequency[word] <= len(pieces) // 20
    ]
    groups = zip(*[itertools.cycle(terms)] * _QUESTION_TERMS, strict=True)
    return [" ".join(group) for group in itertools.islice(groups, count)]


def _bare(word: str) -> str:
    return word.strip(".,;:!?\"'()[]").casefold()
