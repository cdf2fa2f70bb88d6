"""Entries read from the file: by key, by id, by filter, in pages, and in the order of a metadata field.

Each is checked against its checksum. The index for the order of a field is made when that order is first used. Without
it (the file is read-only, or another process writes) SQLite sorts, with the same result.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.database import Connection, Database, Dialect
from tellback.vectorstore.errors import DamageError, VectorStoreError
from tellback.vectorstore.filters import FilterNode
from tellback.vectorstore.ordered_scan import ScanPosition, scan_position
from tellback.vectorstore.outline_scan import EntryOutline
from tellback.vectorstore.sqlite.connection import (
    Row,
    fetch_all,
    fetch_first,
    fetch_one,
    iterate_rows,
    json_array,
    rows_of_keys,
)
from tellback.vectorstore.sqlite.dialect import SQLITE
from tellback.vectorstore.sqlite.integrity import add_checksums, entry_checksum, vector_checksum
from tellback.vectorstore.types import Changes, Cursor, Entry, Finding, Metric, Space, Vector

_CONTENT_COLUMNS: Final = "e.id, e.revision, e.text, e.context, e.metadata, e.no_vector, e.checksum"
_ROW_COLUMNS: Final = f"e.key, {_CONTENT_COLUMNS}, v.vector, v.checksum"
_OUTLINE_COLUMNS: Final = f"{_CONTENT_COLUMNS}, v.key IS NOT NULL"
_WITH_VECTORS: Final = " LEFT JOIN vectors AS v ON v.key = e.key"
IS_PENDING = (
    "(e.no_vector IS NULL AND NOT EXISTS (SELECT 1 FROM next_vectors AS n WHERE n.key = e.key)"
    " AND NOT EXISTS (SELECT 1 FROM next_no_vector AS r WHERE r.key = e.key))"
)
"""Condition of an entry that is pending in the space being filled."""
SPACE_FACT: Final = "space"
NEXT_SPACE_FACT: Final = "next_space"
"""Names, in the file, of the space in use and of the one being filled."""
NAMESPACE_BY_NAME: Final = "(SELECT key FROM namespaces WHERE name = ?)"
READ_FACT: Final = "SELECT value FROM store_facts WHERE name = ?"
_LOAD_BLOCK = 512
_FLOAT_BYTES: Final = 4
_MISSING_ENTRY: Final = "an entry that must be there is missing"
_MISSING_VECTORS: Final = "some are missing: the sum of checksums differs"
_VECTOR_COLUMNS = "key, namespace, norm, checksum, vector"
_TABLE_COLUMNS = {
    "namespaces": "key, name, revision, entries, tally, vector_tally, next_tally, next_term, pruned",
    "entries": "key, namespace, id, revision, text, context, metadata, no_vector, checksum",
    "vectors": _VECTOR_COLUMNS,
    "next_vectors": _VECTOR_COLUMNS,
    "next_no_vector": "key, namespace, reason, checksum",
    "terms": "namespace, number, term",
    "forward": "key, namespace, context_length, sequence",
    "changes": "namespace, revision, key, removed",
}
_STORED_ENTRY_SQL = (
    "SELECT e.id, e.key, e.revision, e.checksum, v.checksum, coalesce(n.checksum, r.checksum) FROM {}"
    " LEFT JOIN vectors AS v ON v.key = e.key LEFT JOIN next_vectors AS n ON n.key = e.key"
    " LEFT JOIN next_no_vector AS r ON r.key = e.key{}"
)
_parse_json = json.JSONDecoder().raw_decode  # canonical JSON has nothing around it


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """Fields of a stored entry that a write needs."""

    key: int
    revision: int
    checksum: int
    vector_checksum: int | None
    next_checksum: int | None
    """Checksum of its vector in the space being filled, or of the reason for having none there."""


def read_space(connection: Connection, name: str = SPACE_FACT) -> Space | None:
    """Return the space in use, or the one being filled."""
    row = fetch_first(connection, READ_FACT, (name,))
    return None if row is None else parse_space(row[0])


@lru_cache(maxsize=4)
def parse_space(text: str) -> Space:
    """Return the space of its recorded JSON; cached, since every search needs it."""
    try:
        facts = json.loads(text)
        return Space(facts["fingerprint"], facts["dimension"], Metric(facts["metric"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamageError([Finding("store_facts", "the space is not what was written")]) from error


def namespace_key(connection: Connection, name: str) -> int | None:
    """Return the key of a namespace that was written at least once."""
    row = fetch_first(connection, "SELECT key FROM namespaces WHERE name = ?", (name,))
    return None if row is None else row[0]


def namespace_names(connection: Connection, prefix: str) -> list[str]:
    """Return the names of the namespaces that have entries and begin with *prefix*, sorted."""
    sql, values = "SELECT name FROM namespaces WHERE entries > 0 AND name >= ?", [prefix]
    if before := _after_all(prefix):
        sql, values = f"{sql} AND name < ?", [prefix, before]
    return [name for (name,) in fetch_all(connection, f"{sql} ORDER BY name", values) if name.startswith(prefix)]


def _after_all(prefix: str) -> str:
    """Return the least text above all that begin with *prefix*; "" where there is none."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    following = ord(stem[-1]) + 1 if stem else 0
    return stem[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following) if stem else ""


def stored_entries_by_id(connection: Connection, namespace: str, ids: Iterable[str]) -> dict[str, StoredEntry]:
    """Return those of *ids* that exist."""
    rows = iterate_rows(connection, *stored_entries_query(connection, namespace, ids))
    return {id: StoredEntry(*rest) for id, *rest in rows}


def stored_entries_query(connection: Connection, namespace: str, ids: Iterable[str]) -> tuple[str, Sequence[Any]]:
    """Return the statement of ``stored_entries_by_id``, with its values."""
    names = list(ids)
    if len(names) == 1:  # the usual write, for which json_each would take longer than the rest of the query
        only = f" WHERE e.id = ? AND e.namespace = {NAMESPACE_BY_NAME}"
        return _STORED_ENTRY_SQL.format("entries AS e", only), (*names, namespace)
    wanted = connection.dialect.wanted_texts
    tables = f"{wanted} entries AS e ON e.id = wanted.value AND e.namespace = {NAMESPACE_BY_NAME}"
    return _STORED_ENTRY_SQL.format(tables, ""), (json_array(names), namespace)


def rows_by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Row]:
    """Return the rows of *keys* by key, for ``parse_entry``; a missing or damaged one raises ``DamageError``."""
    rows = rows_of_keys(connection, _ROW_COLUMNS, f"entries AS e ON e.key = wanted.value{_WITH_VECTORS}", keys)
    rows_found = {row[0]: _check_row(row) for row in rows}
    if missing := [key for key in keys if key not in rows_found]:
        raise DamageError([Finding("entries", _MISSING_ENTRY, str(missing[0]))])
    return rows_found


def ids_by_key(connection: Connection, keys: Sequence[int]) -> list[str]:
    """Return the ids of *keys* in that order; a missing entry raises ``DamageError``."""
    id_of: dict[int, str] = dict(rows_of_keys(connection, "e.key, e.id", "entries AS e ON e.key = wanted.value", keys))
    if missing := [key for key in keys if key not in id_of]:
        raise DamageError([Finding("entries", _MISSING_ENTRY, str(missing[0]))])
    return [id_of[key] for key in keys]


def entries_by_id(connection: Connection, namespace: int, ids: Sequence[str]) -> list[Entry | None]:
    """Return the entries of *ids* in that order, None where there is none."""
    tables = f"{connection.dialect.wanted_texts} entries AS e ON e.namespace = ? AND e.id = wanted.value{_WITH_VECTORS}"
    bound = (json_array(list(dict.fromkeys(ids))), namespace)
    rows = iterate_rows(connection, f"SELECT {_ROW_COLUMNS} FROM {tables}", bound)
    row_of = {row[1]: row for row in rows}
    return [checked_entry(row_of[id]) if id in row_of else None for id in ids]


def entry_page(
    connection: Connection, namespace: int, where: FilterNode, after: str | None, embedded: bool | None, size: int
) -> list[Entry]:
    """Return up to *size* entries after the id *after*, in order of id."""
    condition, values = connection.dialect.condition(connection, namespace, where)
    state = {None: "", True: " AND v.key IS NOT NULL", False: " AND v.key IS NULL AND e.no_vector IS NULL"}
    return _id_page(connection, namespace, after, f"({condition}){state[embedded]}", values, size)


def pending_page(connection: Connection, namespace: int, after: str | None, size: int) -> list[Entry]:
    """Return up to *size* entries after the id *after* that are pending in the space being filled, by id."""
    return _id_page(connection, namespace, after, IS_PENDING, (), size)


def _id_page(
    connection: Connection, namespace: int, after: str | None, condition: str, values: Sequence[Any], size: int
) -> list[Entry]:
    if after is not None:
        condition, values = f"e.id > ? AND {condition}", (after, *values)
    return _checked_entries(connection, namespace, condition, values, "e.id", size)


def _checked_entries(
    connection: Connection, namespace: int, condition: str, values: Sequence[Any], order: str, size: int
) -> list[Entry]:
    rows = _rows(connection, _ROW_COLUMNS, namespace, condition, values, order, size)
    return [checked_entry(row) for row in rows]


def _rows(
    connection: Connection,
    columns: str,
    namespace: int,
    condition: str,
    values: Sequence[Any],
    order: str,
    size: int,
) -> Iterator[Row]:
    sql = f"SELECT {columns} FROM entries AS e{_WITH_VECTORS} WHERE e.namespace = ? AND {condition}"
    return iterate_rows(connection, f"{sql} ORDER BY {order} LIMIT ?", (namespace, *values, size))


def matching_ids(connection: Connection, namespace: int, where: FilterNode, ids: Sequence[str] | None) -> list[str]:
    """Return the ids of the entries that pass *where*, in order; with *ids* only those among them."""
    condition, values = connection.dialect.condition(connection, namespace, where)
    wanted = "" if ids is None else f"{connection.dialect.wanted_texts} "
    among = "" if ids is None else "ON e.id = wanted.value "
    rows = iterate_rows(
        connection,
        f"SELECT e.id FROM {wanted}entries AS e {among}WHERE e.namespace = ? AND ({condition}) ORDER BY e.id",
        (*(() if ids is None else (json_array(list(dict.fromkeys(ids))),)), namespace, *values),
    )
    return [id for (id,) in rows]


def matching_keys(connection: Connection, namespace: int, where: FilterNode) -> NDArray[np.int64]:
    """Return the keys of the entries that pass *where*."""
    condition, values = connection.dialect.condition(connection, namespace, where)
    (joined,) = fetch_one(
        connection,
        f"SELECT string_agg(CAST(e.key AS TEXT), ',') FROM entries AS e WHERE e.namespace = ? AND ({condition})",
        (namespace, *values),
    )
    return np.array(joined.split(","), dtype=np.int64) if joined else np.empty(0, dtype=np.int64)


def ids_holding(connection: Connection, namespace: int, texts: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return the ids of the entries that hold one of *texts* in text or metadata, or of *names* in metadata, sorted."""
    check_entry_count(connection, namespace)
    in_metadata = [json.dumps(text, ensure_ascii=False)[1:-1] for text in (*texts, *names)]
    values = [text.encode() for text in (*texts, *in_metadata)]  # as bytes: SQL's texts end at a NUL
    contains = connection.dialect.contains_bytes
    tests = [contains.format("e.text")] * len(texts) + [contains.format("e.metadata")] * len(in_metadata)
    rows = f"entries AS e{connection.dialect.no_index}"
    sql = f"SELECT e.id FROM {rows} WHERE e.namespace = ? AND ({' OR '.join(tests) or 'FALSE'})"
    return sorted(id for (id,) in iterate_rows(connection, sql, (namespace, *values)))


def count_entries(connection: Connection, namespace: int, where: FilterNode) -> int:
    """Return how many entries pass *where*."""
    condition, values = connection.dialect.condition(connection, namespace, where)
    check_entry_count(connection, namespace)
    (count,) = fetch_one(
        connection, f"SELECT count(*) FROM entries AS e WHERE e.namespace = ? AND ({condition})", (namespace, *values)
    )
    return int(count)


def vector_blocks(
    connection: Connection, dimension: int, *, namespace: int | None = None, keys: Sequence[int] = ()
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Yield (keys, raw vectors) in blocks, of a whole namespace or of *keys*.

    Checked are the norms, and for a namespace the sum of the checksums: hashing all vectors would take longer than
    reading them. A vector that is returned with its entry is hashed.
    """
    columns = "v.key, v.norm, v.checksum, v.vector"
    if namespace is not None:
        rows = iterate_rows(connection, f"SELECT {columns} FROM vectors AS v WHERE v.namespace = ?", (namespace,))
    else:
        rows = rows_of_keys(connection, columns, "vectors AS v ON v.key = wanted.value", keys)
    total = 0
    while block := list(islice(rows, _LOAD_BLOCK)):
        block_keys, norms, checksums, blobs = zip(*block, strict=True)
        joined = b"".join(blob for blob in blobs if isinstance(blob, bytes))
        if len(joined) != 4 * dimension * len(block):
            raise DamageError([Finding("vectors", "a vector has the wrong length", f"keys from {block_keys[0]}")])
        vectors = np.frombuffer(joined, dtype="<f4").reshape(len(block), dimension)
        if not np.allclose(norms, np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)), 1e-12, 0.0):
            raise DamageError([Finding("vectors", "a vector differs from its norm", f"keys from {block_keys[0]}")])
        total = add_checksums(total, *checksums)
        yield list(block_keys), vectors
    if namespace is not None:
        (tally,) = fetch_one(connection, "SELECT vector_tally FROM namespaces WHERE key = ?", (namespace,))
        if total != tally:
            raise DamageError([Finding("vectors", _MISSING_VECTORS)])


def check_tallies(connection: Connection, namespace: int, *, entries: bool = True) -> None:
    """Raise when vectors of a namespace were lost, or with *entries* when entries were.

    SQLite sums the checksums in halves of 32 bits, which cannot overflow.
    """

    def total(table: str) -> tuple[int, int]:
        count, high, low = fetch_one(
            connection,
            "SELECT count(*), coalesce(sum(checksum >> 32), 0), coalesce(sum(checksum & 4294967295), 0)"
            f" FROM {table} WHERE namespace = ?",
            (namespace,),
        )
        return count, add_checksums(0, high << 32, low)

    written, tally, vector_tally = fetch_one(
        connection, "SELECT entries, tally, vector_tally FROM namespaces WHERE key = ?", (namespace,)
    )
    if entries and (sums := total("entries")) != (written, tally):
        raise DamageError([Finding("entries", f"{sums[0]} are not the {written} that were written")])
    if total("vectors")[1] != vector_tally:
        raise DamageError([Finding("vectors", _MISSING_VECTORS)])


def check_tables(connection: Connection) -> None:
    """Raise when a table lacks a column, or namespaces were lost, which would look like an empty store."""
    for table, columns in _TABLE_COLUMNS.items():
        try:
            connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")
        except apsw.SQLError as error:
            raise DamageError([Finding("tables", str(error))]) from error
    (named,) = fetch_one(connection, "SELECT count(*) FROM namespaces WHERE name >= ''")
    (count,) = fetch_one(connection, f"SELECT count(*) FROM namespaces{connection.dialect.no_index}")
    (lost,) = fetch_one(
        connection,
        "SELECT count(*) FROM (SELECT min(namespace) AS key FROM entries UNION SELECT max(namespace) FROM entries)"
        " AS used WHERE used.key IS NOT NULL AND used.key NOT IN (SELECT key FROM namespaces)",
    )
    if named != count or lost:
        raise DamageError([Finding("namespaces", "are not all there")])


def check_entry_count(connection: Connection, namespace: int, index: str = "") -> None:
    """Raise when entries are missing from *index*, or by default from the index that SQLite chooses.

    A server sees to its indexes itself.
    """
    if not connection.dialect.by_index:
        return
    used, found_by = (connection.dialect.by_index.format(index), f" by {index}") if index else ("", "")
    (counted,) = fetch_one(connection, f"SELECT count(*) FROM entries{used} WHERE namespace = ?", (namespace,))
    (entries,) = fetch_one(connection, "SELECT entries FROM namespaces WHERE key = ?", (namespace,))
    if counted != entries:
        raise DamageError([Finding("entries", f"{counted} are found{found_by} where {entries} were counted")])


def checked_entry(row: Row) -> Entry:
    """Return the entry of a row of this module's columns; a damaged one raises ``DamageError``."""
    return parse_entry(_check_row(row))


def _check_row(row: Row) -> Row:
    id, blob, checksum = row[1], row[8], row[9]
    _check_content(row[1:8], has_vector=blob is not None)
    if blob is not None and vector_checksum(id, blob) != checksum:
        raise DamageError([Finding("vectors", "content differs from its checksum", id)])
    return row


def _check_content(content: Row, *, has_vector: bool) -> None:
    """Raise when *content*, the columns of an entry from its id to its checksum, is damaged."""
    *values, checksum = content
    if entry_checksum(*values, has_vector=has_vector) != checksum:
        raise DamageError([Finding("entries", "content differs from its checksum", content[0])])


def parse_entry(row: Row) -> Entry:
    """Return the entry of a checked row."""
    _, id, revision, text, context, metadata, no_vector, _, blob, _ = row
    vector: Vector | None = None
    if blob is not None:
        vector = np.frombuffer(bytearray(blob), dtype="<f4").astype(np.float32, copy=False)  # a writable copy
    return Entry(id, vector, text, context, _parse_json(metadata)[0], revision, no_vector)


def read_changes(connection: Connection, name: str, since: int | None) -> Changes:
    """Return the changes of a namespace after the write number *since*."""
    row = fetch_first(connection, "SELECT key, revision, pruned FROM namespaces WHERE name = ?", (name,))
    if row is None:
        return Changes((), (), Cursor(name, 0), complete=since is not None)
    key, revision, pruned = row
    cursor = Cursor(name, revision)
    if since is None or not pruned <= since <= revision:
        return Changes((), (), cursor, complete=False)
    logged = iterate_rows(
        connection,
        "SELECT e.id, c.removed FROM changes AS c LEFT JOIN entries AS e ON e.key = c.key"
        " WHERE c.namespace = ? AND c.revision > ? ORDER BY c.revision",
        (key, since),
    )
    ids: dict[str, bool] = {}
    for id, removed in logged:
        if id is not None:
            ids[id] = True
        elif removed is not None:
            ids.setdefault(removed, False)
    return Changes(
        tuple(id for id, present in ids.items() if present),
        tuple(id for id, present in ids.items() if not present),
        cursor,
        complete=True,
    )


_FIRST_PAGE_SIZE: Final = 32
_PAGE_SIZE: Final = 256


def ordered_entries(
    database: Database,
    namespace: str,
    fields: Sequence[str],
    where: FilterNode,
    after: ScanPosition | None,
    *,
    reverse: bool,
) -> Iterator[Entry]:
    """Yield the entries of *namespace* after the position *after*, in order of *fields*; the first page is small."""
    _make_order_index(database, fields)
    with database.read() as connection:
        if (key := namespace_key(connection, namespace)) is not None:
            index = _order_index_name(fields) if _has_order_index(connection, fields) else ""
            check_entry_count(connection, key, index)

    def pages() -> Iterator[Entry]:
        position, size = after, _FIRST_PAGE_SIZE
        while True:
            with database.read() as connection:
                key = namespace_key(connection, namespace)
                page = (
                    []
                    if key is None
                    else _ordered_page(connection, key, fields, where, position, size, reverse=reverse)
                )
            yield from page
            if len(page) < size:
                return
            position, size = scan_position(page[-1], fields), _PAGE_SIZE

    return pages()


def entry_outlines(database: Database, namespace: str, where: FilterNode) -> Iterator[EntryOutline]:
    """Yield the outlines of the entries of *namespace* that pass *where*, in order of id.

    Each row is parsed in its turn: a page of parsed ones leaves the processor's cache before they are looked at.
    """
    last = ""
    while True:
        with database.read() as connection:
            if (key := namespace_key(connection, namespace)) is None:
                return
            if not last:
                check_entry_count(connection, key)
            condition, values = connection.dialect.condition(connection, key, where)
            place, bound = f"e.id > ? AND ({condition})", (last, *values)
            rows = list(_rows(connection, _OUTLINE_COLUMNS, key, place, bound, "e.id", _PAGE_SIZE))
            space = read_space(connection)
        vector_bytes = 0 if space is None else _FLOAT_BYTES * space.dimension
        for row in rows:
            id, _, text, _, metadata, no_vector, _, embedded = row
            _check_content(row[:-1], has_vector=embedded)
            pending = not embedded and no_vector is None
            yield EntryOutline(id, text, _parse_json(metadata)[0], vector_bytes if embedded else 0, pending)
        if len(rows) < _PAGE_SIZE:
            return
        last = rows[-1][0]


def _make_order_index(database: Database, fields: Sequence[str]) -> None:
    """Create the index for *fields* if it is missing; an error of the store leaves it out."""
    with database.read() as connection:
        exists = _has_order_index(connection, fields)
    if exists or database.read_only:
        return
    try:
        with database.write() as connection:
            sql = _order_index_sql(connection.dialect, fields)
            connection.execute(sql.replace(" INDEX ", " INDEX IF NOT EXISTS ", 1))
    except VectorStoreError:  # busy, full: the answer is the same, and the next call tries again
        return


def _ordered_page(
    connection: Connection,
    namespace: int,
    fields: Sequence[str],
    where: FilterNode,
    after: ScanPosition | None,
    size: int,
    *,
    reverse: bool,
) -> list[Entry]:
    """Return up to *size* entries after the position *after*: first those with the same value, then the others."""

    def page(start: str, bound: Sequence[str], order: str, size: int) -> list[Entry]:
        return _checked_entries(connection, namespace, f"{start} AND ({condition})", (*bound, *values), order, size)

    condition, values = connection.dialect.condition(connection, namespace, where)
    value_sql, sign, down = (
        _order_sql(connection.dialect, fields, "e."),
        "<" if reverse else ">",
        " DESC" if reverse else "",
    )
    order = f"{value_sql}{down}, e.id{down}"
    if after is None:
        return page("TRUE", (), order, size)
    rows = page(f"{value_sql} = ? AND e.id {sign} ?", after, f"e.id{down}", size)
    if len(rows) < size:
        rows += page(f"{value_sql} {sign} ?", after[:1], order, size - len(rows))
    return rows


def _order_sql(dialect: Dialect, fields: Sequence[str], alias: str = "") -> str:
    """Return the SQL of the value that orders an entry; *fields* are plain names, checked by the caller."""
    texts = (dialect.text_field.format(f"{alias}metadata", field) for field in fields)
    return f"coalesce({', '.join(texts)}, '')"


def _order_index_sql(dialect: Dialect, fields: Sequence[str]) -> str:
    return f"CREATE INDEX {_order_index_name(fields)} ON entries (namespace, {_order_sql(dialect, fields)}, id)"


def is_order_index(sql: str) -> bool:
    """Return whether *sql* makes the index for an order by fields."""
    return sql == _order_index_sql(SQLITE, re.findall(r"json_type\(metadata, '\$\.(\w+)'\)", sql))


def _order_index_name(fields: Sequence[str]) -> str:
    return "entries_by_" + "_or_".join(fields)


def _has_order_index(connection: Connection, fields: Sequence[str]) -> bool:
    return fetch_first(connection, connection.dialect.index_exists, (_order_index_name(fields),)) is not None
