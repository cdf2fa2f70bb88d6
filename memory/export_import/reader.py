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
    Manifest,
    beside_of,
    forgotten_of,
    hasher,
    memory_of,
    message_of,
    operation_of,
    read_manifest,
    session_of,
    vector_of,
)
from memory.export_import.report import Item
from memory.models import Memory
from memory.partitions import DOCUMENTS, store_namespace
from memory.validation import name, whole
from memory.write.context import WriteContext
from memory.write.policies import NEAR

LONGEST: Final = 1 << 28
"""Bytes of one line: a message may carry a document."""
_GZIP: Final = b"\x1f\x8b"
_BATCH: Final = 1000
_BATCH_BYTES: Final = 1 << 26
_EVERY: Final = 256
Said: TypeAlias = tuple[str | None, str | None]
"""The session and the operation of a turn."""


@dataclass(slots=True)
class Checked:
    """A file that is whole: its *manifest*, where its lines are, and what they say of one another."""

    path: Path
    manifest: Manifest
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
    turn: Said | None = None
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
        self.marks.append(_mark(line))

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
                if _mark(line) != self.marks[number - 1]:
                    raise UnreadableExport(str(self.path), number, "the file was changed while it was read")
                yield number, _object(line, number, self.path)


def checked_file(
    context: WriteContext, path: Path, namespace: str, on_progress: Callable[[int, int], object] | None
) -> Checked:
    """Read all of the file and return what it is; what is wrong raises ``UnreadableExport``."""
    _check_place(path)
    found: Checked | None = None
    counts: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    for number, line in _numbered(path):
        if found is None:
            found = Checked(path, read_manifest(line, str(path)))
            found.note(line)
            digest = hasher()
            continue
        digest.update(line)
        found.note(line)
        given = _object(line, number, path)
        try:
            identity = _check(context, given, namespace, found, number)
        except ArgumentError as error:
            raise UnreadableExport(str(path), number, str(error)) from error
        if identity is not None:
            if identity in seen:
                raise UnreadableExport(str(path), number, f"{given['type']} {identity[-1]!r} is there twice")
            seen.add(identity)
        counts[given["type"]] += 1
        if on_progress is not None and not number % _EVERY:
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


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        if file.peek(len(_GZIP)).startswith(_GZIP):
            raise UnreadableExport(str(path), 1, "it is compressed (gzip); unpack it first")
        number = 0
        while line := file.readline(LONGEST + 1):
            number += 1
            if not line.endswith(b"\n"):
                what = "the line is too long" if len(line) > LONGEST else "the file ends in the middle of the line"
                raise UnreadableExport(str(path), number, what)
            yield number, line


def _mark(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


def _object(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableExport(str(path), number, "the line is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(str(path), number, "the line is not JSON") from error
    if not isinstance(given, dict):
        raise UnreadableExport(str(path), number, "the line is no JSON object")
    return given


def _check(
    context: WriteContext, given: dict[str, Any], namespace: str, found: Checked, number: int
) -> tuple[object, ...] | None:
    """Check one item as it will be taken, and note it; return what names it, if it may be there only once."""
    kind, manifest = given.get("type"), found.manifest
    if kind in (Item.MEMORY, Item.PASSAGE, Item.VERSION):
        memory = memory_of(given)
        beside_of(given)
        vector_of(given, manifest.space)
        if given.get("no_vector") is not None:
            name(given["no_vector"], "item.no_vector")
        if kind == Item.VERSION:
            version, before = whole(given.get("version"), "item.version", 1), found.by_owner[memory.id]
            if version != len(before) + 1:
                expected = (
                    f"{len(before) + 1} is needed: the versions of a memory are counted from 1, one after another"
                )
                raise ArgumentError("item.version", version, expected)
            found.versions = max(found.versions, version)
            before.append(number)
            return None
        found.memories.append(number)
        if kind == Item.PASSAGE:
            return kind, _collection(given, namespace), memory.id
        _note(found, memory, number)
        return kind, memory.id
    if kind == Item.OPERATION:
        found.operations.append(number)
        return kind, operation_of(given).id
    found.others.append(number)
    if kind == Item.MESSAGE:
        row = message_of(given, namespace)
        return kind, row.session, row.sequence
    if kind == Item.SESSION:
        return kind, session_of(given)[0]
    if kind == Item.FORGOTTEN:
        collection, id, _ = forgotten_of(given)
        return kind, None if collection is None else _collection(given, namespace), id
    part = next((one for one in context.carried if one.line == kind), None)
    if part is None:
        raise ArgumentError("item.type", kind, "a type of line that this memory takes is needed")
    return kind, *part.named(namespace, given)


def _collection(given: dict[str, Any], namespace: str) -> str:
    collection = name(given.get("collection"), "item.collection")
    store_namespace(namespace, DOCUMENTS, collection)
    return collection


def turn_of(memory: Memory) -> Said | None:
    """Return what the messages of one turn have in common; None for what is no message."""
    said = memory.kind == "turn" and None not in (memory.sequence, memory.operation)
    return (memory.session, memory.operation) if said else None


def _note(found: Checked, memory: Memory, number: int) -> None:
    """Note what *memory* says of others."""
    before, found.turn = found.turn, turn_of(memory)
    if before is not None and before == found.turn:
        found.joined.add(number)
    found.owners.add(memory.id)
    if memory.key is not None:
        found.keys[memory.id] = memory.key
    if memory.derived_from:
        found.sources.update(memory.derived_from)
        found.sources.update([memory.operation] if memory.operation else ())
    near = memory.metadata.get(NEAR)
    if isinstance(near, str):
        found.linked.update((memory.id, near))


def _check_place(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ArgumentError("path", str(path), "the path of an export that can be read is needed") from error
    if not stat.S_ISREG(mode):
        raise ArgumentError("path", str(path), "the path of a file is needed, not of a folder, pipe or device")
