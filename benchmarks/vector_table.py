"""An ordinary table searched by sqlite-vec's functions beside a ``vec0`` table: where a file should keep vectors.

``python -m benchmarks vectors-table`` measures both in one run, each in a file of its own with the same settings.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import sqlite_vec
from rich.console import Console
from rich.table import Table

BATCH = 1000
LOADED_TOGETHER = 512
K = 10
ORDINARY, VIRTUAL = "ordinary table", "vec0"


@dataclass
class Layout:
    """One way to keep vectors: the SQL for everything that is measured."""

    name: str
    create: str
    insert: str
    load: str
    search: str
    filtered: str
    delete: str
    figures: dict[str, float] = field(default_factory=dict)


def layouts(dimension: int) -> list[Layout]:
    """Return the layouts: the store's table and a virtual one. In both, metadata is in another table."""
    return [
        Layout(
            ORDINARY,
            "CREATE TABLE vectors (key INTEGER PRIMARY KEY, norm REAL, checksum INTEGER, vector BLOB NOT NULL) STRICT",
            "INSERT INTO vectors VALUES (?1, 1.0, ?1, ?2)",
            "SELECT key, vector FROM vectors",
            "SELECT key, vec_distance_cosine(vector, ?1) AS far FROM vectors ORDER BY far LIMIT ?2",
            "SELECT v.key, vec_distance_cosine(v.vector, ?1) AS far FROM entries AS e JOIN vectors AS v"
            " ON v.key = e.key WHERE e.kind = 1 ORDER BY far LIMIT ?2",
            "DELETE FROM vectors WHERE key = ?",
        ),
        Layout(
            VIRTUAL,
            f"CREATE VIRTUAL TABLE vectors USING vec0(vector float[{dimension}] distance_metric=cosine)",
            "INSERT INTO vectors (rowid, vector) VALUES (?1, ?2)",
            "SELECT rowid, vector FROM vectors",
            "SELECT rowid, distance FROM vectors WHERE vector MATCH ?1 AND k = ?2 ORDER BY distance",
            "SELECT rowid, distance FROM vectors WHERE vector MATCH ?1 AND k = ?2"
            " AND rowid IN (SELECT key FROM entries WHERE kind = 1) ORDER BY distance",
            "DELETE FROM vectors WHERE rowid = ?",
        ),
    ]


def add_command(commands: Any) -> None:
    """Put ``vectors-table`` among the *commands* of the command line."""
    parser = commands.add_parser("vectors-table", help="an ordinary table of vectors beside vec0, in SQLite")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Measure, print the table, and write the figures where they are asked for."""
    console = Console(width=110)
    lines = []
    for rows in given.rows:
        measured = measure(rows, given.dimension, given.seed)
        lines.append({"rows": rows, "figures": {item.name: item.figures for item in measured}})
        console.print(_table(measured, rows, given))
    if given.json is not None:
        text = "".join(json.dumps({"about": about(given), **line}) + "\n" for line in lines)
        given.json.write_text(text, encoding="utf-8")
    return 0


def measure(rows: int, dimension: int, seed: int) -> list[Layout]:
    """Measure both layouts with the same vectors, turn by turn."""
    draw = np.random.default_rng(seed)
    vectors = draw.standard_normal((rows, dimension)).astype(np.float32)
    questions = draw.standard_normal((12, dimension)).astype(np.float32)
    both = layouts(dimension)
    with tempfile.TemporaryDirectory() as folder:
        opened = {item.name: _opened(Path(folder) / f"{number}.db", item) for number, item in enumerate(both)}
        for item in both:
            connection = opened[item.name]
            seconds = _timed(lambda item=item, connection=connection: _fill(connection, item, vectors))
            item.figures["bulk, rows a second"] = rows / seconds
            _checkpoint(connection)
            item.figures["file, MB"] = _bytes(folder, both, item) / 2**20
        answers: dict[str, list[list[int]]] = {item.name: [] for item in both}
        times: dict[tuple[str, str], list[float]] = {}
        for turn, question in enumerate(questions):
            for item in both if turn % 2 else both[::-1]:
                connection, asked = opened[item.name], (question.tobytes(), K)
                for what, sql in (("search, ms", item.search), ("search, 1 % pass, ms", item.filtered)):
                    began = time.perf_counter()
                    found = connection.execute(sql, asked).fetchall()
                    times.setdefault((item.name, what), []).append(time.perf_counter() - began)
                    if sql == item.search:
                        answers[item.name].append([key for key, _ in found])
        assert answers[ORDINARY] == answers[VIRTUAL], "both must find the same"
        for _ in range(3):
            for item in both:
                seconds = _timed(lambda item=item: _load(opened[item.name], item, rows, dimension))
                times.setdefault((item.name, "load the matrix, ms"), []).append(seconds)
        for turn in range(200):
            for item in both if turn % 2 else both[::-1]:
                row = [(rows + 1 + turn, vectors[-1 - turn].tobytes())]
                seconds = _timed(lambda item=item, row=row: _written(opened[item.name], item.insert, row))
                times.setdefault((item.name, "one durable write, ms"), []).append(seconds)
        for item in both:
            for (name, what), taken in times.items():
                if name == item.name:
                    item.figures[what] = 1000 * statistics.median(taken)
            connection = opened[item.name]
            _deleting(connection, item, vectors[:100], Path(folder) / f"{both.index(item)}.db")
            _churn(connection, item, vectors, rows)
            _checkpoint(connection)
            item.figures["file after churn, MB"] = _bytes(folder, both, item) / 2**20
            connection.execute("VACUUM")
            _checkpoint(connection)
            item.figures["the same, compacted, MB"] = _bytes(folder, both, item) / 2**20
        for connection in opened.values():
            connection.close()
    return both


def _opened(path: Path, layout: Layout) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    for name, value in (("journal_mode", "wal"), ("synchronous", "full"), ("secure_delete", True)):
        connection.pragma(name, value)
    connection.execute("CREATE TABLE entries (key INTEGER PRIMARY KEY, kind INTEGER NOT NULL)")
    connection.execute("CREATE INDEX entries_of ON entries (kind)")
    connection.execute(layout.create)
    return connection


def _fill(connection: apsw.Connection, layout: Layout, vectors: np.ndarray) -> None:
    for start in range(0, len(vectors), BATCH):
        keys = range(start + 1, min(start + BATCH, len(vectors)) + 1)
        with connection:
            connection.executemany("INSERT INTO entries VALUES (?, ?)", ((key, key % 100) for key in keys))
            connection.executemany(layout.insert, ((key, vectors[key - 1].tobytes()) for key in keys))


def _load(connection: apsw.Connection, layout: Layout, rows: int, dimension: int) -> np.ndarray:
    matrix = np.empty((rows, dimension), dtype=np.float32)
    stored, place = iter(connection.execute(layout.load)), 0
    while block := list(islice(stored, LOADED_TOGETHER)):
        block = block[: rows - place]
        part = np.frombuffer(b"".join(vector for _, vector in block), dtype="<f4")
        matrix[place : place + len(block)] = part.reshape(len(block), dimension)
        place += len(block)
    return matrix


def _written(connection: apsw.Connection, sql: str, rows: Iterable[tuple[int, bytes]]) -> None:
    with connection:
        connection.executemany(sql, rows)


def _deleting(connection: apsw.Connection, layout: Layout, vectors: np.ndarray, path: Path) -> None:
    """Delete the first vectors, and look for their bytes in the file once the log is empty."""
    _checkpoint(connection)
    began = time.perf_counter()
    with connection:
        connection.executemany(layout.delete, ((key,) for key in range(1, len(vectors) + 1)))
    layout.figures["delete 100, ms"] = 1000 * (time.perf_counter() - began)
    _checkpoint(connection)
    held = path.read_bytes()
    layout.figures["of 100 deleted vectors, left"] = sum(vector[:16].tobytes() in held for vector in vectors)


def _churn(connection: apsw.Connection, layout: Layout, vectors: np.ndarray, rows: int) -> None:
    """Six turns: three parts of ten of the rows come, nine tenths of those go."""
    key = rows + 1000
    for _ in range(6):
        count = 3 * rows // 10
        keys = range(key, key + count)
        key += count
        for some in _parts(keys):
            _written(connection, layout.insert, ((item, vectors[item % rows].tobytes()) for item in some))
        for some in _parts([item for item in keys if item % 10]):
            with connection:
                connection.executemany(layout.delete, ((item,) for item in some))


def _parts(keys: Iterable[int]) -> Iterator[list[int]]:
    source = iter(keys)
    while part := list(islice(source, BATCH)):
        yield part


def _checkpoint(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _bytes(folder: str, both: list[Layout], layout: Layout) -> int:
    return (Path(folder) / f"{both.index(layout)}.db").stat().st_size


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def about(given: argparse.Namespace) -> dict[str, Any]:
    """Conditions that the figures depend on."""
    rows = " ".join(map(str, given.rows))
    options = f"--rows {rows} --dimension {given.dimension} --seed {given.seed}"
    return {
        "command": f"python -m benchmarks vectors-table {options}",
        "sqlite": apsw.sqlite_lib_version(),
        "sqlite-vec": getattr(sqlite_vec, "__version__", "?"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _table(measured: list[Layout], rows: int, given: argparse.Namespace) -> Table:
    facts = "; ".join(f"{name} {value}" for name, value in about(given).items())
    table = Table(title=f"{rows:,} vectors of {given.dimension} dimensions", caption=facts)
    table.add_column("what")
    for item in measured:
        table.add_column(item.name, justify="right")
    for what in measured[0].figures:
        table.add_row(what, *(f"{item.figures[what]:,.2f}".removesuffix(".00") for item in measured))
    return table
