"""External copies that a forgetting does not reach: exports and backups. Named, and backups removed on request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memory.models import MemoryChange, Operation
from memory.results import ExternalCopy
from memory.tables.operation_log import NO_MEMORY
from memory.write.context import WriteContext
from vectorstore import Database, VectorStoreError

EXPORT_KIND: Final = "export"
"""The kind of the operations by which exports are recorded."""
_NO_LIMIT: Final = 1_000_000


def export_change(facts: dict[str, Any]) -> MemoryChange:
    """Return the change that records an export: *facts* are its path, hash and counts."""
    return MemoryChange(NO_MEMORY, new=facts)


def export_operations(context: WriteContext, namespace: str) -> Sequence[Operation]:
    """Return the operations that exported *namespace*, the newest first."""
    found = context.operations.list(namespace, memory=NO_MEMORY, limit=_NO_LIMIT)
    return [one for one in found if one.kind == EXPORT_KIND]


def list_external_copies(context: WriteContext, namespace: str) -> list[ExternalCopy]:
    """Return the exports of *namespace* and the backups of the file, each as it stands."""
    copies = [
        ExternalCopy("export", str(change.new.get("path", "")), one.at)
        for one in reversed(export_operations(context, namespace))
        for change in one.changes
    ]
    database = context.database
    if database is not None:
        copies += [ExternalCopy("backup", path, datetime.fromisoformat(at)) for path, at in database.backups().items()]
    gone = "nothing is at its path any more; it may have been moved"
    return [one if os.path.lexists(one.path) else replace(one, note=gone) for one in copies]


def delete_backups(context: WriteContext, copies: Sequence[ExternalCopy]) -> tuple[ExternalCopy, ...]:
    """Remove the backups among *copies*; return them all, each with what became of it."""
    database = context.database
    return tuple(
        _delete_backup(database, one) if database is not None and one.kind == "backup" else one for one in copies
    )


def _delete_backup(database: Database, copy: ExternalCopy) -> ExternalCopy:
    try:
        return replace(copy, removed=database.remove_backup(copy.path))
    except VectorStoreError as error:  # the memory itself is forgotten: that must not seem to have failed
        return replace(copy, note=f"not removed: {error}")
