"""Command ``python -m benchmarks answers``: quotes of notes and stories in answers without a model, by half.

A second quote is right where it holds what answers the question and the first does not; it misleads where the first
alone was right.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.personal.cases import HALVES, Case, Question, cases_of
from tellback.agent import Agent, AgentSettings, QuotingProvider
from tellback.memory import LongTermMemory, local_embedder
from tellback.memory.internals import LocalWordVectors
from tellback.vectorstore import open_store

FIRST, ANY, SECOND, RIGHT, MISLEADING = (
    "answer in the first quote",
    "answer in any quote",
    "questions with a second quote",
    "- of these, the second is right",
    "- of these, the first alone was right",
)


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("answers", help="quotes of answers without a model, over notes and stories")
    command.add_argument("--data", type=Path, help="folder of `notes`, which are left out without it")
    command.set_defaults(run=run_answers)


def run_answers(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure, print the table; return the exit code."""
    names = ["own-notes", "stories", *(["notes"] if given.data else [])]
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for case in cases_of(names, given.data):
        asyncio.run(_measure(case, values))
    groups = dict.fromkeys(group for group, _, _ in values)
    for group in groups:
        say(f"{group:24}" + "".join(f"{half:>14}" for half in HALVES))
        for figure in (FIRST, ANY, SECOND, RIGHT, MISLEADING):
            shares = [values[group, half, figure] for half in HALVES]
            say(f"  {figure:40}" + "".join(_cell(share) for share in shares))
    return 0


async def _measure(case: Case, values: dict[tuple[str, str, str], list[float]]) -> None:
    async for question, quoted in _quotes(case):
        group = f"{case.set}: {question.kind if case.set == 'stories' else 'all'}"
        hits = [id in question.gold for id in quoted]
        figures = {FIRST: any(hits[:1]), ANY: any(hits), SECOND: len(hits) > 1}
        if len(hits) > 1:
            figures |= {RIGHT: any(hits[1:]) and not hits[0], MISLEADING: hits[0] and not any(hits[1:])}
        for figure, value in figures.items():
            values[group, question.half, figure].append(float(value))


async def _quotes(case: Case) -> AsyncIterator[tuple[Question, list[str]]]:
    """Yield each answerable question with the ids that its answer quotes, in order."""

    async with LongTermMemory(
        open_store("numpy:"), embedder=local_embedder(), word_vectors=LocalWordVectors(), clock=lambda: case.now
    ) as memory:
        await memory.remember_many(case.items)
        async with Agent(QuotingProvider(), memory=memory, settings=AgentSettings(clock=lambda: case.now)) as agent:
            for question in case.questions:
                if question.gold:
                    result = await agent.run(question.text, store=False)
                    yield question, [citation.id for citation in result.citations]


def _cell(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):8.2f} ({len(values):3})" if values else f"{'':14}"
