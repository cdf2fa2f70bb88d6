"""The rows of a damaged table that can still be read, for a component's ``salvage``. What to trust is its business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

_PAGE: Final = 500
_TRIES: Final = 100_000
"""Reads that may fail in one table before what is left of its damaged part is given up."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


def readable_rows(
    connection: apsw.Connection, table: str, columns: str, *, key: str = "rowid"
) -> Iterator[apsw.SQLiteValues]:
    """Yield *columns* of every row of *table* that can be read, in order of its integer *key*.

    Damage that ends a plain scan costs only the rows on the damaged pages: a range of keys that fails is halved
    until what remains can be read or is one key. Names are SQL of ours, never a user's.
    """
    select = f"SELECT {key}, {columns} FROM {table} WHERE {key}"
    many, one = f"{select} BETWEEN ? AND ? ORDER BY {key} LIMIT {_PAGE}", f"{select} = ?"
    tries = _TRIES
    ranges = [(_LEAST, _MOST)]
    while ranges and tries:
        low, high = ranges.pop()
        try:
            if low < high:
                rows = connection.execute(many, (low, high)).fetchall()
            else:  # a range would look at the next page too, to see that it ends there
                rows = connection.execute(one, (low,)).fetchall()
        except _DAMAGE:
            tries -= 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
            continue
        if len(rows) == _PAGE:
            # In a damaged tree keys can be out of order: without a higher one this would go on for ever.
            following = max(int(str(row[0])) for row in rows) + 1
            tries -= following <= low + 1
            if max(low + 1, following) <= high:
                ranges.append((max(low + 1, following), high))
        for row in rows:
            yield row[1:]
