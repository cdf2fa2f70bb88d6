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
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, cast

import numpy as np
from pydantic import ValidationError

from memory.codec import from_entry, to_metadata
from memory.erasure.external_copies import EXPORT_KIND
from memory.errors import ArgumentError, UnreadableExport
from memory.export_import.report import ExportItem
from memory.history.codec import checked_session, message_from_json, message_to_json
from memory.history.protocol import HistoryRow
from memory.messages import Message
from memory.models import Memory, MemoryChange, Operation, Source
from memory.tables.embedder_probes import ProbeVectors
from memory.tables.operation_log import IMPORT_KIND
from memory.timestamps import to_aware
from memory.validation import (
    check_known_fields,
    checked_actor,
    checked_int,
    checked_json_object,
    checked_label,
    checked_memory,
    checked_text,
)
from vectorstore import Entry, Metric, Space, Vector
from vectorstore.persisted_names import EXPORT_FORMAT

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
    counts: Mapping[str, int]
    hash: str = ""
    selection: Mapping[str, Any] | None = None
    probes: tuple[str, ...] | None = None

    def probe_rows(self) -> ProbeVectors | None:
        """Return the answers to the probes, shape (texts, dimension); None where there are none."""
        if self.probes is None or self.space is None:
            return None
        return np.array([vector_from_text(probe, self.space.dimension) for probe in self.probes], np.float32)

    def line(self) -> bytes:
        """Return the line, filled up with blanks to its greatest length."""
        line = self._json(self.counts, self.hash)
        longest = self._json(dict.fromkeys(self.counts, _MAX_COUNT), "0" * 2 * _HASH_BYTES)
        return line.ljust(len(longest)) + b"\n"

    def _json(self, counts: Mapping[str, int], digest: str) -> bytes:
        space = None if self.space is None else _space_fields(self.space)
        fields = {
            "type": "manifest",
            "format": EXPORT_FORMAT,
            "version": EXPORT_VERSION,
            "space": space,
            "vectors": self.vectors,
            "probes": None if self.probes is None else list(self.probes),
            "selection": self.selection,
            "counts": dict(counts),
            "hash": digest,
        }
        return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()


def lines_hasher() -> blake2b:
    """Return a hash object for the lines below the manifest."""
    return blake2b(digest_size=_HASH_BYTES)


def read_manifest(line: bytes, path: str) -> ExportManifest:
    """Return the manifest that *line* holds; any other line, and a newer version, raise ``UnreadableExport``."""
    try:
        fields = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableExport(path, 1, "the first line is not UTF-8; it is no export of this program") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(path, 1, "the first line is not JSON; it is no export of this program") from error
    if not isinstance(fields, dict) or fields.get("format") != EXPORT_FORMAT:
        raise UnreadableExport(
            path, 1, f'the first line has no "format": "{EXPORT_FORMAT}"; it is no export of this program'
        )
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnreadableExport(path, 1, "the version is not a number")
    if version > EXPORT_VERSION:
        raise UnreadableExport(
            path, 1, f"its version is {version}, this program reads up to {EXPORT_VERSION}; use a newer one"
        )
    counts, digest, selection = fields.get("counts"), fields.get("hash"), fields.get("selection")
    if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise UnreadableExport(path, 1, "the counts are missing or wrong")
    if not isinstance(digest, str) or len(digest) != 2 * _HASH_BYTES:
        raise UnreadableExport(path, 1, "the hash is missing or wrong")
    if selection is not None and not isinstance(selection, dict):
        raise UnreadableExport(path, 1, "the selection is wrong")
    space, vectors = _space_from_fields(fields.get("space"), path), fields.get("vectors")
    if not isinstance(vectors, bool):
        raise UnreadableExport(path, 1, "whether it has vectors is missing or wrong")
    probes = _checked_probes(fields.get("probes"), space, path)
    return ExportManifest(space, vectors, counts, digest, selection, probes)


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


def _checked_probes(probes: Any, space: Space | None, path: str) -> tuple[str, ...] | None:
    if probes is None:
        return None
    try:
        if isinstance(probes, list) and probes and space is not None:
            for probe in probes:
                vector_from_text(probe, space.dimension)
            return tuple(probes)
    except ArgumentError as error:
        raise UnreadableExport(path, 1, "the probes are wrong") from error
    raise UnreadableExport(path, 1, "the probes are wrong")


def _space_fields(space: Space) -> dict[str, Any]:
    return {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}


def _space_from_fields(fields: Any, path: str) -> Space | None:
    if fields is None:
        return None
    try:
        fingerprint, dimension, metric = fields["fingerprint"], fields["dimension"], Metric(fields["metric"])
        if isinstance(fingerprint, str) and type(dimension) is int and dimension > 0:
            return Space(fingerprint, dimension, metric)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableExport(path, 1, "the space is wrong") from error
    raise UnreadableExport(path, 1, "the space is wrong")


_OMITTED_FIELDS: Final = ("id", "text", "revision")
_TIME_FIELDS: Final = frozenset(field.name for field in fields(Memory) if "datetime" in str(field.type))
_TUPLE_FIELDS: Final = ("tags", "derived_from")
_MAPPING_FIELDS: Final = ("scopes", "metadata")
_VERSION_FIELDS: Final[dict[str, Any]] = {
    "retired_at": None,
    "counts_from": None,
    "counts_to": None,
    "withdrawn": False,
}
_DEFAULTS: Final = {
    field.name: field.default if field.default is not MISSING else {}
    for field in fields(Memory)
    if field.name != "text"
}
_SOURCE_FIELDS: Final = tuple(field.name for field in fields(Source))
_ITEM_FIELDS: Final = ("type", "id", "text", "vector", "no_vector", "beside")
_PLACE_FIELDS: Final[dict[object, tuple[str, ...]]] = {
    ExportItem.PASSAGE: ("collection",),
    ExportItem.VERSION: ("version",),
}
_MESSAGE_FIELDS: Final = ("type", "session", "sequence", "at", "memory", "message")
_SESSION_FIELDS: Final = ("type", "session", "next")
_OPERATION_FIELDS: Final = ("type", "id", "kind", "actor", "at", "undoes", "undone_by", "changes")
_CHANGE_FIELDS: Final = ("id", "before", "gone", "old", "new")
_TOMBSTONE_FIELDS: Final = ("type", "collection", "id", "at")
_MAX_NUMBER: Final = 10**15
"""The largest sequence number or revision: those that follow it still fit into a table."""
_MIN_VECTOR_LENGTH: Final = 1e-30
"""A vector under cosine must have a length, or it has no direction."""


def memory_fields(entry: Entry, *, vectors: bool) -> dict[str, Any]:
    """Return the fields of the memory in *entry*, with its vector where the export has *vectors*."""
    memory = from_entry(entry)
    item: dict[str, Any] = {"id": entry.id, "text": memory.text}
    for name, default in _DEFAULTS.items():
        value = getattr(memory, name)
        if name not in _OMITTED_FIELDS and value != default:
            item[name] = _json_value(value)
    known = to_metadata(memory)
    extra = {key: value for key, value in entry.metadata.items() if key not in known}
    if extra:
        item["beside"] = extra
    if entry.no_vector is not None:
        item["no_vector"] = entry.no_vector
    if vectors and entry.vector is not None:
        item["vector"] = vector_to_text(entry.vector)
    return item


def memory_from_item(item: Mapping[str, Any]) -> Memory:
    """Return the memory that an item holds; a wrong field raises ``ArgumentError``."""
    place_fields = _PLACE_FIELDS.get(item.get("type"), ())
    check_known_fields(item, {*_ITEM_FIELDS, *place_fields, *_DEFAULTS} - {"revision"})
    values = {
        key: _read_field(key, value)
        for key, value in item.items()
        if key not in _ITEM_FIELDS and key not in place_fields
    }
    version = {key: values.pop(key) for key in _VERSION_FIELDS if key in values}
    if type(version.get("withdrawn", False)) is not bool:
        raise ArgumentError("item.withdrawn", version["withdrawn"], "true or false is needed")
    id = checked_label(item.get("id"), "item.id")
    try:
        memory = Memory(text=cast("str", item.get("text")), id=id, **values)
    except TypeError as error:
        raise ArgumentError("item", id, str(error)) from error
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
        ours = key in _DEFAULTS or key in _SOURCE_FIELDS or key.startswith(("scope.", "meta.", "source."))
        if ours or key.removesuffix("_offset") in _TIME_FIELDS:
            raise ArgumentError("item.beside", key, "a field that is none of a memory's own is needed")
    return cast("dict[str, Any]", extra)


def vector_from_item(item: Mapping[str, Any], space: Space | None) -> Vector | None:
    """Return the vector of an item as *space* takes it: as many finite numbers, and under cosine with a length."""
    text = item.get("vector")
    if text is None:
        return None
    row = vector_from_text(text, None if space is None else space.dimension)
    if (
        space is not None
        and space.metric is Metric.COSINE
        and np.linalg.norm(row.astype(np.float64)) < _MIN_VECTOR_LENGTH
    ):
        raise ArgumentError("item.vector", "…", "a vector with a length is needed")
    return row


def message_fields(row: HistoryRow) -> dict[str, Any]:
    """Return the fields of a message of conversation history."""
    return {
        "type": ExportItem.MESSAGE.value,
        "session": row.session,
        "sequence": row.sequence,
        "at": row.at.isoformat(),
        "memory": row.memory,
        "message": json.loads(row.message.model_dump_json()),
    }


def message_from_item(item: Mapping[str, Any], namespace: str) -> HistoryRow:
    """Return the message that an item holds."""
    check_known_fields(item, _MESSAGE_FIELDS)
    session = checked_session(item.get("session"))
    sequence = _checked_number(item.get("sequence"), "item.sequence")
    memory = item.get("memory")
    if memory is not None and memory != "":
        checked_label(memory, "item.memory")
    try:
        message: Message = message_from_json(json.dumps(item.get("message")))
    except ValidationError as error:
        raise ArgumentError("item.message", "…", "a message is needed") from error
    message_to_json(message, "item.message")
    return HistoryRow(namespace, session, sequence, message, parse_moment(item.get("at"), "item.at"), memory)


def session_fields(session: str, number: int) -> dict[str, Any]:
    """Return the fields of a session whose next message gets *number*."""
    return {"type": ExportItem.SESSION.value, "session": session, "next": number}


def session_from_item(item: Mapping[str, Any]) -> tuple[str, int]:
    """Return (session, the number of its next message)."""
    check_known_fields(item, _SESSION_FIELDS)
    return checked_session(item.get("session")), _checked_number(item.get("next"), "item.next")


def operation_fields(operation: Operation, changes: tuple[MemoryChange, ...]) -> dict[str, Any]:
    """Return the fields of an operation; *changes* have version numbers in the place of revisions."""
    item: dict[str, Any] = {
        "type": ExportItem.OPERATION.value,
        "id": operation.id,
        "kind": operation.kind,
        "actor": operation.actor,
        "at": operation.at.isoformat(),
    }
    for key in ("undoes", "undone_by"):
        if getattr(operation, key) is not None:
            item[key] = getattr(operation, key)
    item["changes"] = [_change_fields(change) for change in changes]
    return item


def operation_from_item(item: Mapping[str, Any]) -> Operation:
    """Return the operation that an item holds; one of an export or import raises, since no export carries these."""
    check_known_fields(item, _OPERATION_FIELDS)
    changes, kind = item.get("changes"), checked_label(item.get("kind"), "item.kind")
    if kind in (EXPORT_KIND, IMPORT_KIND):
        raise ArgumentError("item.kind", kind, "a kind of operation that an export carries is needed")
    if not isinstance(changes, list):
        raise ArgumentError("item.changes", changes, "a list is needed")
    read = tuple(_change_from_fields(change) for change in changes)
    if len({change.id for change in read}) < len(read):
        raise ArgumentError("item.changes", "…", "one change of each memory is needed")
    for key in ("undoes", "undone_by"):
        if item.get(key) is not None:
            checked_label(item[key], f"item.{key}")
    return Operation(
        id=checked_label(item.get("id"), "item.id"),
        kind=kind,
        actor=checked_actor(cast("Any", item.get("actor")), "item.actor"),
        at=parse_moment(item.get("at"), "item.at"),
        changes=read,
        undoes=item.get("undoes"),
        undone_by=item.get("undone_by"),
    )


def tombstone_fields(collection: str | None, id: str, at: datetime) -> dict[str, Any]:
    """Return the fields of a tombstone; *collection* is that of a passage."""
    place_fields = {} if collection is None else {"collection": collection}
    return {"type": ExportItem.FORGOTTEN.value, **place_fields, "id": id, "at": at.isoformat()}


def tombstone_from_item(item: Mapping[str, Any]) -> tuple[str | None, str, datetime]:
    """Return (collection, id, time) of a tombstone."""
    check_known_fields(item, _TOMBSTONE_FIELDS)
    collection = item.get("collection")
    if collection is not None:
        checked_label(collection, "item.collection")
    return collection, checked_label(item.get("id"), "item.id"), parse_moment(item.get("at"), "item.at")


def item_line(item: Mapping[str, Any]) -> bytes:
    """Return an item as a line."""
    return json.dumps(item, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _checked_number(value: object, argument: str) -> int:
    if checked_int(value, argument, 1) > _MAX_NUMBER:
        raise ArgumentError(argument, value, f"a number of at most {_MAX_NUMBER} is needed")
    return cast("int", value)


def _change_fields(change: MemoryChange) -> dict[str, Any]:
    item: dict[str, Any] = {"id": change.id}
    if change.before is not None:
        item["before"] = change.before
    if change.gone:
        item["gone"] = True
    for key in ("old", "new"):
        if getattr(change, key):
            item[key] = dict(getattr(change, key))
    return item


def _change_from_fields(fields: Any) -> MemoryChange:
    if not isinstance(fields, dict) or type(fields.get("gone", False)) is not bool:
        raise ArgumentError("item.changes", fields, "an object with an id is needed")
    check_known_fields(fields, _CHANGE_FIELDS)
    values = [checked_json_object(fields.get(key, {}), f"item.changes.{key}") for key in ("old", "new")]
    before = fields.get("before")
    before = None if before is None else _checked_number(before, "item.changes.before")
    return MemoryChange(checked_label(fields.get("id"), "item.changes.id"), before, fields.get("gone", False), *values)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Source):
        return dict(_source_to_fields(value))
    return dict(value) if isinstance(value, Mapping) else value


def _source_to_fields(source: Source) -> Iterator[tuple[str, Any]]:
    for key in _SOURCE_FIELDS:
        value = getattr(source, key)
        if value is not None and value != ():
            yield key, list(value) if key == "heading" else value


def _read_field(key: str, value: Any) -> Any:
    if key in _TIME_FIELDS and value is not None:
        return parse_moment(value, f"item.{key}")
    if key in _TUPLE_FIELDS:
        if not isinstance(value, list):
            raise ArgumentError(f"item.{key}", value, "a list is needed")
        return tuple(value)
    if key == "source":
        if not isinstance(value, dict) or set(value) - set(_SOURCE_FIELDS):
            raise ArgumentError("item.source", value, "an object with the fields of a source is needed")
        heading = value.get("heading", [])
        if not isinstance(heading, list):
            raise ArgumentError("item.source.heading", heading, "a list is needed")
        return Source(**{**value, "heading": tuple(heading)})
    return value


def parse_moment(value: Any, argument: str) -> datetime:
    """Return the aware time that *value* is in ISO 8601, or raise ``ArgumentError`` for *argument*."""
    text = checked_text(value, argument)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentError(argument, text, "a time in ISO 8601 is needed") from error
    if moment.tzinfo is None:
        raise ArgumentError(argument, text, "a time with its offset from UTC is needed")
    return to_aware(moment)
