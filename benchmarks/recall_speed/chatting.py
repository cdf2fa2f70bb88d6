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
_PATIENCE = 30.0
"""Seconds after which a chat that shows nothing is given up."""


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
            _read_until(ours, _PROMPT)
            seconds, cpu = perf_counter() - start, _cpu_seconds(process.pid)
            answers = []
            for _ in range(questions):
                asked = perf_counter()
                os.write(ours, f"{_ASKED}\r".encode())
                _read_until(ours, _ANSWERED)
                answers.append(perf_counter() - asked)
                _read_until(ours, _PROMPT)
            os.write(ours, b"\x04")
            _read_until(ours, None)
        finally:
            process.kill()
            os.close(ours)
    return seconds, seconds if cpu is None else cpu, answers


def _read_until(descriptor: int, words: re.Pattern[bytes] | None) -> None:
    """Read what is shown until *words* come, or to the end; ``RuntimeError`` where nothing comes any more."""
    shown = b""
    while words is None or not words.search(shown):
        ready, _, _ = select.select([descriptor], [], [], _PATIENCE)
        if not ready:
            raise RuntimeError(f"chat: {words and words.pattern!r} did not come; it showed {shown[-200:]!r}")
        try:
            read = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            read = b""
        if not read and words is not None:
            raise RuntimeError(f"chat: it ended with {shown[-200:]!r}")
        if not read:
            return
        shown += read


def _cpu_seconds(process: int) -> float | None:
    """Return the CPU time of a running *process*; None where the system does not tell it so."""
    if sys.platform != "linux":
        return None
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
