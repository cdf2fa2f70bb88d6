"""Round trips, from outside: ``python -m benchmarks hooks|model-endpoint|page --data DIR [--memories N] [--file F]``.

Each asks questions of LoCoMo, another in each round, on a memory with turns of LoCoMo and vectors of the sentence
encoder, in a home that is a temporary folder. CPU is that of what is asked, which other work on the machine changes
little; that of another process is told on Linux alone.

``hooks``: the command of a prompt hook runs in turns with a bare Python that imports ``json`` and ``socket``, each in a
new process. The answer adds what is known, and the prompt is kept. The resident process is started by the first hook,
and ends with the measure; beside the hook's CPU stands that of the resident until the command ends.

``model-endpoint``: a scripted server in the place of the model answers at once. It is asked in turns: itself, through
``tellback serve`` with the memory off, with the memory read, and with the turn kept, too. The time is that until the
first event of a streamed answer; one embedding of the same question is measured beside them in this process.

``page``: a signed-in browser is played by HTTP. Every page is loaded whole, and questions are searched as one types;
beside each search the same recall by the API, so that what the page adds to it is seen.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any

import httpx
import numpy as np

from benchmarks import about
from benchmarks.child import PROJECT, environment
from benchmarks.figure import Figure, show, times
from benchmarks.recall_speed.texts import questions, require_locomo
from tellback.agent.testing import OpenAIServer, Reply
from tellback.memory import local_embedder, run_sync

Say = Callable[[str], None]
Seconds = Callable[[], float]
_WARM_UP = 10
_TOKEN = "a-token-of-the-measure"
_BEARER = {"authorization": f"Bearer {_TOKEN}"}

_BARE = (sys.executable, "-c", "import json, socket")
_HOOK, _CPU_HOOK, _CPU_HOOK_AND_RESIDENT = 4.0, 1.4, 3.0
"""Limits in medians of the bare Python: a hook's 95th percentile, its median CPU, and that with the resident's."""
_QUESTION = "What did Caroline do last summer?"

_ADDED = 15.0
"""Limit of the milliseconds that are added to a model's, without the encoder's."""
_PAUSE = 0.3
"""Seconds after a kept turn, in which a person reads: what is kept does not compete with the next request."""
_ENCODER, _MODEL, _OFF, _KEPT = "encoder", "the model itself", "memory off", "memory read, turn kept"
_WAYS = {_MODEL: "", _OFF: "off", "memory read": "read", _KEPT: "write"}

_PAINT, _SEARCH = 300.0, 60.0
"""Limits of a page and of a search, in milliseconds."""
_PATHS = (
    "/chat", "/memories", "/memories/filters", "/memories/changes", "/memories/conflicts", "/documents", "/profile",
    "/conversations", "/given", "/health", "/settings",
)  # fmt: skip
_LISTED, _RECALL, _ASKED = "an older page of memories", "the recall of a search alone", "a search"
_PART = {"HX-Request": "true"}


@dataclass(frozen=True, slots=True)
class _Home:
    """The command ``tellback``, an environment with a filled memory, and what it is asked."""

    tellback: str
    env: dict[str, str]
    prompts: list[str]
    say: Say


class _Times:
    """Seconds of what was timed, and those of CPU, by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.cpu: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of(self, name: str, cpu: Seconds) -> Iterator[None]:
        """Time what is done within; *cpu* tells the CPU time so far."""
        used, begun = cpu(), perf_counter()
        yield
        self.seconds[name].append(perf_counter() - begun)
        self.cpu[name].append(cpu() - used)

    def figures(self, name: str, bound: float | None = None, warm_up: int = _WARM_UP) -> Iterator[Figure]:
        """Yield the times of *name*, without the first ones."""
        yield times(name, 0, self.seconds[name][warm_up:], bound)
        if any(self.cpu[name]):
            yield times("- CPU", 0, self.cpu[name][warm_up:])


def add_command(commands: Any) -> None:
    """Put the three commands among the *commands* of the command line."""
    for name, help, rounds, measure in (
        ("hooks", "round trip of a hook, with a resident process and without", 60, _hooks),
        ("model-endpoint", "what a memory in front of a model adds to a request", 100, _model_endpoint),
        ("page", "pages and searches of the page of tellback serve", 20, _page),
    ):
        parser = commands.add_parser(name, help=help)
        about.add_data_option(parser)
        parser.add_argument("--memories", type=int, default=10_000, help="turns in the memory")
        parser.add_argument("--file", type=Path, help="a filled memory, of which a copy is asked")
        parser.add_argument("--rounds", type=int, default=rounds)
        parser.add_argument("--seed", type=int, default=1)
        parser.set_defaults(run=partial(_run, measure, help))


def _run(
    measure: Callable[[_Home], Iterator[Figure]], title: str, given: argparse.Namespace, words: Sequence[str], say: Say
) -> int:
    """Measure and print; return 1 where something takes longer than it may."""
    made = about.circumstances(words, ["tellback"])
    with _home(given, say) as home:
        figures = list(measure(home))
    show(title.capitalize(), "", figures, made)
    return int(any(figure.met is False for figure in figures))


@contextmanager
def _home(given: argparse.Namespace, say: Say) -> Iterator[_Home]:
    """Yield a temporary home; its memory has as many turns as *given* says, or is a copy of the file that it names."""
    data, tellback = require_locomo(given.data), Path(sys.executable).with_name("tellback")
    if not tellback.exists():
        raise ValueError(f"no command {tellback}: install Tellback in this environment")
    with TemporaryDirectory(prefix="tellback-bench-") as folder:
        file = f"{folder}/memory.db"
        Path(folder, "run").mkdir(0o700)
        own = {name: value for name, value in environment().items() if not name.startswith(("TELLBACK_", "XDG_"))}
        env = {**own, "HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run", "TELLBACK_MEMORY": file}
        if given.file is None:
            say(f"remembering {given.memories:,} turns")
            places = [file, str(data.resolve()), str(given.memories), str(given.seed)]
            command = [sys.executable, "-m", "benchmarks.recall_speed.worker", "fill", *places]
            subprocess.run(command, cwd=PROJECT, env=env, stdout=subprocess.DEVNULL, check=True)
        else:
            shutil.copyfile(given.file, file)
        yield _Home(str(tellback), env, questions(data, given.rounds + _WARM_UP, given.seed), say)


def _hooks(home: _Home) -> Iterator[Figure]:
    measured, env = _Times(), home.env
    hook = (home.tellback, "hook", "claude-code", "UserPromptSubmit")
    recall = (home.tellback, "recall", _QUESTION, "--json")
    alone = {**env, "TELLBACK_RESIDENT_IDLE": "0"}

    def residents() -> list[dict[str, Any]]:
        status = [home.tellback, "resident", "status", "--json"]
        done = subprocess.run(status, env=env, stdout=subprocess.PIPE, check=True)
        found: list[dict[str, Any]] = json.loads(done.stdout)["residents"]
        return [resident for resident in found if resident["socket"].startswith(env["XDG_RUNTIME_DIR"])]

    def timed(name: str, command: Sequence[str], environ: dict[str, str], prompt: str = "") -> bytes:
        payload = {"session_id": "speed", "cwd": env["HOME"], "hook_event_name": "UserPromptSubmit", "prompt": prompt}
        words = json.dumps(payload).encode()
        with measured.of(name, _children_seconds):
            return subprocess.run(command, input=words, env=environ, stdout=subprocess.PIPE, check=True).stdout

    try:
        home.say("without a resident")
        for prompt in home.prompts[:5]:
            timed("hook, no resident", hook, alone, prompt)
            answer = timed("recall, no resident", recall, alone)
        if not json.loads(answer)["hits"]:
            raise ValueError(f"nothing was found for {_QUESTION!r}: the memory is not one of LoCoMo's turns")
        home.say("with one")
        timed("the first hook, which starts it", hook, env, home.prompts[0])
        (process,) = (resident["pid"] for resident in residents())
        for prompt in home.prompts:
            timed("bare Python", _BARE, env)
            with measured.of("resident during a hook", partial(_cpu_seconds, process)):
                timed("hook", hook, env, prompt)
            timed("recall", recall, env)
        held = residents()
    finally:
        subprocess.run([home.tellback, "resident", "stop"], env=env, stdout=subprocess.DEVNULL, check=True)
    for name, each in measured.seconds.items():
        yield from measured.figures(name, warm_up=_WARM_UP if len(each) > _WARM_UP else 0)
    bare, seconds = (np.array(each["bare Python"][_WARM_UP:]) for each in (measured.cpu, measured.seconds))
    used, served = (np.median(measured.cpu[name][_WARM_UP:]) for name in ("hook", "resident during a hook"))
    for what, ratio, bound in (
        ("p95 of a hook", np.percentile(measured.seconds["hook"][_WARM_UP:], 95) / np.median(seconds), _HOOK),
        ("CPU of a hook", used / np.median(bare), _CPU_HOOK),
        ("CPU of a hook and the resident", (used + served) / np.median(bare), _CPU_HOOK_AND_RESIDENT),
    ):
        yield Figure(f"{what}, of that of bare Python", 0, "×", float(ratio), bound=bound)
    for resident in held:
        yield Figure(f"resident, after {resident['served']} commands", 0, "MB", resident["bytes"] / 1e6)


def _model_endpoint(home: _Home) -> Iterator[Figure]:
    measured, embedder = _Times(), local_embedder()
    with OpenAIServer(*[Reply("Noted.")] * (len(home.prompts) * len(_WAYS))) as model:
        models = {"TELLBACK_MODEL": "m", "OPENAI_BASE_URL": model.url}
        with _served(home, models) as (client, cpu):
            for prompt in home.prompts:
                body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]}
                for way, mode in _WAYS.items():
                    url = f"{'/v1' if mode else model.url}/chat/completions"
                    headers = {**_BEARER, "x-tellback-memory": mode or "off"}
                    with ExitStack() as stack:
                        with measured.of(way, cpu):
                            answer = stack.enter_context(client.stream("POST", url, json=body, headers=headers))
                            parts = answer.iter_raw()
                            first = next(parts)
                        assert b"[DONE]" in b"".join([first, *parts])
                sleep(_PAUSE)
                with measured.of(_ENCODER, process_time):
                    run_sync(embedder.embed([prompt], "query"))
        if not any("<tellback-memories" in str(request.body) for request in model.requests):
            raise ValueError("no prompt was given a memory: the file is not one of LoCoMo's turns")

    def added(of: dict[str, list[float]], way: str) -> float:
        """Return the milliseconds that *way* adds to those of model and encoder: the median of differences."""
        own = np.array(of[_ENCODER]) if way != _OFF else 0.0
        return float(np.median((np.array(of[way]) - np.array(of[_MODEL]) - own)[_WARM_UP:]) * 1e3)

    for way in (_ENCODER, *_WAYS):
        yield from measured.figures(way)
        if way not in (_ENCODER, _MODEL):
            bound = _ADDED if way == _KEPT else None
            yield Figure("- added to model and encoder", 0, "ms", added(measured.seconds, way), bound=bound)
            if any(measured.cpu[way]):
                yield Figure("- added CPU", 0, "ms", added(measured.cpu, way))


def _page(home: _Home) -> Iterator[Figure]:
    measured = _Times()
    with _served(home, {}) as (browser, cpu):

        def timed(name: str, path: str, **more: Any) -> httpx.Response:
            with measured.of(name, cpu):
                return browser.request("POST" if "json" in more else "GET", path, **more).raise_for_status()

        browser.post("/login", data={"token": _TOKEN}).raise_for_status()
        older = {"after": browser.get("/api/v1/memories", headers=_BEARER).json()["next"]}
        for question in home.prompts:
            for path in _PATHS:
                timed(path, path)
            timed(_LISTED, "/memories", params=older, headers=_PART)
            body = {"question": question, "k": 20, "explain": True, "all_utterances": True}
            timed(_RECALL, "/api/v1/recall", json=body, headers=_BEARER)
            assert 'class="memory' in timed(_ASKED, "/memories", params={"q": question}, headers=_PART).text
    for name in measured.seconds:
        yield from measured.figures(name, {_ASKED: _SEARCH, _RECALL: None}.get(name, _PAINT))


@contextmanager
def _served(home: _Home, more: dict[str, str]) -> Iterator[tuple[httpx.Client, Seconds]]:
    """Yield a client of a ``tellback serve`` of this *home*, and what tells the CPU time of the server."""
    command = [home.tellback, "serve", "--port", "0", "--no-browser"]
    env = {**home.env, **more, "TELLBACK_TOKEN": _TOKEN}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+);", process.stderr.readline())
        if found is None:
            raise ValueError("the server did not start")
        home.say("asking the server")
        with httpx.Client(base_url=found[1], trust_env=False, timeout=120) as client:
            yield client, partial(_cpu_seconds, process.pid)
    finally:
        process.terminate()
        process.communicate()


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of all threads of *process* so far; 0 where the system does not tell."""
    lines = (path.read_text(encoding="ascii") for path in Path(f"/proc/{process}/task").glob("*/schedstat"))
    return sum(int(line.split()[0]) for line in lines) / 1e9
