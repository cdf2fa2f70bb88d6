"""Ours: the open hands, lives of invented people by several writers; CC0, and in the checkout."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.memory.data.dataset import Asked, Corpus, DataSet, hash_of
from benchmarks.memory.protocol import Question
from benchmarks.personal.hands import HANDS, UNANSWERABLE, Hand, Row, items, open_hands, shares_no_stem

_LIMITS = (
    "short notes of one person a life, typed in a hurry, in several languages, asked in other words: no long turns, no "
    "other people's chats, and Tellback's settings were chosen on these eight"
)

_CODING = ("hand-10", "hand-11", "hand-12")


def hands() -> DataSet:
    """Return the hands that anyone may look at; the sealed ones are read by nothing here."""
    lives = [hand for hand in open_hands() if hand.questions]
    files = sorted(file for hand in lives for file in (HANDS / hand.name).glob("*.jsonl"))
    return DataSet("hands", "Hands", [corpus_of(hand) for hand in lives], hash_of(files), _LIMITS)


def corpus_of(hand: Hand) -> Corpus:
    """Return the notes and near misses of *hand*, and the questions about them."""
    return Corpus(hand.name, items(hand, f"{hand.name}/"), [_asked(hand, question) for question in hand.questions])


def _asked(hand: Hand, question: Row) -> Asked:
    answerable = question["kind"] not in UNANSWERABLE
    return Asked(
        Question(f"{hand.name}/{question['id']}", question["text"], f"{question['at']}+00:00"),
        question["kind"],
        {f"{hand.name}/{id}": 1 for id in hand.gold(question)},
        frozenset(f"{hand.name}/{id}" for id in hand.stale(question)),
        "; ".join(hand.answers(question)),
        answerable=answerable,
        groups=tuple(_groups(hand, question)) if answerable else (),
    )


def _groups(hand: Hand, question: Row) -> Iterator[str]:
    if question.get("reworded"):
        yield "reworded"
    if shares_no_stem(hand, question):
        yield "no shared stem"
    if hand.name in _CODING:
        yield "coding"
