"""What stands at a path, found without opening it in SQLite and without changing a byte of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw

from vectorstore.errors import ArgumentError, NotAStore, StorageUnwritable
from vectorstore.sqlite.frame import check_header

_MAGIC = b"SQLite format 3\x00"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def checked_path(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return *path* made absolute, links among its folders followed, its own name as given."""
    given: object = path  # untyped callers pass anything
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ArgumentError(argument, path, "the path of a file, a str or a PathLike of one, is needed")
    if not text or "\0" in text or text == ":memory:":
        raise ArgumentError(argument, path, "the path of a file on disk is needed")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ArgumentError(argument, path, "a path that can be written as UTF-8 is needed")
    file = Path(text)
    if file.name in ("", ".."):
        raise ArgumentError(argument, path, "the path of a file, not of a folder, is needed")
    return file.parent.resolve() / file.name


def is_missing(path: Path) -> bool:
    """Whether a file can be made at *path*; raises when something of another kind stands there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and not path.exists():
            raise NotAStore(
                str(path),
                f"the file is gone but its log {wal.name} is there; restore the file, or move the log away",
            ) from None
        return not path.exists()
    if stat.S_ISLNK(mode):
        raise NotAStore(str(path), f"it is a link to {str(path.readlink())!r}; name the file it points to")
    if not stat.S_ISREG(mode):
        raise NotAStore(str(path), f"it is {_KINDS.get(stat.S_IFMT(mode), 'not a file')}; choose another path")
    return False


def check_file(path: Path) -> None:
    """Refuse a file that is not Mneme's, or newer, by its first hundred bytes."""
    try:
        # Through SQLite's own layer: to open and close a file by any other road drops the locks that another
        # connection of this process holds on it.
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    except apsw.CantOpenError as error:
        raise StorageUnwritable(f"{path}: no permission to read the file") from error
    try:
        size = file.xFileSize()
        if size == 0:
            raise NotAStore(str(path), "the file is empty, which no memory is; restore it from a backup, or remove it")
        header = file.xRead(min(100, size), 0)
    finally:
        file.xClose()
    if not header.startswith(_MAGIC) or len(header) < 100:
        raise NotAStore(str(path), "it is not a memory file of Mneme; choose another path")
    check_header(path, int.from_bytes(header[68:72]), int.from_bytes(header[60:64]))
