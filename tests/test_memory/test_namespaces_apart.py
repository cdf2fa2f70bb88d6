"""Two namespaces never meet: the same calls give the same bytes whether another namespace is empty, full or at work.

Each script is drawn from a seed and covers every public call that takes a namespace. It runs in two copies of one
file (or two stores in memory): in one nothing else is there; in the other a second namespace was filled before, with
the same ids, keys, sessions and documents, and goes on writing between the calls. Answers and error texts are compared.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from memory import (
    FixedWindow,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    MemoryLayerError,
    Message,
    ShortTermMemory,
    SummaryWindow,
)
from memory.embedders.space import embedder_space
from memory.portable.report import Mode
from vectorstore import VectorStoreError, open_store

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OTHER = "other"
WORDS = [
    "garden",
    "piano",
    "bridge",
    "letter",
    "winter",
    "candle",
    "harbour",
    "bicycle",
    "lantern",
    "orchard",
    "violin",
    "market",
]
IDS = [f"m{number}" for number in range(8)]
SESSIONS = ("monday", "tuesday")
STEPS = 60


class World:
    """A memory whose clock and ids are counted apart for each namespace, so that both worlds count alike."""

    def __init__(self, url: str) -> None:
        self.side, self.minute = "", 0
        self._counts: dict[tuple[str, str], int] = {}
        embedder = HashingEmbedder(dimension=32)
        self.memory = LongTermMemory(
            open_store(url, space=embedder_space(embedder)),
            embedder=embedder,
            clock=lambda: NOW + timedelta(minutes=self.minute),
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
        return self.memory


Call = Callable[[LongTermMemory, str], Awaitable[Any]]


def sentence(rng: random.Random) -> str:
    return f"The {rng.choice(WORDS)} stands near the {rng.choice(WORDS)} of {rng.choice(('Ana', 'Ben'))}."


def drawn(rng: random.Random, documents: Path) -> tuple[str, Call]:
    """Return one call with its arguments: the name of the method, and what to do with a memory in a namespace."""
    id, more = rng.choice(IDS), rng.sample(IDS, 2)
    text, word, session = sentence(rng), rng.choice(WORDS), rng.choice(SESSIONS)
    said = [Message.user(text), Message.assistant(f"I see: {word}.")]
    day, operation = NOW + timedelta(hours=rng.randint(-3, 3)), f"o{rng.randint(1, 40)}"
    sweeping = rng.random() < 0.1
    item = Memory(text, id=id, tags=(word,), scopes={"user": rng.choice(("ana", "ben"))}, session=session)
    keyed = Memory(text, key=rng.choice(("first", "second")), importance=rng.random())

    def knowledge(memory: LongTermMemory, namespace: str) -> KnowledgeBase:
        return KnowledgeBase(memory, namespace=namespace)

    def window(memory: LongTermMemory, namespace: str) -> ShortTermMemory:
        summed_up = SummaryWindow(FixedWindow(messages=2), lambda so_far, given: f"{so_far} {given[-1].text}")
        return ShortTermMemory(memory.conversations, policy=summed_up, session=session, namespace=namespace)

    async def exported(memory: LongTermMemory, namespace: str) -> tuple[object, bytes]:
        with suppress(FileNotFoundError):
            file.unlink()
        report = await memory.export(file, namespace=namespace, vectors=sweeping)
        return report, file.read_bytes()

    async def imported(memory: LongTermMemory, namespace: str) -> tuple[object, object]:
        return await exported(memory, namespace), await memory.import_(file, mode=mode, namespace=namespace)

    file, mode = documents.with_name("export.jsonl"), rng.choice(get_args(Mode))
    calls: list[tuple[str, Call]] = [
        ("remember", lambda m, n: m.remember(item, namespace=n)),
        ("remember", lambda m, n: m.remember(keyed, namespace=n)),
        ("remember_many", lambda m, n: m.remember_many([text, item, keyed], namespace=n)),
        ("remember_turn", lambda m, n: m.remember_turn(session, said, namespace=n)),
        ("recall", lambda m, n: m.recall(f"Where is the {word}?", namespace=n, explain=True)),
        ("recall", lambda m, n: m.recall(f"What about the {word} of Ana?", 3, namespace=[n], tags=(word,))),
        ("recall", lambda m, n: m.recall(f"Where was the {word}?", namespace=n, as_of=day, token_budget=60)),
        ("why_not", lambda m, n: m.why_not(f"Where is the {word}?", id, namespace=n)),
        ("get", lambda m, n: m.get([id, "i1", "nowhere"], namespace=n)),
        ("correct", lambda m, n: m.correct(id, text, namespace=n)),
        ("history", lambda m, n: m.history(id, namespace=n)),
        ("merge", lambda m, n: m.merge(more, text, namespace=n)),
        ("pin", lambda m, n: m.pin(more, namespace=n)),
        ("unpin", lambda m, n: m.unpin([id], namespace=n)),
        ("disable", lambda m, n: m.disable([id], namespace=n)),
        ("enable", lambda m, n: m.enable([id], namespace=n)),
        ("tag", lambda m, n: m.tag([id], [word], namespace=n)),
        ("untag", lambda m, n: m.untag([id], [word], namespace=n)),
        ("set_importance", lambda m, n: m.set_importance([id], 0.5, namespace=n)),
        ("expire", lambda m, n: m.expire([id], day, namespace=n)),
        ("end", lambda m, n: m.end(id, day, namespace=n)),
        ("undo", lambda m, n: m.undo(operation, namespace=n)),
        ("operations", lambda m, n: m.operations(namespace=n)),
        ("operations", lambda m, n: m.operations(memory=id, before=operation, namespace=n)),
        ("list", lambda m, n: m.list(namespace=n, order="newest", tags=(word,))),
        ("list", lambda m, n: m.list(namespace=n, limit=3)),
        ("pinned", lambda m, n: m.pinned(namespace=n)),
        ("count", lambda m, n: m.count(namespace=n)),
        ("stats", lambda m, n: m.stats(namespace=n)),
        ("pending", lambda m, n: m.pending(namespace=n)),
        ("flush", lambda m, n: m.flush(namespace=n)),
        ("forget", lambda m, n: m.forget([id], namespace=n)),
        ("forget", lambda m, n: m.forget(query=f"the {word}", k=2, namespace=n, dry_run=True)),
        ("forget", lambda m, n: m.forget(session=session, namespace=n, grace=timedelta(days=1))),
        ("restore_forgotten", lambda m, n: m.restore_forgotten(operation, namespace=n)),
        ("forget_namespace", lambda m, n: m.forget_namespace(n, dry_run=not sweeping)),
        ("export", exported),
        ("import_", imported),
        ("ingest", lambda m, n: knowledge(m, n).ingest([documents])),
        ("documents", lambda m, n: knowledge(m, n).documents()),
        ("retrieve", lambda m, n: knowledge(m, n).retrieve(f"Where is the {word}?", neighbours=1)),
        ("remove", lambda m, n: knowledge(m, n).remove("notes.md")),
        ("append", lambda m, n: window(m, n).append(*said)),
        ("load", lambda m, n: window(m, n).load(limit=4)),
        ("window", lambda m, n: window(m, n).window()),
        ("summary", lambda m, n: m.conversations.summary(session, "summary", namespace=n)),
        ("clear", lambda m, n: window(m, n).clear()),
        ("sessions", lambda m, n: m.conversations.sessions(namespace=n)),
        ("replace", lambda m, n: m.conversations.replace(session, said, namespace=n)),
        ("delete", lambda m, n: m.conversations.delete(session, [1, 2], namespace=n)),
    ]
    return rng.choice(calls)


async def answered(call: Call, memory: LongTermMemory, namespace: str) -> str:
    """Return what a call says, or how it complains."""
    try:
        return repr(await call(memory, namespace))
    except (MemoryLayerError, VectorStoreError) as error:
        return f"{type(error).__name__}: {error}"


async def played(world: World, script: Sequence[tuple[str, Call]], meanwhile: Sequence[Call]) -> list[str]:
    """Run *script* in the namespace "mine"; before it and between its calls, *meanwhile* in the other."""
    busy = iter(meanwhile)
    for call in [*zip(range(STEPS), busy, strict=False)]:
        await answered(call[1], world.of(OTHER, 0), OTHER)
    said = []
    for minute, (name, call) in enumerate(script):
        said.append(f"{name}: {await answered(call, world.of('mine', minute), 'mine')}")
        for other in [*zip(range(1), busy, strict=False)]:
            await answered(other[1], world.of(OTHER, minute), OTHER)
    return said


@pytest.fixture(params=["numpy", "sqlite"])
def worlds(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[World, World]]:
    if request.param == "numpy":
        yield World("numpy:"), World("numpy:")
        return
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    asyncio.run(World(f"sqlite:///{first}").memory.close())
    shutil.copy(first, second)  # one key, so that the ids made of it are the same
    pair = World(f"sqlite:///{first}"), World(f"sqlite:///{second}")
    yield pair
    for one in pair:
        asyncio.run(one.memory.close())


@pytest.mark.parametrize("seed", range(6))
def test_what_another_namespace_holds_or_does_changes_no_answer(
    worlds: tuple[World, World], tmp_path: Path, seed: int
) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "notes.md").write_text(
        "# Harbour\n\nThe lantern hangs over the harbour.\n\n# Market\n\nThe market opens.\n"
    )
    alone, beside = worlds
    rng = random.Random(seed)
    script = [drawn(rng, documents) for _ in range(STEPS)]
    busy = [drawn(rng, documents)[1] for _ in range(2 * STEPS)]
    said = asyncio.run(played(alone, script, ()))
    assert sum("Error" not in one and "NoSuchMemory" not in one for one in said) > STEPS / 3
    for place, (one, other) in enumerate(zip(said, asyncio.run(played(beside, script, busy)), strict=True)):
        assert one == other, f"seed {seed}, call {place}"


def test_every_public_call_with_a_namespace_is_in_the_scripts(tmp_path: Path) -> None:
    rng = random.Random(0)
    covered = {drawn(rng, tmp_path)[0] for _ in range(5000)}
    named = {
        name
        for name, method in inspect.getmembers(LongTermMemory, inspect.isfunction)
        if not name.startswith("_") and "namespace" in inspect.signature(method).parameters
    }
    of_one = {
        name
        for kind in (KnowledgeBase, ShortTermMemory)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert named | of_one - {"cite", "close"} <= covered
