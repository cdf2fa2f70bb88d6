"""Answers of two systems before a judge, each pair in both orders: a verdict that turns with the order is none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.memory.data.dataset import DataSet
from benchmarks.memory.figures import Result
from benchmarks.memory.models import ModelCall, RecordedModel
from benchmarks.memory.prompts import pair_prompt
from tellback.memory.evaluation.bootstrap import bootstrap

_CHOICE = re.compile(r"\b[012]\b")


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


def judged(data: DataSet, before: Result, after: Result, judge: RecordedModel) -> str:
    """Return the verdicts of *judge* on the answers of both, counted; equal answers are even without a call.

    The balance is the mean of 1 for a win, -1 for a loss and 0 for the others; a judge without a lean names the
    response that stands first in half of its choices.
    """
    replies = iter([_choice(judge.ask(call).text) for call in calls(data, before, after)])
    outcomes, named, turned = [], [], 0
    for straight, swapped in zip(replies, replies, strict=True):
        named += [choice for choice in (straight, swapped) if choice]
        votes = {0: 0, 1: -1, 2: 1}[straight], {0: 0, 1: 1, 2: -1}[swapped]
        turned += votes[0] != votes[1]
        outcomes.append(float(votes[0]) if votes[0] == votes[1] else 0.0)
    answered = [id for id, row in after.answers.items() if id in before.answers and not row.get("error")]
    outcomes += [0.0] * (len(answered) - len(outcomes))
    wins, losses, balance = outcomes.count(1.0), outcomes.count(-1.0), bootstrap(outcomes)
    even = len(outcomes) - wins - losses - turned
    return (
        f"{wins} better, {losses} worse, {even} even, {turned} turned with the order; "
        f"better less worse {balance}{' *' if balance.excludes_zero else ''}; "
        f"the first response was named in {named.count(1) / max(len(named), 1):.2f} of choices"
    )


def _choice(reply: str) -> int:
    found = _CHOICE.search(reply)
    return int(found[0]) if found else 0
