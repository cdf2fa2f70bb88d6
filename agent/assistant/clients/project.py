"""Project of a folder: the git repository that it lies in, or the folder itself.

The repository is read from its files; git is not run. Its name is the address of its remote, without user, password
and scheme, so that all clones of it are one project; else the path of its root.
"""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT_SCOPE: Final = "project"
"""Scope of the memories of a project."""
OFF_FILE: Final = ".tellback-off"
"""File in a project, or a folder above it, whose presence turns the hooks off there."""
_REMOTE = re.compile(r"^(?:[a-z+]+://)?(?:[^@/]+@)?([^/:]+)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*$", re.IGNORECASE)
_MAX_CONFIG_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Project:
    """Project by its *names*, remote and root; new memories get the first. *root* is its folder, if known."""

    names: tuple[str, ...]
    root: Path | None = None

    @property
    def name(self) -> str:
        """Name that new memories of the project are scoped by."""
        return self.names[0]

    @property
    def is_off(self) -> bool:
        """Return whether a file in the project, or in a folder above it, turns the hooks off."""
        return self.root is not None and any((folder / OFF_FILE).exists() for folder in (self.root, *self.root.parents))


def project_of(folder: str | Path) -> Project | None:
    """Return the project that *folder* lies in; None for the home folder and the root, which are no project."""
    path = Path(folder).expanduser()
    if not path.is_absolute():
        return None
    path = path.resolve()
    for root in (path, *path.parents):
        git = root / ".git"
        if git.exists():
            remote = _remote(git)
            return Project((remote, str(root)) if remote else (str(root),), root)
    if path in (Path.home().resolve(), Path(path.anchor)):
        return None
    return Project((str(path),), path)


def remote_name(address: str) -> str:
    """Return the name of the repository at *address*, such as "github.com/ana/atlas"; "" for a path.

    >>> remote_name("https://ana:secret@github.com/ana/atlas.git")
    'github.com/ana/atlas'
    >>> remote_name("git@github.com:ana/atlas.git")
    'github.com/ana/atlas'
    """
    address = address.strip()
    if address.startswith(("/", ".", "~", "file:")) or re.match(r"^[a-zA-Z]:[\\/]", address):
        return ""
    match = _REMOTE.match(address)
    return f"{match[1].lower()}/{match[2]}" if match else ""


def _remote(git: Path) -> str:
    """Return the name of the remote "origin", or of the only one, of the repository whose ``.git`` is *git*."""
    try:
        if git.is_file():  # a worktree or a submodule: it names its folder
            named = Path(_small_text(git).partition("gitdir:")[2].strip())
            folder = named if named.is_absolute() else git.parent / named
            common = folder / "commondir"
            git = folder / _small_text(common).strip() if common.is_file() else folder
        config = configparser.RawConfigParser(strict=False, allow_no_value=True)
        config.read_string(_small_text(git / "config"))
    except (OSError, ValueError, configparser.Error):
        return ""
    remotes = {
        section: config.get(section, "url", fallback=None) or ""
        for section in config.sections()
        if section.startswith('remote "')
    }
    chosen = remotes.get('remote "origin"') or (next(iter(remotes.values())) if len(remotes) == 1 else "")
    return remote_name(chosen)


def _small_text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_CONFIG_BYTES)
