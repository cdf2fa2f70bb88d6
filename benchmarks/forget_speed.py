"""CPU time of one ``forget`` in a large memory, with the bytes gone when it returns.

``python -m benchmarks forget-speed [--memories N] [--each N]`` fills a memory in a temporary folder with generated
notes and forgets some of them one by one. The CPU time of the whole process is printed, which other work on the machine
changes little. The first forgetting also clears what the filling left between the rows of pages.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import about
from benchmarks.figure import Figure, show, times
from tellback.memory import HashingEmbedder, open_memory, run_sync

_BATCH = 1000
_BOUND = 300.0
"""Most milliseconds of CPU that one forget may take among 100,000 memories."""
_SYLLABLES = ("ba", "ko", "ri", "ta", "me", "lu", "so", "vi", "ne", "da", "pu", "fi", "go", "zu", "ha")


def notes(count: int, seed: int) -> Iterator[str]:
    """Yield *count* notes of fifteen words from a vocabulary of 6,000."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))) for _ in range(6000)]
    for number in range(count):
        yield f"note {number} " + " ".join(rng.choices(words, k=13))


def measured(folder: Path, memories: int, each: int, seed: int) -> tuple[list[float], int, int]:
    """Fill a memory in *folder* and forget *each* of its notes after a first one, each by itself.

    Return the CPU seconds of each call, the bytes of the file, and how many erasures are still pending.
    """
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
    return seconds, path.stat().st_size, pending


def add_command(commands: Any) -> None:
    """Put ``forget-speed`` among the *commands* of the command line."""
    parser = commands.add_parser("forget-speed", help="CPU time of one forget in a large memory")
    parser.add_argument("--memories", type=int, default=100_000, help="memories in the file")
    parser.add_argument("--each", type=int, default=10, help="memories forgotten after the first")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the notes and choices")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure and print."""
    say(f"remembering {given.memories:,} notes")
    with tempfile.TemporaryDirectory() as folder:
        seconds, size, pending = measured(Path(folder), given.memories, given.each, given.seed)
    figures = [
        times("the first forget, CPU", given.memories, seconds[:1]),
        times("each further one, CPU", given.memories, seconds[1:], _BOUND),
        Figure("file", given.memories, "MB", size / 1e6),
        Figure("erasures still pending", given.memories, "", pending, bound=0),
    ]
    show("Forgetting", "memories", figures, about.circumstances(words, ["tellback"]))
    return 0
