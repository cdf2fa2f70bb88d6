"""Discovery of the files of an ingest: folders are walked, and each path that is left out gets its reason.

Hidden files and folders, and the folders of tools, are left out; a file given by name is always tried. Links are
followed only to regular files inside the folder that are not found there by themselves. Files are opened only by
``report_unreadable``, which a program asks before it creates a memory for them. Nothing is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from memory.documents.ingest_report import IngestAction, IngestLine, IngestReport
from memory.documents.loaders.base import Loader, read_file
from memory.documents.loaders.registry import LoaderRegistry
from memory.errors import ArgumentError, LoadError
from vectorstore import MissingExtra

IGNORED_FOLDERS = frozenset(
    {"node_modules", "bower_components", "__pycache__", "venv", "site-packages", "__MACOSX", "$RECYCLE.BIN"}
    | {"System Volume Information", "lost+found"}
)

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A file or folder, or several."""


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """File to read: *location* is its real, absolute path, *source* its path below *root* with slashes."""

    location: Path
    source: str
    root: Path
    loader: Loader


def check_paths(paths: Paths, *, missing_allowed: bool = False) -> list[Path]:
    """Return the *paths* as given, all of which exist unless *missing_allowed*; else nothing is begun."""
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    checked = [_checked_path(path, missing_allowed=missing_allowed) for path in several]
    if not checked:
        raise ArgumentError("paths", [], "at least one file or folder is needed")
    return checked


def _checked_path(value: object, *, missing_allowed: bool) -> Path:
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ArgumentError("paths", value, "a path of a file or folder is needed")
    path = Path(name)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if missing_allowed:
            return path
        raise ArgumentError("paths", name, "a file or folder that exists is needed") from error
    except OSError as error:
        raise ArgumentError("paths", name, f"cannot be looked at ({error.strerror})") from error
    return path


def discover_files(paths: Sequence[Path], loaders: LoaderRegistry) -> Iterator[DocumentFile | IngestLine]:
    """Yield what *paths* hold, folders sorted by name, each file once however often it is named."""
    seen: set[Path] = set()
    for path in paths:
        real = path.resolve()
        if real.is_dir():
            items = _walk_folder(real, loaders)
        else:
            items = [_classify_file(real, path.name or real.name, real.parent, loaders, by_name=True)]
        for item in items:
            if isinstance(item, IngestLine):
                yield item
            elif item.location not in seen:
                seen.add(item.location)
                yield item


def _skipped(name: str, reason: str) -> IngestLine:
    return IngestLine(name, IngestAction.SKIPPED, reason)


def _classify_file(
    real: Path, name: str, root: Path, loaders: LoaderRegistry, *, by_name: bool = False
) -> DocumentFile | IngestLine:
    try:
        name.encode()
    except UnicodeEncodeError:
        return _skipped(name.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8; rename it")
    kind = _path_kind(real)
    if kind != "file":
        return _skipped(name, f"{kind}, not a regular file")
    loader = loaders.choose(name, by_name=by_name)
    return _skipped(name, loader) if isinstance(loader, str) else DocumentFile(real, name, root, loader)


def _walk_folder(root: Path, loaders: LoaderRegistry) -> list[DocumentFile | IngestLine]:
    """Return everything below *root*, sorted; links are classified last, when the files are known."""
    items: list[DocumentFile | IngestLine] = []
    links: list[tuple[Path, str]] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            name = folder.relative_to(root).as_posix() + "/"
            items.append(_skipped(name, f"cannot be listed ({error.strerror})"))
            continue
        for entry in entries:
            path = Path(entry.path)
            name = path.relative_to(root).as_posix()
            is_folder = entry.is_dir(follow_symlinks=False)
            if reason := _ignored_reason(entry.name, is_folder=is_folder):
                items.append(_skipped(name + "/" * is_folder, reason))
            elif entry.is_symlink():
                links.append((path, name))
            elif is_folder:
                folders.append(path)
            else:
                items.append(_classify_file(path, name, root, loaders))
    found_files = {item.location for item in items if isinstance(item, DocumentFile)}
    for path, name in links:
        items.append(_classify_link(path, name, root, loaders, found_files))
    return sorted(items, key=lambda item: item.source)


def _classify_link(
    path: Path, name: str, root: Path, loaders: LoaderRegistry, found_files: set[Path]
) -> DocumentFile | IngestLine:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # dangling, or a circle
        return _skipped(name, "a link that leads nowhere")
    if not real.is_relative_to(root):
        return _skipped(name, "a link that leaves the folder")
    if real.is_dir():
        return _skipped(name, "a link to a folder")
    if real in found_files:
        return _skipped(name, "a link to a file that is read itself")
    found_files.add(real)
    return _classify_file(real, name, root, loaders)


def _ignored_reason(name: str, *, is_folder: bool) -> str:
    if name.startswith("."):
        return "hidden"
    if is_folder and (name in IGNORED_FOLDERS or name.endswith(".egg-info")):
        return "a folder that tools fill"
    return ""


def _path_kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    tests = (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((kind for test, kind in tests if test(mode)), "a device")


def report_unreadable(paths: Paths) -> IngestReport | None:
    """Return why nothing of *paths* can be read, a line for each file; None as soon as one file can be.

    A path that does not exist raises ``ArgumentError``.
    """
    lines = []
    for item in discover_files(check_paths(paths), LoaderRegistry()):
        if isinstance(item, IngestLine):
            lines.append(item)
            continue
        try:
            item.loader.load(read_file(item.location, item.source)[0], item.source)
        except (LoadError, MissingExtra) as error:
            lines.append(IngestLine(item.source, IngestAction.FAILED, str(error).removeprefix(f"{item.source}: ")))
        else:
            return None
    return IngestReport(tuple(lines))
