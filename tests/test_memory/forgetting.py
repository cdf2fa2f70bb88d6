"""What the tests of forgetting share: an embedder, a clock, a loop for each call, and a memory by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory import LongTermMemory, Memory

T = TypeVar("T")


class Toy:
    """An embedder whose vectors differ from text to text."""

    fingerprint = "toy/1"
    dimension = 8

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        rows = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 8)


class Moving:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 6, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def run(awaitable: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(awaitable)


def remembered(memory: LongTermMemory, text: str, **fields: Any) -> str:
    return run(memory.remember(Memory(text, **fields))).id
