"""A chat on a pseudo-terminal, without a model: how long until it can be typed into, and until an answer is there."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.recall_speed.starting import TELLBACK, Started, imports, in_turns
from benchmarks.stores.asking import PROJECT, environment

IMPORTS = "numpy, pydantic, apsw, typer"
_TOLD = "The spare key is with Mrs Duarte next door."
_ASKED = "Who has our spare key?"
_ANSWERED = re.compile(rb"Mrs Duarte")
_PROMPT = re.compile(rb">(?: |\x08?\x1b\[\d*C)")
"""The editor's prompt: it moves its cursor over a space at the end instead of drawing it."""
_PATIENCE = 300.0
"""Timeout of a chat that shows nothing, in seconds."""


@dataclass(slots=True)
class Chatted:
    """Seconds until the first prompt (with CPU time) in *prompt*, until each answer in *answers*; *imports* beside."""

    prompt: Started = field(default_factory=Started)
    imports: Started = field(default_factory=Started)
    answers: list[float] = field(default_factory=list)


def chats(file: Path, *, rounds: int, questions: int, seed: int) -> Chatted:
    """Begin a chat on the memory *file* once a round, beside the imports, and ask *questions* in it.

    The first round, and the first question of each chat, are not counted. It takes a system with pseudo-terminals.
    """
    given = (*TELLBACK, "--memory", str(file), "remember", _TOLD)
    subprocess.run(given, cwd=PROJECT, env=environment(), stdout=subprocess.DEVNULL, check=True)
    found = Chatted()
    for number in range(rounds + 1):
        beside = in_turns({"imports": imports(IMPORTS)}, rounds=1, seed=seed)["imports"]
        seconds, cpu, answers = _chat(file, questions)
        if number:
            found.prompt.seconds.append(seconds)
            found.prompt.cpu.append(cpu)
            found.imports.seconds += beside.seconds
            found.imports.cpu += beside.cpu
            found.answers += answers[1:]
    return found


def _chat(file: Path, questions: int) -> tuple[float, float, list[float]]:
    """Return the seconds until the prompt, of CPU time too, and of each answer."""
    import pty

    ours, theirs = pty.openpty()
    own = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", "TELLBACK_MODEL": "none", "TELLBACK_NAME": "Ana"}
    start = perf_counter()
    with subprocess.Popen(
        [*TELLBACK, "--memory", str(file), "chat"],
        cwd=PROJECT,
        env={**environment(), **own},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            screen = _Screen(ours)
            screen.read_until(_PROMPT)
            seconds, cpu = perf_counter() - start, _cpu_seconds(process.pid)
            answers = []
            for _ in range(questions):
                asked = perf_counter()
                os.write(ours, f"{_ASKED}\r".encode())
                screen.read_until(_ANSWERED)
                answers.append(perf_counter() - asked)
                screen.read_until(_PROMPT)
            os.write(ours, b"\x04")
            screen.read_to_end()
        finally:
            process.kill()
            os.close(ours)
    return seconds, seconds if cpu is None else cpu, answers


class _Screen:
    """Output of a terminal, read part by part: an answer and the prompt after it may come at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unread = b""

    def read_until(self, words: re.Pattern[bytes]) -> None:
        """Read to the end of *words*; ``RuntimeError`` where nothing comes any more."""
        while not (found := words.search(self._unread)):
            if not self._read():
                raise RuntimeError(f"chat: it ended with {self._unread[-200:]!r}")
        self._unread = self._unread[found.end() :]

    def read_to_end(self) -> None:
        """Read until the other end is closed."""
        while self._read():
            pass

    def _read(self) -> bool:
        """Read what there is; False at the end."""
        if not select.select([self._descriptor], [], [], _PATIENCE)[0]:
            raise RuntimeError(f"chat: nothing more came; it showed {self._unread[-200:]!r}")
        try:
            part = os.read(self._descriptor, 65536)
        except OSError:  # the other end is closed
            return False
        self._unread += part
        return bool(part)


def _cpu_seconds(process: int) -> float | None:
    """Return the CPU time of a running *process*; None where the system does not tell it so."""
    if sys.platform != "linux":
        return None
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
