"""Figures of systems on the sealed hands, which nobody has looked at, and which may be opened six times in all.

Each opening adds a line of figures to ``data/hands/sealed-runs.jsonl``; no text of a sealed hand is printed or kept.
The open hands are a data set of ``python -m benchmarks memory``.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.about import commit, moment
from benchmarks.memory.data.dataset import Asked
from benchmarks.memory.data.hands import corpus_of
from benchmarks.memory.protocol import Found, Settings
from benchmarks.memory.systems.recipe import Recipe
from benchmarks.memory.systems.tellback_memory import Tellback
from benchmarks.personal.hands import HANDS, Hand, read_hand
from tellback.memory.evaluation.metrics import any_at, area_under_curve, place_of

DEPTH = 50
SEALED = HANDS / "sealed.tar.xz"
SEALED_RUNS = HANDS / "sealed-runs.jsonl"
MOST_SEALED_RUNS = 6
SYSTEMS = {"recipe": Recipe, "tellback": Tellback}
"""The plain recipe, in which nothing was fitted, and the product as it is installed."""

Figures = Mapping[str, Mapping[str, float]]
"""Figures by hand and name."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question of a *hand*, and what a system found for it."""

    hand: str
    asked: Asked
    found: Found

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that the question counts among; none for one that nothing answers."""
        return ("all", self.asked.kind, *self.asked.groups) if self.asked.answerable else ()


def sealed_hands() -> list[Hand]:
    """Return the sealed hands, unpacked into a folder that is gone afterwards; ``ValueError`` after the last run."""
    if len(sealed_runs()) >= MOST_SEALED_RUNS:
        raise ValueError(f"the sealed hands were run {MOST_SEALED_RUNS} times, which is all they may be")
    with TemporaryDirectory() as folder, tarfile.open(SEALED) as archive:
        archive.extractall(folder, filter="data")
        return [read_hand(path) for path in sorted(Path(folder).iterdir()) if path.is_dir()]


def answered(key: str, hands: Sequence[Hand], say: Callable[[str], None]) -> tuple[str, list[Answered]]:
    """Return the name of the system *key*, and what it finds for the questions of *hands*, a memory each.

    A *key* that ends in ``+lines`` gets the recorded lines with the memories.
    """
    key, plus, _ = key.partition("+")
    rows = []
    for corpus in map(corpus_of, hands):
        begun = time.process_time()
        with TemporaryDirectory() as folder:
            system = SYSTEMS[key](Settings(Path(folder), options={"lines": plus}))
            system.ingest(corpus.items)
            system.ready()
            last = max(asked.question.at for asked in corpus.questions)
            for asked in corpus.questions:
                found = system.search(replace(asked.question, at=last), DEPTH, 0)
                rows.append(Answered(corpus.name, asked, found))
            system.close()
        say(f"{key}: {corpus.name} in {time.process_time() - begun:.1f} CPU s")
    return key + (" + recorded lines" if plus else ""), rows


def figures(rows: Sequence[Answered]) -> Figures:
    """Return the figures of *rows* by hand: shares of questions, keyed ``group first``, ``group three``, ``group ten``.

    Beside them are the share of changed facts whose stale note stands above the current one, of answerable questions
    that were doubted, of unanswerable ones that were caught, and the area under the curve of the confidence.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    sure: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        of_hand, asked, ids = values[row.hand], row.asked, [hit.id for hit in row.found.hits]
        doubted = "answerable doubted" if asked.answerable else f"{asked.kind} caught"
        of_hand[doubted].append(float(row.found.abstains))
        if row.found.confidence is not None:
            sure[row.hand]["" if asked.answerable else asked.kind].append(row.found.confidence)
        for group in row.groups:
            for name, depth in (("first", 1), ("three", 3), ("ten", 10)):
                of_hand[f"{group} {name}"].append(any_at(ids, asked.gold, depth))
        if asked.stale:
            stale, gold = place_of(ids, asked.stale), place_of(ids, asked.gold)
            of_hand["stale above current"].append(float(bool(stale) and (not gold or stale < gold)))
    means = {hand: {name: fmean(given) for name, given in of_hand.items()} for hand, of_hand in values.items()}
    for hand, by_kind in sure.items():
        for kind in by_kind.keys() - {""}:
            means[hand][f"{kind} AUROC"] = area_under_curve(by_kind[""], by_kind[kind])
    return means


def counts(rows: Sequence[Answered]) -> dict[str, int]:
    """Return how many questions each group has."""
    return dict(Counter(group for row in rows for group in row.groups))


def by_name(means: Figures) -> dict[str, list[float]]:
    """Return the values of all hands by the name of a figure."""
    names = dict.fromkeys(name for values in means.values() for name in values)
    return {name: [values[name] for values in means.values() if name in values] for name in names}


def difference(ours: Figures, theirs: Figures, name: str) -> str:
    """Return the mean of the paired differences between hands with its standard error, as text."""
    pairs = [values[name] - theirs[hand][name] for hand, values in ours.items() if name in values]
    if len(pairs) < 2:
        return ""
    return f"{fmean(pairs):+.3f} ± {stdev(pairs) / len(pairs) ** 0.5:.3f}"


def record_sealed_run(systems: Mapping[str, Figures]) -> None:
    """Append one line with the means over the sealed hands of the figures of each of *systems*."""
    means = {
        system: {name: round(fmean(values), 4) for name, values in by_name(found).items()}
        for system, found in systems.items()
    }
    line = {"run": len(sealed_runs()) + 1, "made": moment(), "commit": commit(), "figures": means}
    with SEALED_RUNS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def sealed_runs() -> list[Any]:
    """Return the lines of all runs over the sealed hands."""
    return list(map(json.loads, SEALED_RUNS.read_text("utf-8").splitlines())) if SEALED_RUNS.exists() else []
