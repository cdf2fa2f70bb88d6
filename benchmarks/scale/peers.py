"""Writes and searches of others on the same server: ``python peers.py NAME ADDRESS COUNT``, each in its environment.

*NAME* is ``pgvector`` (a table by hand, with the indexes that a memory needs), ``langgraph`` (PostgresStore) or
``mem0`` (with ``infer=False``). All embed by the function of ``made_up``. It prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import made_up  # type: ignore[import-not-found]

Write = Callable[[str], object]


def pgvector(address: str, stack: ExitStack) -> tuple[Write, Write]:
    import psycopg

    connection = stack.enter_context(psycopg.connect(address, autocommit=True))
    for statement in (
        "CREATE EXTENSION IF NOT EXISTS vector",
        "CREATE TABLE notes (id bigserial PRIMARY KEY, owner text, text text, embedding vector(256))",
        "CREATE INDEX ON notes USING hnsw (embedding vector_cosine_ops)",
        "CREATE INDEX ON notes USING gin (to_tsvector('english', text))",
        "CREATE INDEX ON notes (owner)",
    ):
        connection.execute(statement)

    def write(text: str) -> None:
        vector = str(made_up.embed([text])[0])
        connection.execute("INSERT INTO notes (owner, text, embedding) VALUES ('ana', %s, %s)", (text, vector))

    def search(text: str) -> None:
        vector = str(made_up.embed([text])[0])
        sql = "SELECT id, text FROM notes WHERE owner = 'ana' ORDER BY embedding <=> %s::vector LIMIT 10"
        connection.execute(sql, (vector,)).fetchall()

    return write, search


def langgraph(address: str, stack: ExitStack) -> tuple[Write, Write]:
    from langgraph.store.postgres import PostgresStore

    index: Any = {"dims": made_up.DIMENSION, "embed": made_up.embed, "fields": ["text"], "distance_type": "cosine"}
    store = stack.enter_context(PostgresStore.from_conn_string(address, index=index))
    store.setup()
    keys = iter(range(1 << 30))
    return (
        lambda text: store.put(("ana",), str(next(keys)), {"text": text}),
        lambda text: store.search(("ana",), query=text, limit=10),
    )


def mem0(address: str, stack: ExitStack) -> tuple[Write, Write]:
    import os

    os.environ.update(MEM0_TELEMETRY="False", OPENAI_API_KEY="none")
    from mem0 import Memory

    config = {"connection_string": address, "embedding_model_dims": made_up.DIMENSION, "hnsw": True}
    memory = Memory.from_config({"vector_store": {"provider": "pgvector", "config": config}})

    class Embedder:
        config = memory.embedding_model.config

        def embed(self, text: str, *_: object) -> list[float]:
            return list(made_up.embed([text])[0])

        def embed_batch(self, lines: list[str], *_: object) -> list[list[float]]:
            return [list(row) for row in made_up.embed(lines)]

    memory.embedding_model = Embedder()
    return (
        lambda text: memory.add([{"role": "user", "content": text}], user_id="ana", infer=False),
        lambda text: memory.search(text, filters={"user_id": "ana"}, top_k=10),
    )


def measure(name: str, address: str, count: int) -> dict[str, float]:
    """Return milliseconds of a write and of a search, medians, after *count* writes."""
    with ExitStack() as stack:
        write, search = globals()[name](address, stack)
        lines = made_up.texts(count + 100, 7)
        written = [timed(write, line) for line in lines[:count]]
        found = [timed(search, line) for line in lines[count:]]
    figures: dict[str, float] = made_up.medians(written, found)
    return figures


def timed(call: Write, line: str) -> float:
    """Return the milliseconds of a call."""
    begun = time.perf_counter()
    call(line)
    return (time.perf_counter() - begun) * 1e3


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
