"""Command ``python -m benchmarks documents``: questions over technical documentation, answered by quotes."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.about import command as command_words
from benchmarks.about import load, moment, versions
from benchmarks.documents.reading import measure_speed
from benchmarks.documents.technical import (
    FIGURES,
    FOLDERS,
    HALVES,
    INCLUDED,
    PACKAGES,
    TechnicalQuestion,
    judge,
    technical_questions,
)
from tellback.agent import Agent, QuotingProvider
from tellback.memory import KnowledgeBase, SentenceEncoder, local_embedder, open_memory

Say = Callable[[str], None]
_PASSAGES = 10


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("documents", help="questions over technical documentation, without a model")
    command.add_argument(
        "--root", type=Path, default=Path("/"), help=f"where {', '.join(PACKAGES)} are installed, or were unpacked"
    )
    command.add_argument(
        "--folders", type=Path, help=f"a folder with {', '.join(FOLDERS)} instead, in any format that is read"
    )
    command.add_argument("--work", type=Path, help="keep the memory files here, and use those that are there")
    command.add_argument(
        "--passages",
        choices=("static", "encoder"),
        default="static",
        help="vectors of passages: static ones, as is usual, or the sentence encoder's",
    )
    command.add_argument("--only", choices=FOLDERS, action="append", help="this documentation only; repeatable")
    command.add_argument("--wrong", choices=HALVES, help="print the questions of this half that are answered wrongly")
    command.add_argument("--packages", help="the versions of these packages, for the file of --json")
    command.add_argument("--reading", action="store_true", help="also the speed of reading files")
    command.add_argument("--json", type=Path, help="write the figures to this file")
    command.set_defaults(run=run_documents)


def run_documents(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure, print the table; return the exit code."""
    folders = {
        name: given.folders / name if given.folders else given.root / FOLDERS[name] for name in given.only or FOLDERS
    }
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        raise ValueError(f"not there: {', '.join(missing)}; the packages are {', '.join(PACKAGES)}")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        rows, doubts, ingests = asyncio.run(_measure(folders, work, given.wrong, given.passages, say))
        reading = _measure_reading(folders, work, say) if given.reading else {}
    lines = [_line(name, rows) for name in ("", *folders)]
    for line in lines:
        say(f"{line['documentation'] or 'all':12}" + "".join(f"{half:>10}" for half in HALVES))
        for figure in FIGURES:
            say(f"  {figure:18}" + "".join(f"{line[half][figure]:8.2f}" for half in HALVES))
    doubt_lines = [_doubt_line(name, doubts, own=own) for name in ("", *folders) for own in (True, False)]
    for line in doubt_lines:
        shares = "".join(f"{line[half]:8.2f}" for half in HALVES)
        say(f"doubted, {line['documentation'] or 'all':12}{shares}  {line['asked']}")
    if given.json:
        places = ("--root", "--folders", "--work", "--json")
        about = {
            "command": command_words(words, places=places),
            "at": moment(),
            "load": load(),
            "versions": versions(("tellback", "chromadb", "semantic-text-splitter", "pypdfium2")),
            "packages": given.packages or "",
        }
        text = json.dumps(
            {"about": about, "ingests": ingests, "lines": lines, "doubts": doubt_lines, **reading}, indent=1
        )
        given.json.write_text(text + "\n", "utf-8")
    return 0


class Doubt(NamedTuple):
    """A *question* asked of a documentation, its own or another, and the doubt about its answer."""

    documentation: str
    question: TechnicalQuestion
    is_doubted: bool


def _doubt_line(name: str, doubts: Sequence[Doubt], *, own: bool) -> dict[str, Any]:
    """Return the shares of questions doubted in one documentation (or all): its *own*, or those over the others."""
    line: dict[str, Any] = {"documentation": name, "asked": "its own questions" if own else "questions over others"}
    for half in HALVES:
        chosen = [
            doubt.is_doubted
            for doubt in doubts
            if doubt.question.half == half
            and name in ("", doubt.documentation)
            and (doubt.question.documentation == doubt.documentation) == own
        ]
        line[half] = sum(chosen) / len(chosen)
    return line


def _measure_reading(folders: Mapping[str, Path], work: Path, say: Say) -> dict[str, Any]:
    """Measure how fast the Python documentation is read, and how much of its text and of a PDF."""
    with TemporaryDirectory(dir=work) as fresh:  # a second ingest of the same files would skip them
        speeds = measure_speed(folders["python"], Path(fresh))
    for speed in speeds:
        say(
            f"{speed.what:20} {speed.files} files, {speed.chunks} chunks: {speed.seconds:.1f} s, "
            f"{speed.cpu:.1f} s of CPU, {speed.chunks / speed.cpu:.0f} chunks a second of CPU"
        )
    return {"speed": [row._asdict() for row in speeds]}


async def _measure(
    folders: Mapping[str, Path], work: Path, wrong: str | None, passages_by: str, say: Say
) -> tuple[list[tuple[TechnicalQuestion, dict[str, bool]]], list[Doubt], list[dict[str, Any]]]:
    questions, doubts = technical_questions(), list[Doubt]()
    rows, ingests = [], []
    for name, folder in folders.items():
        path = work / f"{name}.db"
        known = path.exists()
        embedder = SentenceEncoder() if passages_by == "encoder" else local_embedder()
        async with open_memory(path, embedder=embedder) as memory:
            knowledge = KnowledgeBase(memory)
            if not known:
                began, cpu = time.perf_counter(), time.process_time()
                report = await knowledge.ingest(folder, include=INCLUDED)
                elapsed, used = time.perf_counter() - began, time.process_time() - cpu
                say(f"{name}: {report} in {elapsed:.1f} s, {used:.1f} s of CPU")
                ingests.append({"documentation": name, "report": str(report), "seconds": elapsed, "cpu": used})
            for question in questions:
                doubts.append(Doubt(name, question, (await knowledge.retrieve(question.text)).abstain is not None))
            agent = Agent(QuotingProvider(), memory=memory)
            for question in (question for question in questions if question.documentation == name):
                passages = [passage.text for passage in await knowledge.retrieve(question.text, _PASSAGES)]
                answer = await agent.run(question.text, store=False)
                outcome = judge(question, passages, [citation.quote for citation in answer.citations])
                rows.append((question, outcome))
                if question.half == wrong and not outcome[FIGURES[0]]:
                    place = [rank for rank, text in enumerate(passages, start=1) if question.answered_by(text)]
                    say(f"{question.text}\n    said: {answer.text}\n    right passages: {place}")
    return rows, doubts, ingests


def _line(name: str, rows: Sequence[tuple[TechnicalQuestion, Mapping[str, bool]]]) -> dict[str, Any]:
    """Return the share of right answers for each half, over one documentation (or all)."""
    line: dict[str, Any] = {"documentation": name}
    for half in HALVES:
        chosen = [
            outcome for question, outcome in rows if question.half == half and name in ("", question.documentation)
        ]
        line[half] = {figure: sum(outcome[figure] for outcome in chosen) / len(chosen) for figure in FIGURES}
        line[half]["questions"] = len(chosen)
    return line
