"""SQLite by hand, as a careful user writes it: WAL, ``synchronous=FULL``, one transaction a batch, prepared words.

Three stores: rows with the vector as a BLOB (the base line of a durable write, and sqlite-vec's scalar functions over
ordinary rows), sqlite-vec's ``vec0`` table beside the rows, and that with FTS5 over the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

from benchmarks.stores.adapter import Adapter, Found, Row


class _ByHand(Adapter):
    batch = 1_000
    imports: tuple[str, ...] = ("numpy", "apsw", "sqlite_vec", "json")
    tables: tuple[str, ...]

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._database = apsw.Connection(str(folder / "rows.db"))
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())
        self._database.enable_load_extension(False)
        self._database.set_busy_timeout(10_000)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-65536"):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        for table in self.tables:
            self._database.execute(table.format(dimension=dimension)).fetchall()

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        return [self.search(vector, k) for vector in vectors]

    def plain(self, answer: Any) -> list[Found]:
        return [Found(id, score, text, metadata) for id, text, metadata, score in answer]

    def close(self) -> None:
        self._database.close()

    def _answer(self, sql: str, values: tuple[Any, ...]) -> list[tuple[str, str, dict[str, Any], float]]:
        found = self._database.execute(sql, values)
        return [(id, text, json.loads(metadata), -distance) for id, text, metadata, distance in found]


class SqliteRows(_ByHand):
    """A table of rows, the vector a BLOB in it."""

    tables = (
        """CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
        metadata TEXT NOT NULL, kind TEXT NOT NULL, vector BLOB NOT NULL)""",
        "CREATE INDEX IF NOT EXISTS rows_of_kind ON rows (kind)",
    )

    def add(self, rows: Sequence[Row]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT INTO rows (id, text, metadata, kind, vector) VALUES (?, ?, ?, ?, ?)",
                (
                    (row.id, row.text, json.dumps(row.metadata), row.metadata["kind"], row.vector.tobytes())
                    for row in rows
                ),
            )

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        condition, values = ("WHERE kind = ? ", (kind,)) if kind is not None else ("", ())
        return self._answer(
            "SELECT id, text, metadata, distance FROM rows JOIN (SELECT key, vec_distance_cosine(vector, ?) AS distance"
            f" FROM rows {condition}ORDER BY distance LIMIT ?) USING (key) ORDER BY distance",
            (vector.tobytes(), *values, k),
        )

    def delete(self, ids: Sequence[str]) -> None:
        with self._database:
            self._database.executemany("DELETE FROM rows WHERE id = ?", ((id,) for id in ids))


class SqliteVec(_ByHand):
    """Rows, and their vectors in a ``vec0`` table with the kind as its metadata column."""

    tables: tuple[str, ...] = (
        """CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
        metadata TEXT NOT NULL)""",
        """CREATE VIRTUAL TABLE IF NOT EXISTS vectors USING vec0(key INTEGER PRIMARY KEY,
        vector float[{dimension}] distance_metric=cosine, kind text)""",
    )

    def add(self, rows: Sequence[Row]) -> None:
        with self._database:
            (start,) = self._database.execute("SELECT coalesce(max(key), 0) + 1 FROM rows").fetchall()[0]
            self._add_rows(rows, start)
            self._database.executemany(
                "INSERT INTO vectors (key, vector, kind) VALUES (?, ?, ?)",
                ((key, row.vector.tobytes(), row.metadata["kind"]) for key, row in enumerate(rows, start)),
            )

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        condition, values = (" AND kind = ?", (kind,)) if kind is not None else ("", ())
        return self._answer(
            "SELECT id, text, metadata, distance FROM (SELECT key, distance FROM vectors WHERE vector MATCH ?"
            f" AND k = ?{condition}) JOIN rows USING (key) ORDER BY distance",
            (vector.tobytes(), k, *values),
        )

    def delete(self, ids: Sequence[str]) -> None:
        with self._database:
            for id in ids:
                ((key,),) = self._database.execute("DELETE FROM rows WHERE id = ? RETURNING key", (id,)).fetchall()
                self._database.execute("DELETE FROM vectors WHERE key = ?", (key,))

    def _add_rows(self, rows: Sequence[Row], start: int) -> None:
        self._database.executemany(
            "INSERT INTO rows (key, id, text, metadata) VALUES (?, ?, ?, ?)",
            ((key, row.id, row.text, json.dumps(row.metadata)) for key, row in enumerate(rows, start)),
        )


class SqliteVecFts5(SqliteVec):
    """The same with FTS5 over the text: external content, English stemming, asked by ``ORDER BY rank``."""

    tables = (
        *SqliteVec.tables,
        """CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, content='rows', content_rowid='key',
        tokenize='porter unicode61')""",
    )

    def search_text(self, words: str, k: int) -> Any:
        question = " OR ".join(f'"{word}"' for word in words.split())
        return self._answer(
            "SELECT id, rows.text, metadata, rank FROM words JOIN rows ON rows.key = words.rowid WHERE words MATCH ?"
            " ORDER BY rank LIMIT ?",
            (question, k),
        )

    def delete(self, ids: Sequence[str]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT INTO words (words, rowid, text) SELECT 'delete', key, text FROM rows WHERE id = ?",
                ((id,) for id in ids),
            )
            super().delete(ids)

    def _add_rows(self, rows: Sequence[Row], start: int) -> None:
        super()._add_rows(rows, start)
        self._database.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", ((key, row.text) for key, row in enumerate(rows, start))
        )
