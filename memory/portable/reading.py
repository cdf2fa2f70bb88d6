"""Reading an export: every line is checked before anything of it is taken, and again while it is.

What is wrong is named by its line. Lines are read one by one, so a file of any size needs little memory.
"""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memory.errors import ArgumentError, UnreadableExport
from memory.portable.items import beside_of, forgotten_of, memory_of, message_of, operation_of, vector_of
from memory.portable.manifest import Manifest, hasher, read_manifest
from memory.portable.report import Item
from memory.write.checking import name, whole
from memory.write.context import WriteContext

LONGEST: Final = 1 << 28
"""Bytes of one line: a message may carry a document."""


@dataclass(slots=True)
class Checked:
    """A file that is whole: its *manifest*, and the highest number of a version in it."""

    path: Path
    manifest: Manifest
    versions: int = 0
    owners: set[str] = field(default_factory=set)
    """Memories of which it has the present version."""


def checked_file(
    context: WriteContext, path: Path, namespace: str, on_progress: Callable[[int, int], object] | None
) -> Checked:
    """Read all of the file and return what it is; what is wrong raises ``UnreadableExport``."""
    _check_place(path)
    found: Checked | None = None
    counts: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    for number, given in lines_of(path):
        if found is None:
            found = Checked(path, given)
            total = sum(found.manifest.counts.values())
            continue
        try:
            identity = _check(context, given, namespace, found)
        except ArgumentError as error:
            raise UnreadableExport(str(path), number, str(error)) from error
        if identity is not None:
            if identity in seen:
                raise UnreadableExport(str(path), number, f"{given['type']} {identity[-1]!r} is there twice")
            seen.add(identity)
        counts[given["type"]] += 1
        if on_progress is not None and not number % 256:
            on_progress(number - 1, total)
    if found is None:
        raise UnreadableExport(str(path), 1, "the file is empty")
    if counts != Counter(found.manifest.counts):
        raise UnreadableExport(
            str(path), 1, "it does not hold as many items as its first line says; it was cut or edited"
        )
    return found


def lines_of(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number, manifest) and then (number, item) for each line; at the end the hash must be right."""
    digest = hasher()
    manifest: Manifest | None = None
    number = 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST + 1):
            number += 1
            if not line.endswith(b"\n"):
                what = "the line is too long" if len(line) > LONGEST else "the file ends in the middle of the line"
                raise UnreadableExport(str(path), number, what)
            if manifest is None:
                manifest = read_manifest(line, str(path))
                yield number, manifest
                continue
            digest.update(line)
            yield number, _object(line, number, path, manifest)
    if manifest is not None and digest.hexdigest() != manifest.hash:
        raise UnreadableExport(
            str(path), number, "the hash of the lines is not the one of the first line; it was edited"
        )


def _object(line: bytes, number: int, path: Path, manifest: Manifest) -> dict[str, Any]:
    try:
        given = json.loads(line, parse_constant=_no_number)
        if b"\\ud" in line.lower():
            json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UnreadableExport(str(path), number, "a text has a lone surrogate") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(str(path), number, "the line is not JSON") from error
    if not isinstance(given, dict) or given.get("type") not in manifest.counts:
        raise UnreadableExport(str(path), number, "the line has no type that the first line names")
    return given


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _check(context: WriteContext, given: dict[str, Any], namespace: str, found: Checked) -> tuple[object, ...] | None:
    """Check one item as it will be taken; return what names it, if it may be there only once."""
    kind, manifest = given["type"], found.manifest
    if kind in (Item.MEMORY, Item.PASSAGE, Item.VERSION):
        memory = memory_of(given)
        beside_of(given)
        vector_of(given, manifest.space.dimension if manifest.space is not None else None)
        if given.get("no_vector") is not None:
            name(given["no_vector"], "item.no_vector")
        if kind == Item.PASSAGE:
            return kind, name(given.get("collection"), "item.collection"), memory.id
        if kind == Item.VERSION:
            version = whole(given.get("version"), "item.version", 1)
            found.versions = max(found.versions, version)
            return kind, version, memory.id
        found.owners.add(memory.id)
        return kind, memory.id
    if kind == Item.MESSAGE:
        row = message_of(given, namespace)
        return kind, row.session, row.sequence
    if kind == Item.OPERATION:
        return kind, operation_of(given).id
    if kind == Item.FORGOTTEN:
        forgotten_of(given)
        return None
    part = next((one for one in context.carried if one.line == kind), None)
    if part is None:
        raise ArgumentError("item.type", kind, "a part of this memory that takes it is needed")
    part.take(namespace, given, write=False)
    return None


def _check_place(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ArgumentError("path", str(path), "the path of an export that can be read is needed") from error
    if not stat.S_ISREG(mode):
        raise ArgumentError("path", str(path), "the path of a file is needed, not of a folder, pipe or device")
