"""Copy of a database into another home, table by table, in one transaction of each.

The tables are the same in every home, and so are their keys: a copy has the identity, the history and the numbers of
the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from tellback.vectorstore.database import Component, Connection, Database, VectorBytes
from tellback.vectorstore.errors import ArgumentError, DamageError
from tellback.vectorstore.types import Finding

_BATCH: Final = 1000
_VECTOR_TABLES: Final = ("vectors", "next_vectors")
_NOT_COPIED: Final = ("components", "search_indexes", "postings")
"""Tables that the copy makes for itself, or does without until they are asked for."""
_VERSIONS: Final = "SELECT name, version FROM components ORDER BY name"


def copy_tables(source: Database, target: Database, components: Sequence[Component]) -> dict[str, int]:
    """Copy every table of *source* to *target*, which has none of the rows yet; return the number of rows by table.

    *components* are all parts that *source* may have, with the versions that it has; those that it has are attached to
    *target*. What is written to *source* meanwhile is not copied. Each row is compared with its checksum in the copy.
    Where *target* is not new, or the parts are not those, ``ArgumentError`` is raised; where it comes out otherwise
    ``DamageError``: then nothing is left in it.
    """
    with source.read() as reader, target.write() as writer:
        versions = dict(reader.execute(_VERSIONS))
        parts = [component for component in components if component.name in versions]
        if {part.name: len(part.migrations) for part in parts} != versions:
            needed = "every part of the source, at its newest version, is needed; open it once with this Tellback"
            raise ArgumentError("components", sorted(versions), needed)
        if writer.execute(_VERSIONS).fetchone() is not None:
            raise ArgumentError("target", writer.dialect.name, "a new place is needed, with nothing in it")
        for component in parts:
            target.attach(component)
        writer.execute("DELETE FROM file_facts")  # its own identity
        tables = [str(name) for (name,) in reader.execute(reader.dialect.tables) if name not in _NOT_COPIED]
        counts = {table: _copy_table(reader, writer, table) for table in tables}
        for table, count in counts.items():
            ((copied,),) = writer.execute(f"SELECT count(*) FROM {table}")
            if copied != count:
                raise DamageError([Finding(table, f"{copied} of {count} rows came out of the copy")])
        writer.execute("DELETE FROM store_facts WHERE name LIKE 'index %'")  # of a server's tables that stay behind
        writer.dialect.continue_keys(writer)
        for component in parts:
            if findings := component.verify(writer):
                raise DamageError(findings)
    return counts


def _copy_table(reader: Connection, writer: Connection, table: str) -> int:
    columns = [str(name) for (name,) in reader.execute(reader.dialect.columns, (table,))]
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows, count = _rows(reader, table, columns), 0
    while batch := list(islice(rows, _BATCH)):
        writer.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", batch)
        count += len(batch)
    return count


def _rows(reader: Connection, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    rows: Iterator[tuple[Any, ...]] = iter(reader.execute(f"SELECT {', '.join(columns)} FROM {table}"))
    if table not in _VECTOR_TABLES:
        return rows
    place = columns.index("vector")
    return ((*row[:place], VectorBytes(row[place]), *row[place + 1 :]) for row in rows)
