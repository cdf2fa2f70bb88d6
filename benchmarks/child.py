"""Child process with a pipe: a JSON line in, a JSON line out, and its last line of stderr where it ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any


class ChildEnded(Exception):
    """The process ended without an answer; the message holds its last line of stderr."""


class Child:
    """A running process; it is killed when an answer takes longer than *patience* seconds."""

    def __init__(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path | None = None, patience: float
    ) -> None:
        self._patience = patience
        self._told = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by stop)
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )

    def say(self, words: Mapping[str, Any]) -> None:
        """Send a line; that the process ended is reported by ``answer``."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # answer() raises then, with the reason
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next line; raise ``ChildEnded`` where there is none any more."""
        assert self._process.stdout is not None
        limit = Timer(self._patience, self._process.kill)
        limit.start()
        line = self._process.stdout.readline()
        limit.cancel()
        if not line:
            self._told.seek(0)
            last = self._told.read().strip().splitlines()[-1:] or ["without a word"]
            raise ChildEnded(f"its process ended: {last[0][:300]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Close the pipe and wait until the process has ended."""
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
