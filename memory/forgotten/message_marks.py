"""Marks of messages that were forgotten: keyed hashes of their places, so that an import does not bring them back."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from memory.lanes import store_namespace
from memory.storage.rows import HistoryRow

_SIZE: Final = 16


def history_lane(namespace: str) -> str:
    """Return under which lane the tombstones of messages are; no entry of the store is there."""
    return store_namespace(namespace, "history")


def marks_of(key: bytes, rows: Iterable[HistoryRow]) -> list[str]:
    """Return a mark for each message: of its session, number and time, under the secret of the file."""
    return [_mark(key, row) for row in rows]


def _mark(key: bytes, row: HistoryRow) -> str:
    digest = blake2b(digest_size=_SIZE, key=key, person=b"message")
    for part in (row.session, str(row.sequence), row.at.isoformat()):
        digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
    return digest.hexdigest()
