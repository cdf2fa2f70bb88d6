"""A migration that is stopped at each of its steps: killed there, the disk failing there, or the power gone."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from tellback.vectorstore import StorageFull, StorageUnwritable, VectorStoreError
from tellback.vectorstore.sqlite import backup
from tests.test_faults.children import Child, Ended, Say, Sign
from tests.test_faults.failing_disk import FailingVFS
from tests.test_faults.interrupting import Migration
from tests.test_faults.planted import STORES
from tests.test_faults.power import WAYS, moments_of
from tests.test_faults.recording import Recorder
from tests.test_faults.simulated import SimulatedDisk
from tests.test_faults.workload import SPACES

_ALIKE = 2
"""Of writes of pages, which are much alike, one in so many is a step where not each is."""
_FAILURES = {"full": (apsw.FullError, 28, StorageFull), "broken": (apsw.IOError, 5, StorageUnwritable)}


def stopped_at_each_step(
    folder: str, seed: int, how: str, right: bool, each: bool = False, plant: str = ""
) -> dict[str, Any]:
    """Stop the opening that migrates at each of its steps in turn; a copy stays where the result is not *right*.

    *how*: "killed", "full" or "broken", and "full for good" or "broken for good", where each later step fails, too.
    """
    case = Migration(Path(folder), seed, "sound")
    case.right = right
    steps = old = new = 0
    broken: list[str] = []
    while not (broken and plant):
        case.restore()
        ended = Child(partial(_stopped, case, steps, how, each, plant)).wait()
        broken += [f"step {steps}: {item}" for item in _wrong(case, how, ended)]
        old, new = old + (case.found == "old"), new + (case.found == "new")
        if ended.said and ended.said[-1] == "undisturbed":
            break
        steps += 1
    return {"seed": seed, "steps": steps, "old": old, "new": new, "broken": broken[:20]}


def power_lost(folder: str, seed: int, moments: int) -> dict[str, Any]:
    """Cut the power at so many moments of the opening that migrates, each in every way that a disk may be left."""
    place, rng = Path(folder) / "disk", random.Random(seed)
    place.mkdir()
    recorder = Recorder(place)
    case = Migration(Path(folder), seed, "sound")
    case.path = place / "memory.db"
    made = STORES["sound"](case.path, space=SPACES[0])
    case.prepare(made)
    made.close()
    begun = len(recorder.events)
    case.work()
    recorder.on = False
    disk, done, losses = SimulatedDisk(), 0, 0
    broken: list[str] = []
    events = len(recorder.events) - begun
    for cut in (begun + moment for moment in moments_of(recorder.events[begun:], rng, moments)):
        for event in recorder.events[done:cut]:
            disk.happen(event)
        done = cut
        for way in sorted(set(WAYS)):
            shutil.rmtree(place)
            place.mkdir()
            disk.crashed_into(place, rng, way)
            losses += 1
            try:
                broken += [f"event {cut - begun} of {events}, {way}: {item}" for item in case.wrong()]
            except VectorStoreError as error:
                broken.append(f"event {cut - begun} of {events}, {way}: {error!r}")
    return {"seed": seed, "events": events, "losses": losses, "broken": broken[:20]}


def raced(folder: str, seed: int, rounds: int, openers: int) -> dict[str, Any]:
    """Let so many processes open the older file at once, whose result is not right: one of them makes a copy."""
    case = Migration(Path(folder), seed, "sound")
    case.right = False
    copies, broken = 0, []
    for turn in range(rounds):
        case.restore()
        sign = Sign()
        children = [Child(partial(_racing, case, sign)) for _ in range(openers)]
        sign.give()
        items = [line for child in children for line in child.wait().said]
        copies += items.count("a copy")
        broken += [f"round {turn}: {item}" for item in [*{*items} - {"a copy"}, *case.wrong(must="new")]]
    return {"seed": seed, "rounds": rounds, "copies": copies, "broken": broken[:20]}


def _racing(case: Migration, there: Sign, say: Say) -> None:
    real = backup.write_backup

    def told(*arguments: Any, **options: Any) -> None:
        say("a copy")
        real(*arguments, **options)

    there.give()
    there.wait()
    with mock.patch.object(backup, "write_backup", told):
        case.work()


class _Steps(FailingVFS):
    """Counts what is done to the disk, by SQLite and by Python."""

    def __init__(self, each: bool) -> None:
        super().__init__()
        self._each, self._writes = each, 0
        for name in ("open", "link", "unlink", "write", "fsync"):
            setattr(os, name, self._around(getattr(os, name)))

    def count(self) -> None:
        self._writes += 1
        if self._each or self._writes % _ALIKE == 0:
            super().count()

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        FailingVFS.count(self)
        super().xDelete(name, syncdir)

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            try:
                FailingVFS.count(self)
            except apsw.Error as error:
                number = 28 if isinstance(error, apsw.FullError) else 5
                raise OSError(number, os.strerror(number)) from error
            return real(*arguments, **options)

        return counted


class _Killed(Exception):
    """Error whose construction kills the process."""

    def __init__(self, *_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def _stopped(case: Migration, step: int, how: str, each: bool, plant: str, say: Say) -> None:
    way, *for_good = how.split(" for good")
    steps = _Steps(each)
    steps.arm(step, _Killed if way == "killed" else _FAILURES[way][0], for_good=bool(for_good))
    try:
        with mock.patch.object(backup, "record_backup", PLANTS.get(plant, backup.record_backup)):
            case.work()
    except VectorStoreError as error:
        steps.disarm()
        say(type(error).__name__)
    else:
        say("stopped" if steps.disarm() else "undisturbed")


def _wrong(case: Migration, how: str, ended: Ended) -> list[str]:
    if how == "killed":
        expected = [] if ended.code == -signal.SIGKILL else ["undisturbed"]
    else:
        expected = ["stopped", "undisturbed", _FAILURES[how.split()[0]][2].__name__]
    wrong = [f"it said {item}" for item in ended.said if item not in expected]
    try:
        return wrong + case.wrong()
    except VectorStoreError as error:
        return [*wrong, repr(error)]


def _with_the_migration(connection: Any, path: Path, time: str, real: Any = backup.record_backup) -> None:
    if path.exists():
        real(connection, path, time)


PLANTS: Mapping[str, Callable[..., None]] = {
    "records a copy with the migration, and not before": _with_the_migration,
}
