"""A fork with an open store: the child is refused, may open the file anew, and the parent goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from tellback.vectorstore import Entry, ForkedError, Space
from tests.test_faults.children import Child, Say
from tests.test_faults.planted import FORK_PLANTS, STORES

_SPACE = Space("toy", 2)


def fork_with_open_store(folder: str, turns: int, plant: str = "") -> dict[str, Any]:
    """Fork *turns* times from a process whose store is open, and has read and written."""
    FORK_PLANTS[plant]()
    path, broken = Path(folder) / "memory.db", []
    store = STORES["sound"](path, space=_SPACE)
    for turn in range(turns):
        store.upsert([Entry(f"parent{turn}", [1, turn], "zorb")])
        store.search_text("zorb")

        def work(say: Say, turn: int = turn) -> None:
            for name, call in _calls(store).items():
                try:
                    call()
                    say(f"{name} worked")
                except ForkedError:
                    continue
            with closing(STORES["sound"](path)) as anew:
                anew.upsert([Entry(f"child{turn}", [turn, 1], "quil")])

        ended = Child(work).wait()
        broken += [f"turn {turn}: {line}" for line in ended.said]
        if ended.code:
            broken.append(f"turn {turn}: the child ended with {ended.code}")
    found = len(store.search_text("zorb", 999)), len(store.search_text("quil", 999))
    if found != (turns, turns):
        broken.append(f"{found} rows of parent and child are found, not {turns} of each")
    store.close()
    with closing(STORES["sound"](path)) as again:
        broken += [str(finding) for finding in again.verify()]
        if again.count() != 2 * turns:
            broken.append(f"{again.count()} rows of {2 * turns} are there")
    return {"turns": turns, "broken": broken[:20]}


def _calls(store: Any) -> dict[str, Any]:
    return {
        "get": lambda: store.get(["parent0"]),
        "search": lambda: store.search([1, 0]),
        "search_text": lambda: store.search_text("zorb"),
        "upsert": lambda: store.upsert([Entry("lost")]),
        "delete": lambda: store.delete(["parent0"]),
        "verify": store.verify,
        "close": store.close,
    }
