"""Parts of an older file brought to their newest version: copied first, the copy removed when the result was verified.

The copy is recorded in a transaction of its own, then made, checked and put in place under the write lock, in the
transaction that migrates. So a record that says "making" while somebody else holds that lock is of a process that is
gone, and what it left can be cleared away.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import BusyError, NotAStore, StorageFull, StorageUnwritable, UnsupportedError, VectorStoreError
from vectorstore.sqlite.backups import drop_record, recorded_backups, remove_copy
from vectorstore.sqlite.border import system_border
from vectorstore.sqlite.compaction import size_of
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.copying import back_up
from vectorstore.sqlite.frame import check_known, holds_rows, migrate, versions
from vectorstore.sqlite.migration_copies import (
    MigrationCopy,
    drop_copy,
    free_path,
    keep_as_backup,
    put_copy,
    recorded_copies,
    without_copy_permitted,
    without_details,
)
from vectorstore.sqlite.placing import Token, flush_folder, private_beside
from vectorstore.sqlite.transactions import Transactions
from vectorstore.sqlite.verification import verify_file
from vectorstore.sqlite.wiping import wipe

VERIFIED_AT_ONCE: Final = 128 << 20
"""Bytes of a file that is verified as soon as its migration is over, which takes about two seconds for so many."""
_ATTEMPTS: Final = 5
_Seen = tuple[int, int]


class Migrator:
    """Migrates the parts of one opened file. *now* gives the present moment (ISO 8601)."""

    def __init__(
        self, path: Path, transactions: Transactions, *, identity: str, now: Callable[[], str], token: Token
    ) -> None:
        self._path, self._transactions = path, transactions
        self._identity, self._now, self._token = identity, now, token
        self._latest: tuple[str, _Seen] | None = None
        self._waiting, self._tried = False, 0

    def bring_up(self, component: Component) -> None:
        """Migrate *component*; a part that was there already, in a file with rows, is copied with it before.

        Inside this thread's ``write`` no copy can be made, so what needs one raises ``UnsupportedError``.
        """
        if self._transactions.writing is not None:
            with self._transactions.write() as connection:
                if self._needs_copy(connection, component):
                    raise UnsupportedError("attach", f"an older {component.name!r} must be attached outside of write()")
                migrate(connection, component, self._path)
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
                raise type(error)(f"{error}. {_way_on(component)}") from error
            raise

    def look(self) -> None:
        """See which copies an opened file has; clear what a crash left, as soon as nobody else is writing."""
        with self._transactions.read() as connection:
            copies, itself = recorded_copies(connection), str(self._path) in recorded_backups(connection)
        self._waiting = any(copy.state == "made" for copy in copies if self._is_ours(copy))
        with suppress(VectorStoreError, OSError):
            if any(copy.state == "making" for copy in copies if self._is_ours(copy)):
                self._transactions.write_soon(self.clear)
            if itself:  # this file is a copy that is put to use: no other file may take it for a mere copy
                self._transactions.write_soon(lambda connection: drop_record(connection, str(self._path)))

    def clear(self, connection: apsw.Connection, but: str = "") -> None:
        """Under the write lock: remove what migrations that did not come to their end have left. Never raises."""
        for copy in recorded_copies(connection):
            if copy.state == "making" and self._is_ours(copy) and copy.path != but:
                with suppress(VectorStoreError, OSError):
                    wipe(private_beside(Path(copy.path), copy.private), of=self._identity)
                    self._remove(connection, copy)

    def waits(self, components: Mapping[str, Component]) -> bool:
        """Whether there may be something for ``settle`` to do; tried again when more *components* are there."""
        return self._waiting and self._tried != len(components)

    def settle(self, components: Mapping[str, Component]) -> None:
        """Verify what was migrated, where the file is not too large for it, and remove the copies not needed any more.

        It never raises: what cannot be done now is done by a later process, or by ``verify``.
        """
        self._tried = len(components)
        with suppress(VectorStoreError, OSError):
            if size_of(self._path) > VERIFIED_AT_ONCE:
                return
            with self._transactions.read_fresh() as connection:
                copies = [copy for copy in self.verifiable(connection, components) if copy.state == "made"]
                parts = sorted({part for copy in copies for part in copy.parts})
                findings = verify_file(connection, [components[part] for part in parts]) if parts else []
            if findings:
                with self._transactions.write() as connection:
                    for copy in copies:
                        put_copy(connection, replace(copy, state="wrong"))
            else:
                self.let_go(copies)

    def verifiable(self, connection: apsw.Connection, components: Mapping[str, Component]) -> list[MigrationCopy]:
        """Return the copies that can go when *components* were verified: those whose parts are all among them."""
        return [
            copy
            for copy in recorded_copies(connection)
            if copy.state != "making" and self._is_ours(copy) and copy.parts.keys() <= components.keys()
        ]

    def let_go(self, copies: Iterable[MigrationCopy]) -> None:
        """Remove *copies*, and their records; one that was opened since, or is another file by now, is only named."""
        for copy in copies:
            with suppress(VectorStoreError, OSError), self._transactions.write() as connection:
                self._remove(connection, copy)

    def _migrated(self, connection: apsw.Connection, component: Component, copy: MigrationCopy | None) -> bool:
        """Migrate; False when a copy must be recorded first. *copy* is what was recorded for it."""
        found, recorded = versions(connection), {one.path: one for one in recorded_copies(connection)}
        check_known(self._path, found, component)
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
        migrate(connection, component, self._path)
        if earlier is not None:
            if before:
                put_copy(
                    connection, replace(earlier, state="made", parts={**earlier.parts, component.name: (before, after)})
                )
            self._latest = (earlier.path, _seen(connection))
            self._waiting, self._tried = True, 0
        return True

    def _needs_copy(self, connection: apsw.Connection, component: Component) -> bool:
        before = versions(connection).get(component.name, 0)
        if before in (0, len(component.migrations)) or not holds_rows(connection):
            return False
        return not without_copy_permitted(connection, component.name, before)

    def _recorded(self, connection: apsw.Connection, component: Component) -> MigrationCopy:
        before, after = versions(connection)[component.name], len(component.migrations)
        path = free_path(connection, self._path, component.name, before, after)
        parts = {component.name: (before, after)}
        copy = MigrationCopy(str(path), self._now(), parts, "making", str(self._path), self._token(8))
        put_copy(connection, copy)
        return copy

    def _make(self, copy: MigrationCopy) -> None:
        with system_border(self._path):
            needed, free = size_of(self._path), shutil.disk_usage(self._path.parent).free
        if free < needed:
            raise StorageFull(f"{self._path}: no room for a copy of {needed:,} bytes, {free:,} are free")
        with self._transactions.read_fresh(fresh=False) as source:
            try:
                back_up(source, Path(copy.path), token=lambda _: copy.private, finish=without_details)
            except FileExistsError as error:
                raise StorageUnwritable(f"{copy.path}: something came to stand where a copy was to be put") from error
        with system_border(self._path):
            flush_folder(self._path.parent)  # its private name must not come back: from here on nobody looks for it

    def _unspoiled(self, connection: apsw.Connection, recorded: Mapping[str, MigrationCopy]) -> MigrationCopy | None:
        """Return the copy that was made for another part, if nothing but migrations was written since."""
        if self._latest is None or self._latest[1] != _seen(connection):
            return None
        return recorded.get(self._latest[0]) if Path(self._latest[0]).exists() else None

    def _is_ours(self, copy: MigrationCopy) -> bool:
        """Whether it was made beside this file where it is now: a file that was moved or copied only names it."""
        return copy.of == str(self._path) and Path(copy.path).parent == self._path.parent

    def _remove(self, connection: apsw.Connection, copy: MigrationCopy) -> None:
        if copy.path not in recorded_backups(connection):
            return
        path = Path(copy.path)
        try:
            with system_border(path):
                remove_copy(path, of=self._identity, original=self._path, only_untouched=True)
        except NotAStore:
            keep_as_backup(connection, copy.path)
        else:
            drop_copy(connection, copy.path)


def _seen(connection: apsw.Connection) -> _Seen:
    """What moves when anybody changes a row: this connection, or another one."""
    return connection.total_changes(), int(connection.pragma("data_version"))


def _way_on(component: Component) -> str:
    return (
        f"Nothing was changed; before its older {component.name!r} is migrated, a copy is made beside it: make room, "
        "or let it go without one (Database(path).migrate_without_copy(), mneme doctor --without-copy)"
    )
