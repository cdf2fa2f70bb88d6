"""The judge of two statements, fitted to pairs of notes of the open hands, of topics and of plain sentences.

A pair counts as a change where both notes give values of one fact and the newer one gives a later value. Beside it
stand the nearest older notes of each note, by vector and by line, and the near misses of topics: pairs that look
alike. The report leaves out one hand after the other; each bound is the lowest probability with its precision there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.personal.hands import DATA, Hand, items, open_hands
from benchmarks.personal.train_heads import BY_VECTORS_ALONE, TOPICS
from tellback.memory import E5Encoder, run_sync
from tellback.memory.analysis.texts import analyze_text
from tellback.memory.currency import PAIR_FEATURES, Claim, pair_features
from tellback.vectorstore import Analyzer

PLAIN = DATA / "plain_pairs.jsonl"
JUDGE = Path(__file__).parents[2] / "memory" / "currency.json"
_NEAREST = 8
"""Older notes that each note is compared with, beside those of its line and of its facts."""
_DECAY = 1e-5
_MONTH = 30 * 86_400_000_000
_PLAIN_COUNT = 10
_PRECISIONS = {"marks": 0.8, "proposes": 0.6, "conflicts": 0.75}
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Pair of notes of *hand* ("" for a topic): its features, and whether the newer one *replaces* the older."""

    hand: str
    older: Claim
    newer: Claim
    older_by_vector: Claim
    newer_by_vector: Claim
    near: float
    replaces: bool

    def values(self, *, by_meaning: bool) -> list[float]:
        """Return the features, those of the vector only with *by_meaning*."""
        older, newer = (self.older, self.newer) if not by_meaning else (self.older_by_vector, self.newer_by_vector)
        return [*pair_features(older, newer, self.near if by_meaning else None).values(), 1.0]


def train_judge(say: Callable[[str], None]) -> None:
    """Fit the judge with vectors and by words alone, and write it with its bounds; report on hands left out."""
    pairs = [pair for pair in (*_of_hands(), *_of_topics(), *_plain()) if may_replace(pair)]
    fitted: dict[str, dict[str, float]] = {}
    for kind in ("vectors", "words"):
        values = np.array([pair.values(by_meaning=kind == "vectors") for pair in pairs])
        labels, hands = np.array([pair.replaces for pair in pairs]), np.array([pair.hand for pair in pairs])
        shares = np.zeros(len(pairs))
        for hand in sorted(set(hands.tolist()) - {""}):
            others = hands != hand
            weights = fit_logistic(values[others], labels[others], _DECAY * others.sum())
            shares[~others] = _shares(values[~others], weights)
        judged = hands != ""
        chosen = {
            name: _bound(shares[judged], labels[judged], precision, name, kind, say)
            for name, precision in _PRECISIONS.items()
        }
        weights = fit_logistic(values, labels, _DECAY * len(labels))
        fitted[kind] = dict(zip((*PAIR_FEATURES, "bias"), (round(float(w), 3) for w in weights), strict=True))
        fitted[f"{kind} bounds"] = chosen
    JUDGE.write_text(json.dumps(fitted, indent=1) + "\n", "utf-8")


def may_replace(pair: Pair) -> bool:
    """Return whether the judge weighs *pair* at all: about one person, and both say something."""
    people = {claim.subject for claim in (pair.older, pair.newer)}
    return len(people - {None}) < 2 and bool(pair.older.terms) and bool(pair.newer.terms)


def _bound(
    shares: Floats, labels: NDArray[np.bool_], precision: float, name: str, kind: str, say: Callable[[str], None]
) -> float:
    """Return the lowest probability from which *precision* of the pairs are changes."""
    order = np.argsort(-shares, kind="stable")
    right = np.cumsum(labels[order]) / np.arange(1, len(order) + 1)
    reached = np.flatnonzero((right >= precision) & (np.arange(len(order)) >= 19))
    last = int(reached[-1]) if len(reached) else 0
    bound = float(shares[order[last]]) if len(reached) else 1.0
    found = labels[shares >= bound]
    say(f"{kind}, {name}: from {bound:.3f}, {found.mean():.2f} right of {len(found)}, {found.sum()} of {labels.sum()}")
    return round(bound, 3)


def _of_hands() -> Iterator[Pair]:
    for hand in open_hands():
        for lines in (True, False):
            yield from _of_hand(hand, lines=lines)


def _of_hand(hand: Hand, *, lines: bool) -> Iterator[Pair]:
    notes = items(hand)
    claims, vectors = _claims([note.text for note in notes], [note.about if lines else "" for note in notes])
    times = [int(datetime.fromisoformat(note.at).timestamp() * 1e6) for note in notes]
    claims = [replace(claim, time=time) for claim, time in zip(claims, times, strict=True)]
    values: dict[str, list[tuple[str, int]]] = {}
    for fact in hand.facts:
        for number, value in enumerate(fact["values"]):
            for id in value["notes"]:
                values.setdefault(id, []).append((fact["fact"], number))
    nearness, told = vectors @ vectors.T, [claim.by_vector(v) for claim, v in zip(claims, vectors, strict=True)]
    for newer, note in enumerate(notes):
        own = dict(values.get(note.id, []))
        near = set(np.argsort(-nearness[newer, :newer])[:_NEAREST].tolist())
        for older in range(newer):
            theirs = dict(values.get(notes[older].id, []))
            common = own.keys() & theirs.keys()
            if older in near or common or not claims[older].topics.isdisjoint(claims[newer].topics):
                changed = any(own[fact] > theirs[fact] for fact in common)
                cosine = float(nearness[older, newer])
                yield Pair(hand.name, claims[older], claims[newer], told[older], told[newer], cosine, changed)


def _plain() -> Iterator[Pair]:
    """Yield pairs of plain sentences, as few people type them and many try out; counted several times."""
    rows = [json.loads(line) for line in PLAIN.read_text("utf-8").splitlines()]
    texts = [text for row in rows for text in (row["older"], row["newer"])]
    claims, vectors = _claims(texts, [""] * len(texts))
    for place, row in enumerate(rows):
        older, newer = claims[2 * place], replace(claims[2 * place + 1], time=_MONTH)
        own, other = vectors[2 * place], vectors[2 * place + 1]
        pair = Pair("", older, newer, older.by_vector(own), newer.by_vector(other), float(own @ other), row["replaces"])
        yield from [pair] * _PLAIN_COUNT


def _of_topics() -> Iterator[Pair]:
    for path in sorted(path for path in TOPICS.glob("*.jsonl") if path.stem not in BY_VECTORS_ALONE):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        texts, abouts = [], []
        for row in rows:
            texts += [row["told"], row["changed"], row["near"][0]["text"]]
            abouts += [row["about"], row["about"], row["near"][0].get("about", "")]
        claims, vectors = _claims(texts, abouts)
        for place in range(0, len(claims), 3):
            of_topic = [replace(claim, time=_MONTH * 2 * i) for i, claim in enumerate(claims[place : place + 3])]
            told = [claim.by_vector(vectors[place + i]) for i, claim in enumerate(of_topic)]
            for i in (1, 2):
                near = float(vectors[place + i] @ vectors[place])
                yield Pair("", of_topic[0], of_topic[i], told[0], told[i], near, i == 1)


def _claims(texts: Sequence[str], abouts: Sequence[str]) -> tuple[list[Claim], NDArray[np.float32]]:
    """Return *texts* with their lines as claims, and their vectors as a memory stores them."""
    both = [f"{about}: {text}" if about else text for text, about in zip(texts, abouts, strict=True)]
    encoder, analyzer = E5Encoder(), Analyzer()
    sums = np.array(run_sync(encoder.embed(both)))
    sums += np.array(run_sync(encoder.embed([about or text for text, about in zip(texts, abouts, strict=True)])))
    vectors = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
    analyses = [analyze_text(text) for text in texts]
    claims = [
        Claim.of_traits(
            analyzer.terms(text),
            analysis.traits,
            analysis.subject,
            frozenset(part.strip() for part in about.casefold().split(";") if part.strip()),
        )
        for text, about, analysis in zip(texts, abouts, analyses, strict=True)
    ]
    return claims, vectors


def fit_logistic(values: Floats, labels: NDArray[Any], decay: float, counts: Floats | float = 1.0) -> Floats:
    """Return the weights of the logistic regression of *labels* on *values*, by Newton's method.

    Each row counts *counts* times; *decay* is the weight of the squares of the weights.
    """
    weights = np.zeros(values.shape[1])
    for _ in range(30):
        shares = _shares(values, weights)
        slope = values.T @ (counts * (labels - shares)) - decay * weights
        curve = (values * (counts * shares * (1 - shares))[:, None]).T @ values + decay * np.eye(len(weights))
        weights = weights + np.linalg.solve(curve, slope)
    return weights


def _shares(values: Floats, weights: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-values @ weights)))
