"""A disk that fails: at the n-th write, sync or truncation of every n, or because it is full.

After the failure the call has raised the right error, what was there is there, and the next write works.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from tellback.vectorstore import StorageFull, StorageUnwritable, VectorStoreError
from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import disagreements, rows
from tests.test_faults.planted import STORES
from tests.test_faults.workload import SPACES, Workload

_ERRORS = {"full": (apsw.FullError, StorageFull), "broken": (apsw.IOError, StorageUnwritable)}
_BASE_STEPS = 30


class FailingVFS(apsw.VFS):
    """The system's files, as the default of this process; once armed, an operation fails, or all from it on."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.for_good = False
        self.error: type[Exception] = apsw.IOError
        super().__init__("failing", "", makedefault=True)

    def arm(self, after: int, error: type[Exception], *, for_good: bool) -> None:
        self.left, self.error, self.for_good = after, error, for_good

    def disarm(self) -> bool:
        """End it, and tell whether something failed."""
        failed = self.left is not None and self.left < 0
        self.left = None
        return failed

    def count(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left == -1 or (self.left < -1 and self.for_good):
            raise self.error("planted")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - apsw's names, here and below
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, vfs: FailingVFS, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.count()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.count()
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._vfs.count()
        super().xTruncate(size)


def every_operation(folder: str, seed: int, steps: int, first: int = 0, store: str = "sound") -> dict[str, Any]:
    """Fail each disk operation of each of *steps* steps in turn, once with an error and once with a full disk."""
    vfs, run = FailingVFS(), _Run(folder, seed, store)
    failures = 0
    for step in range(_BASE_STEPS + first, _BASE_STEPS + first + steps):
        run.go_to(step)
        for way, (raised, expected) in _ERRORS.items():
            for for_good in (False, True):
                after, failed = 0, True
                while failed and (store == "sound" or not run.broken):
                    failed = run.fail(
                        f"{way} at operation {after}{' for good' * for_good}",
                        expected,
                        lambda arm=(after, raised), good=for_good: vfs.arm(*arm, for_good=good),
                        vfs.disarm,
                    )
                    failures += failed
                    # Every operation of the first steps, every third of the others: they are much alike.
                    after += 1 if step < _BASE_STEPS + first + 3 else 3
    return run.report(failures)


def limited_size(folder: str, seed: int, rounds: int, store: str = "sound") -> dict[str, Any]:
    """Limit files to a random size (``RLIMIT_FSIZE``), so that a call is cut off in its middle."""
    run, hard = _Run(folder, seed, store), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    run.go_to(_BASE_STEPS)
    failures = 0
    for turn in range(rounds):
        size = run.rng.random() * 200_000
        failures += run.fail(
            f"round {turn}: no file above {size:.0f} bytes",
            StorageFull,
            lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), hard)),
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)),
        )
        run.go_to(run.at + 1)
    return run.report(failures)


def small_disk(folder: str, seed: int, rounds: int, store: str = "sound") -> dict[str, Any]:
    """Fill a small file system (tmpfs, which needs the right to mount) to its last pages."""
    place = Path(folder) / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", place], capture_output=True).returncode:
        return {"cannot": "this user may not mount a file system"}
    try:
        run, ballast = _Run(str(place), seed, store), place / "ballast"
        run.go_to(_BASE_STEPS)
        failures = 0
        for turn in range(rounds):
            room = run.rng.randint(0, 150_000)
            failures += run.fail(
                f"round {turn}: {room} bytes left",
                StorageFull,
                lambda room=room: ballast.write_bytes(bytes(max(0, shutil.disk_usage(place).free - room))),
                ballast.unlink,
            )
            run.go_to(run.at + 1)
        return run.report(failures)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def may_mount(folder: str) -> bool:
    """Return whether ``small_disk`` can be run by this user."""
    place = Path(folder) / "tried"
    place.mkdir()
    try:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True).returncode:
            return False
    except FileNotFoundError:
        return False
    subprocess.run(["umount", place], check=True)
    return True


class _Run:
    """A file and the model beside it, step after step; a step is tried on copies of the file."""

    def __init__(self, folder: str, seed: int, store: str) -> None:
        self.rng, self.seed, self.at = random.Random(seed), seed, 0
        self._make, self._path = STORES[store], Path(folder) / "memory.db"
        self._copy = self._path.with_name("copy.db")
        self._model, self._workload = SpacesModel(space=SPACES[0]), Workload(seed)
        self._make(self._path, space=SPACES[0]).close()
        self._after: tuple[int, SpacesModel] | None = None
        self._tries, self.broken = 0, []

    def go_to(self, step: int) -> None:
        """Make the file's state the one before *step*."""
        with closing(self._make(self._path)) as store:
            for number in range(self.at, step):
                self._workload.apply(number, store)
                self._workload.apply(number, self._model)
        self.at = step

    def fail(self, what: str, expected: type[Exception], begin: Callable[[], Any], end: Callable[[], Any]) -> bool:
        """Make the next step on a copy while the disk fails; return whether it did."""
        before, complaint = rows(self._model), f"step {self.at} ({self._workload.kind(self.at)}), {what}"
        self._tries += 1
        with _copied(self._path, self._copy):
            store, error = self._make(self._copy), None
            begin()
            try:
                self._workload.apply(self.at, store)
            except VectorStoreError as raised:
                error = raised
            finally:
                failed = end()
            if error is not None and not isinstance(error, expected):
                self.broken.append(f"{complaint}: {error!r} raised")
            after = self._after_step()
            if rows(store) != (rows(after) if error is None else before):
                self.broken.append(f"{complaint}: it {'raised' if error else 'returned'}, but the store says otherwise")
            if error is not None:
                self._again(store, complaint)
            store.close()
            with closing(STORES["sound"](self._copy)) as again:
                self.broken += [f"{complaint}: {disagreement}" for disagreement in disagreements(again, after, self.at)]
        return error is not None if failed is None else bool(failed)

    def _after_step(self) -> SpacesModel:
        """The model after the next step; made once for all tries of it."""
        if self._after is None or self._after[0] != self.at:
            model = SpacesModel(space=SPACES[0])
            for number in range(self.at + 1):
                self._workload.apply(number, model)
            self._after = (self.at, model)
        return self._after[1]

    def _again(self, store: Any, complaint: str) -> None:
        try:
            self._workload.apply(self.at, store)
        except VectorStoreError as error:
            self.broken.append(f"{complaint}: the disk works again, but the next call raised {error!r}")

    def report(self, failures: int) -> dict[str, Any]:
        return {"seed": self.seed, "tries": self._tries, "failures": failures, "broken": self.broken[:20]}


@contextmanager
def _copied(path: Path, copy: Path) -> Any:
    shutil.copy(path, copy)
    try:
        yield
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            copy.with_name(copy.name + end).unlink(missing_ok=True)
