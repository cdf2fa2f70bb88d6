"""Entries in the order of a metadata field, by an index of the file that SQLite keeps in each write's transaction.

It is made when somebody first asks for that order, so that a file of which nobody does pays nothing. Without it (the
file cannot be written to, or somebody else writes) SQLite sorts, with the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import apsw

from vectorstore.errors import DamageError, VectorStoreError
from vectorstore.filters import Node
from vectorstore.scanning import Place, place_of
from vectorstore.sqlite import rows
from vectorstore.sqlite.database import Database
from vectorstore.sqlite.filter_sql import to_sql
from vectorstore.sqlite.query import every, first, only
from vectorstore.types import Entry, Finding

_FIRST_PAGE: Final = 32
_PAGE: Final = 256


def scan(
    database: Database, namespace: str, fields: Sequence[str], where: Node, after: Place | None, *, reverse: bool
) -> Iterator[Entry]:
    """Yield the entries of *namespace* behind the place *after*, in order of *fields*; a small page comes first."""
    _make_index(database, fields)
    with database.read() as connection:
        if (there := rows.namespace_key(connection, namespace)) is not None:
            _check_counted(connection, there, fields)

    def pages() -> Iterator[Entry]:
        at, size = after, _FIRST_PAGE
        while True:
            with database.read() as connection:
                key = rows.namespace_key(connection, namespace)
                page = [] if key is None else _page(connection, key, fields, where, at, size, reverse=reverse)
            yield from page
            if len(page) < size:
                return
            at, size = place_of(page[-1], fields), _PAGE

    return pages()


def _make_index(database: Database, fields: Sequence[str]) -> None:
    """Make the index for *fields* if it is not there; where it cannot be made, go without."""
    with database.read() as connection:
        there = _has_index(connection, fields)
    if there or database.read_only:
        return
    try:
        with database.write() as connection:
            place = _place(fields)
            connection.execute(f"CREATE INDEX IF NOT EXISTS {_name(fields)} ON entries (namespace, {place}, id)")
    except VectorStoreError:  # busy, full: the answer is the same, and the next call tries again
        return


def _check_counted(connection: apsw.Connection, namespace: int, fields: Sequence[str]) -> None:
    """Raise when entries were lost from the index by which they are found."""
    if not _has_index(connection, fields):
        rows.check_counted(connection, namespace)
        return
    there = f"SELECT count(*) FROM entries INDEXED BY {_name(fields)} WHERE namespace = ?"
    (counted,) = only(connection, there, (namespace,))
    (entries,) = only(connection, "SELECT entries FROM namespaces WHERE key = ?", (namespace,))
    if counted != entries:
        raise DamageError([Finding("entries", f"{counted} are found by {_name(fields)} where {entries} were counted")])


def _page(
    connection: apsw.Connection,
    namespace: int,
    fields: Sequence[str],
    where: Node,
    after: Place | None,
    size: int,
    *,
    reverse: bool,
) -> list[Entry]:
    """Return up to *size* entries behind the place *after*: first the others of its value, then those of the next."""
    place, sign, down = _place(fields, "e."), "<" if reverse else ">", " DESC" if reverse else ""
    order = f"{place}{down}, e.id{down}"
    if after is None:
        return _found(connection, namespace, where, "1", (), order, size)
    value, id = after
    same = f"{place} = ? AND e.id {sign} ?"
    found = _found(connection, namespace, where, same, (value, id), f"e.id{down}", size)
    if len(found) < size:
        found += _found(connection, namespace, where, f"{place} {sign} ?", (value,), order, size - len(found))
    return found


def _found(
    connection: apsw.Connection,
    namespace: int,
    where: Node,
    start: str,
    bound: Sequence[apsw.SQLiteValue],
    order: str,
    size: int,
) -> list[Entry]:
    condition, values = to_sql(where)
    found = every(
        connection,
        f"SELECT {rows.COLUMNS} {rows.FROM} WHERE e.namespace = ? AND {start} AND ({condition})"
        f" ORDER BY {order} LIMIT ?",
        (namespace, *bound, *values, size),
    )
    return [rows.entry_of(row) for row in found]


def _place(fields: Sequence[str], of: str = "") -> str:
    """Return the SQL of the value that orders an entry; *fields* are plain names, checked by who asks."""
    texts = (
        f"CASE json_type({of}metadata, '$.{field}') WHEN 'text' THEN json_extract({of}metadata, '$.{field}') END"
        for field in fields
    )
    return f"coalesce({', '.join(texts)}, '')"


def _name(fields: Sequence[str]) -> str:
    return "entries_by_" + "_or_".join(fields)


def _has_index(connection: apsw.Connection, fields: Sequence[str]) -> bool:
    named = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?"
    return first(connection, named, (_name(fields),)) is not None
