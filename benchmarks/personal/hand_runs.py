"""Runs over the hands: a file of what a system found for each question, and the figures that follow from such files.

A run file is JSON Lines, schema 1: a header (system, settings, version, data, seed, machine), then a row per question
with the ids that were found, best first, their scores, the confidence and whether the system abstained. Ids stand for
texts: no file of a run has a text in it. The sealed hands are read here alone, and each reading adds a line to
``data/hands/sealed-runs.jsonl``.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.about import commit
from benchmarks.memory.metrics import area_under_curve
from benchmarks.memory.protocol import Question, Settings
from benchmarks.memory.systems.recipe import Recipe
from benchmarks.memory.systems.tellback_memory import Tellback
from benchmarks.personal.hands import HANDS, UNANSWERABLE, Hand, Row, items, open_hands, read_hand, shares_no_stem
from benchmarks.stores.results import machine

SCHEMA = 1
DEPTH = 50
SEALED = HANDS / "sealed.tar.xz"
SEALED_RUNS = HANDS / "sealed-runs.jsonl"
MOST_SEALED_RUNS = 6
SYSTEMS = {
    "recipe": (Recipe, "the plain recipe: BM25 and the cosine of a sentence encoder, added, nothing fitted"),
    "tellback": (Tellback, "as it is installed"),
}
CODING = ("hand-10", "hand-11", "hand-12")
LEAST_QUESTIONS = 40
"""A kind with fewer questions is reported, not judged."""


@dataclass(frozen=True, slots=True)
class Found:
    """Row of a run: the *hits* of one question, best first, and what the system said of them."""

    hand: str
    question: str
    kind: str
    hits: tuple[str, ...]
    scores: tuple[float, ...] = ()
    confidence: float | None = None
    abstain: str | None = None
    gold: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()

    def place(self, ids: Iterable[str]) -> int:
        """Return the best place of any of *ids* among the hits, counted from 1; a million where none is."""
        wanted = set(ids)
        return next((place for place, id in enumerate(self.hits, 1) if id in wanted), 10**6)


@dataclass(frozen=True, slots=True)
class Run:
    """Run of one system: its *header*, as the file has it, and a row per question."""

    header: Row
    rows: Sequence[Found] = field(default_factory=tuple)

    @property
    def system(self) -> str:
        """Name of the system with what it was given."""
        return str(self.header["system"]) + (f" + {self.header['lines']} lines" if self.header.get("lines") else "")


def sealed_hands() -> list[Hand]:
    """Return the sealed hands, unpacked into a folder that is gone afterwards."""
    with TemporaryDirectory() as folder, tarfile.open(SEALED) as archive:
        archive.extractall(folder, filter="data")
        return [read_hand(path) for path in sorted(Path(folder).iterdir()) if path.is_dir()]


def run(key: str, hands: Sequence[Hand], say: Callable[[str], None]) -> Run:
    """Return what the system *key* finds for the questions of *hands*, each hand a memory of its own.

    A *key* that ends in ``+lines`` gets the recorded lines with the memories.
    """
    key, plus, _ = key.partition("+")
    rows: list[Found] = []
    for hand in hands:
        begun = time.process_time()
        with TemporaryDirectory() as folder:
            system = SYSTEMS[key][0](Settings(Path(folder), options={"lines": plus}))
            system.ingest(items(hand))
            system.ready()
            asked_at = max(question["at"] for question in hand.questions) + "+00:00"
            for question in hand.questions:
                found = system.search(Question(question["id"], question["text"], asked_at), DEPTH, 0)
                abstains = "abstains" if found.abstains else None
                hits, scores = tuple(hit.id for hit in found.hits), tuple(round(hit.score, 5) for hit in found.hits)
                rows.append(_found(hand, question, hits, scores, found.confidence, abstains))
            system.close()
        say(f"{key}: {hand.name} in {time.process_time() - begun:.1f} CPU s")
    header = {
        "schema": SCHEMA,
        "stage": "retrieve",
        "system": key,
        "settings": SYSTEMS[key][1],
        "lines": "recorded" if plus else "",
        "commit": commit(),
        "data": {hand.name: hashed(hand) for hand in hands},
        "seed": 0,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }
    return Run(header, rows)


def hashed(hand: Hand) -> str:
    """Return the hash of all that *hand* consists of."""
    parts = (hand.notes, hand.facts, hand.questions, hand.adversary)
    return sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


def write_run(path: Path, run: Run) -> None:
    """Write *run* to *path*: the header, then its rows, without the labels, which belong to the hands."""
    rows = (
        {
            "hand": row.hand,
            "question": row.question,
            "hits": list(row.hits),
            "scores": list(row.scores),
            "confidence": row.confidence,
            "abstain": row.abstain,
        }
        for row in run.rows
    )
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (run.header, *rows)), "utf-8")


def read_run(path: Path, hands: Sequence[Hand]) -> Run:
    """Return the run of *path* with the labels of *hands*; raise ``ValueError`` where it is of other data."""
    header, *lines = map(json.loads, path.read_text("utf-8").splitlines())
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {header.get('schema')}; {SCHEMA} is read")
    by_name = {hand.name: hand for hand in hands}
    for name, expected in header["data"].items():
        if name not in by_name or hashed(by_name[name]) != expected:
            raise ValueError(f"{path}: made with another {name} than is here")
    questions = {(hand.name, question["id"]): question for hand in hands for question in hand.questions}
    rows = []
    for line in lines:
        hand, question = by_name[line["hand"]], questions[line["hand"], line["question"]]
        rows.append(
            _found(hand, question, tuple(line["hits"]), tuple(line["scores"]), line["confidence"], line["abstain"])
        )
    return Run(header, rows)


def _found(hand: Hand, question: Row, *values: Any) -> Found:
    labels = (hand.gold(question), hand.stale(question), tuple(_groups(hand, question)))
    return Found(hand.name, question["id"], question["kind"], *values, *labels)


def figures(rows: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Return the figures of *rows* by hand: shares of questions, keyed ``group first``, ``group three``, ``group ten``.

    Beside them are the share of changed facts whose stale note stands above the current one, of answerable questions
    that were doubted, of unanswerable ones that were caught, and the area under the curve of the confidence.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        of_hand = values[row.hand]
        if row.kind in UNANSWERABLE:
            of_hand[f"{row.kind} caught"].append(float(row.abstain is not None))
            continue
        place = row.place(row.gold)
        for group in row.groups:
            for name, depth in (("first", 1), ("three", 3), ("ten", 10)):
                of_hand[f"{group} {name}"].append(float(place <= depth))
        of_hand["answerable doubted"].append(float(row.abstain is not None))
        if row.stale:
            of_hand["stale above current"].append(float(row.place(row.stale) < place))
    means = {hand: {name: fmean(given) for name, given in of_hand.items()} for hand, of_hand in values.items()}
    for hand, of_hand in means.items():
        own = [row for row in rows if row.hand == hand and row.confidence is not None]
        sure = [row.confidence or 0.0 for row in own if row.kind not in UNANSWERABLE]
        for kind in UNANSWERABLE:
            unsure = [row.confidence or 0.0 for row in own if row.kind == kind]
            if sure and unsure:
                of_hand[f"{kind} AUROC"] = area_under_curve(sure, unsure)
    return means


def counts(rows: Sequence[Found]) -> dict[str, int]:
    """Return how many questions each group has."""
    return dict(Counter(group for row in rows for group in row.groups))


def difference(ours: Mapping[str, Mapping[str, float]], theirs: Mapping[str, Mapping[str, float]], name: str) -> str:
    """Return the mean of the paired differences between hands with its standard error, as text."""
    pairs = [values[name] - theirs[hand][name] for hand, values in ours.items() if name in values]
    if len(pairs) < 2:
        return ""
    return f"{fmean(pairs):+.3f} ± {stdev(pairs) / len(pairs) ** 0.5:.3f}"


def all_hands(*, sealed: bool) -> list[Hand]:
    """Return the hands for choosing, or the *sealed* ones."""
    return sealed_hands() if sealed else [hand for hand in open_hands() if hand.questions]


def record_sealed_run(runs: Sequence[Run]) -> None:
    """Append one line on *runs* over the sealed hands; raise ``ValueError`` where all of them were made."""
    number = len(sealed_runs()) + 1
    if number > MOST_SEALED_RUNS:
        raise ValueError(f"the sealed hands were run {MOST_SEALED_RUNS} times, which is all they may be")
    means = {
        run.system: {
            name: round(fmean(values), 4)
            for name, values in _by_name(figures(run.rows))
            if not name.startswith("hand-")
        }
        for run in runs
    }
    line = {"run": number, "made": runs[0].header["made"], "commit": runs[0].header["commit"], "figures": means}
    with SEALED_RUNS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def sealed_runs() -> list[Any]:
    """Return the lines of all runs over the sealed hands."""
    return list(map(json.loads, SEALED_RUNS.read_text("utf-8").splitlines())) if SEALED_RUNS.exists() else []


def _by_name(means: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, list[float]]]:
    for name in dict.fromkeys(name for values in means.values() for name in values):
        yield name, [values[name] for values in means.values() if name in values]


def _groups(hand: Hand, question: Row) -> Iterator[str]:
    if question["kind"] in UNANSWERABLE:
        return
    yield "all"
    yield question["kind"]
    if question.get("reworded"):
        yield "reworded"
    if shares_no_stem(hand, question):
        yield "no shared stem"
    if hand.name in CODING:
        yield "coding"
