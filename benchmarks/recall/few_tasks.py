"""Tasks of small memories: too few statements for statistics of words, asked in their own and in other words."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from benchmarks.recall.task import Asked, Corpus, Status, Task
from benchmarks.told import ELSE, TOLD, UNSEEN, Told
from tellback.memory import Memory

OWN, OTHER = "in its own words", "in other words"
ABSENT, OFF_TOPIC = "about what was not told", "about something else"
SIZES = (1, 3, 10, 20)
_ASKED = 60
"""Approximate number of questions of each kind for each size."""
_MOST = 5
"""Limit of questions of each kind to one memory."""


def few_tasks() -> list[Task]:
    """Return one task a size and set; each memory is asked for what it holds and for what it does not."""
    sets: tuple[tuple[str, Sequence[Told], Status], ...] = (("", TOLD, "tuned on"), ("unseen-", UNSEEN, "unseen"))
    return [_task(f"few-{name}{size}", given, status, size) for name, given, status in sets for size in SIZES]


def _task(key: str, told: Sequence[Told], status: Status, size: int) -> Task:
    title = f"{size} statements" if size > 1 else "one statement"
    return Task(key, title, status, "statement", lambda: _cases(key, told, size), headline=(OWN, OTHER))


def _cases(key: str, told: Sequence[Told], size: int) -> Iterator[Corpus]:
    rng = random.Random(1)
    count = min(size, _MOST)
    for case in range(_ASKED // count):
        order = rng.sample(range(len(told)), len(told))
        held, absent = order[:size], order[size : size + count]
        items = tuple(Memory(told[position][0], id=f"s{position}") for position in held)
        asked = [
            (told[position][way], group, {f"s{position}": 1})
            for position in held[:count]
            for way, group in ((1, OWN), (2, OTHER))
        ]
        asked += [(told[position][way], ABSENT, {}) for position in absent for way in (1, 2)]
        asked += [(text, OFF_TOPIC, {}) for text in rng.sample(ELSE, count)]
        name = f"{key}-{case}"
        questions = (
            Asked(f"{name}/{position}", text, group, wanted) for position, (text, group, wanted) in enumerate(asked)
        )
        yield Corpus(name, items, tuple(questions))
