"""Command ``python -m benchmarks train``: fit what recall learned: encoder, heads, weights, judge, confidence.

The *encoder*'s matrix is fitted to topics that several writers invented; the others are in modules of their own.

``data/topics`` has, by writer, topics with notes about them (told, changed, again), near misses and questions. The head
is one matrix and two offsets: vectors of notes and of questions about one topic come to lie beside each other, apart
from near misses (InfoNCE, van den Oord et al. 2018, arXiv 1807.03748, with several right notes a question). No text of
the hands is among them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.personal.train_confidence import train_confidence
from benchmarks.personal.train_heads import TOPICS, train_heads
from benchmarks.personal.train_judge import train_judge
from benchmarks.personal.train_weights import train_weights
from tellback.memory import E5Encoder, run_sync
from tellback.memory.embedders.e5_head import E5Head

_STEPS, _RATE = 100, 1e-3
_TEMPERATURE = 0.1
_DECAY = 1e-2
"""Weight of the squares of the matrix's difference from doing nothing."""
_QUESTIONS, _OTHERS = 256, 0.3
"""Questions of a step, and the share of all other notes that they are told apart from."""

_FOLDS = 5
_PARTS = ("encoder", "heads", "weights", "judge", "confidence")
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TopicVectors:
    """Vectors of *notes* and *questions* as the network gives them, with the topic and the writer of each.

    *is_near* marks notes that only look as if they were about their topic.
    """

    notes: Floats
    questions: Floats
    topic_of_note: NDArray[np.int64]
    topic_of_question: NDArray[np.int64]
    is_near: NDArray[np.bool_]
    writer_of_topic: NDArray[np.int64]

    def of_topics(self, kept: NDArray[np.bool_]) -> TopicVectors:
        """Return the vectors of the topics that are *kept*."""
        notes, questions = kept[self.topic_of_note], kept[self.topic_of_question]
        return TopicVectors(
            self.notes[notes],
            self.questions[questions],
            self.topic_of_note[notes],
            self.topic_of_question[questions],
            self.is_near[notes],
            self.writer_of_topic,
        )


def read_topics() -> TopicVectors:
    """Return the vectors of all topics; encoding them takes some minutes."""
    notes, questions, writers = [], [], []
    for writer, path in enumerate(sorted(TOPICS.glob("*.jsonl"))):
        for topic in map(json.loads, path.read_text("utf-8").splitlines()):
            number = len(writers)
            writers.append(writer)
            notes += [(topic[name], number, False) for name in ("told", "changed", "again")]
            notes += [(near["text"], number, True) for near in topic["near"]]
            questions += [(question["text"], number) for question in topic["questions"]]
    encoder = E5Encoder(head=None)
    return TopicVectors(
        run_sync(encoder.embed([text for text, _, _ in notes])),
        run_sync(encoder.embed([text for text, _ in questions], "query")),
        np.array([number for _, number, _ in notes]),
        np.array([number for _, number in questions]),
        np.array([near for _, _, near in notes]),
        np.array(writers),
    )


def fit(topics: TopicVectors, *, seed: int = 0) -> E5Head:
    """Return the head that fits *topics*, by Adam (Kingma and Ba 2015, arXiv 1412.6980), from centring alone."""
    random, size = np.random.default_rng(seed), topics.notes.shape[1]
    offsets = {"document": -topics.notes.mean(axis=0), "query": -topics.questions.mean(axis=0)}
    values = [np.eye(size, dtype=np.float32), offsets["document"], offsets["query"]]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))
    right = (topics.topic_of_question[:, None] == topics.topic_of_note) & ~topics.is_near
    for step in range(1, _STEPS + 1):
        asked = random.permutation(len(topics.questions))[:_QUESTIONS]
        told = np.flatnonzero(right[asked].any(axis=0) | (random.random(len(topics.notes)) < _OTHERS))
        slopes = _slopes(values, topics.notes[told], topics.questions[asked], right[np.ix_(asked, told)])
        for place, slope in enumerate(slopes):
            first[place] = 0.9 * first[place] + 0.1 * slope
            second[place] = 0.999 * second[place] + 0.001 * slope * slope
            scaled = first[place] / (1 - 0.9**step)
            values[place] = values[place] - _RATE * scaled / (np.sqrt(second[place] / (1 - 0.999**step)) + 1e-8)
    return E5Head(values[0], values[1], values[2])


def _slopes(values: Sequence[Floats], notes: Floats, questions: Floats, right: NDArray[np.bool_]) -> Iterator[Floats]:
    """Yield the slope of the loss by each of *values*: the matrix, the offset of notes, that of questions."""
    matrix, of_notes, of_questions = values
    moved_notes, moved_questions = notes + of_notes, questions + of_questions
    raw_notes, raw_questions = moved_notes @ matrix, moved_questions @ matrix
    long_notes = np.linalg.norm(raw_notes, axis=1, keepdims=True)
    long_questions = np.linalg.norm(raw_questions, axis=1, keepdims=True)
    unit_notes, unit_questions = raw_notes / long_notes, raw_questions / long_questions
    scores = unit_questions @ unit_notes.T / _TEMPERATURE
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    among_right = shares * right
    slope = shares / shares.sum(axis=1, keepdims=True) - among_right / among_right.sum(axis=1, keepdims=True)
    slope /= _TEMPERATURE * len(questions)
    on_notes, on_questions = slope.T @ unit_questions, slope @ unit_notes
    on_notes = (on_notes - unit_notes * (on_notes * unit_notes).sum(axis=1, keepdims=True)) / long_notes
    on_questions = (
        on_questions - unit_questions * (on_questions * unit_questions).sum(axis=1, keepdims=True)
    ) / long_questions
    unmoved = np.eye(len(matrix), dtype=np.float32)
    yield moved_notes.T @ on_notes + moved_questions.T @ on_questions + 2 * _DECAY * (matrix - unmoved)
    yield (on_notes @ matrix.T).sum(axis=0)
    yield (on_questions @ matrix.T).sum(axis=0)


def found(topics: TopicVectors, head: E5Head | None) -> tuple[float, float]:
    """Return the shares of questions whose right note is first, and among three, of all notes of *topics*."""
    notes, questions = topics.notes, topics.questions
    if head is not None:
        notes, questions = head.apply(notes, "document"), head.apply(questions, "query")
    best = np.argsort(-(questions @ notes.T), axis=1)[:, :3]
    is_right = (topics.topic_of_note[best] == topics.topic_of_question[:, None]) & ~topics.is_near[best]
    return float(is_right[:, 0].mean()), float(is_right.any(axis=1).mean())


def add_command(commands: Any) -> None:
    """Add ``train`` to the commands."""
    command = commands.add_parser("train", help=f"fit what recall learned: {', '.join(_PARTS)}")
    command.add_argument("parts", nargs="*", choices=(*_PARTS, []), help="all, if none is named")
    command.set_defaults(run=_run)


def _run(given: argparse.Namespace, asked: list[str], say: Callable[[str], None]) -> int:
    for name, train in zip(
        _PARTS, (train_encoder, train_heads, train_weights, train_judge, train_confidence), strict=True
    ):
        if not given.parts or name in given.parts:
            train(print)
    return 0


def train_encoder(say: Callable[[str], None]) -> None:
    """Fit the head of the E5 encoder and write it; report on a fifth of the writers, left out, at a time."""
    topics = read_topics()
    for fold in range(_FOLDS):
        own = topics.writer_of_topic % _FOLDS == fold
        rest, left_out = topics.of_topics(~own), topics.of_topics(own)
        bare, fitted = found(left_out, None), found(left_out, fit(rest))
        say(f"fifth {fold} left out: first {bare[0]:.3f} -> {fitted[0]:.3f}, three {bare[1]:.3f} -> {fitted[1]:.3f}")
    fit(topics).save()
    say(f"{len(topics.writer_of_topic)} topics, {len(topics.notes)} notes, {len(topics.questions)} questions")
