"""Asking SQLite: rows as plain tuples. What a column holds is the schema's promise (all tables are STRICT)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import apsw

from vectorstore.errors import DamageError

Row: TypeAlias = tuple[Any, ...]
as_json = json.JSONEncoder(ensure_ascii=False).encode
"""A list as JSON text, for ``json_each``."""


def every(connection: apsw.Connection, sql: str, values: Sequence[apsw.SQLiteValue] = ()) -> list[Row]:
    """Return all rows."""
    return connection.execute(sql, tuple(values)).fetchall()


def each(connection: apsw.Connection, sql: str, values: Sequence[apsw.SQLiteValue] = ()) -> Iterator[Row]:
    """Return rows one by one, as SQLite finds them."""
    found: Iterator[Row] = connection.execute(sql, tuple(values))
    return found


def first(connection: apsw.Connection, sql: str, values: Sequence[apsw.SQLiteValue] = ()) -> Row | None:
    """Return the first row, None where there is none."""
    cursor = connection.execute(sql, tuple(values))
    row: Row | None = next(cursor, None)
    cursor.close(True)
    return row


def only(connection: apsw.Connection, sql: str, values: Sequence[apsw.SQLiteValue] = ()) -> Row:
    """Return the first row of a question that always has one."""
    row = first(connection, sql, values)
    if row is None:
        raise DamageError(f"a row that must be there is missing: {sql}")
    return row
