"""Power loss at any moment: acknowledged writes are on the disk, and unflushed writes do no harm."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.test_faults.agreement import rows
from tests.test_faults.planted import STORES
from tests.test_faults.recording import Event, Recorder
from tests.test_faults.simulated import SimulatedDisk
from tests.test_faults.workload import SPACES, Workload
from vectorstore import Entry, VectorStoreError, open_store
from vectorstore.sqlite import files
from vectorstore.testing import SpacesModel

WAYS = ("dropped", "kept", "first", "subset", "torn", "torn")
_COPIED_EVERY, _REOPENED_EVERY = 7, 25


def power_losses(folder: str, seed: int, batches: int, moments: int, states: int, plant: str = "") -> dict[str, Any]:
    """Record so many batches (and copies made beside them), cut the power at so many moments, in several states."""
    PLANTS[plant]()
    rng, place, crashed = random.Random(seed), Path(folder) / "disk", Path(folder) / "crashed"
    place.mkdir()
    recorder = Recorder(place)
    expected = _record(recorder, Workload(seed), batches)
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
            broken += [f"{where}: {item}" for item in _wrong(crashed, notes, expected, f"{seed}/{cut}/{state}")]
            lost += 1
            shutil.rmtree(crashed)
    return {"seed": seed, "batches": batches, "events": len(recorder.events), "losses": lost, "broken": broken[:20]}


def _record(recorder: Recorder, workload: Workload, batches: int) -> dict[str, Any]:
    """Work on the disk; return what each thing that is acknowledged must hold from then on."""
    folder, model = recorder.folder, SpacesModel(space=SPACES[0])
    expected: dict[str, Any] = {"rows 0": rows(model)}
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
