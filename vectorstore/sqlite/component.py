"""Components: the parts whose tables share one file, each with its own migrations.

The file's table ``components`` (name, version) says how many of a component's migrations ran. A component opens no
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import apsw

from vectorstore.errors import DamageError, NewerFile
from vectorstore.sqlite.connection import fetch_all, fetch_one
from vectorstore.types import Finding

Migration: TypeAlias = Callable[[apsw.Connection], None]
"""One step of a schema, named ``m001_…``; it runs inside a write transaction; never edited once released."""


class Component(Protocol):
    """What a database needs to know of a part that keeps tables in it.

    Its tables are its own; no other component reads or writes them. The connections handed in are inside a
    transaction of the database's: a component neither commits nor rolls back.
    """

    @property
    def name(self) -> str:
        """How the file names this part; never changed."""
        ...

    @property
    def migrations(self) -> Sequence[Migration]:
        """Every step from nothing to the present schema; the version of the part is how many ran."""
        ...

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare the part's own tables with themselves; an empty list means all is well."""
        ...

    def rebuild(self, connection: apsw.Connection) -> None:
        """Make the derived tables again from the rows."""
        ...

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every readable row of *source* into *target*, whose tables are new; return how many."""
        ...


def component_versions(connection: apsw.Connection) -> dict[str, int]:
    """Return the version of each component's tables."""
    found: dict[str, int] = dict(fetch_all(connection, "SELECT name, version FROM components"))
    if not all(isinstance(name, str) and isinstance(version, int) for name, version in found.items()):
        raise DamageError([Finding("components", "is not what was written")])
    return found


def total_component_version(connection: apsw.Connection) -> int:
    """Return a number that any migration of any component, by whoever, moves."""
    (total,) = fetch_one(connection, "SELECT coalesce(sum(version), 0) FROM components")
    if not isinstance(total, int):
        raise DamageError([Finding("components", "is not what was written")])
    return total


def check_component_version(path: Path, found: Mapping[str, int], component: Component) -> None:
    """Refuse tables of a newer Tellback."""
    known = len(component.migrations)
    if found.get(component.name, 0) > known:
        raise NewerFile(str(path), component.name, found[component.name], known)


def run_migrations(connection: apsw.Connection, component: Component, path: Path) -> None:
    """Bring a component's tables to its newest version, inside the caller's write transaction."""
    found = component_versions(connection)
    check_component_version(path, found, component)
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
