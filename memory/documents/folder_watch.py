"""Watch of folders: a collection follows their changes. Needs the extra ``watch`` (watchfiles).

Changes that come close together are read together. A folder that vanishes, or is unmounted, keeps its documents and is
read again when it is back; the others are watched on.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tellback.memory.documents.discovery import Paths, check_paths
from tellback.memory.documents.ignore_rules import IGNORE_FILES
from tellback.memory.documents.ingest_report import IngestReport
from tellback.memory.errors import ArgumentError
from tellback.memory.runtime import run_in_thread
from tellback.vectorstore import MissingExtra

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_QUIET_MS: Final = 400
"""Milliseconds without a change after which those before it are read."""
_LONGEST_WAIT_MS: Final = 5_000
"""Milliseconds after which changes are read even if more keep coming."""
_LOOK_MS: Final = 2_000
"""Milliseconds between two looks at whether the folders are still there."""
_POLL_DELAY_MS: Final = 1_000
"""Milliseconds between two looks at all files where the system does not tell of changes (network file systems)."""


@dataclass(frozen=True, slots=True)
class WatchStep:
    """Step of a watch: the *report* of an ingest of *folders*, or None where *folders* are gone and waited for."""

    folders: tuple[Path, ...]
    report: IngestReport | None


async def watch_folders(
    paths: Paths, ingest: Callable[[Sequence[Path]], Awaitable[IngestReport]]
) -> AsyncGenerator[WatchStep, None]:
    """Ingest the folders *paths*, then again after each change below them; yield a step for each, without end."""
    folders = tuple(dict.fromkeys(path.resolve() for path in check_paths(paths)))
    for folder in folders:
        if not folder.is_dir():
            raise ArgumentError("paths", str(folder), "a folder is needed; a single file is read by ingest")
    start_watching = _watchfiles()
    identities = {folder: _identity(folder) for folder in folders}
    present, pending = folders, folders
    while True:
        # The watch begins before the folders are read: what changes in between is not missed.
        watcher = start_watching(present)
        with watcher:
            usable = present
            while usable == present:
                if pending and (report := await _ingested(pending, ingest)) is not None:
                    yield WatchStep(pending, report)
                changed = await _changed_paths(watcher) if present else await asyncio.sleep(_LOOK_MS / 1000, ())
                pending = tuple(folder for folder in present if any(_concerns(folder, path) for path in changed))
                usable = tuple(folder for folder in folders if _is_usable(folder, identities[folder]))
        if gone := tuple(folder for folder in present if folder not in usable):
            yield WatchStep(gone, None)
        pending = tuple(folder for folder in usable if folder in pending or folder not in present)
        present = usable
        identities |= {folder: _identity(folder) for folder in usable}


def _watchfiles() -> Callable[[Iterable[Path]], RustNotify]:
    """Return the function that begins to watch folders."""
    try:
        from watchfiles._rust_notify import RustNotify  # the documented way without its own event loop
    except ImportError as error:
        raise MissingExtra("watching folders", "watch") from error
    polls = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in ("", "false", "disable", "disabled")
    return lambda folders: RustNotify([str(folder) for folder in folders], False, polls, _POLL_DELAY_MS, True, True)


async def _changed_paths(watcher: RustNotify) -> tuple[Path, ...]:
    """Return what was changed, when nothing more changes; nothing after a while without changes."""
    stop = threading.Event()
    try:
        changes = await run_in_thread(lambda: watcher.watch(_LONGEST_WAIT_MS, _QUIET_MS, _LOOK_MS, stop))
    finally:
        stop.set()
    return tuple(Path(path) for _, path in changes) if isinstance(changes, set) else ()


async def _ingested(
    folders: Sequence[Path], ingest: Callable[[Sequence[Path]], Awaitable[IngestReport]]
) -> IngestReport | None:
    """Return the report of an ingest; None if a folder vanished before it, which the next look will find."""
    try:
        return await ingest(folders)
    except ArgumentError:
        if all(folder.is_dir() for folder in folders):
            raise
        return None


def _identity(folder: Path) -> tuple[int, int]:
    try:
        status = folder.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _is_usable(folder: Path, identity: tuple[int, int]) -> bool:
    """Return whether *folder* is there: the same, or another with something in it; an unmounted one is empty."""
    try:
        return folder.is_dir() and (_identity(folder) == identity or any(folder.iterdir()))
    except OSError:
        return False


def _concerns(folder: Path, path: Path) -> bool:
    """Return whether a change of *path* can change what is read of *folder*: hidden files are not read."""
    if not path.is_relative_to(folder):
        return False
    parts = path.relative_to(folder).parts
    return not any(part.startswith(".") and part not in IGNORE_FILES for part in parts)
