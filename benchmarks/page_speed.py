"""Time of the page of ``tellback serve``: ``python -m benchmarks page --data DIR [--memories N] [--file MEMORY]``.

A signed-in browser is played by HTTP: every page is loaded whole, and questions of LoCoMo are searched as one types,
with the memory of the hooks' measure; beside each search the same recall by the API, so that what the page adds to it
is seen. The times are the server's: until the whole answer is there. On Linux the CPU time of the server is measured,
too, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import httpx

from benchmarks import about
from benchmarks.figure import Figure, show
from benchmarks.figure import times as times_of
from benchmarks.hooks import Say, add_memory_options, cpu_seconds, home_with_memory
from benchmarks.model_endpoint import serving
from benchmarks.recall_speed.texts import questions

_PAINT, _SEARCH = 300.0, 60.0
"""Limits of a page and of a search, in milliseconds."""
_WARM_UP = 3
_TOKEN = "a-token-of-the-measure"
_PATHS = (
    "/chat", "/memories", "/memories/filters", "/memories/changes", "/memories/conflicts", "/documents", "/profile",
    "/conversations", "/given", "/health", "/settings",
)  # fmt: skip
_LISTED, _RECALL = "an older page of memories", "the recall of a search alone"
_ASKED = "a search"
_PART = {"HX-Request": "true"}


def add_command(commands: Any) -> None:
    """Put ``page`` among the *commands* of the command line."""
    parser = commands.add_parser("page", help="pages and searches of the page of tellback serve")
    add_memory_options(parser, 20)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure and print; return 1 where a page or a search takes longer than it may."""
    with home_with_memory(given, say) as (tellback, env):
        asked = questions(given.data, given.rounds + _WARM_UP, given.seed)
        command = [str(tellback), "serve", "--port", "0", "--no-browser"]
        with serving(command, {**env, "TELLBACK_TOKEN": _TOKEN}) as (address, process):
            say("loading pages and searching")
            times = _measured(address, asked, process)
    figures = list(_figures(times))
    show("Time of the server", "", figures, about.circumstances(words, ["tellback"]))
    return int(any(figure.met is False for figure in figures))


def _measured(address: str, asked: Sequence[str], process: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds, and those of CPU, of each kind of request."""
    times: dict[str, list[tuple[float, float]]] = {}

    def timed(name: str, ask: Callable[[], httpx.Response], number: int) -> httpx.Response:
        used, begun = cpu_seconds(process), perf_counter()
        answer = ask().raise_for_status()
        taken = perf_counter() - begun, cpu_seconds(process) - used
        times.setdefault(name, [])
        if number >= _WARM_UP:
            times[name].append(taken)
        return answer

    bearer = {"authorization": f"Bearer {_TOKEN}"}
    with httpx.Client(base_url=address, trust_env=False, timeout=120) as browser:
        browser.post("/login", data={"token": _TOKEN}).raise_for_status()
        listed = browser.get("/api/v1/memories", headers=bearer).json()
        older = {"after": listed["next"]}
        for number, question in enumerate(asked):
            for path in _PATHS:
                timed(path, partial(browser.get, path), number)
            timed(_LISTED, partial(browser.get, "/memories", params=older, headers=_PART), number)
            body = {"question": question, "k": 20, "explain": True, "all_utterances": True}
            timed(_RECALL, partial(browser.post, "/api/v1/recall", json=body, headers=bearer), number)
            found = timed(_ASKED, partial(browser.get, "/memories", params={"q": question}, headers=_PART), number)
            assert 'class="memory' in found.text
    return times


def _figures(times: dict[str, list[tuple[float, float]]]) -> Iterator[Figure]:
    for name, taken in times.items():
        bound = _SEARCH if name == _ASKED else None if name == _RECALL else _PAINT
        yield times_of(name, 0, [wall for wall, _ in taken], bound)
        if any(cpu for _, cpu in taken):
            yield times_of("- CPU", 0, [cpu for _, cpu in taken])
