"""What each signal of recall is worth: the same questions with that one weight at 0, beside all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from benchmarks.datasets import cranfield, locomo, squad
from benchmarks.metrics import Answer, ndcg_at, recall_at
from benchmarks.recall import ADVERSARIAL, Row, Settings, answers_of_library, asked_of, opened
from memory import RecallSettings

ALL = "all signals"


def run_ablation(folder: Path, settings: Settings, say: Callable[[str], None]) -> list[Row]:
    """Return a row for all signals and one for each that is left out, conversations before documents."""
    rows: list[Row] = []
    with asyncio.Runner() as runner:
        if "locomo" in settings.sets:
            for name, changed in _without("conversation"):
                say(f"conversations, {name}")
                rows.append(runner.run(_conversations(folder, replace(settings, recall=changed), name)))
        if {"squad", "cranfield"} & set(settings.sets):
            for name, changed in _without("documents"):
                say(f"documents, {name}")
                rows.append(runner.run(_documents(folder, replace(settings, recall=changed), name)))
    return rows


def _without(part: str) -> Iterator[tuple[str, RecallSettings]]:
    """Yield the settings with each weight of *part* at 0; the first has them all."""
    whole = RecallSettings()
    weights = getattr(whole, part)
    yield f"{part}: {ALL}", whole
    for one in fields(weights):
        value = getattr(weights, one.name)
        nothing = tuple(0.0 for _ in value) if isinstance(value, tuple) else 0.0
        yield f"- without {one.name}", replace(whole, **{part: replace(weights, **{one.name: nothing})})


async def _conversations(folder: Path, settings: Settings, name: str) -> Row:
    answers: list[Answer] = []
    for conversation in locomo(folder):
        with opened(settings) as memory:
            answers += await asked_of(memory, conversation.turns, conversation.questions, settings, [])
    answerable = [answer for answer in answers if answer.group != ADVERSARIAL]
    other = [answer for answer in answers if answer.group == ADVERSARIAL]
    return Row(name, len(answerable), {**_shares(answerable), "adversarial": recall_at(other, 10)})


async def _documents(folder: Path, settings: Settings, name: str) -> Row:
    figures: dict[str, float] = {}
    questions = 0
    for known, load in (("squad", squad), ("cranfield", cranfield)):
        if known not in settings.sets:
            continue
        answers = await answers_of_library(load(folder), settings, [])
        questions += len(answers)
        figures |= _shares(answers) if known == "squad" else {"nDCG@10": ndcg_at(answers, 10)}
    return Row(name, questions, figures)


def _shares(answers: Sequence[Answer]) -> dict[str, float]:
    return {"R@1": recall_at(answers, 1), "R@10": recall_at(answers, 10)}
