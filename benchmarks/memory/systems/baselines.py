"""Baselines that need no index: the whole context, the last items, the evidence itself, chance, silence, and grep."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings

WORD = re.compile(r"\w+")


class Baseline(Adapter):
    """Keeps the items in a list; a subclass ranks them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.items: list[Item] = []

    def reset(self) -> None:
        self.items.clear()

    def ingest(self, items: Sequence[Item]) -> None:
        self.items.extend(items)

    def search(self, question: Question, k: int, tokens: int) -> Found:
        return Found([Hit(item.id, 1 / place) for place, item in enumerate(self.ranked(question, k), 1)])

    def ranked(self, question: Question, k: int) -> Iterator[Item] | Sequence[Item]:
        """Return up to *k* items, best first."""
        raise NotImplementedError


class FullContext(Baseline):
    """Everything, in the order in which it was told; the harness does not cut it."""

    def ranked(self, question: Question, k: int) -> Sequence[Item]:
        return self.items


class LastItems(Baseline):
    """The latest items, whatever is asked, like a window over the conversation."""

    def ranked(self, question: Question, k: int) -> Sequence[Item]:
        return self.items[-k:][::-1]


class Oracle(Baseline):
    """The evidence of the question, by its labels: the best that retrieval can do for a reader."""

    def ranked(self, question: Question, k: int) -> Iterator[Item]:
        gold = self.settings.gold.get(question.id, ())
        return (item for item in self.items if item.id in gold)


class Chance(Baseline):
    """A shuffle for each question, by the seed and the question's id."""

    def ranked(self, question: Question, k: int) -> Sequence[Item]:
        drawn = random.Random(f"{self.settings.seed}/{question.id}")
        return drawn.sample(self.items, min(k, len(self.items)))


class Silence(Baseline):
    """ "I don't know" to every question: a quarter of some data sets is right with it."""

    def search(self, question: Question, k: int, tokens: int) -> Found:
        return Found(abstains=True)


class Grep(Baseline):
    """The items with the most words of the question, the latest first."""

    def ranked(self, question: Question, k: int) -> Sequence[Item]:
        words = set(WORD.findall(question.text.lower()))
        counts = [(len(words & set(WORD.findall(item.line.lower()))), place) for place, item in enumerate(self.items)]
        return [self.items[place] for count, place in sorted(counts, reverse=True)[:k] if count]
