"""A long life of a memory in which words come and go: no word that only forgotten texts had is left in any byte.

Short lives do not show this: SQLite leaves copies of rows in pages that it rebuilds, and pages must have been rebuilt
before the forgetting.
"""

from __future__ import annotations

import os
import random
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

from tellback.memory import HashingEmbedder, LongTermMemory, Message, open_memory, run_sync
from tests.test_faults.planted import leave_page_gaps

_WORD = re.compile(rb"zq[a-z]{7}x")
"""Invented words: the analyzer's stemming leaves them as they are."""
_CHUNK = 1 << 20


def forgotten_life(folder: str, seed: int, texts: int, planted: bool = False) -> dict[str, Any]:
    """Remember and forget in turn until so many *texts* were forgotten; look at every byte after each forgetting.

    A *planted* fault is looked for until it is found.
    """
    if planted:
        leave_page_gaps()
    rng, path = random.Random(seed), Path(folder) / "memory.db"
    memory = open_memory(path, embedder=HashingEmbedder(dimension=16))
    files = _Files(path)
    living, uses = dict[str, str](), Counter[str]()
    forgotten, looks, unverified, broken = 0, 0, 0, []
    while forgotten < texts and not (planted and broken):
        for text in [_text(rng, uses) for _ in range(rng.randint(4, 24))]:
            living[_remembered(memory, text, rng)] = text
            uses.update(set(text.split()))
        ids = rng.sample(sorted(living), min(rng.randint(1, 9), len(living)))
        receipt = run_sync(memory.forget(ids))
        gone = [living.pop(id) for id in receipt.ids if id in living]
        for text in gone:
            uses.subtract(set(text.split()))
        forgotten, looks = forgotten + len(gone), looks + 1
        left = sorted(word for word in files.words() if not uses[word])
        if receipt.pending or left:
            broken.append(f"after {forgotten} texts: pending {receipt.pending}, {len(left)} words left: {left[:3]}")
        if rng.random() < 0.05:
            unverified += not run_sync(memory.verify_forgotten(receipt, gone)).gone
    run_sync(memory.close())
    broken += [f"after closing: {word}" for word in sorted(files.words()) if not uses[word]]
    return {
        "seed": seed,
        "texts": texts,
        "forgotten": forgotten,
        "looks": looks,
        "unverified": unverified,
        "bytes": path.stat().st_size,
        "broken": broken[:20],
    }


def _text(rng: random.Random, uses: Counter[str]) -> str:
    """Return a text of new words and a few known ones; now and then a long one, over several pages."""
    count = rng.choice((3, 6, 12, 12, 900 if rng.random() < 0.1 else 30))
    new = ["zq" + "".join(rng.choices(string.ascii_lowercase, k=7)) + "x" for _ in range(count)]
    known = list(uses)[-200:]
    return " ".join(new + rng.sample(known, min(3, len(known))))


def _remembered(memory: LongTermMemory, text: str, rng: random.Random) -> str:
    """Remember *text*, by itself or as a turn of a conversation, and return its id."""
    if rng.random() < 0.3:
        (report,) = run_sync(memory.remember_turn(f"session {rng.randrange(5)}", [Message.user(text)]))
    else:
        report = run_sync(memory.remember(text))
    assert report.id is not None
    return report.id


class _Files:
    """The memory's file and log. They stay open: closing one would take SQLite's locks in this process away."""

    def __init__(self, path: Path) -> None:
        self._paths = [path, path.with_name(path.name + "-wal")]
        self._open: dict[int, int] = {}

    def words(self) -> set[str]:
        """Return every invented word in their bytes."""
        found: set[bytes] = set()
        for path in self._paths:
            if path.exists():
                found.update(_WORD.findall(self._content(path)))
        return {word.decode() for word in found}

    def _content(self, path: Path) -> bytes:
        inode = path.stat().st_ino
        if inode not in self._open:
            self._open[inode] = os.open(path, os.O_RDONLY)
        parts, offset = [], 0
        while part := os.pread(self._open[inode], _CHUNK, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)
