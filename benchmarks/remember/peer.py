"""Another store filled with the same turns: ``python -m benchmarks.remember.peer KEY FOLDER DATA ROWS SEED``.

Each turn is embedded by the local embedder and added with its text; durable where the store can be. Prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.recall_speed.texts import turns
from benchmarks.stores.adapter import Row
from benchmarks.stores.contenders import BY_KEY
from tellback.memory import LocalEmbedder, Memory

_SINGLE, _FIRST = 42, 2


async def filled(key: str, folder: Path, data: Path, rows: int, seed: int) -> dict[str, Any]:
    """Fill it in bulk, then one by one; return the seconds of the bulk and of each single, embedding included."""
    module, name = BY_KEY[key].adapter.split(":")
    embedder = LocalEmbedder()
    await embedder.embed(["what is loaded once"])
    items = list(turns(data, rows + _SINGLE, seed))
    store = getattr(import_module(f"benchmarks.stores.adapters.{module}"), name)(folder, embedder.dimension, rows)

    async def add(some: list[tuple[int, Memory]]) -> None:
        vectors = await embedder.embed([turn.text for _, turn in some])
        store.add(
            [
                Row(
                    f"t{position}",
                    vector,
                    turn.text,
                    {"kind": turn.speaker or "", "session": turn.session or "", "ts": position},
                )
                for (position, turn), vector in zip(some, vectors, strict=True)
            ]
        )

    numbered = iter(enumerate(items))
    bulk = islice(numbered, rows)
    start = perf_counter()
    while some := list(islice(bulk, store.batch)):
        await add(some)
    store.finish()
    seconds = perf_counter() - start
    single = []
    for item in numbered:
        start = perf_counter()
        await add([item])
        single.append(perf_counter() - start)
    store.close()
    return {"seconds": seconds, "single": single[_FIRST:]}


def main(arguments: list[str]) -> int:
    """Measure and print."""
    key, folder, data, rows, seed = arguments
    print(json.dumps(asyncio.run(filled(key, Path(folder), Path(data), int(rows), int(seed)))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
