"""The parent's side of a peer: a process of its environment, a JSON line in and a JSON line out."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any, ClassVar

from benchmarks.recall.peers.environment import python_with
from benchmarks.recall.system import Answered, NotAvailable, Options, line_of, question_of
from benchmarks.recall.task import Asked, Corpus

_PATIENCE = 600.0
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1"}


class Peer:
    """A system whose *package* (with its version) is installed apart and whose *script* stands in ``scripts``.

    It is given what the baselines are: date, speaker and text in a line.
    """

    package: ClassVar[str]
    script: ClassVar[str]

    def __init__(self, folder: Path, options: Options) -> None:
        words = [str(python_with(self.package)), str(Path(__file__).parent / "scripts" / self.script), str(folder)]
        self._told = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            words,
            env={**os.environ, **_OFFLINE, "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )
        try:
            self._answer()
        except RuntimeError as error:
            self.close()
            raise NotAvailable(str(error)) from error
        except BaseException:
            self.close()
            raise

    def fill(self, corpus: Corpus) -> None:
        self._say({"fill": [[item.id, line_of(item)] for item in corpus.items]})

    def ask(self, asked: Asked, k: int) -> Answered:
        hits = self._say({"ask": question_of(asked), "k": k})["hits"]
        return Answered(tuple((str(id), float(score)) for id, score in hits))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._told.close()

    def _say(self, words: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        limit = Timer(_PATIENCE, self._process.kill)
        limit.start()
        line = self._process.stdout.readline()
        limit.cancel()
        if not line:
            self._told.seek(0)
            last = self._told.read().strip().splitlines()[-1:] or ["without a word"]
            raise RuntimeError(f"its process ended: {last[0][:300]}")
        answer: dict[str, Any] = json.loads(line)
        if "unavailable" in answer:
            raise NotAvailable(str(answer["unavailable"]))
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer
