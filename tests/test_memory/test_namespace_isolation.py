"""Namespace isolation: the same calls give the same bytes whether another namespace is empty, full or in use.

Each script makes every public call of the package that is about one namespace, in an order and with arguments that are
drawn from a seed: the list of them is made from the face, so that a new one cannot be left out. It runs in two copies
of one file (or two stores in memory): in one nothing else is there; in the other a second namespace was filled before,
with the same ids, keys, sessions and documents, and goes on writing between the calls. Answers and error texts are
compared; then everything that is left is looked at, taken back and made anew, and that is compared, too.

Inner parts, on no face: ``tellback.memory.export_import.report``, ``tellback.memory.history.windows``,
``tellback.memory.tables.idempotency_keys``, ``tellback.memory.tables.soft_deletes``,
``tellback.memory.tables.tombstones``, ``tellback.memory.history.protocol``.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import pytest

import tellback.memory.internals
from tellback import memory as memory_face
from tellback.memory import (
    DatabaseHistory,
    EmbedderError,
    EmbeddingSettings,
    FixedWindow,
    HashingEmbedder,
    HistoryStorage,
    InMemoryHistory,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    MemoryLayerError,
    Message,
    NearDuplicates,
    Retention,
    ShortTermMemory,
    SummaryWindow,
    evaluate,
)
from tellback.memory.export_import.report import ImportMode
from tellback.memory.history.protocol import Summary
from tellback.memory.history.windows import window_of
from tellback.memory.internals import Conversation
from tellback.memory.tables.idempotency_keys import IdempotencyKeys, keyed_id
from tellback.memory.tables.soft_deletes import SoftDelete, SoftDeletes
from tellback.memory.tables.tombstones import Tombstones
from tellback.vectorstore import Database, NumpyStore, Space, VectorStoreError, open_store
from tellback.vectorstore.sqlite import InMemoryDatabase, SqliteDatabase
from tests.support.slow import first_fast

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = ["garden", "piano", "bridge", "harbour", "lantern", "market"]
IDS = ["m0", "m1", "m2", "m3", "m4", "f1", "f2"]
SESSIONS = ("monday", "tuesday")
KEYS = ("first", "second", "third")


@dataclass(frozen=True)
class Setting:
    """Names of the two namespaces, and settings of the memory."""

    mine: str
    other: str
    retention: Retention | None = None
    near: bool = False
    cache_bytes: int = 0


SETTINGS = [
    Setting("mine", "mine2"),
    Setting("", "mine", near=True, cache_bytes=2**20),
    Setting("Mine", "mine/conversation", Retention(messages=4, idle=timedelta(minutes=40), unremembered="keep")),
]


class Unreliable:
    """An embedder that does not answer while it *fails*."""

    def __init__(self) -> None:
        self.fails = False
        self._embedder = HashingEmbedder(dimension=32)
        self.fingerprint, self.dimension = self._embedder.fingerprint, 32

    async def embed(self, texts: list[str], kind: Any = "document") -> Any:
        if self.fails:
            raise EmbedderError("no answer")
        return await self._embedder.embed(texts, kind)


class World:
    """A memory whose clock and ids are counted apart for each namespace, so that both worlds count alike."""

    def __init__(self, url: str, setting: Setting) -> None:
        self.side, self.minute = "", 0
        self.fails = not setting.cache_bytes  # a text that was embedded once needs no embedder, whoever had it embedded
        self._counts: dict[tuple[str, str], int] = {}
        self.embedder = Unreliable()
        clock = lambda: NOW + timedelta(minutes=self.minute)  # noqa: E731 - as a clock is given
        store = open_store(url, space=Space(self.embedder.fingerprint, self.embedder.dimension))
        database = getattr(store, "database", None)
        kept = {"clock": clock, "retention": setting.retention}
        self.memory = LongTermMemory(
            store,
            history=InMemoryHistory(**kept) if database is None else DatabaseHistory(database, **kept),
            embedder=self.embedder,
            policies=[NearDuplicates()] if setting.near else (),
            embedding_settings=EmbeddingSettings(cache_bytes=setting.cache_bytes),
            clock=clock,
            ids=lambda: f"i{self._next('id')}",
            operation_ids=lambda: f"o{self._next('operation')}",
            zone=UTC,
        )
        KnowledgeBase(self.memory)  # as ``open_memory`` does: an export names documents, be there some or none

    def _next(self, name: str) -> int:
        self._counts[self.side, name] = self._counts.get((self.side, name), 0) + 1
        return self._counts[self.side, name]

    def of(self, namespace: str, minute: int) -> LongTermMemory:
        self.side, self.minute = namespace, minute
        self.embedder.fails = self.fails and minute % 4 == 3
        return self.memory


Call = Callable[[LongTermMemory, str], Awaitable[Any]]
Named = tuple[str, Call]


async def summed_up(where: Any, *place: str) -> object:
    """Keep a summary of the first message, in the place of the one before."""
    given = {"namespace": place[1]} if place else {}
    before = await where.summary(*place[:1], "tale", **given)
    summary = Summary("tale", f"{before and before.text}, and so on", 1, 1, NOW)
    return await where.keep_summary(*place[:1], summary, before=before, made_of=[1], **given)


def sentence(rng: random.Random) -> str:
    return f"The {rng.choice(WORDS)} stands near the {rng.choice(WORDS)} of {rng.choice(('Ana', 'Ben'))}."


def calls_drawn(rng: random.Random, documents: Path) -> list[Named]:
    """Return every call with arguments: the name of the method, and what to do with a memory in a namespace."""
    id, more = rng.choice(IDS), rng.sample(IDS, 2)
    text, word, session = sentence(rng), rng.choice(WORDS), rng.choice(SESSIONS)
    stated = [Message.user(text), Message.assistant(f"I see: {word}.")]
    day, operation = NOW + timedelta(hours=rng.randint(-3, 3)), f"o{rng.randint(1, 40)}"
    vectors, kept = rng.random() < 0.3, rng.choice(("newest", more[0]))
    chosen: dict[str, Any] = {"ids": more} if rng.random() < 0.5 else {"document": "notes.md"}
    item = Memory(text, id=id, tags=(word,), scopes={"user": rng.choice(("ana", "ben"))}, session=session)
    keyed = Memory(text, key=rng.choice(KEYS), importance=rng.random())
    made = Memory(f"Of that: {text}", derived_from=more[:1])

    def knowledge(memory: LongTermMemory, namespace: str) -> KnowledgeBase:
        return KnowledgeBase(memory, namespace=namespace)

    def policy() -> SummaryWindow:
        return SummaryWindow(FixedWindow(messages=2), lambda so_far, given: f"{so_far} {given[-1].text}")

    def window(memory: LongTermMemory, namespace: str) -> ShortTermMemory:
        return ShortTermMemory(memory.conversations, policy=policy(), session=session, namespace=namespace)

    async def exported(memory: LongTermMemory, namespace: str) -> tuple[object, bytes]:
        with suppress(FileNotFoundError):
            file.unlink()
        report = await memory.export(file, namespace=namespace, vectors=vectors)
        return report, file.read_bytes()

    async def noted(memory: LongTermMemory, namespace: str) -> tuple[object, list[bytes]]:
        folder = file.with_name("vault")
        shutil.rmtree(folder, ignore_errors=True)
        report = await memory.export_notes(folder, namespace=namespace)
        return report, [note.read_bytes() for note in sorted(folder.iterdir())]

    async def imported(memory: LongTermMemory, namespace: str) -> tuple[object, object]:
        return await exported(memory, namespace), await memory.import_(file, mode=mode, namespace=namespace)

    async def cited(memory: LongTermMemory, namespace: str) -> object:
        kept, question = knowledge(memory, namespace), f"Where is the {word}?"
        return await kept.cite(question, await kept.retrieve(question))

    async def described(memory: LongTermMemory, namespace: str) -> tuple[object, object]:
        base = knowledge(memory, namespace)
        lines = {passage.id: f"Where is the {word}?" for passage in (await base.undescribed())[:2]}
        return lines, await base.describe({**lines, "nowhere": word})

    async def signed(memory: LongTermMemory, namespace: str) -> object:
        named = memory.signed_by("ana")
        return await named.remember(text, namespace=namespace), await named.operations(limit=3, namespace=namespace)

    async def forgotten_and_proved(memory: LongTermMemory, namespace: str) -> tuple[object, object]:
        receipt = await memory.forget(more[:1], namespace=namespace)
        proof = await memory.verify_forgotten(receipt)  # without the words: their bytes are the whole file's
        return receipt, replace(proof, files=())  # the two files have different names

    async def forgotten_and_back(memory: LongTermMemory, namespace: str) -> object:
        receipt = await memory.forget(**chosen, grace=timedelta(days=1), namespace=namespace)
        return receipt, await memory.restore_forgotten(str(receipt.operation), namespace=namespace)

    file, mode = documents.with_name("export.jsonl"), rng.choice(get_args(ImportMode))
    elsewhere = documents.with_name("elsewhere.jsonl")
    return [
        ("LongTermMemory.remember", lambda m, n: m.remember(item, namespace=n)),
        ("LongTermMemory.remember", lambda m, n: m.remember(keyed, namespace=n)),
        ("LongTermMemory.remember_many", lambda m, n: m.remember_many([text, item, keyed, made], namespace=n)),
        ("LongTermMemory.remember_turn", lambda m, n: m.remember_turn(session, stated, namespace=n)),
        ("LongTermMemory.recall", lambda m, n: m.recall(f"Where is the {word}?", namespace=n, explain=True)),
        (
            "LongTermMemory.recall",
            lambda m, n: m.recall(f"What about the {word} of Ana?", 3, namespace=[n], tags=(word,)),
        ),
        (
            "LongTermMemory.recall",
            lambda m, n: m.recall(f"Where was the {word}?", namespace=n, as_of=day, token_budget=60),
        ),
        ("LongTermMemory.why_not", lambda m, n: m.why_not(f"Where is the {word}?", id, namespace=n)),
        ("LongTermMemory.get", lambda m, n: m.get([id, "i1", "nowhere"], namespace=n)),
        ("LongTermMemory.correct", lambda m, n: m.correct(id, text, namespace=n)),
        ("LongTermMemory.history", lambda m, n: m.history(id, namespace=n)),
        ("LongTermMemory.conflicts", lambda m, n: m.conflicts(namespace=n)),
        ("LongTermMemory.people", lambda m, n: m.people(namespace=n)),
        ("LongTermMemory.signed_by", signed),
        ("LongTermMemory.settle", lambda m, n: m.settle(more, keep=kept, namespace=n)),
        ("LongTermMemory.merge", lambda m, n: m.merge(more, text, namespace=n)),
        ("LongTermMemory.pin", lambda m, n: m.pin(more, namespace=n)),
        ("LongTermMemory.unpin", lambda m, n: m.unpin([id], namespace=n)),
        ("LongTermMemory.disable", lambda m, n: m.disable([id], namespace=n)),
        ("LongTermMemory.enable", lambda m, n: m.enable([id], namespace=n)),
        ("LongTermMemory.promote", lambda m, n: m.promote([id], namespace=n)),
        ("LongTermMemory.demote", lambda m, n: m.demote([id], namespace=n)),
        ("LongTermMemory.tag", lambda m, n: m.tag([id], [word], namespace=n)),
        ("LongTermMemory.untag", lambda m, n: m.untag([id], [word], namespace=n)),
        ("LongTermMemory.set_importance", lambda m, n: m.set_importance([id], 0.5, namespace=n)),
        ("LongTermMemory.describe", lambda m, n: m.describe({id: word}, namespace=n)),
        ("LongTermMemory.expire", lambda m, n: m.expire([id], day, namespace=n)),
        ("LongTermMemory.end", lambda m, n: m.end(id, day, namespace=n)),
        ("LongTermMemory.undo", lambda m, n: m.undo(operation, namespace=n)),
        ("LongTermMemory.operations", lambda m, n: m.operations(namespace=n)),
        ("LongTermMemory.operations", lambda m, n: m.operations(memory=id, before=operation, namespace=n)),
        ("LongTermMemory.list", lambda m, n: m.list(namespace=n, order="newest", tags=(word,))),
        ("LongTermMemory.list", lambda m, n: m.list(namespace=n, limit=3)),
        ("LongTermMemory.pinned", lambda m, n: m.pinned(namespace=n)),
        ("LongTermMemory.find_ids", lambda memory, namespace: memory.find_ids(id[:2], namespace=namespace, limit=100)),
        ("LongTermMemory.count", lambda m, n: m.count(namespace=n)),
        ("LongTermMemory.stats", lambda m, n: m.stats(namespace=n)),
        ("LongTermMemory.profile", lambda m, n: m.profile(namespace=n)),
        ("LongTermMemory.pending", lambda m, n: m.pending(namespace=n)),
        ("LongTermMemory.flush", lambda m, n: m.flush(namespace=n)),
        ("LongTermMemory.forget", lambda m, n: m.forget([id], namespace=n)),
        ("LongTermMemory.forget", lambda m, n: m.forget(query=f"the {word}", k=2, namespace=n, dry_run=True)),
        ("LongTermMemory.forget", lambda m, n: m.forget(session=session, namespace=n, grace=timedelta(days=1))),
        ("LongTermMemory.forget", lambda m, n: m.forget(document="notes.md", namespace=n)),
        ("LongTermMemory.verify_forgotten", forgotten_and_proved),
        ("LongTermMemory.restore_forgotten", forgotten_and_back),
        ("LongTermMemory.restore_forgotten", lambda m, n: m.restore_forgotten(operation, namespace=n)),
        ("LongTermMemory.forget_namespace", lambda m, n: m.forget_namespace(n, dry_run=True)),
        ("evaluate", lambda m, n: evaluate(m, namespace=n, questions=4, k=2)),
        ("LongTermMemory.export", exported),
        ("LongTermMemory.export_notes", noted),
        ("LongTermMemory.import_", imported),
        ("LongTermMemory.import_", lambda m, n: m.import_(elsewhere, mode=mode, namespace=n)),
        ("KnowledgeBase.ingest", lambda m, n: knowledge(m, n).ingest([documents])),
        ("KnowledgeBase.documents", lambda m, n: knowledge(m, n).documents()),
        ("KnowledgeBase.collections", lambda m, n: knowledge(m, n).collections()),
        (
            "KnowledgeBase.ingest_text",
            lambda m, n: knowledge(m, n).ingest_text(f"The {word} is by the door.", source="t"),
        ),
        ("KnowledgeBase.document_filter", lambda m, n: knowledge(m, n).document_filter(types=["markdown"])),
        ("KnowledgeBase.locate", lambda m, n: knowledge(m, n).locate("notes.md")),
        ("KnowledgeBase.passages", lambda m, n: knowledge(m, n).passages("notes.md")),
        ("KnowledgeBase.passage", lambda m, n: knowledge(m, n).passage("unknown", neighbours=1)),
        ("KnowledgeBase.retrieve", lambda m, n: knowledge(m, n).retrieve(f"Where is the {word}?", neighbours=1)),
        ("KnowledgeBase.cite", cited),
        ("KnowledgeBase.undescribed", lambda m, n: knowledge(m, n).undescribed()),
        ("KnowledgeBase.describe", described),
        ("KnowledgeBase.remove", lambda m, n: knowledge(m, n).remove("notes.md")),
        ("KnowledgeBase.remove_folder", lambda m, n: knowledge(m, n).remove_folder(documents)),
        ("ShortTermMemory.append", lambda m, n: window(m, n).append(*stated)),
        ("ShortTermMemory.load", lambda m, n: window(m, n).load(limit=4)),
        ("ShortTermMemory.window", lambda m, n: window(m, n).window()),
        ("history.summary", lambda m, n: m.conversations.summary(session, "summary", namespace=n)),
        ("ShortTermMemory.clear", lambda m, n: window(m, n).clear()),
        ("history.sessions", lambda m, n: m.conversations.sessions(namespace=n)),
        ("history.append", lambda m, n: m.conversations.append(session, stated, namespace=n)),
        ("history.load", lambda m, n: m.conversations.load(session, namespace=n, limit=3, roles=["user"])),
        ("history.copy", lambda m, n: m.conversations.copy(session, "fork", namespace=n)),
        ("history.clear", lambda m, n: m.conversations.clear(session, namespace=n)),
        ("history.keep_summary", lambda m, n: summed_up(m.conversations, session, n)),
        ("Conversation.load", lambda m, n: Conversation(m.conversations, session, n).load(after=1)),
        ("Conversation.summary", lambda m, n: Conversation(m.conversations, session, n).summary("tale")),
        ("Conversation.keep_summary", lambda m, n: summed_up(Conversation(m.conversations, session, n))),
        ("SummaryWindow.window", lambda m, n: policy().window(Conversation(m.conversations, session, n))),
        ("window_of", lambda m, n: window_of(policy(), Conversation(m.conversations, session, n))),
        ("history.replace", lambda m, n: m.conversations.replace(session, stated, namespace=n)),
        ("history.delete", lambda m, n: m.conversations.delete(session, [1, 2], namespace=n)),
    ]


def script_of(rng: random.Random, documents: Path) -> list[Named]:
    """Return every call, in some order, each with arguments of its own; there is something to call them about."""
    items = [Memory(sentence(rng), id=id, tags=(rng.choice(WORDS),)) for id in IDS[:5]]
    first: list[Named] = [
        ("LongTermMemory.remember_many", lambda m, n: m.remember_many(items, namespace=n)),
        ("KnowledgeBase.ingest", lambda m, n: KnowledgeBase(m, namespace=n).ingest([documents])),
        ("LongTermMemory.pin", lambda m, n: m.pin(IDS[:3], namespace=n)),
        ("LongTermMemory.forget", lambda m, n: m.forget(["m4"], grace=timedelta(days=1), namespace=n)),
        ("LongTermMemory.import_", lambda m, n: m.import_(documents.with_name("elsewhere.jsonl"), namespace=n)),
    ]
    order = list(range(len(calls_drawn(rng, documents))))
    rng.shuffle(order)
    return [*first, *(calls_drawn(rng, documents)[place] for place in order)]


def looking(documents: Path) -> list[Named]:
    """Return calls that read everything and change nothing."""
    looks: list[Named] = [
        ("operations", lambda m, n: m.operations(limit=999, namespace=n)),
        ("list", lambda m, n: m.list(limit=999, namespace=n)),
        ("known", lambda m, n: m.list(limit=999, known_at=NOW + timedelta(minutes=30), namespace=n)),
        ("stats", lambda m, n: m.stats(namespace=n)),
        ("pinned", lambda m, n: m.pinned(namespace=n)),
        ("pending", lambda m, n: m.pending(namespace=n)),
        ("sessions", lambda m, n: m.conversations.sessions(namespace=n)),
        ("documents", lambda m, n: KnowledgeBase(m, namespace=n).documents()),
        ("collections", lambda m, n: KnowledgeBase(m, namespace=n).collections()),
        ("profile", lambda m, n: m.profile(namespace=n)),
        ("dry run", lambda m, n: m.forget_namespace(n, dry_run=True)),
    ]
    for item in SESSIONS:
        looks.append(("load", lambda m, n, item=item: m.conversations.load(item, namespace=n)))
        for reported in ("tale", "summary"):
            looks.append(
                (
                    "summary",
                    lambda m, n, item=item, reported=reported: m.conversations.summary(item, reported, namespace=n),
                )
            )
    looks += [("history", lambda m, n, id=id: m.history(id, namespace=n)) for id in IDS]
    looks += [("recall", lambda m, n, word=word: m.recall(word, 99, explain=True, namespace=n)) for word in WORDS[:3]]
    return looks


def ending(documents: Path) -> list[Named]:
    """Return calls that undo and restore, rebuild, and forget; at the end, everything is forgotten."""
    texts = [f"The {word} stands near the {word} of Ana." for word in WORDS]

    def ingest(again: bool) -> Call:
        return lambda m, n: KnowledgeBase(m, namespace=n).ingest([documents], again=again)

    calls: list[Named] = []
    calls += [
        ("undo", lambda m, n, position=position: m.undo(f"o{position}", namespace=n)) for position in range(60, 0, -3)
    ]
    calls += [
        ("restore", lambda m, n, position=position: m.restore_forgotten(f"o{position}", namespace=n))
        for position in range(60, 0, -2)
    ]
    calls += [("by key", lambda m, n, key=key: m.remember(Memory(texts[0], key=key), namespace=n)) for key in KEYS]
    calls += [("by id", lambda m, n, id=id: m.remember(Memory(texts[1], id=id), namespace=n)) for id in IDS]
    calls += [("ingest", ingest(False)), ("ingest", ingest(True))]
    calls += [("forget", lambda m, n, id=id: m.forget([id], namespace=n)) for id in IDS]
    calls += [("forget", lambda m, n, item=item: m.forget(session=item, namespace=n)) for item in SESSIONS]
    calls += [
        ("remember", lambda m, n: m.remember_many(texts, namespace=n)),
        ("flush", lambda m, n: m.flush(namespace=n)),
    ]
    return [*calls, *looking(documents)[:11], ("gone", lambda m, n: m.forget_namespace(n)), *looking(documents)[:11]]


async def answered(call: Call, memory: LongTermMemory, namespace: str) -> str:
    """Return the answer of a call, or its error."""
    try:
        return repr(await call(memory, namespace))
    except (MemoryLayerError, VectorStoreError) as error:
        return f"{type(error).__name__}: {error}"


async def played(world: World, setting: Setting, mine: Sequence[Named], other: Sequence[Sequence[Named]]) -> list[str]:
    """Make the calls of *mine* in one namespace; of the *other* ones some come before, some between, some after."""
    before, between, after = other
    answers = []
    for _, call in before:
        await answered(call, world.of(setting.other, 0), setting.other)
    for minute, (element, beside) in enumerate(zip_longest(mine, between)):
        if beside is not None:
            await answered(beside[1], world.of(setting.other, minute), setting.other)
        if element is not None:
            answers.append(f"{element[0]}: {await answered(element[1], world.of(setting.mine, minute), setting.mine)}")
    for _, call in after:
        await answered(call, world.of(setting.other, len(mine)), setting.other)
    return answers


@pytest.fixture(params=["numpy", "sqlite"])
def worlds(request: pytest.FixtureRequest, tmp_path: Path, setting: Setting) -> Iterator[tuple[World, World]]:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    made = World(f"{request.param}:///{first}", setting).memory
    if isinstance(made.store, NumpyStore):
        made.store.save()
    asyncio.run(made.close())
    shutil.copy(first, second)  # one key, so that the ids made of it are the same
    pair = World(f"{request.param}:///{first}", setting), World(f"{request.param}:///{second}", setting)
    yield pair
    for element in pair:
        asyncio.run(element.memory.close())


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder of documents, and beside it an export of another memory, with the same keys under other ids."""
    folder = tmp_path / "documents"
    folder.mkdir()
    text = "# Harbour\n\nThe lantern hangs over the harbour.\n\n# Market\n\nThe market opens.\n"
    (folder / "notes.md").write_text(text)
    (folder / "boats.md").write_text("# Boats\n\nA bridge of boats. The garden of the piano.\n")  # which nobody removes
    asyncio.run(exported_elsewhere(tmp_path / "elsewhere.jsonl"))
    return folder


async def exported_elsewhere(path: Path) -> None:
    async with LongTermMemory(open_store("numpy:"), clock=lambda: NOW, zone=UTC) as memory:
        await memory.remember_turn("monday", [Message.user("The kite flies."), Message.assistant("High.")])
        await memory.remember(Memory("The kite is red.", id="f1", key="first"))
        await memory.remember(Memory("The kite is old.", id="f2", key="third"))
        await memory.correct("f2", "The kite is new.")
        await memory.forget([(await memory.remember(Memory("The kite is lost.", id="m3"))).id])
        await memory.export(path)


@pytest.mark.slow
@pytest.mark.parametrize("setting", first_fast(SETTINGS), ids=lambda setting: setting.other)
def test_contents_and_writes_of_another_namespace_change_no_public_answer(
    worlds: tuple[World, World], setting: Setting, documents: Path
) -> None:
    rng = random.Random(seed := SETTINGS.index(setting))
    script = [*script_of(rng, documents), *script_of(rng, documents)]
    other = (script_of(rng, documents), script_of(rng, documents), ending(documents))
    looks = [*looking(documents), *ending(documents)]

    async def told(world: World, others: Sequence[Sequence[Named]]) -> list[str]:
        stated = await played(world, setting, script, others)
        return [*stated, *await played(world, setting, looks, ((), (), ()))]

    alone, beside = (asyncio.run(told(*element)) for element in zip(worlds, (((), (), ()), other), strict=True))
    assert sum("Error" not in element and "NoSuchMemory" not in element for element in alone) > len(alone) / 3
    for place, (element, same) in enumerate(zip(alone, beside, strict=True)):
        assert element == same, f"seed {seed}, call {place}"


OF_THE_FILE = {
    "KnowledgeBase.ingest_url": "fetches a page, and is an ingest from there on",
    "CachedEmbedder": "vectors by the text alone, whoever had it embedded; no answer tells whether one was kept",
    "LongTermMemory.abandon_reembedding": "vectors are the file's",
    "LongTermMemory.backup": "the owner's: a copy of the file",
    "LongTermMemory.backups": "the owner's list of such copies",
    "KnowledgeBase.watch": "ingests again and again, until it is stopped",
    "LongTermMemory.close": "ends the use of the file",
    "LongTermMemory.similarities": "asks the embedder alone",
    "LongTermMemory.redacted": "asks the write policies alone",
    "LongTermMemory.complete": "the owner's: it catches up with every history, and answers with a number for the file",
    "LongTermMemory.complete_now": "as complete",
    "LongTermMemory.erase_due": "the owner's: it ends every time of grace that is over, and counts them",
    "LongTermMemory.namespaces": "the owner's list of them",
    "LongTermMemory.reembed": "vectors are the file's",
    "LongTermMemory.reembedding": "vectors are the file's",
    "NearDuplicates.decide_beside": "a policy: it is shown what is near by remember and its like (Setting.near)",
    "ReplacementJudge.decide_beside": "as NearDuplicates.decide_beside",
    "DatabaseEmbeddingCache": "as CachedEmbedder",
    "lane_counts": "counts entries of a closed file, by their partition",
    "ServerIndexes": "the owner's, of PostgreSQL alone: indexes of the parts of a namespace, which no answer tells of",
    "Users": "the owner's: who there is on a server, and the namespaces that they have and share",
    "remove_backup": "the owner's: it removes such a copy",
    "history.namespaces": "the owner's list of them",
    "store_namespace": "a name of a partition, made of its arguments alone",
}
"""Public calls that are not about one namespace, or whole classes, each with the reason."""


HOLDERS = (
    "LongTermMemory",
    "HistoryStorage",
    "Conversation",
    "MemoryLookup",
    "EmbeddingCache",
    "Database",
    "FileDatabase",
    "VectorStore",
)
"""What holds memories of namespaces, or lets one look at them."""


def calls_of(face: Mapping[str, object]) -> set[str]:
    """Return every public call of *face* that may meet memories: it takes a namespace or what holds memories, or its
    class does.
    """
    found = set()
    for name, element in face.items():
        if inspect.isfunction(element):
            found |= {name} if _meets_memories(element) else set()
        elif inspect.isclass(element) and not getattr(element, "_is_protocol", False):
            history = "history" if issubclass(element, DatabaseHistory) else name
            methods = {n: m for n, m in inspect.getmembers(element, inspect.isroutine) if not n.startswith("_")}
            every = element is LongTermMemory or history == "history" or _meets_memories(element)
            found |= {f"{history}.{n}" for n, method in methods.items() if every or _meets_memories(method)}
    return found


def _meets_memories(one: Callable[..., Any]) -> bool:
    try:
        taken = inspect.signature(one).parameters
    except ValueError:  # an exception, or another class that Python has built
        return False
    named = {word for each in taken.values() for word in re.findall(r"\w+", str(each.annotation))}
    return "namespace" in taken or not named.isdisjoint(HOLDERS)


def uncovered(face: Mapping[str, object], documents: Path) -> set[str]:
    made = {name for name, _ in calls_drawn(random.Random(0), documents)}
    return {
        element
        for element in calls_of(face) - made
        if OF_THE_FILE.keys().isdisjoint({element, element.partition(".")[0]})
    }


FACE = {name: getattr(face, name) for face in (memory_face, tellback.memory.internals) for name in face.__all__}


def test_every_public_call_of_one_namespace_is_covered_by_the_isolation_scripts(tmp_path: Path) -> None:
    assert uncovered(FACE, tmp_path) == set()


def test_every_exemption_from_the_isolation_scripts_is_a_public_call() -> None:
    calls = calls_of(FACE)
    assert set(OF_THE_FILE) <= calls | {element.partition(".")[0] for element in calls}


def test_a_new_public_call_missing_in_the_isolation_scripts_is_noticed(tmp_path: Path) -> None:
    class Shelf:
        def __init__(self, memory: LongTermMemory, namespace: str = "") -> None: ...
        def books(self) -> None: ...

    class Board:
        def notes(self, *, namespace: str = "") -> None: ...
        def size(self) -> None: ...

    class Reader:
        def __init__(self, storage: HistoryStorage) -> None: ...
        def read(self) -> None: ...

    def tidy(*, namespace: str = "") -> None: ...
    def weigh(memory: LongTermMemory) -> None: ...

    face = {**FACE, "Shelf": Shelf, "Board": Board, "Reader": Reader, "tidy": tidy, "weigh": weigh}
    assert uncovered(face, tmp_path) == {"Shelf.books", "Board.notes", "Reader.read", "tidy", "weigh"}


def database_of(kind: str, path: Path) -> Database:
    return InMemoryDatabase() if kind == "numpy" else SqliteDatabase(path / "m.db")


@pytest.mark.parametrize("kind", ["numpy", "sqlite"])
def test_idempotency_keys_are_kept_apart_by_namespace(tmp_path: Path, kind: str) -> None:
    """The names are hashes that differ by namespace anyway, so that no call would show it."""
    assert keyed_id(b"secret", "mine", "first") not in (
        keyed_id(b"secret", "", "first"),
        keyed_id(b"secret", "min", "efirst"),
    )
    keys = IdempotencyKeys(database_of(kind, tmp_path), b"secret")
    for namespace in ("mine", "other"):
        keys.put(namespace, f"of {namespace}", "m1")
        keys.put(namespace, "of both", namespace)
    assert (keys.get("mine", "of other"), keys.get("mine", "of both")) == (None, "mine")
    assert keys.of("mine", ["m1", "other"]) == [("of mine", "m1")]
    assert (keys.remove("other", ["m1", "mine"]), keys.remove("other", None)) == (1, 1)
    assert keys.of("mine", ["m1", "mine"]) == [("of both", "mine"), ("of mine", "m1")]


@pytest.mark.parametrize("kind", ["numpy", "sqlite"])
def test_lifting_tombstones_and_soft_deletes_of_one_namespace_leaves_those_of_another(
    tmp_path: Path, kind: str
) -> None:
    database = database_of(kind, tmp_path)
    tombstones, held = Tombstones(database), SoftDeletes(database)
    for namespace in ("mine", "other"):
        tombstones.add(namespace, ["m1"], NOW)
        tombstones.add_words(namespace, ["The kite flies."], NOW)
        held.put(SoftDelete("o1", namespace, NOW, "", (), ()))
    tombstones.lift("other", ["m1"])
    tombstones.lift_words("other", ["The kite flies."])
    assert held.erase("other", "o1")
    assert (tombstones.which("mine", ["m1"]), tombstones.words_at("mine", "The kite flies.")) == ({"m1"}, NOW)
    assert (tombstones.which("other", ["m1"]), tombstones.words_at("other", "The kite flies.")) == (set(), None)
    assert (tombstones.partitions(), tombstones.ids("other")) == (["mine"], [])
    assert (held.of("mine"), held.of("other"), held.get("other", "o1")) == (["o1"], [], None)
    assert held.get("mine", "o1") is not None


@pytest.mark.parametrize("kind", ["numpy", "sqlite"])
def test_history_rows_and_summaries_are_kept_apart_by_namespace(tmp_path: Path, kind: str) -> None:
    """The same session, numbers, memories and words in both; what goes of one stays of the other."""
    rows = InMemoryHistory().rows if kind == "numpy" else DatabaseHistory(SqliteDatabase(tmp_path / "m.db")).rows
    reported = Summary("tale", "The kite flies, it was said.", 1, 1, NOW)
    for namespace in ("mine", "other"):
        rows.append("monday", [Message.user("The kite flies.")], namespace=namespace, memories=["m1"])
        assert rows.keep_summary("monday", reported, before=None, made_of=[1], namespace=namespace)

    def found(namespace: str) -> list[int]:
        asked = (
            rows.of_memories(["m1"], namespace=namespace),
            rows.at([("monday", 1)], namespace=namespace),
            rows.holding(["The kite flies."], namespace=namespace),
            list(rows.kept(namespace=namespace)),
            rows.load("monday", namespace=namespace),
            rows.sessions(namespace=namespace),
        )
        assert {row.namespace for some in asked[:4] for row in some} <= {namespace}
        return [len(some) for some in asked]

    assert found("mine") == found("other") == [1] * 6
    rows.append("monday", [Message.user("It rains.")], namespace="third")
    assert rows.keep_summary("monday", replace(reported, text="Rain."), before=None, made_of=[1], namespace="third")
    assert rows.erase_summaries([], lambda text: "kite" in text, namespace="third") == 0
    assert rows.erase_summaries([], lambda text: "kite" in text, namespace="other") == 1
    assert rows.summary("monday", "tale", namespace="mine") is not None
    rows.erase(rows.at([("monday", 1)], namespace="other"))
    assert rows.summary("monday", "tale", namespace="mine") is not None
    assert (found("mine"), found("other"), rows.summary("monday", "tale", namespace="other")) == (
        [1] * 6,
        [0] * 6,
        None,
    )
    assert rows.erase_namespace("other") == 0
    assert found("mine") == [1] * 6
