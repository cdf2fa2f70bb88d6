"""SIGKILL while a file is imported: nothing that was there is lost, and repeating it makes it whole.

Each memory comes with all its versions. What was forgotten stays away.

Inner parts, on no face: ``tellback.memory.export_import``, ``tellback.memory.export_import.importer``.
"""

from __future__ import annotations

import inspect
import random
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tellback.memory import LongTermMemory, Memory, Message, run_sync
from tellback.memory.export_import import reader
from tellback.memory.export_import.importer import Importer
from tellback.memory.internals import ARCHIVE, CONVERSATION, store_namespace
from tellback.vectorstore import SqliteStore, open_store
from tests.test_faults.children import Child, Say

MODES = ("merge", "upsert")
_BATCH = 50
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
    items = [(operation.sequence, operation.message.text) for operation in run_sync(memory.conversations.load("s"))]
    imports = sum(operation.kind == "import" for operation in run_sync(memory.operations(limit=100)))
    return {**entries, "said": items, "imports": imports}


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
    """Kill a child during an import, check the remaining state, then import again and compare."""
    rng, place = random.Random(seed), Path(folder)
    file = _export(place)
    old = new = 0
    broken: list[str] = []
    pace: dict[str, tuple[float, int]] = {}
    wanted: dict[str, Any] = {}
    for turn in range(rounds):
        mode = MODES[turn % len(MODES)]
        path = place / f"{mode}.db"
        _prepare(path)
        if mode not in wanted:
            began = time.monotonic()
            undisturbed = Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, "")).wait()
            assert undisturbed.code == 0, undisturbed
            pace[mode] = time.monotonic() - began, len(undisturbed.said)
            wanted[mode] = _looked_at(path)
            _prepare(path)
        before = _looked_at(path)
        lasts, line_count = pace[mode]
        lines = rng.randrange(line_count)
        ended = Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, plant)).kill_after(
            rng.random() * (lasts / line_count if lines else lasts), lines=lines
        )
        if ended.code > 0:
            broken.append(f"round {turn}: {ended.said[-1]}")
            break
        found = _looked_at(path)
        taken = found == wanted[mode]
        lost = _lost(before, found, wanted[mode])
        if not taken and (lost or "done" in ended.said):
            broken.append(f"round {turn} ({mode}): neither the memory from before nor with all of the file: {lost}")
            break
        old, new = old + (not taken), new + taken
        Child(lambda say, path=path, mode=mode: _take(path, file, mode, say, "")).wait()
        again = _looked_at(path)
        if {**again, "imports": 1} != wanted[mode]:  # how often it was begun is in the log
            broken.append(f"round {turn} ({mode}): importing again does not make it whole")
        present = b"".join(part.read_bytes() for part in place.glob(f"{mode}.db*"))
        broken += [f"round {turn} ({mode}): what was forgotten is back"] if b"zebra" in present else []
    return {"seed": seed, "rounds": turn + 1, "old": old, "new": new, "broken": broken}


def _lost(before: dict[str, Any], found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return what is wrong with a memory that has a part of the file: lost, made up, or without its versions."""
    lane, archive = store_namespace("", CONVERSATION), store_namespace("", ARCHIVE)
    wrong = [str(hit) for hit in found["wrong"]]
    for id, text in before[lane].items():
        kept = {found[lane].get(id), *(old for hit, old in found[archive].items() if hit.startswith(f"{id}@"))}
        wrong += [] if text in kept else [f"{id} is lost"]
    for id, text in found[lane].items():
        wrong += [] if text in (before[lane].get(id), wanted[lane].get(id)) else [f"{id} is made up"]
        versions, whole = ({hit for hit in state[archive] if hit.startswith(f"{id}@")} for state in (found, wanted))
        if id not in before[lane] and versions != whole:
            wrong.append(f"{id} lacks versions")
    return wrong


def _looked_at(path: Path) -> dict[str, Any]:
    memory = _opened(path)
    try:
        return {**_state(memory), "wrong": [str(item) for item in memory.store.verify()]}  # type: ignore[attr-defined]
    finally:
        run_sync(memory.close())


def _take(path: Path, file: Path, mode: Any, say: Say, plant: str) -> None:
    reader._BATCH = _BATCH
    if plant:
        _tear()
    memory = _opened(path)
    run_sync(memory.import_(file, mode=mode, trust="user", on_progress=lambda done, _: say(f"{done} so far")))
    say("done")


def _tear() -> None:
    """Plant a fault: split the one transaction of each batch."""
    in_one = SqliteStore.transaction
    caller = Importer._merge.__name__

    def torn(self: SqliteStore, **options: Any) -> Any:
        above = [frame.function for frame in inspect.stack()[1:4]]
        return nullcontext() if caller in above and "_transaction" in above else in_one(self, **options)

    SqliteStore.transaction = torn  # type: ignore[method-assign]
