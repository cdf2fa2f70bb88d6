"""Clients of all kinds on one memory file: MCP servers, hooks and commands write, ask and are killed at any moment.

    python -m tests.test_faults.clients_at_once --seconds 3600

Each writes facts with a word of its own. What was acknowledged must be there once in the end, and be found by the very
next call of another process; nobody may hear that the file is locked, and no process may hold more than 400 MB of its
own. The exit code is 1 where any of this was broken.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tellback.memory import open_memory, run_sync

_SYLLABLES = ("ba", "ko", "ri", "ta", "me", "lu", "so", "vi", "ne", "da", "pu", "fi", "go", "zu", "ha", "xe")
_ANSWER_SECONDS = 120.0
_SHOWN = 20
_MOST_MEGABYTES = 400.0
"""Private memory that a process may hold: the encoder's table has the most of it."""


def mixed_work(
    folder: str, seconds: float = 120.0, servers: int = 8, hooks: int = 2, seed: int = 1, kill_every: float = 4.0
) -> dict[str, Any]:
    """Work for so many *seconds* with so many *servers* and *hooks* at once, and a command now and then."""
    work = _Work(Path(folder), seed, time.monotonic() + seconds)
    jobs: list[Callable[[random.Random], None]] = [work.serve] * servers + [work.hook] * hooks + [work.command]
    threads = [threading.Thread(target=work.do, args=(job, number)) for number, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    work.kill_now_and_then(random.Random(seed), kill_every)
    for thread in threads:
        thread.join()
    work.end()
    return work.report()


class _Ended(Exception):
    """A process was killed while it worked."""


class _Server:
    """An MCP server on pipes; lines of JSON-RPC, one call at a time."""

    def __init__(self, work: _Work) -> None:
        self._number = 0
        self.process = subprocess.Popen(
            work.tellback("mcp"),
            env=work.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.notes: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.notes.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        client = {"name": "crowd", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def _read(self, pipe: Any, keep: Callable[[str], object]) -> None:
        for line in pipe:
            keep(line)
        keep("")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what *tool* answers, with its text as "text"."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(part.get("text", "") for part in result["content"])
        if result.get("isError"):
            raise ValueError(text)
        return {**(result.get("structuredContent") or {}), "text": text}

    def end(self) -> None:
        """End it by the end of its input; what it said on standard error is in ``notes``."""
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]  # it has a pipe
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()
        self.process.stdout.close()  # type: ignore[union-attr]  # it has a pipe
        self.process.stderr.close()  # type: ignore[union-attr]  # it has a pipe

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while line := self._lines.get(timeout=_ANSWER_SECONDS):
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number and "method" not in answer:
                result: dict[str, Any] = answer["result"]
                return result
        raise _Ended

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise _Ended from error


class _Work:
    """State that all threads share: the file, the facts that were acknowledged, and what went wrong."""

    def __init__(self, folder: Path, seed: int, until: float) -> None:
        self.path = folder / "memory.db"
        (folder / "run").mkdir(mode=0o700)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("TELLBACK_", "XDG_"))}
        self.environment = {**own, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run")}
        self._seed, self._until = seed, until
        self._lock = threading.Lock()
        self._servers: list[_Server] = []
        self._words = self._new_words()
        self._facts: dict[str, str] = {}
        self._unanswered: dict[str, str] = {}
        self._calls: Counter[str] = Counter()
        self._broken: list[str] = []
        self._megabytes: dict[tuple[str, int], float] = {}

    def tellback(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tellback", "--memory", str(self.path), "--offline", *arguments]

    def do(self, job: Callable[[random.Random], None], number: int) -> None:
        """Do *job* again and again; a server that was killed is started again."""
        rng = random.Random(self._seed * 1000 + number)
        while time.monotonic() < self._until:
            try:
                job(rng)
            except _Ended:
                self._count("killed in the middle")
            except Exception as error:
                self._complain(f"{job.__name__}: {type(error).__name__} {error}")

    def serve(self, rng: random.Random) -> None:
        """Act as a client with its own MCP server until the deadline."""
        server = _Server(self)
        with self._lock:
            self._servers.append(server)
        try:
            while time.monotonic() < self._until:
                word, fact = self._fact(rng)
                id = server.call("remember", text=fact)["id"] if rng.random() < 0.5 else ""
                if id:
                    self._keep(word, fact, "remembered by a server")
                    self._check_elsewhere(rng, word, fact, server)
                    if rng.random() < 0.2:
                        new = fact.replace("box", "drawer")
                        self._unanswered[word] = new  # a server that is killed may have done it, and not said so
                        server.call("correct", id=id, text=new)
                        self._keep(word, new, "corrected by a server")
                        self._check_elsewhere(rng, word, new, server)
                else:
                    self._check_known(rng, lambda word: str(server.call("recall", query=_question(word))["text"]))
        finally:
            with self._lock:
                self._servers.remove(server)
            server.end()
            self._check_notes("".join(server.notes))

    def hook(self, rng: random.Random) -> None:
        """Act as a coding agent: one prompt states a fact, another asks for a known one."""
        word, fact = self._fact(rng)
        self._hook("UserPromptSubmit", prompt=fact)
        self._keep(word, fact, "kept by a hook")
        self._check_elsewhere(rng, word, fact, None)
        self._check_known(rng, lambda word: self._hook("UserPromptSubmit", prompt=_question(word)))

    def command(self, rng: random.Random) -> None:
        """Act as a user at the command line."""
        word, fact = self._fact(rng)
        self._run("remember", fact)
        self._keep(word, fact, "remembered by a command")
        self._check_elsewhere(rng, word, fact, None)
        self._check_known(rng, lambda word: self._run("recall", _question(word), "--full"))

    def kill_now_and_then(self, rng: random.Random, every: float) -> None:
        """Kill a server or the resident, look at what each of them holds, and wait; until time is over."""
        while (left := self._until - time.monotonic()) > 0:
            time.sleep(min(every * rng.uniform(0.5, 1.5), left))
            residents = [resident["pid"] for resident in self._residents()]
            with self._lock:
                servers = [server.process.pid for server in self._servers]
            for kind, pids in (("server", servers), ("resident", residents)):
                for pid in pids:
                    held = max(self._megabytes.get((kind, pid), 0.0), _private_megabytes(pid))
                    self._megabytes[kind, pid] = held
            if victims := servers + residents * 3:
                victim = rng.choice(victims)
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                self._count("kills of the resident" if victim in residents else "kills of a server")

    def end(self) -> None:
        """End the resident; compare the file with what was acknowledged."""
        subprocess.run(self.tellback("resident", "stop"), env=self.environment, capture_output=True, check=True)
        memory = open_memory(self.path)
        found = Counter(text for text in _texts(memory))
        for word, fact in self._facts.items():
            times = found[fact] + sum(found[text] for text in self._other(word, fact))
            if times != 1:
                self._complain(f"{word} is there {times} times")
        self._broken += [str(finding) for finding in memory.store.verify()]  # type: ignore[attr-defined]  # it has a file
        run_sync(memory.close())
        for log in self.path.parent.rglob("claude-code.jsonl"):  # a hook that fails is silent; its log is not
            runs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            for error in {run["error"] for run in runs if run["outcome"] == "failed"}:
                self._complain(f"a hook failed: {error}")
        for (kind, pid), size in self._megabytes.items():
            if size > _MOST_MEGABYTES:
                self._complain(f"{kind} {pid} held {size:.0f} MB")

    def report(self) -> dict[str, Any]:
        sizes = {
            kind: [size for (name, _), size in self._megabytes.items() if name == kind] for kind, _ in self._megabytes
        }
        return {
            "facts": len(self._facts),
            "calls": dict(sorted(self._calls.items())),
            "private MB": {
                kind: {"processes": len(held), "median": round(statistics.median(held)), "most": round(max(held))}
                for kind, held in sizes.items()
            },
            "broken": self._broken[:_SHOWN],
            "broken in all": len(self._broken),
        }

    def _new_words(self) -> Iterator[str]:
        number = self._seed * 65536
        while True:
            number += 1
            mixed = number * 0x9E375  # neighbours share no syllable
            yield "".join(_SYLLABLES[mixed >> shift & 15] for shift in (0, 4, 8, 12, 16))

    def _fact(self, rng: random.Random) -> tuple[str, str]:
        with self._lock:
            word = next(self._words)
        return word, f"The {word} is in box {rng.randrange(1000)} of the cellar."

    def _keep(self, word: str, fact: str, how: str) -> None:
        with self._lock:
            self._facts[word] = fact
            self._calls[how] += 1

    def _other(self, word: str, fact: str) -> list[str]:
        """Return what a correction made of *fact* that nobody has answered."""
        text = self._unanswered.get(word, fact)
        return [] if text == fact else [text]

    def _check_elsewhere(self, rng: random.Random, word: str, fact: str, own: _Server | None) -> None:
        """Ask another process for a fact that was acknowledged just now."""
        found = self._hook("UserPromptSubmit", prompt=_question(word)) if own else self._run("recall", word, "--full")
        if fact not in found:
            self._complain(f"stale: {word} is not found by the next process")

    def _check_known(self, rng: random.Random, ask: Callable[[str], str]) -> None:
        with self._lock:
            known = [*self._facts]
        if not known:
            return
        word = rng.choice(known)
        before, found, after = self._facts[word], ask(word), self._facts[word]
        self._count("questions")
        if not any(fact in found for fact in (before, after, *self._other(word, after))):
            self._complain(f"{word} is not found: {found[:300]}")

    def _hook(self, event: str, **payload: str) -> str:
        with self._lock:
            session = f"s{self._calls['hooks']}"  # in one session nothing is shown twice
            self._calls["hooks"] += 1
        words = {"session_id": session, "cwd": str(self.path.parent), "hook_event_name": event, **payload}
        answer = self._run("hook", "claude-code", event, text=json.dumps(words))
        return json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""

    def _run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            self.tellback(*arguments), input=text, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            self._complain(f"{arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}")
        self._check_notes(done.stderr)
        return done.stdout

    def _residents(self) -> list[dict[str, Any]]:
        residents: list[dict[str, Any]] = json.loads(self._run("resident", "status", "--json"))["residents"]
        return [resident for resident in residents if resident["outcome"] == "done"]

    def _check_notes(self, notes: str) -> None:
        if any(word in notes for word in ("locked", "busy", "Traceback")):
            self._complain(f"said: {notes[-300:]}")

    def _count(self, what: str) -> None:
        with self._lock:
            self._calls[what] += 1

    def _complain(self, text: str) -> None:
        with self._lock:
            self._broken.append(text)


def _question(word: str) -> str:
    return f"Where is the {word}?"


def _texts(memory: Any) -> Iterator[str]:
    after = None
    while True:
        page = run_sync(memory.list(limit=500, after=after))
        yield from (found.text for found in page.memories)
        if (after := page.next) is None:
            return


def _private_megabytes(pid: int) -> float:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1e3
    return 0.0


def main() -> None:
    """Run the campaign and print its result."""
    parser = argparse.ArgumentParser(description="Clients of all kinds on one memory file, killed at any moment.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--hooks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=float, default=4.0, help="seconds, on average")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    with tempfile.TemporaryDirectory() as folder:
        report = mixed_work(folder, **given)
    print(json.dumps(report, indent=1) if as_json else _report_text(report, given))
    sys.exit(bool(report["broken"]))


def _report_text(report: dict[str, Any], given: dict[str, Any]) -> str:
    lines = ["{seconds:.0f} s, {servers} servers, {hooks} agents with hooks, seed {seed}".format(**given)]
    lines += [f"  {count:>7,} {name}" for name, count in report["calls"].items()]
    for kind, held in report["private MB"].items():
        lines.append("  {0}: {median} MB of its own, {most} at most, in {processes} processes".format(kind, **held))
    lines.append(f"{report['facts']:,} facts acknowledged; {report['broken in all']} broken promises")
    return "\n".join([*lines, *(f"  BROKEN {text}" for text in report["broken"])])


if __name__ == "__main__":
    main()
