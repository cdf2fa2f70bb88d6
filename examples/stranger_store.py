"""A vector store of one's own: a dictionary, searched by brute force, that keeps the data part of the contract.

Written as an outside author would write it. ``tellback.vectorstore.validation`` checks what is stored,
``tellback.vectorstore.filters`` evaluates filters; the rest is here. It has no lifecycle part (transactions, views, a
change log, erasure, backup, ...): ``missing_operations`` names what is missing, and a wrapper refuses it by name. Its
test is ``tests/test_vectorstore/test_stranger.py``.

    python examples/stranger_store.py
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np

from tellback.vectorstore import (
    Analyzer,
    ArgumentError,
    Entry,
    Filter,
    Match,
    Metric,
    ProgressCallback,
    RevisionConflict,
    Space,
    StoreClosed,
    missing_operations,
)
from tellback.vectorstore.distance import as_vector, as_vectors
from tellback.vectorstore.filters import And, filter_tree, matches_filter
from tellback.vectorstore.json_values import check_text
from tellback.vectorstore.validation import (
    check_entry,
    check_expect,
    check_ids,
    check_k,
    check_metadata,
    check_min_score,
    check_name,
    check_namespace,
    check_vectors,
    drop_overwritten,
    entry_batches,
)

K1, B = 0.9, 0.4


class StrangerStore:
    """Entries by namespace and id, in dictionaries under one lock."""

    def __init__(self, *, space: Space | None = None) -> None:
        self.space = space
        self._analyzer = Analyzer()
        self._entries: dict[str, dict[str, Entry]] = {}
        self._writes: Counter[str] = Counter()
        self._lock = RLock()
        self._closed = False

    # Writing: everything is checked before anything is changed.

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        self._held(namespace)
        pending, done = dict(check_expect(expect)), 0
        for start, batch in entry_batches(entries):
            checked = [check_entry(entry, f"entries[{start + i}]", self.space) for i, entry in enumerate(batch)]
            with self._lock:
                self._held(namespace, expect=pending)
                for item in drop_overwritten(checked):
                    fields = (item.id, item.vector, item.text, item.context, json.loads(item.metadata))
                    self._put(namespace, Entry(*fields, no_vector=item.no_vector))
                    done += 1
            for item in checked:
                pending.pop(item.id, None)
            if on_progress is not None:
                on_progress(done)
        return done

    def patch(
        self, metadata: Mapping[str, Any], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        checked = {
            check_name(id, "metadata", empty=False): check_metadata(value, f"metadata[{id!r}]")
            for id, value in metadata.items()
        }
        with self._lock:
            held = self._held(namespace, expect=check_expect(expect))
            present = [id for id in checked if id in held]
            for id in present:
                self._put(namespace, replace(held[id], metadata=json.loads(checked[id])))
            return len(present)

    def put_vectors(
        self, vectors: Mapping[str, Any], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        checked = check_vectors(vectors, self.space)
        with self._lock:
            held = self._held(namespace, expect=check_expect(expect))
            present = [id for id in checked if id in held]
            for id in present:
                held[id] = replace(held[id], vector=checked[id], no_vector=None)  # the revision stays
            return len(present)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        node, named = filter_tree(where), check_ids(ids)
        if not named and node == And():
            raise ArgumentError("ids", named, "ids, or a filter that is not empty, are needed")
        with self._lock:
            held = self._held(namespace)
            matching = [
                id for id in dict.fromkeys(named or held) if id in held and matches_filter(node, held[id].metadata)
            ]
            for id in matching:
                del held[id]
            return len(matching)

    # Reading: everything that goes out is a copy.

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        names = check_ids(ids)
        with self._lock:
            held = self._held(namespace)
            return [copied(held[id]) if id in held else None for id in names]

    def search(
        self,
        vector: Any,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        if self.space is None:
            raise ArgumentError("vector", vector, "the store has no space yet")
        query = as_vector(vector, self.space.dimension, self.space.metric, argument="vector").tolist()
        least = check_min_score(min_score)
        score = SCORES[self.space.metric]

        def scored(entry: Entry) -> float | None:
            value = None if entry.vector is None else score(entry.vector.tolist(), query)
            return value if value is None or least is None or value >= least else None

        return self._best(scored, k, where, namespace)

    def search_many(
        self,
        vectors: Any,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        if self.space is None:
            raise ArgumentError("vectors", vectors, "the store has no space yet")
        queries = as_vectors(vectors, self.space.dimension, self.space.metric, argument="vectors")
        self._best(lambda entry: None, k, where, namespace)  # refuses, also without a query
        check_min_score(min_score)
        return [self.search(query, k, where=where, min_score=min_score, namespace=namespace) for query in queries]

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        asked = sorted(set(self._analyzer.terms(check_text(query, "query"))))
        with self._lock:
            counts = {id: Counter(self._terms(entry)) for id, entry in self._held(namespace).items()}
            mean = sum(count.total() for count in counts.values()) / max(1, len(counts))
            df = {term: sum(term in count for count in counts.values()) for term in asked}

            def scored(entry: Entry) -> float | None:
                count, parts = counts[entry.id], []
                for term in asked:
                    if tf := count[term]:
                        idf = math.log(1 + (len(counts) - df[term] + 0.5) / (df[term] + 0.5))
                        parts.append(idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * count.total() / mean)))
                return sum(parts) if parts else None

            return self._best(scored, k, where, namespace)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        node = filter_tree(where)
        with self._lock:
            return sum(matches_filter(node, entry.metadata) for entry in self._held(namespace).values())

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        node, last = filter_tree(where), None if after is None else check_name(after, "after", empty=True)
        self._held(namespace)

        def entries() -> Iterator[Entry]:
            for id in sorted(self._held(namespace)):
                entry = self._held(namespace).get(id)  # it may have gone since
                if entry is None or (last is not None and id <= last) or not matches_filter(node, entry.metadata):
                    continue
                wanted = entry.vector is not None if embedded else entry.vector is None and entry.no_vector is None
                if embedded is None or wanted:
                    yield copied(entry)

        return entries()

    def namespaces(self, *, prefix: str = "") -> list[str]:
        self._held(prefix)
        return sorted(name for name, held in self._entries.items() if held and name.startswith(prefix))

    def close(self) -> None:
        self._closed = True

    def _held(self, namespace: str, *, expect: Mapping[str, int] | None = None) -> dict[str, Entry]:
        if self._closed:
            raise StoreClosed
        held = self._entries.setdefault(check_namespace(namespace), {})
        for id, expected in (expect or {}).items():
            actual = held[id].revision if id in held else 0
            if actual != expected:
                raise RevisionConflict(id, namespace, expected, actual)
        return held

    def _put(self, namespace: str, entry: Entry) -> None:
        self._writes[namespace] += 1
        self._held(namespace)[entry.id] = replace(entry, revision=self._writes[namespace])

    def _best(self, score: Callable[[Entry], float | None], k: Any, where: Any, namespace: str) -> list[Match]:
        check_k(k)
        node = filter_tree(where)
        with self._lock:
            passing = [entry for entry in self._held(namespace).values() if matches_filter(node, entry.metadata)]
            ranked = [(entry, value) for entry in passing if (value := score(entry)) is not None]
            ranked.sort(key=lambda pair: (-pair[1], pair[0].id))
            return [Match(copied(entry), value) for entry, value in ranked[:k]]

    def _terms(self, entry: Entry) -> list[str]:
        return self._analyzer.terms(entry.context) + self._analyzer.terms(entry.text)


def dot(left: list[float], right: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


def cosine(left: list[float], right: list[float]) -> float:
    return max(-1.0, min(1.0, dot(left, right) / math.sqrt(dot(left, left) * dot(right, right))))


SCORES: dict[Metric, Callable[[list[float], list[float]], float]] = {
    Metric.COSINE: cosine,
    Metric.DOT: dot,
    Metric.L2: lambda left, right: -math.dist(left, right),
}


def copied(entry: Entry) -> Entry:
    return copy.deepcopy(entry)


if __name__ == "__main__":
    store = StrangerStore(space=Space("toy", 2))
    store.upsert([Entry("a", np.array([1, 0]), "north"), Entry("b", np.array([0, 1]), "east")])
    print(store.search([1, 0.1], k=1)[0].entry.text)
    print("lacks:", ", ".join(missing_operations(store)))
