"""Copy of a database into another home, table by table: it can be broken off and gone on with, and is compared whole.

The tables are the same in every home, and so are their keys: a copy has the identity, the history and the numbers of
the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from tellback.vectorstore.database import Component, Connection, Database, VectorBytes
from tellback.vectorstore.errors import ArgumentError, DamageError, NotAStore

_BATCH: Final = 1000
_VECTOR_TABLES: Final = ("vectors", "next_vectors")
_NOT_COPIED: Final = ("components", "file_facts", "search_indexes", "postings")
"""Tables that the copy makes for itself, or does without until they are asked for."""
_VERSIONS: Final = "SELECT name, version FROM components ORDER BY name"
UNFINISHED_COPY: Final = "copy of"
"""Fact of a database to which a copy has not ended: the identity of the original."""
_MARK: Final = "SELECT value FROM file_facts WHERE name = ?"


def copy_tables(source: Database, target: Database, components: Sequence[Component]) -> dict[str, int]:
    """Copy every table of *source* to *target*, which is new or has a part of this copy; return the rows by table.

    *components* are all parts that *source* may have, with the versions that it has; those that it has are attached to
    *target*. What is copied is one state of *source*: what is written to it meanwhile is not. Rows go over in batches,
    each one transaction, in the order of their keys, so that a copy that was broken off is gone on with where it was.
    In the end both are read again: the number of rows of each table, a sum of hashes over all of them, and each row's
    own checksum have to be right. Then alone *target* can be opened by others.

    Where *target* is not new, the parts are not those, or *source* was written between the beginning of a copy and its
    end, ``ArgumentError`` is raised.
    """
    with source.read() as reader:
        versions = dict(reader.execute(_VERSIONS))
        parts = [component for component in components if component.name in versions]
        if {part.name: len(part.migrations) for part in parts} != versions:
            needed = "every part of the source, at its newest version, is needed; open it once with this Tellback"
            raise ArgumentError("components", sorted(versions), needed)
        _begin(source.identity, target, parts)
        tables = [str(name) for (name,) in reader.execute(reader.dialect.tables) if name not in _NOT_COPIED]
        for table in tables:
            _copy_table(reader, target, table)
        with target.write() as writer:
            counts = {table: _compared(reader, writer, table) for table in tables}
            writer.execute("DELETE FROM file_facts")  # its own identity, and the mark
            facts = reader.execute("SELECT name, value FROM file_facts").fetchall()
            writer.executemany("INSERT INTO file_facts (name, value) VALUES (?, ?)", facts)
            writer.execute("DELETE FROM store_facts WHERE name LIKE 'index %'")  # of a server's tables that stay behind
            writer.dialect.continue_keys(writer)
            for component in parts:
                if findings := component.verify(writer):
                    raise DamageError(findings)
    return {**counts, "file_facts": len(facts)}


def check_whole(connection: Connection) -> None:
    """Raise ``NotAStore`` for the target of a copy that has not ended."""
    if connection.execute(_MARK, (UNFINISHED_COPY,)).fetchone() is not None:
        raise NotAStore("the target of a copy", "the copy has not ended; the same migration goes on with it")


def _begin(identity: str, target: Database, parts: Sequence[Component]) -> None:
    with target.write() as writer:
        mark = writer.execute(_MARK, (UNFINISHED_COPY,)).fetchone()
        if mark == (identity,):
            return
        if mark is not None or writer.execute(_VERSIONS).fetchone() is not None:
            needed = "a new place is needed, with nothing in it" if mark is None else "it has a part of another's copy"
            raise ArgumentError("target", writer.dialect.name, needed)
        for component in parts:
            target.attach(component)
        writer.execute("INSERT INTO file_facts (name, value) VALUES (?, ?)", (UNFINISHED_COPY, identity))
        for (table,) in writer.execute(writer.dialect.tables).fetchall():
            if table not in _NOT_COPIED:  # what its parts began with
                writer.execute(f"DELETE FROM {table}")


def _copy_table(reader: Connection, target: Database, table: str) -> None:
    """Copy what comes after the last key that *target* has; a table without keys as a whole."""
    keys = key_names(reader, table)
    with target.read() as connection:
        last = _last_key(connection, table, keys) if keys else None
    columns = column_names(reader, table)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    for batch in _batches(reader, table, last):
        with target.write() as writer:
            if not keys:
                writer.execute(f"DELETE FROM {table}")
            writer.executemany(insert, batch)


def _compared(reader: Connection, writer: Connection, table: str) -> int:
    (count, total), copied = (_sum(connection, table) for connection in (reader, writer))
    if copied != (count, total):
        expected = "an original that nobody writes is needed: it has changed since the copy began, so begin a new one"
        raise ArgumentError("source", f"{table}: {copied[0]} of {count} rows came out as they are", expected)
    return count


def _sum(connection: Connection, table: str) -> tuple[int, int]:
    """Return the number of rows, and the sum of their hashes, whatever their order is."""
    count = total = 0
    for batch in _batches(connection, table, None):
        count += len(batch)
        for row in batch:
            plain = tuple(bytes(value) if isinstance(value, (bytes, memoryview)) else value for value in row)
            total += int.from_bytes(blake2b(repr(plain).encode(), digest_size=8).digest(), "big")
    return count, total % 2**64


def _batches(connection: Connection, table: str, after: Sequence[Any] | None) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows after a key in the order of the keys; of a table without keys all at once, even none."""
    columns, keys = column_names(connection, table), key_names(connection, table)
    select = f"SELECT {', '.join(columns)} FROM {table}"
    vector = columns.index("vector") if table in _VECTOR_TABLES else None
    places = [columns.index(key) for key in keys]
    names, marks = ", ".join(keys), ", ".join("?" * len(keys))
    while True:
        if not keys:
            rows = connection.execute(select).fetchall()
        elif after is None:
            rows = connection.execute(f"{select} ORDER BY {names} LIMIT {_BATCH}").fetchall()
        else:
            query = f"{select} WHERE ({names}) > ({marks}) ORDER BY {names} LIMIT {_BATCH}"
            rows = connection.execute(query, after).fetchall()
        if keys and not rows:
            return
        after = [rows[-1][place] for place in places]
        yield rows if vector is None else [_with_vector(row, vector) for row in rows]
        if not keys:
            return


def _with_vector(row: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return (*row[:place], VectorBytes(row[place]), *row[place + 1 :])


def column_names(connection: Connection, table: str) -> list[str]:
    """Return the names of the columns of *table*, in order; none where it does not exist."""
    return [str(name) for (name,) in connection.execute(connection.dialect.columns, (table,))]


def key_names(connection: Connection, table: str) -> list[str]:
    """Return the names of the columns of the primary key of *table*, in order."""
    return [str(name) for (name,) in connection.execute(connection.dialect.primary_key, (table,))]


def _last_key(connection: Connection, table: str, keys: Sequence[str]) -> Sequence[Any] | None:
    names = ", ".join(keys)
    order = ", ".join(f"{key} DESC" for key in keys)
    row: Sequence[Any] | None = connection.execute(f"SELECT {names} FROM {table} ORDER BY {order} LIMIT 1").fetchone()
    return row
