"""Quality of the faster search on real vectors: ``python -m benchmarks fast-search --data DIR``.

The texts of the data sets, whole and cut into sentences and into runs of words, embedded by the local table; questions
are texts of the same kind, each left out of its own answer.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.datasets import cranfield, fingerprint, locomo, squad
from tellback.memory import LocalEmbedder, run_sync
from tellback.vectorstore import Entry, Metric, Space, measure_recall, open_store

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
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Measure and print."""
    if given.data is None or not given.data.is_dir():
        raise SystemExit("--data (or TELLBACK_BENCH_DATA) must name the folder of the data sets")
    texts = list(dict.fromkeys(texts_of(given.data)))[: max(given.rows)]
    vectors = run_sync(LocalEmbedder().embed(texts))
    table = Table(title="Fast search beside exact search, numpy engine", caption=_about(given))
    for column in ("rows", "dimensions", "k", "recall", "worst question", "exact, ms", "fast, ms", "faster"):
        table.add_column(column, justify="right")
    for rows in given.rows:
        store = open_store("numpy:", space=Space("local", vectors.shape[1], Metric.COSINE))
        store.upsert(Entry(str(i), vector) for i, vector in enumerate(vectors[:rows]))
        for k in (1, 10, 50):
            report = measure_recall(store, k, sample=given.sample, rng=np.random.default_rng(given.seed))
            figures = (f"{report.recall:.4f}", f"{report.worst:.2f}")
            times = (f"{1000 * report.exact_seconds:.3f}", f"{1000 * report.fast_seconds:.3f}")
            table.add_row(
                f"{report.rows:,}", str(vectors.shape[1]), str(k), *figures, *times, f"{report.speedup:.1f} x"
            )
        store.close()
    Console(width=110).print(table)
    return 0


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
    return (
        f"data {fingerprint(given.data, SETS)}; {given.sample} questions, seed {given.seed}; {packages};"
        f" python {platform.python_version()}; {platform.machine()}, {os.cpu_count()} cores, {platform.system()};"
        f" {datetime.now(UTC).isoformat(timespec='seconds')}"
    )
