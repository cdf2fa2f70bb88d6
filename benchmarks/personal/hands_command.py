"""Command ``python -m benchmarks hands``: check the lives by several hands, run systems over them, compare."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.personal.hand_runs import (
    LEAST_QUESTIONS,
    Run,
    all_hands,
    counts,
    difference,
    figures,
    read_run,
    record_sealed_run,
    run,
    write_run,
)
from benchmarks.personal.hands import UNANSWERABLE, Hand, open_hands, problems, shares_no_stem
from tellback.memory import SentenceEncoder, run_sync

SYSTEMS = "recipe,tellback"
_DEPTHS = ("first", "three", "ten")


def add_command(commands: Any) -> None:
    """Add ``hands`` to the commands."""
    parser = commands.add_parser("hands", help="lives by several hands: check them, run systems over them, compare")
    parser.set_defaults(run=_check)
    actions = parser.add_subparsers()
    runs = actions.add_parser("run", help="ask every question of the hands for choosing; write a run file a system")
    runs.add_argument("--systems", default=SYSTEMS, help="the first is what the others are compared with")
    runs.add_argument("--out", type=Path, help="folder of the run files")
    runs.set_defaults(run=_run)
    shows = actions.add_parser("show", help="the figures of run files; the first is what the others are compared with")
    shows.add_argument("files", type=Path, nargs="+")
    shows.set_defaults(run=_show)
    sealed = actions.add_parser("sealed", help="the same over the sealed hands, which may be done six times in all")
    sealed.add_argument("--systems", default=SYSTEMS)
    sealed.set_defaults(run=_sealed)


def _run(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    hands = all_hands(sealed=False)
    runs = [run(key, hands, say) for key in given.systems.split(",")]
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        for one in runs:
            write_run(given.out / f"{one.system.replace(' ', '')}.jsonl", one)
    _print(runs)
    return 0


def _show(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    hands = all_hands(sealed=False)
    _print([read_run(path, hands) for path in given.files])
    return 0


def _sealed(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    hands = all_hands(sealed=True)
    runs = [run(key, hands, say) for key in given.systems.split(",")]
    record_sealed_run(runs)
    _print(runs)
    return 0


def _print(runs: Sequence[Run]) -> None:
    asked = counts(runs[0].rows)
    of_runs = [figures(one.rows) for one in runs]
    table = Table(title="first / any of three / among ten; differences of the first, between hands")
    table.add_column("questions")
    table.add_column("", justify="right")
    for one in runs:
        table.add_column(one.system, justify="right")
    for group, number in asked.items():
        cells = []
        for means in of_runs:
            shares = [fmean(v[f"{group} {d}"] for v in means.values() if f"{group} {d}" in v) for d in _DEPTHS]
            cell = " / ".join(f"{share:.3f}" for share in shares)
            apart = difference(means, of_runs[0], f"{group} first") if means is not of_runs[0] else ""
            cells.append(f"{cell}\n{apart}" if apart and number >= LEAST_QUESTIONS else cell)
        table.add_row(group, str(number), *cells)
    others = dict.fromkeys(name for means in of_runs for values in means.values() for name in values)
    for name in others:
        if name.rsplit(" ", 1)[-1] not in _DEPTHS:
            values = [[v[name] for v in means.values() if name in v] for means in of_runs]
            table.add_row(name, "", *(f"{fmean(given):.3f}" if given else "" for given in values))
    for hand in of_runs[0]:
        table.add_row(hand, "", *(" / ".join(f"{m[hand][f'all {d}']:.3f}" for d in _DEPTHS) for m in of_runs))
    Console(width=40 + 28 * len(runs)).print(table)


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


_FOLDS = 5


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
