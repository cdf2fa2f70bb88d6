"""Identifiers of documents and chunks: ids and marks as keyed hashes, and source names that stay the same.

The key is the secret of the memory's file, so an id reveals nothing. A chunk is identified by its collection, document,
words and how often these occurred before, not by its position. So a chunk that moves keeps its id and its vector, and
one that was forgotten is recognised when its document is read again.

A source name is the path below the ingested folder. If another file has that name already, parent folders are put
before it until it is unique; a file that was moved takes over the name of the place it left.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from memory.documents.discovery import DocumentFile
from memory.documents.manifest import DocumentManifest, DocumentRecord

_ID_BYTES = 10
_MARK_BYTES = 20


def chunk_ids(key: bytes, collection: str, source: str, texts: Iterable[str]) -> list[str]:
    """Return an id for each of a document's chunks, in order; *collection* is its store namespace."""
    times: Counter[str] = Counter()
    ids = []
    for text in texts:
        digest = _keyed_hash(key, b"chunk", (collection, source, text, str(times[text])), _ID_BYTES)
        times[text] += 1
        ids.append("c" + base64.b32encode(digest).decode("ascii").lower())
    return ids


def document_mark(key: bytes, kind: str, *parts: str) -> str:
    """Return the mark of *parts* under the key: equal for equal parts of one kind, else it says nothing."""
    return _keyed_hash(key, kind.encode(), parts, _MARK_BYTES).hex()


def _keyed_hash(key: bytes, kind: bytes, parts: Iterable[str], size: int) -> bytes:
    digest = blake2b(key=key[:64], digest_size=size, person=kind[:16])
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def resolve_source(
    found: DocumentFile, manifest: DocumentManifest, claimed: Mapping[str, str]
) -> tuple[str, DocumentRecord | None]:
    """Return the source of the document at *found*, and its record if it has one.

    *claimed* maps names given in this run to their locations; they are not given twice.
    """
    location = str(found.location)
    record = manifest.at(location)
    if record is not None:
        return record.source, record
    for name in _candidate_names(found):
        if claimed.get(name, location) != location:
            continue
        record = manifest.get(name)
        if record is None or not record.location or is_file_gone(record.location):
            return name, record
    return location, manifest.get(location)


def is_file_gone(location: str) -> bool:
    """Say whether the file that was read at *location* is certainly not there any more."""
    try:
        Path(location).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be told: a folder that may not be entered, a disk that fails
        return False
    return False


def _candidate_names(found: DocumentFile) -> Iterator[str]:
    name = found.name
    yield name
    for folder in (found.root, *found.root.parents):
        if folder.name:
            name = f"{folder.name}/{name}"
            yield name
