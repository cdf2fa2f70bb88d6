"""Command ``python -m benchmarks documents``: questions over technical documentation, answered by quotes."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import about
from benchmarks.documents.technical import FOLDERS, HALVES, INCLUDED, PACKAGES, judge, technical_questions
from benchmarks.figure import Figure, keep, show
from tellback.agent import Agent, QuotingProvider
from tellback.memory import KnowledgeBase, open_memory

Say = Callable[[str], None]
Shares = dict[tuple[str, str, str], list[bool]]
"""What held or not, by half of the questions, measure and documentation."""
_PASSAGES = 10


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("documents", help="questions over technical documentation, without a model")
    command.add_argument(
        "--root", type=Path, default=Path("/"), help=f"where {', '.join(PACKAGES)} are installed, or were unpacked"
    )
    command.add_argument("--work", type=Path, help="keep the memory files here, and use those that are there")
    command.add_argument("--only", choices=FOLDERS, action="append", help="this documentation only; repeatable")
    command.add_argument("--wrong", choices=HALVES, help="print the questions of this half that are answered wrongly")
    command.add_argument("--json", type=Path, help="write the figures to this file")
    command.set_defaults(run=_run)


def _run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    folders = {name: given.root / FOLDERS[name] for name in given.only or FOLDERS}
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        raise ValueError(f"not there: {', '.join(missing)}; the packages are {', '.join(PACKAGES)}")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(_measured(folders, work, given.wrong, say))
    made = about.circumstances(words, ("tellback", "semantic-text-splitter", "pypdfium2"))
    figures = list(_figures(found))
    show("Questions over technical documentation", "questions", figures, made)
    keep(given.json, figures, made)
    return 0


async def _measured(folders: Mapping[str, Path], work: Path, wrong: str | None, say: Say) -> Shares:
    """Ask every documentation its own questions, and those over the others, which it does not answer."""
    found: Shares = defaultdict(list)
    for name, folder in folders.items():
        path = work / f"{name}.db"
        known = path.exists()
        async with open_memory(path) as memory:
            knowledge, agent = KnowledgeBase(memory), Agent(QuotingProvider(), memory=memory)
            if not known:
                say(f"{name}: {await knowledge.ingest(folder, include=INCLUDED)}")
            for question in technical_questions():
                retrieved = await knowledge.retrieve(question.text, _PASSAGES)
                is_own = question.documentation == name
                doubted = "its own, doubted" if is_own else "those over the others, doubted"
                found[question.half, doubted, name].append(retrieved.abstain is not None)
                if not is_own:
                    continue
                answer = await agent.run(question.text, store=False)
                passages = [passage.text for passage in retrieved]
                outcome = judge(question, passages, [citation.quote for citation in answer.citations])
                for measure, is_right in outcome.items():
                    found[question.half, measure, name].append(is_right)
                if question.half == wrong and not outcome["sentence first"]:
                    place = [rank for rank, text in enumerate(passages, start=1) if question.answered_by(text)]
                    say(f"{question.text}\n    said: {answer.text}\n    right passages: {place}")
    return found


def _figures(found: Shares) -> Iterator[Figure]:
    """Yield the share of each measure over all documentation, then that of each."""
    names = list(dict.fromkeys(name for _, _, name in found))
    measures = list(dict.fromkeys(measure for _, measure, _ in found))
    for name in ("all", *names):
        for measure in measures:
            for half in HALVES:
                of = [value for one in names if name in ("all", one) for value in found[half, measure, one]]
                yield Figure(f"{name}, {half}: {measure}", len(of), "", fmean(of))
