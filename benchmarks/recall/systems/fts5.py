"""SQLite's full text search as its manual advises for questions: porter stems, words joined by OR, stop words out."""

from __future__ import annotations

import re
from pathlib import Path

import apsw

from benchmarks.recall.system import Answered, Options, line_of, question_of
from benchmarks.recall.systems.stop_words import telling
from benchmarks.recall.task import Asked, Corpus

_WORD = re.compile(r"\w+")


class Fts5:
    def __init__(self, folder: Path, options: Options) -> None:
        self._connection = apsw.Connection(str(folder / "text.db"))
        self._connection.execute(
            "CREATE VIRTUAL TABLE lines USING fts5(id UNINDEXED, line, tokenize='porter unicode61')"
        )

    def fill(self, corpus: Corpus) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT INTO lines VALUES (?, ?)", ((item.id, line_of(item)) for item in corpus.items)
            )

    def ask(self, asked: Asked, k: int) -> Answered:
        words = telling(_WORD.findall(question_of(asked).lower()))
        if not words:
            return Answered(())
        wanted = " OR ".join(f'"{word}"' for word in words)
        found = self._connection.execute(
            "SELECT id, -rank FROM lines WHERE lines MATCH ? ORDER BY rank, rowid LIMIT ?", (wanted, k)
        )
        return Answered(tuple((str(id), float(score)) for id, score in found))

    def close(self) -> None:
        self._connection.close()
