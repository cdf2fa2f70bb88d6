"""The process that holds one store and is asked by the parent, a JSON line in and a JSON line out.

Every time is taken here, around the store's own call, so that the pipe is in none of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.child import seconds_of
from benchmarks.stores.adapter import Adapter, Found
from benchmarks.stores.data import KINDS, Data, id_of

BATCH = 64
"""Queries of one ``search_many``."""


class Worker:
    """Commands of the worker. Each takes keyword arguments and returns a value of JSON."""

    def __init__(self, adapter: str, folder: Path, data: Path) -> None:
        module, _, name = adapter.partition(":")
        self._data = Data(data)
        self._make: type[Adapter] = getattr(import_module(f"benchmarks.stores.adapters.{module}"), name)
        self._folder = folder
        self._store = self._open(folder)

    def fill(self, text: bool, into: str | None = None) -> dict[str, Any]:
        """Write all rows, into a store of its own in the folder *into* if that is given; return the seconds."""
        store = self._store if into is None else self._open(Path(into))
        seconds = 0.0
        for rows in self._data.batches(self._make.batch, text=text):
            seconds += seconds_of(partial(store.add, rows))
        seconds += seconds_of(store.finish)
        if into is not None:
            store.close()
        return {"seconds": seconds}

    def answers(self, count: int, k: int, kind: str | None = None) -> dict[str, Any]:
        """Return the ids of the first *count* queries, a mark of ids and scores, and whether the rows are right."""
        found = [self._store.plain(self._asked("search", number, k, kind)) for number in range(count)]
        mark = sha256(repr([[(item.id, item.score) for item in row] for row in found]).encode()).hexdigest()
        return {"ids": _ids(found), "mark": mark, "rows": self._rows_are_right(found)}

    def many_answers(self, k: int) -> dict[str, Any]:
        """Return the ids of one ``search_many``."""
        return {"ids": _ids(map(self._store.plain, self._asked("many", 0, k)))}

    def timed(
        self, what: str, start: int, calls: int, seconds: float, k: int, kind: str | None = None
    ) -> dict[str, Any]:
        """Time *calls* searches by *what*, or so many as *seconds* have room for, three (of many, two) all the same."""
        times: list[float] = []
        end, least = perf_counter() + seconds, 2 if what == "many" else 3
        for number in range(start, start + calls):
            before = perf_counter()
            answer = self._asked(what, number, k, kind)
            times.append(perf_counter() - before)
            if len(times) >= least and perf_counter() > end:
                break
        found = 0 if what == "many" else len(self._store.plain(answer))
        return {"times": times, "found": found}

    def _asked(self, what: str, at: int, k: int, kind: str | None = None) -> Any:
        """Return the store's answer to question *at*: a ``search``, ``many`` at once, or words of a ``text``."""
        queries, questions = self._data.queries, self._data.questions
        if what == "text":
            return self._store.search_text(questions[at % len(questions)], k)
        if what == "many":
            first = at * BATCH % max(1, len(queries) - BATCH)
            return self._store.search_many(queries[first : first + BATCH], k)
        return self._store.search(queries[at % len(queries)], k, kind)

    def add(self, extra: list[int]) -> dict[str, Any]:
        """Time the writing of single rows."""
        rows = [self._data.row(self._data.about.n + position) for position in extra]
        return {"times": [seconds_of(partial(self._store.add, [row])) for row in rows]}

    def add_and_see(self, extra: list[int]) -> dict[str, Any]:
        """Time a write with a search that has to find it first, one row after the other."""
        times = []
        for position in extra:
            row = self._data.row(self._data.about.n + position)
            start = perf_counter()
            self._store.add([row])
            answer = self._store.search(row.vector, 10)
            times.append(perf_counter() - start)
            if self._store.plain(answer)[0].id != row.id:
                raise ValueError("the search did not find the row that was just written")
        return {"times": times}

    def see(self, extra: int) -> dict[str, Any]:
        """Time the search for a row that another process wrote."""
        vector = np.array(self._data.vectors[self._data.about.n + extra])
        start = perf_counter()
        answer = self._store.search(vector, 10)
        seconds = perf_counter() - start
        found = self._store.plain(answer)
        return {"times": [seconds], "seen": bool(found) and found[0].id == id_of(self._data.about.n + extra)}

    def delete(self, extra: list[int]) -> dict[str, Any]:
        """Time the deletion of extra rows, one by one."""
        ids = [id_of(self._data.about.n + position) for position in extra]
        return {"times": [seconds_of(partial(self._store.delete, [id])) for id in ids]}

    def add_together(self, extra: list[int]) -> dict[str, Any]:
        """Write extra rows, unmeasured."""
        self._store.add([self._data.row(self._data.about.n + position) for position in extra])
        return {}

    def close(self) -> dict[str, Any]:
        """Release the store."""
        self._store.close()
        return {}

    def _open(self, folder: Path) -> Adapter:
        folder.mkdir(parents=True, exist_ok=True)
        return self._make(folder, self._data.about.d, self._data.about.n)

    def _rows_are_right(self, found: list[list[Any]]) -> bool:
        for item in (item for row in found for item in row if item.text is not None):
            position = int(item.id.removeprefix("row-"))
            if item.text != self._data.texts[position] or item.metadata["kind"] != KINDS[self._data.kinds[position]]:
                return False
        return True


def _ids(found: Iterable[list[Found]]) -> list[list[str]]:
    return [[item.id for item in row] for row in found]


def main(arguments: list[str]) -> int:
    """Serve until the parent closes the pipe. *arguments*: the adapter, the store's folder, the data's folder."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a store prints must not stand among the answers
    worker = Worker(arguments[0], Path(arguments[1]), Path(arguments[2]))
    say: dict[str, Any] = {"ready": True}
    while True:
        answers.write(json.dumps(say) + "\n")
        answers.flush()
        if not (line := sys.stdin.readline()):
            return 0
        asked = json.loads(line)
        try:
            say = getattr(worker, asked.pop("do"))(**asked)
        except Exception as error:  # a store that fails is named in the report, it does not end the run
            say = {"error": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
