"""A disk that writes down what is done to it: which bytes were written, and what was made durable when.

It sits between SQLite and the system (an apsw VFS) and around the few calls by which Python makes, links, renames,
removes and flushes files. Only one folder is watched. ``simulated`` makes crashed disks of what was written down.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

Event = tuple[Any, ...]
"""("create" | "unlink", name), ("link" | "rename", old, new), ("write", file, offset, data), ("truncate", file, size),
("sync", file), ("sync folder",), and what the caller notes. A file is a number: names come and go."""

_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Recorder(apsw.VFS):
    """Watches *folder*; it becomes this process's way to files, so it belongs into a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events, self.on = folder, [], True
        self._files: dict[str, int] = {}
        self._made, self._by_sqlite, self._read = 0, set[int](), dict[int, bytes]()
        super().__init__("recording", "", makedefault=True)
        os.open = self._around_open(os.open)
        os.fsync = self._around_fsync(os.fsync)
        os.link = self._around_naming("link", os.link)
        os.replace = self._around_naming("rename", os.replace)
        os.unlink = self._around_unlink(os.unlink)

    def note(self, *event: Any) -> None:
        """Write an event down."""
        if self.on:
            self.events.append(event)

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - apsw's names, here and below
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        local = self._local(text) if text else None
        if local is None or not self.on:
            return apsw.VFSFile("unix", name, flags)
        new = local not in self._files
        if new:
            self._create(local)
        self._by_sqlite.add(self._files[local])
        # SQLite flushes the folder with the first sync of a journal that it made.
        return _File(self, self._files[local], new and bool(flags[0] & _JOURNALS), name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(name, syncdir)
        if (local := self._local(name)) in self._files:
            self.note("unlink", local)
            del self._files[local]
        if syncdir:
            self.note("sync folder")

    def _local(self, path: Any) -> str | None:
        found = Path(os.fspath(path))
        return found.name if found.parent == self.folder else None

    def _create(self, name: str) -> None:
        self._made += 1
        self._files[name] = self._made
        self.note("create", name, self._made)

    def _around_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            descriptor = real(path, flags, *rest, **options)
            local = self._local(path)
            if self.on and flags & os.O_CREAT and local is not None and local not in self._files:
                self._create(local)
            return descriptor

        return opened

    def _around_fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def flushed(descriptor: int) -> None:
            real(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if path == self.folder:
                self.note("sync folder")
            elif (local := self._local(path)) in self._files:
                self._read_python_s(local)
                self.note("sync", self._files[local])

        return flushed

    def _around_naming(self, what: str, real: Callable[..., None]) -> Callable[..., None]:
        def named(old: Any, new: Any, **options: Any) -> None:
            before, after = self._local(old), self._local(new)
            if self.on and before in self._files:
                self._read_python_s(before)
            real(old, new, **options)
            if self.on and before in self._files:
                self.note(what, before, after)
                self._files[after] = self._files.pop(before) if what == "rename" else self._files[before]

        return named

    def _around_unlink(self, real: Callable[..., None]) -> Callable[..., None]:
        def gone(path: Any, **options: Any) -> None:
            real(path, **options)
            if self.on and (local := self._local(path)) in self._files:
                self.note("unlink", local)
                del self._files[local]

        return gone

    def _read_python_s(self, name: str) -> None:
        """Note the content of a file that Python wrote, at the moment when it matters."""
        file, content = self._files[name], (self.folder / name).read_bytes()
        if file not in self._by_sqlite and content != self._read.get(file):
            self._read[file] = content
            self.note("truncate", file, 0)
            self.note("write", file, 0, content)


class _File(apsw.VFSFile):
    def __init__(self, recorder: Recorder, file: int, folder_too: bool, name: Any, flags: list[int]) -> None:
        self._recorder, self._file, self._folder_too = recorder, file, folder_too
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._recorder.note("write", self._file, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._recorder.note("truncate", self._file, size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._recorder.note("sync", self._file)
        if self._folder_too:
            self._recorder.note("sync folder")
            self._folder_too = False
