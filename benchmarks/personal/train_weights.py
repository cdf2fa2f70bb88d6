"""Weights of currency, fitted to the questions of the open hands, with and without their recorded lines.

For each question the features of the twenty best candidates are read off ``explain``; the weights are those with which
the right ones come first (softmax over the candidates of a question, ListNet of Cao et al. 2007). The report leaves out
one hand after the other: it is fitted on seven and measured on the eighth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory.systems.tellback_memory import memory_of
from benchmarks.personal.hands import Hand, items, open_hands
from tellback.memory import E5Encoder, LongTermMemory, Memory, RecallSettings, run_sync
from tellback.memory.analysis.heads import head
from tellback.memory.embedders.local import LocalWordVectors
from tellback.vectorstore import open_store

FEATURES = tuple(RecallSettings().now)
WEIGHTS = Path(__file__).parents[2] / "memory" / "retrieval" / "scoring" / "weights.json"
_CANDIDATES, _DEPTH = 20, 60
_STEPS, _RATE = 1500, 0.05
_SHARPNESS, _DECAY = 10.0, 0.002
"""Weight of the score before the fit, towards which it is drawn, and by how much."""
_ASKS_PAST = 0.4
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Candidates of one question of *hand*, best first: *values*, shape (candidates, 1 + features), score first.

    *is_right* marks those that answer it.
    """

    hand: str
    kind: str
    lines: bool
    time: str
    values: Floats
    is_right: NDArray[np.bool_]


def train_weights(say: Callable[[str], None]) -> None:
    """Fit the weights of *now* and *past* and write them; report on each hand left out."""
    asked = [
        row
        for hand, lines, again in product(open_hands(), (False, True), (False, True))
        for row in _asked(hand, lines=lines, again=again)
    ]
    for lines in (False, True):
        rows = [row for row in asked if row.lines == lines]
        for depth, name in ((1, "first"), (3, "three")):
            gains = []
            for left_out in sorted({row.hand for row in rows}):
                weights = _fit_times(row for row in asked if row.hand != left_out)
                own = [row for row in rows if row.hand == left_out]
                before = fmean(float(row.is_right[:depth].any()) for row in own)
                after = fmean(float(row.is_right[_order(row, weights[row.time])[:depth]].any()) for row in own)
                gains.append(after - before)
            error = stdev(gains) / len(gains) ** 0.5
            say(f"{'with' if lines else 'without'} lines, {name}: {fmean(gains):+.3f} ± {error:.3f} of hands left out")
    fitted = json.loads(WEIGHTS.read_text("utf-8"))
    for time, weights in _fit_times(asked).items():
        fitted[time] = {
            name: round(float(value / weights[0]), 3) for name, value in zip(FEATURES, weights[1:], strict=True)
        }
    rows = ",\n".join(f" {json.dumps(kind)}: {json.dumps(weights)}" for kind, weights in fitted.items())
    WEIGHTS.write_text(f"{{\n{rows}\n}}\n", "utf-8")


def _asked(hand: Hand, *, lines: bool, again: bool) -> Iterator[Asked]:
    """Yield the questions of *hand* that have an answer, with their candidates.

    *again*: half of all questions were typed before, and a question is nearest to itself.
    """
    even = dict.fromkeys(FEATURES, 1e-6)  # so that explain shows the features, and nothing changes its place
    settings = replace(RecallSettings(), now=even, past=even)
    embedder, now = E5Encoder(), max(datetime.fromisoformat(question["at"]) for question in hand.questions)
    with closing(open_store("numpy:")) as store:
        memory = LongTermMemory(
            store,
            embedder=embedder,
            word_vectors=LocalWordVectors(),
            clock=lambda: now.replace(tzinfo=UTC),
            recall_settings=settings,
        )
        told = [memory_of(item, place, lines=lines) for place, item in enumerate(items(hand))]
        for question in hand.questions[::2] if again else ():
            at = datetime.fromisoformat(question["at"]).replace(tzinfo=UTC)
            told.append(Memory(question["text"], kind="turn", role="user", occurred_at=at))
        run_sync(memory.remember_many(told))
        for question in hand.questions:
            gold = hand.gold(question)
            if not gold:
                continue
            hits = run_sync(memory.recall(question["text"], k=_DEPTH, explain=True, all_utterances=True)).hits
            parts = [dict(hit.parts) for hit in hits[:_CANDIDATES]]
            features = np.array([[part.pop(name, 0.0) * 1e6 for name in FEATURES] for part in parts])
            scores = np.array([sum(part.values()) for part in parts])
            share = head("time").shares(run_sync(embedder.embed([question["text"]], "query")))["past"][0]
            yield Asked(
                hand.name,
                question["kind"],
                lines,
                "past" if share > _ASKS_PAST else "now",
                np.c_[scores, features] / scores.max(),
                np.array([hit.memory.id in gold for hit in hits[:_CANDIDATES]]),
            )


def _fit_times(asked: Iterable[Asked]) -> dict[str, Floats]:
    """Return the weights for questions about now and about the past."""
    rows = list(asked)
    return {time: _fit([row for row in rows if row.time == time and row.is_right.any()]) for time in ("now", "past")}


def _fit(asked: Sequence[Asked]) -> Floats:
    """Return the weights that put the right candidates first, by Adam."""
    values = np.zeros((len(asked), _CANDIDATES, 1 + len(FEATURES)))
    is_there, is_right = np.zeros((2, len(asked), _CANDIDATES), dtype=np.bool_)
    for place, row in enumerate(asked):
        values[place, : len(row.values)], is_there[place, : len(row.values)] = row.values, True
        is_right[place, : len(row.values)] = row.is_right
    start = np.zeros(1 + len(FEATURES))
    start[0] = _SHARPNESS
    weights, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, _STEPS + 1):
        shares = np.where(is_there, np.exp(values @ weights - (values @ weights).max(axis=1, keepdims=True)), 0.0)
        among_right = shares * is_right
        error = shares / shares.sum(axis=1, keepdims=True) - among_right / among_right.sum(axis=1, keepdims=True)
        slope = np.einsum("qc,qcf->f", error, values) / len(asked) + 2 * _DECAY * (weights - start)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope * slope
        rate = _RATE * (1 - step / (_STEPS + 1))
        weights = weights - rate * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-9)
    return weights


def _order(row: Asked, weights: Floats) -> NDArray[np.int64]:
    return np.argsort(-(row.values @ weights), kind="stable")
