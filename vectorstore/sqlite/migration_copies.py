"""Copies made before a migration: what the file records of each beside the record that every backup has.

A copy is recorded before it is made ("making"), in the migration's transaction it becomes "made", and "wrong" when the
migrated file was not found to be right. The copy itself keeps the record that every backup has, with its own path, for
as long as nobody opens it: see ``remove_copy``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import apsw

from vectorstore.sqlite.backups import drop_record, record_backup, recorded_backups
from vectorstore.sqlite.frame import drop_fact, fact, facts, put_fact

_KIND: Final = "migration "
_PERMISSION: Final = "uncopied"
_STEM_BYTES: Final = 120
_STATES: Final = ("making", "made", "wrong")


@dataclass(frozen=True, slots=True)
class MigrationCopy:
    """A copy of a file from before a migration: *parts* went from the first of these versions to the second.

    *at* is when it was made (ISO 8601). *state*: "made" until the migrated file is verified, which removes the copy;
    "wrong" where that found something. *of* is the file's path then, *private* the random part of the name under
    which the copy was filled.
    """

    path: str
    at: str
    parts: Mapping[str, tuple[int, int]]
    state: Literal["making", "made", "wrong"]
    of: str
    private: bytes


def put_copy(connection: apsw.Connection, copy: MigrationCopy) -> None:
    """Record a copy, or what became of it."""
    record_backup(connection, Path(copy.path), copy.at)
    value = {"parts": copy.parts, "state": copy.state, "of": copy.of, "private": copy.private.hex()}
    put_fact(connection, _KIND + copy.path, json.dumps(value))


def recorded_copies(connection: apsw.Connection) -> list[MigrationCopy]:
    """Return the copies from before migrations, in order of path. A record that cannot be read is a backup's alone."""
    at = recorded_backups(connection)
    found = [_read(path, at.get(path), value) for path, value in facts(connection, _KIND).items()]
    return [copy for copy in found if copy is not None]


def drop_copy(connection: apsw.Connection, path: str) -> None:
    """Take both records of a copy away."""
    drop_record(connection, path)
    keep_as_backup(connection, path)


def keep_as_backup(connection: apsw.Connection, path: str) -> None:
    """Leave a copy recorded as any backup is: named, and removed on request alone."""
    drop_fact(connection, _KIND + path)


def without_details(copy: apsw.Connection) -> None:
    """Take the records of migrations out of a copy: restored from it, a file treats it as any backup."""
    for path in facts(copy, _KIND):
        keep_as_backup(copy, path)


def free_path(connection: apsw.Connection, file: Path, part: str, before: int, after: int) -> Path:
    """Return a path beside *file* for a copy, named after what is about to happen, where nothing is nor is recorded."""
    stem = file.name.encode()[:_STEM_BYTES].decode(errors="ignore")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in part[:40])
    taken, number = recorded_backups(connection), 1
    while True:
        again = "" if number == 1 else f"-{number}"
        path = file.with_name(f"{stem}.before-{plain}-{before}-to-{after}{again}.backup")
        if str(path) not in taken and not os.path.lexists(path):
            return path
        number += 1


def permit_without_copy(connection: apsw.Connection, versions: Mapping[str, int], at: str) -> None:
    """Record that parts of these *versions* may be migrated without a copy."""
    put_fact(connection, _PERMISSION, json.dumps({"at": at, "versions": dict(versions)}))


def without_copy_permitted(connection: apsw.Connection, part: str, version: int) -> bool:
    """Whether *part*, at *version*, may be migrated without a copy; for later versions it does not hold."""
    try:
        return bool(json.loads(fact(connection, _PERMISSION) or "{}")["versions"][part] == version)
    except (ValueError, LookupError, TypeError):
        return False


def _read(path: str, at: str | None, value: str) -> MigrationCopy | None:
    try:
        told = json.loads(value)
        parts = {str(name): (int(before), int(after)) for name, (before, after) in told["parts"].items()}
        private = bytes.fromhex(told["private"])
        if at is None or told["state"] not in _STATES or len(private) != 8:
            return None
        return MigrationCopy(path, at, parts, told["state"], str(told["of"]), private)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
