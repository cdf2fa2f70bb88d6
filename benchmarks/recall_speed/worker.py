"""One measure in a process of its own: ``python -m benchmarks.recall_speed.worker MEASURE FILE DATA ROWS SEED``.

Prints one JSON object. Times are seconds, taken around the call itself; memory is MB that are this process's alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any, Literal

import numpy as np

from benchmarks.child import private_bytes, seconds_of
from benchmarks.memory.data.libraries import cranfield
from benchmarks.recall_speed.spared import SparingEmbedder
from benchmarks.recall_speed.texts import LANE, questions, turns
from tellback.memory import KnowledgeBase, Memory, local_embedder, open_memory
from tellback.memory.internals import Embeddings, local_available
from tellback.vectorstore import Entry, Metric, Space, open_store

_BATCH = 256
_WARM_UP, _ASKED = 20, 200
_SINGLE = 42
_FORGOTTEN = 11
_FIRST = 2
"""First calls that are not counted, since they open files and load tables."""
_ENDS = 1_000
"""Turns at the beginning and at the end whose pace is measured separately."""


async def remember(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the CPU seconds of remembering *rows* turns, and those of the encoder alone on the same texts."""
    items = list(turns(data, rows, seed))
    async with open_memory(file) as memory:
        if memory.embedder is None:
            return {"seconds": 0.0, "embedder": None}
        await memory.embedder.embed(["what is loaded once"])
        seconds, alone = await _timed(memory.remember_many(items), process_time), 0.0
        for number in range(0, rows, _BATCH):
            texts = [turn.text for turn in items[number : number + _BATCH]]
            alone += await _timed(memory.embedder.embed(texts), process_time)
    return {"seconds": seconds, "embedder": alone}


async def fill(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Remember all turns, with vectors that are spared (``spared``); return how long that takes."""
    items = list(turns(data, rows, seed))
    memory = open_memory(file, embedder=SparingEmbedder() if local_available() else None)
    if memory.embedder is not None:
        await memory.embedder.embed(["what is loaded once"])
    start = perf_counter()
    marks = [(0, start)]
    await memory.remember_many(items, on_progress=lambda done: marks.append((done, perf_counter())))
    seconds = perf_counter() - start
    await memory.close()
    size = sum(item.stat().st_size for item in Path(file).parent.glob(Path(file).name + "*"))
    first, last = _pace(marks, 0, _ENDS), _pace(marks, max(rows - _ENDS, 0), rows)
    return {"seconds": seconds, "first": first, "last": last, "mb": size / 1e6}


async def warm(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the seconds of opening, of the first recall, and of 200 more: of CPU time, without the encoder's own."""
    asked = questions(data, _WARM_UP + _ASKED + 1, seed)
    start = perf_counter()
    memory = open_memory(file)
    opened = perf_counter() - start
    encoder: Any = memory.embedder
    encoding, spent, encoded = 0.0, list[float](), list[float]()
    if hasattr(encoder, "embed_detailed"):
        embed = encoder.embed_detailed

        async def timed(texts: Sequence[str], kind: Literal["document", "query"] = "document") -> Embeddings:
            nonlocal encoding
            start = process_time()
            answer: Embeddings = await embed(texts, kind)
            encoding += process_time() - start
            return answer

        encoder.embed_detailed = timed
    async with memory:
        first = await _timed(memory.recall(asked[0]))
        for question in asked[1:]:
            encoding = 0.0
            spent.append(await _timed(memory.recall(question), process_time) - encoding)
            encoded.append(encoding)
    return {"opened": opened, "first": first, "times": spent[_WARM_UP:], "encoder": encoded[_WARM_UP:]}


async def passages(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the CPU seconds of recalls over the passages of Cranfield's 1,400 documents, the encoder's among them."""
    (texts,) = cranfield(data / "cranfield").corpora
    asked = [one.question.text for one in texts.questions][: _WARM_UP + _ASKED]
    async with open_memory(file) as memory:
        knowledge = KnowledgeBase(memory)
        for item in texts.items:
            await knowledge.ingest_text(item.text, source=f"{item.id}.md")
        times = [await _timed(memory.recall(text, partitions="documents"), process_time) for text in asked]
        count = sum(document.chunks for document in await knowledge.documents())
    return {"times": times[_WARM_UP:], "passages": count}


async def files(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the CPU seconds of reading *rows* Markdown files of three abstracts, and of reading them again."""
    with TemporaryDirectory() as folder:
        _write_files(Path(folder), data, rows)
        async with open_memory(file) as memory:
            first, again = [await _timed(KnowledgeBase(memory).ingest(folder), process_time) for _ in range(2)]
    return {"first": first, "unchanged": again}


async def forget(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the CPU seconds of forgetting turns, each by itself; the first clears what filling left, too."""
    memory = open_memory(file)
    ids = [entry.id for entry in memory.store.scan(namespace=LANE)]
    times = []
    for id in random.Random(seed).sample(ids, _FORGOTTEN):
        start = process_time()
        receipt = await memory.forget([id])
        times.append(process_time() - start)
        if receipt.pending:
            raise RuntimeError("what was forgotten is still in the file")
    await memory.close()
    return {"times": times}


async def cold(file: str, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the seconds of the first recall, by a process that finds in the file what another derived."""
    async with open_memory(file) as memory:
        return {"first": await _timed(memory.recall(questions(data, 1, seed)[0]))}


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
    embedder = local_embedder() if local_available() else None
    space = None if embedder is None else Space("speed", embedder.dimension, Metric.COSINE)
    store = open_store(f"sqlite:///{file}.bare", space=space)
    memory = open_memory(file)
    times: dict[str, list[float]] = {"remember": [], "upsert": [], "embed": []}
    for position, text in enumerate(texts):
        times["remember"].append(await _timed(memory.remember(Memory(text))))
        start = perf_counter()
        vector = None if embedder is None else (await embedder.embed([text]))[0]
        times["embed"].append(perf_counter() - start)
        times["upsert"].append(seconds_of(partial(store.upsert, [Entry(f"e{position}", vector, text)])))
    store.close()
    await memory.close()
    return {name: each[_FIRST:] for name, each in times.items()}


MEASURES: dict[str, Callable[[str, Path, int, int], Awaitable[dict[str, Any]]]] = {
    "remember": remember,
    "fill": fill,
    "warm": warm,
    "passages": passages,
    "files": files,
    "forget": forget,
    "cold": cold,
    "memory": memory_used,
    "single": single,
}


def _write_files(folder: Path, data: Path, count: int) -> None:
    """Write Markdown files of three abstracts, with yesterday's time, since a file of this second is read again."""
    (texts,) = cranfield(data / "cranfield").corpora
    yesterday = time() - 86_400
    for place in range(count):
        parts = (texts.items[(3 * place + number) % len(texts.items)].text for number in range(3))
        path = folder / f"{place:04}.md"
        path.write_text(f"# Note {place}\n\n" + "\n\n".join(parts), "utf-8")
        os.utime(path, (yesterday, yesterday))


def _pace(marks: list[tuple[int, float]], low: int, high: int) -> float:
    """Return turns a second between about *low* and *high* turns done."""
    counts = np.array([done for done, _ in marks])
    a, b = int(np.searchsorted(counts, low, "right")) - 1, int(np.searchsorted(counts, min(high, counts[-1])))
    return float((counts[b] - counts[a]) / max(marks[b][1] - marks[a][1], 1e-9))


async def _timed(work: Awaitable[object], clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    await work
    return clock() - start


def main(arguments: list[str]) -> int:
    """Measure and print."""
    measure, file, data, rows, seed = arguments
    print(json.dumps(asyncio.run(MEASURES[measure](file, Path(data), int(rows), int(seed)))))  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
