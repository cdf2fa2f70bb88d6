"""Tables of the store in the file, its recorded settings, and the migration of its space.

Each value is stored once, and what is derived from it can be rebuilt:

store_facts   the space, the one that is being filled, the analyzer, the declared fields, the next entry key
namespaces    name, write number, how many entries, the sums of checksums, where the change log begins
entries       id, revision, text, context, metadata (canonical JSON), why it has no vector, checksum
vectors       float32 little-endian, Euclidean norm, checksum
next_vectors  the same for the space being filled; a switch swaps the names of the two tables, not of their indexes
next_no_vector  why an entry has no vector in that space
terms         the dictionary of a namespace; numbers are never used twice            (derived)
forward       the terms of an entry in order, as numbers                             (derived)
changes       which entry changed at which write number; *removed* is the id of one that went
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import apsw
import numpy as np

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Connection, SalvageSource
from tellback.vectorstore.errors import DamageError, SettingMismatch, SpaceMismatch
from tellback.vectorstore.sqlite.connection import Row, fetch_all, fetch_first, fetch_one, iterate_rows
from tellback.vectorstore.sqlite.entry_reader import (
    IS_PENDING,
    NEXT_SPACE_FACT,
    SPACE_FACT,
    is_order_index,
    parse_space,
    read_space,
)
from tellback.vectorstore.sqlite.entry_writer import rebuild_terms
from tellback.vectorstore.sqlite.integrity import (
    add_checksums,
    entry_checksum,
    reason_checksum,
    recount_tallies,
    vector_checksum,
    verify_store_tables,
)
from tellback.vectorstore.types import Finding, Space, SpaceMigration
from tellback.vectorstore.validation import check_migration_complete, check_migration_running, check_migration_start


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of a store; *recorded* is True where a file has them."""

    space: Space | None = None
    analyzer: Analyzer = field(default_factory=Analyzer)
    fields: tuple[str, ...] = ()
    recorded: bool = False

    def agreed(self, *, space: Space | None, analyzer: Analyzer | None, fields: Sequence[str] | None) -> StoreSettings:
        """Return these settings completed by the arguments; raise where one differs from a recorded setting."""
        if self.space is not None and space is not None and space != self.space:
            raise SpaceMismatch(self.space, space)
        if self.recorded and analyzer is not None and analyzer != self.analyzer:
            raise SettingMismatch("analyzer", self.analyzer.language, analyzer.language)
        if self.recorded and fields is not None and tuple(fields) != self.fields:
            raise SettingMismatch("fields", self.fields, tuple(fields))
        return StoreSettings(
            space=self.space or space,
            analyzer=self.analyzer if self.recorded or analyzer is None else analyzer,
            fields=self.fields if self.recorded or fields is None else tuple(fields),
            recorded=True,
        )


def read_settings(connection: Connection) -> StoreSettings:
    """Return the settings that the file has recorded."""
    facts: dict[str, str] = dict(
        iterate_rows(connection, "SELECT name, value FROM store_facts WHERE name IN ('space', 'analyser', 'fields')")
    )
    if not facts:
        return StoreSettings()
    try:
        return StoreSettings(
            space=parse_space(facts[SPACE_FACT]) if SPACE_FACT in facts else None,
            analyzer=Analyzer(**json.loads(facts["analyser"])),
            fields=tuple(json.loads(facts["fields"])),
            recorded=True,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamageError([Finding("store_facts", f"the settings are not what was written ({error})")]) from error


def record_settings(connection: Connection, settings: StoreSettings) -> None:
    """Record *settings* in the file."""
    _write_store_fact(connection, "analyser", {"language": settings.analyzer.language})
    record_fields(connection, settings.fields)
    if settings.space is not None:
        record_space(connection, settings.space)


def record_fields(connection: Connection, fields: Sequence[str]) -> None:
    """Record the declared fields."""
    _write_store_fact(connection, "fields", list(fields))


def write_space(connection: Connection, space: Space, name: str = SPACE_FACT) -> None:
    """Record *space* as the fact *name*, in the place of what was recorded."""
    facts = {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}
    _write_store_fact(connection, name, facts)


def record_space(connection: Connection, space: Space) -> None:
    """Record the space of a file; ``SpaceMismatch`` where it has another."""
    known = read_space(connection)
    if known is not None and known != space:
        raise SpaceMismatch(known, space)
    write_space(connection, space)


def _write_store_fact(connection: Connection, name: str, value: object) -> None:
    connection.execute(
        "INSERT INTO store_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, json.dumps(value, sort_keys=True)),
    )


def begin_migration(connection: Connection, space: Space) -> None:
    """Record *space* as the one being filled."""
    check_migration_start(space, read_space(connection), read_space(connection, NEXT_SPACE_FACT))
    write_space(connection, space, NEXT_SPACE_FACT)


def migration_state(connection: Connection) -> SpaceMigration | None:
    """Return the progress of the space migration, None where none is under way."""
    space = read_space(connection, NEXT_SPACE_FACT)
    if space is None:
        return None
    (filled,) = fetch_one(connection, "SELECT count(*) FROM next_vectors")
    checksums = iterate_rows(
        connection, "SELECT checksum FROM next_vectors UNION ALL SELECT checksum FROM next_no_vector"
    )
    tallies = iterate_rows(connection, "SELECT next_tally FROM namespaces")
    if add_checksums(0, *(checksum for (checksum,) in checksums)) != add_checksums(
        0, *(checksum for (checksum,) in tallies)
    ):
        raise DamageError([Finding("next_vectors", "some are missing: the sum of checksums differs")])
    pending = fetch_all(
        connection,
        "SELECT n.name, count(*) FROM entries AS e JOIN namespaces AS n ON n.key = e.namespace"
        f" WHERE {IS_PENDING} GROUP BY n.key ORDER BY n.name",
    )
    return SpaceMigration(space, filled, dict(pending))


def abort_migration(connection: Connection) -> None:
    """Delete the space being filled, with its vectors and reasons."""
    connection.execute("DELETE FROM next_vectors")
    connection.execute("DELETE FROM next_no_vector")
    connection.execute("UPDATE namespaces SET next_tally = 0 WHERE next_tally <> 0")
    connection.execute("DELETE FROM store_facts WHERE name = ?", (NEXT_SPACE_FACT,))


def commit_migration(connection: Connection, space: Space) -> None:
    """Switch to the space that was filled, and delete the old vectors; every index then loads afresh."""
    check_migration_running(read_space(connection, NEXT_SPACE_FACT), space)
    check_migration_complete(migration_state(connection))
    _write_reasons(connection)
    for namespace, checksum in fetch_all(connection, "SELECT namespace, checksum FROM next_no_vector"):
        _add_to_tally(connection, "next_tally", namespace, -checksum)
    for old, new in (("vectors", "old_vectors"), ("next_vectors", "vectors"), ("old_vectors", "next_vectors")):
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
    connection.execute("DELETE FROM changes")
    connection.execute(
        "UPDATE namespaces SET vector_tally = next_tally, revision = revision + 1, pruned = revision + 1"
    )
    abort_migration(connection)
    write_space(connection, space)


def _write_reasons(connection: Connection) -> None:
    """Set *no_vector* and the checksum of each entry to its state in the space that was filled."""
    changed = fetch_all(
        connection,
        "SELECT key, reason FROM next_no_vector UNION ALL"
        " SELECT n.key, NULL FROM next_vectors AS n LEFT JOIN vectors AS v ON v.key = n.key WHERE v.key IS NULL",
    )
    for key, reason in changed:
        namespace, before, id, revision, text, context, metadata = fetch_one(
            connection,
            "SELECT namespace, checksum, id, revision, text, context, metadata FROM entries WHERE key = ?",
            (key,),
        )
        checksum = entry_checksum(id, revision, text, context, metadata, reason, has_vector=reason is None)
        _add_to_tally(connection, "tally", namespace, checksum, -before)
        connection.execute("UPDATE entries SET no_vector = ?, checksum = ? WHERE key = ?", (reason, checksum, key))


def _add_to_tally(connection: Connection, column: str, namespace: int, *checksums: int) -> None:
    (tally,) = fetch_one(connection, f"SELECT {column} FROM namespaces WHERE key = ?", (namespace,))
    connection.execute(
        f"UPDATE namespaces SET {column} = ? WHERE key = ?", (add_checksums(tally, *checksums), namespace)
    )


_VECTORS_TABLE_SQL: Final = """
    CREATE TABLE {} (
        key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
        namespace INTEGER NOT NULL,
        norm REAL NOT NULL,
        checksum INTEGER NOT NULL,
        vector {} NOT NULL
    ) STRICT
"""


def m001_store_tables(connection: Connection) -> None:
    """Create the tables of the first version."""
    for statement in (
        "CREATE TABLE store_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        """
        CREATE TABLE namespaces (
            key INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            revision INTEGER NOT NULL DEFAULT 0,
            entries INTEGER NOT NULL DEFAULT 0,
            tally INTEGER NOT NULL DEFAULT 0,
            vector_tally INTEGER NOT NULL DEFAULT 0,
            next_tally INTEGER NOT NULL DEFAULT 0,
            next_term INTEGER NOT NULL DEFAULT 1,
            pruned INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        """
        CREATE TABLE entries (
            key INTEGER PRIMARY KEY,
            namespace INTEGER NOT NULL REFERENCES namespaces (key),
            id TEXT NOT NULL,
            revision INTEGER NOT NULL,
            text TEXT NOT NULL,
            context TEXT NOT NULL,
            metadata TEXT NOT NULL,
            no_vector TEXT,
            checksum INTEGER NOT NULL,
            UNIQUE (namespace, id)
        ) STRICT
        """,
        _VECTORS_TABLE_SQL.format("vectors", connection.dialect.vector_type),
        _VECTORS_TABLE_SQL.format("next_vectors", connection.dialect.vector_type),
        "CREATE INDEX vectors_of ON vectors (namespace)",
        "CREATE INDEX next_vectors_of ON next_vectors (namespace)",
        """
        CREATE TABLE next_no_vector (
            key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
            namespace INTEGER NOT NULL,
            reason TEXT NOT NULL,
            checksum INTEGER NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE terms (
            namespace INTEGER NOT NULL,
            number INTEGER NOT NULL,
            term TEXT NOT NULL,
            PRIMARY KEY (namespace, number)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE UNIQUE INDEX terms_by_name ON terms (namespace, term)",
        """
        CREATE TABLE forward (
            key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
            namespace INTEGER NOT NULL,
            context_length INTEGER NOT NULL,
            sequence BLOB NOT NULL
        ) STRICT
        """,
        "CREATE INDEX forward_of ON forward (namespace)",
        """
        CREATE TABLE changes (
            namespace INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            key INTEGER NOT NULL,
            removed TEXT,
            PRIMARY KEY (namespace, revision)
        ) STRICT, WITHOUT ROWID
        """,
    ):
        connection.execute(statement)


def rebuild_all_terms(connection: Connection, analyzer: Analyzer) -> None:
    """Make terms and forward index again from the entries; an index that is loaded does not notice."""
    connection.execute("DELETE FROM forward")
    connection.execute("DELETE FROM terms")
    for namespace, next_term in fetch_all(connection, "SELECT key, next_term FROM namespaces"):
        after = rebuild_terms(connection, namespace, analyzer, next_term)
        connection.execute("UPDATE namespaces SET next_term = ? WHERE key = ?", (after, namespace))


LOST_NAME: Final = "its name was lost ({})"
"""Name of a salvaged namespace whose own is lost, formatted with its key."""


class StoreTables:
    """Component of the store's tables; *analyzer* makes the terms where the file has none recorded.

    *lost_name* is the name of a salvaged namespace whose own is lost, formatted with its key. The only one without a
    name is taken for *default_name*, if the file has no other of that name.
    """

    name = "store"
    migrations: Sequence[Callable[[Connection], None]] = (m001_store_tables,)

    def __init__(self, analyzer: Analyzer, *, lost_name: str = LOST_NAME, default_name: str = "") -> None:
        self.analyzer = analyzer
        self._lost_name, self._default_name = lost_name, default_name

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare rows, checksums, tallies and terms."""
        return verify_store_tables(connection, self._recorded_analyzer(connection))

    def rebuild(self, connection: Connection) -> None:
        """Rebuild terms and the forward index from the entries; every index then loads afresh."""
        rebuild_all_terms(connection, self._recorded_analyzer(connection))
        connection.execute("DELETE FROM changes")
        connection.execute("UPDATE namespaces SET revision = revision + 1, pruned = revision + 1")

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every row whose checksum holds into a fresh file."""
        _report_lost_names(source, target, _salvage_rows(source, target, self._lost_name), self._default_name)
        try:
            read_settings(target)
        except DamageError:  # lost settings become this component's, without a space
            target.execute("DELETE FROM store_facts WHERE name <> 'next_key'")
            record_settings(target, StoreSettings(analyzer=self.analyzer))
        recount_tallies(target)
        self.rebuild(target)

    def makes_index(self, sql: str) -> bool:
        """As ``LazyIndexes.makes_index``: those for orders by fields."""
        return is_order_index(sql)

    def _recorded_analyzer(self, connection: Connection) -> Analyzer:
        settings = read_settings(connection)
        return settings.analyzer if settings.recorded else self.analyzer


_ENTRY_COLUMNS = "key, namespace, id, revision, text, context, metadata, no_vector, checksum"
_SETTING_FACTS = ("space", "next_space", "analyser", "fields")


def _salvage_rows(source: SalvageSource, target: Connection, lost_name: str) -> list[int]:
    """Copy the readable rows whose checksums hold; return the keys of the namespaces whose name is lost.

    An entry whose vector is lost becomes pending. A namespace whose name is lost gets another.
    """
    _copy_facts(source, target)
    revisions = _copy_namespaces(source, target)
    named = set(revisions)
    saved_entries: dict[int, list[_SalvagedEntry]] = {}
    duplicates: list[Row] = []
    last = 0
    for row in source.rows("entries", _ENTRY_COLUMNS, last_key=_last_key(source)):
        if row[0] in saved_entries:  # a damaged key: another row has the same
            duplicates.append(row)
            continue
        _copy_entry(source, target, row, row[0], revisions, saved_entries, lost_name)
        last = max(last, row[0])
    last = max(last, _last_key(source) if duplicates else 0)
    for row in duplicates:
        last += 1
        _copy_entry(source, target, row, last, revisions, saved_entries, lost_name)
    for namespace, revision in revisions.items():
        target.execute("UPDATE namespaces SET revision = max(revision, ?) WHERE key = ?", (revision, namespace))
    _copy_vectors(source, target, saved_entries)
    _set_next_key(target, last)
    return sorted(revisions.keys() - named)


@dataclass(frozen=True, slots=True)
class _SalvagedEntry:
    """Entry saved under *key*, which is a new one where two rows had the same."""

    key: int
    id: str
    namespace: int
    has_vector: bool


def _copy_entry(
    source: SalvageSource,
    target: Connection,
    row: Row,
    key: int,
    revisions: dict[int, int],
    saved_entries: dict[int, list[_SalvagedEntry]],
    lost_name: str,
) -> None:
    """Copy an entry row under *key* if its checksum holds."""
    stored_key, namespace, *content, checksum = row
    has_vector = _written_with_vector(content, checksum)
    if has_vector is None or not isinstance(namespace, int):
        source.lose("entries", "content differs from its checksum")
        return
    if namespace not in revisions:
        revisions[namespace] = 0
        name = lost_name.format(namespace)
        while _has_namespace(target, name):
            name += "+"
        target.execute("INSERT INTO namespaces (key, name) VALUES (?, ?)", (namespace, name))
    values = (key, namespace, *content, checksum)
    target.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    if not target.changes():
        source.lose("entries", "its id is there twice")
        return
    revisions[namespace] = max(revisions[namespace], content[1])
    saved_entries.setdefault(stored_key, []).append(_SalvagedEntry(key, content[0], namespace, has_vector))


def _written_with_vector(content: list[object], checksum: object) -> bool | None:
    """Return whether an entry row was written with a vector; None where its checksum holds in neither case."""
    for has_vector in (True, False):
        if entry_checksum(*content, has_vector=has_vector) == checksum:  # type: ignore[arg-type]
            return has_vector
    return None


def _copy_facts(source: SalvageSource, target: Connection) -> None:
    for name in (*_SETTING_FACTS, "next_key"):
        value = _read_store_fact(source, name)
        with suppress(ValueError, TypeError):  # it is damaged, or not there
            json.loads(value)
            target.execute("INSERT OR REPLACE INTO store_facts VALUES (?, ?)", (name, value))


def _copy_namespaces(source: SalvageSource, target: Connection) -> dict[int, int]:
    revisions = {}
    for key, name, revision, next_term in source.rows("namespaces", "key, name, revision, next_term"):
        if isinstance(name, str) and isinstance(revision, int) and isinstance(next_term, int):
            row = (key, name, revision, next_term)
            target.execute("INSERT OR IGNORE INTO namespaces (key, name, revision, next_term) VALUES (?, ?, ?, ?)", row)
            if target.changes():
                revisions[key] = revision
    for key, name in source.index_rows("namespaces", "key, name", "sqlite_autoindex_namespaces_1"):
        if key not in revisions and isinstance(key, int) and isinstance(name, str):
            target.execute("INSERT OR IGNORE INTO namespaces (key, name) VALUES (?, ?)", (key, name))
            if target.changes():
                revisions[key] = 0
    return revisions


def _has_namespace(target: Connection, name: str) -> bool:
    return fetch_first(target, "SELECT key FROM namespaces WHERE name = ?", (name,)) is not None


def _report_lost_names(source: SalvageSource, target: Connection, keys: Sequence[int], default_name: str) -> None:
    """Put into the report where the entries of each namespace of *keys* are, whose name is lost.

    A single one is assumed to be the default one, unless the file has another of that name.
    """
    for key in keys:
        (name,), where = fetch_one(target, "SELECT name FROM namespaces WHERE key = ?", (key,)), "its entries are in"
        if len(keys) == 1 and not _has_namespace(target, default_name):
            target.execute("UPDATE namespaces SET name = ? WHERE key = ?", (default_name, key))
            name, where = default_name, "it is assumed to be that of the default namespace,"
        source.lose("namespaces", f"a name was lost; {where} {name!r}")


def _copy_vectors(source: SalvageSource, target: Connection, saved_entries: dict[int, list[_SalvagedEntry]]) -> None:
    lost = {entry.key for entries in saved_entries.values() for entry in entries if entry.has_vector}
    for table in ("vectors", "next_vectors"):
        for key, checksum, blob in source.rows(table, "key, checksum, vector", last_key=_last_key(source)):
            for entry in saved_entries.get(key, ()):
                if checksum != vector_checksum(entry.id, blob) or len(blob) % 4:
                    source.lose(table, "content differs from its checksum")
                    continue
                if table == "next_vectors" or entry.has_vector:
                    norm = float(np.linalg.norm(np.frombuffer(blob, dtype="<f4").astype(np.float64)))
                    row = (entry.key, entry.namespace, norm, checksum, blob)
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?, ?)", row)
                    lost -= {entry.key} if table == "vectors" else set()
    for key, reason, checksum in source.rows("next_no_vector", "key, reason, checksum"):
        for entry in saved_entries.get(key, ()):
            if checksum == reason_checksum(entry.id, reason):
                values = (entry.key, entry.namespace, reason, checksum)
                target.execute("INSERT OR IGNORE INTO next_no_vector VALUES (?, ?, ?, ?)", values)
    for key in lost:  # an entry whose vector is lost is pending now
        content = fetch_one(
            target, "SELECT id, revision, text, context, metadata, no_vector FROM entries WHERE key = ?", (key,)
        )
        changed = (entry_checksum(*content, has_vector=False), key)
        target.execute("UPDATE entries SET checksum = ? WHERE key = ?", changed)


def _set_next_key(target: Connection, last: int) -> None:
    """Record a next key above every key in use."""
    known = fetch_first(target, "SELECT value FROM store_facts WHERE name = 'next_key'")
    following = max(last + 1, 1 if known is None else int(known[0]))
    target.execute("INSERT OR REPLACE INTO store_facts VALUES ('next_key', ?)", (str(following),))


def _last_key(source: SalvageSource) -> int:
    """Return the recorded next key, above all keys in use; 0 where it cannot be read."""
    value = _read_store_fact(source, "next_key")
    return int(value) if isinstance(value, str) and value.isdigit() else 0


def _read_store_fact(source: SalvageSource, name: str) -> Any:
    """Return a fact of the store, None where it cannot be read."""
    try:
        row = source.execute("SELECT value FROM store_facts WHERE name = ?", (name,)).fetchone()
    except (apsw.Error, UnicodeDecodeError):
        return None
    return None if row is None else row[0]
