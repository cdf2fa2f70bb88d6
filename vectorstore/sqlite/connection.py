"""One connection as all of ours are: the same pragmas, sqlite-vec loaded, extension loading off again."""

from __future__ import annotations

from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import UnsupportedError
from vectorstore.sqlite.filter_sql import register

OLDEST_SQLITE: Final = 3_052_000
"""Before 3.52 two connections checkpointing at one moment could corrupt a file in WAL mode."""
_CACHE_KIB: Final = 8 * 1024


class Access(Enum):
    """What a connection is for."""

    WRITE = "write"
    READ = "read"
    """Reads, through a file that may be writable: it needs the shared index beside the file."""
    READ_ONLY = "read only"
    """Reads a file that is not to be written."""
    FROZEN = "frozen"
    """Reads a file that nobody writes, and needs nothing beside it."""


def open_connection(path: Path, access: Access, *, busy_timeout: float, keep_log: bool = False) -> apsw.Connection:
    """Open an existing file; the errors are SQLite's own. With *keep_log* closing does not empty the log."""
    check_version(apsw.SQLITE_VERSION_NUMBER, apsw.sqlite_lib_version())
    flags = apsw.SQLITE_OPEN_NOFOLLOW
    flags |= apsw.SQLITE_OPEN_READWRITE if access in (Access.WRITE, Access.READ) else apsw.SQLITE_OPEN_READONLY
    name = str(path)
    if access is Access.FROZEN:
        name, flags = path.as_uri() + "?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_log))
        _prepare(connection, access, busy_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def check_version(compiled: int, loaded: str) -> None:
    """Refuse an SQLite older than what the file needs."""
    major, minor, patch = (int(part) for part in loaded.split("."))
    if min(compiled, major * 1_000_000 + minor * 1_000 + patch) < OLDEST_SQLITE:
        raise UnsupportedError("open", f"SQLite 3.52 or newer is needed, not {loaded}: pip install -U apsw")


def _prepare(connection: apsw.Connection, access: Access, busy_timeout: float) -> None:
    connection.set_busy_timeout(milliseconds(busy_timeout))
    _load_extension(connection)
    register(connection)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # Each in a call of its own: several statements in one call stop at the first row that one of them gives.
    connection.pragma("trusted_schema", False)
    connection.pragma("cell_size_check", True)
    connection.pragma("foreign_keys", True)
    connection.pragma("temp_store", "memory")
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("synchronous", "full")
    connection.pragma("secure_delete", True)
    if access is Access.READ:
        connection.pragma("query_only", True)


def _load_extension(connection: apsw.Connection) -> None:
    # Found, not imported: its package would load Python's own SQLite beside the one in use.
    package = find_spec("sqlite_vec")
    if package is None or package.origin is None:
        raise UnsupportedError("open", "sqlite-vec is not installed: pip install sqlite-vec")
    path = str(Path(package.origin).absolute().with_name("vec0"))  # SQLite adds the suffix
    connection.enable_load_extension(True)
    try:
        connection.load_extension(path)
    except apsw.ExtensionLoadingError as error:
        raise UnsupportedError(
            "open",
            f"sqlite-vec does not load on this machine ({error}): pip install --force-reinstall sqlite-vec",
        ) from error
    finally:
        connection.enable_load_extension(False)


def milliseconds(seconds: float) -> int:
    """SQLite counts its waiting in whole milliseconds, in 31 bits."""
    return min(int(seconds * 1000), 2**31 - 1)
