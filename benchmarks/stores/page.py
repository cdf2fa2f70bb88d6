"""The page ``docs/appendix/benchmarks.md``, whole: written by the command from the results file and never by hand."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.stores import measures as m
from benchmarks.stores.figures import Figures
from benchmarks.stores.goals import outcomes
from benchmarks.stores.report import guards_text, meanings_text, missing_text, tables_text, winners_text
from benchmarks.stores.results import Measurement

_WINNERS = """\
Each cell says how many times faster Tellback in a file is than the best persistent peer, which is named; for *file*
and *memory*, how many times smaller. **Bold** is where Tellback loses. The peers are sqlite-vec by hand, with FTS5
for text, Chroma and LanceDB with and without its index; *r* is the recall of one that is approximate. Reading is over
real rows, the rest over clustered rows. sqlite-vec by hand has no text index, which takes time in *bulk* and room in
*file* and *memory*.
"""
_NOT_MEASURED = """\
- Other machines than the one below: no other processor, no laptop disk (a slow `fsync` slows every durable write, of
  all stores), no macOS, no Windows.
- Stores that are a server, and stores that must download something to search.
- Many users at once: one process asks, one question at a time.
- Neural embeddings. *Clustered* rows are made up. *Real* rows are pieces of public texts with the vectors of the
  local static table.
- Whether the text that is found answers the question: that is [recall, measured](recall-measured.md).
- Peers after long use: no store is compacted between the measures, and none had days of writes before.
"""
_READING_TABLES = """\
A cell is the median. In brackets is the 95th percentile, where it is more than twice the median; *r* is the recall at
10, where it is below 1. ᵐ: kept in memory, and on disk only when it is saved, so its writes cannot be compared. ⁱ:
returns ids or positions alone; all others return the rows. Reading is over real rows, the rest over clustered rows;
other measures, figures of 1,000 rows, of the other kind of rows and of single rounds are in `benchmarks/results/`.
"""
_HOW = """\
Each store runs in a process of its own, which a parent asks over a pipe. Times are taken inside, around the store's
own call. Stores take turns in a new order each round, in blocks of at most 12 calls, of which the first two are not
counted. A ratio is of medians, in brackets its lowest and highest over the rounds.

Rows carry a text and three fields. Peers get the same vectors and run with their defaults or what their manuals
advise (`benchmarks/stores/adapters/`), without telemetry. SQLite stores run in WAL mode with `synchronous=FULL`;
Chroma and LanceDB offer no such setting. SQLite commits bulk rows by the thousand; Chroma and LanceDB get the larger
batches they prefer. Before anything is timed, each exact store must give the same answers as a plain product in numpy,
and each answer the right text.

*bare numpy* is the product and `argpartition` alone. *SQLite rows* is a table with the vector as a BLOB, searched by
sqlite-vec's `vec_distance_cosine`. *sqlite-vec by hand* is the same rows beside a `vec0` table in float32.
"""


def page(measurements: Sequence[Measurement]) -> str:
    """Return the whole page."""
    parts = [
        "# The store beside its peers",
        "Rendered from `benchmarks/results/` by `python -m benchmarks stores-report`.",
        "## Who wins where",
        _WINNERS,
        winners_text(measurements),
        "## Not measured",
        _NOT_MEASURED + missing_text(measurements),
        "## Figures",
        _READING_TABLES + "\n" + meanings_text(),
        tables_text(measurements),
        _tally(measurements),
        "## What must not grow",
        guards_text(measurements),
        "## How it was measured",
        _HOW,
        "## Machine, versions, commands",
        _setting(measurements),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _tally(measurements: Sequence[Measurement]) -> str:
    judged = [outcome.met for outcome in outcomes(Figures(measurements)) if outcome.met is not None]
    return (
        f"{sum(judged)} of {len(judged)} goals are reached; `python -m benchmarks stores` prints each with its ratio of"
        " medians."
    )


def _setting(measurements: Sequence[Measurement]) -> str:
    def each(name: str) -> list[str]:
        return list(dict.fromkeys(str(getattr(measurement, name)) for measurement in measurements))

    lines = [f"- {name}: {'; '.join(each(field))}" for name, field in (("Machine", "machine"), ("Date", "date"))]
    lines.append(f"- Seed: {', '.join(each('seed'))}")
    lines += [f"- Versions: {measurement.note}" for measurement in measurements if measurement.measure == m.VERSIONS]
    lines += [f"- Rows: {measurement.note}" for measurement in measurements if measurement.measure == m.ROWS]
    commands = "\n".join(["pip install '.[local,bench]'", *each("command")])
    return "\n".join(lines) + f"\n\n```text\n{commands}\n```\n"
