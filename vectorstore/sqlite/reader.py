"""Reading one namespace of a file in one state: its core in memory, its rows and what is not in memory by SQL."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from vectorstore.core.core import Core
from vectorstore.core.ranked import Ranked
from vectorstore.core.view import mask_for
from vectorstore.filters import Node
from vectorstore.sqlite.cores import Cores, Loaded
from vectorstore.sqlite.rows import matching_keys
from vectorstore.sqlite.vector_sql import SqlSearch, scores_of
from vectorstore.types import Entry, Vector


class SqliteReader:
    """Implements ``Reader`` over a read transaction. Matrices together stay within *matrix_limit* bytes."""

    def __init__(self, connection: apsw.Connection, cores: Cores, loaded: Loaded, *, matrix_limit: int) -> None:
        self._connection = connection
        self._cores = cores
        self._loaded = loaded
        self._matrix_limit = matrix_limit

    def rows(self) -> Core:
        """The core with rows and columns."""
        return self._loaded.core

    def words(self) -> Core:
        """The core with its terms loaded."""
        if not self._loaded.core.has_terms:
            self._cores.load_terms(self._connection, self._loaded)
        return self._loaded.core

    def cursor(self) -> int:
        """The namespace's write number."""
        return self._loaded.revision

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """The entries of *keys*."""
        return self._cores.recent.entries(self._connection, keys)

    def passing(self, where: Node) -> NDArray[np.bool_]:
        """Which rows pass, by SQL."""
        return self._loaded.core.mask_of(matching_keys(self._connection, self._loaded.key, where))

    def nearest(
        self, queries: Sequence[Vector], k: int, where: Node, min_score: float | None, *, fast: bool
    ) -> list[Ranked]:
        """The k nearest of each query, from memory where the matrix fits and else by SQL."""
        core = self._loaded.core
        if not self._in_memory():
            assert self._cores.space is not None
            search = SqlSearch(self._connection, self._cores.space, self._loaded.key, where)
            return [search.nearest(query, k, min_score) for query in queries]
        mask = mask_for(self, core, where)
        if len(queries) == 1:
            return [core.nearest(queries[0], k, mask=mask, min_score=min_score, fast=fast)]
        return core.nearest_many(np.stack(queries), k, mask=mask, min_score=min_score)

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Exact scores of *keys*."""
        if self._in_memory():
            return self._loaded.core.similarity(query, keys)
        assert self._cores.space is not None
        return scores_of(self._connection, self._cores.space, query, list(keys))

    def _in_memory(self) -> bool:
        core, space = self._loaded.core, self._cores.space
        if space is None:
            return True
        wanted = 4 * space.dimension * len(core)
        if core.has_matrix:
            return wanted <= self._matrix_limit
        if self._cores.matrix_bytes() + wanted > self._matrix_limit:
            return False
        self._cores.load_matrix(self._connection, self._loaded)
        return True
