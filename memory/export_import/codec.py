"""File format of an export: the manifest line and the items as JSON objects, to text and back. Pure.

The manifest is the first line: what the lines below hold, how many there are, and their hash. It is written last and
stands first, so it is filled up with blanks to a length that all its numbers fit in.

A field that has its usual value is left out. Versions are numbered within their memory, from 1 for the oldest, since
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
    """What an export says of itself. *selection* is what it was limited to; None: it is complete.

    *probes* are the answers of the vectors' model to the probes by which it is known again, float32 in base64.
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
        return np.array([vector_from_text(one, self.space.dimension) for one in self.probes], np.float32)

    def line(self) -> bytes:
        """Return the line, filled up with blanks to its greatest length."""
        written = self._json(self.counts, self.hash)
        room = self._json(dict.fromkeys(self.counts, _MAX_COUNT), "0" * 2 * _HASH_BYTES)
        return written.ljust(len(room)) + b"\n"

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
    """Return what the lines below the manifest are hashed with."""
    return blake2b(digest_size=_HASH_BYTES)


def read_manifest(line: bytes, path: str) -> ExportManifest:
    """Return the manifest that *line* holds; one of a newer version, or none at all, raises."""
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableExport(path, 1, "the first line is not UTF-8; it is no export of this program") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(path, 1, "the first line is not JSON; it is no export of this program") from error
    if not isinstance(given, dict) or given.get("format") != EXPORT_FORMAT:
        raise UnreadableExport(
            path, 1, f'the first line has no "format": "{EXPORT_FORMAT}"; it is no export of this program'
        )
    version = given.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnreadableExport(path, 1, "the version is not a number")
    if version > EXPORT_VERSION:
        raise UnreadableExport(
            path, 1, f"its version is {version}, this program reads up to {EXPORT_VERSION}; use a newer one"
        )
    counts, digest, selection = given.get("counts"), given.get("hash"), given.get("selection")
    if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise UnreadableExport(path, 1, "the counts are missing or wrong")
    if not isinstance(digest, str) or len(digest) != 2 * _HASH_BYTES:
        raise UnreadableExport(path, 1, "the hash is missing or wrong")
    if selection is not None and not isinstance(selection, dict):
        raise UnreadableExport(path, 1, "the selection is wrong")
    space, vectors = _space_from_fields(given.get("space"), path), given.get("vectors")
    if not isinstance(vectors, bool):
        raise UnreadableExport(path, 1, "whether it has vectors is missing or wrong")
    return ExportManifest(space, vectors, counts, digest, selection, _checked_probes(given.get("probes"), space, path))


def vector_to_text(row: Vector) -> str:
    """Return a vector as text: float32, little-endian, in base64."""
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


def vector_from_text(text: object, dimension: int | None) -> Vector:
    """Return the vector that ``vector_to_text`` made *text* of: *dimension* finite numbers."""
    try:
        row = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)  # type: ignore[arg-type]  # any JSON may come in; the error is the check
    except (binascii.Error, TypeError, ValueError) as error:
        raise ArgumentError("item.vector", "…", "float32 numbers in base64 are needed") from error
    if len(row) != dimension or not np.isfinite(row).all():
        raise ArgumentError("item.vector", len(row), f"{dimension} finite numbers are needed")
    return row


def _checked_probes(given: Any, space: Space | None, path: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    try:
        if isinstance(given, list) and given and space is not None:
            for one in given:
                vector_from_text(one, space.dimension)
            return tuple(given)
    except ArgumentError as error:
        raise UnreadableExport(path, 1, "the probes are wrong") from error
    raise UnreadableExport(path, 1, "the probes are wrong")


def _space_fields(space: Space) -> dict[str, Any]:
    return {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}


def _space_from_fields(given: Any, path: str) -> Space | None:
    if given is None:
        return None
    try:
        fingerprint, dimension, metric = given["fingerprint"], given["dimension"], Metric(given["metric"])
        if isinstance(fingerprint, str) and type(dimension) is int and dimension > 0:
            return Space(fingerprint, dimension, metric)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableExport(path, 1, "the space is wrong") from error
    raise UnreadableExport(path, 1, "the space is wrong")


_OMITTED_FIELDS: Final = ("id", "text", "revision")
_TIME_FIELDS: Final = frozenset(one.name for one in fields(Memory) if "datetime" in str(one.type))
_TUPLE_FIELDS: Final = ("tags", "derived_from")
_MAPPING_FIELDS: Final = ("scopes", "metadata")
_VERSION_FIELDS: Final[dict[str, Any]] = {
    "retired_at": None,
    "counts_from": None,
    "counts_to": None,
    "withdrawn": False,
}
_DEFAULTS: Final = {
    one.name: one.default if one.default is not MISSING else {} for one in fields(Memory) if one.name != "text"
}
_SOURCE_FIELDS: Final = tuple(one.name for one in fields(Source))
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
"""A number that counts things is no larger: what comes after it still fits into a table."""
_MIN_VECTOR_LENGTH: Final = 1e-30
"""Cosine asks for a direction: a vector must have a length."""


def memory_fields(entry: Entry, *, vectors: bool) -> dict[str, Any]:
    """Return the fields of the memory in *entry*, and its vector where *vectors* are carried."""
    memory = from_entry(entry)
    found: dict[str, Any] = {"id": entry.id, "text": memory.text}
    for one, usual in _DEFAULTS.items():
        value = getattr(memory, one)
        if one not in _OMITTED_FIELDS and value != usual:
            found[one] = _json_value(value)
    known = to_metadata(memory)
    beside = {key: value for key, value in entry.metadata.items() if key not in known}
    if beside:
        found["beside"] = beside
    if entry.no_vector is not None:
        found["no_vector"] = entry.no_vector
    if vectors and entry.vector is not None:
        found["vector"] = vector_to_text(entry.vector)
    return found


def memory_from_item(given: Mapping[str, Any]) -> Memory:
    """Return the memory that an item holds; what is not right raises ``ArgumentError``."""
    places = _PLACE_FIELDS.get(given.get("type"), ())
    check_known_fields(given, {*_ITEM_FIELDS, *places, *_DEFAULTS} - {"revision"})
    values = {
        key: _read_field(key, value) for key, value in given.items() if key not in _ITEM_FIELDS and key not in places
    }
    of_version = {key: values.pop(key) for key in _VERSION_FIELDS if key in values}
    if type(of_version.get("withdrawn", False)) is not bool:
        raise ArgumentError("item.withdrawn", of_version["withdrawn"], "true or false is needed")
    id = checked_label(given.get("id"), "item.id")
    try:
        memory = Memory(text=cast("str", given.get("text")), id=id, **values)
    except TypeError as error:
        raise ArgumentError("item", id, str(error)) from error
    return replace(checked_memory(memory), **of_version)


def version_fields(memory: Memory) -> dict[str, Any]:
    """Return those fields of *memory* that a version has of the time that it counted for."""
    return {key: getattr(memory, key) for key in _VERSION_FIELDS}


def without_version_fields(memory: Memory) -> Memory:
    """Return *memory* as one that somebody gives, without these fields."""
    return replace(memory, **_VERSION_FIELDS)


def extra_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what other parts keep with the memory; it may not pass for a field of ours."""
    beside = given.get("beside", {})
    for key in checked_json_object(beside, "item.beside"):
        ours = key in _DEFAULTS or key in _SOURCE_FIELDS or key.startswith(("scope.", "meta.", "source."))
        if ours or key.removesuffix("_offset") in _TIME_FIELDS:
            raise ArgumentError("item.beside", key, "a field that is none of a memory's own is needed")
    return cast("dict[str, Any]", beside)


def vector_from_item(given: Mapping[str, Any], space: Space | None) -> Vector | None:
    """Return the vector of an item as *space* takes it: as many finite numbers, and under cosine with a length."""
    text = given.get("vector")
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
    """Return the fields of a message in its place."""
    return {
        "type": ExportItem.MESSAGE.value,
        "session": row.session,
        "sequence": row.sequence,
        "at": row.at.isoformat(),
        "memory": row.memory,
        "message": json.loads(row.message.model_dump_json()),
    }


def message_from_item(given: Mapping[str, Any], namespace: str) -> HistoryRow:
    """Return the message that an item holds."""
    check_known_fields(given, _MESSAGE_FIELDS)
    session = checked_session(given.get("session"))
    sequence = _checked_number(given.get("sequence"), "item.sequence")
    memory = given.get("memory")
    if memory is not None and memory != "":
        checked_label(memory, "item.memory")
    try:
        message: Message = message_from_json(json.dumps(given.get("message")))
    except ValidationError as error:
        raise ArgumentError("item.message", "…", "a message is needed") from error
    message_to_json(message, "item.message")
    return HistoryRow(namespace, session, sequence, message, _parse_moment(given.get("at"), "item.at"), memory)


def session_fields(session: str, number: int) -> dict[str, Any]:
    """Return the fields of a session whose next message gets *number*."""
    return {"type": ExportItem.SESSION.value, "session": session, "next": number}


def session_from_item(given: Mapping[str, Any]) -> tuple[str, int]:
    """Return (session, the number of its next message)."""
    check_known_fields(given, _SESSION_FIELDS)
    return checked_session(given.get("session")), _checked_number(given.get("next"), "item.next")


def operation_fields(operation: Operation, changes: tuple[MemoryChange, ...]) -> dict[str, Any]:
    """Return the fields of an operation; *changes* with versions in the place of revisions."""
    found: dict[str, Any] = {
        "type": ExportItem.OPERATION.value,
        "id": operation.id,
        "kind": operation.kind,
        "actor": operation.actor,
        "at": operation.at.isoformat(),
    }
    for key in ("undoes", "undone_by"):
        if getattr(operation, key) is not None:
            found[key] = getattr(operation, key)
    found["changes"] = [_change_fields(change) for change in changes]
    return found


def operation_from_item(given: Mapping[str, Any]) -> Operation:
    """Return the operation that an item holds; that of an export or an import is none, since no log brings one."""
    check_known_fields(given, _OPERATION_FIELDS)
    changes, kind = given.get("changes"), checked_label(given.get("kind"), "item.kind")
    if kind in (EXPORT_KIND, IMPORT_KIND):
        raise ArgumentError("item.kind", kind, "a kind of operation that an export carries is needed")
    if not isinstance(changes, list):
        raise ArgumentError("item.changes", changes, "a list is needed")
    read = tuple(_change_from_fields(change) for change in changes)
    if len({change.id for change in read}) < len(read):
        raise ArgumentError("item.changes", "…", "one change of each memory is needed")
    for key in ("undoes", "undone_by"):
        if given.get(key) is not None:
            checked_label(given[key], f"item.{key}")
    return Operation(
        id=checked_label(given.get("id"), "item.id"),
        kind=kind,
        actor=checked_actor(cast("Any", given.get("actor")), "item.actor"),
        at=_parse_moment(given.get("at"), "item.at"),
        changes=read,
        undoes=given.get("undoes"),
        undone_by=given.get("undone_by"),
    )


def tombstone_fields(collection: str | None, id: str, at: datetime) -> dict[str, Any]:
    """Return the fields of a tombstone; *collection* is that of a passage."""
    place = {} if collection is None else {"collection": collection}
    return {"type": ExportItem.FORGOTTEN.value, **place, "id": id, "at": at.isoformat()}


def tombstone_from_item(given: Mapping[str, Any]) -> tuple[str | None, str, datetime]:
    """Return (collection, id, when) of a tombstone."""
    check_known_fields(given, _TOMBSTONE_FIELDS)
    collection = given.get("collection")
    if collection is not None:
        checked_label(collection, "item.collection")
    return collection, checked_label(given.get("id"), "item.id"), _parse_moment(given.get("at"), "item.at")


def item_line(given: Mapping[str, Any]) -> bytes:
    """Return an item as a line."""
    return json.dumps(given, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _checked_number(value: object, argument: str) -> int:
    if checked_int(value, argument, 1) > _MAX_NUMBER:
        raise ArgumentError(argument, value, f"a number of at most {_MAX_NUMBER} is needed")
    return cast("int", value)


def _change_fields(change: MemoryChange) -> dict[str, Any]:
    found: dict[str, Any] = {"id": change.id}
    if change.before is not None:
        found["before"] = change.before
    if change.gone:
        found["gone"] = True
    for key in ("old", "new"):
        if getattr(change, key):
            found[key] = dict(getattr(change, key))
    return found


def _change_from_fields(given: Any) -> MemoryChange:
    if not isinstance(given, dict) or type(given.get("gone", False)) is not bool:
        raise ArgumentError("item.changes", given, "an object with an id is needed")
    check_known_fields(given, _CHANGE_FIELDS)
    values = [checked_json_object(given.get(key, {}), f"item.changes.{key}") for key in ("old", "new")]
    before = given.get("before")
    before = None if before is None else _checked_number(before, "item.changes.before")
    return MemoryChange(checked_label(given.get("id"), "item.changes.id"), before, given.get("gone", False), *values)


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
        return _parse_moment(value, f"item.{key}")
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


def _parse_moment(value: Any, argument: str) -> datetime:
    text = checked_text(value, argument)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentError(argument, text, "a time in ISO 8601 is needed") from error
    if moment.tzinfo is None:
        raise ArgumentError(argument, text, "a time with its offset from UTC is needed")
    return to_aware(moment)
