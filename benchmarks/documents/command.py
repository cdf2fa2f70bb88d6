"""``python -m benchmarks documents``: questions over technical documentation, answered by quotes, without a model."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent import Agent, QuotingProvider
from benchmarks.about import command as command_words
from benchmarks.about import load, moment, versions
from benchmarks.documents.technical import (
    FIGURES,
    FOLDERS,
    HALVES,
    PACKAGES,
    TechnicalQuestion,
    judge,
    technical_questions,
)
from memory import KnowledgeBase, open_memory

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
    command.add_argument("--wrong", choices=HALVES, help="print the questions of this half that are answered wrongly")
    command.add_argument("--packages", help="the versions of these packages, for the file of --json")
    command.add_argument("--json", type=Path, help="write the figures to this file")
    command.set_defaults(run=run_documents)


def run_documents(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure, print the table; return the exit code."""
    folders = {name: given.folders / name if given.folders else given.root / FOLDERS[name] for name in FOLDERS}
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        raise ValueError(f"not there: {', '.join(missing)}; the packages are {', '.join(PACKAGES)}")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(TemporaryDirectory()))
        rows, ingests = asyncio.run(_measure(folders, work, given.wrong, say))
    lines = [_line(name, rows) for name in ("", *FOLDERS)]
    for line in lines:
        say(f"{line['documentation'] or 'all':12}" + "".join(f"{half:>10}" for half in HALVES))
        for figure in FIGURES:
            say(f"  {figure:18}" + "".join(f"{line[half][figure]:8.2f}" for half in HALVES))
    if given.json:
        places = ("--root", "--folders", "--work", "--json")
        about = {
            "command": command_words(words, places=places),
            "at": moment(),
            "load": load(),
            "versions": versions(("tellback", "semantic-text-splitter", "pypdfium2")),
            "packages": given.packages or "",
        }
        text = json.dumps({"about": about, "ingests": ingests, "lines": lines}, indent=1)
        given.json.write_text(text + "\n", "utf-8")
    return 0


async def _measure(
    folders: Mapping[str, Path], work: Path, wrong: str | None, say: Say
) -> tuple[list[tuple[TechnicalQuestion, dict[str, bool]]], list[dict[str, Any]]]:
    work.mkdir(parents=True, exist_ok=True)
    questions, rows, ingests = technical_questions(), [], []
    for name, folder in folders.items():
        path = work / f"{name}.db"
        known = path.exists()
        async with open_memory(path) as memory:
            if not known:
                began, cpu = time.perf_counter(), time.process_time()
                report = await KnowledgeBase(memory).ingest(folder)
                elapsed, used = time.perf_counter() - began, time.process_time() - cpu
                say(f"{name}: {report} in {elapsed:.1f} s, {used:.1f} s of CPU")
                ingests.append({"documentation": name, "report": str(report), "seconds": elapsed, "cpu": used})
            agent = Agent(QuotingProvider(), memory=memory)
            for question in (question for question in questions if question.documentation == name):
                passages = [hit.memory.text for hit in await memory.recall(question.text, _PASSAGES)]
                answer = await agent.run(question.text, store=False)
                outcome = judge(question, passages, [citation.quote for citation in answer.citations])
                rows.append((question, outcome))
                if question.half == wrong and not outcome[FIGURES[0]]:
                    place = [rank for rank, text in enumerate(passages, start=1) if question.answered_by(text)]
                    say(f"{question.text}\n    said: {answer.text}\n    right passages: {place}")
    return rows, ingests


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
