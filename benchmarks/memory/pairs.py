"""Answers of two systems before a judge, each pair in both orders: a verdict that turns with the order is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.memory.data.dataset import DataSet
from benchmarks.memory.figures import Result
from benchmarks.memory.models import ModelCall, RecordedModel
from benchmarks.memory.prompts import pair_prompt
from tellback.memory.evaluation.bootstrap import ConfidenceInterval, bootstrap

_CHOICE = re.compile(r"\b[012]\b")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Outcome over all pairs: *wins* and *losses* of the second system, *turned* with the order, the rest even.

    *first* is the share of decided calls that named the response which stood first; .5 for a judge without a lean.
    """

    wins: int
    losses: int
    turned: int
    even: int
    first: float
    balance: ConfidenceInterval
    """Mean of 1 for a win, -1 for a loss and 0 for the others."""

    def __str__(self) -> str:
        star = " *" if self.balance.excludes_zero else ""
        return (
            f"{self.wins} better, {self.losses} worse, {self.even} even, {self.turned} turned with the order; "
            f"better less worse {self.balance}{star}; the first response was named in {self.first:.2f} of choices"
        )


def pairs(before: Result, after: Result) -> Iterator[tuple[str, str, str]]:
    """Yield each question that both answered differently, with both answers."""
    for id, row in after.answers.items():
        other = before.answers.get(id)
        if other is not None and not (row.get("error") or other.get("error")) and row["answer"] != other["answer"]:
            yield id, other["answer"], row["answer"]


def calls(data: DataSet, before: Result, after: Result) -> list[ModelCall]:
    """Return the calls of all pairs, in both orders."""
    return [
        ModelCall(pair_prompt(data.questions[id], *order))
        for id, old, new in pairs(before, after)
        for order in ((old, new), (new, old))
    ]


def judged(data: DataSet, before: Result, after: Result, judge: RecordedModel) -> Verdicts:
    """Return the verdicts of *judge* on the answers of both; equal answers are even without a call."""
    replies = iter([_choice(judge.ask(call).text) for call in calls(data, before, after)])
    outcomes, named, turned = [], [], 0
    for straight, swapped in zip(replies, replies, strict=True):
        named += [choice for choice in (straight, swapped) if choice]
        votes = {0: 0, 1: -1, 2: 1}[straight], {0: 0, 1: 1, 2: -1}[swapped]
        turned += votes[0] != votes[1]
        outcomes.append(float(votes[0]) if votes[0] == votes[1] else 0.0)
    answered = [id for id, row in after.answers.items() if id in before.answers and not row.get("error")]
    outcomes += [0.0] * (len(answered) - len(outcomes))
    wins, losses = outcomes.count(1.0), outcomes.count(-1.0)
    even = len(outcomes) - wins - losses - turned
    return Verdicts(wins, losses, turned, even, named.count(1) / max(len(named), 1), bootstrap(outcomes))


def _choice(reply: str) -> int:
    found = _CHOICE.search(reply)
    return int(found[0]) if found else 0
