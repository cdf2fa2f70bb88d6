"""Many namespaces under Zipf traffic: workers that each serve all of them, and one's load beside another's recall."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import made_up
from tellback.memory import FunctionEmbedder, Memory, open_memory
from tellback.memory.internals import CONVERSATION, ServerIndexes, store_namespace, to_entry
from tellback.vectorstore import Entry

_SKEW = 1.1
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def embedder() -> FunctionEmbedder:
    """Return the embedder of all measurements: it takes a hundredth of a millisecond."""
    return FunctionEmbedder(made_up.embed, fingerprint="made-up", dimension=made_up.DIMENSION, remote=False)


def sizes(tenants: int, memories: int) -> list[int]:
    """Return how many memories each tenant has: about *memories* in all, few with many and many with few."""
    weights = 1.0 / np.arange(1, tenants + 1) ** 0.6
    return np.maximum((weights / weights.sum() * memories).astype(int), 1).tolist()


def load(address: str, tenants: int, memories: int) -> dict[str, float]:
    """Write the memories of all tenants, a transaction each, with made-up vectors; return how long it took."""
    memory = open_memory(address, embedder=embedder())
    asyncio.run(memory.remember("The first one names the space.", namespace="space"))
    begun, written = time.perf_counter(), 0
    for tenant, size in enumerate(sizes(tenants, memories)):
        memory.store.upsert(entries(size, tenant), namespace=store_namespace(f"tenant{tenant}", CONVERSATION))
        written += size
    taken = time.perf_counter() - begun
    asyncio.run(memory.close())
    return {"tenants": tenants, "memories": written, "load_s": taken}


def entries(count: int, seed: int) -> list[Entry]:
    """Return *count* memories with made-up vectors, as they lie in a store."""
    rows = zip(made_up.texts(count, seed), made_up.vectors(count, seed), strict=True)
    return [
        to_entry(Memory(text, f"{seed}m{place}", recorded_at=_MOMENT), vector=vector)
        for place, (text, vector) in enumerate(rows)
    ]


def traffic(address: str, tenants: int, *, clients: int, seconds: float) -> dict[str, float]:
    """Let *clients* processes recall for *seconds*; return latencies, throughput, hit rate and memory of a worker."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(clients) as pool:
        work = [(address, tenants, seed, seconds) for seed in range(clients)]
        answers = pool.starmap(ask, work, chunksize=1)
    latencies = np.array([latency for answer in answers for latency in answer["latencies"]])
    hits = np.array([hit for answer in answers for hit in answer["hits"]])
    cold = latencies[~hits]
    return {
        "clients": clients,
        "recalls": len(latencies),
        "per_s": len(latencies) / seconds,
        "p50_ms": float(np.percentile(latencies, 50)),
        "p95_ms": float(np.percentile(latencies, 95)),
        "cold_p50_ms": float(np.percentile(cold, 50)) if len(cold) else float("nan"),
        "hit_rate": float(hits.mean()),
        "worker_mb": statistics.mean(answer["mb"] for answer in answers),
    }


def ask(address: str, tenants: int, seed: int, seconds: float) -> dict[str, Any]:
    """Recall for *seconds*, one question after the other, each of a tenant by Zipf's law."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, tenants + 1) ** _SKEW
    asked = random.choice(tenants, size=100_000, p=weights / weights.sum()).tolist()
    lines = made_up.texts(1000, 1_000 + seed)

    async def run() -> dict[str, Any]:
        known, latencies, hits = set[int](), list[float](), list[bool]()
        async with open_memory(address, embedder=embedder()) as memory:
            end = time.perf_counter() + seconds
            for number, tenant in enumerate(asked):
                if time.perf_counter() > end:
                    break
                recall = memory.recall(lines[number % len(lines)], namespace=f"tenant{tenant}")
                latencies.append(await milliseconds(recall))
                hits.append(tenant in known)
                known.add(tenant)
        return {"latencies": latencies, "hits": hits, "mb": resident_mb()}

    return asyncio.run(run())


def neighbour(address: str, *, seconds: float) -> dict[str, float]:
    """Return the median recall of a tenant alone, and while another process loads another tenant's memories."""
    quiet = ask(address, 1, 5, seconds)["latencies"]
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=load_without_end, args=(address,))
    process.start()
    try:
        time.sleep(2)
        loud = ask(address, 1, 5, seconds)["latencies"]
    finally:
        process.terminate()
        process.join()
    alone, beside = statistics.median(quiet[5:]), statistics.median(loud[5:])
    return {"alone_ms": alone, "beside_a_load_ms": beside, "slowed": beside / alone}


def load_without_end(address: str) -> None:
    """Write into a namespace of its own until the process is ended."""
    memory = open_memory(address, embedder=embedder())
    for batch in range(1_000_000):
        memory.store.upsert(entries(1_000, batch), namespace=store_namespace("neighbour", CONVERSATION))


def homes(address: str, folder: Path, *, memories: int, questions: int) -> dict[str, float]:
    """Return what a recall takes in a namespace of *memories*: in a file, on the server, and with an index there.

    *first* is the first one of an opened memory, *hot* the median of those after it.
    """
    figures: dict[str, float] = {"memories": memories}
    file = str(folder / "homes.db")
    lines, asked = made_up.texts(memories, 3), made_up.texts(questions, 4)
    for name, place in (("file", file), ("server", address), ("indexed", address)):
        if name == "indexed":
            ServerIndexes(address).build(smallest=1)
        else:
            asyncio.run(ask_all(place, asked, told=lines))  # derives what is kept for the next process
        times = asyncio.run(ask_all(place, asked))
        figures |= {f"{name}_first_ms": times[0], f"{name}_hot_ms": statistics.median(times[len(times) // 10 :])}
    return figures


async def ask_all(place: str, asked: Sequence[str], told: Sequence[str] = ()) -> list[float]:
    """Return the milliseconds of each recall, one after the other, of a memory that remembers what is *told* first."""
    async with open_memory(place, embedder=embedder()) as memory:
        await memory.remember_many(told)
        return [await milliseconds(memory.recall(line)) for line in asked]


async def milliseconds(work: Awaitable[object]) -> float:
    """Return how long *work* takes."""
    begun = time.perf_counter()
    await work
    return 1e3 * (time.perf_counter() - begun)


def resident_mb() -> float:
    """Return the memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
