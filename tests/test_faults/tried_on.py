"""A small memory that has something of everything: what each way of writing is tried on.

Clock and ids are given, so that a call that is made again from the same file writes the same bytes.

Inner parts, on no face: ``tellback.memory.documents.manifest``, ``tellback.memory.codec``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tellback.memory import (
    DatabaseHistory,
    EmbeddingSettings,
    Extractor,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    MemoryTurn,
    Message,
    NoSecrets,
    Retention,
    run_sync,
)
from tellback.memory.codec import DECLARED_FIELDS
from tellback.memory.documents.manifest import attach_documents
from tellback.vectorstore import open_store
from tellback.vectorstore.sqlite import SqliteDatabase

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=30)
DAY = timedelta(days=1)
FILE = "memory.db"
HISTORY = "history.db"
"""Where it is there, it holds the conversations; else they are in the memory's file."""


class Names:
    """Ids one after another; ``again`` begins anew."""

    def __init__(self, kind: str) -> None:
        self._kind, self._count = kind, 0

    def __call__(self) -> str:
        self._count += 1
        return f"{self._kind}{self._count:04}"

    def again(self) -> None:
        self._count = 0


def facts(turn: MemoryTurn) -> list[str]:
    """A clause behind a semicolon is a fact."""
    return [each.text.split("; ")[1] for each in turn.memories if "; " in each.text]


@dataclass(frozen=True)
class Kept:
    """A memory in a file, and what gives it its ids."""

    memory: LongTermMemory
    history: SqliteDatabase
    names: tuple[Names, Names]

    def again(self) -> None:
        """Make the next call draw the same ids as the first one."""
        for name in self.names:
            name.again()


@contextmanager
def kept(folder: Path, *, now: datetime = NOW, embedded: bool = True, kind: str = "new") -> Iterator[Kept]:
    """Open the memory in *folder*; the embedder is that of the vectors it has."""
    store = open_store(f"sqlite:///{folder / FILE}", fields=DECLARED_FIELDS)
    embedder = HashingEmbedder(dimension=16 if store.space is None else store.space.dimension)
    history = SqliteDatabase(folder / HISTORY) if (folder / HISTORY).exists() else store.database
    names = Names(f"{kind}-"), Names(f"{kind}-operation-")
    memory = LongTermMemory(
        store,
        embedder=embedder if embedded else None,
        history=DatabaseHistory(history, clock=lambda: now, retention=Retention(unremembered="keep", messages=3)),
        policies=[NoSecrets(), Extractor(facts, kinds=("turn", "fact"))],
        clock=lambda: now,
        ids=names[0],
        operation_ids=names[1],
        embedding_settings=EmbeddingSettings(cache_bytes=1 << 20),
    )
    try:
        attach_documents(memory)
        yield Kept(memory, history, names)
    finally:
        run_sync(memory.close())
        history.close()


def turn(said: str, answered: str) -> list[Message]:
    return [Message.user(said), Message.assistant(answered)]


def begin(folder: Path, *, apart: bool = False) -> None:
    """Make a memory in *folder* that has something of everything, documents beside it, and a file to import.

    *apart*: with its conversations in a file of their own.
    """
    files = folder / "documents"
    files.mkdir(parents=True)
    (files / "birds.md").write_text("# Birds\n\nThe heron stands in the water.\n\n# Food\n\nThe heron eats fish.\n")
    (files / "trees.md").write_text("# Trees\n\nThe oak drops its leaves.\n")
    if apart:
        SqliteDatabase(folder / HISTORY).close()
    with kept(folder, now=START, kind="old") as opened:
        memory = opened.memory
        for item in (
            Memory("Ana has a boat; boats need harbours", id="boat", tags=("sea",)),
            Memory("Ana has a dinghy", id="dinghy"),
            Memory("The harbour opens at noon", key="harbour"),
            Memory("Ana lives in Porto", id="home", importance=0.5),
            Memory("Ben has a kite", id="kite"),
        ):
            run_sync(memory.remember(item))
        run_sync(memory.remember_turn("talk", turn("My cat is called Quagga", "Noted, Quagga it is")))
        run_sync(memory.correct("home", "Ana lives in Faro"))
        run_sync(memory.remember(Memory("Ben bartered the okapi", id="okapi")))
        run_sync(memory.forget(["okapi"], grace=60 * DAY))
        run_sync(memory.remember("Something of somebody else", namespace="other"))
        run_sync(KnowledgeBase(memory).ingest(files))
        run_sync(memory.recall("Where is the boat?"))
    other = folder / "other"
    other.mkdir()
    with kept(other, now=START + DAY, kind="other") as opened:
        memory = opened.memory
        for item in (Memory("Ana lives in Lagos", id="home"), Memory("Cleo swims", id="cleo", key="swimmer")):
            run_sync(memory.remember(item))
        run_sync(memory.correct("cleo", "Cleo swims in the sea"))
        run_sync(memory.pin("cleo"))
        run_sync(memory.remember_turn("theirs", turn("The tapir sleeps", "Good night to it")))
        run_sync(KnowledgeBase(memory).ingest(files / "trees.md"))
        run_sync(memory.export(folder / "export.jsonl"))
