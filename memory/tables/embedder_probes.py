"""Embedder probes: the vectors of fixed texts when a memory was filled; by them a changed model is noticed.

embedder_probes   by the name of a space: the vectors of the probes, float32, and how many
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vectorstore import Connection, Database, Finding

ProbeVectors = NDArray[np.float32]


class EmbedderProbes(Protocol):
    """The probes' vectors by the name of a space. Any thread may call."""

    def get(self, name: str) -> ProbeVectors | None:
        """Return what is recorded for the space *name*, None where nothing is."""
        ...

    def first(self, name: str, rows: ProbeVectors) -> ProbeVectors:
        """Record *rows* unless something is recorded; return what is recorded then."""
        ...

    def put(self, name: str, rows: ProbeVectors) -> None:
        """Record *rows* in the place of whatever was."""
        ...


class InMemoryEmbedderProbes:
    """``EmbedderProbes`` for a store without a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, ProbeVectors] = {}

    def get(self, name: str) -> ProbeVectors | None:
        """As ``EmbedderProbes.get``."""
        with self._lock:
            return self._rows.get(name)

    def first(self, name: str, rows: ProbeVectors) -> ProbeVectors:
        """As ``EmbedderProbes.first``."""
        with self._lock:
            return self._rows.setdefault(name, rows.copy())

    def put(self, name: str, rows: ProbeVectors) -> None:
        """As ``EmbedderProbes.put``."""
        with self._lock:
            self._rows[name] = rows.copy()


_FLOAT32 = np.dtype("<f4")


class SqliteEmbedderProbes:
    """``EmbedderProbes`` in a database's file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.attach(EmbedderProbeTables())

    def get(self, name: str) -> ProbeVectors | None:
        """As ``EmbedderProbes.get``."""
        with self._database.read() as connection:
            return _read_vectors(connection, name)

    def first(self, name: str, rows: ProbeVectors) -> ProbeVectors:
        """As ``EmbedderProbes.first``."""
        with self._database.read() as connection:
            found = _read_vectors(connection, name)
        if found is not None:
            return found
        with self._database.write() as connection:
            _write_vectors(connection, "INSERT OR IGNORE", name, rows)
            found = _read_vectors(connection, name)
        return rows if found is None else found

    def put(self, name: str, rows: ProbeVectors) -> None:
        """As ``EmbedderProbes.put``."""
        with self._database.write() as connection:
            _write_vectors(connection, "INSERT OR REPLACE", name, rows)


class EmbedderProbeTables:
    """The table as a component of a database."""

    name = "embedder_probes"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the table, in order."""
        return (m001_embedder_probes,)

    def verify(self, connection: Connection) -> list[Finding]:
        """Look whether each row holds as many finite numbers as it says."""
        names = [name for (name,) in connection.execute("SELECT name FROM embedder_probes ORDER BY name")]
        broken = [name for name in names if _read_vectors(connection, name) is None]
        return [Finding(self.name, "the vectors of the probes are not whole", name) for name in broken]

    def rebuild(self, connection: Connection) -> None:
        """Drop what is not whole; the embedder is asked again."""
        for finding in self.verify(connection):
            connection.execute("DELETE FROM embedder_probes WHERE name = ?", (finding.subject,))

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy every row."""
        rows = list(source.execute("SELECT name, texts, vectors FROM embedder_probes"))
        target.executemany("INSERT OR REPLACE INTO embedder_probes (name, texts, vectors) VALUES (?, ?, ?)", rows)
        return len(rows)


def m001_embedder_probes(connection: Connection) -> None:
    """Make the table."""
    connection.execute(
        "CREATE TABLE embedder_probes ("
        " name TEXT PRIMARY KEY, texts INTEGER NOT NULL, vectors BLOB NOT NULL) STRICT, WITHOUT ROWID"
    )


def _write_vectors(connection: Connection, how: str, name: str, rows: ProbeVectors) -> None:
    values = (name, len(rows), np.ascontiguousarray(rows, _FLOAT32).tobytes())
    connection.execute(f"{how} INTO embedder_probes (name, texts, vectors) VALUES (?, ?, ?)", values)


def _read_vectors(connection: Connection, name: str) -> ProbeVectors | None:
    row = connection.execute("SELECT texts, vectors FROM embedder_probes WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] < 1 or not row[1] or len(row[1]) % (4 * row[0]):
        return None
    vectors = np.frombuffer(row[1], _FLOAT32).reshape(row[0], -1).astype(np.float32)
    return vectors if np.isfinite(vectors).all() else None
