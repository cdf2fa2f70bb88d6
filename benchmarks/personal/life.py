"""Command ``python -m benchmarks life``: transcripts of two months of chat without a model, with questions on each.

Each day's lines are said in a conversation of that day, the questions asked on the last one. A question is answered
where a quote holds the words that belong to it, and where nothing here answers it, if there is a doubt.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tellback.agent import Agent, AgentSettings, QuotingProvider, RunResult
from tellback.memory import open_memory

_LIVES = tuple(Path(__file__).with_name("data") / name for name in ("life.txt", "life-elias.txt"))
NOTHING, REPLY = "-", "!"
"""Words of a question that nothing answers, and of a line that is no question."""


class Line(NamedTuple):
    """A line that is said on a *day*; of a question with the *words* of its answer, else None."""

    day: datetime
    text: str
    words: str | None


def lives() -> list[list[Line]]:
    """Return the lines of each month in their order."""
    return [_life(path) for path in _LIVES]


def _life(path: Path) -> list[Line]:
    lines, day = list[Line](), datetime.min.replace(tzinfo=UTC)
    for text in path.read_text("utf-8").splitlines():
        mark, _, rest = text.partition(" ")
        if mark == "@":
            day = datetime.fromisoformat(rest).replace(hour=9, tzinfo=UTC)
        elif mark == "?":
            question, _, words = rest.partition(" | ")
            lines.append(Line(day, question, words))
        elif mark != "#" and text:
            lines.append(Line(day, text, None))
        day += timedelta(minutes=1)
    return lines


async def replay(lines: Sequence[Line], folder: Path) -> AsyncIterator[tuple[Line, RunResult]]:
    """Yield each line with its answer, in a memory of its own in *folder*."""
    now = lines[0].day

    def clock() -> datetime:
        return now

    async with (
        open_memory(folder / "life.db", clock=clock) as memory,
        Agent(QuotingProvider(), memory=memory, settings=AgentSettings(clock=clock)) as agent,
    ):
        for line in lines:
            now = line.day
            yield line, await agent.run(line.text, session=f"{now:%Y-%m-%d}")


def is_right(words: str, result: RunResult) -> bool:
    """Return whether the answer quotes one of *words*, or doubts where nothing answers."""
    quoted = " ".join(" ".join(citation.quote.split()) for citation in result.citations).lower()
    if words == NOTHING:
        return result.abstain is not None
    return words == REPLY or all(word.strip().lower() in quoted for word in words.split(";"))


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("life", help="two months told in chat without a model, and questions about each")
    command.add_argument("--whole", action="store_true", help="print what was said before the questions, too")
    command.add_argument("--wrong", action="store_true", help="print the questions alone that are answered wrongly")
    command.set_defaults(run=run_life)


def run_life(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Print the transcript and how many questions are answered; return the exit code."""

    async def told(lines: Sequence[Line], folder: Path) -> tuple[int, int]:
        asked = right = 0
        async for line, result in replay(lines, folder):
            judged = line.words not in (None, REPLY)
            correct = line.words is None or is_right(line.words, result)
            asked, right = asked + judged, right + (judged and correct)
            if not correct or (not given.wrong and (line.words is not None or given.whole)):
                say(f"> {line.text}\n{result.text}" + "".join(f"\n[{c.number}] {c.where}" for c in result.citations))
                say("" if correct else f"    wanted: {line.words}\n")
        return asked, right

    for lines in lives():
        with TemporaryDirectory() as folder:
            asked, right = asyncio.run(told(lines, Path(folder)))
        say(f"{right} of {asked} questions are answered")
    return 0
