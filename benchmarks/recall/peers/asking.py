"""Peers in a process of their own environment: a JSON line in and a JSON line out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.child import Child, ChildEnded
from benchmarks.recall.peers.environment import python_with
from benchmarks.recall.system import Answered, NotAvailable, Options, line_of, question_of
from benchmarks.recall.task import Asked, Corpus

_PATIENCE = 600.0
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1"}


class Peer:
    """System whose *package* (with its version) has an environment of its own, run by a *script* in ``scripts``.

    Its items are those of the baselines: date, speaker and text in a line.
    """

    package: ClassVar[str]
    script: ClassVar[str]

    def __init__(self, folder: Path, options: Options) -> None:
        words = [str(python_with(self.package)), str(Path(__file__).parent / "scripts" / self.script), str(folder)]
        self._child = Child(words, environment={**os.environ, **_OFFLINE, "HOME": str(folder)}, patience=_PATIENCE)
        try:
            self._answer()
        except (RuntimeError, NotAvailable) as error:
            self.close()
            raise NotAvailable(str(error)) from error

    def fill(self, corpus: Corpus) -> None:
        self._say({"fill": [[item.id, line_of(item)] for item in corpus.items]})

    def ask(self, asked: Asked, k: int) -> Answered:
        hits = self._say({"ask": question_of(asked), "k": k})["hits"]
        return Answered(tuple((str(id), float(score)) for id, score in hits))

    def close(self) -> None:
        self._child.stop()

    def _say(self, words: dict[str, Any]) -> dict[str, Any]:
        self._child.say(words)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            answer = self._child.answer()
        except ChildEnded as error:
            raise RuntimeError(str(error)) from error
        if "unavailable" in answer:
            raise NotAvailable(str(answer["unavailable"]))
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer
