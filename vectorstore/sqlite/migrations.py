"""Migrations of an older file: copied first, migrated, verified, and the copy removed when the result is right.

The copy is recorded in a transaction of its own ("making"), then made, checked and put in place under the write lock,
in the transaction that migrates, where it becomes "made"; "wrong" when the migrated file was not found to be right. So
a record that says "making" while somebody else holds that lock is of a process that is gone, and what it left can be
cleared away. The copy itself keeps the record that every backup has, with its own path, for as long as nobody opens it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import apsw

from vectorstore.database import Component
from vectorstore.errors import BusyError, NotAStore, StorageFull, StorageUnwritable, UnsupportedError, VectorStoreError
from vectorstore.sqlite.backup import (
    drop_backup_record,
    record_backup,
    recorded_backups,
    remove_backup_file,
    write_backup,
)
from vectorstore.sqlite.connection import translate_system_errors
from vectorstore.sqlite.files import (
    RandomBytes,
    check_component_version,
    component_versions,
    delete_fact,
    flush_folder,
    has_rows,
    private_path,
    read_fact,
    read_facts,
    run_migrations,
    write_fact,
)
from vectorstore.sqlite.integrity import verify_file
from vectorstore.sqlite.secure_delete import size_on_disk, wipe_file
from vectorstore.sqlite.transactions import Transactions

_COPY_FACT: Final = "migration "
_PERMISSION_FACT: Final = "uncopied"
_STEM_BYTES: Final = 120
_COPY_STATES: Final = ("making", "made", "wrong")


@dataclass(frozen=True, slots=True)
class MigrationCopy:
    """A copy of a file from before a migration: *parts* went from the first of these versions to the second.

    *at* is when it was made (ISO 8601). *state*: "made" until the migrated file is verified, which removes the copy;
    "wrong" where that found something. *of* is the file's path then, *private* the random part of the name under
    which the copy was filled.
    """

    path: str
    at: str
    parts: Mapping[str, tuple[int, int]]
    state: Literal["making", "made", "wrong"]
    of: str
    private: bytes


def record_copy(connection: apsw.Connection, copy: MigrationCopy) -> None:
    """Record a copy, or what became of it."""
    record_backup(connection, Path(copy.path), copy.at)
    value = {"parts": copy.parts, "state": copy.state, "of": copy.of, "private": copy.private.hex()}
    write_fact(connection, _COPY_FACT + copy.path, json.dumps(value))


def recorded_copies(connection: apsw.Connection) -> list[MigrationCopy]:
    """Return the copies from before migrations, in order of path. A record that cannot be read is a backup's alone."""
    times = recorded_backups(connection)
    found = [_read_copy(path, times.get(path), value) for path, value in read_facts(connection, _COPY_FACT).items()]
    return [copy for copy in found if copy is not None]


def drop_copy_records(connection: apsw.Connection, path: str) -> None:
    """Take both records of a copy away."""
    drop_backup_record(connection, path)
    keep_as_backup(connection, path)


def keep_as_backup(connection: apsw.Connection, path: str) -> None:
    """Leave a copy recorded as any backup is: named, and removed on request alone."""
    delete_fact(connection, _COPY_FACT + path)


def drop_migration_facts(copy: apsw.Connection) -> None:
    """Take the records of migrations out of a copy: restored from it, a file treats it as any backup."""
    for path in read_facts(copy, _COPY_FACT):
        keep_as_backup(copy, path)


def free_copy_path(connection: apsw.Connection, file: Path, part: str, before: int, after: int) -> Path:
    """Return a path beside *file* for a copy, named after what is about to happen, where nothing is nor is recorded."""
    stem = file.name.encode()[:_STEM_BYTES].decode(errors="ignore")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in part[:40])
    recorded, number = recorded_backups(connection), 1
    while True:
        suffix = "" if number == 1 else f"-{number}"
        path = file.with_name(f"{stem}.before-{plain}-{before}-to-{after}{suffix}.backup")
        if str(path) not in recorded and not os.path.lexists(path):
            return path
        number += 1


def permit_without_copy(connection: apsw.Connection, versions: Mapping[str, int], timestamp: str) -> None:
    """Record that parts of these *versions* may be migrated without a copy."""
    write_fact(connection, _PERMISSION_FACT, json.dumps({"at": timestamp, "versions": dict(versions)}))


def is_permitted_without_copy(connection: apsw.Connection, part: str, version: int) -> bool:
    """Return whether *part*, at *version*, may be migrated without a copy; for later versions it does not hold."""
    try:
        return bool(json.loads(read_fact(connection, _PERMISSION_FACT) or "{}")["versions"][part] == version)
    except (ValueError, LookupError, TypeError):
        return False


def _read_copy(path: str, timestamp: str | None, value: str) -> MigrationCopy | None:
    try:
        fields = json.loads(value)
        parts = {str(name): (int(before), int(after)) for name, (before, after) in fields["parts"].items()}
        private = bytes.fromhex(fields["private"])
        if timestamp is None or fields["state"] not in _COPY_STATES or len(private) != 8:
            return None
        return MigrationCopy(path, timestamp, parts, fields["state"], str(fields["of"]), private)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


VERIFY_AT_ONCE_BYTES: Final = 128 << 20
"""Bytes of a file that is verified as soon as its migration is over, which takes about two seconds for so many."""
_ATTEMPTS: Final = 5
_ChangeStamp = tuple[int, int]


class Migrator:
    """Migrates the parts of one opened file. *now* gives the present moment (ISO 8601)."""

    def __init__(
        self, path: Path, transactions: Transactions, *, identity: str, now: Callable[[], str], token: RandomBytes
    ) -> None:
        self._path, self._transactions = path, transactions
        self._identity, self._now, self._token = identity, now, token
        self._latest: tuple[str, _ChangeStamp] | None = None
        self._waiting, self._tried = False, 0

    def migrate(self, component: Component) -> None:
        """Migrate *component*; a part that was there already, in a file with rows, is copied with it before.

        Inside this thread's ``write`` no copy can be made, so what needs one raises ``UnsupportedError``.
        """
        if self._transactions.writing is not None:
            with self._transactions.write() as connection:
                if self._needs_copy(connection, component):
                    raise UnsupportedError("attach", f"an older {component.name!r} must be attached outside of write()")
                run_migrations(connection, component, self._path)
            return
        copy: MigrationCopy | None = None
        try:
            for _ in range(_ATTEMPTS):
                with self._transactions.write() as connection:
                    if self._migrated(connection, component, copy):
                        return
                    copy = self._recorded(connection, component)  # durable when the block ends
            raise BusyError(f"{self._path}: other processes go on changing it while it is migrated; try again")
        except BaseException as error:
            self._latest = None
            if copy is None:
                raise
            with suppress(VectorStoreError, OSError), self._transactions.write() as connection:
                self.clear(connection)
            if isinstance(error, StorageFull | StorageUnwritable):
                raise type(error)(f"{error}. {_advice_without_room(component)}") from error
            raise

    def inspect_copies(self) -> None:
        """See which copies an opened file has; clear what a crash left, as soon as nobody else is writing."""
        with self._transactions.read() as connection:
            copies, itself = recorded_copies(connection), str(self._path) in recorded_backups(connection)
        self._waiting = any(copy.state == "made" for copy in copies if self._is_ours(copy))
        with suppress(VectorStoreError, OSError):
            if any(copy.state == "making" for copy in copies if self._is_ours(copy)):
                self._transactions.write_soon(self.clear)
            if itself:  # this file is a copy that is put to use: no other file may take it for a mere copy
                self._transactions.write_soon(lambda connection: drop_backup_record(connection, str(self._path)))

    def clear(self, connection: apsw.Connection, but: str = "") -> None:
        """Under the write lock: remove what migrations that did not come to their end have left. Never raises."""
        for copy in recorded_copies(connection):
            if copy.state == "making" and self._is_ours(copy) and copy.path != but:
                with suppress(VectorStoreError, OSError):
                    wipe_file(private_path(Path(copy.path), copy.private), of=self._identity)
                    self._remove(connection, copy)

    def has_pending(self, components: Mapping[str, Component]) -> bool:
        """Return whether there may be something for ``settle`` to do; tried again when more *components* are there."""
        return self._waiting and self._tried != len(components)

    def settle(self, components: Mapping[str, Component]) -> None:
        """Verify what was migrated, where the file is not too large for it, and remove the copies not needed any more.

        It never raises: what cannot be done now is done by a later process, or by ``verify``.
        """
        self._tried = len(components)
        with suppress(VectorStoreError, OSError):
            if size_on_disk(self._path) > VERIFY_AT_ONCE_BYTES:
                return
            with self._transactions.read_fresh() as connection:
                copies = [copy for copy in self.verifiable(connection, components) if copy.state == "made"]
                parts = sorted({part for copy in copies for part in copy.parts})
                findings = verify_file(connection, [components[part] for part in parts]) if parts else []
            if findings:
                with self._transactions.write() as connection:
                    for copy in copies:
                        record_copy(connection, replace(copy, state="wrong"))
            else:
                self.remove_copies(copies)

    def verifiable(self, connection: apsw.Connection, components: Mapping[str, Component]) -> list[MigrationCopy]:
        """Return the copies that can go when *components* were verified: those whose parts are all among them."""
        return [
            copy
            for copy in recorded_copies(connection)
            if copy.state != "making" and self._is_ours(copy) and copy.parts.keys() <= components.keys()
        ]

    def remove_copies(self, copies: Iterable[MigrationCopy]) -> None:
        """Remove *copies*, and their records; one that was opened since, or is another file by now, is only named."""
        for copy in copies:
            with suppress(VectorStoreError, OSError), self._transactions.write() as connection:
                self._remove(connection, copy)

    def _migrated(self, connection: apsw.Connection, component: Component, copy: MigrationCopy | None) -> bool:
        """Migrate; False when a copy must be recorded first. *copy* is what was recorded for it."""
        found, recorded = component_versions(connection), {entry.path: entry for entry in recorded_copies(connection)}
        check_component_version(self._path, found, component)
        before, after = found.get(component.name, 0), len(component.migrations)
        earlier = self._unspoiled(connection, recorded)
        if before == after:  # another process was first
            self.clear(connection)
            return True
        if self._needs_copy(connection, component) and earlier is None:
            if copy is None or recorded.get(copy.path) != copy:
                return False
            self.clear(connection, but=copy.path)
            self._make(copy)
            earlier = copy
        run_migrations(connection, component, self._path)
        if earlier is not None:
            if before:
                record_copy(
                    connection, replace(earlier, state="made", parts={**earlier.parts, component.name: (before, after)})
                )
            self._latest = (earlier.path, _change_stamp(connection))
            self._waiting, self._tried = True, 0
        return True

    def _needs_copy(self, connection: apsw.Connection, component: Component) -> bool:
        before = component_versions(connection).get(component.name, 0)
        if before in (0, len(component.migrations)) or not has_rows(connection):
            return False
        return not is_permitted_without_copy(connection, component.name, before)

    def _recorded(self, connection: apsw.Connection, component: Component) -> MigrationCopy:
        before, after = component_versions(connection)[component.name], len(component.migrations)
        path = free_copy_path(connection, self._path, component.name, before, after)
        parts = {component.name: (before, after)}
        copy = MigrationCopy(str(path), self._now(), parts, "making", str(self._path), self._token(8))
        record_copy(connection, copy)
        return copy

    def _make(self, copy: MigrationCopy) -> None:
        with translate_system_errors(self._path):
            needed, free = size_on_disk(self._path), shutil.disk_usage(self._path.parent).free
        if free < needed:
            raise StorageFull(f"{self._path}: no room for a copy of {needed:,} bytes, {free:,} are free")
        with self._transactions.read_fresh(fresh=False) as source:
            try:
                write_backup(source, Path(copy.path), token=lambda _: copy.private, finish=drop_migration_facts)
            except FileExistsError as error:
                raise StorageUnwritable(f"{copy.path}: something came to stand where a copy was to be put") from error
        with translate_system_errors(self._path):
            flush_folder(self._path.parent)  # its private name must not come back: from here on nobody looks for it

    def _unspoiled(self, connection: apsw.Connection, recorded: Mapping[str, MigrationCopy]) -> MigrationCopy | None:
        """Return the copy that was made for another part, if nothing but migrations was written since."""
        if self._latest is None or self._latest[1] != _change_stamp(connection):
            return None
        return recorded.get(self._latest[0]) if Path(self._latest[0]).exists() else None

    def _is_ours(self, copy: MigrationCopy) -> bool:
        """Return whether it was made beside this file where it is now; a moved or copied file only names it."""
        return copy.of == str(self._path) and Path(copy.path).parent == self._path.parent

    def _remove(self, connection: apsw.Connection, copy: MigrationCopy) -> None:
        if copy.path not in recorded_backups(connection):
            return
        path = Path(copy.path)
        try:
            with translate_system_errors(path):
                remove_backup_file(path, of=self._identity, original=self._path, only_untouched=True)
        except NotAStore:
            keep_as_backup(connection, copy.path)
        else:
            drop_copy_records(connection, copy.path)


def _change_stamp(connection: apsw.Connection) -> _ChangeStamp:
    """Return two counters that move when this connection, or another one, changes a row."""
    return connection.total_changes(), int(connection.pragma("data_version"))


def _advice_without_room(component: Component) -> str:
    return (
        f"Nothing was changed; before its older {component.name!r} is migrated, a copy is made beside it: make room, "
        "or let it go without one (SqliteDatabase(path).migrate_without_copy(), tellback doctor --without-copy)"
    )
