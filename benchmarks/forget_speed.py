"""CPU time of one ``forget`` in a large memory, with the bytes gone when it returns.

``python -m benchmarks forget-speed [--memories N] [--each N]`` fills a memory in a temporary folder with generated
notes and forgets some of them one by one. The CPU time of the whole process is printed, which other work on the machine
changes little. The first forgetting also clears what the filling left between the rows of pages.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tellback.memory import HashingEmbedder, open_memory, run_sync

_BATCH = 1000
_SYLLABLES = ("ba", "ko", "ri", "ta", "me", "lu", "so", "vi", "ne", "da", "pu", "fi", "go", "zu", "ha")


@dataclass(frozen=True, slots=True)
class ForgetTimes:
    """CPU seconds of the first and of the further calls, and the bytes of the file."""

    first: float
    further: tuple[float, ...]
    bytes: int
    pending: int


def notes(count: int, seed: int) -> Iterator[str]:
    """Yield *count* notes of fifteen words from a vocabulary of 6,000."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))) for _ in range(6000)]
    for number in range(count):
        yield f"note {number} " + " ".join(rng.choices(words, k=13))


def measured(folder: Path, memories: int, each: int, seed: int) -> ForgetTimes:
    """Fill a memory in *folder* and forget *each* of its notes after a first one, each by itself."""
    path = folder / "memory.db"
    memory = open_memory(path, embedder=HashingEmbedder(dimension=256))
    texts, ids = list(notes(memories, seed)), list[str]()
    for start in range(0, memories, _BATCH):
        ids += [report.id for report in run_sync(memory.remember_many(texts[start : start + _BATCH]))]
    seconds, pending = [], 0
    for id in random.Random(seed).sample(ids, 1 + each):
        begun = time.process_time()
        pending += run_sync(memory.forget([id])).pending
        seconds.append(time.process_time() - begun)
    run_sync(memory.close())
    return ForgetTimes(seconds[0], tuple(seconds[1:]), path.stat().st_size, pending)


def add_command(commands: Any) -> None:
    """Put ``forget-speed`` among the *commands* of the command line."""
    parser = commands.add_parser("forget-speed", help="CPU time of one forget in a large memory")
    parser.add_argument("--memories", type=int, default=100_000, help="memories in the file")
    parser.add_argument("--each", type=int, default=10, help="memories forgotten after the first")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the notes and choices")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, *_: object) -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        times = measured(Path(folder), given.memories, given.each, given.seed)
    median, most = statistics.median(times.further), max(times.further)
    lines = (
        f"{given.memories:,} memories, {times.bytes / 1e6:.0f} MB, seed {given.seed}",
        f"first forget      {times.first:.3f} CPU s",
        f"each further one  {median:.3f} CPU s (median of {given.each}, at most {most:.3f})",
        f"pending           {times.pending}",
    )
    for line in lines:
        Console(width=110).print(line, markup=False, highlight=False)
    return 0
