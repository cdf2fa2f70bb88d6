"""Discovery of the files of an ingest: folders are walked, and each path that is left out gets its reason.

Hidden files and folders, the folders of tools, what ignore files name, and files that hold no text of their own (style
sheets, minified code, indexes) are left out; a file given by name is always tried. Links are followed only to regular
files inside the folder that are not found there by themselves. Files are opened only for a trial; nothing is written.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from tellback.memory.documents.ignore_rules import (
    IGNORE_FILES,
    NOT_BY_ENDING,
    IgnoreRules,
    file_reason,
    folder_reason,
    ignore_files_above,
    read_ignore_files,
)
from tellback.memory.documents.ingest_report import IngestAction, IngestLine, IngestReport
from tellback.memory.documents.loaders.base import LeftOut, Loader, UnknownFormat, read_file
from tellback.memory.documents.loaders.registry import LoaderRegistry, Unreadable
from tellback.memory.errors import ArgumentError, LoadError
from tellback.memory.validation import checked_int
from tellback.vectorstore import ArgumentError as StoreArgumentError
from tellback.vectorstore import MissingExtra, VectorStoreError

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A file or folder, or several."""


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Choice of the files below a folder, with patterns in the syntax of ``.gitignore``.

    Where *include* is given, only files that it names, or whose folder it names, are read; what *exclude* names is not.
    *max_size* is in bytes. *ignore_files*: ``.gitignore`` and ``.ignore`` are followed.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    max_size: int | None = None
    ignore_files: bool = True

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            patterns = getattr(self, name)
            if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
                raise ArgumentError(name, patterns, "a list of patterns is needed")
            object.__setattr__(self, name, tuple(patterns))
        if self.max_size is not None:
            checked_int(self.max_size, "max_size", least=1)


_ENDING: Final = re.compile(r"(?:\*\*/)?\*\.[\w.]+")
EVERY_FILE: Final = FileSelection()
_REASON_LENGTH: Final = 200
_SETTLING_NS: Final = 2_000_000_000
"""Nanoseconds in which a second write may leave the times of a file equal: FAT counts them in steps of 2 s."""


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """File to read: *location* is its real, absolute path, *source* its path below *root* with slashes.

    A *loader* of None is chosen by the content. *size* in bytes. *state* is equal as long as the file was not written;
    "" where it changed so lately that a further change could leave it equal.
    """

    location: Path
    source: str
    root: Path
    loader: Loader | None
    size: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class GivenDocument:
    """Document given as a value: its bytes, its name, and the URI where it was found.

    *title*, *tags* and *metadata* are set beside what its loader finds.
    """

    location: str
    source: str
    content: bytes
    loader: Loader | None
    modified: datetime | None = None
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


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


def discover_files(
    paths: Sequence[Path], loaders: LoaderRegistry, selection: FileSelection = EVERY_FILE
) -> Iterator[DocumentFile | IngestLine]:
    """Yield what *paths* hold, folders sorted by name, each file once however often it is named."""
    seen: set[Path] = set()
    for path in paths:
        real = path.resolve()
        if real.is_dir():
            items = _FolderWalk(real, loaders, selection).run()
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
    real: Path, name: str, root: Path, loaders: LoaderRegistry, *, by_name: bool = False, max_size: int | None = None
) -> DocumentFile | IngestLine:
    try:
        name.encode()
    except UnicodeEncodeError:
        return _skipped(name.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8; rename it")
    try:
        status = real.lstat()
    except OSError as error:
        return _skipped(name, f"cannot be looked at ({error.strerror}), not a regular file")
    if kind := _other_kind(status.st_mode):
        return _skipped(name, f"{kind}, not a regular file")
    if max_size is not None and status.st_size > max_size:
        return _skipped(name, "larger than was asked for")
    loader = loaders.choose(name, by_name=by_name)
    if isinstance(loader, Unreadable):
        return IngestLine(name, IngestAction.UNREADABLE, loader.reason)
    return DocumentFile(real, name, root, loader, status.st_size, _file_state(status))


class _FolderWalk:
    """Everything below *root*, sorted; links are classified last, when the files are known."""

    def __init__(self, root: Path, loaders: LoaderRegistry, selection: FileSelection) -> None:
        self._root = root
        self._loaders = loaders
        self._selection = selection
        base = root.as_posix()
        self._include = IgnoreRules.parse(selection.include, base)
        self._named = IgnoreRules.parse([name for name in selection.include if not _ENDING.fullmatch(name)], base)
        self._exclude = IgnoreRules.parse(selection.exclude, base)
        self._items: list[DocumentFile | IngestLine] = []
        self._links: list[tuple[Path, str]] = []

    def run(self) -> list[DocumentFile | IngestLine]:
        """Return files and lines for what is left out."""
        rules = ignore_files_above(self._root) if self._selection.ignore_files else IgnoreRules()
        folders = [(self._root, rules)]
        while folders:
            folder, rules = folders.pop()
            folders += self._enter(folder, rules)
        locations = {item.location for item in self._items if isinstance(item, DocumentFile)}
        for path, name in self._links:
            self._items.append(self._classify_link(path, name, locations))
        return sorted(self._items, key=lambda item: item.source)

    def _enter(self, folder: Path, rules: IgnoreRules) -> Iterator[tuple[Path, IgnoreRules]]:
        """Classify what lies in *folder*; yield the folders in it with the rules that hold there."""
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            name = folder.relative_to(self._root).as_posix() + "/"
            self._items.append(_skipped(name, f"cannot be listed ({error.strerror})"))
            return
        if self._selection.ignore_files and any(entry.name in IGNORE_FILES for entry in entries):
            rules += read_ignore_files(folder)
        for entry in entries:
            path = Path(entry.path)
            name = path.relative_to(self._root).as_posix()
            is_folder = entry.is_dir(follow_symlinks=False)
            if reason := self._reason(path, name, rules, is_folder=is_folder):
                self._items.append(_skipped(name + "/" * is_folder, reason))
            elif entry.is_symlink():
                self._links.append((path, name))
            elif is_folder:
                yield path, rules
            else:
                self._items.append(self._classify(path, name))

    def _reason(self, path: Path, name: str, rules: IgnoreRules, *, is_folder: bool) -> str:
        """Return why *path* is left out; "" if it is not. A file that is included itself is, only if excluded."""
        if self._exclude.matches(path.as_posix(), is_folder=is_folder):
            return "excluded"
        if is_folder:
            if any(pattern.lstrip("/").startswith(f"{name}/") for pattern in self._selection.include):
                return ""
            own = folder_reason(path.name, path)
        else:
            own = file_reason(path.name)
            if self._named.matches(path.as_posix()):
                return ""
            if self._include.matches(path.as_posix()):
                return own if own in NOT_BY_ENDING else ""
            if self._include.rules and not self._include.reaches(path.as_posix(), self._root.as_posix()):
                own = own or "not among the files to include"
        if own:
            return own
        return "named in an ignore file" if rules.matches(path.as_posix(), is_folder=is_folder) else ""

    def _classify(self, real: Path, name: str) -> DocumentFile | IngestLine:
        return _classify_file(real, name, self._root, self._loaders, max_size=self._selection.max_size)

    def _classify_link(self, path: Path, name: str, found_files: set[Path]) -> DocumentFile | IngestLine:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):  # dangling, or a circle
            return _skipped(name, "a link that leads nowhere")
        if not real.is_relative_to(self._root):
            return _skipped(name, "a link that leaves the folder")
        if real.is_dir():
            return _skipped(name, "a link to a folder")
        if real in found_files:
            return _skipped(name, "a link to a file that is read itself")
        found_files.add(real)
        return self._classify(real, name)


def _other_kind(mode: int) -> str:
    """Return what a path with *mode* is that is no regular file; "" for one."""
    tests = (
        (stat.S_ISREG, ""),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((kind for test, kind in tests if test(mode)), "a device")


def _file_state(status: os.stat_result) -> str:
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLING_NS:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def plan_ingest(paths: Paths, selection: FileSelection = EVERY_FILE, *, trial: bool = False) -> IngestReport:
    """Return what an ingest of *paths* would try to read and what it would leave out.

    No file is opened, unless for a *trial*: then they are read up to the first that can be, which is the last line.
    A path that does not exist raises ``ArgumentError``.
    """
    loaders = LoaderRegistry()
    lines: list[IngestLine] = []
    try:
        for item in discover_files(check_paths(paths), loaders, selection):
            lines.append(item if isinstance(item, IngestLine) else IngestLine(item.source, IngestAction.PLANNED))
            if not trial or isinstance(item, IngestLine):
                continue
            try:
                data, _ = read_file(item.location, item.source, limit=loaders.limits.size)
                loaders.for_content(item.loader, data, item.source).load(data, item.source)
                break
            except Exception as error:  # as in an ingest
                lines[-1] = failure_line(item.source, error)
    finally:
        loaders.close()
    return IngestReport(tuple(lines))


def failure_line(source: str, error: Exception) -> IngestLine:
    """Return the line of a document that *error* kept from being read or written.

    An error that is the store's own, such as a full disk, is raised again: the next document would meet it, too.
    """
    if isinstance(error, VectorStoreError) and not isinstance(error, StoreArgumentError | MissingExtra):
        raise error
    if not isinstance(error, LoadError | MissingExtra):  # nobody's sentence: a parser or chunker may raise anything
        reason = f"{type(error).__name__}: {error}"
        return IngestLine(source, IngestAction.FAILED, " ".join(reason.split())[:_REASON_LENGTH])
    action = IngestAction.FAILED
    if isinstance(error, LeftOut):
        action = IngestAction.SKIPPED
    elif isinstance(error, UnknownFormat):
        action = IngestAction.UNREADABLE
    return IngestLine(source, action, str(error).removeprefix(f"{source}: "))
