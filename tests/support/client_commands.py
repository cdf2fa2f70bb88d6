"""Doubles of coding clients' commands: real programs on PATH that answer as ``claude -p`` and its like do.

Each writes how it was called into ``calls.jsonl`` beside it. The shapes are those that Claude Code 2.1.197, Codex 0.169
and Gemini CLI 0.61 printed when they were run against servers on this machine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """#!{python}
import json, os, re, sys
words = sys.stdin.read()
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "calls.jsonl"), "a") as calls:
    call = {{"arguments": sys.argv[1:], "words": words, "folder": os.getcwd(), "environment": dict(os.environ)}}
    calls.write(json.dumps(call) + "\\n")
if {fails!r}:
    print("the words were: " + words, file=sys.stderr)
    sys.exit(1)
if {hangs!r}:
    import time
    time.sleep(600)
texts = re.findall(r"^(\\d+) \\(.*?\\): (.*)$", words, re.M)
lines = {lines!r}
answer = json.dumps({{"lines": [{{"n": int(n), "about": lines.get(text, "about " + text[:20])}} for n, text in texts]}})
name = os.path.basename(__file__)
if name == "claude":
    usage = {{"input_tokens": 300, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 1, "output_tokens": 9}}
    print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": answer, "usage": usage}}))
elif name == "codex":
    print(json.dumps({{"type": "thread.started", "thread_id": "t"}}))
    print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": answer}}}}))
    print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 321, "output_tokens": 9}}}}))
else:
    models = {{"gemini-x": {{"tokens": {{"prompt": 321, "candidates": 9, "total": 330}}}}}}
    print(json.dumps({{"session_id": "s", "response": answer, "stats": {{"models": models}}}}))
"""


class ClientDouble:
    """Program *name* in *folder*, which is put first on PATH. It answers with *lines* by text."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.folder, self.name = folder, name
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.write()

    def write(self, lines: dict[str, str] | None = None, *, fails: bool = False, hangs: bool = False) -> None:
        """Write the program: it answers with *lines*, *fails* or *hangs*."""
        path = self.folder / self.name
        path.write_text(_PROGRAM.format(python=sys.executable, lines=lines or {}, fails=fails, hangs=hangs), "utf-8")
        path.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Calls so far: arguments, words, folder and environment of each."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
