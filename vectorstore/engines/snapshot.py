"""Snapshot of a store in memory: every table of its database, as the bytes of one file. No I/O.

    16 bytes   ``persisted_names.SNAPSHOT_MAGIC``
     4 bytes   version of the format, little-endian
    image      SQLite database, with the tables of all components: the same as in a store's file
    32 bytes   BLAKE2b of everything before

First bytes, version and the checksum at the end stay where they are in every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import apsw

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.errors import DamageError, NewerFile, NotAStore
from tellback.vectorstore.persisted_names import SNAPSHOT_MAGIC
from tellback.vectorstore.sqlite.connection import fetch_all
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.entry_reader import check_tables
from tellback.vectorstore.sqlite.entry_writer import NamespaceWriter
from tellback.vectorstore.sqlite.files import check_header
from tellback.vectorstore.sqlite.migrations import check_schema
from tellback.vectorstore.sqlite.schema import StoreTables, read_settings, rebuild_all_terms

SNAPSHOT_VERSION: Final = 3
PREAMBLE_SIZE: Final = len(SNAPSHOT_MAGIC) + 4
"""Bytes before the image; enough to recognise a snapshot."""
_DIGEST_SIZE: Final = 32
_ANALYZER_FACT: Final = "terms_of"
"""Name, in the tables, of the fingerprint of the analyzer that made the terms."""
_FORMAT_ERRORS: Final = (apsw.Error, ValueError, TypeError)
"""Errors of reading rows that do not fit together, in a file that nobody damaged."""


def encode_snapshot(image: SqliteConnection, fingerprint: str) -> Iterator[bytes]:
    """Yield the bytes of a snapshot, part by part; *image*, a copy of the store's database, is used up and closed.

    *fingerprint* is that of the analyzer that made the terms; terms that no entry has any more are left out.
    """
    try:
        with image:
            image.execute("INSERT OR REPLACE INTO store_facts VALUES (?, ?)", (_ANALYZER_FACT, fingerprint))
            for (name,) in fetch_all(image, "SELECT name FROM namespaces"):
                NamespaceWriter(image, name).compact()
        image.execute("VACUUM")  # what was erased is in no free page either
        parts = [SNAPSHOT_MAGIC + SNAPSHOT_VERSION.to_bytes(4, "little"), image.serialize("main")]
    finally:
        image.close()
    digest = blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def check_preamble(front: bytes, source: str) -> None:
    """Refuse what does not begin as a snapshot of a version that is known; *source* names it."""
    if front[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
        raise NotAStore(source, "it is not a snapshot of a numpy store; choose another path")
    version = int.from_bytes(front[len(SNAPSHOT_MAGIC) : PREAMBLE_SIZE], "little")
    if version > SNAPSHOT_VERSION:
        raise NewerFile(source, "snapshot format", version, SNAPSHOT_VERSION)
    if len(front) >= PREAMBLE_SIZE and version < SNAPSHOT_VERSION:
        problem = f"it is a snapshot of format {version}, of a version before the first release, which is read no more"
        raise NotAStore(source, f"{problem}; write its data into a new store")


def decode_snapshot(data: bytes, source: str) -> SqliteConnection:
    """Return the database in *data*; *source* names it in errors."""
    check_preamble(data[: len(SNAPSHOT_MAGIC)], source)
    body = memoryview(data)[:-_DIGEST_SIZE]
    if blake2b(body, digest_size=_DIGEST_SIZE).digest() != data[-_DIGEST_SIZE:]:
        raise DamageError(f"{source}: its bytes are not those that were written; restore a copy")
    check_preamble(data[:PREAMBLE_SIZE], source)  # a version is believed only where the checksum is right
    image = SqliteConnection(":memory:")
    try:
        image.deserialize("main", body[PREAMBLE_SIZE:])
        _check_image(image, source)
    except DamageError as error:
        image.close()
        raise DamageError(f"{source}: {error}; restore a copy") from error
    except _FORMAT_ERRORS as error:
        image.close()
        raise DamageError(f"{source}: its parts do not fit together ({error}); restore a copy") from error
    return image


def _check_image(image: SqliteConnection, source: str) -> None:
    """Refuse tables that are not the store's: a checksum is not a signature. Rows are checked when they are read."""
    check_header(Path(source), image.pragma("application_id"), image.pragma("user_version"))
    check_schema(image, (StoreTables(Analyzer()),))  # a trigger would act on every later write
    check_tables(image)
    analyzer = read_settings(image).analyzer
    made_by = fetch_all(image, "SELECT value FROM store_facts WHERE name = ?", (_ANALYZER_FACT,))
    if made_by != [(analyzer.fingerprint,)]:
        rebuild_all_terms(image, analyzer)
