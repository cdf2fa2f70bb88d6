"""Speed of reading files: pages of a documentation, 1,000 Markdown files, and these again when nothing changed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tellback.memory import KnowledgeBase, open_memory
from tellback.memory.documents.loaders.html import read_html

_FILES = 200
"""Files of a documentation that are read."""
_NOTES, _LEAST_NOTE, _MOST_NOTE = 1_000, 2_000, 6_000
"""Markdown files, and the characters that each has at least and at most."""


class Speed(NamedTuple):
    """Ingest of *what*: *files*, *chunks*, wall time and CPU time in seconds."""

    what: str
    files: int
    chunks: int
    seconds: float
    cpu: float


def measure_speed(folder: Path, work: Path) -> list[Speed]:
    """Return the ingest of the first HTML files of *folder*, and of Markdown files made of the same pages, twice."""
    files, notes = sorted(folder.rglob("*.html")), work / "notes"
    _write_notes(files, notes)
    return [
        _ours(files[:_FILES], work / "speed.db", "HTML files"),
        _ours([notes], work / "notes.db", "Markdown files"),
        _ours([notes], work / "notes.db", "the same, unchanged"),
    ]


def _write_notes(pages: Sequence[Path], folder: Path) -> None:
    """Write the sections of *pages* as Markdown files, 1,000 of 2,000 to 6,000 characters, with yesterday's time."""
    folder.mkdir(exist_ok=True)
    yesterday, written = time.time() - 86_400, 0
    for page in pages:
        text = read_html(page.read_bytes(), page.name).text
        for start in range(0, len(text) - _LEAST_NOTE, _MOST_NOTE):
            path = folder / f"{written:04}.md"
            path.write_text(text[start : start + _MOST_NOTE], "utf-8")
            os.utime(path, (yesterday, yesterday))
            written += 1
            if written == _NOTES:
                return


def _ours(paths: Sequence[Path], memory_file: Path, name: str) -> Speed:
    counts: list[int] = []

    async def ingest() -> int:
        async with open_memory(memory_file) as memory:
            report = await KnowledgeBase(memory).ingest(paths)
            counts.append(len(report.lines))
            return report.chunks

    chunks, seconds, cpu = _timed(lambda: asyncio.run(ingest()))
    return Speed(name, counts[0], chunks, seconds, cpu)


def _timed(work: Callable[[], int]) -> tuple[int, float, float]:
    began, cpu = time.perf_counter(), _cpu()
    count = work()
    return count, time.perf_counter() - began, _cpu() - cpu


def _cpu() -> float:
    """Return the CPU time of this process and its finished children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
