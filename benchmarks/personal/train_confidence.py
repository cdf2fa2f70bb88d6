"""The confidence of recall, fitted to the questions of the open hands, in memories of several sizes.

Fitted twice: to whether one of the first three by cosine answers a question, and to whether the first one does; what
nothing answers counts three times, as there are few. The report leaves out one hand after the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.personal.hands import UNANSWERABLE, Hand, items, open_hands
from benchmarks.personal.train_judge import fit_logistic
from tellback.memory import E5Encoder, run_sync
from tellback.memory.evaluation.metrics import area_under_curve
from tellback.memory.retrieval.scoring.confidence import LIKELY, AnswerEvidence
from tellback.vectorstore import Analyzer
from tellback.vectorstore.internals import idf_array

CONFIDENCE = Path(__file__).parents[2] / "memory" / "retrieval" / "scoring" / "confidence.json"
_SIZES = (10, 80, 1_000)
"""Memories of a memory, at most."""
_UNANSWERABLE_WEIGHT, _DECAY = 3.0, 0.3
_DOUBTED = {10: 0.12, 80: 0.06, 1_000: 0.06}
"""Share of the answerable questions that may be doubted at the bound: more in a small memory, which is soon read."""
_NAME = re.compile(r"(?<=[\w,;] )([A-Z\u00c0-\u00de][\w'\u2019-]+)")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """Question of *hand* with its evidence in a memory of at most *size*; *answered*: one of three answers it."""

    hand: str
    size: int
    lines: bool
    kind: str
    answered: bool
    first: bool
    evidence: AnswerEvidence


def train_confidence(say: Callable[[str], None]) -> None:
    """Fit the weights and the bound, and write them; report on each hand left out, by size, without and with lines."""
    asked = [row for hand in open_hands() for lines in (False, True) for row in _of_hand(hand, lines=lines)]
    names = list(asked[0].evidence.values())
    values = np.array([list(row.evidence.values().values()) for row in asked])
    answered, first = (np.array([getattr(row, of) for row in asked], dtype=np.float64) for of in ("answered", "first"))
    hands, is_answerable = (
        np.array([row.hand for row in asked]),
        np.array([row.kind not in UNANSWERABLE for row in asked]),
    )
    counts = np.where(is_answerable, 1.0, _UNANSWERABLE_WEIGHT)
    logits, of_first = np.zeros(len(asked)), np.zeros(len(asked))
    for hand in sorted(set(hands.tolist())):
        others = hands != hand
        for fitted, target in ((logits, answered), (of_first, first)):
            fitted[~others] = values[~others] @ fit_logistic(values[others], target[others], _DECAY, counts[others])
    size, limits = np.array([row.size for row in asked]), []
    for most in _SIZES:
        of_size = size == most
        limits.append(float(np.quantile(logits[of_size & is_answerable], _DOUBTED[most])))
        for lines in (False, True):
            _report([(row, logits[i]) for i, row in enumerate(asked) if row.size == most and row.lines == lines], say)
    mean_sizes = [float(values[size == most, names.index("size")].mean()) for most in _SIZES]
    slope, start = np.polyfit(mean_sizes, limits, 1)
    below = logits < start + slope * values[:, names.index("size")]
    for kind in UNANSWERABLE:
        say(f"{kind} caught: {below[[row.kind == kind for row in asked]].mean():.2f}")
    say(f"answerable doubted: {below[is_answerable].mean():.3f}")
    plainly = (of_first >= log(LIKELY / (1 - LIKELY))) & ~below
    for most in _SIZES:
        of_size = size == most
        say(
            f"of {most} said without doubt {plainly[of_size].mean():.2f}, right {first[of_size & plainly].mean():.2f};"
            f" plainly wrong {(plainly & (first == 0))[of_size].mean():.2f} of all"
        )
    weights = {
        of: dict(zip(names, fit_logistic(values, target, _DECAY, counts).round(3).tolist(), strict=True))
        for of, target in (("three", answered), ("first", first))
    }
    weights["bound"] = {"bias": round(float(start), 3), "size": round(float(slope), 3)}
    CONFIDENCE.write_text(json.dumps(weights, indent=1) + "\n", "utf-8")


def _report(rows: list[tuple[Asked, float]], say: Callable[[str], None]) -> None:
    sure = [logit for row, logit in rows if row.kind not in UNANSWERABLE]
    areas = " ".join(
        f"{kind} {area_under_curve(sure, [logit for row, logit in rows if row.kind == kind]):.3f}"
        for kind in UNANSWERABLE
    )
    right, wrong = ([logit for row, logit in rows if row.first == first] for first in (True, False))
    counts = np.array([1.0 if row.kind not in UNANSWERABLE else _UNANSWERABLE_WEIGHT for row, _ in rows])
    shares = 1 / (1 + np.exp(-np.array([logit for _, logit in rows])))
    answered = np.array([row.answered for row, _ in rows], dtype=np.float64)
    base = np.average(answered, weights=counts)
    skill = 1 - np.average((shares - answered) ** 2, weights=counts) / (base * (1 - base))
    row = rows[0][0]
    say(
        f"of {row.size}, {'with' if row.lines else 'without'} lines: AUROC {areas}, right first "
        f"{area_under_curve(right, wrong):.3f}; Brier skill {skill:.3f}"
    )


def _of_hand(hand: Hand, *, lines: bool) -> Iterator[Asked]:
    notes, encoder, analyzer = items(hand), E5Encoder(), Analyzer()
    abouts = [note.about if lines else "" for note in notes]
    both = [f"{about}: {note.text}" if about else note.text for note, about in zip(notes, abouts, strict=True)]
    sums = np.array(run_sync(encoder.embed(both)))
    sums += np.array(run_sync(encoder.embed([about or note.text for note, about in zip(notes, abouts, strict=True)])))
    vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    asked = np.array(run_sync(encoder.embed([question["text"] for question in hand.questions], "query")))
    terms, random = [frozenset(analyzer.terms(text)) for text in both], np.random.default_rng(0)
    for question, cosines in zip(hand.questions, asked @ vectors.T, strict=True):
        gold = [place for place, note in enumerate(notes) if note.id in hand.gold(question)]
        for size in _SIZES:
            kept = random.permutation(len(notes))[:size]
            if gold and not set(gold) & set(kept.tolist()):
                kept[0] = random.choice(gold)
            best = kept[np.argsort(-cosines[kept], kind="stable")][:3].tolist()
            evidence = _evidence(question["text"], best[0], kept, cosines, terms, both, analyzer)
            found = bool(set(best) & set(gold))
            yield Asked(hand.name, size, lines, question["kind"], found, best[0] in gold, evidence)


def _evidence(
    question: str,
    first: int,
    kept: NDArray[np.int64],
    cosines: Floats,
    terms: list[frozenset[str]],
    texts: list[str],
    analyzer: Analyzer,
) -> AnswerEvidence:
    asked = sorted(set(analyzer.terms(question)))
    frequencies = np.array([sum(term in terms[place] for place in kept) for term in asked], dtype=np.float64)
    weights = np.minimum(idf_array(len(kept), frequencies), idf_array(len(kept), np.array([1.0]))[0])
    total = max(float(weights.sum()), 1e-9)
    has = np.array([term in terms[first] for term in asked], dtype=np.bool_)
    names = [name.rstrip("'\u2019s").casefold() for name in _NAME.findall(question)]
    return AnswerEvidence(
        best=float(cosines[kept].max()),
        mean=float(cosines[kept].mean()),
        words=float(weights[has].sum()) / total,
        names=float(np.mean([name not in texts[first].casefold() for name in names])) if names else 0.0,
        count=len(kept),
    )
