"""Rows that were read lately and were whole: until they change they are neither read nor checked again.

Whoever holds them says which have changed (``forget``); a state in which they differ must not be read through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from vectorstore.sqlite.query import Row
from vectorstore.sqlite.rows import checked_rows, entry_from
from vectorstore.types import Entry

LIMIT: Final = 8 << 20
"""Bytes that are kept, about."""
_OVERHEAD: Final = 500
"""Bytes of a row beside its texts and its vector."""
_LARGEST: Final = LIMIT // 64


class RecentRows:
    """The rows of one file by their key, those read longest ago going first. Not thread-safe."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._bytes = 0

    def entries(self, connection: apsw.Connection, keys: Sequence[int]) -> list[Entry]:
        """Return the entries of *keys* in that order; each is a value of its own."""
        found = {key: self._rows[key] for key in keys if key in self._rows}
        if missing := [key for key in keys if key not in found]:
            fresh = checked_rows(connection, missing)
            found.update(fresh)
            self._keep(fresh.values())
        return [entry_from(found[key]) for key in keys]

    def forget(self, keys: Iterable[int]) -> None:
        """Drop rows that have changed."""
        for key in keys:
            if (row := self._rows.pop(key, None)) is not None:
                self._bytes -= _size(row)

    def clear(self) -> None:
        """Drop every row."""
        self._rows.clear()
        self._bytes = 0

    def _keep(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if _size(row) <= _LARGEST:
                self._rows[row[0]] = row
                self._bytes += _size(row)
        while self._bytes > LIMIT:
            self.forget([next(iter(self._rows))])


def _size(row: Row) -> int:
    _, id, _, text, context, metadata, _, _, vector, _ = row
    return _OVERHEAD + len(id) + len(text) + len(context) + len(metadata) + len(vector or b"")
