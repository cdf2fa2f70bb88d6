"""Files of ``tellback memories eval``: questions that somebody wrote, and the answers of an earlier evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellback.agent.errors import ArgumentError
from tellback.memory.internals import paired_difference

if TYPE_CHECKING:
    from tellback.memory.internals import Evaluation, EvaluationAnswer

EARLIER = "the earlier evaluation"
_SHOWN = 10
"""Questions that are listed of each way."""


def read_written_questions(path: Path) -> dict[str, str]:
    """Return the questions of *path*, JSON Lines with ``question`` and the ``id`` of the memory that answers it."""
    questions: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            questions[str(row["question"])] = str(row["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise ArgumentError(
                "--written", f"{path.name}, line {number}", 'a line is {"question": "…", "id": "…"}'
            ) from error
    return questions


def read_earlier_places(path: Path) -> dict[tuple[str, str], int]:
    """Return the place of each question's memory, as it was, from what ``eval --json`` wrote to *path*."""
    try:
        answers: list[Mapping[str, Any]] = json.loads(path.read_text("utf-8"))["answers"]
        return {(row["question"], row["wanted"]): int(row["place"]) for row in answers}
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError("--against", path.name, "what `tellback memories eval --json` prints is needed") from error


def changed_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield, for each other way, the questions whose memory is found later or not at all by it, the worst first."""
    for way in evaluation.answers[0].places:
        pairs = [(answer, answer.place, answer.places[way]) for answer in evaluation.answers]
        yield from _worse(f"by {way}", pairs)


def earlier_lines(evaluation: Evaluation, earlier: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield how the memory as it is differs from the *earlier* evaluation, over the questions of both."""
    both = [answer for answer in evaluation.answers if (answer.question, answer.wanted) in earlier]
    if not both:
        yield f"no question of {EARLIER} was asked: it is of another memory, or another --seed"
        return
    pairs = [(answer, earlier[answer.question, answer.wanted], answer.place) for answer in both]
    now = {answer.question: _reciprocal(after) for answer, _, after in pairs}
    then = {answer.question: _reciprocal(before) for answer, before, _ in pairs}
    difference = paired_difference(now, then, seed=evaluation.seed)
    yield f"MRR of {len(both)} questions now less {EARLIER}: {difference}"
    yield from _worse(f"than in {EARLIER}", pairs)


def _worse(than: str, pairs: Sequence[tuple[EvaluationAnswer, int, int]]) -> Iterator[str]:
    lost = sorted(
        (pair for pair in pairs if _reciprocal(pair[2]) < _reciprocal(pair[1])),
        key=lambda pair: _reciprocal(pair[2]) - _reciprocal(pair[1]),
    )
    if lost:
        yield f"worse {than}: {len(lost)} of {len(pairs)} questions"
    for answer, before, after in lost[:_SHOWN]:
        yield f"  {before} → {after or 'not found'}: {answer.question} ({answer.wanted})"


def _reciprocal(place: int) -> float:
    return 1 / place if place else 0.0
