"""Memories as Markdown notes with front matter, one a file, as note programs and our own Markdown loader read them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory

_NAME_LENGTH: Final = 60
_UNSAFE: Final = re.compile(r"[^\w\- ]+")


def note_text(memory: Memory) -> str:
    """Return *memory* as a note: id, kind, trust, line, times and tags in the front matter, then its text."""
    times = {name: getattr(memory, name) for name in ("occurred_at", "valid_from", "valid_to", "recorded_at")}
    fields = {"id": memory.id, "kind": memory.kind, "trust": memory.trust.value, "speaker": memory.speaker}
    fields |= {"about": memory.about, "about_by": memory.about_by}
    fields |= {name: None if moment is None else moment.isoformat() for name, moment in times.items()}
    lines = [f"{name}: {_quoted(value)}" for name, value in fields.items() if value]
    lines += ["tags:", *(f"  - {_quoted(tag)}" for tag in memory.tags)] if memory.tags else []
    return "\n".join(["---", *lines, "---", "", memory.text, ""])


def write_notes(folder: Path, memories: Iterable[Memory]) -> tuple[int, str]:
    """Write each of *memories* as a note of its own into the new *folder*; return how many, and a hash of their texts.

    Folder and files are private.
    """
    if os.path.lexists(folder):
        raise ArgumentError("path", str(folder), "a folder that is not there yet is needed")
    folder.mkdir(mode=0o700)
    count, digest = 0, blake2b(digest_size=32)
    for memory in memories:
        data = note_text(memory).encode()
        digest.update(data)
        with os.fdopen(os.open(folder / _note_name(memory), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
        count += 1
    return count, digest.hexdigest()


def _note_name(memory: Memory) -> str:
    """Return the day, the first words and the id, since two memories may begin alike."""
    moment = memory.occurred_at or memory.recorded_at
    day = "" if moment is None else f"{moment:%Y-%m-%d} "
    id = _UNSAFE.sub("-", memory.id) + blake2b(memory.id.encode(), digest_size=3).hexdigest()
    return f"{day}{_UNSAFE.sub('', ' '.join(memory.text.split()))[:_NAME_LENGTH].strip()} {id[-16:]}.md"


def _quoted(value: str) -> str:
    """Return *value* in quotes where it is more than plain words, on one line."""
    line = " ".join(value.split())
    return line if re.fullmatch(r"[\w./+-][\w ./+-]*|[\w:.+-]+", line) else '"' + line.replace('"', "'") + '"'
