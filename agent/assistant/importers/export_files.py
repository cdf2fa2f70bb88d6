"""Files of a data export: a ZIP archive, a folder that one was unpacked to, or the JSON file out of it.

An archive is read as a stream, member by member, and nothing of it is written to disk.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tellback.agent.assistant.clients.transcript import ConversationSource, Transcript
from tellback.agent.assistant.importers.json_objects import JsonObjects
from tellback.memory import LoadError

CONVERSATION_FILE: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json", re.IGNORECASE)
"""Name of a file of conversations in an export; long ones are split into numbered files."""
_MOST_UNPACKED: Final = 50_000_000_000
_HIGHEST_RATIO: Final = 200
"""Highest compression ratio: conversations reach ten, a hostile archive a thousand."""
_UNPACKING_ERRORS: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatExport(ConversationSource):
    """Data export of a chat service; *transcript* makes a transcript of each conversation.

    *mark* is the field of a conversation that no other export has. *transcript* also gets the byte of the file up to
    which it was read.
    """

    name: str
    title: str
    documented: str
    mark: str
    transcript: Callable[[Mapping[str, Any], int], Transcript]

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the export *path*."""
        for conversation, end in conversation_objects(path):
            yield self.transcript(conversation, end)


def conversation_objects(path: Path) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the objects of all files of conversations in *path*, each with the byte up to which *path* was read.

    Unreadable parts are skipped; in the end ``LoadError`` names them.
    """
    problems: list[str] = []
    for name, file, position in _members(path):
        objects = JsonObjects(file)
        try:
            for value in objects:
                yield value, position()
        except _UNPACKING_ERRORS as error:
            problems.append(f"{name} in it is damaged, and read up to there ({error})")
            continue
        for count, problem in ((objects.damaged, "damaged"), (objects.too_long, "too long")):
            if count:
                problems.append(f"{name}: {count} of its conversations {'is' if count == 1 else 'are'} {problem}")
        if not objects.is_whole:
            problems.append(f"{name} ends in the middle; what comes before that was read")
    if problems:
        raise LoadError(str(path), "; ".join(problems))


def first_conversation(path: Path) -> Mapping[str, Any]:
    """Return the first object of *path*; an empty one for a file without objects, or one that cannot be read."""
    try:
        return next((value for value, _ in conversation_objects(path)), {})
    except (LoadError, OSError):
        return {}


def _members(path: Path) -> Iterator[tuple[str, IO[bytes], Callable[[], int]]]:
    """Yield name and stream of each file of conversations, and a function for the byte of *path* that was reached."""
    if zipfile.is_zipfile(path):
        with path.open("rb") as file, _opened_archive(path, file) as archive:
            for member in sorted(archive.infolist(), key=lambda member: member.filename):
                if CONVERSATION_FILE.fullmatch(member.filename):
                    _check_size(path, member)
                    try:
                        stream = archive.open(member)
                    except _UNPACKING_ERRORS as error:
                        raise LoadError(str(path), f"{member.filename} in it cannot be unpacked ({error})") from error
                    with stream:
                        yield member.filename, stream, file.tell
        return
    with path.open("rb") as file:
        yield path.name, file, file.tell


@contextmanager
def _opened_archive(path: Path, file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(file)
    except _UNPACKING_ERRORS as error:
        raise LoadError(str(path), "damaged: not the ZIP archive that it begins as") from error
    with archive:
        yield archive


def _check_size(path: Path, member: zipfile.ZipInfo) -> None:
    if member.file_size > min(_MOST_UNPACKED, max(member.compress_size, 100_000) * _HIGHEST_RATIO):
        reason = f"{member.filename} in it unpacks to {member.file_size / 1e6:.0f} MB, far more than text does"
        raise LoadError(str(path), reason)


def export_files(path: Path) -> list[Path]:
    """Return the files of an export at *path*: the file itself, or those in the folder of an unpacked export."""
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return [
        file
        for file in files
        if CONVERSATION_FILE.fullmatch(file.name) or (file.suffix == ".zip" and "conversations" in file.stem)
    ]
