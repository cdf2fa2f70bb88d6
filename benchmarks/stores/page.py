"""The page ``docs/appendix/benchmarks.md``, whole: written by the command from the results file and never by hand."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.stores import measures as m
from benchmarks.stores.figures import Figures
from benchmarks.stores.goals import outcomes
from benchmarks.stores.report import goals_text, guards_text, missing_text, tables_text
from benchmarks.stores.results import Measurement

_NOT_MEASURED = """\
- Anything but the machine named below: no other processor, no laptop disk (a slow `fsync` makes every durable write
  slower, and the stores alike), no macOS, no Windows.
- Stores that are a server; stores that must download something to search. Peers were given vectors, their telemetry is
  switched off, and they run with their own defaults or what their manuals advise (`benchmarks/stores/adapters/`).
- Many users at once: one process asks, one question at a time.
- Neural embeddings. *Clustered* rows are made up. *Real* rows are pieces of public texts with the vectors of the local
  embedder, which is a static table; how the pieces were cut stands below.
- Whether the text that is found answers the question: that is `python -m benchmarks recall`.
- Peers after long use: no compaction is run for any store between the measures, and none had days of writes before.
"""

_HOW = """\
Each store runs in a process of its own and is asked by one parent over a pipe; times are taken inside, around the
store's own call. Stores take turns in a new order each round, blocks of at most 12 calls, of which the first two are
not counted. A cell is the median in the unit of its column, in brackets the 95th percentile, then `r`, the recall at
10, where a store is approximate. A ratio is of medians, in brackets its lowest and highest over the rounds.

Rows carry a text and three fields, and come back with the answer. ᵐ is kept in memory and on disk only when it is
saved, so that its writes cannot be compared; ⁱ returns ids (or positions) alone. SQLite stores run in WAL mode with
`synchronous=FULL`; Chroma and LanceDB offer no such setting and run as they come. Bulk rows are committed by the
thousand in SQLite, Chroma and LanceDB are given the larger batches they prefer. Before anything is timed, each exact
store must give the same answers as numpy by hand, and each answer the right text.

*bare numpy* is the product and `argpartition` alone. *SQLite rows* is a table with the vector as a BLOB, searched by
sqlite-vec's `vec_distance_cosine`. *sqlite-vec by hand* is the same rows beside a `vec0` table in float32. The best
peer of a line is the quickest of sqlite-vec by hand, Chroma and LanceDB with and without its index.
"""


def page(found: Sequence[Measurement]) -> str:
    """Return the whole page."""
    parts = [
        "# The store beside its peers",
        "This page and its picture are rendered from `benchmarks/results/` by `python -m benchmarks stores-report`.",
        "## What is not measured",
        _NOT_MEASURED + missing_text(found),
        "![Milliseconds of each store at 1,000, 10,000 and 100,000 rows](benchmarks.svg)",
        "## Goals",
        _tally(found),
        goals_text(found),
        "## What must not grow",
        guards_text(found),
        "## Figures",
        tables_text(found),
        "## What the columns mean",
        "".join(f"- *{name}*: {meaning}.\n" for name, meaning in m.MEANING.items()),
        "## How it was measured",
        _HOW,
        "## Machine, versions, commands",
        _setting(found),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _tally(found: Sequence[Measurement]) -> str:
    judged = [outcome.met for outcome in outcomes(Figures(found)) if outcome.met is not None]
    return f"{sum(judged)} of {len(judged)} lines that were measured reach their goal."


def _setting(found: Sequence[Measurement]) -> str:
    def each(name: str) -> list[str]:
        return list(dict.fromkeys(str(getattr(measurement, name)) for measurement in found))

    lines = [f"- {name}: {'; '.join(each(field))}" for name, field in (("Machine", "machine"), ("Date", "date"))]
    lines.append(f"- Seed: {', '.join(each('seed'))}")
    lines += [f"- Versions: {measurement.note}" for measurement in found if measurement.measure == m.VERSIONS]
    lines += [f"- Rows: {measurement.note}" for measurement in found if measurement.measure == m.ROWS]
    commands = "\n".join(["pip install -e '.[local,bench]'", *each("command")])
    return "\n".join(lines) + f"\n\n```text\n{commands}\n```\n"
