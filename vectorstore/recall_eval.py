"""Recall of the fast search on a store's own rows, measured against the exact search.

report = measure_recall(open_store("sqlite:///memory.db", search="fast"))
print(report.recall, report.speedup)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.errors import ArgumentError, UnsupportedError
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.types import SearchMode, VectorLike
from tellback.vectorstore.validation import check_k
from tellback.vectorstore.wrappers import WrapperStore

_PAGE_SIZE = 256


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Result of ``measure_recall``: *queries* questions asked of *rows* entries, each in both modes."""

    k: int
    rows: int
    queries: int
    recall: float
    """Share of the ids of the exact search that the fast one found too; 1.0 where nothing was asked."""
    worst: float
    """The same of the one question that lost most."""
    exact_seconds: float
    """The median time of one exact search, ids and scores alone."""
    fast_seconds: float

    @property
    def speedup(self) -> float:
        """Speed of the fast search over that of the exact one."""
        return self.exact_seconds / self.fast_seconds if self.fast_seconds else 1.0


def measure_recall(
    store: VectorStore,
    k: int = 10,
    *,
    sample: int = 200,
    rng: np.random.Generator | None = None,
    queries: Sequence[VectorLike] | NDArray[np.float32] | None = None,
    namespace: str = "",
) -> RecallReport:
    """Ask *sample* questions exactly and fast, whatever mode *store* was opened in, and compare the best *k*.

    The questions are vectors of entries drawn by *rng* (a fixed seed unless given), each of which is left out of its
    own answer; or the *queries* given, which say more if they are what is really asked. *store* may be a wrapper of a
    store that has both modes; any other raises ``UnsupportedError``. All is asked of one state; the sign bits are made
    before the clock runs.
    """
    if check_k(k) == 0:
        raise ArgumentError("k", k, "at least 1 is needed to compare anything")
    if check_k(sample, "sample") == 0:
        raise ArgumentError("sample", sample, "at least 1 question is needed")
    inside: Any = store
    while isinstance(inside, WrapperStore):
        inside = inside.wrapped
    if not hasattr(inside, "search_mode"):
        raise UnsupportedError("measure_recall", f"{type(inside).__name__} has one way to search; nothing to compare")
    generator = np.random.default_rng(0) if rng is None else rng
    with (
        inside.view([namespace], search=SearchMode.EXACT) as exact,
        inside.view([namespace], search=SearchMode.FAST) as fast,
    ):
        sampled: list[tuple[str | None, VectorLike]] = []
        if queries is None:
            sampled += _sample_entries(exact, sample, generator, namespace)
        else:
            sampled += ((None, query) for query in queries)
        shares, seconds = [], []
        for i, (query_id, query) in enumerate([*sampled[:1], *sampled]):  # the first one twice: it makes the bits
            size = k + (query_id is not None)
            began = time.perf_counter()
            true = exact.nearest(query, size, namespace=namespace)
            between = time.perf_counter()
            approximate = fast.nearest(query, size, namespace=namespace)
            ended = time.perf_counter()
            expected = [id for id, _ in true if id != query_id][:k]
            got = {id for id, _ in approximate if id != query_id}
            if i:
                seconds.append((between - began, ended - between))
                shares.append(sum(id in got for id in expected) / len(expected) if expected else 1.0)
        rows = exact.count(namespace=namespace)
    medians = np.median(np.array(seconds), axis=0).tolist() if seconds else [0.0, 0.0]
    return RecallReport(
        k=k,
        rows=rows,
        queries=len(sampled),
        recall=float(np.mean(shares)) if shares else 1.0,
        worst=min(shares, default=1.0),
        exact_seconds=medians[0],
        fast_seconds=medians[1],
    )


def _sample_entries(
    view: Any, sample: int, rng: np.random.Generator, namespace: str
) -> Iterator[tuple[str, VectorLike]]:
    """Up to *sample* entries that have a vector, as (id, vector)."""
    ids = view.shuffled_ids(rng, namespace=namespace)
    pages = (view.get(ids[start : start + _PAGE_SIZE], namespace=namespace) for start in range(0, len(ids), _PAGE_SIZE))
    entries = (entry for entry in chain.from_iterable(pages) if entry is not None and entry.vector is not None)
    return ((entry.id, entry.vector) for entry in islice(entries, sample))
