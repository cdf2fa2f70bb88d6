"""The loop of a peer's process. It runs in the peer's environment: nothing of this project is there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Unavailable(Exception):
    """The peer cannot be used here as its manual says; the message says why."""


class Served(Protocol):
    """The functions of a peer's script."""

    def fill(self, lines: Sequence[tuple[str, str]]) -> None:
        """Take (id, text) pairs."""

    def ask(self, question: str, k: int) -> list[tuple[str, float]]:
        """Return the ids of the k best with their scores."""


def serve(make: Callable[[str], Served]) -> None:
    """Answer the parent until it closes the pipe; *make* gets the folder to work in."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a peer prints must not stand among the answers
    values: dict[str, Any] = {"ready": True}
    try:
        peer = make(sys.argv[1])
    except Exception as error:
        answers.write(json.dumps({"unavailable": f"{error}"[:400].partition("\n")[0]}) + "\n")
        answers.flush()
        return
    while True:
        answers.write(json.dumps(values) + "\n")
        answers.flush()
        if not (line := sys.stdin.readline()):
            return
        asked = json.loads(line)
        try:
            if "fill" in asked:
                peer.fill([(id, text) for id, text in asked["fill"]])
                values = {}
            else:
                values = {"hits": peer.ask(asked["ask"], asked["k"])}
        except Exception as error:  # it is named in the report, it does not end the run
            values = {"error": f"{type(error).__name__}: {error}"[:300]}
