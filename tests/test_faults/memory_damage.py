"""A memory's file is damaged: right texts or a typed error from every call; what can be read of each part is saved.

Beside each damaged copy plain SQL counts what it can read of every table; the salvage must save as much. The new file
is a memory that opens, verifies and recalls, and the damaged one stays as it is.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw

from tellback.memory import HashingEmbedder, KnowledgeBase, LongTermMemory, Memory, Message, open_memory, salvage_memory
from tellback.vectorstore import DamageError, NewerFile, NotAStore
from tests.test_faults.children import Child, Say
from tests.test_faults.damaging import count_answers
from tests.test_faults.wounds import WOUNDS

_TYPED: Final = (DamageError, NotAStore, NewerFile)
_SESSIONS: Final = 10
_UNCHECKED: Final = ("tombstones", "tombstone_words", "keys", "history_bounds")
_GOOD: Final = ("right", "refused", "saved", "unreadable")


def damage_memory(folder: str, seed: int, rounds: int) -> dict[str, Any]:
    """Damage a copy of a memory in a new way *rounds* times, and examine each in a process of its own."""
    base, rng = Path(folder) / "whole" / "m.db", random.Random(seed)
    base.parent.mkdir()
    assert Child(lambda _: _fill(base)).wait().code == 0
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for turn in range(rounds):
        wound = rng.choice(sorted(WOUNDS))
        path = Path(folder) / "damaged" / "m.db"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        path.write_bytes(WOUNDS[wound](bytearray(base.read_bytes()), rng))
        ended = Child(lambda say, path=path: _examine(base, path, say)).kill_after(200)
        broken += count_answers(ended, f"round {turn} ({wound})", _GOOD, counts)
    return {"seed": seed, "rounds": rounds, **counts, "broken": broken[:20]}


def _open(path: Path) -> LongTermMemory:
    return open_memory(path, embedder=HashingEmbedder())


def _fill(path: Path) -> None:
    async def fill(memory: LongTermMemory) -> None:
        await memory.remember_many([Memory(f"Note {n}: the zorb of town {n} is blue.") for n in range(150)])
        for number in range(_SESSIONS):
            turn = [Message.user(f"My café number {number} is in Évora."), Message.assistant("Noted.")]
            await memory.remember_turn(f"s{number}", turn)
        for number in range(10):
            report = await memory.remember(f"I live in town {number}.")
            await memory.correct(report.id, f"I live in village {number}.")
            gone = await memory.remember(f"Vault {number} opens with {number} turns.")
            await memory.forget([gone.id], grace=timedelta(days=30) if number % 2 else None)
            memory.keys.name_key("", f"key {number}", report.id)
        document = path.with_name("notes.md")
        document.write_text("# Boats\n\n" + "\n\n".join(f"Ferry {number} leaves at nine." for number in range(40)))
        await KnowledgeBase(memory).ingest(document)

    memory = _open(path)
    asyncio.run(fill(memory))
    asyncio.run(memory.close())


def _texts(memory: LongTermMemory) -> Iterator[str]:
    for name in memory.store.namespaces():
        yield from (entry.text for entry in memory.store.scan(namespace=name))


def _examine(base: Path, path: Path, say: Say) -> None:
    whole = _open(base)
    known = set(_texts(whole))
    asyncio.run(whole.close())
    before, readable = path.read_bytes(), dict(_readable(path))
    _save(path, readable, known, say)
    if path.read_bytes() != before:
        say("changed: salvage changed the damaged file")
    try:
        memory = _open(path)
    except _TYPED as error:
        say(f"refused to open: {type(error).__name__}")
        return
    try:
        for what, ask in {
            "scan": lambda: [*_texts(memory)],
            "recall": lambda: [hit.memory.text for hit in asyncio.run(memory.recall("Which town has a blue zorb?"))],
            "sessions": lambda: asyncio.run(memory.conversations.sessions()) and [],
            "messages": lambda: _loaded(memory),
            "operations": lambda: memory.operation_log.list("") and [],
            "export": lambda: asyncio.run(memory.export(path.with_name("out.jsonl"))) and [],
            "verify": lambda: memory.store.verify() and [],
        }.items():
            try:
                found = ask()
            except _TYPED as error:
                say(f"refused {what}: {type(error).__name__}")
                continue
            say(f"right {what}" if known.issuperset(found) else f"wrong {what}: {set(found) - known}")
    finally:
        asyncio.run(memory.close())


def _loaded(memory: LongTermMemory) -> list[str]:
    for number in range(_SESSIONS):
        for stored in asyncio.run(memory.conversations.load(f"s{number}")):
            if stored.message.role == "user" and stored.message.text != f"My café number {number} is in Évora.":
                return [stored.message.text]
    return []


def _readable(path: Path) -> Iterator[tuple[str, int]]:
    """Yield for each table without checksums how many rows plain SQL reads of it, from its beginning."""
    for table in _UNCHECKED:
        count = 0
        with suppress(apsw.Error, UnicodeDecodeError):
            connection = apsw.Connection(str(path.as_uri()) + "?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | 0x40)
            for _ in connection.execute(f"SELECT * FROM {table}"):
                count += 1
        yield table, count


def _save(path: Path, readable: dict[str, int], known: set[str], say: Say) -> None:
    saved = path.with_name("saved.db")
    try:
        report = salvage_memory(path, saved)
    except _TYPED as error:
        say(f"unsaved {readable}: {error}" if any(readable.values()) else "unreadable")
        return
    memory = _open(saved)
    try:
        findings, texts = memory.store.verify(), set(_texts(memory))
        asyncio.run(memory.recall("Which town has a blue zorb?"))
    finally:
        asyncio.run(memory.close())
    refused = {part.table: part.lost for part in report.tables if part.lost != 0}
    less = {table: count for table, count in readable.items() if report.saved(table) < count and table not in refused}
    if findings or report.findings or less or not texts <= known:
        say(f"unsaved: {findings[:2]} {report.findings[:2]} {less} {sorted(texts - known)[:2]}")
    else:
        say("saved")
