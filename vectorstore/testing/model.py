"""Plain model of a store: dictionaries and loops, one row after another.

It has the data part of the contract and passes its suite; parity runs compare real engines with it. It is
slow, keeps nothing on disk, and knows no index: its scores come from their formulas in float64, so they agree
with an engine's up to rounding. For one thread.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore import validation
from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.distance import as_vector, as_vectors
from tellback.vectorstore.errors import ArgumentError, RevisionConflict, StoreClosed
from tellback.vectorstore.filters import And, filter_tree, matches_filter
from tellback.vectorstore.json_values import check_text
from tellback.vectorstore.types import (
    Entry,
    Filter,
    Match,
    Metadata,
    Metric,
    ProgressCallback,
    Space,
    Vector,
    VectorLike,
)

K1, B = 0.9, 0.4

_ValueT = TypeVar("_ValueT")


def vector_score(metric: Metric, vector: Sequence[float], query: Sequence[float]) -> float:
    """Return the score of *vector* by the definition of *metric*."""
    if metric == Metric.L2:
        return -math.dist(vector, query)
    dot = math.fsum(x * q for x, q in zip(vector, query, strict=True))
    if metric == Metric.DOT:
        return dot
    if list(vector) == list(query):
        return 1.0
    return max(-1.0, min(1.0, dot / (math.hypot(*vector) * math.hypot(*query))))


def bm25_scores(texts: Mapping[str, Sequence[str]], terms: Iterable[str]) -> dict[str, float]:
    """Return the BM25 scores of those *texts*, each a list of terms, that have one of *terms*."""
    counts = {name: Counter(words) for name, words in texts.items()}
    mean = sum(count.total() for count in counts.values()) / max(len(counts), 1)
    scores: dict[str, float] = {}
    for term in sorted(set(terms)):
        df = sum(term in count for count in counts.values())
        idf = math.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
        for name, count in counts.items():
            if tf := count[term]:
                share = tf * (K1 + 1) / (tf + K1 * (1 - B + B * count.total() / mean))
                scores[name] = scores.get(name, 0.0) + idf * share
    return scores


@dataclass(slots=True)
class _ModelNamespace:
    entries: dict[str, Entry] = field(default_factory=dict)
    writes: int = 0
    given: dict[str, Vector | str] = field(default_factory=dict)  # in a second space: see ``SpacesModel``


class ModelStore:
    """Implements ``VectorStore``, and ``transaction`` for parity runs."""

    def __init__(
        self, *, space: Space | None = None, analyzer: Analyzer | None = None, fields: Sequence[str] = ()
    ) -> None:
        self.space = space
        self.fields = tuple(fields)  # nothing is kept per field here; every filter is its reference meaning
        self._analyzer = analyzer or Analyzer()
        self._namespaces: dict[str, _ModelNamespace] = {}
        self._closed = False

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``."""
        name, pending = self._name(namespace), dict(validation.check_expect(expect))
        total = 0
        for start, batch in validation.entry_batches(entries):
            numbered = enumerate(batch, start)
            checked = [validation.check_entry(entry, f"entries[{i}]", self.space) for i, entry in numbered]
            self._expect(name, pending)
            for entry in validation.drop_overwritten(checked):
                pending.pop(entry.id, None)
                data = json.loads(entry.metadata)
                self._write(name, Entry(entry.id, entry.vector, entry.text, entry.context, data, 0, entry.no_vector))
                self._namespaces[name].given.pop(entry.id, None)
                total += 1
            if on_progress is not None:
                on_progress(total)
        return total

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        name = self._name(namespace)
        present = self._present(name, validation.check_patches(metadata), expect)
        for id, text in present.items():
            self._write(name, replace(self._entries_of(name)[id], metadata=json.loads(text)))
        return len(present)

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        name = self._name(namespace)
        present = self._present(name, validation.check_vectors(vectors, self.space), expect)
        for id, vector in present.items():
            before = self._entries_of(name)[id]
            self._write(name, replace(before, vector=vector, no_vector=None), revision=before.revision)
        return len(present)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        matching, named = self._matching(namespace, where), validation.check_ids(ids)
        if not named and filter_tree(where) == And():
            raise ArgumentError("ids", named, "ids, or a filter that is not empty, are needed")
        removed = [id for id in dict.fromkeys(named or matching) if id in matching]
        stored = self._namespaces.get(namespace, _ModelNamespace())
        for id in removed:
            del stored.entries[id]
            stored.given.pop(id, None)
            stored.writes += 1
        return len(removed)

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        entries = self._entries_of(self._name(namespace))
        return [_copy_entry(entries[id]) if id in entries else None for id in validation.check_ids(ids)]

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
        matching = self._matching(namespace, where)
        if self.space is None:
            raise ArgumentError("vector", vector, "the store has no space yet, so it has no vectors")
        query = as_vector(vector, self.space.dimension, self.space.metric, argument="vector")
        least = validation.check_min_score(min_score)
        embedded = {id: entry.vector for id, entry in matching.items() if entry.vector is not None}
        scores = {id: self._score(stored, query) for id, stored in embedded.items()}
        if least is not None:
            scores = {id: score for id, score in scores.items() if score >= least}
        return _best_matches(matching, scores, k)

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
        self._name(namespace), filter_tree(where), validation.check_k(k), validation.check_min_score(min_score)
        if self.space is None:
            raise ArgumentError("vectors", vectors, "the store has no space yet")
        queries = as_vectors(vectors, self.space.dimension, self.space.metric, argument="vectors")
        options: dict[str, Any] = {"where": where, "min_score": min_score, "namespace": namespace}
        return [self.search(query, k, **options) for query in queries]

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        matching = self._matching(namespace, where)
        texts = {id: self._terms(entry) for id, entry in self._entries_of(self._name(namespace)).items()}
        scores = bm25_scores(texts, self._analyzer.terms(check_text(query, "query")))
        return _best_matches(matching, {id: score for id, score in scores.items() if id in matching}, k)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        return len(self._matching(namespace, where))

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``; here it is a snapshot."""
        matching = self._matching(namespace, where)
        start = validation.check_after(after)
        found = [matching[id] for id in sorted(matching) if start is None or id > start]
        return iter([_copy_entry(entry) for entry in found if _in_embedding_state(entry, embedded)])

    def namespaces(self, *, prefix: str = "") -> list[str]:
        """As ``VectorStore.namespaces``."""
        start = self._name(prefix)
        return sorted(name for name, stored in self._namespaces.items() if stored.entries and name.startswith(start))

    def close(self) -> None:
        """As ``VectorStore.close``."""
        self._closed = True

    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        """Keep what is written inside only if the block ends well."""
        before = {
            name: replace(stored, entries=dict(stored.entries), given=dict(stored.given))
            for name, stored in self._namespaces.items()
        }
        try:
            yield
        except BaseException:
            self._namespaces = before
            raise

    def _name(self, namespace: str) -> str:
        if self._closed:
            raise StoreClosed
        return validation.check_namespace(namespace)

    def _entries_of(self, name: str) -> dict[str, Entry]:
        return self._namespaces[name].entries if name in self._namespaces else {}

    def _matching(self, namespace: str, where: Filter | None) -> dict[str, Entry]:
        entries, node = self._entries_of(self._name(namespace)), filter_tree(where)
        return {id: entry for id, entry in entries.items() if matches_filter(node, entry.metadata)}

    def _write(self, name: str, entry: Entry, *, revision: int | None = None) -> None:
        stored = self._namespaces.setdefault(name, _ModelNamespace())
        stored.writes += 1
        stored.entries[entry.id] = replace(entry, revision=stored.writes if revision is None else revision)

    def _expect(self, name: str, expected: Mapping[str, int]) -> None:
        for id, expected_revision in expected.items():
            entry = self._entries_of(name).get(id)
            actual = 0 if entry is None else entry.revision
            if actual != expected_revision:
                raise RevisionConflict(id, name, expected_revision, actual)

    def _present(
        self, name: str, values: Mapping[str, _ValueT], expect: Mapping[str, int] | None
    ) -> dict[str, _ValueT]:
        """Return the *values* of entries that exist, if all revisions are as expected."""
        self._expect(name, validation.check_expect(expect))
        return {id: value for id, value in values.items() if id in self._entries_of(name)}

    def _terms(self, entry: Entry) -> list[str]:
        sentences = self._analyzer.sentences(entry.text)
        return [*self._analyzer.terms(entry.context), *(term for sentence in sentences for term in sentence)]

    def _score(self, vector: Vector, query: Vector) -> float:
        assert self.space is not None
        return vector_score(self.space.metric, vector.tolist(), query.tolist())


def _best_matches(entries: Mapping[str, Entry], scores: Mapping[str, float], k: int) -> list[Match]:
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: validation.check_k(k)]
    return [Match(_copy_entry(entries[id]), score) for id, score in ranked]


def _in_embedding_state(entry: Entry, embedded: bool | None) -> bool:
    if embedded is None:
        return True
    return entry.vector is not None if embedded else entry.vector is None and entry.no_vector is None


def _copy_entry(entry: Entry) -> Entry:
    vector = None if entry.vector is None else entry.vector.copy()
    return replace(entry, vector=vector, metadata=json.loads(json.dumps(entry.metadata)))
