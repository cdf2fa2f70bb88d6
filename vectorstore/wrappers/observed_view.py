"""A view whose every call is told to the observer of its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vectorstore.protocol import View
from vectorstore.types import Cursor, Entry, Filter, Match, VectorLike
from vectorstore.wrappers.event import Watch
from vectorstore.wrappers.passing import size_of


class ObservedView:
    """Implements ``View`` by another one."""

    def __init__(self, view: View, watch: Watch) -> None:
        self._view = view
        self._watch = watch

    def search(
        self, vector: VectorLike, k: int = 10, *, where: Filter | None = None, namespace: str = ""
    ) -> list[Match]:
        """As ``View.search``."""
        with self._watch.call("view.search", namespace, 1) as sizes:
            found = self._view.search(vector, k, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``View.search_text``."""
        with self._watch.call("view.search_text", namespace, 1) as sizes:
            found = self._view.search_text(query, k, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``View.get``."""
        with self._watch.call("view.get", namespace, size_of(ids)) as sizes:
            found = self._view.get(ids, namespace=namespace)
            sizes.returned = sum(entry is not None for entry in found)
            return found

    def nearest(
        self, vector: VectorLike, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """As ``View.nearest``."""
        with self._watch.call("view.nearest", namespace, 1) as sizes:
            found = self._view.nearest(vector, n, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def matching(
        self, query: str, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """As ``View.matching``."""
        with self._watch.call("view.matching", namespace, 1) as sizes:
            found = self._view.matching(query, n, where=where, namespace=namespace)
            sizes.returned = len(found)
            return found

    def similarity(self, vector: VectorLike, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """As ``View.similarity``."""
        with self._watch.call("view.similarity", namespace, size_of(ids)) as sizes:
            scores = self._view.similarity(vector, ids, namespace=namespace)
            sizes.returned = int(np.count_nonzero(~np.isnan(scores)))
            return scores

    def score_text(self, query: str, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """As ``View.score_text``."""
        with self._watch.call("view.score_text", namespace, size_of(ids)) as sizes:
            scores = self._view.score_text(query, ids, namespace=namespace)
            sizes.returned = int(np.count_nonzero(scores))
            return scores

    def passing(self, ids: Sequence[str], *, where: Filter | None = None, namespace: str = "") -> NDArray[np.bool_]:
        """As ``View.passing``."""
        with self._watch.call("view.passing", namespace, size_of(ids)) as sizes:
            passed = self._view.passing(ids, where=where, namespace=namespace)
            sizes.returned = int(np.count_nonzero(passed))
            return passed

    def terms(self, ids: Sequence[str], *, namespace: str = "") -> list[tuple[tuple[str, ...], ...]]:
        """As ``View.terms``."""
        with self._watch.call("view.terms", namespace, size_of(ids)) as sizes:
            terms = self._view.terms(ids, namespace=namespace)
            sizes.returned = len(terms)
            return terms

    def df(self, terms: Sequence[str], *, namespace: str = "") -> list[int]:
        """As ``View.df``."""
        with self._watch.call("view.df", namespace, size_of(terms)) as sizes:
            counts = self._view.df(terms, namespace=namespace)
            sizes.returned = len(counts)
            return counts

    def vocabulary(self, *, namespace: str = "") -> Mapping[str, int]:
        """As ``View.vocabulary``."""
        with self._watch.call("view.vocabulary", namespace) as sizes:
            words = self._view.vocabulary(namespace=namespace)
            sizes.returned = len(words)
            return words

    def count(self, *, namespace: str = "") -> int:
        """As ``View.count``."""
        with self._watch.call("view.count", namespace) as sizes:
            sizes.returned = count = self._view.count(namespace=namespace)
            return count

    def cursor(self, *, namespace: str = "") -> Cursor:
        """As ``View.cursor``."""
        with self._watch.call("view.cursor", namespace):
            return self._view.cursor(namespace=namespace)
