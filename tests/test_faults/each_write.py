"""One write path, interrupted at each of its writes: whole or absent, and repeatable."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tellback.memory import LongTermMemory, MemoryLayerError, run_sync
from tellback.vectorstore import VectorStoreError
from tests.test_faults.children import Child, Ended, Say
from tests.test_faults.logged import wrongly_logged
from tests.test_faults.statements import Disk, Statements, rows_of
from tests.test_faults.tried_on import FILE, HISTORY, Kept, begin, kept
from tests.test_faults.write_paths import PATHS, Call, WritePath

Rows = Mapping[str, list[Any]]
_NAMESPACES = ("", "other")
_OURS = (VectorStoreError, MemoryLayerError)


class Bench:
    """A folder in which one memory after another is put; documents are read from it, so its name stays."""

    def __init__(self, folder: Path, *, apart: bool = False) -> None:
        self.work, self._base, self._from, self._states = (folder / name for name in ("work", "base", "from", "states"))
        self._apart = apart
        begin(self.work, apart=apart)
        shutil.copytree(self.work, self._base)

    def prepare(self, path: WritePath) -> None:
        """Make the initial state of *path*."""
        _put(self._base, self.work)
        if path.before is not None:
            path.before(self.work)
        _put(self.work, self._from)

    def restore(self) -> None:
        """Restore the initial state."""
        _put(self._from, self.work)

    def ended(self, path: WritePath) -> list[Path]:
        """Make the call; return a folder for each of its commits: what is there when the process ends right then."""
        self.restore()
        shutil.rmtree(self._states, ignore_errors=True)
        self._states.mkdir()
        disk, states = Disk(self.work / FILE, self.work / HISTORY), []

        def committed(file: str) -> None:
            if Path(file).name in (FILE, HISTORY):
                states.append(self._states / str(len(states)))
                disk.keep(states[-1])

        with Statements() as statements, kept(self.work) as opened:
            statements.committed = committed
            run_sync(path.call(opened.memory, self.work))
            statements.committed = lambda _: None
        disk.close()
        return states

    def killed(self, path: WritePath, commit: int) -> Ended:
        """Make the call in a process that is killed right after its commit of that number."""
        self.restore()

        def work(say: Say) -> None:
            left = [*range(commit + 1)]

            def committed(file: str) -> None:
                if Path(file).name in (FILE, HISTORY) and left.pop() == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            with Statements() as statements, kept(self.work) as opened:
                statements.committed = committed
                run_sync(path.call(opened.memory, self.work))
            say("it was not killed")

        return Child(work).wait()

    def open_as(self, state: Path) -> None:
        """Put a state that the call has left in the place of the memory."""
        self.restore()
        for file in state.iterdir():
            shutil.copy(file, self.work)

    def rows(self) -> Rows:
        """Return what stands in the tables, those of a history of its own included."""
        rows = rows_of(self.work / FILE)
        if self._apart:
            rows |= {
                name: stated for name, stated in rows_of(self.work / HISTORY).items() if name.startswith("history_")
            }
        return rows

    def files(self) -> list[Path]:
        """Everything in the folder that is not SQLite's own."""
        return [path for path in sorted(self.work.rglob("*")) if not path.name.startswith((FILE, HISTORY))]

    def looked_at(self) -> tuple[Rows, dict[str, Any]]:
        """Return the rows of the memory, and what they tell."""
        with self.opened() as opened:
            rows = self.rows()
            return rows, told(opened.memory, rows)

    def unsound(self, path: WritePath) -> list[str]:
        """Return what is damaged, and what the log says and is not so."""
        with self.opened() as opened:
            found = [f"verify: {item}" for item in (*opened.memory.store.verify(), *opened.history.verify())]
            return found + [item for item in wrongly_logged(opened.memory) if not path.ahead or "written by" in item]

    def torn(self, path: WritePath, before: Rows, after: Rows) -> list[str]:
        """Return what is left neither as it was before nor as it is after; of two files one is ahead."""
        left = self.rows()
        groups = path.together if path.steps else (tuple({*before, *left, *after} - {*path.beside}),)
        found = []
        for names in groups if not self._apart else ():
            was, becomes, now = ({name: rows.get(name) for name in names} for rows in (before, after, left))
            if now not in (was, becomes):
                changed = [name for name in sorted(names) if was[name] != now[name]]
                found.append(f"neither nothing of it nor all is there: {', '.join(changed)} changed")
        if self._apart and differing(left, after, path.beside + path.last):
            found += [f"{name} changed before all else had" for name in path.last if left[name] != before[name]]
        return found

    def not_as(self, path: WritePath, after: Rows, whole: dict[str, Any]) -> list[str]:
        """Return what is not as *path* leaves it."""
        rows, all_told = self.looked_at()
        if path.steps or self._apart:
            names = sorted({*whole, *all_told} - {*path.beside})
            return [f"{name} is not as it is undisturbed" for name in names if all_told.get(name) != whole.get(name)]
        return [f"{name} is not as it is undisturbed" for name in differing(rows, after, path.beside)]

    def bytes_of(self, words: tuple[str, ...]) -> list[str]:
        """Return what is left of *words* in the files of the memory, which is closed."""
        text = b"".join(file.read_bytes() for name in (FILE, HISTORY) for file in self.work.glob(f"{name}*"))
        return [f"{word!r} is still on the disk" for word in words if word.encode() in text]

    @contextmanager
    def opened(self) -> Iterator[Kept]:
        """Open the memory; what a history of its own has and the memory lacks is then completed, as on any opening."""
        with kept(self.work) as opened:
            if self._apart:
                opened.memory.complete_now()
                opened.again()
            yield opened

    def again(self, path: WritePath) -> list[str]:
        """Repeat the call; return the faults found."""
        with self.opened() as opened:
            error = _error_of(path.again or path.call, opened.memory, self.work)
        return [] if error is None else [f"made again, it raised {error!r}"]


def wrong_when_ended(bench: Bench, path: WritePath, *, really: bool = False) -> tuple[int, list[str]]:
    """End the process after each commit of *path*; return how many there were, and what is wrong with what is left.

    Each state that it leaves is a copy of the files, or (*really*) what a child leaves that is killed then.
    """
    bench.prepare(path)
    before, nothing = bench.looked_at()
    states = bench.ended(path)
    after, whole = bench.looked_at()
    wrong = []
    for number, state in enumerate(states):
        if really:
            found = list(bench.killed(path, number).said)
        else:
            found = []
            bench.open_as(state)
        found += bench.torn(path, before, after)
        found += bench.unsound(path)
        if differing(bench.rows(), after, path.beside):
            found += bench.again(path)
            if path.again is None or bench.looked_at()[1] != nothing:
                found += bench.not_as(path, after, whole)
        found += bench.bytes_of(path.gone)
        wrong += [f"{path.name}, ended after commit {number}: {fault}" for fault in found]
    return len(states), wrong


def wrong_when_refused(bench: Bench, path: WritePath, most: int | None = None) -> tuple[int, list[str]]:
    """Make each write of *path* fail (about *most* of them, evenly chosen), and check the remaining state.

    Returns how many failed, and what is wrong.
    """
    bench.prepare(path)
    before = bench.rows()
    with Statements() as statements, bench.opened() as opened:
        statements.fail(None)
        run_sync(path.call(opened.memory, bench.work))
        step = max(1, statements.written // most) if most else 1
    after, whole = bench.looked_at()
    wrong: list[str] = []
    tries, position = 0, -step
    passed = False
    while not passed:
        bench.restore()
        files = bench.files()
        with Statements() as statements, bench.opened() as opened:
            refused = True
            while refused and not passed:
                tries, position = tries + 1, position + step
                opened.again()
                statements.fail(position)
                error = _error_of(path.call, opened.memory, bench.work)
                refused, passed = error is not None, not statements.failed
                statements.fail(None)
                if passed and refused:
                    wrong.append(f"{path.name}, after write {position - step} failed: made again, it raised {error!r}")
                if passed or not refused or path.steps:
                    break
                left = bench.rows()
                found = [f"{name} is not as before" for name in differing(left, before, path.beside)]
                found += [f"{hit.name} is left" for hit in bench.files() if hit not in files]
                wrong += [f"{path.name}, write {position} failed: {hit}" for hit in found]
            if not passed and not refused:
                run_sync(opened.memory.flush())
        found = bench.unsound(path)
        found += (bench.again(path) if path.steps else []) or bench.not_as(path, after, whole)
        found += bench.bytes_of(path.gone)
        wrong += [f"{path.name}, write {position} failed: {hit}" for hit in found]
    return tries - 1, wrong


def _error_of(call: Call, memory: LongTermMemory, folder: Path) -> Exception | None:
    try:
        run_sync(call(memory, folder))
    except _OURS as error:
        return error
    return None


def _put(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def differing(one: Rows, other: Rows, beside: tuple[str, ...] = ()) -> list[str]:
    """Return the tables in which two states differ."""
    return [name for name in sorted({*one, *other} - {*beside}) if one.get(name) != other.get(name)]


def told(memory: LongTermMemory, rows: Rows) -> dict[str, Any]:
    """Return what a memory holds, without which call wrote it and at which place of the file it is."""
    lanes = {lane: {} for lane in memory.store.namespaces()}
    for lane, held in lanes.items():
        for entry in memory.store.scan(namespace=lane):
            metadata = {name: value for name, value in entry.metadata.items() if name != "operation"}
            vector = None if entry.vector is None else entry.vector.tolist()
            held[entry.id] = (entry.text, entry.context, metadata, entry.no_vector, vector)
    log = {
        (operation.kind, change.id, change.gone)
        for namespace in _NAMESPACES
        for operation in run_sync(memory.operations(limit=10_000, namespace=namespace))
        for change in operation.changes
    }
    plain = {name: sorted(rows.get(name, [])) for name in ("tombstones", "tombstone_words", "keys", "embedder_probes")}
    numbered = {
        name: sorted(row[1:] for row in rows.get(name, [])) for name in ("history_messages", "documents", "held")
    }
    return {**lanes, **plain, **numbered, "log": log}


def killed_at_each_commit(folder: str, names: list[str]) -> dict[str, Any]:
    """Kill a process right after each commit of the ways that are named."""
    bench, kills, broken = Bench(Path(folder)), 0, []
    for path in PATHS:
        if path.name in names:
            commits, wrong = wrong_when_ended(bench, path, really=True)
            kills += commits
            broken += wrong
    return {"kills": kills, "broken": broken}
