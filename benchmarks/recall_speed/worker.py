"""One measure in a process of its own: ``python -m benchmarks.recall_speed.worker MEASURE FILE DATA ROWS SEED``.

Prints one JSON object. Times are seconds, taken around the call itself; memory is MB that are this process's alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.recall_speed.texts import LANE, questions, turns
from benchmarks.stores.cold import private_bytes
from tellback.memory import LocalEmbedder, Memory, open_memory
from tellback.memory.internals import local_available
from tellback.vectorstore import Entry, Metric, Space, open_store

_BATCH = 256
_WARM_UP, _ASKED = 20, 200
_SINGLE = 42
_FIRST = 2
"""First calls that are not counted, since they open files and load tables."""
_ENDS = 1_000
"""Turns at the beginning and at the end whose pace is measured separately."""


async def fill(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Remember all turns; return how long that takes and how long the embedder alone takes for the same texts."""
    items = list(turns(data, rows, seed))
    memory = open_memory(file)
    if memory.embedder is not None:
        await memory.embedder.embed(["what is loaded once"])
    start = perf_counter()
    marks = [(0, start)]
    await memory.remember_many(items, on_progress=lambda done: marks.append((done, perf_counter())))
    seconds = perf_counter() - start
    await memory.close()
    alone = await _embedding_alone([turn.text for turn in items])
    size = sum(item.stat().st_size for item in Path(file).parent.glob(Path(file).name + "*"))
    first, last = _pace(marks, 0, _ENDS), _pace(marks, max(rows - _ENDS, 0), rows)
    return {"seconds": seconds, "embedder": alone, "first": first, "last": last, "mb": size / 1e6}


async def warm(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the seconds of opening, of the first recall, and of 200 more."""
    asked = questions(data, _WARM_UP + _ASKED + 1, seed)
    start = perf_counter()
    memory = open_memory(file)
    opened = perf_counter() - start
    first = await _timed(lambda: memory.recall(asked[0]))
    for question in asked[1 : _WARM_UP + 1]:
        await memory.recall(question)
    times = [await _timed(lambda question=question: memory.recall(question)) for question in asked[_WARM_UP + 1 :]]  # type: ignore[misc]
    await memory.close()
    return {"opened": opened, "first": first, "times": times}


async def cold(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the seconds of the first recall, by a process that finds in the file what another derived."""
    memory = open_memory(file)
    first = await _timed(lambda: memory.recall(questions(data, 1, seed)[0]))
    await memory.close()
    return {"first": first}


async def memory_used(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the memory of the store's core after a search, and what the index of recall adds to it."""
    asked = questions(data, _WARM_UP, seed)
    memory = open_memory(file)
    vector = None
    if memory.embedder is not None:
        vector = (await memory.embedder.embed([asked[0]], "query"))[0]
    before = private_bytes()
    for question in asked:
        memory.store.search_text(question, 10, namespace=LANE)
        if vector is not None:
            memory.store.search(vector, 10, namespace=LANE)
    core = private_bytes()
    for question in asked:
        await memory.recall(question)
    index = private_bytes()
    await memory.close()
    if before is None or core is None or index is None:
        return {"core": None, "index": None}
    return {"core": (core - before) / 1e6, "index": (index - core) / 1e6}


async def single(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Time one ``remember`` on a copy of the file, one durable upsert and one embedding, in turns."""
    texts = [
        f"{turn.text} Said once more, number {position}." for position, turn in enumerate(turns(data, _SINGLE, seed))
    ]
    embedder = LocalEmbedder() if local_available() else None
    space = None if embedder is None else Space("speed", embedder.dimension, Metric.COSINE)
    store = open_store(f"sqlite:///{file}.bare", space=space)
    memory = open_memory(file)
    times: dict[str, list[float]] = {"remember": [], "upsert": [], "embed": []}
    for position, text in enumerate(texts):
        times["remember"].append(await _timed(lambda text=text: memory.remember(Memory(text))))  # type: ignore[misc]
        start = perf_counter()
        vector = None if embedder is None else (await embedder.embed([text]))[0]
        times["embed"].append(perf_counter() - start)
        start = perf_counter()
        store.upsert([Entry(f"e{position}", vector, text)])
        times["upsert"].append(perf_counter() - start)
    store.close()
    await memory.close()
    return {name: each[_FIRST:] for name, each in times.items()}


MEASURES: dict[str, Callable[[str, Path, int, int], Awaitable[dict[str, Any]]]] = {
    "fill": fill,
    "warm": warm,
    "cold": cold,
    "memory": memory_used,
    "single": single,
}


async def _embedding_alone(texts: list[str]) -> float | None:
    if not local_available():
        return None
    embedder = LocalEmbedder()
    await embedder.embed(["warm"])
    start = perf_counter()
    for number in range(0, len(texts), _BATCH):
        await embedder.embed(texts[number : number + _BATCH])
    return perf_counter() - start


def _pace(marks: list[tuple[int, float]], low: int, high: int) -> float:
    """Return turns a second between about *low* and *high* turns done."""
    counts = np.array([done for done, _ in marks])
    a, b = int(np.searchsorted(counts, low, "right")) - 1, int(np.searchsorted(counts, min(high, counts[-1])))
    return float((counts[b] - counts[a]) / max(marks[b][1] - marks[a][1], 1e-9))


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    start = perf_counter()
    await call()
    return perf_counter() - start


def main(arguments: list[str]) -> int:
    """Measure and print."""
    measure, file, data, rows, seed = arguments
    print(json.dumps(asyncio.run(MEASURES[measure](file, Path(data), int(rows), int(seed)))))  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
