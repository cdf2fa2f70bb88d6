"""The dialect of SQLite, in a file and in memory, and the class of its connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from tellback.vectorstore.database import Connection, Dialect
from tellback.vectorstore.filters import FilterNode
from tellback.vectorstore.sqlite.filter_sql import filter_to_sql


def _condition(connection: Connection, namespace: int, where: FilterNode) -> tuple[str, Sequence[Any]]:
    return filter_to_sql(where)


def _continue_keys(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO store_facts SELECT 'next_key', CAST(coalesce(max(key), 0) + 1 AS TEXT) FROM entries WHERE TRUE"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )


SQLITE: Final = Dialect(
    name="sqlite",
    greatest="MAX",
    contains_bytes="instr(CAST({} AS BLOB), ?) > 0",
    text_bytes="CAST({} AS BLOB)",
    table_exists="SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?",
    index_exists="SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?",
    tables="SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
    columns="SELECT name FROM pragma_table_info(?) ORDER BY cid",
    primary_key="SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
    continue_keys=_continue_keys,
    now="unixepoch('subsec')",
    wanted_keys="json_each(?) AS wanted CROSS JOIN",
    wanted_texts="json_each(?) AS wanted CROSS JOIN",
    no_index=" NOT INDEXED",
    by_index=" INDEXED BY {}",
    text_field="CASE json_type({0}, '$.{1}') WHEN 'text' THEN json_extract({0}, '$.{1}') END",
    next_keys="INSERT INTO store_facts VALUES ('next_key', CAST(1 + ?1 AS TEXT)) ON CONFLICT (name) DO UPDATE"
    " SET value = CAST(CAST(value AS INTEGER) + ?1 AS TEXT) RETURNING CAST(value AS INTEGER) - ?1",
    vector_type="BLOB",
    cosine_distance="vec_distance_cosine({}, ?)",
    l2_distance="vec_distance_L2({}, ?)",
    infinity="9e999",
    condition=_condition,
    namespace_index="NULL",
)
"""The dialect of files and of the memory of the process."""


class SqliteConnection(apsw.Connection):
    """Implements ``Connection``."""

    dialect: Dialect = SQLITE

    def read_ahead(self, reads: Iterable[tuple[str, Sequence[Any]]], /) -> None:
        """As ``Connection.read_ahead``: nothing."""
