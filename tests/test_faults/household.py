"""A household on one server: ten users chat, upload, search and forget at once, with backups; it is killed once.

    python -m tests.test_faults.household --seconds 3600

Each user writes of a word of their own. What was acknowledged must be there in the end, what was forgotten must not,
and no answer may hold a word of another user. The server is killed after a quarter of the time and started again. The
exit code is 1 where any of this was broken, or where its memory grew by more than a twentieth in the last half.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx

from tellback.memory import open_memory, run_sync
from tellback.memory.internals import User, Users

_OWNER: Final = "a-token-of-the-household"
_API: Final = "/api/v1"
_KEPT: Final = 15
"""Facts that a user keeps: the oldest beyond are forgotten, so that the memory does not grow by what it holds."""
_SECONDS_BETWEEN: Final = 0.4
_MOST_GROWTH: Final = 0.05
_THINGS: Final = ("boiler", "bicycle", "passport", "piano", "ladder", "tent", "kettle", "violin", "scarf", "lantern")
_PLACES: Final = ("cellar", "attic", "shed", "hall", "garage", "kitchen", "study", "porch", "loft", "pantry")


class Server:
    """The server of the memory at *path*, as a process, on one port for all of its lives."""

    def __init__(self, path: Path) -> None:
        self.path, self.port = path, 0
        self.sizes: list[tuple[float, int]] = []
        self.process: subprocess.Popen[str] | None = None
        self.begin()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it, and wait until it says where it is."""
        folders = {f"XDG_{kind}_HOME": str(self.path.parent / kind.lower()) for kind in ("CONFIG", "STATE", "DATA")}
        environment = {**os.environ, **folders, "TELLBACK_TOKEN": _OWNER, "TELLBACK_AUTOMATIC_BACKUPS": "false"}
        words = ["--memory", str(self.path), "serve", "--port", str(self.port), "--no-browser"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tellback", *words], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        told = []
        for line in self.process.stderr:
            told.append(line)
            if line.startswith("Serving "):
                self.port = int(line.split(" at http://")[1].split(";")[0].rpartition(":")[2])
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError(f"the server did not begin: {''.join(told)[-500:]}")

    def kill(self) -> None:
        """Kill it at once, and start it again."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.begin()

    def end(self) -> int:
        """End it as a person does; return its code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def measure(self) -> None:
        """Note the resident memory of the process."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        self.sizes.append((time.monotonic(), pages * os.sysconf("SC_PAGE_SIZE")))


class Member:
    """A user with a *word* of their own, who knows what was acknowledged, and what was forgotten."""

    def __init__(self, number: int, token: str, words: list[str], server: Server) -> None:
        self.word, self.others = words[number], [word for at, word in enumerate(words) if at != number]
        self.name, self.server, self.draw = f"user{number}", server, random.Random(number)
        self.client = httpx.Client(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=120)
        self.kept: dict[str, str] = {}
        self.unsure: set[str] = set()
        self.gone: set[str] = set()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.number = 0

    def work(self, until: float) -> None:
        """Do one thing after another."""
        acts = [self.remember] * 4 + [self.search] * 6 + [self.chat, self.upload]
        while time.monotonic() < until:
            act = self.forget if len(self.kept) > _KEPT else self.draw.choice(acts)
            try:
                act()
                self.done[act.__name__] += 1
            except httpx.TransportError:
                self.done["cut off"] += 1
                time.sleep(1)
            time.sleep(_SECONDS_BETWEEN * self.draw.uniform(0.5, 1.5))

    def fact(self) -> str:
        self.number += 1
        thing, place = self.draw.choice(_THINGS), self.draw.choice(_PLACES)
        return f"The {thing} number {self.number} of {self.word} is in the {place}."

    def ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        answer = self.client.request(method, f"{self.server.address}{_API}{path}", **what)
        if answer.status_code >= 400:
            self.wrong.append(f"{self.name} {method} {path}: {answer.status_code} {answer.text[:200]}")
        if seen := [word for word in self.others if word in answer.text]:
            self.wrong.append(f"{self.name} {method} {path}: the word of another, {seen[0]}")
        return answer

    def remember(self) -> None:
        text = self.fact()
        self.unsure.add(text)
        report = self.ask("POST", "/memories", json={"text": text}).json()
        self.unsure.discard(text)
        self.kept[text] = report.get("id", "")

    def search(self) -> None:
        others = " ".join(self.draw.sample(self.others, 2))  # their words are no reason to show theirs
        question = f"Where is the {self.draw.choice(_THINGS)} of {self.word}?"
        self.client.post(f"{self.server.address}{_API}/recall", json={"question": f"Where is the tent of {others}?"})
        found = self.ask("POST", "/recall", json={"question": question}).json()
        if [hit for hit in found.get("hits", ()) if hit["namespace"] != self.name]:
            self.wrong.append(f"{self.name}: a hit of another namespace")

    def chat(self) -> None:
        text = f"Today I saw the {self.draw.choice(_THINGS)} of {self.word} once more, visit {self.number}."
        answer = self.ask("POST", "/chat", json={"text": text, "session": f"s{self.number % 5}"})
        if "event: turn_ended" not in answer.text and "ServerEnds" not in answer.text:
            self.wrong.append(f"{self.name}: a turn that does not end")

    def upload(self) -> None:
        body = f"# House of {self.word}\n\nThe gate of {self.word} was painted, coat {self.number}.\n"
        self.ask("POST", "/documents", files={"files": (f"house{self.number % 5}.md", body.encode())})

    def forget(self) -> None:
        text, id = next(iter(self.kept.items()))
        plan = {"ids": [id]}
        token = self.ask("POST", "/forget", json=plan).json().get("confirm")
        self.unsure.add(text)
        del self.kept[text]
        self.ask("POST", "/forget", json={**plan, "confirm": token})
        self.unsure.discard(text)
        self.gone.add(text)


def household(folder: Path, seconds: float, members: int = 10) -> dict[str, Any]:
    """Let so many *members* work for so many *seconds*; return what was done, and what was wrong."""
    path = folder / "m.db"
    memory = open_memory(path)
    users = Users(memory.database)
    tokens = [users.add(User(f"user{number}", f"user{number}")) for number in range(members)]
    run_sync(memory.close())
    words = [f"{'bkrtmlsvnd'[number % 10]}orim{number}ax" for number in range(members)]
    server = Server(path)
    people = [Member(number, token, words, server) for number, token in enumerate(tokens)]
    begun, until = time.monotonic(), time.monotonic() + seconds
    threads = [threading.Thread(target=person.work, args=(until,)) for person in people]
    for thread in threads:
        thread.start()
    owner = httpx.Client(headers={"Authorization": f"Bearer {_OWNER}"}, trust_env=False, timeout=300)
    wrong, backups, killed = [], 0, False
    while time.monotonic() < until:
        time.sleep(min(5.0, seconds / 40))
        if not killed and time.monotonic() > begun + seconds / 4:
            server.kill()
            killed = True
        server.measure()
        if time.monotonic() > begun + (backups + 1) * max(seconds / 20, 10):
            backups += 1
            answer = owner.post(f"{server.address}{_API}/backup")
            if answer.status_code != 200:
                wrong.append(f"a backup: {answer.text[:200]}")
    for thread in threads:
        thread.join()
    if (code := server.end()) not in (0, -signal.SIGINT, 130):
        wrong.append(f"the server ended with {code}")
    wrong += [problem for person in people for problem in person.wrong]
    wrong += [problem for person in people for problem in _lost(path, person)]
    half = [size for at, size in server.sizes if at > begun + seconds / 2]
    part = max(len(half) // 6, 1)
    growth = statistics.median(half[-part:]) / statistics.median(half[:part]) - 1
    done = sum((person.done for person in people), Counter())
    return {
        "seconds": seconds,
        "done": dict(done),
        "backups": backups,
        "kept": sum(len(person.kept) for person in people),
        "forgotten": sum(len(person.gone) for person in people),
        "megabytes": [round(half[0] / 1e6), round(half[-1] / 1e6)],
        "growth": round(growth, 4),
        "wrong": wrong[:20],
        "wrong_in_all": len(wrong),
    }


def _lost(path: Path, person: Member) -> list[str]:
    """Return what of *person* is lost, was not forgotten, or lies with somebody else."""
    memory = open_memory(path, choose_local=False)
    texts: Counter[str] = Counter()
    after = None
    while True:
        page = run_sync(memory.list(namespace=person.name, limit=1000, after=after))
        texts.update(found.text for found in page)
        if (after := page.next) is None:
            break
    run_sync(memory.close())
    problems = [f"{person.name}: lost: {text}" for text in person.kept if not texts[text]]
    problems += [f"{person.name}: twice: {text}" for text in person.kept if texts[text] > 1]
    problems += [f"{person.name}: not forgotten: {text}" for text in person.gone if texts[text]]
    return problems + [f"{person.name}: of another: {text}" for text in texts for word in person.others if word in text]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ten users on one server, which is killed once.")
    parser.add_argument("--seconds", type=float, default=120.0)
    with tempfile.TemporaryDirectory() as place:
        result = household(Path(place), parser.parse_args().seconds)
    print(json.dumps(result, indent=1))
    sys.exit(bool(result["wrong_in_all"] or result["growth"] > _MOST_GROWTH))
