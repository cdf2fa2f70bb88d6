"""External copies: exports and backups, which a forgetting names in its receipt; backups are deleted on request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tellback.memory.backup_files import kept_backups
from tellback.memory.entry_store import EntryStore
from tellback.memory.models import Operation
from tellback.memory.results import ExternalCopy
from tellback.memory.tables.operation_log import NO_MEMORY, OperationLog
from tellback.vectorstore import FileDatabase, VectorStoreError

EXPORT_KIND: Final = "export"
"""The kind of the operations by which exports are recorded."""
STREAM_PATH: Final = "-"
"""Path by which an export into a stream is recorded."""
_NO_LIMIT: Final = 1_000_000
_STREAM_NOTE: Final = "written to a stream; it is not known here where that went"
_UNPROVED_NOTE: Final = "it deletes entries, and cannot prove that their bytes are gone from its files and backups"
_MISSING_NOTE: Final = "nothing is at its path any more; it may have been moved"


@dataclass(frozen=True, slots=True)
class ExternalCopies:
    """Exports recorded in the operation log, and backups recorded in the database."""

    entries: EntryStore
    operations: OperationLog

    def exports(self, namespace: str) -> Sequence[Operation]:
        """Return the operations that exported *namespace*, the newest first."""
        operations = self.operations.list(namespace, memory=NO_MEMORY, limit=_NO_LIMIT)
        return [operation for operation in operations if operation.kind == EXPORT_KIND]

    def export_hashes(self, namespace: str) -> set[Any]:
        """Return the hashes of the exports of *namespace*."""
        return {change.new.get("hash") for export in self.exports(namespace) for change in export.changes}

    def list(self, namespace: str) -> list[ExternalCopy]:
        """Return the exports of *namespace*, the oldest first, then the backups; a missing file has a note.

        Last comes a server, or a store with data alone: what becomes of its bytes is not known here.
        """
        copies = [
            ExternalCopy("export", str(change.new.get("path", "")), export.at)
            for export in reversed(self.exports(namespace))
            for change in export.changes
        ]
        if isinstance(database := self.entries.database, FileDatabase):
            own = {str(path) for path in kept_backups(database.path)}
            backups = [(path, time) for path, time in database.backups().items() if path not in own]
            copies += [ExternalCopy("backup", path, datetime.fromisoformat(time)) for path, time in backups]
            folders = {Path(copy.path).parent for copy in copies if copy.path != STREAM_PATH}
            copies += _unfinished_copies(folders | {database.path.parent})
        copies = [replace(copy, note=_note(copy.path)) for copy in copies]
        if (database := self.entries.database) is not None and database.unreached:
            copies.append(ExternalCopy("server", database.dialect.name, note=database.unreached))
        if self.entries.lifecycle_store is None:
            copies.append(ExternalCopy("store", type(self.entries.store).__name__, note=_UNPROVED_NOTE))
        return copies

    def delete_backups(self, copies: Sequence[ExternalCopy]) -> tuple[ExternalCopy, ...]:
        """Delete the backups among *copies*; return all copies, those that could not be deleted with a note."""
        database, results = self.entries.database, list(copies)
        for index, copy in enumerate(copies):
            if isinstance(database, FileDatabase) and copy.kind == "backup":
                try:
                    results[index] = replace(copy, removed=database.remove_backup(copy.path))
                except VectorStoreError as error:  # the memory itself is forgotten: that must not seem to have failed
                    results[index] = replace(copy, note=f"not removed: {error}")
        return tuple(results)


def _unfinished_copies(folders: Iterable[Path]) -> list[ExternalCopy]:
    """Return the unfinished copies in *folders*, after those of killed processes were removed."""
    from tellback.vectorstore.sqlite import remove_abandoned_files, unfinished_files

    copies = []
    for folder in sorted(folders):
        remove_abandoned_files(folder)
        for path in unfinished_files(folder):
            with suppress(OSError):
                copies.append(ExternalCopy("unfinished", str(path), datetime.fromtimestamp(path.stat().st_mtime, UTC)))
    return copies


def _note(path: str) -> str:
    if path == STREAM_PATH:
        return _STREAM_NOTE
    return "" if os.path.lexists(path) else _MISSING_NOTE
