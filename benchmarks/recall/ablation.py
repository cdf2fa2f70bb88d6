"""Ablation of each signal of recall: the same questions with that one weight at 0, beside all signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.metrics import Answer, ndcg_at, recall_at
from benchmarks.recall.library_tasks import cranfield_tasks, squad_tasks
from benchmarks.recall.locomo_tasks import ADVERSARIAL, ANSWERABLE, locomo_tasks
from benchmarks.recall.results import AnswerRow
from benchmarks.recall.run import run_task
from benchmarks.recall.system import BY_KEY, Options
from benchmarks.recall.task import Task
from benchmarks.recall.terminal import Row
from tellback.memory import RecallSettings

ALL = "all signals"
Say = Callable[[str], None]


def run_ablation(data: Path, sets: Sequence[str], options: Options, *, limit: int | None, say: Say) -> list[Row]:
    """Return a row for all signals and one for each that is left out, conversations before documents."""
    rows: list[Row] = []
    if "locomo" in sets:
        turns = next(task for task in locomo_tasks(data) if task.key == "locomo-turns")
        for name, changed in _without("dialogue"):
            say(f"conversations, {name}")
            rows.append(_conversations(turns, replace(options, recall=changed), name, limit))
    libraries = {"squad": squad_tasks, "cranfield": cranfield_tasks}
    tasks = [make(data)[0] for name, make in libraries.items() if name in sets]
    if tasks:
        for name, changed in _without("passages"):
            say(f"documents, {name}")
            rows.append(_documents(tasks, replace(options, recall=changed), name, limit))
    return rows


def _without(part: str) -> Iterator[tuple[str, RecallSettings]]:
    """Yield the settings with each weight of *part* at 0; the first has them all."""
    whole = RecallSettings()
    weights: Mapping[str, float] = getattr(whole, part)
    yield f"{part}: {ALL}", whole
    for name in {"cosine": 0.0, **weights}:
        yield f"- without {name}", replace(whole, **{part: {**weights, name: 0.0}})


def _conversations(task: Task, options: Options, name: str, limit: int | None) -> Row:
    answers = _answers(task, options, limit)
    answerable = [answer for answer in answers if answer.group in ANSWERABLE]
    other = [answer for answer in answers if answer.group == ADVERSARIAL]
    return Row(name, len(answerable), {**_shares(answerable), "adversarial": recall_at(other, 10)})


def _documents(tasks: Sequence[Task], options: Options, name: str, limit: int | None) -> Row:
    figures: dict[str, float] = {}
    questions = 0
    for task in tasks:
        answers = _answers(task, options, limit)
        questions += len(answers)
        figures |= {"nDCG@10": ndcg_at(answers, 10)} if task.key == "cranfield" else _shares(answers)
    return Row(name, questions, figures)


def _answers(task: Task, options: Options, limit: int | None) -> list[Answer]:
    rows = run_task(BY_KEY["tellback"], replace(task, sessions=""), options, limit=limit, absent=False)
    return [row.answer() for row in rows if isinstance(row, AnswerRow)]


def _shares(answers: Sequence[Answer]) -> dict[str, float]:
    return {"R@1": recall_at(answers, 1), "R@10": recall_at(answers, 10)}
