"""Worker processes, one a store, asked in turns, so that all run under the same load of the machine."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.child import PROJECT, Child, ChildEnded, environment
from benchmarks.stores.contenders import Contender

_PATIENCE = 900.0
"""Timeout of a store that has not answered, in seconds."""
_DROPPED = 2
"""First calls of a block that are not counted: thread pools of the store before still spin, caches are cold."""


class StoreFailed(Exception):
    """A store could not do what was asked; the message is its own."""


class Asked:
    """A running worker with its store."""

    def __init__(self, contender: Contender, folder: Path, data: Path, *, patience: float = _PATIENCE) -> None:
        command = [sys.executable, "-m", "benchmarks.stores.worker", contender.adapter, str(folder), str(data)]
        self.contender = contender
        self._child = Child(command, environment=environment(), folder=PROJECT, patience=patience)
        try:
            self._answer()
        except StoreFailed:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the worker's answer; raise ``StoreFailed`` if the store raised or its process died."""
        self._child.say({"do": do, **arguments})
        return self._answer()

    def times(self, do: str, **arguments: Any) -> list[float]:
        """Return the seconds that the worker measured."""
        return list(self.ask(do, **arguments)["times"])

    def close(self) -> None:
        """Close the pipe and wait until the process has ended."""
        self._child.stop()

    def _answer(self) -> dict[str, Any]:
        try:
            answer = self._child.answer()
        except ChildEnded as error:
            raise StoreFailed(str(error)) from error
        if complaint := answer.get("error"):
            raise StoreFailed(complaint)
        return answer


Call = Callable[[Asked, int], list[float]]


def in_turns(
    stores: Iterable[Asked],
    rounds: int,
    call: Call,
    rng: random.Random,
    *,
    failed: Callable[[Contender, str], None],
) -> Mapping[str, list[list[float]]]:
    """Ask every store once a round, in a new order each round; return the counted seconds by store and round."""
    left = {store.contender.key: store for store in stores}
    counted: dict[str, list[list[float]]] = {key: [] for key in left}
    for number in range(rounds):
        for key in rng.sample(list(left), len(left)):
            try:
                times = call(left[key], number)
            except StoreFailed as error:
                failed(left.pop(key).contender, str(error))
                continue
            counted[key].append(times[min(_DROPPED, len(times) // 2) :])
    return {key: blocks for key, blocks in counted.items() if key in left}
