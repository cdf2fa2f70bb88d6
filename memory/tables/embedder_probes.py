"""Embedder probes: the vectors of fixed texts when a memory was filled, by which a changed model is noticed; and the
profiles that were measured of unknown embedders.

embedder_probes     by the name of a space: the vectors of the probes, float32, and how many
embedder_profiles   by the name of a space: the profile, JSON
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore import Connection, Database, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource

ProbeVectors = NDArray[np.float32]

_BROKEN_VECTORS: Final = "the vectors of the probes are not whole"
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
        recorded = self.get(name)
        if recorded is not None:
            return recorded
        with self._database.write() as connection:
            _write_vectors(connection, name, rows, "DO NOTHING")
            recorded = _read_vectors(connection, name)
        return rows if recorded is None else recorded

    def put(self, name: str, rows: ProbeVectors) -> None:
        """Record *rows* in the place of any earlier ones."""
        with self._database.write() as connection:
            _write_vectors(
                connection, name, rows, "(name) DO UPDATE SET texts = excluded.texts, vectors = excluded.vectors"
            )

    def profile(self, name: str) -> dict[str, Any] | None:
        """Return the fields of the profile that was measured for the space *name*, None where there is none."""
        with self._database.read() as connection:
            return _read_profile(connection, name)

    def put_profile(self, name: str, profile: Mapping[str, Any]) -> None:
        """Record the fields of the profile of the embedder of the space *name*; the first one stays."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO embedder_profiles (name, profile) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (name, json.dumps(dict(profile))),
            )


class EmbedderProbeTables(TableComponent):
    """The tables of embedder probes and profiles as a component of a database."""

    def __init__(self) -> None:
        super().__init__(
            "embedder_probes", (m001_embedder_probes, m002_profiles), ("embedder_probes", "embedder_profiles")
        )

    def verify(self, connection: Connection) -> list[Finding]:
        """Check that each row holds as many finite numbers as it says, or a profile."""
        names = [name for (name,) in connection.execute("SELECT name FROM embedder_probes ORDER BY name")]
        broken = [name for name in names if _read_vectors(connection, name) is None]
        findings = [Finding(self.name, _BROKEN_VECTORS, name) for name in broken]
        names = [name for (name,) in connection.execute("SELECT name FROM embedder_profiles ORDER BY name")]
        broken = [name for name in names if _read_profile(connection, name) is None]
        return [*findings, *(Finding(self.name, "the profile cannot be read", name) for name in broken)]

    def rebuild(self, connection: Connection) -> None:
        """Drop rows that are not whole; the embedder is asked again."""
        for finding in self.verify(connection):
            table = "embedder_probes" if finding.what == _BROKEN_VECTORS else "embedder_profiles"
            connection.execute(f"DELETE FROM {table} WHERE name = ?", (finding.subject,))

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


def m002_profiles(connection: Connection) -> None:
    """Create the table of profiles."""
    connection.execute(
        "CREATE TABLE embedder_profiles (name TEXT PRIMARY KEY, profile TEXT NOT NULL) STRICT, WITHOUT ROWID"
    )


def _read_profile(connection: Connection, name: str) -> dict[str, Any] | None:
    row = connection.execute("SELECT profile FROM embedder_profiles WHERE name = ?", (name,)).fetchone()
    try:
        profile = None if row is None else json.loads(row[0])
    except ValueError:  # a damaged row, which `verify` names
        return None
    return profile if isinstance(profile, dict) else None


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
