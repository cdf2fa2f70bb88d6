"""A file made whole under a private name beside its place, then put there, replacing nothing unless it is asked to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

Token: TypeAlias = Callable[[int], bytes]
"""So many random bytes, like ``os.urandom``."""

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite makes beside a file: the ends of its names."""


@contextmanager
def placed_whole(path: Path, *, token: Token, replace: bool = False) -> Iterator[Path]:
    """Yield an empty private file (mode 0600) to fill; at the end it stands at *path*, on disk.

    ``FileExistsError`` says that another was there first, unless *replace*, which takes the place of what is there
    in one step. Whatever goes wrong, nothing of ours stays behind.
    """
    make_folders(path.parent)
    private = private_beside(path, token(8))
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(private, flags, 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
        os.close(descriptor)
        yield private
        _flush(private)
        if replace:
            private.replace(path)
        else:
            _put(private, path)
        flush_folder(path.parent)
    finally:
        for leftover in (private, *(private.with_name(private.name + end) for end in BESIDE)):
            with suppress(FileNotFoundError):
                leftover.unlink()


def private_beside(path: Path, random: bytes) -> Path:
    """Return the private name, made of eight *random* bytes, under which what comes to *path* is filled."""
    return path.with_name(f".mneme-{random.hex()}.part")


def make_folders(folder: Path) -> None:
    """Make *folder* and its missing parents, for their owner alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(0o700, exist_ok=True)


def _put(private: Path, path: Path) -> None:
    try:
        os.link(private, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: claim the name, which takes a moment in which it is empty
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            private.replace(path)
        except BaseException:
            path.unlink()
            raise


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make names put into *folder*, or taken from it, durable."""
    if os.name == "nt":
        return  # folders cannot be opened there, and need no flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
