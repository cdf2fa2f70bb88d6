"""Reader of a namespace for a view: the whole of it in the memory of the process, or by SQL while that does not pay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.database import Connection
from tellback.vectorstore.filters import FilterNode, filter_fields, matches_everything
from tellback.vectorstore.index.bm25 import decode_terms
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tellback.vectorstore.index.vectors import Ranking
from tellback.vectorstore.sqlite.entry_reader import ids_by_key, matching_keys, parse_entry, rows_by_key
from tellback.vectorstore.sqlite.index_cache import LoadedIndex, NamespaceHead, NamespaceIndexCache
from tellback.vectorstore.sqlite.vector_sql import SqlVectorSearch, exact_scores_by_key
from tellback.vectorstore.types import Entry, SearchMode, Vector


class MemoryNamespaceReader:
    """Implements ``NamespaceReader`` over a read transaction. Matrices together stay within *matrix_limit* bytes."""

    in_memory: Final = True

    def __init__(
        self,
        connection: Connection,
        indexes: NamespaceIndexCache,
        name: str,
        head: NamespaceHead,
        *,
        matrix_limit: int,
    ) -> None:
        self._connection = connection
        self._indexes = indexes
        self._name = name
        self._head = head
        self._loaded: LoadedIndex | None = None
        self.matrix_limit = matrix_limit

    def cursor(self) -> int:
        """Return the namespace's write number."""
        return self._head.revision

    def count(self) -> int:
        """Return the number of entries."""
        return self._head.entries

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of *keys*."""
        if self._indexes.is_loaded(self._name):
            return self._rows().ids_of(keys)
        return ids_by_key(self._connection, keys)

    def keys_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the keys of *ids*, -1 where there is none."""
        return self._rows().keys_of(ids)

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """Return the entries of *keys*."""
        if self._indexes.is_loaded(self._name):
            self._fresh()  # so that no recent row is an old one
            return self._indexes.recent.entries(self._connection, keys)
        rows = rows_by_key(self._connection, keys)
        return [parse_entry(rows[key]) for key in keys]

    def passing(self, keys: NDArray[np.int64], where: FilterNode) -> NDArray[np.bool_]:
        """Return which of *keys* are of an entry that passes."""
        known, mask = self._rows().keys(), self._mask(where)
        return np.isin(keys, known if mask is None else known[mask])

    def nearest(
        self,
        queries: NDArray[np.float32],
        k: int,
        where: FilterNode,
        min_score: float | None,
        search: SearchMode | None,
    ) -> list[Ranking]:
        """Return the k nearest of each query, from memory where the matrix fits and pays, else by SQL."""
        fast = search == SearchMode.FAST
        if self._is_matrix_used(len(queries), fast=fast):
            return self._rows().nearest(queries, k, mask=self._mask(where), min_score=min_score, fast=fast)
        assert self._indexes.space is not None
        self._indexes.check_vectors(self._connection, self._name, self._head.key)
        scan = SqlVectorSearch(self._connection, self._indexes.space, self._head.key, where)
        return [scan.nearest(query, k, min_score) for query in queries]

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Return the exact scores of *keys*: by SQL as long as no search has loaded the matrix."""
        is_loaded = self._indexes.is_loaded(self._name) and self._rows().matrix is not None
        if is_loaded or (self._indexes.resident and self._is_matrix_used(1, fast=False)):
            return self._rows().similarity(query, keys)
        assert self._indexes.space is not None
        return exact_scores_by_key(self._connection, self._indexes.space, query, list(keys))

    def matching(self, terms: Sequence[str], k: int, where: FilterNode) -> Ranking:
        """Return the *k* best by BM25."""
        return self._words().matching(terms, k, mask=self._mask(where))

    def score_terms(self, terms: Sequence[str], keys: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of *keys*."""
        return self._words().score_terms(terms, keys)

    def terms_of(self, keys: Sequence[int]) -> list[tuple[tuple[str, ...], ...]]:
        """Return the terms of *keys*."""
        index = self._words()
        sequences = map(index.sequence, keys)
        return [((),) if found is None else decode_terms(*found, index.terms.term) for found in sequences]

    def df(self, terms: Sequence[str]) -> list[int]:
        """Return in how many entries each term occurs."""
        return self._words().terms.df(terms)

    def vocabulary(self) -> dict[str, int]:
        """Return every term in use."""
        return self._words().terms.vocabulary()

    def _rows(self) -> NamespaceIndex:
        """Return the index with its rows loaded."""
        return self._fresh().index

    def _words(self) -> NamespaceIndex:
        """Return the index with its terms loaded."""
        loaded = self._fresh()
        if not loaded.index.has_terms:
            self._indexes.load_terms(self._connection, loaded)
        return loaded.index

    def _mask(self, where: FilterNode) -> NDArray[np.bool_] | None:
        """Return which rows pass, None for all: by the columns where they are loaded or pay, else by SQL."""
        if matches_everything(where):
            return None
        loaded = self._fresh()
        if (mask := loaded.index.mask(where)) is None:
            if not self._indexes.are_columns_wanted(self._name, filter_fields(where)):
                return loaded.index.mask_of(matching_keys(self._connection, loaded.key, where))
            self._indexes.load_columns(self._connection, loaded)
            mask = loaded.index.mask(where)
            assert mask is not None, "the columns that the filter asks for were loaded"
        return mask

    def _fresh(self) -> LoadedIndex:
        """Return the index in the state of the read transaction, which does not change under a reader."""
        if self._loaded is None or self._loaded.revision != self._head.revision:
            self._loaded = self._indexes.fresh(self._connection, self._name)
            assert self._loaded is not None, "a reader is of a namespace that was written"
        return self._loaded

    def _is_matrix_used(self, questions: int, *, fast: bool) -> bool:
        """Return whether the matrix answers *questions*; load it where it fits and pays."""
        space = self._indexes.space
        if space is None:
            return True
        needed = 4 * space.dimension * self._head.entries
        if self._indexes.is_loaded(self._name) and self._rows().matrix is not None:
            return needed <= self.matrix_limit
        if needed > self.matrix_limit:
            return False
        if self._indexes.is_cold(self._name, self._head.entries, questions) and not fast:
            return False
        loaded = self._fresh()
        self._indexes.make_room(needed, self.matrix_limit)
        self._indexes.load_matrix(self._connection, loaded)
        return True
