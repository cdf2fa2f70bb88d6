"""Changes of a client's files: planned, shown as a diff, and written whole with a backup of the old file.

A file keeps its mode, a new one is private. A link is followed, so that a folder of dotfiles keeps its file.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from tellback.agent.assistant.config_file import replace_text
from tellback.memory import ArgumentError

_BACKUP_MARK: Final = ".before-tellback-"


@dataclass(frozen=True, slots=True)
class FileChange:
    """Change of the file *path* from *before* to *after*, each None where there is no file.

    *backup* is the copy of the old file, once the change was written. *is_ours*: the old content is ours alone, and
    needs no backup.
    """

    path: Path
    before: str | None
    after: str | None
    backup: Path | None = None
    is_ours: bool = False

    @property
    def changes(self) -> bool:
        """Return whether there is anything to write."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff; "" where there is none."""
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        return "\n".join(difflib.unified_diff(before, after, str(self.path), str(self.path), lineterm=""))


def file_change(path: Path, edit: Callable[[str], str | None]) -> FileChange:
    """Return the change that *edit* makes to the text of *path*: it gets "" for no file, and returns None to remove it.

    A file that cannot be read, or that *edit* refuses with ``ValueError``, raises ``ArgumentError``.
    """
    if path.exists() and not path.is_file():
        raise ArgumentError("client", str(path), "is no regular file; nothing was changed")
    try:
        before = path.read_bytes().decode("utf-8") if path.exists() else None
        after = _edited_lines(edit, before or "")
    except UnicodeDecodeError as error:
        raise ArgumentError("client", str(path), "is not UTF-8 text; nothing was changed") from error
    except OSError as error:
        raise ArgumentError("client", str(path), f"cannot be read ({error}); nothing was changed") from error
    except ValueError as error:
        raise ArgumentError("client", str(path), f"cannot be edited: {error}; nothing was changed") from error
    return FileChange(path, before, None if before is None and not after else after)


def application_folder(name: str) -> Path:
    """Return the folder of an application called *name* among those of the platform's applications."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / name
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / name
    return config_folder() / name


def config_folder() -> Path:
    """Return the folder of settings that command-line programs use on every platform."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _edited_lines(edit: Callable[[str], str | None], text: str) -> str | None:
    """Return *text* after *edit*, which sees line feeds alone; a file of Windows' line ends keeps them."""
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    after = edit(text.replace("\r\n", "\n") if windows else text)
    return after.replace("\n", "\r\n") if windows and after is not None else after


def earlier_texts(path: Path) -> list[str]:
    """Return the texts of the backups beside *path*, newest first; those that cannot be read are left out."""
    target, texts = path.resolve(), []
    for backup in sorted(target.parent.glob(glob.escape(target.name) + _BACKUP_MARK + "*"), reverse=True):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            texts.append(backup.read_bytes().decode("utf-8"))
    return texts


def write_changes(changes: Sequence[FileChange], *, now: datetime) -> list[FileChange]:
    """Write *changes*, each file whole or not at all, and return those that were written with their backups."""
    written = []
    for change in changes:
        if change.changes:
            backup = None if change.before is None or change.is_ours else _back_up(change.path, now)
            if change.after is None:
                change.path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # other files are in the folder
                    change.path.parent.rmdir()
            else:
                replace_text(change.path, change.after)
            written.append(replace(change, backup=backup))
    return written


def _back_up(path: Path, now: datetime) -> Path:
    target = path.resolve()
    stem = f"{target.name}{_BACKUP_MARK}{now:%Y%m%d-%H%M%S}"
    for attempt in range(100):
        backup = target.with_name(stem + (f"-{attempt}" if attempt else ""))
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(target.read_bytes())
        backup.chmod(target.stat().st_mode & 0o777)
        return backup
    raise FileExistsError(stem)
