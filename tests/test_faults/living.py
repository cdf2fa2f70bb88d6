"""Seeded run of memory calls: step *n* is the same on a real memory in a file and on a plain model.

Each step is one promise: when it was acknowledged it is there, when it was under way it is there whole or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tellback.memory import HashingEmbedder, LongTermMemory, Memory, MemoryLayerError, Message, run_sync
from tellback.vectorstore import Space, open_store
from tests.test_faults.logged import wrongly_logged

STEPS = (
    "turn",
    "remember",
    "many",
    "correct",
    "pin",
    "turn",
    "undo",
    "reembed",
    "forget",
    "flush",
    "correct",
    "forget",
)
DIMENSIONS = (16, 24)
_WORDS = ("zebra", "quagga", "okapi", "tapir", "lemur", "gibbon")


class Life(Protocol):
    """The memory that a step is made on."""

    def live(self) -> list[str]: ...
    def remember(self, texts: Sequence[str]) -> None: ...
    def turn(self, said: str, answered: str) -> None: ...
    def correct(self, text: str, new: str) -> None: ...
    def pin(self, text: str) -> None: ...
    def undo(self) -> None: ...
    def forget(self, text: str) -> None: ...
    def reembed(self) -> None: ...
    def flush(self) -> None: ...
    def state(self) -> Any: ...


def step(number: int, life: Life, seed: object) -> None:
    """Make step *number* of *seed* on *life*."""
    rng, kind = random.Random(f"{seed}/{number}"), STEPS[number % len(STEPS)]
    texts = [f"note {number:05}-{place} about the {rng.choice(_WORDS)}." for place in range(5)]
    live = life.live()
    chosen = rng.choice(live) if live else ""
    if kind == "turn":
        life.turn(texts[0], texts[1])
    elif kind == "remember":
        life.remember(texts[:1])
    elif kind == "many":
        life.remember(texts)
    elif kind in ("undo", "reembed", "flush"):
        getattr(life, kind)()
    elif chosen and kind == "correct":
        life.correct(chosen, texts[0])
    elif chosen:
        getattr(life, kind)(chosen)


class Kept:
    """A life in a file."""

    def __init__(self, path: Path) -> None:
        store = open_store(f"sqlite:///{path}")
        dimension = DIMENSIONS[0] if store.space is None else store.space.dimension
        store.close()
        self._embedder = HashingEmbedder(dimension=dimension)
        store = open_store(f"sqlite:///{path}", space=Space(self._embedder.fingerprint, self._embedder.dimension))
        self.memory = LongTermMemory(store, embedder=self._embedder)
        self.memory.complete_now()

    def live(self) -> list[str]:
        return sorted(memory.text for memory in self._memories())

    def remember(self, texts: Sequence[str]) -> None:
        run_sync(self.memory.remember_many(texts))

    def turn(self, said: str, answered: str) -> None:
        run_sync(self.memory.remember_turn("s", [Message.user(said), Message.assistant(answered)]))

    def correct(self, text: str, new: str) -> None:
        run_sync(self.memory.correct(self._id(text), new))

    def pin(self, text: str) -> None:
        run_sync(self.memory.pin([self._id(text)]))

    def undo(self) -> None:
        operations = run_sync(self.memory.operations(limit=1))
        if operations and operations[0].kind in ("remember", "correct", "pin"):
            run_sync(self.memory.undo(operations[0].id))

    def forget(self, text: str) -> None:
        run_sync(self.memory.forget([self._id(text)]))

    def reembed(self) -> None:
        dimension = DIMENSIONS[DIMENSIONS[0] == self._embedder.dimension]
        self._embedder = HashingEmbedder(dimension=dimension)
        run_sync(self.memory.reembed(self._embedder))

    def flush(self) -> None:
        run_sync(self.memory.flush())

    def state(self) -> Any:
        held = {}
        for memory in self._memories():
            versions = run_sync(self.memory.history(memory.id))
            held[memory.text] = (memory.pinned, tuple(version.text for version in versions))
        items = [message.message.text for message in run_sync(self.memory.conversations.load("s"))]
        return held, items, self.memory.store.space.dimension

    def wrong(self) -> list[str]:
        """Return internal faults: damage, a vector of another text, an operation log at odds with the memories."""
        found = [f"verify: {finding}" for finding in self.memory.store.verify()]
        run_sync(self.memory.flush())
        if left := run_sync(self.memory.pending()):
            found.append(f"{left} without a vector after a flush")
        found += wrongly_logged(self.memory)
        for name in self.memory.store.namespaces():
            for entry in self.memory.store.scan(namespace=name):
                (vector,) = run_sync(self._embedder.embed([entry.text]))
                if entry.vector is None or abs(entry.vector - vector).max() > 1e-5:
                    found.append(f"{entry.id}: its vector is not its text's")
        return found

    def close(self) -> None:
        run_sync(self.memory.close())

    def _memories(self) -> list[Memory]:
        return list(run_sync(self.memory.list(limit=100_000)))

    def _id(self, text: str) -> str:
        return next(memory.id for memory in self._memories() if memory.text == text)


class PieceByPiece(Kept):
    """Planted: many memories, and a correction, in several steps."""

    def remember(self, texts: Sequence[str]) -> None:
        for text in texts:
            run_sync(self.memory.remember(text))


class OutOfHand(Kept):
    """Planted: what was said is remembered first and goes into the history later."""

    def turn(self, said: str, answered: str) -> None:
        self.remember([said, answered])
        with suppress(MemoryLayerError):
            run_sync(self.memory.conversations.append("s", [Message.user(said), Message.assistant(answered)]))


LIVES = {"sound": Kept, "piece by piece": PieceByPiece, "out of hand": OutOfHand}


class Plain:
    """The same in dictionaries."""

    def __init__(self) -> None:
        self._held: dict[str, list[Any]] = {}
        """By present text: whether it is pinned, and the texts of its versions, newest first."""
        self.gone: set[str] = set()
        """What was forgotten: no byte of it may be in the file."""
        self._said: list[str] = []
        self._last: tuple[Any, ...] | None = None
        self._dimension = DIMENSIONS[0]

    def live(self) -> list[str]:
        return sorted(self._held)

    def remember(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._held[text] = [False, [text]]
        self._last = ("remember", list(texts))

    def turn(self, said: str, answered: str) -> None:
        self.remember([said, answered])
        self._said += [said, answered]

    def correct(self, text: str, new: str) -> None:
        pinned, versions = self._held.pop(text)
        self._held[new] = [pinned, [new, *versions]]
        self._last = ("correct", text, new)

    def pin(self, text: str) -> None:
        if not self._held[text][0]:
            self._held[text][0] = True
            self._last = ("pin", text)

    def undo(self) -> None:
        if self._last is None:
            return
        kind, *rest = self._last
        if kind == "remember":
            for text in rest[0]:
                del self._held[text]
        elif kind == "correct":
            pinned, versions = self._held.pop(rest[1])
            self._held[rest[0]] = [pinned, [rest[0], *versions]]
        else:
            self._held[rest[0]][0] = False
        self._last = None

    def forget(self, text: str) -> None:
        _, versions = self._held.pop(text)
        self.gone.update(versions)
        self._said = [item for item in self._said if item not in versions]
        self._last = None

    def reembed(self) -> None:
        self._dimension = DIMENSIONS[DIMENSIONS[0] == self._dimension]

    def flush(self) -> None:
        pass

    def state(self) -> Any:
        held = {text: (pinned, tuple(versions)) for text, (pinned, versions) in self._held.items()}
        return held, self._said, self._dimension
