"""Command ``python -m benchmarks memory``: run systems over data, show, compare and check what came out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.about import add_data_option
from benchmarks.memory import pairs
from benchmarks.memory.answer import CURVE, READERLESS, REPEATS, Reading, answer, answer_path, context_of, judge
from benchmarks.memory.check import problems
from benchmarks.memory.compare import compared
from benchmarks.memory.contract import violations
from benchmarks.memory.data.catalogue import read_data
from benchmarks.memory.data.dataset import DataError, DataSet
from benchmarks.memory.embedding_server import EmbeddingServer
from benchmarks.memory.figures import Result, read_results
from benchmarks.memory.models import BudgetExceeded, ModelCall, Purse, RecordedModel
from benchmarks.memory.page import markdown_page, page
from benchmarks.memory.prompts import OURS, Prompts, read_prompts
from benchmarks.memory.protocol import Settings, Unavailable
from benchmarks.memory.registry import ENTRIES, MEASURED, Entry, entry_of
from benchmarks.memory.run import RunOptions, retrieve
from benchmarks.memory.schema import json_schema
from benchmarks.memory.stage_files import read_stage
from benchmarks.memory.tables import Table, tables_of
from tellback.agent import open_provider
from tellback.memory import local_embedder

_NOT_MEASURED = "not-measured.json"
_SCHEMA = Path(__file__).parent / "schema.json"

Say = Callable[[str], None]


def add_command(commands: Any) -> None:
    """Add ``memory`` to the commands."""
    parser = commands.add_parser(
        "memory", help="memory systems over conversations and notes: run, show, page, compare, check"
    )
    actions = parser.add_subparsers(required=True)
    run = _action(actions, "run", _run, "ask every system every question; killed and run again, it goes on")
    run.add_argument(
        "--systems", default=",".join(MEASURED), help="keys, or module:Class of your own; +shared behind it"
    )
    run.add_argument("--stages", default="retrieve,answer,judge", help="retrieve (with ingest), answer, judge")
    run.add_argument("--limit", type=int, help="only so many questions of each kind and corpus")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--again", action="store_true", help="make the files of these stages anew")
    run.add_argument("-k", type=int, default=10, help="hits that a reader gets")
    run.add_argument("--tokens", type=int, default=1_000, help="tokens that a reader gets")
    run.add_argument("--curve", help="further budgets of tokens that it gets, 100,500; a model none without it")
    run.add_argument("--reader", default=READERLESS, help="a model, openai:NAME or anthropic:NAME; without: quotes")
    run.add_argument("--judge", default=READERLESS, help="a model; without: evidence and words are compared")
    _add_model(run)
    for name, function, help in (
        ("show", _show, "tables in the terminal"),
        ("page", _page, "one HTML file, and Markdown beside it"),
        ("compare", _compare, "two systems question by question"),
        ("check", _check, "prove that the files are whole and of the schema"),
    ):
        action = _action(actions, name, function, help)
        if name == "check":
            action.add_argument("--prompts", type=Path, help="file of the prompts, where they are not ours")
            continue
        action.add_argument("--reader", default=READERLESS)
        action.add_argument("--judge", default=READERLESS)
        action.add_argument("--without", type=Path, help="file with ids of questions that are left out, one a line")
        if name == "compare":
            action.add_argument("before", help="a system, or FOLDER=SYSTEM of another run")
            action.add_argument("after")
            action.add_argument("--measure", default="first")
            action.add_argument("--show", type=int, default=20, help="questions that are listed")
            action.add_argument("--pairs", help="a model that says which answer is better, asked in both orders")
            _add_model(action)
        else:
            action.add_argument("--price", help="money per million tokens in and out")
            action.add_argument("--against", default="bm25", help="system that the others are compared with")
            action.add_argument("--draw", choices=("questions", "corpora"), default="questions")
        if name == "page":
            action.add_argument("--file", type=Path, default=Path("memory-bench.html"))
    keeps = actions.add_parser("contract", help="check that an adapter keeps the contract")
    keeps.add_argument("systems", help="keys, or module:Class of your own")
    keeps.set_defaults(run=_contract)
    schema = actions.add_parser("schema", help="write schema.json from the rows' shapes")
    schema.set_defaults(run=_schema)


def _add_model(action: argparse.ArgumentParser) -> None:
    """Add what bounds and records the calls of a model."""
    action.add_argument("--replay", action="store_true", help="answer from recorded calls alone")
    action.add_argument("--price", default="0,0", help="money per million tokens in and out")
    action.add_argument("--budget", type=float, help="money that may be spent; needed with a model")
    action.add_argument("--prompts", type=Path, help="prompts of your own, or LongMemEval's evaluate_qa.py")


def _action(actions: Any, name: str, function: Callable[..., int], help: str) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(name, help=help)
    action.set_defaults(run=function)
    add_data_option(action)
    action.add_argument("--sets", default="hands,locomo", help="names, NAME=PATH, or folders of your own data")
    action.add_argument("--out", type=Path, default=Path("memory-bench"), help="folder of the files of the run")
    return action


def _run(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    entries = [entry_of(name) for name in given.systems.split(",")]
    stages = given.stages.split(",")
    options = RunOptions(given.limit, given.seed, given.again)
    reading = _reading(given)
    failures = _read_failures(given.out)
    for data in _sets(given):
        server: EmbeddingServer | None = None
        if "retrieve" in stages and any(entry.shared for entry in entries):
            given.out.mkdir(parents=True, exist_ok=True)
            server = EmbeddingServer(local_embedder(), folder=given.out)
        has_lines = any(item.about for corpus in data.corpora for item in corpus.items)
        for entry in entries:
            if entry.not_measured or ("lines" in entry.options and not has_lines):
                continue
            folder = given.out / data.name / entry.key
            try:
                if "retrieve" in stages:
                    retrieve(data, entry, given.out, options, server, say)
                    failures.pop(entry.key, None)
                _read(data, entry, folder, reading, stages, again=given.again, say=say)
            except Unavailable as error:
                say(f"{entry.key}: not measured: {error}")
                failures[entry.key] = str(error)
                for stage in ("ingest.jsonl", "retrieve.jsonl"):
                    (folder / stage).unlink(missing_ok=True)
            except BudgetExceeded as error:
                say(f"{entry.key}: stopped: {error}; run it again with a larger --budget, and it goes on")
                return 1
        if server is not None:
            server.close()
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / _NOT_MEASURED).write_text(json.dumps(failures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def _read(
    data: DataSet, entry: Entry, folder: Path, reading: Reading, stages: Sequence[str], *, again: bool, say: Say
) -> None:
    """Run the stages of reader and judge; say what they cost before a model is asked."""
    for stage, model in (("answer", reading.reader), ("judge", reading.judge)):
        if stage not in stages:
            continue
        if model is not None and model.provider is not None:
            calls = _calls(data, entry, folder, reading, stage)
            say(f"{entry.key}: {stage} by {model.name} costs at most {model.estimate(calls):.4f}")
            model.check_budget(calls)
        if stage == "answer":
            answer(data, entry, folder, reading, again=again)
        else:
            judge(data, folder, reading, again=again)


def _calls(data: DataSet, entry: Entry, folder: Path, reading: Reading, stage: str) -> list[ModelCall]:
    if stage == "answer":
        rows = [row for row in read_stage(folder / "retrieve.jsonl")[1] if not row.get("error")]
        contexts = (
            (data.questions[row["question"]], context_of(data, row, entry, *setting))
            for row in rows
            for setting in reading.settings(entry)
        )
        return [ModelCall(reading.prompts.reader(asked, [line for _, line in context])) for asked, context in contexts]
    name = reading.reader.name if reading.reader else READERLESS
    rows = [row for row in read_stage(answer_path(folder, name))[1] if not row.get("error")]
    return [
        ModelCall(reading.prompts.judge(data.questions[row["question"]], row["answer"]), repeat)
        for row in rows
        for repeat in range(REPEATS)
    ]


def _reading(given: argparse.Namespace) -> Reading:
    purse = _purse(given)
    reader, judge = (None if name == READERLESS else _model(name, given, purse) for name in (given.reader, given.judge))
    curve = () if reader is not None else CURVE
    if given.curve is not None:
        curve = tuple(int(budget) for budget in given.curve.split(",") if budget)
    return Reading(given.k, given.tokens, reader, judge, curve, _prompts(given))


def _model(name: str, given: argparse.Namespace, purse: Purse) -> RecordedModel:
    if given.budget is None and not given.replay:
        raise DataError(f"--budget is needed with a model: how much {name} may cost in all")
    return RecordedModel(name, given.out / "calls.jsonl", None if given.replay else open_provider(name), purse)


def _purse(given: argparse.Namespace) -> Purse:
    return Purse(*_price(given.price), float("inf") if given.budget is None else given.budget)


def _price(text: str) -> tuple[float, float]:
    try:
        into, out = map(float, text.split(","))
    except ValueError as error:
        raise DataError(
            f"--price {text}: two numbers are needed, per million tokens in and out, such as 0.15,0.60"
        ) from error
    return into, out


def _prompts(given: argparse.Namespace) -> Prompts:
    return OURS if given.prompts is None else read_prompts(given.prompts)


def _show(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    console = Console(width=None if Console().is_terminal else 200)
    for data, results in _results(given):
        console.rule(f"{data.title}: {len(data.corpora)} corpora, {len(data.questions)} questions, {data.hash[:12]}")
        for table in tables_of(results, given.against, **_shown(given)):
            _print(console, table)
        console.print(f"Not measured here: {data.limits}.", style="dim")
    for name, why in _all_failures(given.out).items():
        console.print(f"{name}: no figures: {why}", style="dim", markup=False)
    return 0


def _page(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    results = list(_results(given))
    failures = _all_failures(given.out)
    given.file.write_text(page(results, given.against, failures, **_shown(given)), "utf-8")
    given.file.with_suffix(".md").write_text(markdown_page(results, given.against, failures, **_shown(given)), "utf-8")
    say(f"{given.file} and {given.file.with_suffix('.md')}")
    return 0


def _compare(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    for data in _sets(given):
        print(data.title)
        before, after = (_one(given, data, name) for name in (given.before, given.after))
        for line in compared(before, after, given.measure, show=given.show):
            print(line)
        if given.pairs is not None:
            judge = _model(given.pairs, given, _purse(given))
            calls = pairs.calls(data, before, after)
            say(f"{len(calls)} calls of {judge.name} cost at most {judge.estimate(calls):.4f}")
            judge.check_budget(calls)
            print(f"answers before {judge.name}: {pairs.judged(data, before, after, judge)}")
    return 0


def _shown(given: argparse.Namespace) -> dict[str, Any]:
    return {"by_corpus": given.draw == "corpora", "price": _price(given.price) if given.price else None}


def _one(given: argparse.Namespace, data: DataSet, name: str) -> Result:
    folder, found, key = name.rpartition("=")
    place = Path(folder) if found else given.out
    results = read_results(place, data, reader=given.reader, judge=given.judge, left_out=_left_out(given))
    for result in results:
        if result.key == key:
            return result
    raise DataError(f"no results of {key} on {data.title}: there are {', '.join(result.key for result in results)}")


def _check(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    lines = list(problems(given.out, _sets(given), _prompts(given)))
    for line in lines:
        print(line)
    print(f"{given.out}: {len(lines)} problems")
    return 1 if lines else 0


def _contract(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    entries = [entry_of(name) for name in given.systems.split(",")]
    server = EmbeddingServer(local_embedder()) if any(entry.shared for entry in entries) else None
    found = 0
    for entry in entries:
        with TemporaryDirectory() as folder:
            settings = server.settings(Path(folder)) if server and entry.shared else Settings(Path(folder))
            try:
                lines = list(violations(entry, settings))
            except Unavailable as error:
                lines = [f"it cannot be used here: {error}"]
        found += len(lines)
        for line in lines or ["keeps the contract"]:
            print(f"{entry.key}: {line}")
    if server is not None:
        server.close()
    return 1 if found else 0


def _schema(given: argparse.Namespace, asked: list[str], say: Say) -> int:
    _SCHEMA.write_text(json.dumps(json_schema(), indent=1) + "\n", "utf-8")
    return 0


def _sets(given: argparse.Namespace) -> list[DataSet]:
    return [read_data(name, given.data) for name in given.sets.split(",")]


def _results(given: argparse.Namespace) -> list[tuple[DataSet, list[Result]]]:
    found = []
    for data in _sets(given):
        results = read_results(given.out, data, reader=given.reader, judge=given.judge, left_out=_left_out(given))
        if not results:
            raise DataError(f"{given.out}: no results on {data.title}; `memory run` makes them")
        found.append((data, results))
    return found


def _left_out(given: argparse.Namespace) -> list[str]:
    return given.without.read_text("utf-8").split() if given.without else []


def _read_failures(out: Path) -> dict[str, str]:
    path = out / _NOT_MEASURED
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def _all_failures(out: Path) -> dict[str, str]:
    return {**{entry.key: entry.not_measured for entry in ENTRIES if entry.not_measured}, **_read_failures(out)}


def _print(console: Console, table: Table) -> None:
    printed = RichTable(title=table.title, caption=table.note or None, title_justify="left", caption_justify="left")
    for number, head in enumerate(table.heads):
        printed.add_column(head, justify="left" if number == 0 else "right")
    for row in table.rows:
        printed.add_row(*row)
    console.print(printed)
