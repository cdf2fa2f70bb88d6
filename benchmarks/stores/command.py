"""Commands ``python -m benchmarks stores`` and ``stores-report``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks.stores import clustered
from benchmarks.stores import measures as m
from benchmarks.stores.asking import PROJECT, environment
from benchmarks.stores.contenders import BY_KEY, CONTENDERS, Contender, missing
from benchmarks.stores.race import Pace, Race
from benchmarks.stores.results import Measurement, Setting, machine, measured, read_results, write_results

_SIZES = (1_000, 10_000, 100_000)
_DIMENSION = 384
_QUERIES = 256
_QUICK = Pace(rounds=2, calls=5, seconds=0.2, bulk_rounds=1, cold_rounds=1, delete_many_rounds=1, recall_queries=32)
_NAMESPACES, _MILLION = 100_000, 1_000_000
_PACKAGES = ("numpy", "apsw", "sqlite-vec", "chromadb", "lancedb", "pyarrow")


def add_parsers(commands: Any) -> None:
    """Add the two commands to the subparsers of ``python -m benchmarks``."""
    stores = commands.add_parser("stores", help="the store beside its peers (extra `bench`)")
    stores.add_argument("--sizes", default=",".join(map(str, _SIZES)), help="numbers of rows, comma-separated")
    stores.add_argument("--stores", default="all", help="keys, comma-separated: " + ", ".join(BY_KEY))
    stores.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TELLBACK_BENCH_DATA"),
        help="folder of the data sets; without it only made-up rows are measured",
    )
    stores.add_argument("--quick", action="store_true", help="few rounds: shows that it works, not how fast it is")
    stores.add_argument("--seed", type=int, default=20260101)
    stores.add_argument("--million", action="store_true", help="also load and search a million rows (minutes, 4 GB)")
    stores.add_argument("--work", type=Path, help="folder for the stores' files, on a real disk (default: temporary)")
    stores.add_argument(
        "--out", "--json", type=Path, help="folder for the measurements, as JSON lines, a file for each number of rows"
    )
    report = commands.add_parser("stores-report", help="render what `stores` measured as a page")
    report.add_argument("results", type=Path, help="the folder that `stores --out` wrote to, or one file of it")
    report.add_argument("--docs", type=Path, default=PROJECT / "docs" / "appendix", help="folder of benchmarks.md")


def run_stores(given: argparse.Namespace, words: list[str], say: Callable[[str], None]) -> int:
    """Measure what *given* asks for; return the exit code."""
    sizes = sorted({int(size) for size in given.sizes.split(",")})
    if sizes[0] < 1_000:
        raise SystemExit(f"--sizes: 1000 rows or more are needed, not {sizes[0]}")
    unknown = [] if given.stores == "all" else [key for key in given.stores.split(",") if key not in BY_KEY]
    if unknown:
        raise SystemExit(f"--stores: no store {', '.join(unknown)}; known are {', '.join(BY_KEY)}")
    chosen = list(CONTENDERS) if given.stores == "all" else [BY_KEY[key] for key in given.stores.split(",")]
    if given.out is not None and not given.out.is_dir():
        raise SystemExit(f"--out: there is no folder {given.out}")
    setting = Setting(
        given.seed,
        machine(),
        "python -m benchmarks " + shlex.join(_without_places(words)),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )
    versions = "; ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    started = monotonic()

    def told(line: str) -> None:
        say(f"[{monotonic() - started:5.0f} s] {line}")

    found = [measured(setting, "-", m.VERSIONS, [[0.0]], note=versions)]
    with TemporaryDirectory(dir=given.work, prefix="tellback-bench-") as folder:
        present = []
        for item in chosen:
            if (why := missing(item)) is not None:
                told(f"{item.title}: not measured: {why}")
                found.append(measured(setting, item.key, m.NOT_MEASURED, [[0.0]], note=f"everything: {why}"))
            else:
                present.append(item)
        for size in sizes:
            for raced in _races(Path(folder), size, present, given, setting, told):
                found += raced
                if given.out is not None:
                    write_results(given.out, found)
        if "tellback-sqlite" in {item.key for item in present}:
            found += _guards(Path(folder), given, setting, told)
    if given.out is not None:
        write_results(given.out, found)
    from benchmarks.stores.report import goals_text

    print(goals_text(found, raced_only=True))
    told("done")
    return 0


def run_report(given: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Render the page of *given.results*; return the exit code."""
    from benchmarks.stores.page import page

    found = read_results(given.results)
    given.docs.mkdir(exist_ok=True)
    (given.docs / "benchmarks.md").write_text(page(found), "utf-8")
    say(f"{given.docs / 'benchmarks.md'} written")
    return 0


def _races(
    folder: Path,
    size: int,
    contenders: list[Contender],
    given: argparse.Namespace,
    setting: Setting,
    say: Callable[[str], None],
) -> Iterator[list[Measurement]]:
    """Yield what each race of this size measured, as it ends."""
    pace = _QUICK if given.quick else Pace()
    if size >= 100_000:
        pace = replace(pace, bulk_rounds=min(pace.bulk_rounds, 2), cold_rounds=min(pace.cold_rounds, 4))
    for name in ("clustered", "real"):
        work = folder / f"{name}-{size}"
        if name == "clustered":
            say(f"{size:,} made-up rows")
            clustered.make(work / "data", n=size, d=_DIMENSION, seed=given.seed, queries=_QUERIES)
        elif given.data is None:
            say("real rows: not measured, since --data was not given")
            continue
        else:
            from benchmarks.stores import real

            say(f"{size:,} rows of real text")
            real.make(work / "data", given.data, n=size, seed=given.seed, queries=_QUERIES)
        race = Race(
            contenders,
            work / "data",
            work / "stores",
            setting=setting,
            pace=pace,
            say=lambda line, name=name: say(f"{name} {size:,}: {line}"),
        )
        race.run(reading_only=name == "real")
        if name == "clustered" and (work / "stores" / "tellback-sqlite" / "rows.db").exists():
            blocks = _guard("tiny", work / "stores" / "tellback-sqlite", size, setting.seed)["times"]
            race.record("tellback-sqlite", m.TINY, blocks)
        yield race.measurements


def _guards(folder: Path, given: argparse.Namespace, setting: Setting, say: Callable[[str], None]) -> list[Measurement]:
    count = 2_000 if given.quick else _NAMESPACES
    say(f"guard: one namespace among {count:,}")
    work = folder / "namespaces"
    work.mkdir()
    times = _guard("namespaces", work, count, setting.seed)["times"]
    found, small = [], {"n": 1_000, "d": _DIMENSION}
    for measure, by_place in times.items():
        found.append(measured(setting, m.BESIDE_NONE, measure, by_place["alone"], **small))
        found.append(measured(setting, m.BESIDE_MANY, measure, by_place["among"], **small, note=f"{count:,} others"))
    if given.million:
        say(f"guard: {_MILLION:,} rows of 256 dimensions")
        reported = _guard("million", work, _MILLION, setting.seed)
        size = {"n": _MILLION, "d": 256}
        found += [
            measured(setting, "tellback-sqlite", m.MILLION_LOAD, [[reported["loaded"]]], **size),
            measured(
                setting,
                "tellback-sqlite",
                m.MILLION_PEAK,
                [[reported["peak"]]],
                **size,
                note=f"file {reported['size']:.0f} MB",
            ),
        ]
        for measure, part in ((m.MILLION_SEARCH, "memory"), (m.MILLION_SQL, "sql")):
            note = f"first search after opening {reported[part]['first']:.2f} s"
            found.append(measured(setting, "tellback-sqlite", measure, [reported[part]["times"]], **size, note=note))
    return found


def _guard(guard: str, folder: Path, count: int, seed: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.stores.guards", guard, str(folder), str(count), str(seed)]
    run = subprocess.run(words, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    parsed: dict[str, Any] = json.loads(run.stdout)
    return parsed


def _without_places(words: list[str]) -> list[str]:
    """Return the words of a command, with DIR for folders of this machine and names for files."""
    before = ["", *words]
    kept = []
    for option, word in zip(before, words, strict=False):
        place = Path(word)
        kept.append("DIR" if option in ("--data", "--work") else place.name if place.is_absolute() else word)
    return kept


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
