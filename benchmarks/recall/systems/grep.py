"""Search for the words of the question in the lines: most words first, the latest line first."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.recall.system import Answered, Options, line_of, question_of
from benchmarks.recall.systems.stop_words import telling
from benchmarks.recall.task import Asked, Corpus

_WORD = re.compile(r"\w+")


class Grep:
    def __init__(self, folder: Path, options: Options) -> None:
        self._lines: list[tuple[str, frozenset[str]]] = []

    def fill(self, corpus: Corpus) -> None:
        self._lines = [(item.id, frozenset(_WORD.findall(line_of(item).lower()))) for item in corpus.items]

    def ask(self, asked: Asked, k: int) -> Answered:
        words = set(telling(_WORD.findall(question_of(asked).lower())))
        counted = [(len(words & held), position) for position, (_, held) in enumerate(self._lines)]
        best = sorted((each for each in counted if each[0]), reverse=True)[:k]
        return Answered(tuple((self._lines[position][0], float(count)) for count, position in best))

    def close(self) -> None:
        self._lines = []
