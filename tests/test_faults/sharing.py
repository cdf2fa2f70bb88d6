"""Many threads on one store: each has a namespace of its own, all have one in common, and one may close the store."""

from __future__ import annotations

import random
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tellback.vectorstore import Entry, Space, StoreClosed, open_store
from tests.test_faults.planted import STORES

_SPACE = Space("toy", 4)
_IDS = [f"id{number}" for number in range(30)]


def threads(
    folder: str, seed: int, count: int, calls: int, store: str = "sound", close: bool = False
) -> dict[str, Any]:
    """Let *count* threads make *calls* calls each, compared with a dictionary; with *close* in the midst of it."""
    sys.setswitchinterval(1e-4)
    opened = open_store("numpy:", space=_SPACE) if store == "numpy" else STORES[store](_path(folder), space=_SPACE)
    workers = [_Worker(opened, seed, number, calls) for number in range(count)]
    for worker in workers:
        worker.start()
    if close:
        time.sleep(random.Random(seed).random() * 0.3)
        opened.close()
    for worker in workers:
        worker.join(250)
    broken = [item for worker in workers for item in worker.broken]
    broken += [f"thread {worker.number} does not end" for worker in workers if worker.is_alive()]
    if not close:
        broken += [] if store == "numpy" else [str(finding) for finding in opened.verify()]
        opened.close()
    elif any(worker.done == calls for worker in workers) and not any(worker.refused for worker in workers):
        broken.append("the store was closed after all was done: this showed nothing")
    if store != "numpy":
        with closing(STORES["sound"](_path(folder))) as again:
            broken += [item for worker in workers for item in worker.left(again)]
            broken += [str(finding) for finding in again.verify()]
    done = sum(worker.done for worker in workers)
    return {"seed": seed, "threads": count, "calls": done, "broken": broken[:20]}


def _path(folder: str) -> Path:
    return Path(folder) / "memory.db"


class _Worker(threading.Thread):
    def __init__(self, store: Any, seed: int, number: int, calls: int) -> None:
        super().__init__(daemon=True)
        self.store, self.number, self.calls = store, number, calls
        self.rng = random.Random(f"{seed}/{number}")
        self.held: dict[str, tuple[str, list[float]]] = {}
        self.unsure: set[str] = set()
        self.done, self.refused, self.broken = 0, False, []

    @property
    def namespace(self) -> str:
        return f"thread {self.number}"

    def run(self) -> None:
        try:
            for call in range(self.calls):
                self.one(call)
                self.done += 1
        except StoreClosed:
            self.refused = True
        except BaseException as error:
            self.broken.append(f"thread {self.number}, call {self.done}: {error!r}")

    def one(self, call: int) -> None:
        chosen, ids = self.rng.random(), self.rng.sample(_IDS, 4)
        if chosen < 0.35:
            given = {id: (f"{call} {id} zorb", [self.rng.gauss(0, 1) for _ in range(4)]) for id in ids}
            self.unsure = set(ids)
            self.store.upsert([Entry(id, v, text) for id, (text, v) in given.items()], namespace=self.namespace)
            self.held.update(given)
        elif chosen < 0.5:
            self.unsure = set(ids)
            gone = self.store.delete(ids, namespace=self.namespace)
            self.check("delete", gone, len(self.held.keys() & set(ids)))
            for id in ids:
                self.held.pop(id, None)
        elif chosen < 0.6:
            self.store.upsert([Entry(f"{self.number}-{id}", [1, 2, 3, call + 1]) for id in ids], namespace="shared")
        elif chosen < 0.7:
            vectors = [match.entry.vector for match in self.store.search([1, 1, 1, 1], 5, namespace="shared")]
            self.check("shared search", any(vector is None for vector in vectors), False)
        else:
            self.read(chosen)
        self.unsure = set()

    def read(self, chosen: float) -> None:
        if chosen < 0.8:
            found = self.store.get(_IDS, namespace=self.namespace)
            self.check("get", {hit.id: hit.text for hit in found if hit}, {id: t for id, (t, _) in self.held.items()})
        elif chosen < 0.9:
            query = np.array([self.rng.gauss(0, 1) for _ in range(4)])
            scores = {id: float(query @ v / np.linalg.norm(v)) for id, (_, v) in self.held.items()}
            best = sorted(scores, key=lambda id: -scores[id])[:3]
            found = self.store.search(query, 3, namespace=self.namespace)
            self.check("search", [match.entry.id for match in found], best)
        else:
            found = self.store.search_text("zorb", 99, namespace=self.namespace)
            self.check("search_text", {match.entry.id for match in found}, set(self.held))

    def check(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            self.broken.append(f"thread {self.number}, call {self.done}: {what} gave {found}, not {expected}")

    def left(self, store: Any) -> list[str]:
        """Return what is wrong in the file; a call that was refused may have been made or not."""
        values = {entry.id: entry.text for entry in store.scan(namespace=self.namespace)}
        expected = {id: text for id, (text, _) in self.held.items()}
        for id in self.unsure:
            values.pop(id, None)
            expected.pop(id, None)
        return [] if values == expected else [f"thread {self.number} left {values}, not {expected}"]
