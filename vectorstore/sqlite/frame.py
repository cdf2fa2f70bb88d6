"""What the file keeps of itself: whose it is, its identity, and which version each component's tables have.

components   name, version: how many of the component's migrations ran
file_facts   identity, created, the mark of an unfinished erasure, the copies made of the file
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import DamageError, NewerFile, NotAStore
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.query import every, first, only
from vectorstore.types import Finding

APPLICATION_ID: Final = int.from_bytes(b"Mnem")
FORMAT: Final = 1
"""The version of the frame itself; kept as SQLite's user version."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What a file is told of itself when it is made."""

    identity: str
    created: str


def write_frame(connection: apsw.Connection, birth: Birth) -> None:
    """Make the frame in an empty file."""
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", FORMAT)
    connection.execute(
        "CREATE TABLE components (name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE file_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID")
    put_fact(connection, "identity", birth.identity)
    put_fact(connection, "created", birth.created)


def read_birth(connection: apsw.Connection, path: Path) -> Birth:
    """Return what the file was told; a file that does not know is not whole."""
    if not all(connection.table_exists("main", table) for table in ("file_facts", "components")):
        raise NotAStore(str(path), "the file lacks the tables that make it whole; restore a backup")
    identity, created = fact(connection, "identity"), fact(connection, "created")
    if identity is None or created is None:
        raise NotAStore(str(path), "the file does not know its identity, so it is not whole; restore a backup")
    return Birth(identity, created)


def check_header(path: Path, application: int, version: int) -> None:
    """Refuse a file of another program, or of a newer Mneme."""
    if application != APPLICATION_ID:
        raise NotAStore(str(path), "it is an SQLite file of another program; choose another path")
    if version > FORMAT:
        raise NewerFile(str(path), "file format", version, FORMAT)


def fact(connection: apsw.Connection, name: str) -> str | None:
    """Return a fact of the file."""
    row = first(connection, "SELECT value FROM file_facts WHERE name = ?", (name,))
    return None if row is None else str(row[0])


def put_fact(connection: apsw.Connection, name: str, value: str) -> None:
    """Record a fact of the file."""
    connection.execute(
        "INSERT INTO file_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def facts(connection: apsw.Connection, kind: str) -> dict[str, str]:
    """Return the facts whose names begin with *kind* (and a blank), by the rest of the name, in its order."""
    rows = every(connection, "SELECT name, value FROM file_facts WHERE name >= ? AND name < ?", (kind, kind[:-1] + "!"))
    return {str(name)[len(kind) :]: str(value) for name, value in sorted(rows)}


def drop_fact(connection: apsw.Connection, name: str) -> None:
    """Take a fact of the file away."""
    connection.execute("DELETE FROM file_facts WHERE name = ?", (name,))


def holds_rows(connection: apsw.Connection) -> bool:
    """Whether any part keeps anything in the file."""
    tables = every(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
        " AND name NOT IN ('components', 'file_facts')",
    )
    return any(first(connection, 'SELECT 1 FROM "{}"'.format(str(name).replace('"', '""'))) for (name,) in tables)


def versions(connection: apsw.Connection) -> dict[str, int]:
    """Return the version of each component's tables."""
    found: dict[str, int] = dict(every(connection, "SELECT name, version FROM components"))
    if not all(isinstance(name, str) and isinstance(version, int) for name, version in found.items()):
        raise DamageError([Finding("components", "is not what was written")])
    return found


def total_version(connection: apsw.Connection) -> int:
    """Return a number that any migration of any component, by whoever, moves."""
    (total,) = only(connection, "SELECT coalesce(sum(version), 0) FROM components")
    if not isinstance(total, int):
        raise DamageError([Finding("components", "is not what was written")])
    return total


def check_known(path: Path, found: Mapping[str, int], component: Component) -> None:
    """Refuse tables of a newer Mneme."""
    known = len(component.migrations)
    if found.get(component.name, 0) > known:
        raise NewerFile(str(path), component.name, found[component.name], known)


def migrate(connection: apsw.Connection, component: Component, path: Path) -> None:
    """Bring a component's tables to its newest version, inside the caller's write transaction."""
    found = versions(connection)
    check_known(path, found, component)
    try:
        for step in component.migrations[found.get(component.name, 0) :]:
            step(connection)
    except apsw.SQLError as error:
        if found.get(component.name) or "already exists" not in str(error):
            raise
        what = "the version of tables that are there is missing"
        raise DamageError([Finding("components", what, component.name)]) from error
    connection.execute(
        "INSERT INTO components VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version",
        (component.name, len(component.migrations)),
    )


def verify_frame(connection: apsw.Connection) -> list[Finding]:
    """Return what is wrong with the header and the file's facts."""
    findings = []
    if connection.pragma("application_id") != APPLICATION_ID:
        findings.append(Finding("header", "the application id is not Mneme's"))
    if connection.pragma("user_version") != FORMAT:
        findings.append(Finding("header", f"the file format is not {FORMAT}"))
    for name in ("identity", "created"):
        if fact(connection, name) is None:
            findings.append(Finding("file_facts", "a fact of the file is missing", name))
    return findings
