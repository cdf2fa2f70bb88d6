"""The loader protocol, and the safe reading of one regular file up to a size limit.

No link, pipe or device is ever opened. Discovery and naming of files are not a loader's concern.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from tellback.memory.errors import ArgumentError, LoadError
from tellback.memory.validation import checked_int


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """Text of a file with its title ("" for none) and structure.

    Places are offsets in *text*, in order. What lies before *body* (front matter) is not cut into chunks. *pages* are
    (start, end) of each page, *outline* (start, heading path) of each section, for texts whose headings the chunker
    does not see itself. *lines* (offset, line of the file) say where counting begins: ``((0, 1),)`` for a text whose
    lines are those of the file. *anchors* (offset, name) are places that a link to the file can name. *notes* say what
    was assumed or left out. Lone surrogates, which JSON escapes and mail headers can hold, become U+FFFD one by one.
    """

    text: str
    title: str = ""
    body: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    outline: tuple[tuple[int, tuple[str, ...]], ...] = ()
    lines: tuple[tuple[int, int], ...] = ()
    anchors: tuple[tuple[int, str], ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("text", "title", "outline", "anchors", "tags", "metadata", "notes"):
            object.__setattr__(self, name, _without_surrogates(getattr(self, name)))


OWN_LINES: Final = ((0, 1),)
"""``LoadedDocument.lines`` of a text whose lines are those of the file."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Limits of what is read of one file.

    *size* in bytes; *unpacked* is the most bytes that an archive, an Office file or a compressed file may hold;
    *characters* of text. *seconds* of time and *memory* in bytes bound each of the parsers' *processes*, of which
    there are no more than cores. Recognising scanned pages of a file may take *scan_seconds* more.
    """

    size: int = 50_000_000
    unpacked: int = 300_000_000
    characters: int = 20_000_000
    seconds: int = 60
    memory: int = 1 << 30
    scan_seconds: int = 600
    processes: int = 4

    def __post_init__(self) -> None:
        for limit in fields(self):
            checked_int(getattr(self, limit.name), f"limits.{limit.name}", least=1)


DEFAULT_LIMITS: Final = LoadLimits()
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def _without_surrogates(value: Any) -> Any:
    """Return *value* with a sign of equal length for each lone surrogate in its texts: no store could encode them."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_without_surrogates(name): _without_surrogates(inner) for name, inner in value.items()}
    return type(value)(map(_without_surrogates, value)) if isinstance(value, list | tuple) else value


def checked_limits(values: Mapping[str, int]) -> LoadLimits:
    """Return the default limits with *values* by name in their places; unknown names raise ``ArgumentError``."""
    known = [limit.name for limit in fields(LoadLimits)]
    for name in values:
        if name not in known:
            raise ArgumentError("limits", name, f"one of {', '.join(known)} is needed")
    return LoadLimits(**values)


class LeftOut(LoadError):
    """A file that a rule leaves out once its content was seen: no failure."""


class UnknownFormat(LoadError):
    """A file whose content is of no format that is read."""


class Loader(Protocol):
    """Reads one format. *name* carries a version, raised when equal bytes come to give another text."""

    @property
    def name(self) -> str:
        """Name and version, for the content hash."""

    @property
    def media_type(self) -> str:
        """The format of the text that it returns: ``text/markdown`` is cut at its headings, all else as plain text."""

    def load(self, data: bytes, source: str) -> LoadedDocument:
        """Return the text of *data*; what cannot be read raises ``LoadError`` naming *source*.

        Deterministic, thread safe, without side effects; line ends come back as single newlines.
        """


_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: Path, source: str, *, limit: int) -> tuple[bytes, datetime | None]:
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
