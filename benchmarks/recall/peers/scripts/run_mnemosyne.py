"""Mnemosyne in its own process: ``Mnemosyne.remember`` and ``recall`` with their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemosyne.core.memory import Mnemosyne
from serving import serve


class Memory:
    def __init__(self, folder: str) -> None:
        self._memory = Mnemosyne(session_id="benchmark", db_path=Path(folder, "mnemosyne.db"))
        self._names: dict[str, str] = {}

    def fill(self, lines: Sequence[tuple[str, str]]) -> None:
        for id, text in lines:
            self._names[self._memory.remember(text, source="conversation")] = id

    def ask(self, question: str, k: int) -> list[tuple[str, float]]:
        found = self._memory.recall(question, top_k=k)
        return [(self._names[hit["id"]], hit["score"]) for hit in found if hit["id"] in self._names]


if __name__ == "__main__":
    serve(Memory)
