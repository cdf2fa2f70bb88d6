"""Values as psycopg sends and reads them: whole numbers of 64 bits, texts that may hold NUL, vectors of pgvector.

PostgreSQL's texts have no NUL: it is written as U+0001 U+0001, and U+0001 as U+0001 U+0002, which keeps the order of
texts.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import numpy as np
from psycopg import Connection, pq
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

from tellback.vectorstore.database import VectorBytes

_MARK: Final = "\1"
_ESCAPED: Final = re.compile("\1([\1\2])")
_VECTOR_HEADER_BYTES: Final = 4
"""pgvector's binary form: the dimension and a zero, 16 bits each, then float32, all of it big-endian."""


def encode_text(text: str) -> str:
    """Return *text* as it is stored."""
    if "\0" in text or _MARK in text:
        return text.replace(_MARK, "\1\2").replace("\0", "\1\1")
    return text


def decode_text(text: str) -> str:
    """Return a stored text as it was given."""
    return _ESCAPED.sub(lambda found: "\0" if found[1] == _MARK else _MARK, text) if _MARK in text else text


class _TextDumper(Dumper):
    """Sends a text with no type of its own, so that the statement gives it one."""

    def dump(self, obj: str) -> Buffer:
        return encode_text(obj).encode()


class _TextLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> str:
        return decode_text(str(data, "utf-8"))


class _WholeNumberLoader(NumericBinaryLoader):
    """Sums of whole numbers are of the type numeric."""

    def load(self, data: Buffer) -> Any:
        value: Decimal = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


class _VectorDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: bytes) -> Buffer:
        numbers = np.frombuffer(obj, dtype="<f4").astype(">f4").tobytes()
        return (len(obj) // 4).to_bytes(2, "big") + b"\0\0" + numbers


class _VectorLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return np.frombuffer(data, dtype=">f4", offset=_VECTOR_HEADER_BYTES).astype("<f4").tobytes()


def register_values(connection: Connection[Any]) -> None:
    """Let *connection* take and return the values of ``tellback.vectorstore.Connection``."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    for kind in (int, bool):
        adapters.register_dumper(kind, Int8BinaryDumper)
    for name in ("text", "varchar", "name"):
        adapters.register_loader(name, _TextLoader)
    adapters.register_loader("numeric", _WholeNumberLoader)
    vector = TypeInfo.fetch(connection, "vector")
    if vector is not None:
        vector.register(connection)
        adapters.register_dumper(VectorBytes, type("VectorDumper", (_VectorDumper,), {"oid": vector.oid}))
        adapters.register_loader(vector.oid, _VectorLoader)
