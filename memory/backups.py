"""Backups of a memory: made on request or once a day, listed, checked, thinned out, and put back.

A daily backup is made by whoever finds that the memory was written since the last one; the newest of each of seven days
and of four weeks are kept, as far as they fit. Erasing reaches all that stand in the folder
(``tellback.memory.erasure``).
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tellback.memory.backup_files import (
    backup_folder,
    day_of,
    day_path,
    is_backup_due,
    kept_backups,
    locked_folder,
    note_try,
    read_mark,
)
from tellback.memory.errors import ArgumentError
from tellback.vectorstore import FileDatabase, TableComponent, VectorStoreError, open_store

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import CopyProgress

_DAILY, _WEEKLY = 7, 4
DEFAULT_MAX_BYTES: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BackupFile:
    """Backup at *path*, its size in *bytes*, and the time *at* which it was made; *automatic*: it may be thinned out.

    *note* names a defect, or says that the file is gone.
    """

    path: Path
    at: datetime
    bytes: int
    automatic: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Report of a restore of *source* to *path*: the number of *entries*; *kept* is the path of the previous file."""

    path: Path
    source: Path
    entries: int
    kept: Path | None


def list_backups(database: FileDatabase, *, check: bool = False) -> list[BackupFile]:
    """Return the backups in the folder of the memory, then recorded ones elsewhere; each the newest first.

    *check* reads each one whole; *note* says what is wrong.
    """
    own = kept_backups(database.path)
    recorded = {Path(path): datetime.fromisoformat(time) for path, time in database.backups().items()}
    files = [_describe(path, recorded.get(path), check=check) for path in own]
    elsewhere = sorted(recorded.items() - {(path, recorded.get(path)) for path in own}, key=lambda item: item[1])
    return files + [_describe(path, position, check=check) for path, position in reversed(elsewhere)]


def known_backups(memory: Path) -> list[BackupFile]:
    """Return the backups of the file *memory*; those in its folder alone where it cannot be opened, or is gone."""
    from tellback.vectorstore.sqlite import SqliteDatabase

    try:
        with closing(SqliteDatabase(memory, create=False)) as database:
            return list_backups(database)
    except VectorStoreError:
        return [_describe(path, None, check=False) for path in kept_backups(memory)]


def _describe(path: Path, at: datetime | None, *, check: bool) -> BackupFile:
    try:
        status = path.stat()
    except OSError:
        return BackupFile(path, at or datetime.now(UTC), 0, note="it is not there any more; it may have been moved")
    timestamp = at or datetime.fromtimestamp(status.st_mtime, UTC)
    from tellback.vectorstore.sqlite import backup_damage

    note = backup_damage(path) if check else ""
    return BackupFile(path, timestamp, status.st_size, automatic=day_of(path) is not None, note=note)


def backup_path(memory: Path, now: datetime) -> Path:
    """Return the path, in the folder of the backups of *memory*, of one that is asked for *now*."""
    return backup_folder(memory) / f"{now:%Y-%m-%d-%H%M%S}.db"


def make_backup(database: FileDatabase, path: Path, *, on_progress: CopyProgress | None = None) -> BackupFile:
    """Write a complete, checked, private copy to *path*, where nothing may be; others go on writing meanwhile."""
    own = path.parent == backup_folder(database.path)
    with locked_folder(database.path, wait=60.0 if own else 0.0, make=own) as is_locked:
        if own and not is_locked:
            raise VectorStoreError(f"{path.parent}: another process makes a backup or erases in them; try again")
        database.backup(path, on_progress=on_progress)
    return _describe(path.absolute(), None, check=False)


def make_daily_backup(memory: Path, *, now: datetime, max_bytes: int = DEFAULT_MAX_BYTES) -> Path | None:
    """Make the backup of today, if it is due and fits into *max_bytes*, and thin out older ones; return its path."""
    from tellback.vectorstore.sqlite import SqliteDatabase

    with locked_folder(memory, wait=0.0, make=True) as is_locked:
        if not is_locked or not is_backup_due(memory, now) or read_mark(memory) is not None:
            return None
        note_try(memory)
        path = day_path(memory, now.date())
        with closing(SqliteDatabase(memory, create=False)) as database:
            if memory.stat().st_size <= max_bytes:
                database.backup(path)
            _thin_out(database, max_bytes)
    return path if path.exists() else None


def _thin_out(database: FileDatabase, max_bytes: int) -> None:
    """Remove the automatic backups that are too old, or too many for *max_bytes*; the newest always stays."""
    days = {day: path for path in kept_backups(database.path) if (day := day_of(path)) is not None}
    wanted = kept_days([*days], daily=_DAILY, weekly=_WEEKLY)
    total = 0
    for day in sorted(days, reverse=True):
        path = days[day]
        total += path.stat().st_size
        if day == max(days) or (day in wanted and total <= max_bytes):
            continue
        total -= path.stat().st_size
        with suppress(OSError):  # one that cannot be removed is tried again tomorrow
            remove_backup(database, path)


def kept_days(days: list[date], *, daily: int, weekly: int) -> set[date]:
    """Return those of *days* to keep: the last *daily*, and the newest of each of the last *weekly* weeks.

    >>> [day.day for day in sorted(kept_days([date(2026, 11, day) for day in range(1, 24)], daily=2, weekly=3))]
    [15, 22, 23]
    """
    newest_of_week: dict[tuple[int, int], date] = {}
    for day in sorted(days):
        newest_of_week[day.isocalendar()[:2]] = day
    return {*sorted(days)[-daily:], *sorted(newest_of_week.values())[-weekly:]}


def remove_backup(database: FileDatabase, path: Path) -> None:
    """Overwrite and remove the backup at *path*, also one too damaged to be known for a copy of this memory.

    Raises ``OSError`` where the file cannot be written or removed.
    """
    from tellback.vectorstore.sqlite import wipe_file

    try:
        database.remove_backup(str(path))
    except (ArgumentError, VectorStoreError):  # recorded nowhere, or too damaged to be known for a copy
        wipe_file(path, of="")


def checked_entries(copy: Path, components: list[TableComponent]) -> int:
    """Return how many entries the memory file *copy* holds; raise for the first thing that is wrong in any row."""
    from tellback.vectorstore import DamageError, lifecycle_of

    store = open_store("sqlite:///" + str(copy).replace("%", "%25"))
    try:
        lifecycle = lifecycle_of(store)
        assert lifecycle is not None
        assert lifecycle.database is not None
        for component in components:
            lifecycle.database.attach(component)
        if findings := lifecycle.verify():
            raise DamageError(findings)
        return sum(store.count(namespace=namespace) for namespace in store.namespaces())
    finally:
        store.close()
