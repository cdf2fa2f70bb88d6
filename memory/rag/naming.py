"""How a file's document is called: short, and the same at every ingest. Looks at the disk, reads nothing.

The name is the path below the ingested folder. Where another file has that name already, folders above are
put before it until it is the file's own; a file that has been moved takes over the name of the place it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from memory.rag.discover import Found
from memory.rag.manifest import Manifest, Record


def name_for(found: Found, manifest: Manifest, claimed: Mapping[str, str]) -> tuple[str, Record | None]:
    """Return the source of the document at *found*, and its record if it has one.

    *claimed* maps names given in this run to their locations; they are not given twice.
    """
    location = str(found.location)
    record = manifest.at(location)
    if record is not None:
        return record.source, record
    for name in _candidates(found):
        if claimed.get(name, location) != location:
            continue
        record = manifest.get(name)
        if record is None or not record.location or vanished(record.location):
            return name, record
    return location, manifest.get(location)


def vanished(location: str) -> bool:
    """Say whether the file that was read at *location* is certainly not there any more."""
    try:
        Path(location).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be told: a folder that may not be entered, a disk that fails
        return False
    return False


def _candidates(found: Found) -> Iterator[str]:
    name = found.name
    yield name
    for folder in (found.root, *found.root.parents):
        if folder.name:
            name = f"{folder.name}/{name}"
            yield name
