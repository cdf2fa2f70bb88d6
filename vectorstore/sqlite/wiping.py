"""A copy taken from the disk: marked, overwritten, unlinked, so that its freed blocks hold nothing of it.

A crash in the midst leaves a file that says by its first bytes whose copy it was, and can be taken away again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from vectorstore.sqlite.placing import BESIDE, flush_folder

_MARK: Final = b"Mneme: a removed copy of "
_BLOCK: Final = bytes(1 << 20)
_FLAGS: Final = os.O_RDWR | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


def wipe(path: Path, *, of: str) -> None:
    """Take the file at *path*, a copy of the file whose identity is *of*, and what SQLite made beside it, away.

    A file with another name elsewhere (a hard link) is not overwritten: only this name goes. A disk that cannot
    overwrite (it is full, and writes elsewhere) does not keep the file from going.
    """
    for one in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        with suppress(OSError):
            _overwrite(one, _mark(of))
        one.unlink(missing_ok=True)
    flush_folder(path.parent)


def half_wiped(path: Path, *, of: str) -> bool:
    """Whether the file at *path* is what a crash in the midst of ``wipe`` has left."""
    mark = _mark(of)
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def _mark(of: str) -> bytes:
    return _MARK + of.encode() + b"\n"


def _overwrite(path: Path, mark: bytes) -> None:
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if status.st_nlink != 1:
            return
        _write(descriptor, mark)
        os.fsync(descriptor)
        left = status.st_size - len(mark)
        while left > 0:
            left -= _write(descriptor, _BLOCK[:left])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> int:
    done = 0
    while done < len(data):
        done += os.write(descriptor, data[done:])
    return done
