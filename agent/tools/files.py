"""File tools: a model lists and reads the files of one folder, and keeps notes there.

Paths stay inside the folder: no absolute path, no way up, no link is followed. Each part of a path is opened relative
to the folder before it, without following links, so that a link created meanwhile changes nothing. Where the system
cannot do that, the resolved path is compared with the folder instead.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated

from pydantic import Field

from tellback.agent.errors import ArgumentError, ToolFailed, check_count
from tellback.agent.tools.base import AnnotationOptions
from tellback.agent.tools.function import FunctionTool
from tellback.memory import Trust

_OPENS_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
_OPEN_FAILURES = {errno.ELOOP: "links are not followed", errno.ENOTDIR: "no such folder"}


class SandboxedFolder:
    """Existing folder *path*. Paths into it are relative, with ``/`` between their parts."""

    def __init__(self, path: str | Path, *, max_bytes: int = 2_000_000) -> None:
        folder = Path(path).expanduser()
        if not folder.is_dir():
            raise ArgumentError("root", path, "an existing folder is needed")
        check_count("max_bytes", max_bytes)
        self._path = folder.resolve()
        self._max = max_bytes

    def read(self, path: str, *, missing: bytes | None = None) -> bytes:
        """Return the content of the regular file *path*; *missing* where none is there (None: that is an error)."""
        try:
            with self._open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)) as (descriptor, _):
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ToolFailed(f"{path} is not a plain file")
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    content = file.read(self._max + 1)
        except FileNotFoundError as error:
            if missing is None:
                raise ToolFailed(f"{path}: no such file") from error
            return missing
        if len(content) > self._max:
            raise ToolFailed(f"{path} is larger than {self._max:,} bytes")
        return content

    def write(self, path: str, content: bytes, *, append: bool = False) -> None:
        """Write *content* to the file *path*, in a folder that is there, whole or not at all; *append* adds to it."""
        *folder, name = _path_parts(path)
        if append:
            content = self.read(path, missing=b"") + content
        if len(content) > self._max:
            raise ToolFailed(f"{path} would be larger than {self._max:,} bytes")
        # A rename replaces whatever has the name, a link too, and follows none.
        temporary = f".{name}.{secrets.token_hex(4)}"
        with self._open("/".join((*folder, temporary)), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as (descriptor, parent):
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if parent is None:
                self._path.joinpath(*folder, temporary).replace(self._path.joinpath(*folder, name))
            else:
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)

    def names(self, *, limit: int = 1000) -> list[str]:
        """Return the plain files inside, sorted, at most *limit*; links and hidden ones are passed over."""
        names: list[str] = []
        for folder, folders, files in os.walk(self._path, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                file = Path(folder, name)
                if not name.startswith(".") and stat.S_ISREG(file.lstat().st_mode):
                    names.append(file.relative_to(self._path).as_posix())
                    if len(names) >= limit:
                        return names
        return names

    @contextmanager
    def _open(self, path: str, flags: int) -> Iterator[tuple[int, int | None]]:
        """Yield the open file and, where the system opens by steps, its open folder."""
        parts = _path_parts(path)
        descriptors: list[int] = []
        try:
            if _OPENS_RELATIVE:
                descriptors.append(os.open(self._path, os.O_RDONLY | os.O_DIRECTORY))
                for part in parts[:-1]:
                    descriptors.append(
                        os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptors[-1])
                    )
                descriptors.append(os.open(parts[-1], flags | os.O_NOFOLLOW, 0o600, dir_fd=descriptors[-1]))
                yield descriptors[-1], descriptors[-2]
            else:
                target = self._path.joinpath(*parts)
                if target.resolve() != target:
                    raise ToolFailed(f"{path} leads through a link")
                descriptors.append(os.open(target, flags | getattr(os, "O_BINARY", 0), 0o600))
                yield descriptors[-1], None
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = _OPEN_FAILURES.get(error.errno or 0) or error.strerror or type(error).__name__
            raise ToolFailed(f"{path} cannot be opened: {reason}") from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _path_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a relative path, if it stays inside its folder on any system."""
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path)
    if not parts or "\0" in path or path.startswith(("/", "\\", "~")) or windows.drive or windows.root:
        raise ToolFailed(f"{path!r}: a relative path inside the folder is needed")
    if ".." in parts or ".." in windows.parts:
        raise ToolFailed(f"{path!r} leads out of the folder")
    return parts


_MAX_LINES = 400

FilePath = Annotated[str, Field(min_length=1, max_length=500, description="Path inside the folder, from list_files.")]
NoteName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,79}$", description="Name of the note: letters, digits, _ and -.")
]


def file_tools(root: str | Path, *, max_bytes: int = 2_000_000) -> tuple[FunctionTool, ...]:
    """Return ``list_files`` and ``read_file`` over the folder *root*. Links, hidden files and other places are not
    read, nor files above *max_bytes*."""
    folder = SandboxedFolder(root, max_bytes=max_bytes)

    def list_files() -> str:
        """List the files that can be read."""
        return "\n".join(folder.names()) or "There are no files."

    def read_file(
        path: FilePath,
        start: Annotated[int, Field(ge=1, description="First line to read, from 1.")] = 1,
        lines: Annotated[int, Field(ge=1, le=_MAX_LINES, description="How many lines at most.")] = _MAX_LINES,
    ) -> str:
        """Read lines of a text file."""
        if any(part.startswith(".") for part in Path(path).parts):
            raise ToolFailed(f"{path}: hidden files are not read")
        content = folder.read(path)
        if b"\0" in content:
            raise ToolFailed(f"{path} is no text")
        all_lines = content.decode("utf-8", "replace").splitlines()
        shown = all_lines[start - 1 : start - 1 + lines]
        if not shown and all_lines:
            raise ToolFailed(f"{path} has {len(all_lines)} lines")
        end = start - 1 + len(shown)
        more = f"\n({len(all_lines)} lines in all; read on from line {end + 1})" if end < len(all_lines) else ""
        return "\n".join(shown) + more

    options: AnnotationOptions = {"idempotent": True, "trust": Trust.DOCUMENT}
    return (FunctionTool(list_files, **options), FunctionTool(read_file, **options))


def note_tools(root: str | Path, *, max_bytes: int = 200_000) -> tuple[FunctionTool, ...]:
    """Return ``list_notes``, ``read_note`` and ``write_note`` over the folder *root*, each note a Markdown file."""
    folder = SandboxedFolder(root, max_bytes=max_bytes)

    def list_notes() -> str:
        """List the notes by name."""
        names = [name.removesuffix(".md") for name in folder.names() if name.endswith(".md") and "/" not in name]
        return "\n".join(names) or "There are no notes."

    def read_note(name: NoteName) -> str:
        """Read a note whole."""
        return folder.read(f"{name}.md").decode("utf-8", "replace") or "(empty)"

    def write_note(
        name: NoteName,
        text: Annotated[str, Field(description="What it is to say, as Markdown.")],
        append: Annotated[bool, Field(description="Add to what it says, instead of replacing it.")] = False,
    ) -> str:
        """Write a note, new or in the place of what it said."""
        folder.write(f"{name}.md", text.encode() + (b"\n" if append else b""), append=append)
        return f"Written: {name}."

    reading = (FunctionTool(list_notes, idempotent=True), FunctionTool(read_note, idempotent=True))
    return (*reading, FunctionTool(write_note))
