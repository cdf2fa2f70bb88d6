"""Every write path of a memory: its call, and what must hold wherever it is interrupted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tellback.memory import (
    FixedWindow,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    ShortTermMemory,
    SummaryWindow,
    run_sync,
)
from tests.test_faults.tried_on import DAY, FILE, NOW, START, kept, turn

Call = Callable[[LongTermMemory, Path], Awaitable[Any]]


@dataclass(frozen=True)
class WritePath:
    """One *call*; *before* it is made, something may have to be there.

    All that it writes is there or nothing, but for what stands *beside* (tables that are kept for speed alone). Where
    it goes in *steps*, stopping between them loses nothing, tables are written *together*, the log may be *ahead*, and
    the same call (or *again*) makes the rest; of two files, the tables *last* are written after all else. After it none
    of the words *gone* are in any byte.
    """

    name: str
    call: Call
    before: Callable[[Path], None] | None = None
    steps: bool = False
    together: tuple[tuple[str, ...], ...] = ()
    ahead: bool = False
    last: tuple[str, ...] = ()
    again: Call | None = None
    beside: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


BATCHES = (("entries", "vectors", "keys"), ("history_messages", "documents", "tombstones"))
"""What an import takes in one batch."""
VECTORS_KEPT = ("embedding_cache", "embedding_cache_facts")


def earlier(*calls: Call, embedded: bool = True) -> Callable[[Path], None]:
    """Preparation of the memory: *calls*, one after another."""

    def work(folder: Path) -> None:
        with kept(folder, embedded=embedded, now=START + 5 * DAY, kind="earlier") as opened:
            for call in calls:
                run_sync(call(opened.memory, folder))

    return work


async def last(memory: LongTermMemory, kind: str) -> str:
    """The newest operation of that kind."""
    return next(operation.id for operation in await memory.operations() if operation.kind == kind)


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
    (source,) = [document.source for document in await KnowledgeBase(memory).documents() if "birds" in document.source]
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


def without_vectors(folder: Path) -> None:
    """Memory without any vector."""
    for file in folder.glob(f"{FILE}*"):
        file.unlink()
    with kept(folder, embedded=False, now=START, kind="old") as opened:
        run_sync(opened.memory.remember_many(["Ana has a boat", "Ben has a kite"]))


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
        beside=(*VECTORS_KEPT, "embedder_profiles"),
    ),
    WritePath(
        "remember a turn",
        lambda m, _: m.remember_turn("talk", turn("My dog is called Okapi; dogs bark", "I see")),
        beside=VECTORS_KEPT,
    ),
    WritePath("complete", lambda m, _: m.complete(), before=earlier(said_elsewhere)),
    WritePath(
        "replace",
        lambda m, _: m.remember(Memory("Ana sold the boat; she rows", key="z"), replaces=["boat"]),
        beside=VECTORS_KEPT,
    ),
    WritePath("correct", lambda m, _: m.correct("boat", "Ana had a boat; boats sink"), beside=VECTORS_KEPT),
    WritePath("merge", lambda m, _: m.merge(["dinghy", "kite"], "A dinghy and a kite"), beside=VECTORS_KEPT),
    WritePath("end", lambda m, _: m.end("home", NOW)),
    WritePath("settle", lambda m, _: m.settle(["boat", "kite"], keep="boat")),
    WritePath("pin", lambda m, _: m.pin(["boat", "home"])),
    WritePath("tag", lambda m, _: m.tag(["boat", "home"], ["x"])),
    WritePath("importance", lambda m, _: m.set_importance(["boat", "home"], 0.75)),
    WritePath(
        "describe",
        lambda m, _: m.describe({"boat": "Ana's boat: kind", "home": "Ana's home: town"}),
        beside=VECTORS_KEPT,
    ),
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
    WritePath(
        "forget a namespace", lambda m, _: m.forget_namespace(""), gone=("harbours", "Quagga", "heron", "bartered")
    ),
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
    WritePath(
        "undo of an import",
        lambda m, _: undone(m, "import"),
        before=earlier(lambda m, f: m.import_(f / "export.jsonl", mode="upsert", trust="user")),
    ),
    WritePath("embed anew", lambda m, _: m.reembed(HashingEmbedder(dimension=24)), steps=True),
    WritePath(
        "embed for the first time",
        lambda m, _: m.reembed(HashingEmbedder(dimension=16)),
        before=without_vectors,
        steps=True,
        together=(("store_facts", "embedder_probes"),),
    ),
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
        before=earlier(lambda m, _: m.remember_many(["one that waits", "?!", "two that wait"]), embedded=False),
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
        "what recall derives",
        lambda m, _: m.recall("boat"),
        before=earlier(lambda m, _: m.remember("x")),
        steps=True,
        together=(("recall_states", "recall_segments"),),
    ),
    WritePath("export", lambda m, f: m.export(f / "mine.jsonl")),
)

_BESIDE_HISTORY = ("complete", "forget", "forget for now", "take back a forgetting", "the end of a time of grace")
_IMPORTS = ("import what is new", "import what is other")
_REPLACED = ("history_messages", "history_sessions", "history_bounds")
_MESSAGES_FIRST = ("forget a conversation", "forget a namespace")
"""Once they are gone, the same call does not know of them any more: that they were forgotten is not noted."""
APART = (
    WritePath(
        "remember a turn",
        lambda m, _: m.remember_turn("talk", turn("My dog is called Okapi", "I see") + turn("Is it old?", "It is")),
        again=lambda m, _: m.flush(),
    ),
    *(path for path in PATHS if path.name in _BESIDE_HISTORY + _IMPORTS),
    *(replace(path, last=_REPLACED) for path in PATHS if path.name == "import in the place of all"),
    *(replace(path, beside=("tombstones",)) for path in PATHS if path.name in _MESSAGES_FIRST),
)
"""Those that write conversations too, where these are in a file of their own."""
