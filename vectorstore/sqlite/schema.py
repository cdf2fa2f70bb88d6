"""The tables of the store in the file: each thing once, and what is derived from it rebuildable.

store_facts   the space, the one that is being filled, the analyzer, the declared fields, the next entry key
namespaces    name, write number, how many entries, the sums of checksums, where the change log begins
entries       id, revision, text, context, metadata (canonical JSON), why it has no vector, checksum
vectors       float32 little-endian, Euclidean norm, checksum
next_vectors  the same of the space that is being filled; at a switch the two tables change names, and with them
              their indexes change owners
next_no_vector  why an entry has no vector there
terms         the dictionary of a namespace; numbers are never used twice            (derived)
forward       the terms of an entry in order, as numbers                             (derived)
changes       which entry changed at which write number; *removed* is the id of one that went
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import apsw
import numpy as np
from numpy.typing import NDArray

from vectorstore.analysis import Analyzer
from vectorstore.core.forward import analyse
from vectorstore.errors import DamageError
from vectorstore.sqlite.checks import retally, verify_store
from vectorstore.sqlite.dictionary import Dictionary
from vectorstore.sqlite.query import every
from vectorstore.sqlite.salvaging import copy_rows
from vectorstore.sqlite.settings import Settings, read_settings, record_settings
from vectorstore.types import Finding

COMPONENT: Final = "store"
_VECTORS: Final = """
    CREATE TABLE {} (
        key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
        namespace INTEGER NOT NULL,
        norm REAL NOT NULL,
        checksum INTEGER NOT NULL,
        vector BLOB NOT NULL
    ) STRICT
"""


def m001_tables(connection: apsw.Connection) -> None:
    """Make the first tables."""
    for statement in (
        "CREATE TABLE store_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        """
        CREATE TABLE namespaces (
            key INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            revision INTEGER NOT NULL DEFAULT 0,
            entries INTEGER NOT NULL DEFAULT 0,
            tally INTEGER NOT NULL DEFAULT 0,
            vector_tally INTEGER NOT NULL DEFAULT 0,
            next_tally INTEGER NOT NULL DEFAULT 0,
            next_term INTEGER NOT NULL DEFAULT 1,
            pruned INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        """
        CREATE TABLE entries (
            key INTEGER PRIMARY KEY,
            namespace INTEGER NOT NULL REFERENCES namespaces (key),
            id TEXT NOT NULL,
            revision INTEGER NOT NULL,
            text TEXT NOT NULL,
            context TEXT NOT NULL,
            metadata TEXT NOT NULL,
            no_vector TEXT,
            checksum INTEGER NOT NULL,
            UNIQUE (namespace, id)
        ) STRICT
        """,
        _VECTORS.format("vectors"),
        _VECTORS.format("next_vectors"),
        "CREATE INDEX vectors_of ON vectors (namespace)",
        "CREATE INDEX next_vectors_of ON next_vectors (namespace)",
        """
        CREATE TABLE next_no_vector (
            key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
            namespace INTEGER NOT NULL,
            reason TEXT NOT NULL,
            checksum INTEGER NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE terms (
            namespace INTEGER NOT NULL,
            number INTEGER NOT NULL,
            term TEXT NOT NULL,
            PRIMARY KEY (namespace, number)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE UNIQUE INDEX terms_by_name ON terms (namespace, term)",
        """
        CREATE TABLE forward (
            key INTEGER PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
            namespace INTEGER NOT NULL,
            context_length INTEGER NOT NULL,
            sequence BLOB NOT NULL
        ) STRICT
        """,
        "CREATE INDEX forward_of ON forward (namespace)",
        """
        CREATE TABLE changes (
            namespace INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            key INTEGER NOT NULL,
            removed TEXT,
            PRIMARY KEY (namespace, revision)
        ) STRICT, WITHOUT ROWID
        """,
    ):
        connection.execute(statement)


class StoreTables:
    """The component that owns these tables; *analyzer* makes the derived terms again."""

    name = COMPONENT
    migrations: Sequence[Callable[[apsw.Connection], None]] = (m001_tables,)

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare rows, checksums, tallies and terms."""
        return verify_store(connection, self.analyzer)

    def rebuild(self, connection: apsw.Connection) -> None:
        """Make terms and the forward index again from the entries; every core then loads afresh."""
        connection.execute("DELETE FROM forward")
        connection.execute("DELETE FROM terms")
        for namespace, next_term in every(connection, "SELECT key, next_term FROM namespaces"):
            dictionary = Dictionary(connection, namespace, next_number=next_term)
            rows = every(
                connection, "SELECT key, text, context FROM entries WHERE namespace = ? ORDER BY key", (namespace,)
            )
            for key, text, context in rows:
                analysed = analyse(self.analyzer, text, context)
                dictionary.intern(analysed.distinct())
                write_forward(connection, key, namespace, *analysed.numbered(dictionary.numbers))
            connection.execute("DELETE FROM changes WHERE namespace = ?", (namespace,))
            connection.execute(
                "UPDATE namespaces SET revision = revision + 1, pruned = revision + 1, next_term = ? WHERE key = ?",
                (dictionary.next_number, namespace),
            )

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every row whose checksum holds into a fresh file; see ``salvaging``."""
        saved = copy_rows(source, target)
        try:
            found = read_settings(target)
        except DamageError:  # settings that were lost are those given here, without a space
            target.execute("DELETE FROM store_facts WHERE name <> 'next_key'")
            record_settings(target, Settings(analyzer=self.analyzer))
        else:
            self.analyzer = found.analyzer if found.recorded else self.analyzer
        retally(target)
        self.rebuild(target)
        return saved


def write_forward(
    connection: apsw.Connection, key: int, namespace: int, sequence: NDArray[np.int32], context_length: int
) -> None:
    """Store the forward index of one entry."""
    connection.execute(
        "INSERT OR REPLACE INTO forward VALUES (?, ?, ?, ?)",
        (key, namespace, context_length, sequence.astype("<i4").tobytes()),
    )
