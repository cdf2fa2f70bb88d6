"""Embedder probes: the vectors of fixed texts when a memory was filled; by them a changed model is noticed.

embedder_probes   by the name of a space: the vectors of the probes, float32, and how many
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore import Connection, Database, Finding, TableComponent

if TYPE_CHECKING:
    from vectorstore.sqlite import SalvageSource

ProbeVectors = NDArray[np.float32]

_FLOAT32: Final = np.dtype("<f4")


class EmbedderProbes:
    """Vectors of the probes by the name of a space, in a table of *database*. Any thread may call."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.attach(EmbedderProbeTables())

    def get(self, name: str) -> ProbeVectors | None:
        """Return the recorded vectors of the space *name*, None where there are none."""
        with self._database.read() as connection:
            return _read_vectors(connection, name)

    def first(self, name: str, rows: ProbeVectors) -> ProbeVectors:
        """Record *rows* unless vectors are recorded already; return the recorded ones."""
        found = self.get(name)
        if found is not None:
            return found
        with self._database.write() as connection:
            _write_vectors(connection, name, rows, "DO NOTHING")
            found = _read_vectors(connection, name)
        return rows if found is None else found

    def put(self, name: str, rows: ProbeVectors) -> None:
        """Record *rows* in the place of any earlier ones."""
        with self._database.write() as connection:
            _write_vectors(
                connection, name, rows, "(name) DO UPDATE SET texts = excluded.texts, vectors = excluded.vectors"
            )


class EmbedderProbeTables(TableComponent):
    """The table of embedder probes as a component of a database."""

    def __init__(self) -> None:
        super().__init__("embedder_probes", (m001_embedder_probes,), ("embedder_probes",))

    def verify(self, connection: Connection) -> list[Finding]:
        """Check that each row holds as many finite numbers as it says."""
        names = [name for (name,) in connection.execute("SELECT name FROM embedder_probes ORDER BY name")]
        broken = [name for name in names if _read_vectors(connection, name) is None]
        return [Finding(self.name, "the vectors of the probes are not whole", name) for name in broken]

    def rebuild(self, connection: Connection) -> None:
        """Drop rows that are not whole; the embedder is asked again."""
        for finding in self.verify(connection):
            connection.execute("DELETE FROM embedder_probes WHERE name = ?", (finding.subject,))

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every row, and drop those that are not whole."""
        super().salvage(source, target)
        self.rebuild(target)


def m001_embedder_probes(connection: Connection) -> None:
    """Create the table."""
    connection.execute(
        "CREATE TABLE embedder_probes ("
        " name TEXT PRIMARY KEY, texts INTEGER NOT NULL, vectors BLOB NOT NULL) STRICT, WITHOUT ROWID"
    )


def _write_vectors(connection: Connection, name: str, rows: ProbeVectors, on_conflict: str) -> None:
    values = (name, len(rows), np.ascontiguousarray(rows, _FLOAT32).tobytes())
    connection.execute(
        f"INSERT INTO embedder_probes (name, texts, vectors) VALUES (?, ?, ?) ON CONFLICT {on_conflict}", values
    )


def _read_vectors(connection: Connection, name: str) -> ProbeVectors | None:
    row = connection.execute("SELECT texts, vectors FROM embedder_probes WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] < 1 or not row[1] or len(row[1]) % (4 * row[0]):
        return None
    vectors = np.frombuffer(row[1], _FLOAT32).reshape(row[0], -1).astype(np.float32)
    return vectors if np.isfinite(vectors).all() else None
