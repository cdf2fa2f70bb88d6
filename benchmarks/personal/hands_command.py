"""Command ``python -m benchmarks hands``: check the lives by several hands, and score systems on the sealed ones."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.personal.hands import UNANSWERABLE, Hand, open_hands, problems, shares_no_stem
from benchmarks.personal.sealed_hands import (
    SYSTEMS,
    Figures,
    answered,
    by_name,
    counts,
    difference,
    figures,
    record_sealed_run,
    sealed_hands,
)
from tellback.memory import SentenceEncoder, run_sync

_DEPTHS = ("first", "three", "ten")
_LEAST_QUESTIONS = 40
"""A kind with fewer questions is reported, not judged."""
_FOLDS = 5


def add_command(commands: Any) -> None:
    """Add ``hands`` to the commands."""
    parser = commands.add_parser("hands", help="lives by several hands: check them, score systems on the sealed ones")
    parser.set_defaults(run=_check)
    sealed = parser.add_subparsers().add_parser("sealed", help="score on the sealed hands; six times in all")
    sealed.add_argument("--systems", default=",".join(SYSTEMS), help="the first is what the others are compared with")
    sealed.set_defaults(run=_sealed)


def _sealed(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    hands = sealed_hands()
    runs = dict(answered(key, hands, say) for key in given.systems.split(","))
    found = {name: figures(rows) for name, rows in runs.items()}
    record_sealed_run(found)
    _print(counts(next(iter(runs.values()))), found)
    return 0


def _print(asked: Mapping[str, int], systems: Mapping[str, Figures]) -> None:
    table = Table(title="first / any of three / among ten; differences of the first, between hands")
    table.add_column("questions")
    table.add_column("", justify="right")
    for system in systems:
        table.add_column(system, justify="right")
    reference = next(iter(systems.values()))
    values = [by_name(means) for means in systems.values()]
    for group, number in asked.items():
        cells = []
        for means, of_names in zip(systems.values(), values, strict=True):
            cell = " / ".join(f"{fmean(of_names[f'{group} {depth}']):.3f}" for depth in _DEPTHS)
            apart = difference(means, reference, f"{group} first") if means is not reference else ""
            cells.append(f"{cell}\n{apart}" if apart and number >= _LEAST_QUESTIONS else cell)
        table.add_row(group, str(number), *cells)
    for name in dict.fromkeys(name for of_names in values for name in of_names):
        if name.rsplit(" ", 1)[-1] not in _DEPTHS:
            table.add_row(name, "", *(f"{fmean(v[name]):.3f}" if name in v else "" for v in values))
    for hand in reference:
        cells = [" / ".join(f"{means[hand][f'all {depth}']:.3f}" for depth in _DEPTHS) for means in systems.values()]
        table.add_row(hand, "", *cells)
    Console(width=40 + 28 * len(systems)).print(table)


def _check(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    hands, wrong = open_hands(), 0
    sentences = Counter(note["text"] for hand in hands for note in hand.notes if len(note["text"]) > 40)
    for hand in hands:
        found = [
            *problems(hand),
            *(f"shared: {note['text'][:60]}" for note in hand.notes if sentences[note["text"]] > 1),
        ]
        answerable = [question for question in hand.questions if question["kind"] not in UNANSWERABLE]
        apart = sum(shares_no_stem(hand, question) for question in answerable)
        changed = sum(bool(note.get("changes")) for note in hand.notes)
        print(
            f"{hand.name}: {len(hand.notes)} notes, {changed} change an earlier one; {len(hand.facts)} facts; "
            f"{len(hand.stories)} stories; {len(hand.questions)} questions, {apart} of {len(answerable)} share no stem "
            f"with their answer; {len(hand.adversary)} near misses; {len(found)} problems"
        )
        for line in found:
            say(f"  {line}")
        wrong += len(found)
    print(f"a linear probe names the hand of {_probe(hands):.2f} of the notes (chance: {1 / len(hands):.2f})")
    return 1 if wrong else 0


def _probe(hands: Sequence[Hand]) -> float:
    """Return the share of notes whose hand a ridge regression over sentence vectors names, five folds by note."""
    vectors = run_sync(SentenceEncoder().embed([note["text"] for hand in hands for note in hand.notes]))
    labels = np.repeat(np.arange(len(hands)), [len(hand.notes) for hand in hands])
    targets, fold = np.eye(len(hands))[labels], np.arange(len(labels)) % _FOLDS
    right = 0
    for left_out in range(_FOLDS):
        known, asked = vectors[fold != left_out], vectors[fold == left_out]
        weights = np.linalg.solve(known.T @ known + np.eye(known.shape[1]), known.T @ targets[fold != left_out])
        right += int(((asked @ weights).argmax(axis=1) == labels[fold == left_out]).sum())
    return right / len(labels)
