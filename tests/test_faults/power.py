"""Power loss at any moment: acknowledged writes are on the disk, and unflushed writes do no harm."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from tellback.memory import LongTermMemory
from tellback.vectorstore import Entry, VectorStoreError, open_store
from tellback.vectorstore.sqlite import files
from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import rows
from tests.test_faults.living import LIVES, Plain, step
from tests.test_faults.planted import STORES
from tests.test_faults.recording import Event, Recorder
from tests.test_faults.simulated import SimulatedDisk
from tests.test_faults.workload import SPACES, Workload

WAYS = ("dropped", "kept", "first", "subset", "torn", "torn")
_COPIED_EVERY, _REOPENED_EVERY, _EMPTIED_EVERY = 7, 25, 3
_RECOVERY_BYTES = 4096 + 24 + 32_768
"""A page, the head of its frame, and a part of the index."""


def power_losses(folder: str, seed: int, batches: int, moments: int, states: int, plant: str = "") -> dict[str, Any]:
    """Record so many batches (and copies made beside them), cut the power at so many moments, in several states."""
    PLANTS[plant]()
    return _losses(Path(folder), seed, partial(_record, Workload(seed), batches), _wrong, moments, states)


def memory_losses(
    folder: str, seed: int, steps: int, moments: int, states: int, planted: bool = False
) -> dict[str, Any]:
    """Record so many steps of a memory's life and cut the power: no file of the reopened memory has forgotten words.

    The memory of this process is full of these words, as that of one that has just read them would be. *planted*: the
    recovery of a log is left to SQLite, which writes some of that memory into the index of the log.
    """
    if planted:
        files._recover_log = lambda *_: None
    return _losses(Path(folder), seed, partial(_record_life, seed, steps), _wrong_memory, moments, states)


Expected = dict[str, Any]
"""What each thing that is acknowledged must hold from then on, by its name."""


def _losses(
    folder: Path,
    seed: int,
    record: Callable[[Recorder], Expected],
    wrong: Callable[[Path, list[Event], Expected, str], list[str]],
    moments: int,
    states: int,
) -> dict[str, Any]:
    rng, place, crashed = random.Random(seed), folder / "disk", folder / "crashed"
    place.mkdir()
    recorder = Recorder(place)
    expected = record(recorder)
    recorder.on = False
    broken: list[str] = []
    disk, done, lost = SimulatedDisk(), 0, 0
    for cut in moments_of(recorder.events, rng, moments):
        for event in recorder.events[done:cut]:
            disk.happen(event)
        done = cut
        notes = [event for event in recorder.events[:cut] if event[0] == "done"]
        for state in range(states):
            crashed.mkdir()
            disk.crashed_into(crashed, rng, WAYS[state % len(WAYS)])
            where = f"event {cut} of {len(recorder.events)}, {WAYS[state % len(WAYS)]}"
            broken += [f"{where}: {item}" for item in wrong(crashed, notes, expected, f"{seed}/{cut}/{state}")]
            lost += 1
            shutil.rmtree(crashed)
    return {"seed": seed, "events": len(recorder.events), "losses": lost, "broken": broken[:20]}


def _record_life(seed: int, steps: int, recorder: Recorder) -> Expected:
    """Live on the disk: remember, correct, forget, embed anew; emptying the log now and then, as other work does."""
    plain, life = Plain(), LIVES["sound"](recorder.folder / "memory.db")
    expected: Expected = {"step 0": (deepcopy(plain.state()), frozenset())}
    recorder.note("done", "step", 0)
    for number in range(steps):
        step(number, plain, seed)
        expected[f"step {number + 1}"] = (deepcopy(plain.state()), frozenset(plain.gone))
        step(number, life, seed)
        recorder.note("done", "step", number + 1)
        if number % _EMPTIED_EVERY == 0:
            life.memory.database.empty_log()
    life.close()
    return expected


def _wrong_memory(crashed: Path, notes: list[Event], expected: Expected, seed: str) -> list[str]:
    acknowledged = max([number for _, _, number in notes], default=-1)
    path = crashed / "memory.db"
    if acknowledged < 0:
        return []
    states = [expected[name] for number in (0, 1) if (name := f"step {acknowledged + number}") in expected]
    gone = [text.encode() for text in states[0][1]]
    _free_memory_that_holds(b" ".join(gone))
    with closing(open_store(f"sqlite:///{path}")) as store:
        LongTermMemory(store)
        wrong = [f"open, {text!r} stands in {name}" for name, text in _words_in(crashed, gone)]
    with closing(LIVES["sound"](path)) as life:
        if life.state() not in [state for state, _ in states]:
            wrong.append(f"neither the state after step {acknowledged} nor the next")
        wrong += life.wrong()
    return wrong + [f"closed, {text!r} stands in {name}" for name, text in _words_in(crashed, gone)]


def _free_memory_that_holds(words: bytes) -> None:
    """Leave freed memory full of *words*, in pieces of the size that SQLite's recovery of a log asks for."""
    buffers = [
        bytearray((words * (_RECOVERY_BYTES // len(words) + 1))[:_RECOVERY_BYTES]) for _ in range(60 if words else 0)
    ]
    del buffers[::2]  # the others keep the allocator from joining what is free


def _words_in(folder: Path, texts: list[bytes]) -> list[tuple[str, bytes]]:
    """Return which of *texts* stand in which file of *folder*, the index of the log included."""
    files = [(file.name, file.read_bytes()) for file in sorted(folder.iterdir())]
    return [(name, text) for name, content in files for text in texts if text in content]


def _record(workload: Workload, batches: int, recorder: Recorder) -> Expected:
    """Work on the disk; return what each thing that is acknowledged must hold from then on."""
    folder, model = recorder.folder, SpacesModel(space=SPACES[0])
    expected: Expected = {"rows 0": rows(model)}
    saved = open_store(f"numpy:///{folder}/snapshot", space=SPACES[0])
    store = STORES["sound"](folder / "memory.db", space=SPACES[0])
    recorder.note("done", "rows", 0)
    for number in range(batches):
        workload.apply(number, model)
        expected[f"rows {number + 1}"] = rows(model)
        workload.apply(number, store)
        recorder.note("done", "rows", number + 1)
        if number % _COPIED_EVERY == 0:
            store.backup(folder / f"backup{number}.db")
            recorder.note("done", "backup", number)
            saved.upsert([Entry("number", text=str(number))])
            saved.save()
            recorder.note("done", "saved", number)
        if number % _REOPENED_EVERY == 0:
            store.close()
            store = STORES["sound"](folder / "memory.db")
    store.close()
    return expected


def moments_of(events: list[Event], rng: random.Random, count: int) -> list[int]:
    """Moments anywhere, and as many right after something was acknowledged or named."""
    telling = [
        position + 1
        for position, event in enumerate(events)
        if event[0] in ("done", "link", "rename", "unlink", "sync")
    ]
    chosen = [rng.randint(1, len(events)) for _ in range(count // 2)]
    return sorted(chosen + [rng.choice(telling) for _ in range(count - len(chosen))])


def _wrong(crashed: Path, notes: list[Event], expected: Mapping[str, Any], seed: str) -> list[str]:
    last = {what: [number for _, of, number in notes if of == what] for what in ("rows", "backup", "saved")}
    wrong = []
    try:
        if (crashed / "memory.db").exists():
            wrong += _wrong_store(crashed / "memory.db", max(last["rows"], default=-1), expected, seed)
        elif last["rows"]:
            wrong.append("the file is gone")
        for number in last["backup"][-2:]:
            wrong += _wrong_backup(crashed / f"backup{number}.db", expected[f"rows {number + 1}"])
        if last["saved"]:
            wrong += _wrong_snapshot(crashed / "snapshot", last["saved"][-1])
    except VectorStoreError as error:
        wrong.append(repr(error))
    return wrong


def _wrong_store(path: Path, acknowledged: int, expected: Mapping[str, Any], seed: str) -> list[str]:
    with closing(STORES["sound"](path, space=SPACES[0] if acknowledged < 1 else None)) as store:
        held = rows(store)
        allowed = [expected.get(f"rows {number}") for number in (acknowledged, acknowledged + 1)]
        if held not in allowed:
            items = [name for name, state in expected.items() if state == held]
            return [f"after {acknowledged} acknowledged batches it holds {items or 'no state that ever was'}"]
        return [str(finding) for finding in store.verify()]


def _wrong_backup(path: Path, expected: Any) -> list[str]:
    if not path.exists():
        return [f"{path.name} was acknowledged and is gone"]
    with closing(STORES["sound"](path)) as store:
        wrong = [str(finding) for finding in store.verify()]
        return wrong if rows(store) == expected else [*wrong, f"{path.name} holds something else"]


def _wrong_snapshot(path: Path, number: int) -> list[str]:
    if not path.exists():
        return ["the snapshot was acknowledged and is gone"]
    (entry,) = open_store(f"numpy:///{path}").get(["number"])
    allowed = (str(number), str(number + _COPIED_EVERY))
    return [] if entry is not None and entry.text in allowed else [f"the snapshot holds {entry} after {number}"]


def _unsynced(level: str) -> Callable[[], None]:
    def plant() -> None:
        real = files.open_connection

        def opened(*arguments: Any, **options: Any) -> Any:
            connection = real(*arguments, **options)
            connection.pragma("synchronous", level)
            return connection

        files.open_connection = opened

    return plant


def _without(step: str) -> Callable[[], None]:
    return lambda: setattr(files, step, lambda _: None)


PLANTS: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "commits without a sync": _unsynced("off"),
    "commits with a sync at checkpoints only": _unsynced("normal"),
    "forgets to flush the folder": _without("flush_folder"),
    "forgets to flush a file before it is put in place": _without("_flush_file"),
}
