"""Migrations of components: the table ``components`` (name, version) says how many of each component's steps ran.

The steps are also what a file's schema is compared with. A trigger, a view or a constraint that somebody else put into
a file would act on every later write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

import apsw

from tellback.vectorstore.database import Component, Connection, LazyIndexes, Migration
from tellback.vectorstore.errors import ArgumentError, DamageError, NewerFile
from tellback.vectorstore.sqlite.connection import fetch_all
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.types import Finding


def make_file_tables(connection: Connection) -> None:
    """Create the tables that every file has."""
    for table, column in (("components", "version INTEGER"), ("file_facts", "value TEXT")):
        connection.execute(f"CREATE TABLE {table} (name TEXT PRIMARY KEY, {column} NOT NULL) STRICT, WITHOUT ROWID")


def component_versions(connection: Connection) -> dict[str, int]:
    """Return the version of each component's tables."""
    versions: dict[str, int] = dict(fetch_all(connection, "SELECT name, version FROM components"))
    if not all(isinstance(name, str) and isinstance(version, int) for name, version in versions.items()):
        raise DamageError([Finding("components", "is not what was written")])
    return versions


def check_component_version(path: Path, versions: Mapping[str, int], component: Component) -> None:
    """Refuse tables of a newer Tellback."""
    known = len(component.migrations)
    if versions.get(component.name, 0) > known:
        raise NewerFile(str(path), component.name, versions[component.name], known)


def is_attached(component: Component, attached: Mapping[str, Component]) -> bool:
    """Return whether *component* is among *attached*; another component of the same name raises."""
    known = attached.get(component.name)
    if known is not None and (type(known) is not type(component) or known.migrations[:1] != component.migrations[:1]):
        raise ArgumentError("component", component, f"another part is named {component.name!r} here")
    return known is not None


def run_migrations(connection: Connection, component: Component, path: Path) -> None:
    """Bring a component's tables to its newest version, inside the caller's write transaction."""
    versions = component_versions(connection)
    check_component_version(path, versions, component)
    try:
        for step in component.migrations[versions.get(component.name, 0) :]:
            step(connection)
    except apsw.SQLError as error:
        if versions.get(component.name) or "already exists" not in str(error):
            raise
        problem = "the version of tables that are there is missing"
        raise DamageError([Finding("components", problem, component.name)]) from error
    connection.execute(
        "INSERT INTO components VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version",
        (component.name, len(component.migrations)),
    )


_SchemaObject: TypeAlias = tuple[str, str, str]
"""Kind, name and SQL of a table, an index, a view or a trigger; the SQL as ``_comparable_sql``."""
_OF_SQLITE: Final = {("table", name) for name in ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")}
_SCHEMA_SQL: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type DESC, name"
"""Views and triggers come first: they do the most harm."""


def check_schema(connection: Connection, components: Collection[Component]) -> None:
    """Raise ``DamageError``, which names the objects, where the schema is not what the migrations made."""
    if findings := foreign_objects(connection, components):
        raise DamageError(findings)


def foreign_objects(connection: Connection, components: Collection[Component]) -> list[Finding]:
    """Return a finding for each object of the schema that neither Tellback nor SQLite made, or that was altered.

    Tables that belong to none of *components* are not judged while the file has parts that are not among them: they
    may be those of another version.
    """
    versions = component_versions(connection)
    made = set(_made_by((make_file_tables,)))
    for component in components:
        made |= _made_by(tuple(component.migrations[: versions.get(component.name, 0)]))
    tables = {name for kind, name, _ in made if kind == "table"}
    unknown_parts = versions.keys() - {component.name for component in components}
    lazy = [component for component in components if _has_lazy_indexes(component)]
    findings = []
    for kind, name, table, sql in fetch_all(connection, _SCHEMA_SQL):
        if (kind, name, _comparable_sql(sql)) in made or (kind, name) in _OF_SQLITE:
            continue
        if kind == "index" and any(component.makes_index(str(sql)) for component in lazy):
            continue
        is_plain = kind == "index" or str(sql).startswith("CREATE TABLE")  # a virtual table is never of ours
        if unknown_parts and table not in tables and is_plain:
            continue
        state = "is not as Tellback made it" if table in tables and kind == "table" else "was not made by Tellback"
        findings.append(Finding("schema", f"{kind} {name!r} {state}"))
    return findings


def _has_lazy_indexes(component: Component) -> TypeGuard[LazyIndexes]:
    return _is_of_lazy_indexes(type(component))


@lru_cache(maxsize=64)
def _is_of_lazy_indexes(kind: type) -> bool:
    return issubclass(kind, LazyIndexes)  # a protocol takes its time to say so, and each file that is opened asks often


@lru_cache(maxsize=64)
def _made_by(steps: tuple[Migration, ...]) -> frozenset[_SchemaObject]:
    """Return the objects that *steps* make, by running them in an empty database: there is no second list of them."""
    connection = SqliteConnection(":memory:")
    try:
        for step in steps:
            step(connection)
        return frozenset(
            (kind, name, _comparable_sql(sql)) for kind, name, _, sql in fetch_all(connection, _SCHEMA_SQL)
        )
    finally:
        connection.close()


@lru_cache(maxsize=512)
def _comparable_sql(sql: object) -> str:
    """Return the SQL without layout, quotes and the table of an index: renaming a table changes these."""
    text = " ".join(str(sql).replace('"', "").split())
    return re.sub(r"^(CREATE (?:UNIQUE )?INDEX \w+ ON) \w+", r"\1", text)
