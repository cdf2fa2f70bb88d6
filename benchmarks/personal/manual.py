"""Command ``python -m benchmarks manual``: questions over technical documentation, answered by quotes, without a model.

The documents are this project's own pages and a small reference of invented modules in the form of Python's. Each
question names words of the sentence that answers it. Reported for either half: the sentence is in the first quote, is
in any quote, its passage comes first, among three, among ten.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.personal.cases import HALVES
from tellback.agent import Agent, QuotingProvider
from tellback.memory import KnowledgeBase, open_memory

_DATA = Path(__file__).with_name("data")
_PAGES = Path(__file__).parents[2] / "docs"
FIGURES = ("sentence first", "sentence quoted", "passage first", "passage in three", "passage in ten")


class ManualQuestion(NamedTuple):
    """A question, *words* of the sentence that answers it, and the half it belongs to."""

    text: str
    words: str
    half: str


def manual_questions() -> list[ManualQuestion]:
    """Return the questions, in the order of the file."""
    lines = (_DATA / "manual.txt").read_text("utf-8").splitlines()
    fields = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [ManualQuestion(text, words, HALVES[number % 2]) for number, (text, words) in enumerate(fields)]


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("manual", help="questions over a technical documentation, without a model")
    command.add_argument("--wrong", choices=HALVES, help="print the questions of this half that are answered wrongly")
    command.set_defaults(run=run_manual)


def run_manual(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure, print the table; return the exit code."""
    with TemporaryDirectory() as folder:
        values = asyncio.run(_measure(Path(folder), given.wrong, say))
    say(f"{'':18}" + "".join(f"{half:>10}" for half in HALVES))
    for figure in FIGURES:
        shares = [values[half, figure] for half in HALVES]
        say(f"{figure:18}" + "".join(f"{sum(share) / len(share):10.2f}" for share in shares))
    return 0


async def _measure(folder: Path, wrong: str | None, say: Callable[[str], None]) -> dict[tuple[str, str], list[bool]]:
    values: dict[tuple[str, str], list[bool]] = defaultdict(list)
    async with open_memory(folder / "manual.db") as memory:
        pages = [page for page in sorted(_PAGES.rglob("*.md")) if page.parent.name != "appendix"]
        await KnowledgeBase(memory).ingest([*pages, _DATA / "manual"])
        agent = Agent(QuotingProvider(), memory=memory)
        for question in manual_questions():
            hits = [_one_line(hit.memory.text) for hit in await memory.recall(question.text, 10)]
            answer = await agent.run(question.text, store=False)
            quotes = [_one_line(citation.quote) for citation in answer.citations]
            ranks = [rank for rank, text in enumerate(hits) if question.words in text]
            rank = ranks[0] if ranks else len(hits)
            right = [question.words in quote for quote in quotes]
            outcome = (any(right[:1]), any(right), rank < 1, rank < 3, rank < 10)
            for figure, value in zip(FIGURES, outcome, strict=True):
                values[question.half, figure].append(value)
            if question.half == wrong and not any(right[:1]):
                say(f"{question.text}\n    quoted: {answer.text}\n    wanted: {question.words} (passage {rank + 1})")
    return values


def _one_line(text: str) -> str:
    return " ".join(text.split())
