"""Ids of memories, and the idempotency keys that name them.

An id is short enough to type, in order of time and unique across processes. A caller's key usually names an id by
itself (``keyed_id``), under the secret of the file. What is kept in the table is only where the memory of a key has
another id, since it came from another file; and of the key only the id that it would have: it says nothing elsewhere.

keys   by namespace and the id that a key would have, or a keyed hash of a text: the id of the memory
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final

from tellback.memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace
from tellback.memory.tables.erasers import ErasedItems
from tellback.memory.timestamps import Clock, system_clock
from tellback.vectorstore import Connection, Database, TableComponent

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no letter that reads as another
_DIGIT_PAIRS: Final = [high + low for high in _ALPHABET for low in _ALPHABET]
_ID_LENGTH: Final = 16
_RANDOM_BITS: Final = 35
_KEYED_ID_LENGTH: Final = 20
_TEXT_NAME: Final = "t"
"""Beginning of the names of texts; those of keys begin with "k"."""


class TimeOrderedIds:
    """Gives ids of 16 characters: 45 bits of milliseconds and 35 random ones, each above the last.

    >>> len(TimeOrderedIds()())
    16
    """

    def __init__(self, *, clock: Clock = system_clock, token: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._token = token
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> str:
        """Return the next id."""
        milliseconds = max(int(self._clock().timestamp() * 1000), 0)
        random = int.from_bytes(self._token(5), "big") >> (40 - _RANDOM_BITS)
        with self._lock:
            number = max(milliseconds << _RANDOM_BITS | random, self._last + 1)
            self._last = number
        return _digits(number, _ID_LENGTH)


def keyed_id(secret: bytes, namespace: str, key: str) -> str:
    """Return the id of the memory that a caller's *key* names: the same in every process that has the file.

    A given key is then looked up by id, and two processes that use it at once meet at the same id.
    """
    digest = blake2b(digest_size=16, key=secret)
    for part in (namespace.encode(), key.encode()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return "k" + _digits(int.from_bytes(digest.digest(), "big"), _KEYED_ID_LENGTH)


def _digits(number: int, length: int) -> str:
    """Return *number* in *length* digits, an even count of them."""
    return "".join([_DIGIT_PAIRS[number >> shift & 1023] for shift in range(5 * (length - 2), -1, -10)])


_BATCH_SIZE: Final = 500
_ID_QUERY: Final = "SELECT id FROM keys WHERE namespace = ? AND name = ?"


class IdempotencyKeys:
    """Ids that keys name, in a table of *database*; *secret* is that of the file. Each call is one transaction.

    A key is kept under the id that it would have (*name*), and only where its memory has another id. It is also the
    ``RestorableEraser`` of the names of memories that are forgotten.
    """

    name = "keys"

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._secret = secret
        database.attach(IDEMPOTENCY_KEY_TABLES)

    def id_of_key(self, namespace: str, key: str) -> str:
        """Return the id of the memory that a caller's *key* names, whether the memory exists or not."""
        name = keyed_id(self._secret, namespace, key)
        return self.get(namespace, name) or name

    def name_key(self, namespace: str, key: str, id: str) -> None:
        """Let a caller's *key* name the memory *id*."""
        name = keyed_id(self._secret, namespace, key)
        if name != id:
            self.put(namespace, name, id)

    def name_of_text(self, namespace: str, text: str) -> str:
        """Return the name that a memory without a key has by its *text*; no key of a caller's has the same."""
        return _TEXT_NAME + keyed_id(self._secret, namespace, text)

    def get(self, namespace: str, name: str) -> str | None:
        """Return the id recorded under *name*; None where the name is the id itself."""
        with self._database.read() as connection:
            row = connection.execute(_ID_QUERY, (namespace, name)).fetchone()
        return None if row is None else str(row[0])

    def read_ahead(self, namespace: str, names: Iterable[str]) -> None:
        """Read at once, in the present transaction, what *names* name."""
        with self._database.read() as connection:
            connection.read_ahead((_ID_QUERY, (namespace, name)) for name in dict.fromkeys(names))

    def put(self, namespace: str, name: str, id: str) -> None:
        """Record *id* under *name*."""
        with self._database.write(lock=namespace) as connection:
            connection.execute(
                "INSERT INTO keys (namespace, name, id) VALUES (?, ?, ?)"
                " ON CONFLICT (namespace, name) DO UPDATE SET id = excluded.id",
                (namespace, name, id),
            )

    def of(self, namespace: str, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return (name, id) of those of *ids* that are recorded under a name, in order."""
        named_ids: list[tuple[str, str]] = []
        with self._database.read() as connection:
            for start in range(0, len(ids), _BATCH_SIZE):
                batch = ids[start : start + _BATCH_SIZE]
                marks = ", ".join("?" * len(batch))
                sql = f"SELECT name, id FROM keys WHERE namespace = ? AND id IN ({marks})"
                named_ids += [(str(name), str(id)) for name, id in connection.execute(sql, (namespace, *batch))]
        return sorted(named_ids)

    def remove(self, namespace: str, ids: Sequence[str] | None) -> int:
        """Remove the names of *ids*, or all of the namespace for None; return how many there were."""
        named = None if ids is None else sorted({id for _, id in self.of(namespace, ids)})
        if named == []:
            return 0
        groups = [None] if named is None else [named[n : n + _BATCH_SIZE] for n in range(0, len(named), _BATCH_SIZE)]
        removed = 0
        with self._database.write(lock=namespace) as connection:
            for group in groups:
                chosen = "" if group is None else f" AND id IN ({', '.join('?' * len(group))})"
                connection.execute(f"DELETE FROM keys WHERE namespace = ?{chosen}", (namespace, *(group or ())))
                removed += connection.changes()
            if removed:
                self._database.mark_erasure(connection)
        return removed

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``."""
        return self.remove(gone.namespace, None if gone.everything else _conversation_ids(gone))

    def put_away(self, gone: ErasedItems) -> str | None:
        """As ``RestorableEraser.put_away``; names of texts are not kept, since an equal note makes its own again."""
        named = self.of(gone.namespace, _conversation_ids(gone))
        kept = [(name, id) for name, id in named if not name.startswith(_TEXT_NAME + "k")]
        return json.dumps(kept) if kept else None

    def put_back(self, namespace: str, kept: str) -> None:
        """As ``RestorableEraser.put_back``."""
        for name, id in json.loads(kept):
            self.put(namespace, name, id)


def _conversation_ids(gone: ErasedItems) -> list[str]:
    """Return the ids of the memories that go; of one that was undone or merged, only versions are there."""
    memories: dict[str, None] = {}
    for partition, ids in gone.entries.items():
        lane = parse_store_namespace(partition)[1]
        if lane == CONVERSATION:
            memories.update(dict.fromkeys(ids))
        elif lane == ARCHIVE:
            memories.update(dict.fromkeys(id.rpartition("@")[0] for id in ids))
    return list(memories)


def m001_idempotency_keys(connection: Connection) -> None:
    """Create the table."""
    connection.execute(
        "CREATE TABLE keys (namespace TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL,"
        " PRIMARY KEY (namespace, name)) STRICT, WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX keys_by_id ON keys (namespace, id)")


IDEMPOTENCY_KEY_TABLES: Final = TableComponent("keys", (m001_idempotency_keys,), ("keys",))
