"""One namespace at growing sizes: the file, the server hot and cold, and the server's index."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.child import seconds_of
from benchmarks.scale import made_up
from tellback.vectorstore import Entry, Space, SqliteStore, VectorStore, open_store
from tellback.vectorstore.postgres import IndexKind, PostgresDatabase, build_search_index, drop_search_index

NAMESPACE = "large"
_BATCH = 20_000
_WARM = 10


def measure(size: int, address: str, folder: Path, *, questions: int, kinds: Sequence[IndexKind]) -> dict[str, Any]:
    """Return the figures of one size; the server's schema at *address* is new."""
    space = Space("made-up", made_up.DIMENSION)
    asked = list(zip(made_up.vectors(questions, 99), made_up.texts(questions, 98), strict=True))
    row: dict[str, Any] = {"size": size}
    file = SqliteStore(folder / f"{size}.db", space=space, matrix_limit=1 << 32)
    row["file_load_s"] = seconds_of(lambda: file.upsert(entries(size), namespace=NAMESPACE))
    file.close()
    file = SqliteStore(folder / f"{size}.db", matrix_limit=1 << 32)
    row |= once("file_cold", file, asked[0]) | hot("file", file, asked)
    file.close()
    (folder / f"{size}.db").unlink()
    with_server = open_store(address, space=space, matrix_limit=1 << 32)
    row["load_s"] = seconds_of(lambda: with_server.upsert(entries(size), namespace=NAMESPACE))
    database = with_server.database
    assert isinstance(database, PostgresDatabase)
    database.run_alone("VACUUM ANALYZE")
    row["tables_mb"] = table_bytes(database) / 1e6
    with_server.close()
    store = open_store(address, matrix_limit=1 << 32)
    row |= once("cold", store, asked[0]) | hot("hot", store, asked)
    exact = [found_ids(store, vector) for vector, _ in asked]
    store.close()
    store = open_store(address)
    assert isinstance(store.database, PostgresDatabase)
    for kind in kinds:
        begun = time.perf_counter()
        index = build_search_index(store.database, NAMESPACE, kind)
        row[f"{kind}_build_s"] = time.perf_counter() - begun
        row[f"{kind}_mb"] = index.bytes / 1e6
        row |= hot(kind, store, asked)
        found = [found_ids(store, vector) for vector, _ in asked]
        pairs = zip(found, exact, strict=True)
        row[f"{kind}_recall"] = statistics.mean(len(set(a) & set(b)) / len(b) for a, b in pairs)
    row["postings_mb"] = table_bytes(store.database, "postings") / 1e6
    drop_search_index(store.database, NAMESPACE)
    store.close()
    return row


def entries(size: int) -> Iterator[Entry]:
    """Yield the entries of a namespace."""
    for start in range(0, size, _BATCH):
        count = min(_BATCH, size - start)
        rows = zip(made_up.vectors(count, start), made_up.texts(count, start), strict=True)
        for place, (vector, text) in enumerate(rows):
            yield Entry(f"e{start + place}", vector, text)


def once(where: str, store: VectorStore, *asked: tuple[Any, str]) -> dict[str, float]:
    """Return the median milliseconds of a question by vector, and of one by words, named by *where*."""
    calls: dict[str, Callable[[tuple[Any, str]], object]] = {
        "vector": lambda one: store.search(one[0], namespace=NAMESPACE),
        "words": lambda one: store.search_text(one[1], namespace=NAMESPACE),
    }
    return {
        f"{where}_{name}_ms": 1e3 * statistics.median(seconds_of(partial(call, one)) for one in asked)
        for name, call in calls.items()
    }


def hot(where: str, store: VectorStore, asked: Sequence[tuple[Any, str]]) -> dict[str, float]:
    """Return the same after some that load."""
    once(where, store, *asked[:_WARM])
    return once(where, store, *asked)


def found_ids(store: VectorStore, vector: Any) -> list[str]:
    """Return the ids of the ten nearest."""
    return [match.entry.id for match in store.search(vector, namespace=NAMESPACE)]


def table_bytes(database: PostgresDatabase, *tables: str) -> int:
    """Return the bytes of *tables* with their indexes; of all without any."""
    with database.read() as connection:
        rows = connection.execute(
            "SELECT relname, pg_total_relation_size(oid)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return sum(size for name, size in rows if not tables or name in tables)
