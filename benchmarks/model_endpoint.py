"""Time that a memory in front of a model adds: ``python -m benchmarks model-endpoint --data DIR [--memories N]``.

A scripted server in the place of the model answers at once. It is asked in turns: itself, through ``tellback serve``
with the memory off, with the memory read, and with the turn kept, too; each time another question of LoCoMo, with the
memory and the encoder of the hooks' measure. The time is that until the first event of a streamed answer is there. The
encoder's own time is that of one embedding of the same question, measured beside them in this process. On Linux the CPU
time of the server until then is measured, too, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time, sleep
from typing import Any

import httpx
import numpy as np

from benchmarks import about
from benchmarks.figure import Figure, show, times
from benchmarks.hooks import Say, add_memory_options, cpu_seconds, home_with_memory
from benchmarks.recall_speed.texts import questions
from tellback.agent.testing import OpenAIServer, Reply
from tellback.memory import local_embedder, run_sync

_BOUND = 15.0
"""Limit of the added milliseconds, without the encoder's."""
_WARM_UP = 10
_TOKEN = "a-token-of-the-measure"
_PAUSE = 0.3
"""Seconds after a kept turn, in which a person reads: what is kept does not compete with the next request."""
_ENCODER, _MODEL, _KEPT = "encoder", "the model itself", "memory read, turn kept"
_WAYS = {_MODEL: "", "memory off": "off", "memory read": "read", _KEPT: "write"}


def add_command(commands: Any) -> None:
    """Put ``model-endpoint`` among the *commands* of the command line."""
    parser = commands.add_parser("model-endpoint", help="what a memory in front of a model adds to a request")
    add_memory_options(parser, 100)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure and print; return 1 where more is added than may be."""
    with home_with_memory(given, say) as (tellback, env):
        prompts = questions(given.data, given.rounds + _WARM_UP, given.seed)
        with OpenAIServer(*[Reply("Noted.")] * (len(prompts) * len(_WAYS))) as model:
            served = {**env, "TELLBACK_MODEL": "m", "OPENAI_BASE_URL": model.url, "TELLBACK_TOKEN": _TOKEN}
            with serving([str(tellback), "serve", "--port", "0"], served) as (address, process):
                say("asking")
                seconds, cpu = _measured(f"{address}/v1", model.url, prompts, process)
            given_to = sum("<tellback-memories" in str(request.body) for request in model.requests)
    if not given_to:
        raise ValueError("no prompt was given a memory: the file is not one of LoCoMo's turns")
    figures = list(_figures(seconds, cpu))
    note = f"What is added is without the model's and the encoder's time. {given_to} prompts were given memories."
    show("Until the first event", "", figures, about.circumstances(words, ["tellback"]), note)
    return int(any(figure.met is False for figure in figures))


@contextmanager
def serving(command: Sequence[str], env: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Yield the address of the server that *command* starts, and its process."""
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+);", process.stderr.readline())
        if found is None:
            raise ValueError("the server did not start")
        yield found[1], process.pid
    finally:
        process.terminate()
        process.communicate()


def _measured(
    endpoint: str, model: str, prompts: Sequence[str], process: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the seconds until the first event, and those of CPU, by the way of asking."""
    seconds: dict[str, list[float]] = {name: [] for name in (_ENCODER, *_WAYS)}
    cpu: dict[str, list[float]] = {name: [] for name in seconds}
    embedder = local_embedder()
    headers = {"authorization": f"Bearer {_TOKEN}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        for number, prompt in enumerate(prompts):
            body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]})
            for way, mode in _WAYS.items():
                url = f"{endpoint if mode else model}/chat/completions"
                used, begun = cpu_seconds(process), perf_counter()
                with client.stream("POST", url, content=body, headers={"x-tellback-memory": mode or "off"}) as answer:
                    parts = answer.iter_raw()
                    first = next(parts)
                    taken = perf_counter() - begun, cpu_seconds(process) - used
                    assert b"[DONE]" in b"".join([first, *parts])
                if number >= _WARM_UP:
                    seconds[way].append(taken[0])
                    cpu[way].append(taken[1])
            sleep(_PAUSE)
            used, begun = process_time(), perf_counter()
            run_sync(embedder.embed([prompt], "query"))
            if number >= _WARM_UP:
                seconds[_ENCODER].append(perf_counter() - begun)
                cpu[_ENCODER].append(process_time() - used)
    return seconds, cpu


def _added(seconds: dict[str, list[float]], way: str) -> float:
    """Return the milliseconds that *way* adds to the model's, without the encoder's: the median of differences."""
    own = np.array(seconds[_ENCODER]) if way != "memory off" else 0.0
    return float(np.median(np.array(seconds[way]) - np.array(seconds[_MODEL]) - own) * 1e3)


def _figures(seconds: dict[str, list[float]], cpu: dict[str, list[float]]) -> Iterator[Figure]:
    for way, each in seconds.items():
        yield times(way, 0, each)
        if any(cpu[way]):
            yield times("- CPU", 0, cpu[way])
        if way not in (_ENCODER, _MODEL):
            yield Figure("- added", 0, "ms", _added(seconds, way), bound=_BOUND if way == _KEPT else None)
            if any(cpu[way]):
                yield Figure("- added CPU", 0, "ms", _added(cpu, way))
