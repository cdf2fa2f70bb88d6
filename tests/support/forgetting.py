"""Shared by the tests of forgetting: memories on either store, clocks, an embedder, an eraser that records.

Inner parts, on no face: ``tellback.memory.tables.erasers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.memory import (
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    run_sync,
)
from tellback.memory.internals import DOCUMENTS, IngestAction, store_namespace
from tellback.memory.tables.erasers import ErasedItems
from tellback.vectorstore import open_store

T = TypeVar("T")
RUNNER = asyncio.Runner()
"""One event loop for all calls: a new one for each call would start its threads anew."""
SECRET = "the locker code is 44173921-zebra"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
BOOKS = store_namespace("", DOCUMENTS, "books")
STORES = ("sqlite", "numpy")


class SettableClock:
    """A clock that stands still at ``NOW`` until it is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class TickingClock(SettableClock):
    """A clock that moves a second with each reading."""

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class ToyEmbedder:
    """An embedder whose vectors differ from text to text."""

    fingerprint = "toy/1"
    dimension = 8

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        return np.array([vector_of(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)


class RecordingEraser:
    """An eraser that records what it was called with."""

    name = "recording"

    def __init__(self) -> None:
        self.calls: list[ErasedItems] = []

    def erase(self, gone: ErasedItems) -> int:
        self.calls.append(gone)
        return 1


def vector_of(text: str) -> NDArray[np.float32]:
    row = np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)
    vector: NDArray[np.float32] = row / np.linalg.norm(row)
    return vector


@contextmanager
def memory_on(store: str, folder: Path, **options: Any) -> Iterator[LongTermMemory]:
    """Yield a memory on a *store* ("numpy", or "sqlite": the file m.db of *folder*)."""
    opened = open_store("numpy:" if store == "numpy" else f"sqlite:///{folder / 'm.db'}")
    yield LongTermMemory(opened, **options)
    opened.close()


def run(awaitable: Coroutine[Any, Any, T]) -> T:
    return RUNNER.run(awaitable)


def remembered(memory: LongTermMemory, text: str, **fields: Any) -> str:
    """Remember *text*; return its id."""
    return run(memory.remember(Memory(text, **fields))).id


def texts(memory: LongTermMemory, **options: Any) -> list[str]:
    """Return the texts of all memories, sorted."""
    return sorted(listed.text for listed in run(memory.list(**options)))


def message_texts(memory: LongTermMemory, session: str = "s", namespace: str = "") -> list[str]:
    """Return the texts of the messages of a session."""
    return [row.message.text for row in run(memory.conversations.load(session, namespace=namespace))]


def sequences(memory: LongTermMemory, session: str = "s") -> list[int]:
    """Return the sequence numbers of the messages of a session."""
    return [row.sequence for row in run(memory.conversations.load(session))]


def write_notes(folder: Path) -> Path:
    """Write two documents into a folder of *folder*; return it."""
    notes = folder / "notes"
    notes.mkdir()
    tower = "# The tower\n\nThe tower has 291 steps.\n\n# The bridge\n\nThe bridge is a mile long.\n"
    (notes / "tower.md").write_text(tower)
    (notes / "garden.md").write_text("The garden has roses.\n")
    return notes


def sources(memory: LongTermMemory, collection: str = "default", namespace: str = "") -> list[str]:
    """Return the sources of the documents of a collection."""
    library = KnowledgeBase(memory, collection=collection, namespace=namespace)
    return [document.source for document in run(library.documents())]


def ingested(memory: LongTermMemory, folder: Path, **options: Any) -> dict[str, IngestAction]:
    """Ingest *folder*; return the action for each source."""
    report = run(KnowledgeBase(memory).ingest(folder, **options))
    return {line.source: line.action for line in report.lines}


def note_call(id: str, note: str) -> ToolCallBlock:
    return ToolCallBlock(id=id, name="save", arguments={"note": note})


def note_result(id: str, text: str = "saved") -> ToolResultBlock:
    return ToolResultBlock(call_id=id, content=(TextBlock(text=text),))


NOTING_TURN = [
    Message.user("Please note my code."),
    Message.assistant([note_call("1", "44173921")]),
    Message.tool([note_result("1")]),
    Message.assistant("Done."),
]
"""Turn in which the model calls a tool with a secret; the result does not repeat it."""


def tool_memories(memory: LongTermMemory) -> list[Memory]:
    return [listed for listed in run_sync(memory.list()) if listed.role == "tool"]
