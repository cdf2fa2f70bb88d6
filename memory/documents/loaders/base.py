"""The loader protocol, and the safe reading of one regular file up to a size limit.

No link, pipe or device is ever opened. Discovery and naming of files are not a loader's concern.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from memory.errors import LoadError


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """Text of a file with its title ("" for none) and structure; the fields are as in ``Document``."""

    text: str
    title: str = ""
    body: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Loader(Protocol):
    """Reads one format. *name* carries a version, raised when equal bytes come to give another text."""

    @property
    def name(self) -> str:
        """Name and version, for the content hash."""
        ...

    @property
    def media_type(self) -> str:
        """The format."""
        ...

    def load(self, data: bytes, source: str) -> LoadedDocument:
        """Return the text of *data*; what cannot be read raises ``LoadError`` naming *source*.

        Deterministic, thread safe, without side effects; line ends come back as single newlines.
        """
        ...


SIZE_LIMIT = 50_000_000
"""Bytes of the largest file that is read."""
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: Path, source: str, *, limit: int = SIZE_LIMIT) -> tuple[bytes, datetime | None]:
    """Return the bytes of the file at *path* and when it changed; errors call it *source*."""
    try:
        # Looked at before, since opening a device can act; and after, since it may have been exchanged.
        _check_file(path.lstat(), source, limit)
        descriptor = os.open(path, _OPEN_FLAGS)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            state = os.fstat(descriptor)
            _check_file(state, source, limit)
            data = file.read(limit + 1)
    except OSError as error:
        raise LoadError(source, f"cannot be read ({error.strerror})") from error
    _check_size(len(data), source, limit)
    try:
        return data, datetime.fromtimestamp(state.st_mtime, UTC)
    except (OverflowError, OSError, ValueError):  # a file system may hold any number
        return data, None


def _check_file(state: os.stat_result, source: str, limit: int) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise LoadError(source, "not a regular file")
    _check_size(state.st_size, source, limit)


def _check_size(size: int, source: str, limit: int) -> None:
    if size > limit:
        reason = f"{size / 1e6:.0f} MB, more than the {limit / 1e6:.0f} MB that are read of one file"
        raise LoadError(source, reason)
