"""Commands ``python -m benchmarks recall``, ``recall-report`` and ``compare``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import about
from benchmarks.datasets import fingerprint
from benchmarks.recall.ablation import run_ablation
from benchmarks.recall.footprint import footprint
from benchmarks.recall.results import AnswerRow, Fill, Header, Results, Writer, read_results
from benchmarks.recall.run import SESSIONS, can_do, run_task
from benchmarks.recall.summary import read_summary, summarised, write_summary
from benchmarks.recall.system import BY_KEY, PEERS, USUAL, Contender, NotAvailable, Options, missing
from benchmarks.recall.task import Task
from benchmarks.recall.tasks import READ, SETS, tasks_of
from benchmarks.recall.terminal import show
from benchmarks.stores.asking import PROJECT
from benchmarks.stores.results import machine
from tellback.memory import RecallSettings

_PACKAGES = ("tellback", "numpy", "wordllama", "tokenizers", "PyStemmer", "apsw", "sqlite-vec", "bm25s")
_LARGEST = ("locomo-pooled", "squad", "cranfield")
Say = Callable[[str], None]


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of ``python -m benchmarks``."""
    recall = commands.add_parser("recall", help="share of the evidence that is found, beside other systems")
    _add_data(recall)
    recall.add_argument("--folder", type=Path, action="append", default=[], help="data of your own; may be repeated")
    recall.add_argument("--systems", default=",".join(USUAL), help="names of systems, comma-separated")
    recall.add_argument("--peers", default="", help="other memories, each in its own environment: " + ", ".join(PEERS))
    recall.add_argument("--no-vectors", action="store_true", help="without the vectors of the extra `local`")
    recall.add_argument("--store", choices=("sqlite", "numpy"), default="sqlite")
    recall.add_argument("--limit", type=int, help="only so many questions of each group and corpus")
    recall.add_argument("--seed", type=int, default=0, help="random seed of the intervals and of the system `shuffled`")
    recall.add_argument("--ablate", action="store_true", help="figures with each signal left out in turn")
    recall.add_argument("--no-footprint", action="store_true", help="do not measure memory in processes of their own")
    recall.add_argument("--work", type=Path, help="folder for the memories' files (default: temporary)")
    recall.add_argument("--out", type=Path, help="write every answer to this file, .jsonl or .jsonl.gz")
    recall.add_argument("--json", type=Path, help="write the figures alone to this file")
    recall.set_defaults(run=run_recall)
    report = commands.add_parser("recall-report", help="render what `recall` measured: a page and a picture")
    report.add_argument("results", type=Path, help="file of `recall --out` or `recall --json`")
    report.add_argument(
        "--docs", type=Path, default=PROJECT / "docs" / "appendix", help="folder of the page and the picture"
    )
    report.add_argument("--summary", type=Path, help="write the figures alone to this file")
    report.add_argument("--no-plot", action="store_true", help="leave the picture as it is")
    report.set_defaults(run=run_report)
    compare = commands.add_parser("compare", help="two runs, question by question")
    compare.add_argument("before", type=Path, help="a file of `recall --out`")
    compare.add_argument("after", type=Path)
    compare.add_argument("--system", default="tellback", help="name of the system in both files, or BEFORE:AFTER")
    compare.add_argument(
        "--draw", choices=("questions", "corpora"), default="questions", help="unit that is resampled for the intervals"
    )
    compare.add_argument("--seed", type=int, default=0)
    compare.add_argument("--same", action="store_true", help="exit with 1 unless ranked ids and figures are equal")
    compare.set_defaults(run=run_compare)


def run_recall(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure what *given* asks for; return the exit code."""
    sets = tuple(given.sets.split(",")) if given.sets else ()
    data = given.data
    if given.ablate:
        show_ablation(given, sets, say)
        return 0
    tasks = tasks_of(data, sets, given.folder)
    options = Options(not given.no_vectors, given.store, given.seed)
    chosen, not_run = _chosen([*_named(given.systems), *_named(given.peers)])
    header = _header(given, words, sets, tasks, chosen, not_run)
    rows: list[Fill | AnswerRow] = []
    for contender in chosen:
        if not any(can_do(contender, task) for task in tasks):
            not_run[contender.key] = f"it is asked {', '.join(contender.only)} alone"
            continue
        try:
            rows += _rows(contender, tasks, options, given, say)
        except NotAvailable as error:
            not_run[contender.key] = str(error)
            say(f"{contender.title}: not run: {error}")
    if not given.no_footprint:
        header = replace(
            header, settings={**header.settings, "memory": _memory(chosen, not_run, tasks, given, sets, say)}
        )
    took_part = {key: reported for key, reported in header.systems.items() if key not in not_run}
    header = replace(header, systems=took_part, not_run=not_run)
    if given.out is not None:
        write(given.out, header, rows)
    summary = summarised(Results(header, *_parted(rows)))
    if given.json is not None:
        write_summary(given.json, summary)
    show(summary)
    return 0


def run_report(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Render the page and the picture; return the exit code."""
    from benchmarks.recall.page import page

    summary = read_summary(given.results)
    given.docs.mkdir(exist_ok=True)
    if not given.no_plot:
        from benchmarks.recall.plot import draw

        draw(summary, given.docs / "recall-measured.svg")
        say(f"{given.docs / 'recall-measured.svg'} written")
    (given.docs / "recall-measured.md").write_text(page(summary), "utf-8")
    say(f"{given.docs / 'recall-measured.md'} written")
    if given.summary is not None:
        write_summary(given.summary, summary)
    return 0


def run_compare(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Print how two runs differ; return the exit code."""
    from benchmarks.recall.compare import compared

    before, _, after = given.system.partition(":")
    if given.same:
        from benchmarks.recall.same import sameness

        found = sameness(read_results(given.before), read_results(given.after), (before, after or before))
        print(found)
        return 1 if found.differences else 0
    print(
        compared(
            read_results(given.before),
            read_results(given.after),
            (before, after or before),
            by_corpus=given.draw == "corpora",
            seed=given.seed,
        )
    )
    return 0


def show_ablation(given: argparse.Namespace, sets: tuple[str, ...], say: Say) -> None:
    """Print the figures of the ablation."""
    from benchmarks.recall.terminal import show_rows

    tasks_of(given.data, [name for name in sets if name in READ])  # raises for what is not there
    options = Options(not given.no_vectors, given.store, given.seed)
    show_rows(run_ablation(given.data, sets, options, limit=given.limit, say=say))


def write(path: Path, header: Header, rows: Iterable[Fill | AnswerRow]) -> None:
    """Write a results file."""
    writer = Writer(path)
    writer.write(header)
    for row in rows:
        writer.write(row)
    writer.close()


def _rows(
    contender: Contender, tasks: Sequence[Task], options: Options, given: argparse.Namespace, say: Say
) -> Iterator[Fill | AnswerRow]:
    for task in tasks:
        if can_do(contender, task):
            yield from run_task(contender, task, options, limit=given.limit, work=given.work, say=say)


def _add_data(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get("TELLBACK_BENCH_DATA")
    parser.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of the data sets")
    parser.add_argument("--sets", default=",".join(SETS), help="names of data sets, comma-separated; empty: none")


def _named(words: str) -> list[Contender]:
    keys = [key for key in words.split(",") if key]
    unknown = [key for key in keys if key not in BY_KEY]
    if unknown:
        raise ValueError(f"no system {', '.join(unknown)}; known are {', '.join(BY_KEY)}")
    return [BY_KEY[key] for key in keys]


def _chosen(contenders: Sequence[Contender]) -> tuple[list[Contender], dict[str, str]]:
    """Return the systems that can be measured here, and for each other the reason."""
    why = {item.key: missing(item) for item in contenders}
    return [item for item in contenders if why[item.key] is None], {key: item for key, item in why.items() if item}


def _header(
    given: argparse.Namespace,
    words: Sequence[str],
    sets: Sequence[str],
    tasks: Sequence[Task],
    chosen: Sequence[Contender],
    not_run: dict[str, str],
) -> Header:
    read = [name for name in sets if name in READ]
    data = {name: fingerprint(given.data, [name]) for name in read}
    data |= {task.key: task.data for task in tasks if task.status == "yours"}
    settings = {
        "depth": 50,
        "limit": given.limit,
        "store": given.store,
        "vectors": not given.no_vectors,
        "clock": "2026-01-01, standing still",
        "recall": asdict(RecallSettings()),
    }
    return Header(
        command=about.command(words, places=("--data", "--work", "--folder")),
        at=about.moment(),
        machine=machine(),
        load=about.load(),
        versions=about.versions(_PACKAGES),
        settings=settings,
        data=data,
        seed=given.seed,
        systems={item.key: _about_system(item) for item in chosen},
        tasks=dict(_about_tasks(tasks)),
        not_run=not_run,
    )


def _about_system(system: Contender) -> dict[str, str]:
    settings_version = system.settings.split(",")[0] * system.peer
    version = about.version_of(system.package) if system.package and not system.peer else settings_version
    return {"title": system.title, "version": version, "settings": system.settings, "vectors": system.vectors}


def _about_tasks(tasks: Sequence[Task]) -> Iterator[tuple[str, dict[str, Any]]]:
    for task in tasks:
        values = {"title": task.title, "status": task.status, "unit": task.unit, "note": task.note}
        values["headline"] = list(task.headline)  # type: ignore[assignment]
        yield task.key, values
        if task.sessions:
            note = "the same answers, a session standing where its best item does"
            yield task.key + SESSIONS, {**values, "title": task.sessions, "unit": "session", "note": note}


def _memory(
    chosen: Sequence[Contender],
    not_run: dict[str, str],
    tasks: Sequence[Task],
    given: argparse.Namespace,
    sets: Sequence[str],
    say: Say,
) -> dict[str, Any]:
    keys = [task.key for task in tasks]
    task = next((key for key in _LARGEST if key in keys), keys[0])
    place = {
        "data": None if given.data is None else str(given.data.resolve()),
        "sets": list(sets),
        "folders": [str(item.resolve()) for item in given.folder],
        "vectors": not given.no_vectors,
        "store": given.store,
        "seed": given.seed,
    }
    footprints = {}
    for item in chosen:
        if item.peer or item.key in not_run or not can_do(item, next(each for each in tasks if each.key == task)):
            continue
        say(f"{item.title}: memory of {task}, in a process of its own")
        try:
            reported = footprint(item, task, place)
        except RuntimeError as error:
            say(f"{item.title}: memory not measured: {error}")
        else:
            if reported["mb"] is not None:
                footprints[item.key] = {**reported, "task": task}
    return footprints


def _parted(rows: Sequence[Fill | AnswerRow]) -> tuple[tuple[Fill, ...], tuple[AnswerRow, ...]]:
    return (
        tuple(item for item in rows if isinstance(item, Fill)),
        tuple(item for item in rows if isinstance(item, AnswerRow)),
    )
