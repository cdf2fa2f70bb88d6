"""Round trip of a hook, from outside: ``python -m benchmarks hooks --data DIR [--memories N] [--file MEMORY]``.

The command of a prompt hook runs in turns with a bare Python that imports ``json`` and ``socket``, each in a new
process; each prompt is another question of LoCoMo, on a memory with turns of LoCoMo and vectors of the sentence
encoder. The answer adds what is known, and the prompt is kept. The resident process is started by the first hook, and
ends with the measure; the home is a temporary folder. CPU is that of the command, and beside it that of the resident
until the command ends, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
_CPU_BOUND, _CPU_BOUND_WITH_RESIDENT = 1.4, 3.0
"""Limits of the median CPU of a hook, alone and with the resident's, in medians of the bare Python."""
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
            seconds, cpu, residents = _measured(str(tellback), env, given, say)
        finally:
            subprocess.run([str(tellback), "resident", "stop"], env=env, stdout=subprocess.DEVNULL, check=True)
    figures = [times(name, 0, each) for name, each in seconds.items()]
    ratio = float(np.percentile(seconds["hook"], 95) / np.median(seconds["bare Python"]))
    figures.append(Figure("p95 of a hook, of the median of bare Python", 0, "×", ratio, bound=_BOUND))
    bare, hook, served = (float(np.median(cpu[name])) for name in ("bare Python", "hook", "resident"))
    figures.append(Figure("CPU of a hook, of that of bare Python", 0, "×", hook / bare, bound=_CPU_BOUND))
    name = "CPU of a hook and the resident, of that of bare Python"
    figures.append(Figure(name, 0, "×", (hook + served) / bare, bound=_CPU_BOUND_WITH_RESIDENT))
    for resident in residents:
        figures.append(Figure(f"resident, after {resident['served']} commands", 0, "MB", resident["bytes"] / 1e6))
    show("Round trip of a hook", "", figures, about.circumstances(words, ["tellback"]))
    return int(any(figure.met is False for figure in figures))


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
) -> tuple[dict[str, list[float]], dict[str, list[float]], list[dict[str, Any]]]:
    """Return the seconds of commands, those of CPU, and the reports of the residents."""
    prompts = questions(given.data, given.rounds + _WARM_UP, given.seed)
    hook = (tellback, "hook", "claude-code", "UserPromptSubmit")
    recall = (tellback, "recall", _QUESTION, "--json")
    alone = {**env, "TELLBACK_RESIDENT_IDLE": "0"}
    seconds: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}

    def residents() -> list[dict[str, Any]]:
        status = subprocess.run([tellback, "resident", "status", "--json"], env=env, stdout=subprocess.PIPE, check=True)
        found: list[dict[str, Any]] = json.loads(status.stdout)["residents"]
        return [resident for resident in found if resident["socket"].startswith(env["XDG_RUNTIME_DIR"])]

    def timed(name: str, command: Sequence[str], environ: dict[str, str], prompt: str = "") -> bytes:
        payload = {"session_id": "speed", "cwd": env["HOME"], "hook_event_name": "UserPromptSubmit", "prompt": prompt}
        used, begun = _children_seconds(), perf_counter()
        done = subprocess.run(
            command, input=json.dumps(payload).encode(), env=environ, stdout=subprocess.PIPE, check=True
        )
        seconds.setdefault(name, []).append(perf_counter() - begun)
        cpu.setdefault(name, []).append(_children_seconds() - used)
        return done.stdout

    say("without a resident")
    for prompt in prompts[:5]:
        timed("hook, no resident", hook, alone, prompt)
        answer = timed("recall, no resident", recall, alone)
    say("with one")
    timed("the first hook, which starts it", hook, env, prompts[0])
    for prompt in prompts[:_WARM_UP]:
        timed("warm-up", hook, env, prompt)
    (process,) = (resident["pid"] for resident in residents())
    for prompt in prompts[_WARM_UP:]:
        timed("bare Python", _BARE, env)
        used = cpu_seconds(process)
        timed("hook", hook, env, prompt)
        cpu.setdefault("resident", []).append(cpu_seconds(process) - used)
        timed("recall", recall, env)
    if not json.loads(answer)["hits"]:
        raise ValueError(f"nothing was found in {given.file or 'the memory'}: it is not one of LoCoMo's turns")
    del seconds["warm-up"]
    return seconds, cpu, residents()


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds(process: int) -> float:
    """Return the CPU time of all threads of *process* so far; 0 where the system does not tell."""
    tasks = Path(f"/proc/{process}/task")
    lines = (path.read_text(encoding="ascii") for path in tasks.glob("*/schedstat"))
    return sum(int(line.split()[0]) for line in lines) / 1e9
