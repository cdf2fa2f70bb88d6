"""Folder of a memory's own backups: its path, its files, the lock for changing them, and the mark of an erasure.

The folder stands beside the memory (``memory.db.backups``, 0700). A backup that is made of its own accord is named by
its day (``2026-11-23.db``), one that was asked for by its second; the first kind alone is ever thinned out.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

_ENDING: Final = ".db"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.db")
_LOG_SUFFIXES: Final = ("", "-wal")
_LOCK: Final = ".lock"
_MARK: Final = ".erasing"
_SECONDS_BETWEEN_TRIES: Final = 0.05


def backup_folder(memory: Path) -> Path:
    """Return the folder of the backups of the file *memory*."""
    return memory.with_name(memory.name + ".backups")


def kept_backups(memory: Path) -> list[Path]:
    """Return the files in the folder of the backups of *memory*, the newest first."""
    folder = backup_folder(memory)
    return sorted((path for path in folder.glob(f"*{_ENDING}") if path.is_file()), reverse=True)


def day_of(path: Path) -> date | None:
    """Return the day of a backup that was made of its own accord; None for any other file."""
    return date.fromisoformat(path.stem) if _DAY.fullmatch(path.name) else None


def day_path(memory: Path, day: date) -> Path:
    """Return the path of the backup of *memory* of a *day*."""
    return backup_folder(memory) / f"{day.isoformat()}{_ENDING}"


def is_backup_due(memory: Path, now: datetime) -> bool:
    """Return whether the file *memory* was written since the last daily backup, and there is none of today.

    Reads names and times of files alone.
    """
    if day_path(memory, now.date()).exists():
        return False
    try:
        newest = max(path.stat().st_mtime for path in kept_backups(memory))
    except (OSError, ValueError):
        newest = 0.0
    statuses = [path.stat() for end in _LOG_SUFFIXES if (path := memory.with_name(memory.name + end)).exists()]
    return any(status.st_size and status.st_mtime > newest for status in statuses)


def note_try(memory: Path) -> None:
    """Record that a backup of *memory* is attempted now; the folder must exist."""
    (backup_folder(memory) / _LOCK).touch(mode=0o600)


def was_tried(memory: Path, *, within: float) -> bool:
    """Return whether a backup of *memory* was attempted in the last *within* seconds, with or without success."""
    try:
        return time.time() - (backup_folder(memory) / _LOCK).stat().st_mtime < within
    except OSError:
        return False


@contextmanager
def locked_folder(memory: Path, *, wait: float, make: bool = False) -> Iterator[bool]:
    """Yield whether the folder of the backups of *memory* could be locked within *wait* seconds.

    *make* makes a folder that is not there; without it there is nothing to lock.
    """
    folder = backup_folder(memory)
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    elif not folder.is_dir():
        yield False
        return
    descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        yield _take_lock(descriptor, wait)
    finally:
        os.close(descriptor)


def _take_lock(descriptor: int, wait: float) -> bool:
    until = time.monotonic() + wait
    while not try_lock(descriptor):
        if time.monotonic() > until:
            return False
        time.sleep(_SECONDS_BETWEEN_TRIES)
    return True


def try_lock(descriptor: int) -> bool:
    """Lock the open file *descriptor* for this process alone; return whether no other has it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_mark(memory: Path) -> Mapping[str, Any] | None:
    """Return the pending erasure from the backups of *memory* (namespace and ids); None without one."""
    try:
        mark: Any = json.loads((backup_folder(memory) / _MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:  # a crash while it was written
        mark = None
    return mark if isinstance(mark, dict) else {}


def write_mark(memory: Path, mark: Mapping[str, Any]) -> None:
    """Write the pending erasure from the backups of *memory* durably: ids alone, never words."""
    descriptor = os.open(backup_folder(memory) / _MARK, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(mark, file)
        file.flush()
        os.fsync(file.fileno())


def remove_mark(memory: Path) -> None:
    """Remove the mark: no erasure is pending."""
    (backup_folder(memory) / _MARK).unlink(missing_ok=True)
