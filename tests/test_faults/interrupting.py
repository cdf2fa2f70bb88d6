"""SIGKILL in the midst of one long operation, again and again from the same file: the old state or the new, whole.

Inner parts, on no face: ``tellback.vectorstore.sqlite.schema``.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from tellback.vectorstore import Entry, Finding, NewerFile, VectorStoreError, open_store
from tellback.vectorstore.sqlite.schema import StoreTables
from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import disagreements, rows
from tests.test_faults.children import Child
from tests.test_faults.planted import STORES
from tests.test_faults.workload import NAMESPACES, SPACES, Workload

_OLD = StoreTables.migrations
_FILLED = "SELECT count(*) FROM entries WHERE length_of_text IS NOT length(text)"


def interrupt(folder: str, seed: int, rounds: int, what: str, store: str = "sound") -> dict[str, Any]:
    """Kill *what* at a random moment, *rounds* times."""
    case, rng = CASES[what](Path(folder), seed, store), random.Random(seed)
    began = time.monotonic()
    case.restore()
    undisturbed = Child(lambda _: case.work()).wait()
    lasts = time.monotonic() - began
    whole = undisturbed.code == 0 and (store != "sound" or case.wrong(must="new") == [])
    broken = [] if whole else [f"undisturbed: {undisturbed}"]
    old = new = 0
    for turn in range(rounds):
        case.restore()
        ended = Child(lambda _: case.work()).kill_after(rng.uniform(0, 1.1 * lasts))
        if ended.code > 0:
            broken.append(f"round {turn}: {ended.said}")
            break
        try:
            broken += [f"round {turn}: {item}" for item in case.wrong()]
        except VectorStoreError as error:
            broken.append(f"round {turn}: {error!r}")
        if broken and store != "sound":
            break
        old, new = old + (case.found == "old"), new + (case.found == "new")
    return {"seed": seed, "rounds": turn + 1, "old": old, "new": new, "broken": broken[:20]}


class Switch:
    """The second space is filled; it is switched to."""

    def __init__(self, folder: Path, seed: int, store: str) -> None:
        self.path, self._base = folder / "memory.db", folder / "base.db"
        self._store, self._seed, self.found = store, seed, ""
        self.before, self.after = (SpacesModel(space=SPACES[0]) for _ in range(2))
        with closing(STORES["sound"](self._base, space=SPACES[0])) as made:
            for item in (made, self.before, self.after):
                self.prepare(item)
        self.change(self.after)

    def prepare(self, store: Any) -> None:
        workload = Workload(self._seed, "upsert")
        for number in range(12):
            workload.apply(number, store)
        store.begin_space(SPACES[1])
        for name in NAMESPACES:
            pending = [entry.id for entry in store.unfilled(namespace=name)]
            rng = random.Random(self._seed)
            vectors = {id: [rng.gauss(0, 1) for _ in range(SPACES[1].dimension)] for id in pending}
            store.fill_space(SPACES[1], vectors, namespace=name)

    def change(self, store: Any) -> None:
        store.commit_space(SPACES[1])

    def restore(self) -> None:
        """Restore the file to its initial state."""
        for end in ("-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        shutil.copy(self._base, self.path)

    def work(self) -> None:
        """The call that is interrupted; it runs in a child."""
        self.change(STORES[self._store](self.path))

    def wrong(self, must: str = "") -> list[str]:
        """Return what is wrong with the state; ``found`` says which state it is."""
        self.found = ""
        with closing(STORES["sound"](self.path)) as store:
            held = rows(store)
            states = {"old": self.before, "new": self.after}
            for name, model in states.items():
                if name == (must or name) and held == rows(model):
                    self.found = name
                    wrong = disagreements(store, model, self._seed)
                    if name == "old":
                        self.change(store)
                        wrong += disagreements(store, self.after, self._seed)
                    return wrong
        return [f"neither {must or 'the old state nor the new'} is there"]


class Compaction(Switch):
    """Half of the rows are deleted; the file is compacted."""

    def prepare(self, store: Any) -> None:
        Switch.prepare(self, store)
        for name in NAMESPACES:
            store.delete([f"id{number:03}" for number in range(30)], namespace=name)

    def change(self, store: Any) -> None:
        if hasattr(store, "compact"):  # the model has nothing to compact: the state stays
            store.compact()


class Migration(Switch):
    """The file is of an older version; opening it brings every row to a newer one, in two steps.

    Where the result is not *right*, a copy from before stays, and the file names it.
    """

    right = True

    def restore(self) -> None:
        super().restore()
        self.clear()

    def clear(self) -> None:
        """Remove what stands beside the file."""
        for left in self._left():
            left.unlink()

    def change(self, store: Any) -> None:
        """Do nothing: opening migrates."""

    def work(self) -> None:
        if self._store == "stepwise":  # the planted fault: each step is committed alone
            _opened_with(m002_length, path=self.path)
            time.sleep(0.5)  # so that it is met
        with nullcontext() if self.right else mock.patch.object(StoreTables, "verify", _found_wrong):
            _opened_with(m002_length, m003_filled, path=self.path)

    def wrong(self, must: str = "") -> list[str]:
        wrong = self._unnamed()
        if not self.right:  # what a killed process was filling can stay, as with any backup
            self.clear()
        return wrong + self._wrong(must) + [f"{left.name} is left" for left in self._left()]

    def _left(self) -> list[Path]:
        """Return the files beside the memory that are not SQLite's."""
        return [*self.path.parent.glob(".tellback-*"), *self.path.parent.glob("*.backup")]

    def _unnamed(self) -> list[str]:
        """Copies of which the file says nothing."""
        connection = apsw.Connection(str(self.path))
        try:
            text = str(connection.execute("SELECT name, value FROM file_facts").fetchall())
        finally:
            connection.close()
        return [f"{left.name} is not named" for left in self.path.parent.glob("*.backup") if left.name not in text]

    def _wrong(self, must: str) -> list[str]:
        version = self._version()
        if version == len(_OLD) and must != "new":
            wrong = Switch.wrong(self)
            wrong += [f"the old version left {left.name}" for left in self._left()]
            _opened_with(m002_length, m003_filled, path=self.path)
        elif version == len(_OLD) + 2:
            wrong = []
            try:
                STORES["sound"](self.path).close()
                wrong.append("an older Tellback opened it")
            except NewerFile:
                pass
            _opened_with(m002_length, m003_filled, path=self.path)
        else:
            return [f"the tables have version {version}"]
        self.found = "old" if version == len(_OLD) else "new"
        wrong += self._not_migrated()
        return wrong

    def _version(self) -> int:
        return int(self._asked("SELECT version FROM components WHERE name = 'store'"))

    def _not_migrated(self) -> list[str]:
        wrong = [] if self._asked("PRAGMA integrity_check") == "ok" else ["the file is damaged"]
        if self._version() != len(_OLD) + 2 or self._asked(_FILLED):
            wrong.append("the newer version is not whole")
        if self._asked("SELECT count(*) FROM entries") != sum(self.after.count(namespace=name) for name in NAMESPACES):
            wrong.append("entries are missing")
        return wrong

    def _asked(self, question: str) -> Any:
        connection = apsw.Connection(str(self.path))
        try:
            return connection.execute(question).fetchall()[0][0]
        finally:
            connection.close()


def m002_length(connection: apsw.Connection) -> None:
    """A made-up step: each entry knows the length of its text."""
    connection.execute("ALTER TABLE entries ADD COLUMN length_of_text INTEGER")


def m003_filled(connection: apsw.Connection) -> None:
    """A made-up step that rewrites every row."""
    connection.execute("UPDATE entries SET length_of_text = length(text)")
    connection.execute("CREATE INDEX entries_by_length ON entries (namespace, length_of_text)")


def _found_wrong(*_: object) -> list[Finding]:
    return [Finding("store", "planted")]


def _opened_with(*newer: Callable[[apsw.Connection], None], path: Path) -> None:
    """Open the file as a newer Tellback would."""
    StoreTables.migrations = (*_OLD, *newer)
    try:
        STORES["sound"](path).close()
    finally:
        StoreTables.migrations = _OLD


class Backup(Switch):
    """A copy is made beside it: it is there whole, or not at all."""

    def restore(self) -> None:
        super().restore()
        self._copy.unlink(missing_ok=True)
        for left in self.path.parent.glob(".tellback-*"):
            left.unlink()

    def change(self, store: Any) -> None:
        if hasattr(store, "backup"):
            store.backup(self._copy)

    @property
    def _copy(self) -> Path:
        return self.path.with_name("backup.db")

    def wrong(self, must: str = "") -> list[str]:
        if not self._copy.exists() and must != "new":
            wrong = super().wrong()  # which makes the copy now
            self.found = "old"
        else:
            wrong, self.found = [], "new"
        with closing(STORES["sound"](self._copy)) as copied:
            return wrong + disagreements(copied, self.before, self._seed)


class Saving:
    """A snapshot of a numpy store takes the place of an earlier one."""

    def __init__(self, folder: Path, seed: int, store: str) -> None:
        self._path, self._store, self.found = folder / "snapshot", store, ""
        self._old = [Entry(f"e{number}", text="old " * 200) for number in range(500)]
        self._new = [Entry(f"e{number}", text="new " * 200) for number in range(500)]

    def restore(self) -> None:
        self._path.unlink(missing_ok=True)
        store = open_store(f"numpy:///{self._path}")
        store.upsert(self._old)
        store.save()

    def work(self) -> None:
        store = open_store(f"numpy:///{self._path}")
        store.upsert(self._new)
        if self._store == "overwriting":  # the planted fault: written in its place
            store.save(self._path.with_name("other"))
            content = self._path.with_name("other").read_bytes()
            with self._path.open("wb", buffering=0) as file:
                for start in range(0, len(content), 5000):
                    file.write(content[start : start + 5000])
                    time.sleep(0.005)  # so that it is met
            return
        store.save()

    def wrong(self, must: str = "") -> list[str]:
        texts = {entry.text[:3] for entry in open_store(f"numpy:///{self._path}").scan()}
        self.found = "".join(texts)
        return [] if self.found in ({must} if must else {"old", "new"}) else [f"it holds {sorted(texts)}"]


CASES: Mapping[str, Callable[[Path, int, str], Any]] = {
    "switch": Switch,
    "compaction": Compaction,
    "migration": Migration,
    "backup": Backup,
    "save": Saving,
}
