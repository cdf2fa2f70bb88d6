"""File format of an export: the manifest line and the items as JSON objects, to text and back. Pure.

The manifest is the first line: the kinds of the items below, their numbers, and the hash of their lines. It is written
last, over a placeholder, so it is filled up with blanks to a length that all its numbers fit in.

A field that has its default value is left out. Versions are numbered within their memory, from 1 for the oldest, since
a revision means nothing in another file.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import datetime
from functools import cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast

import numpy as np
from pydantic import ValidationError

from tellback.memory.codec import TIME_FIELDS, from_entry, to_metadata
from tellback.memory.erasure.external_copies import EXPORT_KIND
from tellback.memory.errors import ArgumentError, UnreadableExport
from tellback.memory.export_import.report import ExportItem
from tellback.memory.history.codec import checked_session, message_from_json, message_to_json
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.messages import Message
from tellback.memory.models import Memory, MemoryChange, Operation, Repetition, Source
from tellback.memory.tables.embedder_probes import ProbeVectors
from tellback.memory.tables.operation_log import IMPORT_KIND
from tellback.memory.timestamps import to_aware
from tellback.memory.validation import (
    check_known_fields,
    checked_actor,
    checked_int,
    checked_json_object,
    checked_label,
    checked_memory,
    checked_text,
    optional,
)
from tellback.vectorstore import Entry, Metric, Space, Vector
from tellback.vectorstore.persisted_names import EXPORT_FORMAT, FORMER_EXPORT_FORMAT

EXPORT_VERSION: Final = 1
_MAX_COUNT: Final = 10**12 - 1
_HASH_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """First line of an export. *selection* are the filters that limited it; None for a complete one.

    *probes* are the answers of the vectors' model to the probes that identify a model, float32 in base64.
    """

    space: Space | None
    vectors: bool
    probes: tuple[str, ...] | None
    selection: Mapping[str, Any] | None
    counts: Mapping[str, int]
    hash: str = ""

    def probe_rows(self) -> ProbeVectors | None:
        """Return the answers to the probes, shape (texts, dimension); None where there are none."""
        if self.probes is None or self.space is None:
            return None
        return np.array([vector_from_text(probe, self.space.dimension) for probe in self.probes], np.float32)

    def line(self) -> bytes:
        """Return the line, filled up with blanks to its greatest length."""
        longest = replace(self, counts=dict.fromkeys(self.counts, _MAX_COUNT), hash="0" * 2 * _HASH_BYTES)
        return self._json().ljust(len(longest._json())) + b"\n"

    def _json(self) -> bytes:
        fields = {"type": "manifest", "format": EXPORT_FORMAT, "version": EXPORT_VERSION, **asdict(self)}
        return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()


def lines_hasher() -> blake2b:
    """Return a hash object for the lines below the manifest."""
    return blake2b(digest_size=_HASH_BYTES)


def parse_line(line: bytes, number: int, path: str) -> Any:
    """Return the JSON of the line *number*; below the first, anything but an object raises ``UnreadableExport``."""
    name, advice = ("the first line", "; it is no export of this program") if number == 1 else ("the line", "")
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        form = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise UnreadableExport(path, number, f"{name} is not {form}{advice}") from error
    if number > 1 and not isinstance(value, dict):
        raise UnreadableExport(path, number, "the line is no JSON object")
    return value


def read_manifest(line: bytes, path: str) -> ExportManifest:
    """Return the manifest that *line* holds; any other line, and a newer version, raise ``UnreadableExport``."""

    def check(is_right: bool, wrong: str) -> None:
        if not is_right:
            raise UnreadableExport(path, 1, wrong)

    fields = parse_line(line, 1, path)
    no_format = f'the first line has no "format": "{EXPORT_FORMAT}"; it is no export of this program'
    formats = (EXPORT_FORMAT, FORMER_EXPORT_FORMAT)
    check(isinstance(fields, dict) and fields.get("format") in formats, no_format)
    version, selection, vectors = fields.get("version"), fields.get("selection"), fields.get("vectors")
    counts, digest = fields.get("counts"), fields.get("hash")
    check(type(version) is int and version >= 1, "the version is not a number")
    newer = f"its version is {version}, this program reads up to {EXPORT_VERSION}; use a newer one"
    check(version <= EXPORT_VERSION, newer)
    are_counts = isinstance(counts, dict) and all(type(count) is int and count >= 0 for count in counts.values())
    check(are_counts, "the counts are missing or wrong")
    check(isinstance(digest, str) and len(digest) == 2 * _HASH_BYTES, "the hash is missing or wrong")
    check(selection is None or isinstance(selection, dict), "the selection is wrong")
    wrong = "the space is wrong"
    try:
        space = _read_space(fields.get("space"))
        check(isinstance(vectors, bool), "whether it has vectors is missing or wrong")
        wrong = "the probes are wrong"
        probes = _read_probes(fields.get("probes"), space)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableExport(path, 1, wrong) from error
    return ExportManifest(space, vectors, probes, selection, counts, digest)


def vector_to_text(row: Vector) -> str:
    """Return a vector as text: float32, little-endian, in base64."""
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


def vector_from_text(text: object, dimension: int | None) -> Vector:
    """Return the vector of a text of ``vector_to_text``: *dimension* finite numbers."""
    try:
        row = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)  # type: ignore[arg-type]  # any JSON may come in; the error is the check
    except (binascii.Error, TypeError, ValueError) as error:
        raise ArgumentError("item.vector", "…", "float32 numbers in base64 are needed") from error
    if len(row) != dimension or not np.isfinite(row).all():
        raise ArgumentError("item.vector", len(row), f"{dimension} finite numbers are needed")
    return row


def _read_space(fields: Any) -> Space | None:
    if fields is None:
        return None
    space = Space(fields["fingerprint"], fields["dimension"], Metric(fields["metric"]))
    if not isinstance(space.fingerprint, str) or type(space.dimension) is not int or space.dimension < 1:
        raise ValueError(fields)
    return space


def _read_probes(probes: Any, space: Space | None) -> tuple[str, ...] | None:
    if probes is None:
        return None
    if not isinstance(probes, list) or not probes or space is None:
        raise ValueError(probes)
    for probe in probes:
        vector_from_text(probe, space.dimension)
    return tuple(probes)


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Return the default values of the fields of a dataclass; ``MISSING`` for a field that has none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


_VERSION_FIELDS: Final[dict[str, Any]] = {
    "retired_at": None,
    "counts_from": None,
    "counts_to": None,
    "withdrawn": False,
}
_PLAIN_FIELDS: Final = _defaults(Memory).keys() - {"id", "text", "revision"}
"""The fields of a memory that are those of its item, where they have not their default values."""
_ITEM_FIELDS: Final = {"type", "id", "text", "vector", "no_vector", "beside", *_PLAIN_FIELDS}
_PLACE_FIELDS: Final[dict[object, str]] = {ExportItem.PASSAGE: "collection", ExportItem.VERSION: "version"}
_SOURCE_FIELDS: Final = _defaults(Source).keys()
_OWN_FIELDS: Final = {*_PLAIN_FIELDS, *_SOURCE_FIELDS, "id", "revision"}
_MAX_NUMBER: Final = 10**15
"""The largest sequence number or revision: those that follow it still fit into a table."""
_MIN_VECTOR_LENGTH: Final = 1e-30
"""A vector under cosine must have a length, or it has no direction."""


def memory_fields(entry: Entry, *, vectors: bool) -> dict[str, Any]:
    """Return the fields of the memory in *entry*, with its vector where the export has *vectors*."""
    memory = from_entry(entry)
    item = {"id": memory.id, "text": memory.text, **_changed_fields(memory)}
    item.pop("revision", None)
    known = to_metadata(memory)
    if extra := {key: value for key, value in entry.metadata.items() if key not in known}:
        item["beside"] = extra
    if entry.no_vector is not None:
        item["no_vector"] = entry.no_vector
    if vectors and entry.vector is not None:
        item["vector"] = vector_to_text(entry.vector)
    return item


def memory_from_item(item: Mapping[str, Any]) -> Memory:
    """Return the memory that an item holds; a wrong field raises ``ArgumentError``."""
    place_field = _PLACE_FIELDS.get(item.get("type"))
    check_known_fields(item, _ITEM_FIELDS if place_field is None else {*_ITEM_FIELDS, place_field})
    values = {
        key: _MEMORY_READERS[key](value, f"item.{key}") if key in _MEMORY_READERS else value
        for key, value in item.items()
        if key in _PLAIN_FIELDS
    }
    version: dict[str, Any] = {key: values.pop(key) for key in _VERSION_FIELDS if key in values}
    if type(version.get("withdrawn", False)) is not bool:
        raise ArgumentError("item.withdrawn", version["withdrawn"], "true or false is needed")
    id = checked_label(item.get("id"), "item.id")
    memory = Memory(text=cast("str", item.get("text")), id=id, **values)
    return replace(checked_memory(memory), **version)


def version_fields(memory: Memory) -> dict[str, Any]:
    """Return the fields of *memory* that say when an earlier version was valid."""
    return {key: getattr(memory, key) for key in _VERSION_FIELDS}


def without_version_fields(memory: Memory) -> Memory:
    """Return *memory* with the defaults of these fields, as a caller gives it."""
    return replace(memory, **_VERSION_FIELDS)


def extra_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that other parts keep with the memory; a key of a memory's own field raises."""
    extra = item.get("beside", {})
    for key in checked_json_object(extra, "item.beside"):
        prefixed = key.startswith(("scope.", "meta.", "source."))
        if prefixed or key in _OWN_FIELDS or key.removesuffix("_offset") in TIME_FIELDS:
            raise ArgumentError("item.beside", key, "a field that is none of a memory's own is needed")
    return cast("dict[str, Any]", extra)


def vector_from_item(item: Mapping[str, Any], space: Space | None) -> Vector | None:
    """Return the vector of an item as *space* takes it: as many finite numbers, and under cosine with a length."""
    text = item.get("vector")
    if text is None:
        return None
    row = vector_from_text(text, None if space is None else space.dimension)
    needs_length = space is not None and space.metric == Metric.COSINE
    if needs_length and np.linalg.norm(row.astype(np.float64)) < _MIN_VECTOR_LENGTH:
        raise ArgumentError("item.vector", "…", "a vector with a length is needed")
    return row


def message_fields(row: HistoryRow) -> dict[str, Any]:
    """Return the fields of a message of conversation history."""
    return {
        "type": ExportItem.MESSAGE,
        "session": row.session,
        "sequence": row.sequence,
        "at": row.at,
        "memory": row.memory,
        "message": json.loads(row.message.model_dump_json()),
    }


def message_from_item(item: Mapping[str, Any], namespace: str) -> HistoryRow:
    """Return the message that an item holds."""
    return HistoryRow(namespace, **_read_fields(item, _MESSAGE_READERS))


def session_fields(session: str, number: int) -> dict[str, Any]:
    """Return the fields of a session whose next message gets *number*."""
    return {"type": ExportItem.SESSION, "session": session, "next": number}


def session_from_item(item: Mapping[str, Any]) -> tuple[str, int]:
    """Return (session, the number of its next message)."""
    session, number = _read_fields(item, _SESSION_READERS).values()
    return session, number


def operation_fields(operation: Operation, changes: tuple[MemoryChange, ...]) -> dict[str, Any]:
    """Return the fields of an operation; *changes* have version numbers in the place of revisions."""
    fields = _changed_fields(replace(operation, changes=()))
    return {"type": ExportItem.OPERATION, **fields, "changes": changes}


def operation_from_item(item: Mapping[str, Any]) -> Operation:
    """Return the operation that an item holds; one of an export or import raises, since no export carries these."""
    return Operation(**_read_fields(item, _OPERATION_READERS))


def tombstone_fields(collection: str | None, id: str, at: datetime) -> dict[str, Any]:
    """Return the fields of a tombstone; *collection* is that of a passage."""
    place_fields = {} if collection is None else {"collection": collection}
    return {"type": ExportItem.FORGOTTEN, **place_fields, "id": id, "at": at}


def tombstone_from_item(item: Mapping[str, Any]) -> tuple[str | None, str, datetime]:
    """Return (collection, id, time) of a tombstone."""
    collection, id, time = _read_fields(item, _TOMBSTONE_READERS).values()
    return collection, id, time


def item_line(item: Mapping[str, Any]) -> bytes:
    """Return an item as a line."""
    return json.dumps(item, ensure_ascii=False, allow_nan=False, default=_to_json).encode() + b"\n"


def _to_json(value: Any) -> Any:
    """Return as JSON a time, a mapping, or a value of our own without the fields that have their defaults."""
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else _changed_fields(value)


def _changed_fields(value: Any) -> dict[str, Any]:
    return {
        name: current
        for name, default in _defaults(value.__class__).items()
        if (current := getattr(value, name)) != default
    }


_Reader: TypeAlias = Callable[[Any, str], Any]
"""Returns a checked value of a field; the name of the field stands in its errors."""


def _read_fields(
    item: Any, readers: Mapping[str, _Reader], argument: str = "item", other: tuple[str, ...] = ("type",)
) -> dict[str, Any]:
    """Return the values of an object's fields, in the order of their *readers*; it may have *other* fields beside."""
    if not isinstance(item, dict):
        raise ArgumentError(argument, item, "an object is needed")
    check_known_fields(item, (*readers, *other))
    return {name: read(item.get(name), f"{argument}.{name}") for name, read in readers.items()}


def _read_number(value: Any, argument: str) -> int:
    if checked_int(value, argument, 1) > _MAX_NUMBER:
        raise ArgumentError(argument, value, f"a number of at most {_MAX_NUMBER} is needed")
    return cast("int", value)


def read_time(value: Any, argument: str) -> datetime:
    """Return the aware time that *value* is in ISO 8601, or raise ``ArgumentError`` for *argument*."""
    text = checked_text(value, argument)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentError(argument, text, "a time in ISO 8601 is needed") from error
    if moment.tzinfo is None:
        raise ArgumentError(argument, text, "a time with its offset from UTC is needed")
    return to_aware(moment)


def _read_list(value: Any, argument: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ArgumentError(argument, value, "a list is needed")
    return tuple(value)


def _read_source(value: Any, argument: str) -> Source:
    if not isinstance(value, dict) or set(value) - _SOURCE_FIELDS:
        raise ArgumentError(argument, value, "an object with the fields of a source is needed")
    return Source(**{**value, "heading": _read_list(value.get("heading", []), f"{argument}.heading")})


def _read_repetitions(value: Any, argument: str) -> tuple[Repetition, ...]:
    repetitions = _read_list(value, argument)
    return tuple(Repetition(**_read_fields(fields, _REPETITION_READERS, argument, ())) for fields in repetitions)


def _read_message(value: Any, argument: str) -> Message:
    try:
        message = message_from_json(json.dumps(value))
    except ValidationError as error:
        raise ArgumentError(argument, "…", "a message is needed") from error
    message_to_json(message, argument)
    return message


def _read_kind(value: Any, argument: str) -> str:
    if checked_label(value, argument) in (EXPORT_KIND, IMPORT_KIND):
        raise ArgumentError(argument, value, "a kind of operation that an export carries is needed")
    return cast("str", value)


def _read_changes(value: Any, argument: str) -> tuple[MemoryChange, ...]:
    changes = tuple(_read_change(change, argument) for change in _read_list(value, argument))
    if len({change.id for change in changes}) < len(changes):
        raise ArgumentError(argument, "…", "one change of each memory is needed")
    return changes


def _read_change(value: Any, argument: str) -> MemoryChange:
    if not isinstance(value, dict) or type(value.get("gone", False)) is not bool:
        raise ArgumentError(argument, value, "an object with an id is needed")
    fields = {"gone": False, "old": {}, "new": {}, **value}
    return MemoryChange(**_read_fields(fields, _CHANGE_READERS, argument, other=()))


_MEMORY_READERS: Final[dict[str, _Reader]] = {
    **dict.fromkeys(TIME_FIELDS, optional(read_time)),
    "tags": _read_list,
    "derived_from": _read_list,
    "replaces": _read_list,
    "source": _read_source,
    "repeated": _read_repetitions,
}
_REPETITION_READERS: Final[dict[str, _Reader]] = {
    "at": read_time,
    "session": optional(checked_label),
    "actor": lambda value, argument: checked_actor(value or "user", argument),
}
_MESSAGE_READERS: Final[dict[str, _Reader]] = {
    "session": lambda value, _: checked_session(value),
    "sequence": _read_number,
    "memory": lambda value, argument: value if value in (None, "") else checked_label(value, argument),
    "message": _read_message,
    "at": read_time,
}
_SESSION_READERS: Final[dict[str, _Reader]] = {"session": _MESSAGE_READERS["session"], "next": _read_number}
_OPERATION_READERS: Final[dict[str, _Reader]] = {
    "kind": _read_kind,
    "changes": _read_changes,
    "undoes": optional(checked_label),
    "undone_by": optional(checked_label),
    "id": checked_label,
    "actor": checked_actor,
    "at": read_time,
    "user": lambda value, argument: "" if value is None else checked_label(value, argument),
}
_CHANGE_READERS: Final[dict[str, _Reader]] = {
    "old": checked_json_object,
    "new": checked_json_object,
    "before": optional(_read_number),
    "id": checked_label,
    "gone": lambda value, _: value,
}
_TOMBSTONE_READERS: Final[dict[str, _Reader]] = {
    "collection": optional(checked_label),
    "id": checked_label,
    "at": read_time,
}
