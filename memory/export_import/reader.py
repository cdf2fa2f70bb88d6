"""Reader of an export: the whole file is checked before any item is imported, and each line again when it is.

Errors name the line. The file may be of any size: what is kept of a line is where it ends, a hash, and the ids that
other lines name.
"""

from __future__ import annotations

import stat
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from tellback.memory.errors import ArgumentError, UnreadableExport
from tellback.memory.export_import.codec import (
    ExportManifest,
    extra_fields,
    lines_hasher,
    memory_from_item,
    message_from_item,
    operation_from_item,
    parse_line,
    read_manifest,
    session_from_item,
    tombstone_from_item,
    vector_from_item,
)
from tellback.memory.export_import.report import ExportItem
from tellback.memory.models import Memory
from tellback.memory.partitions import DOCUMENTS, store_namespace
from tellback.memory.tables.erasers import ExportedPart
from tellback.memory.validation import checked_int, checked_label
from tellback.memory.write.policies.base import NEAR_DUPLICATE_KEY

MAX_LINE_BYTES: Final = 1 << 28
"""The longest line in bytes: a message may carry a document."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BATCH: Final = 1000
_BATCH_BYTES: Final = 1 << 26
TurnKey: TypeAlias = tuple[str | None, str | None]
"""The session and the operation of a turn."""


class ExportLine(NamedTuple):
    """One item of an export: the *number* of its line, and the *fields* of its JSON object."""

    number: int
    fields: dict[str, Any]

    @property
    def kind(self) -> str:
        """The type of the item, as ``ExportItem`` or an ``ExportedPart`` names it."""
        return str(self.fields["type"])


@dataclass(slots=True)
class CheckedExport:
    """A file whose every line was checked: its *manifest*, where its lines are, and the ids that they name."""

    path: Path
    manifest: ExportManifest
    versions: int = 0
    """The highest version number in the file."""
    owners: set[str] = field(default_factory=set)
    """The ids of the memories whose present version is in the file."""
    by_owner: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The lines of earlier versions, by memory."""
    memories: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    """The lines of memories and passages, of operations, of everything else."""
    sources: set[str] = field(default_factory=set)
    """The ids of memories from which another in the file was derived, and of operations that made derived ones."""
    linked: set[str] = field(default_factory=set)
    """The ids of near duplicates, and of the memories that they repeat."""
    joined: set[int] = field(default_factory=set)
    """The lines of messages that belong to the same turn as the line before."""
    turn: TurnKey | None = None
    """The turn of the last line that was checked."""
    keys: dict[str, str] = field(default_factory=dict)
    """Idempotency keys by memory id."""
    ends: array[int] = field(default_factory=lambda: array("Q", [0]))
    hashes: list[bytes] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of items in the file."""
        return sum(self.manifest.counts.values())

    def add_line(self, line: bytes) -> None:
        """Note where *line*, the next one, ends, and its hash."""
        self.ends.append(self.ends[-1] + len(line))
        self.hashes.append(_line_hash(line))

    def batches(self, numbers: Iterable[int]) -> Iterator[list[ExportLine]]:
        """Yield the lines *numbers*, about a thousand at once and not too many bytes; no turn is split."""
        batch: list[int] = []
        size = 0
        for number in numbers:
            length = self.ends[number] - self.ends[number - 1]
            full = len(batch) >= _BATCH or size + length > _BATCH_BYTES
            if batch and full and number not in self.joined:
                yield self.lines(batch)
                batch, size = [], 0
            batch.append(number)
            size += length
        if batch:
            yield self.lines(batch)

    def memory_batches(self) -> Iterator[list[ExportLine]]:
        """Yield memories and passages, each memory with its earlier versions; then versions without a present one."""
        for batch in self.batches(self.memories):
            owners = [line.fields["id"] for line in batch if line.kind == ExportItem.MEMORY]
            versions = [number for owner in owners if owner in self.by_owner for number in self.by_owner[owner]]
            yield batch + self.lines(versions)
        orphans: list[int] = []
        for owner, numbers in self.by_owner.items():
            if owner not in self.owners:
                orphans += numbers
                if len(orphans) >= _BATCH:
                    yield self.lines(orphans)
                    orphans = []
        if orphans:
            yield self.lines(orphans)

    def lines(self, numbers: Iterable[int]) -> list[ExportLine]:
        """Return the lines *numbers*; a line that changed since it was checked raises ``UnreadableExport``."""
        lines = []
        with self.path.open("rb") as file:
            for number in numbers:
                start, end = self.ends[number - 1], self.ends[number]
                file.seek(start)
                line = file.read(end - start)
                if _line_hash(line) != self.hashes[number - 1]:
                    raise UnreadableExport(str(self.path), number, "the file was changed while it was read")
                lines.append(ExportLine(number, parse_line(line, number, str(self.path))))
        return lines


def check_export(path: Path, namespace: str, parts: Sequence[ExportedPart]) -> CheckedExport:
    """Check every line of the file, for an import into *namespace*; the first wrong one raises ``UnreadableExport``."""
    lines = _numbered_lines(path)
    _, first = next(lines, (0, b""))
    if not first:
        raise UnreadableExport(str(path), 1, "the file is empty")
    checked = CheckedExport(path, read_manifest(first, str(path)))
    checked.add_line(first)
    digest = lines_hasher()
    counts: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    for number, line in lines:
        digest.update(line)
        checked.add_line(line)
        item = ExportLine(number, parse_line(line, number, str(path)))
        try:
            identity = _check_item(item, namespace, parts, checked)
        except ArgumentError as error:
            raise UnreadableExport(str(path), number, str(error)) from error
        if identity is not None:
            if identity in seen:
                raise UnreadableExport(str(path), number, f"{item.kind} {identity[-1]!r} is there twice")
            seen.add(identity)
        counts[item.kind] += 1
    if digest.hexdigest() != checked.manifest.hash:
        problem = "the hash of the lines is not the one of the first line; it was edited"
        raise UnreadableExport(str(path), len(checked.hashes), problem)
    if counts != Counter(checked.manifest.counts):
        problem = "it does not hold as many items as its first line says; it was cut or edited"
        raise UnreadableExport(str(path), 1, problem)
    return checked


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ArgumentError("path", str(path), "the path of an export that can be read is needed") from error
    if not stat.S_ISREG(mode):
        raise ArgumentError("path", str(path), "the path of a file is needed, not of a folder, pipe or device")
    with path.open("rb") as file:
        if file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            raise UnreadableExport(str(path), 1, "it is compressed (gzip); unpack it first")
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if not line.endswith(b"\n"):
                is_long = len(line) > MAX_LINE_BYTES
                problem = "the line is too long" if is_long else "the file ends in the middle of the line"
                raise UnreadableExport(str(path), number, problem)
            yield number, line


def _line_hash(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


def _check_item(
    item: ExportLine, namespace: str, parts: Sequence[ExportedPart], checked: CheckedExport
) -> tuple[object, ...] | None:
    """Check one item as the import will read it, and note it in *checked*; return its identity if it must be unique."""
    number, fields, kind = item.number, item.fields, item.fields.get("type")
    if kind in (ExportItem.MEMORY, ExportItem.PASSAGE, ExportItem.VERSION):
        memory = memory_from_item(fields)
        extra_fields(fields)
        vector_from_item(fields, checked.manifest.space)
        if fields.get("no_vector") is not None:
            checked_label(fields["no_vector"], "item.no_vector")
        if kind == ExportItem.VERSION:
            _check_version(item, memory.id, checked)
            return None
        checked.memories.append(number)
        if kind == ExportItem.PASSAGE:
            return kind, _checked_collection(fields, namespace), memory.id
        _note_references(checked, memory, number)
        return kind, memory.id
    if kind == ExportItem.OPERATION:
        checked.operations.append(number)
        return kind, operation_from_item(fields).id
    checked.others.append(number)
    if kind == ExportItem.MESSAGE:
        row = message_from_item(fields, namespace)
        return kind, row.session, row.sequence
    if kind == ExportItem.SESSION:
        return kind, session_from_item(fields)[0]
    if kind == ExportItem.FORGOTTEN:
        collection, id, _ = tombstone_from_item(fields)
        return kind, None if collection is None else _checked_collection(fields, namespace), id
    part = next((part for part in parts if part.line == kind), None)
    if part is None:
        raise ArgumentError("item.type", kind, "a type of line that this memory takes is needed")
    return kind, *part.named(namespace, fields)


def _check_version(item: ExportLine, owner: str, checked: CheckedExport) -> None:
    version, earlier = checked_int(item.fields.get("version"), "item.version", 1), checked.by_owner[owner]
    expected = len(earlier) + 1
    if version != expected:
        expectation = f"{expected} is needed: the versions of a memory are counted from 1, one after another"
        raise ArgumentError("item.version", version, expectation)
    checked.versions = max(checked.versions, version)
    earlier.append(item.number)


def _checked_collection(fields: dict[str, Any], namespace: str) -> str:
    collection = checked_label(fields.get("collection"), "item.collection")
    store_namespace(namespace, DOCUMENTS, collection)
    return collection


def turn_key(memory: Memory) -> TurnKey | None:
    """Return the session and operation that the messages of one turn share; None for a memory that is no message."""
    is_message = memory.kind == "turn" and None not in (memory.sequence, memory.operation)
    return (memory.session, memory.operation) if is_message else None


def _note_references(checked: CheckedExport, memory: Memory, number: int) -> None:
    """Note the turn of *memory*, its key, and the memories that it refers to."""
    previous, checked.turn = checked.turn, turn_key(memory)
    if previous is not None and previous == checked.turn:
        checked.joined.add(number)
    checked.owners.add(memory.id)
    if memory.key is not None:
        checked.keys[memory.id] = memory.key
    if memory.derived_from:
        checked.sources.update(memory.derived_from)
        checked.sources.update([memory.operation] if memory.operation else ())
    repeated = memory.metadata.get(NEAR_DUPLICATE_KEY)
    if isinstance(repeated, str):
        checked.linked.update((memory.id, repeated))
