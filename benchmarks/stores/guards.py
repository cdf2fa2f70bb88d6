"""Figures that must not grow: printed, not raced. Runs in a process of its own: ``python -m benchmarks.stores.guards``.

``namespaces``: one namespace of a thousand entries alone in its file, and the same among *count* others. ``tiny``: a
search that finds the file unchanged and has one row to look at, beside the n rows of a file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.child import seconds_of
from tellback.vectorstore import Entry, LifecycleStore, Space, open_store

_ROWS = 1_000
_DIMENSION = 384
_ROUNDS, _CALLS = 5, 24
_AT_ONCE = 1_000


def namespaces(folder: Path, many: int, seed: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return the seconds of search, text search and add of one namespace, alone and among *many* others."""
    rng = np.random.default_rng(seed)
    vectors = _unit(rng, _ROWS, _DIMENSION)
    stores = {}
    for name, others in (("alone", 0), ("among", many)):
        store = stores[name] = open_store(f"sqlite:///{folder / name}.db", space=Space("guard", _DIMENSION))
        own = (Entry(f"e{place}", vector, f"note {place}") for place, vector in enumerate(vectors))
        store.upsert(own, namespace="mine")
        for start in range(0, others, _AT_ONCE):
            with store.transaction():
                for position in range(start, min(start + _AT_ONCE, others)):
                    entry = Entry("only", vectors[position % _ROWS], f"note of {position}")
                    store.upsert([entry], namespace=f"other-{position}")
    fresh = count(_ROWS)
    calls: dict[str, Callable[[LifecycleStore, int], object]] = {
        "search": lambda store, place: store.search(vectors[place], 10, namespace="mine"),
        "text search": lambda store, place: store.search_text(f"note {place}", 10, namespace="mine"),
        "add one": lambda store, place: store.upsert([Entry(f"e{next(fresh)}", vectors[place])], namespace="mine"),
        "count": lambda store, place: store.count(namespace="mine"),
    }
    times: dict[str, dict[str, list[list[float]]]] = {name: {"alone": [], "among": []} for name in calls}
    turns = random.Random(seed)
    for measure, call in calls.items():
        for _ in range(_ROUNDS):
            for name in turns.sample(list(stores), 2):
                times[measure][name].append(_timed(partial(call, stores[name])))
    for store in stores.values():
        store.close()
    return times


def tiny(folder: Path, rows: int, seed: int) -> list[list[float]]:
    """Return the seconds of a search in a namespace of one entry, in the file of a race with *rows* rows."""
    store = open_store(f"sqlite:///{folder / 'rows.db'}")
    assert store.space is not None
    vector = _unit(np.random.default_rng(seed), 1, store.space.dimension)[0]
    if len(store.search(vector, 10)) != min(10, rows):  # the large namespace is in memory now, and must be kept fresh
        raise ValueError(f"{folder} does not hold {rows} rows")
    store.upsert([Entry("only", vector)], namespace="tiny")
    blocks = [_timed(lambda at: store.search(vector, 10, namespace="tiny")) for _ in range(_ROUNDS)]
    store.close()
    return blocks


def _unit(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    made = rng.standard_normal((rows, dimension), dtype=np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _timed(call: Callable[[int], object]) -> list[float]:
    return [seconds_of(partial(call, number)) for number in range(_CALLS)][2:]


def main(arguments: list[str]) -> int:
    """Run one guard. *arguments*: its name, a folder, the count, the seed."""
    guard, folder, many, seed = arguments
    asked = {"namespaces": namespaces, "tiny": tiny}[guard]
    print(json.dumps(asked(Path(folder), int(many), int(seed))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
