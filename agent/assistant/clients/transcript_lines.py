"""Objects of a JSON Lines file, one at a time, from any byte on; compressed files too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, Final, cast

from tellback.agent.assistant.clients.transcript import TranscriptEntry
from tellback.agent.json_values import parsed_object
from tellback.vectorstore import MissingExtra

_MAX_LINE_BYTES: Final = 32_000_000
"""Length of a line above which it is skipped: nobody types so much."""


class JsonLines:
    """Objects of the lines of *path* from the byte *start* on; a line that begins before it is skipped.

    A line that is not an object is skipped, too. *end* is the byte after the last whole line that was read: a client
    may be writing the next one. A compressed file (``.zst``) is read from its beginning, and its *end* stays 0.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path, self.end = path, start

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        if self.path.suffix == ".zst":
            with _decompressed(self.path) as file:
                yield from self._objects(file)
            self.end = 0
            return
        with self.path.open("rb") as file:
            if self.end:
                file.seek(self.end - 1)
                self.end += _skip_line(file) - 1
            yield from self._objects(file)

    def _objects(self, file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
        while line := file.readline(_MAX_LINE_BYTES):
            is_whole = line.endswith(b"\n")
            length = len(line)
            if not is_whole and length == _MAX_LINE_BYTES:
                self.end += length + _skip_line(file)
                continue
            self.end += length if is_whole else 0
            if (value := parsed_object(line)) is not None:
                yield value


def first_object(path: Path) -> Mapping[str, Any]:
    """Return the object of the first line of *path*; an empty one where there is none."""
    return next(iter(JsonLines(path)), {})


def _skip_line(file: IO[bytes]) -> int:
    """Read to the end of the line; return how many bytes that were."""
    skipped = 0
    while part := file.readline(_MAX_LINE_BYTES):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def _decompressed(path: Path) -> IO[bytes]:
    try:
        from zstandard import ZstdDecompressor
    except ImportError as error:
        raise MissingExtra("reading compressed sessions", "codex") from error
    reader = ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True, closefd=True)
    return BufferedReader(cast("RawIOBase", reader))


def parsed_time(value: object) -> datetime | None:
    """Return the time in the ISO text *value*, in UTC where it has no zone; None for anything else."""
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
    """Return *entries* with only the last answer of each turn; texts between tool calls are no answers."""
    kept: list[TranscriptEntry] = []
    for entry in entries:
        if entry.role == "assistant" and kept and kept[-1].role == "assistant":
            kept.pop()
        kept.append(entry)
    return tuple(kept)


def oldest_first(paths: Iterable[Path]) -> list[Path]:
    """Return the files among *paths* by their last change, oldest first; links and vanished files are left out."""
    dated = []
    for path in paths:
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.is_file():
                dated.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated)]
