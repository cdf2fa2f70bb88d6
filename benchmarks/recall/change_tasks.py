"""Task of statements that change: the newer one answers about now, the older one about then."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.recall.locomo_tasks import item_of
from benchmarks.recall.task import Asked, Corpus, Task
from benchmarks.updates import updates

NOW, THEN = "asked for now", "asked for as it was then"


def change_tasks() -> list[Task]:
    """Return the task; each case is a memory of its own."""
    return [Task("changed", "changed statements, asked for now", "generated", "statement", _cases, headline=(NOW,))]


def _cases() -> Iterator[Corpus]:
    for position, case in enumerate(updates()):
        now = Asked(f"case{position}/now", case.question, NOW, {case.newer: 1})
        then = Asked(f"case{position}/then", case.question, THEN, {case.older: 1}, as_of=case.then)
        yield Corpus(f"case{position}", tuple(item_of(turn) for turn in case.turns), (now, then))
