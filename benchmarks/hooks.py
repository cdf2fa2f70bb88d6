"""Round trip of a hook, from outside: ``python -m benchmarks hooks --data DIR [--memories N] [--file MEMORY]``.

The command of a prompt hook runs in turns with a bare Python that imports ``json`` and ``socket``, each in a new
process; each prompt is another question of LoCoMo, on a memory with turns of LoCoMo and vectors of the sentence
encoder. The answer adds what is known, and the prompt is kept. The resident process is started by the first hook, and
ends with the measure; the home is a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import about
from benchmarks.child import PROJECT, environment
from benchmarks.figure import Figure, show, times
from benchmarks.recall_speed.texts import questions

Say = Callable[[str], None]
_BARE = (sys.executable, "-c", "import json, socket")
_BOUND = 4.0
"""Limit of a hook's 95th percentile, in medians of the bare Python."""
_WARM_UP = 10
_QUESTION = "What did Caroline do last summer?"


def add_command(commands: Any) -> None:
    """Put ``hooks`` among the *commands* of the command line."""
    parser = commands.add_parser("hooks", help="round trip of a hook, with a resident process and without")
    add_memory_options(parser, 60)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure and print; return 1 where a hook takes longer than it may."""
    with home_with_memory(given, say) as (tellback, env):
        try:
            seconds, residents = _measured(str(tellback), env, given, say)
        finally:
            subprocess.run([str(tellback), "resident", "stop"], env=env, stdout=subprocess.DEVNULL, check=True)
    figures = [times(name, 0, each) for name, each in seconds.items()]
    ratio = float(np.percentile(seconds["hook"], 95) / np.median(seconds["bare Python"]))
    figures.append(Figure("p95 of a hook, of the median of bare Python", 0, "×", ratio, bound=_BOUND))
    for resident in residents:
        figures.append(Figure(f"resident, after {resident['served']} commands", 0, "MB", resident["bytes"] / 1e6))
    show("Round trip of a hook", "", figures, about.circumstances(words, ["tellback"]))
    return int(ratio > _BOUND)


@contextmanager
def home_with_memory(given: argparse.Namespace, say: Say) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the command ``tellback``, and an environment whose home is temporary and whose memory is filled.

    It has LoCoMo's turns, as many as *given* says, or is a copy of the file that *given* names.
    """
    if given.data is None or not (given.data / "locomo").is_dir():
        raise ValueError(f"no data set locomo in {given.data}: --data (or TELLBACK_BENCH_DATA) names the folder")
    tellback = Path(sys.executable).with_name("tellback")
    if not tellback.exists():
        raise ValueError(f"no command {tellback}: install Tellback in this environment")
    with TemporaryDirectory(prefix="tellback-bench-") as folder:
        home, file = Path(folder), Path(folder) / "memory.db"
        (home / "run").mkdir(0o700)
        own = {name: value for name, value in environment().items() if not name.startswith(("TELLBACK_", "XDG_"))}
        env = {**own, "HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run", "TELLBACK_MEMORY": str(file)}
        if given.file is None:
            say(f"remembering {given.memories:,} turns")
            places = [str(file), str(given.data.resolve()), str(given.memories), str(given.seed)]
            command = [sys.executable, "-m", "benchmarks.recall_speed.worker", "fill", *places]
            subprocess.run(command, cwd=PROJECT, env=env, stdout=subprocess.DEVNULL, check=True)
        else:
            shutil.copyfile(given.file, file)
        yield tellback, env


def add_memory_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Add to *parser* the options of ``home_with_memory``, and the number of rounds."""
    default = os.environ.get("TELLBACK_BENCH_DATA")
    parser.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of the data sets")
    parser.add_argument("--memories", type=int, default=10_000, help="turns in the memory")
    parser.add_argument("--file", type=Path, help="a filled memory, of which a copy is asked")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=1)


def _measured(
    tellback: str, env: dict[str, str], given: argparse.Namespace, say: Say
) -> tuple[dict[str, list[float]], list[dict[str, Any]]]:
    prompts = questions(given.data, given.rounds + _WARM_UP, given.seed)
    hook = (tellback, "hook", "claude-code", "UserPromptSubmit")
    recall = (tellback, "recall", _QUESTION, "--json")
    alone = {**env, "TELLBACK_RESIDENT_IDLE": "0"}
    seconds: dict[str, list[float]] = {}

    def timed(name: str, command: Sequence[str], environ: dict[str, str], prompt: str = "") -> bytes:
        payload = {"session_id": "speed", "cwd": env["HOME"], "hook_event_name": "UserPromptSubmit", "prompt": prompt}
        begun = perf_counter()
        done = subprocess.run(
            command, input=json.dumps(payload).encode(), env=environ, stdout=subprocess.PIPE, check=True
        )
        seconds.setdefault(name, []).append(perf_counter() - begun)
        return done.stdout

    say("without a resident")
    for prompt in prompts[:5]:
        timed("hook, no resident", hook, alone, prompt)
        answer = timed("recall, no resident", recall, alone)
    say("with one")
    timed("the first hook, which starts it", hook, env, prompts[0])
    for prompt in prompts[:_WARM_UP]:
        timed("warm-up", hook, env, prompt)
    for prompt in prompts[_WARM_UP:]:
        timed("bare Python", _BARE, env)
        timed("hook", hook, env, prompt)
        timed("recall", recall, env)
    if not json.loads(answer)["hits"]:
        raise ValueError(f"nothing was found in {given.file or 'the memory'}: it is not one of LoCoMo's turns")
    status = subprocess.run([tellback, "resident", "status", "--json"], env=env, stdout=subprocess.PIPE, check=True)
    residents: list[dict[str, Any]] = json.loads(status.stdout)["residents"]
    del seconds["warm-up"]
    return seconds, residents
