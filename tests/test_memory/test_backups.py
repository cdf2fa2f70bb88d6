"""Backups of a memory: creation, listing, rotation, restore, and erasure of forgotten memories from them.

Inner parts, on no face: ``tellback.memory.backup_files``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from tellback.memory import ArgumentError, LongTermMemory, Message, StoreError, open_memory, run_sync
from tellback.memory.backup_files import backup_folder
from tellback.memory.internals import is_backup_due, make_daily_backup, restore_memory
from tellback.vectorstore import BusyError, DamageError, NotAStore

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
ATTIC = "The blue teapot is in the attic."
KETTLE = "The red kettle is downstairs."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


def filled(path: Path, *texts: str) -> LongTermMemory:
    memory = open_memory(path, choose_local=False)
    run_sync(memory.remember_many(texts))
    return memory


def texts_of(path: Path) -> list[str]:
    memory = open_memory(path, choose_local=False)
    texts = sorted(found.text for found in run_sync(memory.list()))
    run_sync(memory.close())
    return texts


def flipped(data: bytes, text: str) -> bytes:
    """Return *data* with one bit of the first *text* changed, which no page check sees."""
    place = data.index(text.encode())
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_restore_replaces_the_memory_by_an_owner_only_backup_and_keeps_the_replaced_file(path: Path) -> None:
    memory = filled(path, ATTIC)
    steps: list[tuple[int, int]] = []
    backup = run_sync(memory.backup(path.with_name("b.db"), on_progress=lambda *step: steps.append(step)))
    assert (backup.path.stat().st_mode & 0o777, steps[-1][0]) == (0o600, steps[-1][1])
    run_sync(memory.remember(KETTLE))
    run_sync(memory.close())
    report = restore_memory(backup.path, path)
    assert (report.entries, texts_of(path)) == (1, [ATTIC])
    assert report.kept is not None
    assert texts_of(report.kept) == sorted([ATTIC, KETTLE])
    again = restore_memory(report.kept, path.with_name("elsewhere.db"))  # another machine has no file yet
    assert (again.kept, again.entries) == (None, 2)


def test_restore_refuses_a_damaged_or_foreign_file_and_changes_nothing(path: Path) -> None:
    memory = filled(path, ATTIC)
    run_sync(memory.backup(good := path.with_name("b.db")))
    run_sync(memory.close())
    data, before = good.read_bytes(), path.read_bytes()
    cases = {
        "cut.db": (data[: len(data) // 2], DamageError),
        "flipped.db": (flipped(data, ATTIC), DamageError),
        "text.db": (b"no memory at all" * 100, NotAStore),
        "empty.db": (b"", NotAStore),
    }
    trigger = "CREATE TRIGGER evil AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE key <> NEW.key; END"
    for name, sql in {"trigger.db": trigger, "table.db": "CREATE TABLE more (a REFERENCES operations)"}.items():
        shutil.copy(good, foreign := path.with_name(name))
        apsw.Connection(str(foreign)).execute(sql)
        cases[name] = foreign.read_bytes(), DamageError
    for name, (content, error) in cases.items():
        (bad := path.with_name(name)).write_bytes(content)
        with pytest.raises(error, match=name):
            restore_memory(bad, path)
    with pytest.raises(ArgumentError, match="no file is there"):
        restore_memory(path.with_name("none.db"), path)
    with pytest.raises(ArgumentError, match="the memory itself"):
        restore_memory(path, path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == sorted(["m.db", "b.db", *cases])


def test_restore_replaces_a_memory_too_damaged_to_open(path: Path) -> None:
    memory = filled(path, ATTIC)
    run_sync(memory.backup(good := path.with_name("b.db")))
    run_sync(memory.close())
    path.write_bytes(b"\0" * 9000)
    report = restore_memory(good, path)
    assert texts_of(path) == [ATTIC]
    assert report.kept is not None
    assert report.kept.read_bytes() == b"\0" * 9000


def test_restore_raises_busy_error_while_this_process_has_the_memory_open(path: Path) -> None:
    memory = filled(path, ATTIC)
    run_sync(memory.backup(good := path.with_name("b.db")))
    with pytest.raises(BusyError, match="another process has it open"):
        restore_memory(good, path)
    run_sync(memory.remember(KETTLE))
    run_sync(memory.close())
    assert texts_of(path) == sorted([ATTIC, KETTLE])


@pytest.mark.slow
def test_restore_raises_busy_error_while_another_process_has_the_memory_open(path: Path) -> None:
    memory = filled(path, ATTIC)
    run_sync(memory.backup(good := path.with_name("b.db")))
    run_sync(memory.close())
    code = f"import sys; from tellback.memory import open_memory; m = open_memory({str(path)!r}, choose_local=False); "
    code += "print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        other.stdout.readline()
        with pytest.raises(BusyError, match="another process has it open"):
            restore_memory(good, path)
        other.stdin.close()
    assert texts_of(path) == [ATTIC]


def test_a_daily_backup_is_due_after_a_write_and_once_a_day(path: Path) -> None:
    memory = filled(path, ATTIC)
    assert is_backup_due(path, NOON)
    made = make_daily_backup(path, now=NOON)
    assert made == backup_folder(path) / "2026-11-23.db"
    assert backup_folder(path).stat().st_mode & 0o777 == 0o700
    run_sync(memory.remember(KETTLE))
    assert not is_backup_due(path, NOON)
    assert is_backup_due(path, NOON + timedelta(days=1))
    run_sync(memory.close())
    os.utime(path, (made.stat().st_mtime - 9,) * 2)
    assert not is_backup_due(path, NOON + timedelta(days=1)), "nothing was written since"


def test_seven_daily_and_four_weekly_backups_are_kept_and_fewer_above_max_bytes(path: Path) -> None:
    memory = filled(path, ATTIC)
    for day in range(46):
        os.utime(path, (time.time() + 100 + day,) * 2)
        assert make_daily_backup(path, now=NOON + timedelta(days=day)) is not None
    days = sorted(date.fromisoformat(file.stem) for file in backup_folder(path).glob("*.db"))
    last = (NOON + timedelta(days=45)).date()
    assert days[-7:] == [last - timedelta(days=number) for number in range(6, -1, -1)]
    assert len(days) == 9, "the newest of the last four weeks, two of which are among the last days"
    size = max(file.stat().st_size for file in backup_folder(path).glob("*.db"))
    os.utime(path, (time.time() + 900,) * 2)
    make_daily_backup(path, now=NOON + timedelta(days=46), max_bytes=int(size * 3.5))
    assert len([*backup_folder(path).glob("*.db")]) == 3
    os.utime(path, (time.time() + 999,) * 2)
    assert make_daily_backup(path, now=NOON + timedelta(days=47), max_bytes=1000) is None
    run_sync(memory.close())


def test_forgetting_erases_from_every_backup_of_the_folder_and_keeps_their_other_memories(path: Path) -> None:
    memory = filled(path, ATTIC, KETTLE)
    run_sync(memory.remember_turn("s", [Message.user("The octopus said its secret word: xylophone.")]))
    make_daily_backup(path, now=NOON)
    asked = run_sync(memory.backup())
    elsewhere = run_sync(memory.backup(path.with_name("moved.db")))
    (teapot,) = [found.id for found in run_sync(memory.list()) if found.text == ATTIC]
    receipt = run_sync(memory.forget([teapot]))
    assert (receipt.pending, receipt.parts["backups"]) == (False, 2)
    assert [copy.path for copy in receipt.unreached] == [str(elsewhere.path)]
    octopus = run_sync(memory.forget(session="s"))
    assert octopus.parts["backups"] == 2
    for file in backup_folder(path).iterdir():
        assert not any(word in file.read_bytes() for word in (b"teapot", b"octopus", b"xylophone"))
    checked = run_sync(memory.verify_forgotten(receipt, [ATTIC]))
    assert str(asked.path) in checked.files
    assert [remnant.where for remnant in checked.left] == [str(elsewhere.path)]
    run_sync(memory.close())
    restore_memory(asked.path, path)
    assert texts_of(path) == [KETTLE]


def test_an_ended_grace_period_and_a_forgotten_namespace_are_erased_from_backups(path: Path) -> None:
    now = [NOON]
    memory = open_memory(path, choose_local=False, clock=lambda: now[0])
    teapot = run_sync(memory.remember(ATTIC))
    run_sync(memory.remember(KETTLE, namespace="b"))
    make_daily_backup(path, now=NOON)
    run_sync(memory.forget([teapot.id], grace=timedelta(days=3)))
    run_sync(memory.backup())
    now[0] += timedelta(days=4)
    assert memory.erase_due() == 1
    assert not any(b"teapot" in file.read_bytes() for file in backup_folder(path).iterdir())
    run_sync(memory.forget_namespace("b"))
    assert not any(b"kettle" in file.read_bytes() for file in backup_folder(path).iterdir())
    run_sync(memory.close())


def test_a_damaged_backup_that_may_hold_a_forgotten_text_is_removed(path: Path) -> None:
    memory = filled(path, ATTIC)
    run_sync(memory.backup())
    made = make_daily_backup(path, now=NOON)
    assert made is not None
    made.write_bytes(made.read_bytes()[:40_000])
    assert [backup.path for backup in run_sync(memory.backups(check=True)) if backup.note] == [made]
    run_sync(memory.forget([run_sync(memory.list())[0].id]))
    assert not made.exists()
    run_sync(memory.close())


def test_a_memory_without_a_file_has_no_backups() -> None:
    memory = open_memory("numpy:", choose_local=False)
    with pytest.raises(StoreError, match="in no file"):
        run_sync(memory.backup())


_KILLED = """
import sys, time
from datetime import datetime, timezone
from pathlib import Path
from tellback.memory import open_memory, run_sync
from tellback.memory.internals import restore_memory, make_daily_backup
path, what = Path(sys.argv[1]), sys.argv[2]
print("begins", flush=True)
if what == "backup":
    make_daily_backup(path, now=datetime(2026, 11, 23, tzinfo=timezone.utc))
elif what == "restore":
    restore_memory(path.with_name("b.db"), path)
else:
    memory = open_memory(path, choose_local=False)
    run_sync(memory.forget([sys.argv[3]]))
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", ["backup", "restore", "forget"])
def test_a_kill_at_any_moment_leaves_a_whole_memory_and_whole_backups(path: Path, work: str) -> None:
    filler = [f"Shelf {number} holds jar {number * 7}." for number in range(2000)]
    memory = filled(path, ATTIC, *filler)
    run_sync(memory.backup(path.with_name("b.db")))
    teapot = next(found.id for found in run_sync(memory.list(limit=3000)) if found.text == ATTIC)
    run_sync(memory.close())
    data, ended = path.read_bytes(), 0
    for number in range(12):
        path.write_bytes(data)
        for left in backup_folder(path).glob("*"):
            left.unlink()
        if work == "forget":
            make_daily_backup(path, now=NOON)
        with subprocess.Popen([sys.executable, "-c", _KILLED, path, work, teapot], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.06 * number)
            process.send_signal(signal.SIGKILL)
            ended += process.stdout.read() == b"done\n"
        memory = open_memory(path, choose_local=False)
        memory.erase_due()
        assert not list(memory.store.verify())  # type: ignore[attr-defined]
        assert not [backup.note for backup in run_sync(memory.backups(check=True)) if backup.bytes and backup.note]
        is_gone = run_sync(memory.get([teapot]))[0] is None
        count = run_sync(memory.count())
        run_sync(memory.close())
        assert (is_gone, count) in ((False, 2001), (True, 2000))
        assert is_gone <= (work == "forget")
        held = [file.name for file in backup_folder(path).glob("*.db") if ATTIC.encode() in file.read_bytes()]
        assert not (is_gone and held), f"killed after {0.06 * number:.2f} s"
        for kept in path.parent.glob("m.db.before-restore-*"):
            kept.unlink()
    print(f"{work}: {ended} of 12 had ended before they were killed")
