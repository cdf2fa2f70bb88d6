"""Copies of a file: a backup, page by page, and what can be saved of a damaged one, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import DamageError
from vectorstore.sqlite.border import border, system_border
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.creation import create_file
from vectorstore.sqlite.frame import Birth
from vectorstore.sqlite.placing import Token, placed_whole
from vectorstore.types import Finding

_PAGES: Final = 1024
"""Pages copied in one step."""


def back_up(source: apsw.Connection, path: Path, *, token: Token) -> None:
    """Copy the state that *source* reads to *path*. It counts once its pages were checked."""
    with system_border(path), placed_whole(path, token=token) as private:
        target = open_connection(private, Access.WRITE, busy_timeout=0)
        try:
            with border(path, target):
                target.pragma("journal_mode", "off")
                target.pragma("synchronous", "off")  # the whole file is flushed before it is put in place
                with target.backup("main", source, "main") as copying:
                    while not copying.done:
                        copying.step(_PAGES)
        finally:
            target.close()
        _check_pages(private, path)


def salvage_file(
    path: Path, access: Access, target: Path, components: Sequence[Component], birth: Birth, *, token: Token
) -> int:
    """Copy every readable row of *path* into a new file at *target*; return how many."""
    with border(path):
        source = open_connection(path, access, busy_timeout=0)

    def fill(connection: apsw.Connection) -> int:
        with border(path, source):
            source.execute("BEGIN")
            return sum(component.salvage(source, connection) for component in components)

    try:
        return create_file(target, components, birth, token=token, fill=fill)
    finally:
        source.close(True)


def _check_pages(private: Path, path: Path) -> None:
    connection = open_connection(private, Access.FROZEN, busy_timeout=0)
    try:
        with border(path, connection):
            rows = connection.execute("PRAGMA quick_check").fetchall()
    finally:
        connection.close()
    if rows != [("ok",)]:
        raise DamageError([Finding("pages", str(text)) for (text,) in rows])
