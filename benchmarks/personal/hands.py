"""Hands: lives of invented people, one writer each, and the questions of askers who never read what was written.

``data/hands/README.md`` says who wrote what, and which rules hold. ``python -m benchmarks hands`` checks the open ones.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from Stemmer import Stemmer

from benchmarks.memory.protocol import Item

DATA = Path(__file__).parent / "data"
HANDS = DATA / "hands"
UNANSWERABLE = ("far", "near")
_LANGUAGES = {
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "nl": "dutch",
    "pt": "portuguese",
    "it": "italian",
}
_WORD = re.compile(r"[^\W\d_]{4,}")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hand:
    """Life by one writer: what was typed, what it says, stories through several doors, questions and near misses."""

    name: str
    notes: Sequence[Row]
    facts: Sequence[Row]
    stories: Sequence[Row]
    questions: Sequence[Row] = ()
    adversary: Sequence[Row] = ()
    lines: Sequence[Row] = ()

    def gold(self, question: Row) -> frozenset[str]:
        """Return the ids of the notes that answer *question*; empty for one that nothing answers."""
        return frozenset(id for value in self._values(question) for id in value["notes"])

    def stale(self, question: Row) -> frozenset[str]:
        """Return the ids of notes that once answered *question*, asked for what holds now, and answer it no more."""
        if question.get("kind") != "now" or not (fact := self._fact(question.get("fact"))):
            return frozenset()
        return frozenset(id for value in fact["values"][:-1] for id in value["notes"]) - self.gold(question)

    def answers(self, question: Row) -> tuple[str, ...]:
        """Return what answers *question*, in English; empty for one that nothing answers."""
        return tuple(value["value"] for value in self._values(question))

    def _values(self, question: Row) -> Iterator[Row]:
        if question["kind"] in UNANSWERABLE:
            return
        for name in question.get("facts") or [question["fact"]]:
            values = (self._fact(name) or {"values": []})["values"]
            place = question.get("value", "last")
            yield from (
                values if place == "all" else values[-1:] if place == "last" else values[int(place) : int(place) + 1]
            )

    def _fact(self, name: str | None) -> Row | None:
        return next((fact for fact in self.facts if fact["fact"] == name), None)


def items(hand: Hand, prefix: str = "") -> list[Item]:
    """Return what was typed, near misses included, in the order of their times, each with its recorded line."""
    about = {row["id"]: row["about"] for row in hand.lines}
    rows = sorted([*hand.notes, *hand.adversary], key=lambda row: (row["at"], row["id"]))
    return [
        Item(
            prefix + row["id"],
            row["text"],
            session=row["at"][:10],
            at=f"{row['at']}+00:00",
            about=about.get(row["id"], ""),
        )
        for row in rows
    ]


def read_hand(folder: Path) -> Hand:
    """Return the hand of *folder*; parts that are not written yet are empty."""

    def rows(part: str) -> tuple[Row, ...]:
        path = folder / f"{part}.jsonl"
        return tuple(map(json.loads, path.read_text("utf-8").splitlines())) if path.exists() else ()

    return Hand(folder.name, *(rows(part) for part in ("notes", "facts", "stories", "questions", "adversary", "lines")))


def open_hands() -> list[Hand]:
    """Return the hands that settings may be chosen on; the sealed ones are read by nothing here."""
    return [read_hand(path) for path in sorted(HANDS.iterdir()) if path.is_dir()]


def problems(hand: Hand) -> Iterator[str]:
    """Yield what is wrong with the ids, dates and references of *hand*."""
    notes, facts = {note["id"] for note in hand.notes}, {fact["fact"] for fact in hand.facts}
    for part in (hand.notes, hand.facts, hand.stories, hand.questions, hand.adversary):
        names = Counter(str(row.get("id") or row.get("fact") or row.get("story")) for row in part)
        yield from (f"{name} stands {count} times" for name, count in names.items() if count > 1)
    times = [datetime.fromisoformat(note["at"]) for note in hand.notes]
    yield from (
        f"{hand.notes[place]['id']} is out of order"
        for place in range(1, len(times))
        if times[place] < times[place - 1]
    )
    for note in hand.notes:
        if note.get("changes") and note["changes"] not in notes:
            yield f"{note['id']} changes {note['changes']}, which there is not"
    for fact in hand.facts:
        yield from (
            f"{fact['fact']} names {id}" for value in fact["values"] for id in value["notes"] if id not in notes
        )
    for question in hand.questions:
        named = question.get("facts") or [question.get("fact")]
        if question["kind"] in UNANSWERABLE:
            continue
        if unknown := [name for name in named if name not in facts]:
            yield f"{question['id']} asks for {unknown}"
        elif not hand.gold(question):
            yield f"{question['id']} has no answer at {question.get('value')!r}"
        elif question["kind"] == "now" and date.fromisoformat(question["at"][:10]) < max(
            date.fromisoformat(value["from"][:10]) for value in hand._values(question)
        ):
            yield f"{question['id']} is asked before its answer was told"


def shares_no_stem(hand: Hand, question: Row) -> bool:
    """Return whether *question* and the notes that answer it have no stem of four letters or more in common."""
    gold = hand.gold(question)
    languages = {*str(question.get("lang", "en")).split("+")[:1], *_LANGUAGES} & set(_LANGUAGES)
    texts = " ".join(note["text"] for note in hand.notes if note["id"] in gold)
    return all(_stems(question["text"], one).isdisjoint(_stems(texts, one)) for one in languages)


def _stems(text: str, language: str) -> frozenset[str]:
    return frozenset(_stemmer(language).stemWords(_WORD.findall(text.casefold())))


@cache
def _stemmer(language: str) -> Stemmer:
    return Stemmer(_LANGUAGES[language])
