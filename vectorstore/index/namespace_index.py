"""Index of one namespace in memory: its rows, their declared fields, their vectors and their terms.

Rows are always there; columns, matrix and terms are loaded when they are needed, and followed from then on.
Not thread-safe, and no I/O: the engine that owns it locks and fills it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.distance import prepare_rows
from tellback.vectorstore.filters import FilterNode
from tellback.vectorstore.index.bm25 import ForwardBlock, TermIndex
from tellback.vectorstore.index.columns import MetadataColumns
from tellback.vectorstore.index.growable_array import GrowableArray
from tellback.vectorstore.index.vectors import Ranking, VectorMatrix, top_k_ranking
from tellback.vectorstore.types import Metadata, Space, Vector


class NamespaceIndex:
    """Finds entries by vector and by terms; they are known by the engine's row key and by their id."""

    def __init__(self, keys: Sequence[int], ids: Sequence[str], *, space: Space | None) -> None:
        self._space = space
        self._columns: MetadataColumns | None = None
        self._keys: GrowableArray[np.int64] = GrowableArray(np.int64)
        self._keys.load(np.array(keys, dtype=np.int64))
        self._row_of = {key: row for row, key in enumerate(keys)}
        self._id_of = dict(zip(keys, ids, strict=True))
        self._key_of = dict(zip(ids, keys, strict=True))
        self.matrix: VectorMatrix | None = None
        """The vectors; None while they are not loaded."""
        self._terms: TermIndex | None = None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_columns(self) -> bool:
        """Return whether columns are loaded."""
        return self._columns is not None

    @property
    def has_terms(self) -> bool:
        """Return whether terms are loaded."""
        return self._terms is not None

    # Rows.

    def put_row(self, key: int, id: str, metadata: Metadata) -> None:
        """Add an entry, or change its declared fields."""
        row = self._row_of.get(key)
        if row is not None:
            if self._columns is not None:
                self._columns.put(row, metadata)
            return
        self._row_of[key] = len(self._keys)
        self._keys.append(key)
        self._id_of[key] = id
        self._key_of[id] = key
        if self._columns is not None:
            self._columns.append(metadata)
        if self.matrix is not None:
            self.matrix.append()
        if self._terms is not None:
            self._terms.append()

    def remove(self, key: int) -> None:
        """Remove an entry from every part; an unknown key has no effect."""
        row = self._row_of.pop(key, None)
        if row is None:
            return
        last = int(self._keys.rows[-1])
        self._keys.swap_delete(row)
        if last != key:
            self._row_of[last] = row
        id = self._id_of.pop(key)
        if self._key_of.get(id) == key:  # the id may already stand for a newer entry
            del self._key_of[id]
        for part in (self._columns, self.matrix, self._terms):
            if part is not None:
                part.swap_delete(row)

    def keys_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the keys of *ids*, -1 where there is none."""
        return np.fromiter(map(self._key_of.get, ids, itertools.repeat(-1)), dtype=np.int64, count=len(ids))

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of *keys*."""
        return list(map(self._id_of.__getitem__, keys))

    def keys(self) -> NDArray[np.int64]:
        """Return the keys in order of rows; it must not be changed."""
        return self._keys.rows

    def use_fields(self, fields: tuple[str, ...], metadata: Iterable[Metadata]) -> None:
        """Keep *fields* as columns from now on, filled from the *metadata* of the rows in their order."""
        self._columns = columns = MetadataColumns(fields)
        columns.load(metadata)

    # Filters.

    def mask(self, node: FilterNode) -> NDArray[np.bool_] | None:
        """Return which rows pass; None when the columns are not loaded, or *node* asks for another field."""
        return None if self._columns is None else self._columns.mask(node, len(self))

    def mask_of(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are those of *keys*; an unknown key has none."""
        return np.isin(self._keys.rows, keys)

    # Vectors.

    def load_matrix(self, blocks: Iterable[tuple[Sequence[int], NDArray[np.float32]]]) -> None:
        """Fill the matrix from blocks of (keys, raw vectors), one block at a time; entries not named have none."""
        assert self._space is not None
        matrix = VectorMatrix(self._space)
        matrix.load(len(self), ((self._rows(keys), vectors) for keys, vectors in blocks))
        self.matrix = matrix

    def put_vector(self, key: int, vector: Vector | None) -> None:
        """Give an entry its raw vector, or take it away."""
        if self.matrix is not None:
            self.matrix.put(self._row_of[key], vector)

    def nearest(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        min_score: float | None = None,
        fast: bool = False,
    ) -> list[Ranking]:
        """Return the *k* nearest of each of the raw *queries*, shape (n, d), best first, ties by id.

        Exact; *fast* answers each as ``SearchMode.FAST`` says.
        """
        if k == 0 or not len(self):
            return [[] for _ in queries]
        matrix, prepared = self._loaded(), self._prepared(queries)
        candidates = None if fast or len(queries) == 1 else matrix.candidates_of_many(prepared, k, mask)
        if candidates is None:
            rankings = []
            for query in prepared:
                rows = matrix.candidates(query, k, mask, fast=fast)
                rankings.append(self._ranked(rows, matrix.scores(rows, query), k, min_score))
            return rankings
        of, rows = candidates
        scores = matrix.scores_of_pairs(rows, prepared, of)
        ends = np.searchsorted(of, np.arange(len(queries) + 1)).tolist()
        return [self._ranked(rows[i:j], scores[i:j], k, min_score) for i, j in itertools.pairwise(ends)]

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Return the exact scores of *keys*; NaN for those without a vector."""
        matrix = self._loaded()
        rows = self._rows(keys)
        scores = matrix.scores(rows, self._prepared(query[np.newaxis])[0])
        scores[~matrix.has(rows)] = np.nan
        return scores

    # Terms.

    @property
    def terms(self) -> TermIndex:
        """The terms by row."""
        assert self._terms is not None, "the owner loads the terms before it asks"
        return self._terms

    def load_terms(self, dictionary: Mapping[str, int], forward: Iterable[ForwardBlock]) -> None:
        """Fill the terms from blocks of sequences, each entry in one of them."""
        terms = TermIndex(len(self))
        terms.load(dictionary, ((self._rows(block.keys), block) for block in forward))
        self._terms = terms

    def put_terms(
        self, key: int, sequence: NDArray[np.int32], context_length: int, dictionary: Mapping[str, int]
    ) -> None:
        """Set the terms of an entry; *dictionary* names the numbers that may be new."""
        if self._terms is not None:
            self._terms.put(self._row_of[key], sequence, context_length, dictionary)

    def matching(self, terms: Sequence[str], k: int, *, mask: NDArray[np.bool_] | None = None) -> Ranking:
        """Return the *k* best by BM25, best first, ties by id."""
        if k == 0:
            return []
        rows, scores = self.terms.scores(terms)
        if mask is not None:
            passing = mask[rows]
            rows, scores = rows[passing], scores[passing]
        return self._ranked(rows, scores, k)

    def score_terms(self, terms: Sequence[str], keys: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of *keys*, to the last bit as ``matching`` gives it."""
        return self.terms.scores_of(terms, self._rows(keys))

    def sequence(self, key: int) -> tuple[NDArray[np.int32], int] | None:
        """Return (the forward index of an entry, how much of it is context)."""
        row = self._row_of.get(key)
        return None if row is None else self.terms.sequence(row)

    def _ranked(
        self, rows: NDArray[np.signedinteger], scores: NDArray[np.float64], k: int, min_score: float | None = None
    ) -> Ranking:
        return top_k_ranking(self._keys.rows[rows], scores, k, self._id_of.__getitem__, min_score)

    def _prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        assert self._space is not None
        return prepare_rows(queries, self._space.metric)

    def _rows(self, keys: Sequence[int]) -> NDArray[np.intp]:
        return np.fromiter(map(self._row_of.__getitem__, keys), dtype=np.intp, count=len(keys))

    def _loaded(self) -> VectorMatrix:
        assert self.matrix is not None, "the owner loads the matrix before it asks"
        return self.matrix
