"""Lines of a JSON Lines file, one object at a time; of a file's end alone where that is enough."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agent.assistant.clients.client import TranscriptEntry

_MAX_LINE_BYTES: Final = 32_000_000
"""Length of a line above which it is passed over: what a person typed is in none of those."""


def json_lines(path: Path, *, tail: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of *path*; of its last *tail* bytes alone where given.

    A line that is no object, or is cut off, is passed over: a client may be writing the last one.
    """
    with path.open("rb") as file:
        if tail is not None:
            size = file.seek(0, 2)
            file.seek(max(size - tail, 0))
            if size > tail:
                _skip_line(file)
        while line := file.readline(_MAX_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) == _MAX_LINE_BYTES:
                _skip_line(file)
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def _skip_line(file: Any) -> None:
    while (part := file.readline(_MAX_LINE_BYTES)) and not part.endswith(b"\n"):
        pass


def parsed_time(value: object) -> datetime | None:
    """Return the aware time that *value* writes in ISO form; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def block_texts(content: object) -> list[str]:
    """Return the texts of a message's *content*: a string, or a list of blocks with a text each."""
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else ()
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def with_last_answers(entries: Iterable[TranscriptEntry]) -> tuple[TranscriptEntry, ...]:
    """Return *entries* with the last answer of each turn alone; what is said between calls of tools is none."""
    kept: list[TranscriptEntry] = []
    for entry in entries:
        if entry.role == "assistant" and kept and kept[-1].role == "assistant":
            kept.pop()
        kept.append(entry)
    return tuple(kept)


def oldest_first(paths: Iterable[Path]) -> list[Path]:
    """Return *paths* of files by when they were last written; links and what is gone meanwhile are left out."""
    dated = []
    for path in paths:
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.is_file():
                dated.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated)]
