"""Views of a store: one state of several namespaces, read through their indexes.

A view checks its arguments and puts answers together; the rows come from the engine, behind ``NamespaceReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.distance import as_vector, as_vectors
from tellback.vectorstore.errors import ArgumentError, SpaceChanged
from tellback.vectorstore.filters import FilterNode, filter_tree
from tellback.vectorstore.index.vectors import Ranking
from tellback.vectorstore.json_values import check_text
from tellback.vectorstore.types import Cursor, Entry, Filter, Match, SearchMode, Space, Vector, VectorLike
from tellback.vectorstore.validation import NO_SPACE, check_ids, check_k, check_min_score, check_namespace


class NamespaceReader(Protocol):
    """Reader of one namespace of an engine, for a view; everything by the engine's row keys.

    One keeps the whole namespace in the memory of the process, another asks indexes of a server.
    """

    @property
    def in_memory(self) -> bool:
        """True where the whole namespace is, or may be, in the memory of the process."""

    def cursor(self) -> int:
        """The namespace's write number."""

    def count(self) -> int:
        """The number of entries."""

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """The ids of *keys*, in that order."""

    def keys_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The keys of *ids*, in that order, -1 where there is none."""

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """The entries of *keys*, in that order."""

    def passing(self, keys: NDArray[np.int64], where: FilterNode) -> NDArray[np.bool_]:
        """Return which of *keys* are of an entry that passes, shape (len(keys),); -1 is of none."""

    def nearest(
        self,
        queries: NDArray[np.float32],
        k: int,
        where: FilterNode,
        min_score: float | None,
        search: SearchMode | None,
    ) -> list[Ranking]:
        """The k nearest of each of *queries*, shape (n, d), in the mode *search*; None is exact on every engine."""

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Exact scores of *keys*; NaN without a vector."""

    def matching(self, terms: Sequence[str], k: int, where: FilterNode) -> Ranking:
        """The *k* best by BM25, best first, ties by id."""

    def score_terms(self, terms: Sequence[str], keys: Sequence[int]) -> NDArray[np.float64]:
        """BM25 of *keys*, to the last bit as ``matching`` gives it."""

    def terms_of(self, keys: Sequence[int]) -> list[tuple[tuple[str, ...], ...]]:
        """The terms of *keys*, as ``View.terms`` has them."""

    def df(self, terms: Sequence[str]) -> list[int]:
        """In how many entries each term occurs."""

    def vocabulary(self) -> dict[str, int]:
        """Every term in use with its document frequency."""


class IndexView:
    """Reads namespaces through *open_reader*, which gives None for a namespace that was never written.

    *space* is the one of the vectors that it is given; *recorded*, where it is another, the one that was switched to.
    *allowed* are the namespaces that may be asked for (None: any), *search* is how ``search`` and ``nearest`` find.
    """

    def __init__(
        self,
        space: Space | None,
        analyzer: Analyzer,
        open_reader: Callable[[str], NamespaceReader | None],
        *,
        allowed: set[str] | None,
        search: SearchMode,
        recorded: Space | None = None,
    ) -> None:
        self._space = space
        self._switched_to = None if recorded == space else recorded
        self._analyzer = analyzer
        self._open_reader = open_reader
        self._allowed = allowed
        self._search = search

    def search(
        self,
        vector: VectorLike,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        """As ``VectorStore.search``."""
        query = self._query(vector)[np.newaxis]
        return self._searched(query, k, where, min_score, namespace, self._search)[0]

    def search_many(
        self,
        vectors: Sequence[VectorLike] | NDArray[np.float32],
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        """As ``VectorStore.search_many``."""
        space = self._needed_space(vectors)
        queries = as_vectors(vectors, space.dimension, space.metric, argument="vectors")
        return self._searched(queries, k, where, min_score, namespace, None)

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        reader, ranking = self._matching(query, check_k(k), where, namespace)
        return [] if reader is None else _read_matches(reader, ranking)

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        names = check_ids(ids)
        reader = self._reader(namespace)
        if reader is None:
            return [None] * len(names)
        keys = reader.keys_of(names).tolist()
        entries = iter(reader.entries([key for key in keys if key >= 0]))
        return [None if key < 0 else next(entries) for key in keys]

    def nearest(
        self, vector: VectorLike, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """Ids and scores of the *n* nearest, best first."""
        query = self._query(vector)[np.newaxis]
        check_k(n, "n")
        node, reader = filter_tree(where), self._reader(namespace)
        if reader is None:
            return []
        return _ids_with_scores(reader, reader.nearest(query, n, node, None, self._search)[0])

    def matching(
        self, query: str, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """Ids and BM25 scores of the *n* best."""
        reader, ranking = self._matching(query, check_k(n, "n"), where, namespace)
        return [] if reader is None else _ids_with_scores(reader, ranking)

    def similarity(self, vector: VectorLike, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """Scores of *ids* against *vector*; NaN where there is none."""
        query = self._query(vector)
        return self._scores(ids, namespace, np.nan, lambda reader, keys: reader.similarity(query, keys))

    def score_text(self, query: str, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """BM25 of *ids* for *query*; 0 where nothing matches."""
        check_text(query, "query")
        terms = self._analyzer.terms
        return self._scores(ids, namespace, 0.0, lambda reader, keys: reader.score_terms(terms(query), keys))

    def passing(self, ids: Sequence[str], *, where: Filter | None = None, namespace: str = "") -> NDArray[np.bool_]:
        """Return which of *ids* exist and match *where*."""
        names = check_ids(ids)
        node, reader = filter_tree(where), self._reader(namespace)
        if reader is None or not names:
            return np.zeros(len(names), dtype=np.bool_)
        return reader.passing(reader.keys_of(names), node)

    def terms(self, ids: Sequence[str], *, namespace: str = "") -> list[tuple[tuple[str, ...], ...]]:
        """The terms of each entry: first its context, then each sentence of its text."""
        names = check_ids(ids)
        reader = self._reader(namespace)
        if reader is None:
            return [((),)] * len(names)
        keys = reader.keys_of(names).tolist()
        found = iter(reader.terms_of([key for key in keys if key >= 0]))
        return [((),) if key < 0 else next(found) for key in keys]

    def df(self, terms: Sequence[str], *, namespace: str = "") -> list[int]:
        """Return in how many entries each term occurs."""
        reader = self._reader(namespace)
        return [0] * len(terms) if reader is None else reader.df(terms)

    def vocabulary(self, *, namespace: str = "") -> Mapping[str, int]:
        """Every term with its document frequency."""
        reader = self._reader(namespace)
        return {} if reader is None else reader.vocabulary()

    def count(self, *, namespace: str = "") -> int:
        """Return how many entries the namespace has."""
        reader = self._reader(namespace)
        return 0 if reader is None else reader.count()

    def in_memory(self, *, namespace: str = "") -> bool:
        """Return whether the namespace is searched in the memory of the process."""
        reader = self._reader(namespace)
        return reader is None or reader.in_memory

    def cursor(self, *, namespace: str = "") -> Cursor:
        """Return where the namespace's change log ends in this state."""
        reader = self._reader(namespace)
        return Cursor(namespace, 0 if reader is None else reader.cursor())

    def _searched(
        self,
        queries: NDArray[np.float32],
        k: int,
        where: Filter | None,
        min_score: float | None,
        namespace: str,
        search: SearchMode | None,
    ) -> list[list[Match]]:
        check_k(k)
        check_min_score(min_score)
        node, reader = filter_tree(where), self._reader(namespace)
        if reader is None or k == 0 or not len(queries):
            return [[] for _ in queries]
        return [_read_matches(reader, ranking) for ranking in reader.nearest(queries, k, node, min_score, search)]

    def _matching(
        self, query: str, k: int, where: Filter | None, namespace: str
    ) -> tuple[NamespaceReader | None, Ranking]:
        check_text(query, "query")
        node, reader = filter_tree(where), self._reader(namespace)
        if reader is None or k == 0:
            return None, []
        return reader, reader.matching(self._analyzer.terms(query), k, node)

    def _scores(
        self,
        ids: Sequence[str],
        namespace: str,
        missing: float,
        score: Callable[[NamespaceReader, list[int]], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Return the scores of *ids* by *score*, which is given keys; *missing* where there is no entry."""
        names = check_ids(ids)
        scores = np.full(len(names), missing)
        reader = self._reader(namespace)
        if reader is not None and names:
            keys = reader.keys_of(names)
            present = keys >= 0
            scores[present] = score(reader, keys[present].tolist())
        return scores

    def _reader(self, namespace: str) -> NamespaceReader | None:
        name = check_namespace(namespace)
        if self._allowed is not None and name not in self._allowed:
            raise ArgumentError("namespace", name, "this view was opened for other namespaces")
        return self._open_reader(name)

    def _needed_space(self, vector: object) -> Space:
        if self._space is None:
            raise ArgumentError("vector", vector, NO_SPACE)
        if self._switched_to is not None:
            raise SpaceChanged(self._switched_to, self._space)
        return self._space

    def _query(self, vector: VectorLike) -> Vector:
        space = self._needed_space(vector)
        return as_vector(vector, space.dimension, space.metric, argument="vector")


def _ids_with_scores(reader: NamespaceReader, ranking: Ranking) -> list[tuple[str, float]]:
    ids = reader.ids_of([key for key, _ in ranking])
    return [(id, score) for id, (_, score) in zip(ids, ranking, strict=True)]


def _read_matches(reader: NamespaceReader, ranking: Ranking) -> list[Match]:
    entries = reader.entries([key for key, _ in ranking])
    return [Match(entry, score) for entry, (_, score) in zip(entries, ranking, strict=True)]
