"""Commands ``python -m benchmarks stores`` and ``stores-report``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks.about import add_data_option, circumstances
from benchmarks.child import PROJECT, printed
from benchmarks.stores import clustered, real
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, Contender, missing
from benchmarks.stores.measurement import Failure, Results, measured, read_results
from benchmarks.stores.page import goals_text, page
from benchmarks.stores.race import Pace, Race

_SIZES = (1_000, 10_000, 100_000)
_DIMENSION = 384
_QUERIES = 256
_QUICK = Pace(rounds=2, calls=5, seconds=0.2, bulk_rounds=1, cold_rounds=1, recall_queries=32)
_NAMESPACES = 100_000
_PACKAGES = ("tellback", "numpy", "apsw", "sqlite-vec", "chromadb", "lancedb", "pyarrow")
_GUARDS = "benchmarks.stores.guards"
_RESULTS = PROJECT / "benchmarks" / "results" / "stores.json"

Say = Callable[[str], None]


def add_command(commands: Any) -> None:
    """Add the two commands to the subparsers of ``python -m benchmarks``."""
    stores = commands.add_parser("stores", help="the store beside its peers (extra `bench`)")
    stores.add_argument("--sizes", default=",".join(map(str, _SIZES)), help="numbers of rows, comma-separated")
    stores.add_argument("--stores", default="all", help="keys, comma-separated: " + ", ".join(BY_KEY))
    add_data_option(stores)
    stores.add_argument("--quick", action="store_true", help="few rounds: shows that it works, not how fast it is")
    stores.add_argument("--seed", type=int, default=20260101)
    stores.add_argument("--work", type=Path, help="folder for the stores' files, on a real disk (default: temporary)")
    stores.add_argument("--json", type=Path, help="write the measurements to this file")
    stores.set_defaults(run=_run)
    report = commands.add_parser("stores-report", help="render what `stores` measured as a page")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS, help="the file that `stores --json` wrote")
    report.add_argument("--docs", type=Path, default=PROJECT / "docs" / "appendix", help="folder of benchmarks.md")
    report.set_defaults(run=_report)


def _run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    sizes = sorted({int(size) for size in given.sizes.split(",")})
    if sizes[0] < 1_000:
        raise ValueError(f"--sizes: 1000 rows or more are needed, not {sizes[0]}")
    keys = list(BY_KEY) if given.stores == "all" else given.stores.split(",")
    if unknown := [key for key in keys if key not in BY_KEY]:
        raise ValueError(f"--stores: no store {', '.join(unknown)}; known are {', '.join(BY_KEY)}")
    if given.json is not None and not given.json.parent.is_dir():
        raise ValueError(f"--json: there is no folder {given.json.parent}")
    results, started = Results({**circumstances(words, _PACKAGES), "seed": given.seed}), monotonic()

    def told(line: str) -> None:
        say(f"[{monotonic() - started:5.0f} s] {line}")

    present = []
    for item in map(BY_KEY.__getitem__, keys):
        if (why := missing(item)) is not None:
            told(f"{item.title}: not measured: {why}")
            results.failures.append(Failure(item.key, "everything", why))
        else:
            present.append(item)
    with TemporaryDirectory(dir=given.work, prefix="tellback-bench-") as folder:
        for size in sizes:
            _race(Path(folder), size, present, given, results, told)
            if given.json is not None:
                results.write(given.json)
        if "tellback-sqlite" in keys:
            _guard_namespaces(Path(folder), given, results, told)
    if given.json is not None:
        results.write(given.json)
    print(goals_text(results))
    told("done")
    return 0


def _report(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    given.docs.mkdir(exist_ok=True)
    (given.docs / "benchmarks.md").write_text(page(read_results(given.results)), "utf-8")
    say(f"{given.docs / 'benchmarks.md'} written")
    return 0


def _race(
    folder: Path, size: int, contenders: list[Contender], given: argparse.Namespace, results: Results, say: Say
) -> None:
    """Race on made-up rows of this *size*, and on real ones where there are data."""
    pace = _QUICK if given.quick else Pace()
    if size >= 100_000:
        pace = replace(pace, bulk_rounds=min(pace.bulk_rounds, 2), cold_rounds=min(pace.cold_rounds, 4))
    for name in ("clustered", "real"):
        work = folder / f"{name}-{size}"
        if name == "clustered":
            clustered.make(work / "data", n=size, d=_DIMENSION, seed=given.seed, queries=_QUERIES)
        elif given.data is not None:
            real.make(work / "data", given.data, n=size, seed=given.seed, queries=_QUERIES)
        else:
            say("real rows: not measured, since --data was not given")
            continue
        race = Race(
            contenders, work / "data", work / "stores", results, seed=given.seed, pace=pace,
            say=lambda line, name=name: say(f"{name} {size:,}: {line}"),
        )  # fmt: skip
        race.run(reading_only=name == "real")
        ours = race.folder_of("tellback-sqlite")
        if name == "clustered" and (ours / "rows.db").exists():
            race.record("tellback-sqlite", m.TINY, printed(_GUARDS, "tiny", ours, size, given.seed))


def _guard_namespaces(folder: Path, given: argparse.Namespace, results: Results, say: Say) -> None:
    count = 2_000 if given.quick else _NAMESPACES
    say(f"guard: one namespace among {count:,}")
    work = folder / "namespaces"
    work.mkdir()
    small = {"n": 1_000, "d": _DIMENSION}
    for measure, by_place in printed(_GUARDS, "namespaces", work, count, given.seed).items():
        results.measurements += [
            measured(m.BESIDE_NONE, measure, by_place["alone"], **small),
            measured(m.BESIDE_MANY, measure, by_place["among"], note=f"{count:,} others", **small),
        ]
