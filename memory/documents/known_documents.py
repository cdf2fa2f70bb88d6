"""Known documents: the records of a collection as an ingest finds them, and the names that it gives to files.

A file is known by where it was read, by its name if the file of that name is gone (a moved folder), or by its content
if the file with that content is gone (a renamed file).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tellback.memory.documents.collection import DocumentCollection
from tellback.memory.documents.discovery import DocumentFile, GivenDocument
from tellback.memory.documents.manifest import DocumentRecord


class KnownDocuments:
    """Records of *collection* at the beginning of an ingest. Names are given by one thread; any may look up content."""

    def __init__(self, collection: DocumentCollection) -> None:
        self._manifest = collection.manifest
        self._by_location: dict[str, DocumentRecord] = {}
        self._by_source: dict[str, DocumentRecord] = {}
        self._by_content: dict[tuple[str, str], list[DocumentRecord]] = {}
        self._claimed: dict[str, str] = {}
        for record in self._manifest.all():
            self._by_source[record.source] = record
            if record.location:
                self._by_location.setdefault(record.location, record)
                self._by_content.setdefault((record.digest, record.recipe), []).append(record)

    def renew(self, source: str, location: str) -> None:
        """Read the records called *source* and at *location* again, which somebody else has written."""
        by_source, present = self._manifest.get(source), self._manifest.at(location)
        for table, key, record in ((self._by_source, source, by_source), (self._by_location, location, present)):
            if record is None:
                table.pop(key, None)
            else:
                table[key] = record

    def claim(self, source: str, location: str) -> None:
        """Reserve the name *source* for the document at *location*."""
        self._claimed[source] = location

    def resolve(self, found: DocumentFile | GivenDocument) -> tuple[str, DocumentRecord | None]:
        """Return the source of the document *found*, and its record if it has one.

        A source is the path below the ingested folder. If another file has that name already, parent folders are put
        before it until it is unique; a file that was moved takes over the name of the one that is gone.
        """
        location = str(found.location)
        if isinstance(found, GivenDocument):
            return found.source, self._by_source.get(found.source)
        if (record := self._by_location.get(location)) is not None:
            return record.source, record
        for name in _candidate_names(found):
            if self._claimed.get(name, location) == location:
                record = self._by_source.get(name)
                if record is None or not record.location or is_file_gone(record.location):
                    return name, record
        return location, self._by_source.get(location)

    def take_renamed(self, digest: str, recipe: str) -> DocumentRecord | None:
        """Return the record of a document with this content whose file is gone; each is given once."""
        records = self._by_content.get((digest, recipe), [])
        for record in records if digest else ():
            if record.source not in self._claimed and is_file_gone(record.location):
                records.remove(record)
                return record
        return None


def is_file_gone(location: str) -> bool:
    """Return whether the file that was read at *location* certainly does not exist any more; a URI is no file."""
    if not Path(location).is_absolute():
        return False
    try:
        Path(location).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be told: a folder that may not be entered, a disk that fails
        pass
    return False


def _candidate_names(found: DocumentFile) -> Iterator[str]:
    name = found.source
    yield name
    for folder in (found.root, *found.root.parents):
        if folder.name:
            name = f"{folder.name}/{name}"
            yield name
