"""Copies of a file: a backup, page by page, and what can be saved of a damaged one, row by row."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import ArgumentError, DamageError, NotAStore, UnsupportedError
from vectorstore.sqlite.border import border, system_border
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.creation import create_file
from vectorstore.sqlite.examining import checked_path, is_missing
from vectorstore.sqlite.frame import Birth, fact, versions
from vectorstore.sqlite.opening import now_for_reading
from vectorstore.sqlite.placing import Token, placed_whole
from vectorstore.types import Finding

_PAGES: Final = 1024
"""Pages copied in one step."""


def back_up(
    source: apsw.Connection, path: Path, *, token: Token, finish: Callable[[apsw.Connection], object] | None = None
) -> None:
    """Copy the state that *source* reads to *path*; *finish* may change it. It counts once its pages were checked."""
    with system_border(path), placed_whole(path, token=token) as private:
        target = open_connection(private, Access.WRITE, busy_timeout=0)
        try:
            with border(path, target):
                target.pragma("journal_mode", "off")
                target.pragma("synchronous", "off")  # the whole file is flushed before it is put in place
                with target.backup("main", source, "main") as copying:
                    while not copying.done:
                        copying.step(_PAGES)
                if finish is not None:
                    finish(target)
        finally:
            target.close()
        _check_pages(private, path)


def salvage_file(
    path: Path, access: Access, target: Path, components: Sequence[Component], birth: Birth, *, token: Token
) -> int:
    """Copy every readable row of *path* into a new file at *target*; return how many."""
    with border(path):
        source = open_connection(path, access, busy_timeout=0, keep_log=True)

    def fill(connection: apsw.Connection) -> int:
        with border(path, source):
            source.execute("BEGIN")
            return sum(component.salvage(source, connection) for component in components)

    try:
        return create_file(target, components, birth, token=token, fill=fill)
    finally:
        source.close(True)


def salvage(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    components: Sequence[Component],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    token: Token = os.urandom,
) -> int:
    """Copy every readable row of a file too damaged to be opened into a new file at *target*; return how many.

    *path* is only read. ``DamageError``: nothing of it can be read. ``UnsupportedError``: it has parts that none of
    *components* can copy.
    """
    origin, place = checked_path(path), checked_path(target, "target")
    if os.path.lexists(place):
        raise ArgumentError("target", target, "a path where nothing is yet is needed")
    with system_border(origin):
        if is_missing(origin):
            raise NotAStore(str(origin), "there is no such file")
        source = open_connection(origin, now_for_reading(origin, Access.FROZEN), busy_timeout=0, keep_log=True)
        try:
            found, birth = _what_it_says(source, Birth(token(16).hex(), clock().isoformat()))
        finally:
            source.close()
    known = {component.name for component in components}
    if known & found and (strangers := sorted(found - known)):  # without one of them the list itself is damaged
        raise UnsupportedError("salvage", f"nothing given can copy these parts of the file: {strangers}")
    access = now_for_reading(origin, Access.FROZEN)
    return salvage_file(origin, access, place, components, birth, token=token)


def _what_it_says(source: apsw.Connection, fresh: Birth) -> tuple[set[str], Birth]:
    """Return which parts it has and its birth, as far as that can be read."""
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
        raise DamageError(f"nothing can be read: {error}") from error
    try:
        identity, created = fact(source, "identity"), fact(source, "created")
        return set(versions(source)), Birth(identity or fresh.identity, created or fresh.created)
    except (apsw.Error, DamageError):
        return set(), fresh


def _check_pages(private: Path, path: Path) -> None:
    connection = open_connection(private, Access.FROZEN, busy_timeout=0)
    try:
        with border(path, connection):
            rows = connection.execute("PRAGMA quick_check").fetchall()
    finally:
        connection.close()
    if rows != [("ok",)]:
        raise DamageError([Finding("pages", str(text)) for (text,) in rows])
