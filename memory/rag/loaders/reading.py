"""Reads one regular file whole, and no more than a limit of it: no link, pipe or device is ever opened."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from memory.errors import LoadError

SIZE_LIMIT = 50_000_000
"""Bytes of the largest file that is read."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: Path, source: str, *, limit: int = SIZE_LIMIT) -> tuple[bytes, datetime | None]:
    """Return the bytes of the file at *path* and when it changed; errors call it *source*."""
    try:
        # Looked at before, since opening a device can act; and after, since it may have been exchanged.
        _check(path.lstat(), source, limit)
        descriptor = os.open(path, _FLAGS)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            state = os.fstat(descriptor)
            _check(state, source, limit)
            data = file.read(limit + 1)
    except OSError as error:
        raise LoadError(source, f"cannot be read ({error.strerror})") from error
    if len(data) > limit:
        raise LoadError(source, _too_large(len(data), limit))
    return data, _moment(state.st_mtime)


def _check(state: os.stat_result, source: str, limit: int) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise LoadError(source, "not a regular file")
    if state.st_size > limit:
        raise LoadError(source, _too_large(state.st_size, limit))


def _too_large(size: int, limit: int) -> str:
    return f"{size / 1e6:.0f} MB, more than the {limit / 1e6:.0f} MB that are read of one file"


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):  # a file system may hold any number
        return None
