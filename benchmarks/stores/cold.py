"""A process that opens a store and asks it once: ``python -m benchmarks.stores.cold``, started and timed by the parent.

``vector`` and ``text`` answer one question and say so; ``memory`` answers many and says what the store added to the
private memory of its process, the modules that it imports left out.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_ASKED = 20


def main(arguments: list[str]) -> int:
    """Run one measure. *arguments*: its name, adapter, the store's folder, dimension, rows, the data's folder."""
    what, adapter, folder, dimension, rows, data = arguments
    module, _, name = adapter.partition(":")
    make = getattr(import_module(f"benchmarks.stores.adapters.{module}"), name)
    if what == "memory":
        print(json.dumps(_memory(make, folder, int(dimension), int(rows), data)), flush=True)
        return 0
    store = make(Path(folder), int(dimension), int(rows))
    answer = store.search_text(_questions(data)[0], 10) if what == "text" else store.search(_queries(data)[0], 10)
    print(json.dumps(len(store.plain(answer))), flush=True)
    return 0


def _memory(make: Any, folder: str, dimension: int, rows: int, data: str) -> float:
    from benchmarks.child import private_bytes

    for name in make.imports:
        import_module(name)
    queries, questions = _queries(data), _questions(data)
    before = private_bytes()
    store = make(Path(folder), dimension, rows)
    for query in queries[:_ASKED]:
        store.search(query, 10)
    with suppress(NotImplementedError):
        for question in questions[:_ASKED]:
            store.search_text(question, 10)
    after = private_bytes()
    if before is None or after is None:
        raise OSError("this system does not tell the memory of a process")
    return (after - before) / 1e6


def _queries(data: str) -> Any:
    import numpy as np

    return np.load(f"{data}/queries.npy", mmap_mode="r")


def _questions(data: str) -> list[str]:
    questions: list[str] = json.loads(Path(data, "questions.json").read_text("utf-8"))
    return questions


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
