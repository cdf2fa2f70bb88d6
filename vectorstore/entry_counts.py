"""Counts of entries in a file, by namespace, without opening the store: a look that takes a few milliseconds.

SQLite's driver alone is imported. The file is only read, and nothing of it is checked but that it is one of ours.
"""

from __future__ import annotations

import os

import apsw

from tellback.vectorstore.errors import NotAStore
from tellback.vectorstore.persisted_names import APPLICATION_ID

_BUSY_MILLISECONDS = 500


def entry_counts(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return how many entries each namespace of the file at *path* has.

    ``NotAStore``: the file is missing, no store, damaged, or locked by another process all the while.
    """
    name = os.fspath(path)
    try:
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            connection.pragma("trusted_schema", False)
            if connection.pragma("application_id") != APPLICATION_ID:
                raise NotAStore(name, "not a file of ours")
            rows = connection.execute("SELECT name, entries FROM namespaces WHERE entries > 0")
            return {str(namespace): int(entries) for namespace, entries in rows}
        finally:
            connection.close()
    except apsw.Error as error:
        raise NotAStore(name, f"cannot be read ({type(error).__name__})") from error
