"""Tables of the store in the file, its recorded settings, and the migration of its space.

Each value is stored once, and what is derived from it can be rebuilt:

store_facts   the space, the one that is being filled, the analyzer, the declared fields, the next entry key
namespaces    name, write number, how many entries, the sums of checksums, where the change log begins
entries       id, revision, text, context, metadata (canonical JSON), why it has no vector, checksum
vectors       float32 little-endian, Euclidean norm, checksum
next_vectors  the same of the space that is being filled; at a switch the two tables change names, and with them
              their indexes change owners
next_no_vector  why an entry has no vector there
terms         the dictionary of a namespace; numbers are never used twice            (derived)
forward       the terms of an entry in order, as numbers                             (derived)
changes       which entry changed at which write number; *removed* is the id of one that went
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vectorstore.analyzer import Analyzer
from vectorstore.database import Connection
from vectorstore.errors import DamageError, SettingMismatch, SpaceMismatch
from vectorstore.sqlite.connection import fetch_all, fetch_one, iterate_rows
from vectorstore.sqlite.entry_reader import IS_PENDING, NEXT_SPACE_FACT, SPACE_FACT, parse_space, read_space
from vectorstore.sqlite.entry_writer import rebuild_terms
from vectorstore.sqlite.integrity import add_checksums, entry_checksum, recount_tallies, verify_store_tables
from vectorstore.sqlite.salvage import salvage_store_rows
from vectorstore.types import Finding, Space, SpaceMigration
from vectorstore.validation import check_migration_complete, check_migration_running, check_migration_start


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a store; *recorded* says whether a file has them."""

    space: Space | None = None
    analyzer: Analyzer = field(default_factory=Analyzer)
    fields: tuple[str, ...] = ()
    recorded: bool = False

    def agreed(self, *, space: Space | None, analyzer: Analyzer | None, fields: Sequence[str] | None) -> StoreSettings:
        """Return the settings to use when these are recorded and those are given; a difference raises."""
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
    """Return what the file has recorded."""
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
        raise DamageError([Finding("store_facts", "the settings are not what was written")]) from error


def record_settings(connection: Connection, settings: StoreSettings) -> None:
    """Record *settings*."""
    _write_store_fact(connection, "analyser", {"language": settings.analyzer.language})
    record_fields(connection, settings.fields)
    if settings.space is not None:
        record_space(connection, settings.space)


def record_fields(connection: Connection, fields: Sequence[str]) -> None:
    """Record the declared fields."""
    _write_store_fact(connection, "fields", list(fields))


def write_space(connection: Connection, space: Space, name: str = SPACE_FACT) -> None:
    """Record a space."""
    facts = {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}
    _write_store_fact(connection, name, facts)


def record_space(connection: Connection, space: Space) -> None:
    """Record the space of a file that has none; another one raises."""
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
    """Record that *space* is being filled."""
    check_migration_start(space, read_space(connection), read_space(connection, NEXT_SPACE_FACT))
    write_space(connection, space, NEXT_SPACE_FACT)


def migration_state(connection: Connection) -> SpaceMigration | None:
    """Return how far the second space is."""
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
    """Forget the second space and all that it has."""
    connection.execute("DELETE FROM next_vectors")
    connection.execute("DELETE FROM next_no_vector")
    connection.execute("UPDATE namespaces SET next_tally = 0 WHERE next_tally <> 0")
    connection.execute("DELETE FROM store_facts WHERE name = ?", (NEXT_SPACE_FACT,))


def commit_migration(connection: Connection, space: Space) -> None:
    """Make the second space the one in use, and drop what was; every index then loads afresh."""
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
    """Let *no_vector* and the checksum of each entry say what holds in the second space."""
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


STORE_COMPONENT: Final = "store"
_VECTORS_TABLE_SQL: Final = """
    CREATE TABLE {} (
        key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
        namespace INTEGER NOT NULL,
        norm REAL NOT NULL,
        checksum INTEGER NOT NULL,
        vector BLOB NOT NULL
    ) STRICT
"""


def m001_store_tables(connection: Connection) -> None:
    """Make the first tables."""
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
        _VECTORS_TABLE_SQL.format("vectors"),
        _VECTORS_TABLE_SQL.format("next_vectors"),
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


class StoreTables:
    """The component that owns these tables; *analyzer* makes the derived terms where the file has none recorded."""

    name = STORE_COMPONENT
    migrations: Sequence[Callable[[Connection], None]] = (m001_store_tables,)

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare rows, checksums, tallies and terms."""
        return verify_store_tables(connection, self._recorded_analyzer(connection))

    def rebuild(self, connection: Connection) -> None:
        """Make terms and the forward index again from the entries; every index then loads afresh."""
        analyzer = self._recorded_analyzer(connection)
        connection.execute("DELETE FROM forward")
        connection.execute("DELETE FROM terms")
        for namespace, next_term in fetch_all(connection, "SELECT key, next_term FROM namespaces"):
            after = rebuild_terms(connection, namespace, analyzer, next_term)
            connection.execute("DELETE FROM changes WHERE namespace = ?", (namespace,))
            connection.execute(
                "UPDATE namespaces SET revision = revision + 1, pruned = revision + 1, next_term = ? WHERE key = ?",
                (after, namespace),
            )

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy every row whose checksum holds into a fresh file; see ``salvaging``."""
        saved = salvage_store_rows(source, target)
        try:
            read_settings(target)
        except DamageError:  # settings that were lost are those given here, without a space
            target.execute("DELETE FROM store_facts WHERE name <> 'next_key'")
            record_settings(target, StoreSettings(analyzer=self.analyzer))
        recount_tallies(target)
        self.rebuild(target)
        return saved

    def _recorded_analyzer(self, connection: Connection) -> Analyzer:
        settings = read_settings(connection)
        return settings.analyzer if settings.recorded else self.analyzer
