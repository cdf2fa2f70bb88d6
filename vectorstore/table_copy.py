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
_VERSIONS: Final = "SELECT name, version FROM components ORDER BY name"


def copy_tables(source: Database, target: Database, components: Sequence[Component]) -> dict[str, int]:
    """Copy every table of *source* to *target*, which has none of the rows yet; return the number of rows by table.

    *components* are all parts that *source* has; they are attached to *target*. What is written to *source* meanwhile
    is not copied. Where *target* is not new ``ArgumentError`` is raised; where it comes out otherwise, or an error ends
    it, nothing is left in it.
    """
    with source.read() as reader, target.write() as writer:
        for component in components:
            target.attach(component)
        if list(reader.execute(_VERSIONS)) != list(writer.execute(_VERSIONS)):
            raise ArgumentError("components", [part.name for part in components], "all parts of the source are needed")
        if writer.execute("SELECT 1 FROM namespaces").fetchone() is not None:
            raise ArgumentError("target", getattr(target, "path", target), "a new place is needed, without memories")
        counts: dict[str, int] = {}
        tables = [str(name) for (name,) in reader.execute(reader.dialect.tables)]
        for table in reversed(tables):  # what the parts put into a new database, such as a secret of its own
            if table != "components":
                writer.execute(f"DELETE FROM {table}")
        for table in tables:
            if table != "components":
                counts[table] = _copy_table(reader, writer, table)
        for table, count in counts.items():
            ((copied,),) = writer.execute(f"SELECT count(*) FROM {table}")
            if copied != count:
                raise DamageError([Finding(table, f"{copied} of {count} rows came out of the copy")])
        writer.dialect.continue_keys(writer)
        for component in components:
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
