"""Quality of the faster search on real vectors: ``python -m benchmarks fast-search --data DIR``, or ``--store URL``.

The texts of the data sets, whole and cut into sentences and into runs of words, embedded by the local table; or the
entries of a store of one's own. Questions are vectors of the same kind, each left out of its own answer.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.datasets import cranfield, fingerprint, locomo, squad
from tellback.memory import LocalEmbedder, run_sync
from tellback.vectorstore import Entry, Metric, NumpyStore, SearchMode, Space, SqliteStore, open_store

SETS = ("locomo", "squad", "cranfield")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_RUNS = (9, 14, 22, 40)
"""Words of a run, taken where whole texts and sentences are too few."""


def add_command(commands: Any) -> None:
    """Put ``fast-search`` among the *commands* of the command line."""
    parser = commands.add_parser("fast-search", help="recall and speed of the faster search on real vectors")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("TELLBACK_BENCH_DATA"), help="folder of the data sets"
    )
    parser.add_argument("--store", metavar="URL", help="a store of one's own instead, such as sqlite:///memory.db")
    parser.add_argument("--namespace", default="", help="its namespace")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Measure and print."""
    if given.store is None and (given.data is None or not given.data.is_dir()):
        raise SystemExit("--data (or TELLBACK_BENCH_DATA) must name the folder of the data sets, or --store a store")
    table = Table(title="Fast search beside exact search", caption=_about(given))
    for column in ("rows", "k", "recall", "worst question", "exact, ms", "fast, ms", "faster"):
        table.add_column(column, justify="right")
    for store in _stores(given):
        for k in (1, 10, 50):
            report = measure_recall(store, k, sample=given.sample, seed=given.seed, namespace=given.namespace)
            figures = (f"{report.recall:.4f}", f"{report.worst:.2f}")
            times = (f"{1000 * report.exact_seconds:.3f}", f"{1000 * report.fast_seconds:.3f}")
            table.add_row(f"{report.rows:,}", str(k), *figures, *times, f"{report.speedup:.1f} x")
        store.close()
    Console(width=110).print(table)
    return 0


def _stores(given: argparse.Namespace) -> Iterator[NumpyStore | SqliteStore]:
    """Yield the store that was named, or one of each size with the texts of the data sets."""
    if given.store is not None:
        yield open_store(given.store)
        return
    texts = list(dict.fromkeys(texts_of(given.data)))[: max(given.rows)]
    vectors = run_sync(LocalEmbedder().embed(texts))
    for rows in given.rows:
        store = open_store("numpy:", space=Space("local", vectors.shape[1], Metric.COSINE))
        store.upsert(Entry(str(i), vector) for i, vector in enumerate(vectors[:rows]))
        yield store


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Result of ``measure_recall``: questions asked of *rows* entries, each in both modes."""

    rows: int
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
    store: NumpyStore | SqliteStore, k: int, *, sample: int, seed: int, namespace: str = ""
) -> RecallReport:
    """Ask for the *k* nearest of *sample* entries drawn by *seed*, exactly and fast, and compare.

    All is asked of one state, whatever mode *store* was opened in; the sign bits are made before the clock runs.
    """
    vectors = {entry.id: entry.vector for entry in store.scan(namespace=namespace) if entry.vector is not None}
    ids = sorted(vectors)
    drawn = [ids[place] for place in np.random.default_rng(seed).permutation(len(ids)).tolist()[:sample]]
    shares, seconds = [], []
    with (
        store.view([namespace], search=SearchMode.EXACT) as exact,
        store.view([namespace], search=SearchMode.FAST) as fast,
    ):
        for i, id in enumerate([*drawn[:1], *drawn]):  # the first one twice: it makes the bits
            began = time.perf_counter()
            true = exact.nearest(vectors[id], k + 1, namespace=namespace)
            between = time.perf_counter()
            approximate = fast.nearest(vectors[id], k + 1, namespace=namespace)
            ended = time.perf_counter()
            expected = [other for other, _ in true if other != id][:k]
            found = {other for other, _ in approximate}
            if i:
                seconds.append((between - began, ended - between))
                shares.append(sum(other in found for other in expected) / len(expected) if expected else 1.0)
        rows = exact.count(namespace=namespace)
    exact_seconds, fast_seconds = np.median(np.array(seconds), axis=0).tolist() if seconds else (0.0, 0.0)
    return RecallReport(
        rows=rows,
        recall=float(np.mean(shares)) if shares else 1.0,
        worst=min(shares, default=1.0),
        exact_seconds=exact_seconds,
        fast_seconds=fast_seconds,
    )


def texts_of(folder: Path) -> Iterator[str]:
    """Yield texts: whole ones, then their sentences, then runs of words."""
    whole = [turn.text for talk in locomo(folder) for turn in talk.turns]
    whole += squad(folder).documents.values()
    whole += cranfield(folder).documents.values()
    yield from whole
    for text in whole:
        yield from (sentence for sentence in _SENTENCE.split(text) if len(sentence) > 25)
    for size in _RUNS:
        for text in whole:
            words = text.split()
            yield from (" ".join(words[i : i + size]) for i in range(0, len(words) - size, size // 2 + 3))


def _about(given: argparse.Namespace) -> str:
    packages = " ".join(f"{name} {version(name)}" for name in ("numpy", "wordllama"))
    data = given.store if given.store is not None else f"data {fingerprint(given.data, SETS)}"
    return (
        f"{data}; {given.sample} questions, seed {given.seed}; {packages};"
        f" python {platform.python_version()}; {platform.machine()}, {os.cpu_count()} cores, {platform.system()};"
        f" {datetime.now(UTC).isoformat(timespec='seconds')}"
    )
