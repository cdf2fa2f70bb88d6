"""Every way in which a memory is written: a small memory that has something of everything, and a call for each way.

Clock and ids are given, so that a call that is made again from the same file writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory import (
    EmbeddingSettings,
    Extractor,
    FixedWindow,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NoSecrets,
    Retention,
    ShortTermMemory,
    SummaryWindow,
    Turn,
    run_sync,
)
from memory.codec import DECLARED_FIELDS
from memory.rag.kept_documents import keep_documents
from memory.storage.sqlite import SqliteHistory
from vectorstore import open_store
from vectorstore.sqlite import Database

Call = Callable[[LongTermMemory, Path], Awaitable[Any]]

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


def facts(turn: Turn) -> list[str]:
    """What stands behind a semicolon is a fact."""
    return [one.text.split("; ")[1] for one in turn.memories if "; " in one.text]


@dataclass(frozen=True)
class Kept:
    """A memory in a file, and what gives it its ids."""

    memory: LongTermMemory
    history: Database
    names: tuple[Names, Names]

    def again(self) -> None:
        """Let the next call give the ids that the first one gave."""
        for one in self.names:
            one.again()


@contextmanager
def kept(folder: Path, *, now: datetime = NOW, embedded: bool = True, kind: str = "new") -> Iterator[Kept]:
    """Open the memory in *folder*; the embedder is that of the vectors it has."""
    store = open_store(f"sqlite:///{folder / FILE}", fields=DECLARED_FIELDS)
    embedder = HashingEmbedder(dimension=16 if store.space is None else store.space.dimension)
    history = Database(folder / HISTORY) if (folder / HISTORY).exists() else store.database
    names = Names(f"{kind}-"), Names(f"{kind}-operation-")
    memory = LongTermMemory(
        store,
        embedder=embedder if embedded else None,
        history=SqliteHistory(history, clock=lambda: now, retention=Retention(unremembered="keep", messages=4)),
        policies=[NoSecrets(), Extractor(facts, kinds=("turn", "fact"))],
        clock=lambda: now,
        ids=names[0],
        operation_ids=names[1],
        embedding_settings=EmbeddingSettings(cache_bytes=1 << 20),
    )
    try:
        keep_documents(memory)
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
        Database(folder / HISTORY).close()
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
        run_sync(memory.remember(Memory("Ben sold the okapi", id="okapi")))
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


@dataclass(frozen=True)
class WritePath:
    """One *call*; *before* it is made, something may have to be there.

    All that it writes is there or nothing, but for what stands *beside* (tables that are kept for speed alone). Where
    it goes in *steps*, stopping between them loses nothing, tables are written *together*, the log may be *ahead*, and
    the same call (or *again*) makes the rest. After it none of the words *gone* are in any byte.
    """

    name: str
    call: Call
    before: Callable[[Path], None] | None = None
    steps: bool = False
    together: tuple[tuple[str, ...], ...] = ()
    ahead: bool = False
    again: Call | None = None
    beside: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


BATCHES = (("entries", "vectors", "keys"), ("history_messages", "documents", "tombstones"))
"""What an import takes in one batch."""
VECTORS_KEPT = ("embedding_cache", "embedding_cache_facts")


def earlier(*calls: Call, embedded: bool = True) -> Callable[[Path], None]:
    """What is done to the memory before: *calls*, one after another."""

    def work(folder: Path) -> None:
        with kept(folder, embedded=embedded, now=START + 5 * DAY, kind="earlier") as opened:
            for call in calls:
                run_sync(call(opened.memory, folder))

    return work


async def last(memory: LongTermMemory, kind: str) -> str:
    """The newest operation of that kind."""
    return next(one.id for one in await memory.operations() if one.kind == kind)


async def undone(memory: LongTermMemory, kind: str) -> None:
    await memory.undo(await last(memory, kind))


async def said_elsewhere(memory: LongTermMemory, _: Path) -> None:
    await memory.conversations.append("talk", turn("The lemur is awake", "So it is"))


async def summed_up(memory: LongTermMemory, _: Path) -> None:
    policy = SummaryWindow(FixedWindow(messages=1), lambda so_far, more: f"{so_far} {len(more)} more")
    await ShortTermMemory(memory.conversations, policy=policy, session="talk").window()


async def removed(memory: LongTermMemory, _: Path) -> None:
    await KnowledgeBase(memory).remove(await birds(memory))


async def birds(memory: LongTermMemory) -> str:
    """The name of that document."""
    (source,) = [one.source for one in await KnowledgeBase(memory).documents() if "birds" in one.source]
    return source


async def forget_birds(memory: LongTermMemory, _: Path) -> None:
    await memory.forget(document=await birds(memory))


def changed_files(folder: Path) -> None:
    (folder / "documents" / "birds.md").write_text(
        "# Birds\n\nThe heron stands in the reeds.\n\n# Food\n\nThe heron eats fish.\n"
    )


def changed_folder(folder: Path) -> None:
    changed_files(folder)
    (folder / "documents" / "trees.md").unlink()
    (folder / "documents" / "stones.md").write_text("# Stones\n\nThe flint is sharp.\n")


PATHS = (
    WritePath(
        "remember", lambda m, _: m.remember(Memory("The zebra runs; zebras are fast", key="z")), beside=VECTORS_KEPT
    ),
    WritePath(
        "remember many",
        lambda m, _: m.remember_many(
            [Memory(f"Note {n} of the zebra; it is number {n}", key=f"n{n}") for n in range(3)]
            + ["card 4111111111111111"]
        ),
        beside=VECTORS_KEPT,
    ),
    WritePath(
        "remember a turn",
        lambda m, _: m.remember_turn("talk", turn("My dog is called Okapi; dogs bark", "I see")),
        beside=VECTORS_KEPT,
    ),
    WritePath("complete", lambda m, _: m.complete(), before=earlier(said_elsewhere)),
    WritePath("correct", lambda m, _: m.correct("boat", "Ana had a boat; boats sink"), beside=VECTORS_KEPT),
    WritePath("merge", lambda m, _: m.merge(["dinghy", "kite"], "A dinghy and a kite"), beside=VECTORS_KEPT),
    WritePath("end", lambda m, _: m.end("home", NOW)),
    WritePath("pin", lambda m, _: m.pin(["boat", "home"])),
    WritePath("tag", lambda m, _: m.tag(["boat", "home"], ["x"])),
    WritePath("importance", lambda m, _: m.set_importance(["boat", "home"], 0.75)),
    WritePath("expire", lambda m, _: m.expire(["boat", "home"], NOW + DAY)),
    WritePath("undo of a memory", lambda m, _: m.undo("old-operation-0002")),
    WritePath("undo of a correction", lambda m, _: undone(m, "correct")),
    WritePath("undo of an undo", lambda m, _: undone(m, "undo"), before=earlier(lambda m, _: undone(m, "correct"))),
    WritePath(
        "undo of a merge",
        lambda m, _: undone(m, "merge"),
        before=earlier(lambda m, _: m.merge(["dinghy", "kite"], "A dinghy and a kite")),
    ),
    WritePath("forget", lambda m, _: m.forget(["boat", "home"]), gone=("Porto", "harbours")),
    WritePath("forget for now", lambda m, _: m.forget(["boat", "home"], grace=DAY)),
    WritePath("take back a forgetting", lambda m, _: undone(m, "forget")),
    WritePath(
        "the end of a time of grace",
        lambda m, _: m.complete(),
        before=earlier(lambda m, _: m.forget(["boat"], grace=DAY)),
        gone=("harbours",),
    ),
    WritePath("forget a conversation", lambda m, _: m.forget(session="talk"), gone=("Quagga",)),
    WritePath("forget a document", forget_birds, gone=("heron",)),
    WritePath("forget a namespace", lambda m, _: m.forget_namespace(""), gone=("harbours", "Quagga", "heron", "sold")),
    WritePath(
        "import what is new",
        lambda m, f: m.import_(f / "export.jsonl", trust="user"),
        steps=True,
        together=BATCHES,
        ahead=True,
    ),
    WritePath(
        "import what is other",
        lambda m, f: m.import_(f / "export.jsonl", mode="upsert", trust="user"),
        steps=True,
        together=BATCHES,
        ahead=True,
    ),
    WritePath("import in the place of all", lambda m, f: m.import_(f / "export.jsonl", mode="replace", trust="user")),
    WritePath(
        "undo of an import",
        lambda m, _: undone(m, "import"),
        before=earlier(lambda m, f: m.import_(f / "export.jsonl", mode="upsert", trust="user")),
    ),
    WritePath("embed anew", lambda m, _: m.reembed(HashingEmbedder(dimension=24)), steps=True),
    WritePath(
        "switch",
        lambda m, _: m.reembed(HashingEmbedder(dimension=24)),
        before=earlier(lambda m, _: m.reembed(HashingEmbedder(dimension=24), switch=False)),
    ),
    WritePath(
        "abandon",
        lambda m, _: m.abandon_reembedding(),
        before=earlier(lambda m, _: m.reembed(HashingEmbedder(dimension=24), switch=False)),
    ),
    WritePath(
        "flush",
        lambda m, _: m.flush(),
        before=earlier(lambda m, _: m.remember_many(["one that waits", "two that wait"]), embedded=False),
        beside=VECTORS_KEPT,
    ),
    WritePath(
        "take in documents",
        lambda m, f: KnowledgeBase(m, collection="new").ingest(f / "documents"),
        beside=VECTORS_KEPT,
    ),
    WritePath(
        "take in a document anew",
        lambda m, f: KnowledgeBase(m).ingest(f / "documents" / "birds.md"),
        before=changed_files,
        beside=VECTORS_KEPT,
        gone=("in the water",),
    ),
    WritePath(
        "follow a folder", lambda m, f: KnowledgeBase(m).ingest(f / "documents"), before=changed_folder, steps=True
    ),
    WritePath("take a document out", removed, gone=("heron",)),
    WritePath("a session that is full", lambda m, _: m.conversations.append("talk", turn("a", "b") + turn("c", "d"))),
    WritePath("a session said otherwise", lambda m, _: m.conversations.replace("talk", turn("a", "b"))),
    WritePath("clear a session", lambda m, _: m.conversations.clear("talk")),
    WritePath("sum up", summed_up),
    WritePath(
        "what recall derives", lambda m, _: m.recall("boat"), before=earlier(lambda m, _: m.remember("x")), steps=True
    ),
    WritePath("export", lambda m, f: m.export(f / "mine.jsonl")),
)
