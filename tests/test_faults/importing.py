"""SIGKILL while a file is imported: all of it is there or none, and repeating it is safe; forgotten bytes stay away."""

from __future__ import annotations

import inspect
import random
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from memory import LongTermMemory, Memory, Message, run_sync
from memory.lanes import ARCHIVE, CONVERSATION, store_namespace
from memory.portable.taking import Taking
from tests.test_faults.children import Child, Say
from vectorstore import open_store
from vectorstore.engines.sqlite_store import SqliteStore

MODES = ("merge", "upsert", "replace")
_SECRET = "a secret that was forgotten: zebra44173921"


def _opened(path: Path) -> LongTermMemory:
    return LongTermMemory(open_store(f"sqlite:///{path}"))


def _export(folder: Path) -> Path:
    """Make an export of memories with versions, history and something that the other file has forgotten."""
    target = folder / "export.jsonl"
    made = _opened(folder / "source.db")
    run_sync(made.remember_many(Memory(f"thing {n} of the file", id=f"thing{n}") for n in range(400)))
    for n in range(0, 400, 40):
        run_sync(made.correct(f"thing{n}", f"thing {n}, better said"))
    run_sync(made.remember(Memory(_SECRET, id="secret")))
    run_sync(made.remember_turn("s", [Message.user(f"line {n}") for n in range(50)]))
    run_sync(made.export(target))
    run_sync(made.close())
    return target


def _state(memory: LongTermMemory) -> dict[str, Any]:
    lanes = [store_namespace("", lane) for lane in (CONVERSATION, ARCHIVE)]
    entries = {lane: {entry.id: entry.text for entry in memory.store.scan(namespace=lane)} for lane in lanes}
    said = [(one.sequence, one.message.text) for one in run_sync(memory.conversations.load("s"))]
    imports = sum(one.kind == "import" for one in run_sync(memory.operations(limit=100)))
    return {**entries, "said": said, "imports": imports}


def _prepare(path: Path) -> None:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    memory = _opened(path)
    run_sync(memory.remember(Memory("said otherwise here", id="thing7")))
    run_sync(memory.remember(Memory("only here", id="here")))
    run_sync(memory.remember(Memory(_SECRET, id="secret")))
    run_sync(memory.forget(["secret"]))
    run_sync(memory.close())


def import_rounds(folder: str, seed: int, rounds: int, plant: str = "") -> dict[str, Any]:
    """Let a child import, kill it, look whether all or nothing was taken; then import again, and compare."""
    rng, place = random.Random(seed), Path(folder)
    file = _export(place)
    old = new = 0
    broken: list[str] = []
    pace: dict[str, float] = {}
    wanted: dict[str, Any] = {}
    for turn in range(rounds):
        mode = MODES[turn % len(MODES)]
        path = place / f"{mode}.db"
        _prepare(path)
        if mode not in wanted:
            began = time.monotonic()
            Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, "")).wait()
            pace[mode] = time.monotonic() - began
            wanted[mode] = _looked_at(path)
            _prepare(path)
        before = _looked_at(path)
        ended = Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, plant)).kill_after(
            rng.random() * 1.1 * pace[mode]
        )
        if ended.code > 0:
            broken.append(f"round {turn}: {ended.said[-1]}")
            break
        found = _looked_at(path)
        taken = found == wanted[mode]
        if not taken and (found != before or "done" in ended.said):
            broken.append(f"round {turn} ({mode}): neither the memory from before nor with all of the file")
            break
        old, new = old + (not taken), new + taken
        Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, "")).wait()
        again = _looked_at(path)
        if {**again, "imports": 1} != wanted[mode]:  # how often it was begun is in the log
            broken.append(f"round {turn} ({mode}): importing again does not make it whole")
        there = b"".join(part.read_bytes() for part in place.glob(f"{mode}.db*"))
        broken += [f"round {turn} ({mode}): what was forgotten is back"] if b"zebra" in there else []
    return {"seed": seed, "rounds": turn + 1, "old": old, "new": new, "broken": broken}


def _looked_at(path: Path) -> dict[str, Any]:
    memory = _opened(path)
    try:
        return {**_state(memory), "wrong": [str(one) for one in memory.store.verify()]}  # type: ignore[attr-defined]
    finally:
        run_sync(memory.close())


def _take(path: Path, file: Path, mode: Any, say: Say, plant: str) -> None:
    if plant == "piece by piece":
        _tear()
    memory = _opened(path)
    run_sync(memory.import_(file, mode=mode, trust="user"))
    say("done")


def _tear() -> None:
    """Let each batch of an import be a transaction of its own."""
    in_one = SqliteStore.transaction

    def torn(self: SqliteStore) -> Any:
        return nullcontext() if inspect.stack()[1].function == Taking.run.__name__ else in_one(self)

    SqliteStore.transaction = torn  # type: ignore[method-assign]
