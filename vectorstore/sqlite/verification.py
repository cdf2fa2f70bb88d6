"""Everything that can be found wrong in a file, named; and its derived tables made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import apsw

from vectorstore.sqlite.component import Component
from vectorstore.sqlite.frame import verify_frame, versions
from vectorstore.types import Finding


def verify_file(connection: apsw.Connection, components: Sequence[Component]) -> list[Finding]:
    """Check pages, references, header and every component."""
    findings = [
        *_checked("pages", lambda: _pages(connection)),
        *_checked("references", lambda: _references(connection)),
        *_checked("header", lambda: verify_frame(connection)),
        *_checked("components", lambda: _versions(connection, components)),
    ]
    for component in components:
        findings += _checked(component.name, partial(component.verify, connection))
    return findings


def rebuild_file(connection: apsw.Connection, components: Sequence[Component]) -> None:
    """Make indexes and every component's derived tables again, inside the caller's write transaction."""
    connection.execute("REINDEX")
    for component in components:
        component.rebuild(connection)


def _checked(part: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except (apsw.BusyError, apsw.LockedError):
        raise
    except Exception as error:  # whatever damage leads to, it stops one check, and not those after it
        return [Finding(part, f"cannot be read: {error}")]


def _pages(connection: apsw.Connection) -> Iterable[Finding]:
    rows = connection.execute("PRAGMA integrity_check").fetchall()
    return [Finding("pages", str(text)) for (text,) in rows if text != "ok"]


def _references(connection: apsw.Connection) -> Iterable[Finding]:
    rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [
        Finding("references", f"row {row} refers to a missing row of {parent}", str(table))
        for table, row, parent, _ in rows
    ]


def _versions(connection: apsw.Connection, components: Sequence[Component]) -> Iterable[Finding]:
    found = versions(connection)
    for component in components:
        if found.get(component.name) != len(component.migrations):
            yield Finding("components", f"has version {found.get(component.name)}", component.name)
