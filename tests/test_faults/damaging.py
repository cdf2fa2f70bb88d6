"""The file, its log or its shared memory is damaged: right answers or a typed error; no other row, hang or signal.

What was damaged is then named by ``verify``, and every row that can be read is saved into a new file; the damaged one
stays as it is. An answer that lacks something which ``verify`` names is counted apart, as hidden.

Inner parts, on no face: ``tellback.vectorstore.sqlite.integrity``, ``tellback.vectorstore.sqlite.schema``.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw

from tellback.vectorstore import Analyzer, DamageError, NewerFile, NotAStore
from tellback.vectorstore.sqlite import salvage_database
from tellback.vectorstore.sqlite.integrity import entry_checksum
from tellback.vectorstore.sqlite.schema import StoreTables
from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import row, rows
from tests.test_faults.children import Child, Ended, Say
from tests.test_faults.planted import DAMAGE_PLANTS, STORES
from tests.test_faults.workload import IDS, NAMESPACES, SPACES, Workload
from tests.test_faults.wounds import WOUNDS

_TYPED = (DamageError, NotAStore, NewerFile)
_MOVED, _LOGGED = 20, 8
"""Steps whose pages are in the file, and steps that only the log has."""
_ENDS = {"db": "", "wal": "-wal", "shm": "-shm"}
_GOOD = ("right", "refused", "unharmed", "named", "saved", "unreadable", "hidden")


def damage(folder: str, seed: int, rounds: int, plant: str = "") -> dict[str, Any]:
    """Damage a copy of a file in a new way *rounds* times, and examine each in a process of its own."""
    base, rng = _Base(Path(folder), seed), random.Random(seed)
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for turn in range(rounds):
        if broken and plant:
            break
        end = rng.choice(["db", "db", "db", "db", "wal", "shm"])
        wound = rng.choice([*WOUNDS])
        path = base.copied(with_log=end != "db")
        hurt = path.with_name(path.name + _ENDS[end])
        hurt.write_bytes(WOUNDS[wound](bytearray(hurt.read_bytes()), rng))
        ended = Child(lambda say, end=end, path=path: _examine(base, path, end, plant, say)).kill_after(200)
        broken += count_answers(ended, f"round {turn} ({wound} of the {end})", _GOOD, counts)
    return {"seed": seed, "rounds": rounds, **counts, "broken": broken[:20]}


def count_answers(ended: Ended, what: str, good: Collection[str], counts: Counter[str]) -> Iterator[str]:
    """Count what a child said, by its first word; yield what is not among the *good*."""
    if ended.code:
        yield f"{what}: ended with {ended.code}: {ended.said[-1:]}"
    for line in ended.said:
        kind = line.partition(" ")[0]
        counts[kind] += 1
        if kind not in good:
            yield f"{what}: {line}"


class _Base:
    """A file with a log beside it, the same with its log moved in, and every state that they were ever in."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._path = folder, folder / "logged" / "memory.db"
        self._path.parent.mkdir()
        workload, self.model = Workload(seed), SpacesModel(space=SPACES[0])
        assert Child(lambda _: self._make(workload)).wait().code == 0
        self.states: list[Any] = []
        self.known: set[Any] = set()
        for number in range(_MOVED + _LOGGED + 1):
            self.states.append(rows(self.model))
            self.known |= {
                (name, item) for name, held in zip(NAMESPACES, self.states[-1][2], strict=True) for item in held
            }
            if number < _MOVED + _LOGGED:
                workload.apply(number, self.model)
        moved = shutil.copytree(self._path.parent, folder / "moved")
        STORES["sound"](moved / "memory.db").close()  # which moves the log into the file

    def _make(self, workload: Workload) -> None:
        with closing(STORES["sound"](self._path, space=SPACES[0])) as made:
            for number in range(_MOVED):
                workload.apply(number, made)
        opened = STORES["sound"](self._path)
        for number in range(_MOVED, _MOVED + _LOGGED):
            workload.apply(number, opened)
        # The child ends without closing, so that the log stays.

    def copied(self, *, with_log: bool) -> Path:
        """Return the path of a fresh copy."""
        place = self._folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self._folder / ("logged" if with_log else "moved"), place)
        return place / "memory.db"


def _examine(base: _Base, path: Path, end: str, plant: str, say: Say) -> None:
    DAMAGE_PLANTS[plant]()
    before, readable = _hashes(path), list(_readable_ids(path)) if end == "db" else None
    try:
        opened = STORES["sound"](path)
    except _TYPED as error:
        say(f"refused to open: {type(error).__name__}")
    else:
        with closing(opened):
            missed = list(_ask(base, opened, end, say))
            findings = opened.verify()
            for what in missed:
                harm = "refused" if what.startswith("refused") else "hidden"
                say(f"{harm if findings else 'unnamed'} {what}")
            say(f"named {str(findings[0])[:80]!r}" if findings else "unharmed")
    if readable is not None:
        _save(path, readable, before, say)


def _ask(base: _Base, store: Any, end: str, say: Say) -> Iterator[str]:
    """Ask everything; yield what was not answered rightly."""
    allowed, state = base.states[-1:] if end == "db" else base.states[_MOVED:], None
    try:
        state = rows(store)
        strange = [
            item[0]
            for name, held in zip(NAMESPACES, state[2], strict=True)
            for item in held
            if (name, item) not in base.known
        ]
        if strange:
            say(f"another-row {strange[:3]}")
        elif state not in allowed:
            yield "scan"
        else:
            say("right scan")
    except _TYPED as error:
        yield f"refused scan: {type(error).__name__}"
    if end != "db" and state != base.states[-1]:
        return  # an earlier state, whole: the log lost its last transactions
    for what, ask in _QUESTIONS.items():
        try:
            answer = ask(store)
        except _TYPED as error:
            yield f"refused {what}: {type(error).__name__}"
            continue
        if _alike(answer, ask(base.model)):
            say(f"right {what}")
        else:
            yield what


def _questions() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for name in NAMESPACES:
        place = {"namespace": name}
        yield f"get in {name!r}", lambda s, p=place: [None if e is None else row(e) for e in s.get(IDS, **p)]
        yield f"count in {name!r}", lambda s, p=place: s.count(where={"n": {"$lt": 5}}, **p)
        yield (
            f"search in {name!r}",
            lambda s, p=place: _scored(s.search([1.0, 0.5] * (s.space.dimension // 2), 60, **p)),
        )
        yield f"search_text in {name!r}", lambda s, p=place: _scored(s.search_text("zorb run 日本語", 60, **p))


_QUESTIONS = dict(_questions())


def _scored(matches: Any) -> list[tuple[str, float]]:
    return sorted((match.entry.id, match.score) for match in matches)


def _alike(answer: Any, expected: Any) -> bool:
    if answer == expected or not isinstance(expected, list) or len(answer) != len(expected):
        return bool(answer == expected)
    if any(item is None or len(item) != 2 for item in expected):
        return False
    return all(a[0] == b[0] and abs(a[1] - b[1]) < 1e-4 for a, b in zip(answer, expected, strict=True))


def _hashes(path: Path) -> dict[str, str]:
    files = (file for file in path.parent.iterdir() if not file.name.endswith("-shm"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _readable_ids(path: Path) -> Iterator[str]:
    """Yield the ids of the rows that plain SQL reads one by one, and that are what was written."""
    connection = apsw.Connection(f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    columns = "id, revision, text, context, metadata, no_vector, checksum"
    try:
        for key in range(1, 700):
            with suppress(apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.SQLError, UnicodeDecodeError):
                for *content, checksum in connection.execute(f"SELECT {columns} FROM entries WHERE key = ?", (key,)):
                    if checksum in [entry_checksum(*content, has_vector=has) for has in (True, False)]:
                        yield content[0]
    finally:
        connection.close()


def _save(path: Path, readable: list[str], before: dict[str, str], say: Say) -> None:
    saved = path.parent.parent / "saved.db"
    saved.unlink(missing_ok=True)
    now = {name: item for name, item in _hashes(path).items() if name in before}
    try:
        count = salvage_database(path, saved, components=[StoreTables(Analyzer())]).saved("entries")
    except _TYPED as error:
        say(f"unsaved {len(readable)} rows: {error}" if readable else "unreadable")
        return
    if {name: item for name, item in _hashes(path).items() if name in before} != now:
        say("changed: saving what is left changed the damaged file")
    with closing(STORES["sound"](saved)) as store:
        ids = [entry.id for name in store.namespaces() for entry in store.scan(namespace=name)]
        findings = store.verify()
    if not Counter(readable) - Counter(ids) and count == len(ids) and not findings:
        say(f"saved {count}")
    else:
        say(f"unsaved: {len(ids)} of {len(readable)} rows, counted {count}, {findings[:2]}")
