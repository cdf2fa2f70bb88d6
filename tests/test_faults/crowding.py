"""Writers and readers in many processes on one file, its first creation raced.

Writers write whole batches of their own; readers ask all the time, and must never see half of one, nor less than they
saw before. In the end every acknowledged row is there once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from tellback.vectorstore import Entry, Space
from tests.test_faults.children import Child, Say, Sign
from tests.test_faults.planted import STORES

_SPACE = Space("toy", 4)
_BATCH = 5


def crowd(folder: str, rounds: int, writers: int, readers: int, batches: int, store: str = "sound") -> dict[str, Any]:
    """Run *rounds* rounds of so many processes, each on a new file that all of them race to make."""
    broken, longest, seen = [], 0.0, 0
    for turn in range(rounds):
        path, present, looked = Path(folder) / f"round{turn}.db", Sign(), Sign()
        children = [
            *(Child(_writer(path, store, present, looked, number, batches)) for number in range(writers)),
            *(Child(_reader(path, store, present, looked, writers * batches * _BATCH)) for _ in range(readers)),
        ]
        present.give()
        looked.give()
        for child in children:
            ended = child.wait()
            for line in ended.said:
                what, _, value = line.partition(" ")
                if what == "waited":
                    longest = max(longest, float(value))
                elif what == "looked":
                    seen += int(value)
                else:
                    broken.append(f"round {turn}: {line}")
            if ended.code:
                broken.append(f"round {turn}: a process ended with {ended.code}")
        broken += [f"round {turn}: {item}" for item in _left(path, writers, batches)]
    return {
        "rounds": rounds,
        "acknowledged": rounds * writers * batches,
        "looks": seen,
        "longest wait in seconds": round(longest, 3),
        "broken": broken[:20],
    }


def hand_over(folder: str, times: int, store: str = "sound") -> dict[str, Any]:
    """Two processes take turns: one writes, and the other's next call of each kind must see it."""
    path, broken = Path(folder) / "memory.db", []
    with closing(STORES["sound"](path, space=_SPACE)) as made:
        made.upsert([Entry("warm", [0, 0, 0, 1], "warm")])

    def read(say: Say) -> None:
        with closing(STORES[store](path)) as opened:
            opened.search([1, 0, 0, 0], 1)
            opened.search_text("warm")
            say("ready")
            (path.with_name("turn") / "ready").touch()
            for turn in range(times):
                while not (path.with_name("turn") / str(turn)).exists():
                    time.sleep(0.0005)
                ids = {
                    "get": [item.id for item in opened.get([f"new{turn}"]) if item],
                    "search": [item.entry.id for item in opened.search(_direction(turn), 1)],
                    "search_text": [item.entry.id for item in opened.search_text(f"word{turn}")],
                }
                say(str([what for what, found in ids.items() if found != [f"new{turn}"]]))
                (path.with_name("turn") / f"{turn} seen").touch()

    path.with_name("turn").mkdir()
    child = Child(read)
    _wait_for(path.with_name("turn") / "ready")  # a reader that has read nothing yet is deaf to nothing
    with closing(STORES["sound"](path)) as writing:
        for turn in range(times):
            writing.upsert([Entry(f"new{turn}", _direction(turn), f"word{turn}")])
            (path.with_name("turn") / str(turn)).touch()
            _wait_for(path.with_name("turn") / f"{turn} seen")
    ended = child.wait()
    broken += [f"hand-over {turn}: stale {missed}" for turn, missed in enumerate(ended.said[1:]) if missed != "[]"]
    if ended.code or len(ended.said) != times + 1:
        broken.append(f"the reader ended with {ended.code} after {ended.said[-1:]}")
    return {"hand-overs": times, "broken": broken[:20]}


def _wait_for(sign: Path) -> None:
    until = time.monotonic() + 100
    while not sign.exists() and time.monotonic() < until:
        time.sleep(0.0005)


def _direction(turn: int) -> list[float]:
    """Another one for each turn, and none very near to another."""
    return [math.cos(turn), math.sin(turn), 0, 0]


def _writer(path: Path, store: str, there: Sign, looked: Sign, number: int, batches: int) -> Any:
    def work(say: Say) -> None:
        looked.give()
        there.give()
        there.wait()
        longest = 0.0
        with closing(STORES[store](path, space=_SPACE)) as opened:
            for batch in range(batches):
                if batch == 1:
                    looked.wait()  # else all might be written before the first reader looks
                began = time.monotonic()
                opened.upsert(
                    Entry(f"{number}-{batch}-{i}", [number, batch, i, 1], f"batch {batch}", metadata={"w": number})
                    for i in range(_BATCH)
                )
                longest = max(longest, time.monotonic() - began)
        say(f"waited {longest}")

    return work


def _reader(path: Path, store: str, there: Sign, looked: Sign, total: int) -> Any:
    def work(say: Say) -> None:
        there.give()
        there.wait()
        looks, before, until = 0, 0, time.monotonic() + 250
        with closing(STORES[store](path, space=_SPACE)) as opened:
            while before < total and time.monotonic() < until:
                with opened.view([""]) as view:
                    found = [match.entry.id for match in view.search([1, 1, 1, 1], total)]
                whole = Counter(id.rpartition("-")[0] for id in found)
                if set(whole.values()) - {_BATCH}:
                    say(f"a reader saw a part of a batch: {whole}")
                if len(found) < before:
                    say(f"a reader saw {len(found)} rows after {before}")
                looks, before = looks + 1, len(found)
                if looks == 1:
                    looked.give()
        if before < total:
            say(f"a reader saw only {before} of {total} rows in the end")
        say(f"looked {looks}")

    return work


def _left(path: Path, writers: int, batches: int) -> list[str]:
    expected = {f"{w}-{batch}-{i}" for w in range(writers) for batch in range(batches) for i in range(_BATCH)}
    with closing(STORES["sound"](path)) as store:
        entries = list(store.scan())
        wrong = [str(finding) for finding in store.verify()]
    if {entry.id for entry in entries} != expected or len(entries) != len(expected):
        wrong.append(f"{len(entries)} rows of {len(expected)} are there")
    if sorted(entry.revision for entry in entries) != list(range(1, len(expected) + 1)):
        wrong.append("two writes have the same revision")
    return wrong
