"""Database in a file, for all components: transactions, migrations, erasure, backup and repair.

Entries and messages are tables of components. Any thread may call.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from tellback.vectorstore.database import Component, Connection, Dialect
from tellback.vectorstore.errors import (
    ArgumentError,
    BusyError,
    NotAStore,
    StorageFull,
    StorageUnwritable,
    UnsupportedError,
    VectorStoreError,
)
from tellback.vectorstore.named_locks import NamedLocks
from tellback.vectorstore.sqlite import backup, secure_delete
from tellback.vectorstore.sqlite.connection import fetch_one, translate_system_errors
from tellback.vectorstore.sqlite.dialect import SQLITE, SqliteConnection
from tellback.vectorstore.sqlite.files import (
    FileIdentity,
    RandomBytes,
    check_path,
    create_database_file,
    has_rows,
    is_missing,
    open_database_file,
    utc_now,
)
from tellback.vectorstore.sqlite.integrity import rebuild_components, verify_file
from tellback.vectorstore.sqlite.migrations import (
    check_component_version,
    check_schema,
    component_versions,
    is_attached,
    run_migrations,
)
from tellback.vectorstore.sqlite.salvage import salvage_file
from tellback.vectorstore.sqlite.secure_delete import size_on_disk
from tellback.vectorstore.sqlite.transactions import Transactions
from tellback.vectorstore.types import Compaction, Finding, SalvageReport

_ERASURE_WAIT: Final = 0.25
"""Seconds that ``finish_erasure`` waits for readers to leave."""


class SqliteDatabase:
    """Database in one file, with the components in it.

    *create* makes a missing file. With *read_only*, and when this user cannot write the file, nothing is
    written and every ``write`` raises ``StorageUnwritable``. A call waits *busy_timeout* seconds for a lock.
    """

    lasting: Final = True
    unreached: Final = ""
    dialect: Dialect = SQLITE

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        components: Sequence[Component] = (),
        create: bool = True,
        read_only: bool = False,
        busy_timeout: float = 30.0,
        clock: Callable[[], datetime] = utc_now,
        token: RandomBytes = os.urandom,
    ) -> None:
        self.path: Path = check_path(path)
        timeout = _check_timeout(busy_timeout)
        self._clock, self._token = clock, token
        self._components: dict[str, Component] = {}
        self._held = NamedLocks()
        self._known_version = -1
        self._make_if_missing(create and not read_only, components)
        opened = open_database_file(self.path, components, read_only=read_only, busy_timeout=timeout)
        self._birth, self._access = opened.birth, opened.reading
        self._transactions = Transactions(self.path, opened, check=self._check_versions, busy_timeout=timeout)
        try:
            for component in components:
                self.attach(component)
            if not self.read_only:
                backup.remove_abandoned_files(self.path.parent)
                if (own := str(self.path)) in self.backups():  # a backup that is opened in its place is the memory now
                    self._transactions.write_soon(lambda connection: backup.drop_backup_record(connection, own))
                self._transactions.finish_erasure(wait=0.0)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> str:
        """Random name of the file, made with it; a copy has the same."""
        return self._birth.identity

    @property
    def read_only(self) -> bool:
        """Return whether the file can only be read."""
        return self._transactions.read_only

    def attach(self, component: Component) -> None:
        """As ``Database.attach``.

        Tables of an older Tellback in a file that holds rows are migrated and verified in one transaction. If they
        have a defect then, a checked copy of the file from before is left beside it, as one of its ``backups``;
        without room for it ``StorageFull`` is raised and nothing is changed. Inside ``write()`` such tables raise
        ``UnsupportedError``.
        """
        if is_attached(component, self._components):
            return
        with self.read() as connection:
            versions = component_versions(connection)
            check_component_version(self.path, versions, component)
            before, newest = versions.get(component.name, 0), len(component.migrations)
            check_schema(connection, [*self._components.values(), component])
            if self.in_write() and before not in (0, newest) and has_rows(connection):
                raise UnsupportedError("attach", f"an older {component.name!r} must be attached outside of write()")
        if self.in_write() or not before:
            with self.write() as connection:
                run_migrations(connection, component, self.path)
                self.on_commit(lambda: self._components.setdefault(component.name, component))
            return
        if before != newest:
            self._upgrade(component, before)
        self._components[component.name] = component

    def read(self) -> AbstractContextManager[SqliteConnection]:
        """As ``Database.read``. Do not keep a cursor beyond the block."""
        return self._transactions.read()

    def write(self, *, lock: str | None = None, wait: bool = True) -> AbstractContextManager[SqliteConnection]:
        """As ``Database.write``, for any *lock*; waiting ends with ``BusyError`` after the busy timeout."""
        return self._transactions.write(wait=wait)

    def hold(self, name: str, *, wait: float = 30.0) -> AbstractContextManager[None]:
        """As ``Database.hold``."""
        return self._held.hold(name, wait)

    def in_write(self) -> bool:
        """Return whether this thread is inside ``write()``."""
        return self._transactions.writing is not None

    def present_write(self) -> object | None:
        """Return an object that identifies this thread's present outermost ``write()``; None outside."""
        return self._transactions.writing

    def on_commit(self, callback: Callable[[], object]) -> None:
        """Run *callback* once, after the outermost commit of this thread's present ``write()``; not after a rollback.

        By then the transaction is over, and other threads may have begun theirs.
        """
        self._transactions.present_write("on_commit").callbacks.append(callback)

    def mark_erasure(self, connection: Connection) -> None:
        """As ``Database.mark_erasure``."""
        writer = self._transactions.present_write("mark_erasure").connection
        if connection is not writer:
            raise ArgumentError("connection", connection, "the connection of this thread's write() is needed")
        secure_delete.set_erasure_mark(writer, self._mark())

    def finish_erasure(self) -> bool:
        """Clear deleted bytes from the file and its log; True when none are left.

        A reader, here or in another process, can prevent it for now. The mark is durable, and it is tried
        again after each commit and each reading here, at opening and at closing.
        """
        if self.read_only or self.in_write():
            return not self.pending_erasure()
        return self._transactions.finish_erasure(wait=_ERASURE_WAIT)

    def empty_log(self) -> bool:
        """Move the log into the file and truncate it; False where a reader prevents that for now."""
        if self.read_only or self.in_write():
            raise UnsupportedError("empty_log", "it needs a file that can be written, and no write() of this thread")
        try:
            self._transactions.empty_log(wait=_ERASURE_WAIT)
        except BusyError:
            return False
        return True

    def pending_erasure(self) -> bool:
        """Return whether deleted bytes may still be in the file or its log."""
        with self.read() as connection:
            return secure_delete.erasure_mark(connection) is not None

    def compact(self, *, prepare: Callable[[], object] | None = None) -> Compaction:
        """Give free pages back to the disk, after *prepare* has freed what it can; see ``LifecycleStore.compact``.

        The copy of what is left is made in memory, so that no part of it is written to another folder.
        """
        if self.in_write() or self._transactions.reading:
            raise UnsupportedError("compact", "it cannot be done inside a transaction or a view of this thread")
        with translate_system_errors(self.path):
            before = size_on_disk(self.path)
            self._transactions.empty_log(wait=_ERASURE_WAIT)
            if prepare is not None:
                prepare()
            truncated = self._transactions.compact(wait=_ERASURE_WAIT, mark=self._mark())
            return Compaction(before, size_on_disk(self.path), pending=not truncated)

    def backup(self, path: str | os.PathLike[str], *, on_progress: backup.CopyProgress | None = None) -> None:
        """Write a complete, checked copy (mode 0600) to an unused *path*, while others may write.

        The copy is recorded in this file (``backups``): at once, or while another thread writes with the next commit.
        A file that can only be read records none.
        """
        with self._new_file(path, "backup") as target, self.read() as connection:
            backup.remove_abandoned_files(target.parent)
            backup.write_backup(connection, target, token=self._token, on_progress=on_progress)
        timestamp = self._clock().isoformat()
        self._transactions.write_soon(lambda connection: backup.record_backup(connection, target, timestamp))

    def backups(self) -> dict[str, str]:
        """Return the time of each copy of this file (ISO 8601) by its path; it may have been moved since."""
        with self.read() as connection:
            return backup.recorded_backups(connection)

    def remove_backup(self, path: str) -> bool:
        """Remove a recorded copy and its record; return whether the copy still existed.

        A file at *path* that is no copy of this one raises ``NotAStore`` and is left.
        """
        removed = False
        with self._transactions.write() as connection:  # so that nobody is making it at this moment
            if path not in backup.recorded_backups(connection):
                raise ArgumentError("path", path, "the path of a recorded backup of this file is needed")
            with translate_system_errors(Path(path)):
                removed = backup.remove_backup_file(Path(path), of=self.identity, original=self.path)
            backup.drop_backup_record(connection, path)
        return removed

    def migration_copies(self) -> dict[str, str]:
        """Return the ``backups`` from before a migration that failed its verification."""
        return {path: time for path, time in self.backups().items() if backup.is_migration_copy(path)}

    def verify(self) -> list[Finding]:
        """Check pages, references, header and every component's tables; an empty list means all is well."""
        with self.read() if self.in_write() else self._transactions.read_fresh() as connection:
            return verify_file(connection, [*self._components.values()])

    def rebuild(self) -> None:
        """Rebuild indexes and every component's derived tables, in one transaction."""
        with self.write() as connection:
            rebuild_components(connection, [*self._components.values()])

    def salvage(self, path: str | os.PathLike[str]) -> SalvageReport:
        """Copy every readable row into a new file at *path*; this file is only read."""
        with self.read() as connection:
            unknown = sorted(component_versions(connection).keys() - self._components.keys())
        if unknown:
            raise UnsupportedError("salvage", f"nothing attached can copy these parts of the file: {unknown}")
        parts = [*self._components.values()]
        with self._new_file(path, "salvage") as target, self._transactions.inside():
            return salvage_file(self.path, self._access, target, parts, self._birth, token=self._token)

    def close(self) -> None:
        """Release the file; a second call does nothing, and any other call afterwards raises ``StoreClosed``.

        It waits for other threads' blocks. A block that outlasts the busy timeout, or that this call is inside of,
        releases the file when it ends.
        """
        self._transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _make_if_missing(self, create: bool, components: Sequence[Component]) -> None:
        with translate_system_errors(self.path):
            missing = is_missing(self.path)
        if missing:
            if not create:
                raise NotAStore(str(self.path), "there is no such file")
            birth = FileIdentity(self._token(16).hex(), self._clock().isoformat())
            with suppress(FileExistsError):  # another process was first: its file is opened
                create_database_file(self.path, components, birth, token=self._token)

    def _upgrade(self, component: Component, before: int) -> None:
        """Migrate the tables of an older version; if verification finds a defect, leave a copy from before."""
        copy, timestamp = backup.migration_copy_path(self.path, component, before), self._clock().isoformat()
        with self.write() as connection:
            backup.record_backup(connection, copy, timestamp)
        copied = False
        try:
            with self.write() as connection:
                if component_versions(connection).get(component.name) != before:  # another process was first
                    return
                run_migrations(connection, component, self.path)
                if has_rows(connection) and verify_file(connection, [component]):
                    self._copy_unchanged(copy)
                    copied = True
                    backup.record_backup(connection, copy, timestamp)
        except BaseException:
            if copied:
                with suppress(OSError):
                    secure_delete.wipe_file(copy, of=self.identity)
            raise
        finally:
            with suppress(VectorStoreError), self.write() as connection:
                if not os.path.lexists(copy):
                    backup.drop_backup_record(connection, str(copy))

    def _copy_unchanged(self, copy: Path) -> None:
        """Copy the committed state of the file, without the changes of this thread's present ``write()``."""
        try:
            with self._transactions.read_fresh(fresh=False) as source:
                backup.write_backup(source, copy, token=self._token)
        except FileExistsError as error:
            raise StorageUnwritable(f"{copy}: something came to stand where a copy was to be put") from error
        except (StorageFull, StorageUnwritable) as error:
            advice = "Nothing was changed; make room for a copy beside it, which is left where a migration goes wrong"
            raise type(error)(f"{error}. {advice}") from error

    def _check_versions(self, connection: SqliteConnection) -> None:
        # A process with a newer Tellback may have migrated the file meanwhile; each migration adds to the sum.
        (total,) = fetch_one(connection, "SELECT coalesce(sum(version), 0) FROM components")
        if total != self._known_version or not isinstance(total, int):
            versions = component_versions(connection)
            for component in self._components.values():
                check_component_version(self.path, versions, component)
            self._known_version = total

    def _mark(self) -> str:
        return f"{self._clock().isoformat()} {self._token(8).hex()}"

    @contextmanager
    def _new_file(self, path: str | os.PathLike[str], operation: str) -> Iterator[Path]:
        """Yield the absolute path of a file that *operation* makes; raise where *path* exists."""
        if self.in_write():
            raise UnsupportedError(operation, "it cannot be made inside write()")
        target = check_path(path)
        try:
            if os.path.lexists(target):
                raise FileExistsError(target)
            yield target
        except FileExistsError as error:
            raise ArgumentError("path", path, "a path where nothing is yet is needed") from error


def _check_timeout(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ArgumentError("busy_timeout", seconds, "a number of seconds, 0 or more, is needed")
    return float(seconds)
