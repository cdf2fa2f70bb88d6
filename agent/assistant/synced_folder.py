"""Folders that a service copies to other machines, known by their names or by marks in them.

A database in such a folder is copied while it is written, which damages the copy; two machines overwrite each other.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_NAMES: Final = (
    (re.compile(r"Dropbox( \(.+\))?", re.IGNORECASE), "Dropbox"),
    (re.compile(r"OneDrive( - .+|-.+)?", re.IGNORECASE), "OneDrive"),
    (re.compile(r"Google ?Drive(-.+| \(.+\))?", re.IGNORECASE), "Google Drive"),
    (re.compile(r"com~apple~CloudDocs|Mobile Documents|iCloud ?Drive", re.IGNORECASE), "iCloud Drive"),
    (re.compile(r"Nextcloud|ownCloud", re.IGNORECASE), "Nextcloud"),
)
_MARKS: Final = (
    (".stfolder", "Syncthing"),
    (".dropbox", "Dropbox"),
    (".dropbox.cache", "Dropbox"),
    (".tmp.drivedownload", "Google Drive"),
    (".nextcloudsync.log", "Nextcloud"),
    (".owncloudsync.log", "Nextcloud"),
)


def syncing_service(path: Path, *, home: Path | None = None) -> str | None:
    """Return the service that copies the folder of *path* to other machines; None where none is recognised.

    A mark in the *home* itself does not count: some services keep their settings there.
    """
    home = home or Path.home()
    for folder in path.absolute().parents:
        for name, service in _NAMES:
            if name.fullmatch(folder.name):
                return service
        if folder != home and len(folder.parts) > 1:
            for mark, service in _MARKS:
                if (folder / mark).exists():
                    return service
    return None


def synced_warning(path: Path, *, home: Path | None = None) -> str | None:
    """Return the warning about a memory file at *path* in a synced folder; None for any other folder."""
    service = syncing_service(path, home=home)
    if service is None:
        return None
    return f"{path.absolute().parent} is copied by {service}, which can damage a database that is written meanwhile"


SYNCED_REMEDY: Final = "keep the memory elsewhere (--memory), and put a copy there: tellback backup FILE"
