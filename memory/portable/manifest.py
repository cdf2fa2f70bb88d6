"""The first line of an export: what the lines below hold, how many there are, and their hash.

It is written last and stands first, so it is filled up with blanks to a length that all its numbers fit in.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from memory.errors import ArgumentError, UnreadableExport
from memory.write.probes import Rows
from vectorstore import Metric, Space, Vector

FORMAT: Final = "mneme export"
VERSION: Final = 1
_MOST: Final = 10**12 - 1
_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export says of itself. *selection* is what it was limited to; None: it is complete.

    *probes* are the answers of the vectors' model to the probes by which it is known again, float32 in base64.
    """

    space: Space | None
    vectors: bool
    counts: Mapping[str, int]
    hash: str = ""
    selection: Mapping[str, Any] | None = None
    probes: tuple[str, ...] | None = None

    def probe_rows(self) -> Rows | None:
        """Return the answers to the probes, shape (texts, dimension); None where there are none."""
        if self.probes is None or self.space is None:
            return None
        return np.array([row_of(one, self.space.dimension) for one in self.probes], np.float32)

    def line(self) -> bytes:
        """Return the line, filled up with blanks to its greatest length."""
        written = self._json(self.counts, self.hash)
        room = self._json(dict.fromkeys(self.counts, _MOST), "0" * 2 * _SIZE)
        return written.ljust(len(room)) + b"\n"

    def _json(self, counts: Mapping[str, int], digest: str) -> bytes:
        space = None if self.space is None else _space_fields(self.space)
        fields = {
            "type": "manifest",
            "format": FORMAT,
            "version": VERSION,
            "space": space,
            "vectors": self.vectors,
            "probes": None if self.probes is None else list(self.probes),
            "selection": self.selection,
            "counts": dict(counts),
            "hash": digest,
        }
        return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()


def hasher() -> blake2b:
    """Return what the lines below the manifest are hashed with."""
    return blake2b(digest_size=_SIZE)


def read_manifest(line: bytes, path: str) -> Manifest:
    """Return the manifest that *line* holds; one of a newer version, or none at all, raises."""
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableExport(path, 1, "the first line is not UTF-8; it is no export of this program") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableExport(path, 1, "the first line is not JSON; it is no export of this program") from error
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise UnreadableExport(path, 1, f'the first line has no "format": "{FORMAT}"; it is no export of this program')
    version = given.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnreadableExport(path, 1, "the version is not a number")
    if version > VERSION:
        raise UnreadableExport(
            path, 1, f"its version is {version}, this program reads up to {VERSION}; use a newer one"
        )
    counts, digest, selection = given.get("counts"), given.get("hash"), given.get("selection")
    if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise UnreadableExport(path, 1, "the counts are missing or wrong")
    if not isinstance(digest, str) or len(digest) != 2 * _SIZE:
        raise UnreadableExport(path, 1, "the hash is missing or wrong")
    if selection is not None and not isinstance(selection, dict):
        raise UnreadableExport(path, 1, "the selection is wrong")
    space, vectors = _space(given.get("space"), path), given.get("vectors")
    if not isinstance(vectors, bool):
        raise UnreadableExport(path, 1, "whether it has vectors is missing or wrong")
    return Manifest(space, vectors, counts, digest, selection, _probes(given.get("probes"), space, path))


def text_of(row: Vector) -> str:
    """Return a vector as text: float32, little-endian, in base64."""
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


def row_of(text: object, dimension: int | None) -> Vector:
    """Return the vector that ``text_of`` made *text* of: *dimension* finite numbers."""
    try:
        row = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)  # type: ignore[arg-type]  # any JSON may come in; the error is the check
    except (binascii.Error, TypeError, ValueError) as error:
        raise ArgumentError("item.vector", "…", "float32 numbers in base64 are needed") from error
    if len(row) != dimension or not np.isfinite(row).all():
        raise ArgumentError("item.vector", len(row), f"{dimension} finite numbers are needed")
    return row


def _probes(given: Any, space: Space | None, path: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    try:
        if isinstance(given, list) and given and space is not None:
            for one in given:
                row_of(one, space.dimension)
            return tuple(given)
    except ArgumentError as error:
        raise UnreadableExport(path, 1, "the probes are wrong") from error
    raise UnreadableExport(path, 1, "the probes are wrong")


def _space_fields(space: Space) -> dict[str, Any]:
    return {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}


def _space(given: Any, path: str) -> Space | None:
    if given is None:
        return None
    try:
        fingerprint, dimension, metric = given["fingerprint"], given["dimension"], Metric(given["metric"])
        if isinstance(fingerprint, str) and type(dimension) is int and dimension > 0:
            return Space(fingerprint, dimension, metric)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableExport(path, 1, "the space is wrong") from error
    raise UnreadableExport(path, 1, "the space is wrong")
