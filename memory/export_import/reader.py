"""Reader of an export: every line is checked before anything of it is taken, and recognised when it is taken.

What is wrong is named by its line. Lines are read one by one, so a file of any size needs little memory: what is kept
of a line is where it begins, a hash, and the ids that other lines name.
"""

from __future__ import annotations

import json
import stat
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias

from memory.errors import ArgumentError, UnreadableExport
from memory.export_import.codec import (
    ExportManifest,
    extra_fields,
    lines_hasher,
    memory_from_item,
    message_from_item,
    operation_from_item,
    read_manifest,
    session_from_item,
    tombstone_from_item,
    vector_from_item,
)
from memory.export_import.report import ExportItem
from memory.models import Memory
from memory.partitions import DOCUMENTS, store_namespace
from memory.validation import checked_int, checked_label
from memory.write.context import WriteContext
from memory.write.policies import NEAR_DUPLICATE_KEY

MAX_LINE_BYTES: Final = 1 << 28
"""Bytes of one line: a message may carry a document."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BATCH: Final = 1000
_BATCH_BYTES: Final = 1 << 26
_PROGRESS_INTERVAL: Final = 256
TurnKey: TypeAlias = tuple[str | None, str | None]
"""The session and the operation of a turn."""


@dataclass(slots=True)
class CheckedExport:
    """A file that is whole: its *manifest*, where its lines are, and what they say of one another."""

    path: Path
    manifest: ExportManifest
    versions: int = 0
    """The highest number of a version in it."""
    owners: set[str] = field(default_factory=set)
    """Memories of which it has the present version."""
    by_owner: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The lines of their earlier versions."""
    memories: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    """The lines of memories and passages, of operations, of everything else."""
    sources: set[str] = field(default_factory=set)
    """Memories, and operations that made memories, of which something else in it was made."""
    linked: set[str] = field(default_factory=set)
    """Memories that nearly repeat another, and those that they repeat."""
    joined: set[int] = field(default_factory=set)
    """Lines of messages that were said in one turn with the line before."""
    turn: TurnKey | None = None
    """The turn of the last line that was checked."""
    keys: dict[str, str] = field(default_factory=dict)
    """By id, the keys that callers gave."""
    ends: array[int] = field(default_factory=lambda: array("Q", [0]))
    marks: list[bytes] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many items it has."""
        return sum(self.manifest.counts.values())

    def note(self, line: bytes) -> None:
        """Remember where *line*, the next one, ends, and what it is known by."""
        self.ends.append(self.ends[-1] + len(line))
        self.marks.append(_line_hash(line))

    def batches(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Yield *numbers* of lines, about a thousand at once and not too many bytes; no turn is cut."""
        batch: list[int] = []
        size = 0
        for number in numbers:
            length = self.ends[number] - self.ends[number - 1]
            full = len(batch) >= _BATCH or size + length > _BATCH_BYTES
            if batch and full and number not in self.joined:
                yield batch
                batch, size = [], 0
            batch.append(number)
            size += length
        if batch:
            yield batch

    def lines(self, numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (number, item) for lines, which must be what they were when they were checked."""
        with self.path.open("rb") as file:
            for number in numbers:
                start, end = self.ends[number - 1], self.ends[number]
                file.seek(start)
                line = file.read(end - start)
                if _line_hash(line) != self.marks[number - 1]:
                    raise UnreadableExport(str(self.path), number, "the file was changed while it was read")
                yield number, _parse_object(line, number, self.path)


def check_export(
    context: WriteContext, path: Path, namespace: str, on_progress: Callable[[int, int], object] | None
) -> CheckedExport:
    """Read all of the file and return what it is; what is wrong raises ``UnreadableExport``."""
    _check_path(path)
    found: CheckedExport | None = None
    counts: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    for number, line in _numbered_lines(path):
        if found is None:
            found = CheckedExport(path, read_manifest(line, str(path)))
            found.note(line)
            digest = lines_hasher()
            continue
        digest.update(line)
        found.note(line)
        given = _parse_object(line, number, path)
        try:
            identity = _check_item(context, given, namespace, found, number)
        except ArgumentError as error:
            raise UnreadableExport(str(path), number, str(error)) from error
        if identity is not None:
            if identity in seen:
                raise UnreadableExport(str(path), number, f"{given['type']} {identity[-1]!r} is there twice")
            seen.add(identity)
        counts[given["type"]] += 1
        if on_progress is not None and not number % _PROGRESS_INTERVAL:
            on_progress(number - 1, found.total)
    if found is None:
        raise UnreadableExport(str(path), 1, "the file is empty")
    if digest.hexdigest() != found.manifest.hash:
        what = "the hash of the lines is not the one of the first line; it was edited"
        raise UnreadableExport(str(path), len(found.marks), what)
    if counts != Counter(found.manifest.counts):
        raise UnreadableExport(
            str(path), 1, "it does not hold as many items as its first line says; it was cut or edited"
        )
    return found


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        if file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            raise UnreadableExport(str(path), 1, "it is compressed (gzip); unpack it first")
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if not line.endswith(b"\n"):
                what = (
                    "the line is too long" if len(line) > MAX_LINE_BYTES else "the file ends in the middle of the line"
                )
                raise UnreadableExport(str(path), number, what)
            yield number, line


def _line_hash(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


def _parse_object(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableExport(str(path), number, "the line is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(str(path), number, "the line is not JSON") from error
    if not isinstance(given, dict):
        raise UnreadableExport(str(path), number, "the line is no JSON object")
    return given


def _check_item(
    context: WriteContext, given: dict[str, Any], namespace: str, found: CheckedExport, number: int
) -> tuple[object, ...] | None:
    """Check one item as it will be taken, and note it; return what names it, if it may be there only once."""
    kind, manifest = given.get("type"), found.manifest
    if kind in (ExportItem.MEMORY, ExportItem.PASSAGE, ExportItem.VERSION):
        memory = memory_from_item(given)
        extra_fields(given)
        vector_from_item(given, manifest.space)
        if given.get("no_vector") is not None:
            checked_label(given["no_vector"], "item.no_vector")
        if kind == ExportItem.VERSION:
            version, before = checked_int(given.get("version"), "item.version", 1), found.by_owner[memory.id]
            if version != len(before) + 1:
                expected = (
                    f"{len(before) + 1} is needed: the versions of a memory are counted from 1, one after another"
                )
                raise ArgumentError("item.version", version, expected)
            found.versions = max(found.versions, version)
            before.append(number)
            return None
        found.memories.append(number)
        if kind == ExportItem.PASSAGE:
            return kind, _checked_collection(given, namespace), memory.id
        _note_references(found, memory, number)
        return kind, memory.id
    if kind == ExportItem.OPERATION:
        found.operations.append(number)
        return kind, operation_from_item(given).id
    found.others.append(number)
    if kind == ExportItem.MESSAGE:
        row = message_from_item(given, namespace)
        return kind, row.session, row.sequence
    if kind == ExportItem.SESSION:
        return kind, session_from_item(given)[0]
    if kind == ExportItem.FORGOTTEN:
        collection, id, _ = tombstone_from_item(given)
        return kind, None if collection is None else _checked_collection(given, namespace), id
    part = next((one for one in context.carried if one.line == kind), None)
    if part is None:
        raise ArgumentError("item.type", kind, "a type of line that this memory takes is needed")
    return kind, *part.named(namespace, given)


def _checked_collection(given: dict[str, Any], namespace: str) -> str:
    collection = checked_label(given.get("collection"), "item.collection")
    store_namespace(namespace, DOCUMENTS, collection)
    return collection


def turn_key(memory: Memory) -> TurnKey | None:
    """Return what the messages of one turn have in common; None for what is no message."""
    said = memory.kind == "turn" and None not in (memory.sequence, memory.operation)
    return (memory.session, memory.operation) if said else None


def _note_references(found: CheckedExport, memory: Memory, number: int) -> None:
    """Note what *memory* says of others."""
    before, found.turn = found.turn, turn_key(memory)
    if before is not None and before == found.turn:
        found.joined.add(number)
    found.owners.add(memory.id)
    if memory.key is not None:
        found.keys[memory.id] = memory.key
    if memory.derived_from:
        found.sources.update(memory.derived_from)
        found.sources.update([memory.operation] if memory.operation else ())
    near = memory.metadata.get(NEAR_DUPLICATE_KEY)
    if isinstance(near, str):
        found.linked.update((memory.id, near))


def _check_path(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ArgumentError("path", str(path), "the path of an export that can be read is needed") from error
    if not stat.S_ISREG(mode):
        raise ArgumentError("path", str(path), "the path of a file is needed, not of a folder, pipe or device")
