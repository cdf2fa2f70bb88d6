"""The command line in process: what a command prints and its exit code, on a memory file of its own."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.memory import Message, open_memory, run_sync


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class CommandLine:
    """Runs commands on the memory file *path*; ``text`` is standard input."""

    def __init__(self, path: Path | str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self._capsys, self._monkeypatch = path, capsys, monkeypatch

    def __call__(self, *arguments: object, text: str | bytes = "", terminal: bool = False) -> SimpleNamespace:
        """Run a command; with *terminal*, standard input is treated as a terminal without line editing."""
        data = text if isinstance(text, bytes) else text.encode()
        stdin = _Terminal if terminal else io.TextIOWrapper
        self._monkeypatch.setattr(sys, "stdin", stdin(io.BytesIO(data), encoding="utf-8"))
        code = run_command_line(["--memory", str(self.path), *map(str, arguments)])
        captured = self._capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    def json(self, *arguments: object, text: str = "") -> dict[str, Any]:
        """Run a command that must succeed, and return the JSON object that it prints."""
        done = self(*arguments, "--json", text=text)
        assert (done.code, done.err) == (0, "")
        (line,) = done.out.splitlines()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def remember_turn(self, session: str, *messages: Message, namespace: str = "") -> None:
        """Store a turn in the memory file without a command."""
        memory = open_memory(self.path)
        run_sync(memory.remember_turn(session, messages, namespace=namespace))
        run_sync(memory.close())
