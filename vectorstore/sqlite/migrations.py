"""Migrations of components: the table ``components`` (name, version) says how many of each component's steps ran."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import apsw

from vectorstore.database import Component, Connection
from vectorstore.errors import ArgumentError, DamageError, NewerFile
from vectorstore.sqlite.connection import fetch_all
from vectorstore.types import Finding


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
