"""Cases of personal memory: statements of one person, and questions about now, then and others.

The texts lie in ``data/``; the notes of another person can be read from a folder. Questions are dealt in turn, kind by
kind, into two halves: settings are chosen on one and reported on the other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from tellback.memory import Memory
from tellback.memory.internals import UtteranceKind

Half = Literal["choose", "report"]
HALVES: tuple[Half, Half] = ("choose", "report")
DATA = Path(__file__).parent / "data"
STATEMENTS = "fQC"
"""Labels of chat lines that state something: a fact, a question and a command with content."""

LABELS: Mapping[str, str] = {
    UtteranceKind.STATEMENT: "f",
    UtteranceKind.STATING_QUESTION: "Q",
    UtteranceKind.STATING_COMMAND: "C",
    UtteranceKind.QUESTION: "q",
    UtteranceKind.COMMAND: "c",
    UtteranceKind.SMALL_TALK: "s",
    UtteranceKind.REPETITION: "r",
}
"""Labels of chat lines by the kind of the utterance."""


@dataclass(frozen=True, slots=True)
class Question:
    """Question of one *kind* with the ids that answer it (*gold*).

    *stale*: ids that were true once, or, where nothing answers, ids about another person.
    """

    id: str
    text: str
    kind: str
    gold: frozenset[str]
    stale: frozenset[str]
    half: Half


@dataclass(frozen=True, slots=True)
class Case:
    """One memory of the *set*, asked at *now*. *labels* names the label of each item of a chat."""

    set: str
    name: str
    items: tuple[Memory, ...]
    questions: tuple[Question, ...]
    now: datetime
    labels: Mapping[str, str] = field(default_factory=dict)


def cases_of(sets: Iterable[str], data: Path | None) -> Iterator[Case]:
    """Yield the cases of *sets*; ``notes`` is read from the folder *data*. Raises ``ValueError`` for another name."""
    for name in sets:
        if name == "notes":
            if data is None:
                raise ValueError("the set notes lies in a folder: --data (or TELLBACK_BENCH_DATA) names it")
            yield _notes_of_folder(data)
        elif name in MADE:
            yield from MADE[name]()
        else:
            raise ValueError(f"no set {name}; known are notes, {', '.join(MADE)}")


def _notes_of_folder(data: Path) -> Case:
    read = json.loads((data / "notes" / "notes.json").read_text("utf-8"))
    items = tuple(_note(note["id"], note["date"], note["text"]) for note in read["notes"])
    questions = [
        (question["kind"], question["question"], frozenset(question["gold"]), frozenset(question["stale"]))
        for question in read["questions"]
    ]
    return Case("notes", "notes", items, tuple(_halved("notes", questions)), _after(items))


def _own_notes() -> Iterator[Case]:
    items = tuple(_note(*line) for line in _fields("notes.txt"))
    questions = []
    for kind, text, gold, stale in _fields("questions.txt", most=4):
        questions.append((kind, text, frozenset(gold.split()), frozenset(stale.split())))
    yield Case("own-notes", "own-notes", items, tuple(_halved("own-notes", questions)), _after(items))


def _stories() -> Iterator[Case]:
    """Yield a case a story; a story's questions are of one half, so that no story is in both."""
    for number, block in enumerate((DATA / "stories.txt").read_text("utf-8").split("\n= ")[1:]):
        name, *lines = block.strip().splitlines()
        half = HALVES[number % 2]
        items, fact, change, questions = [], "", "", []
        for line in lines:
            label, text = line.split(" ", 1)
            if label in ("now", "then"):
                changed = bool(change)
                gold, stale = (change, fact) if changed and label == "now" else (fact, change)
                kind = label if changed else f"unchanged, {label}"
                ids = frozenset({gold}), frozenset({stale} - {""})
                questions.append(Question(f"{number}/{label}", text, kind, *ids, half))
                continue
            date, statement = text.split(" ", 1)
            id = f"{number}.{len(items)}"
            items.append(_note(id, date, statement))
            fact, change = (id if label == "F" else fact), (id if label == "C" else change)
        yield Case("stories", name, tuple(items), tuple(questions), _after(items))


def _chat() -> Iterator[Case]:
    items, labels, questions, date = [], {}, [], ""
    for line in _lines("chat.txt"):
        label, text = line.split(" ", 1)
        if label == "@":
            date, count = text, 0
        elif label == "?":
            asked, gold = text.split(" | ")
            questions.append(("chat", asked, frozenset(gold.split()), frozenset[str]()))
        else:
            count += 1
            id = f"{int(date[-2:])}.{count}"
            labels[id] = label
            said_at = datetime.fromisoformat(date).replace(hour=8, tzinfo=UTC) + timedelta(minutes=7 * count)
            items.append(
                Memory(text, id=id, kind="turn", role="user", session=date, sequence=count, occurred_at=said_at)
            )
    yield Case("chat", "chat", tuple(items), tuple(_halved("chat", questions)), _after(items), labels)


MADE = {"own-notes": _own_notes, "stories": _stories, "chat": _chat}


def _halved(name: str, questions: Iterable[tuple[str, str, frozenset[str], frozenset[str]]]) -> Iterator[Question]:
    dealt: dict[str, int] = defaultdict(int)
    for number, (kind, text, gold, stale) in enumerate(questions):
        yield Question(f"{name}/{number}", text, kind, gold, stale, HALVES[dealt[kind] % 2])
        dealt[kind] += 1


def _note(id: str, date: str, text: str) -> Memory:
    return Memory(text, id=id, occurred_at=datetime.fromisoformat(date).replace(hour=12, tzinfo=UTC))


def _after(items: Iterable[Memory]) -> datetime:
    """Return the moment of asking: two weeks after the last statement."""
    return max(item.occurred_at for item in items if item.occurred_at is not None) + timedelta(days=14)


def _lines(file: str) -> list[str]:
    lines = (DATA / file).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _fields(file: str, most: int = 3) -> Iterator[list[str]]:
    for line in _lines(file):
        fields = [text.strip() for text in line.split("|")]
        yield fields + [""] * (most - len(fields))
