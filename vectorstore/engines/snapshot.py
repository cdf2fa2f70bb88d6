"""Snapshot of a store in memory: its entries, and every table of its database, as the bytes of one file. No I/O.

    16 bytes   ``persisted_names.SNAPSHOT_MAGIC``
     4 bytes   version of the format, little-endian
    image      SQLite database: the tables of all components, and those of ``_TABLES``
    32 bytes   BLAKE2b of everything before

First bytes, version and the checksum at the end stay where they are in every version. Vectors are float32 and term
numbers int32, little-endian; of the terms, what no entry has any more was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.errors import DamageError, NewerFile, NotAStore
from tellback.vectorstore.index.bm25 import ForwardBlock
from tellback.vectorstore.index.memory_namespace import NamespaceState
from tellback.vectorstore.persisted_names import SNAPSHOT_MAGIC
from tellback.vectorstore.sqlite.files import check_header
from tellback.vectorstore.sqlite.migrations import check_schema
from tellback.vectorstore.types import Entry, Metric, Space, Vector


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store: what it was made with, and its namespaces."""

    space: Space | None
    next_space: Space | None
    language: str
    fingerprint: str
    """Fingerprint of the analyzer that made the terms."""
    fields: tuple[str, ...]
    namespaces: tuple[NamespaceState, ...]


SNAPSHOT_VERSION: Final = 2
PREAMBLE_SIZE: Final = len(SNAPSHOT_MAGIC) + 4
"""Bytes before the image; enough to recognise a snapshot."""
_DIGEST_SIZE: Final = 32
_TABLES: Final = {
    "numpy_store": "facts TEXT NOT NULL",
    "numpy_namespaces": "name TEXT PRIMARY KEY, revision INTEGER NOT NULL, pruned INTEGER NOT NULL",
    "numpy_entries": (
        "namespace TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, text TEXT NOT NULL, context TEXT NOT NULL, "
        "metadata TEXT NOT NULL, revision INTEGER NOT NULL, no_vector TEXT, terms BLOB NOT NULL, "
        "context_terms INTEGER NOT NULL, PRIMARY KEY (namespace, id)"
    ),
    "numpy_next_vectors": (
        "namespace TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, no_vector TEXT, PRIMARY KEY (namespace, id)"
    ),
    "numpy_changes": "namespace TEXT NOT NULL, revision INTEGER NOT NULL, id TEXT NOT NULL",
    "numpy_terms": "namespace TEXT NOT NULL, number INTEGER NOT NULL, term TEXT NOT NULL",
}
_FORMAT_ERRORS: Final = (apsw.Error, KeyError, ValueError, TypeError, OverflowError, RecursionError)
"""Errors of reading rows that do not fit together, in a file that nobody damaged."""


def encode_snapshot(state: StoreState, image: apsw.Connection) -> Iterator[bytes]:
    """Yield the bytes of a snapshot, part by part; *image*, a copy of the store's database, is used up and closed."""
    try:
        with image:
            _write_state(image, state)
        image.execute("VACUUM")  # what was erased is in no free page either
        parts = [SNAPSHOT_MAGIC + SNAPSHOT_VERSION.to_bytes(4, "little"), image.serialize("main")]
    finally:
        image.close()
    digest = blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def check_preamble(front: bytes, source: str) -> None:
    """Refuse what does not begin as a snapshot of a version that is known; *source* names it."""
    if front[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
        raise NotAStore(source, "it is not a snapshot of a numpy store; choose another path")
    version = int.from_bytes(front[len(SNAPSHOT_MAGIC) : PREAMBLE_SIZE], "little")
    if version > SNAPSHOT_VERSION:
        raise NewerFile(source, "snapshot format", version, SNAPSHOT_VERSION)
    if len(front) >= PREAMBLE_SIZE and version < SNAPSHOT_VERSION:
        problem = f"it is a snapshot of format {version}, of a version before the first release, which is read no more"
        raise NotAStore(source, f"{problem}; write its data into a new store")


def decode_snapshot(data: bytes, source: str) -> tuple[StoreState, apsw.Connection]:
    """Return the state in *data*, and the tables of its database; *source* names it in errors."""
    check_preamble(data[: len(SNAPSHOT_MAGIC)], source)
    body = memoryview(data)[:-_DIGEST_SIZE]
    if blake2b(body, digest_size=_DIGEST_SIZE).digest() != data[-_DIGEST_SIZE:]:
        raise DamageError(f"{source}: its bytes are not those that were written; restore a copy")
    check_preamble(data[:PREAMBLE_SIZE], source)  # a version is believed only where the checksum is right
    image = apsw.Connection(":memory:")
    try:
        image.deserialize("main", body[PREAMBLE_SIZE:])
        check_header(Path(source), image.pragma("application_id"), image.pragma("user_version"))
        state = _read_state(image)
        for table in _TABLES:
            image.execute(f"DROP TABLE {table}")
        check_schema(image, ())  # a checksum is not a signature: a trigger would act on every later write
        image.execute("VACUUM")
    except DamageError as error:
        image.close()
        raise DamageError(f"{source}: {error}; restore a copy") from error
    except _FORMAT_ERRORS as error:
        image.close()
        raise DamageError(f"{source}: its parts do not fit together ({error}); restore a copy") from error
    return state, image


def _write_state(image: apsw.Connection, state: StoreState) -> None:
    for table, columns in _TABLES.items():
        image.execute(f"CREATE TABLE {table} ({columns}) STRICT")
    facts = {
        "space": None if state.space is None else asdict(state.space),
        "next_space": None if state.next_space is None else asdict(state.next_space),
        "language": state.language,
        "fingerprint": state.fingerprint,
        "fields": state.fields,
    }
    image.execute("INSERT INTO numpy_store VALUES (?)", (json.dumps(facts, ensure_ascii=False),))
    for namespace in state.namespaces:
        name, forward = namespace.name, namespace.forward
        image.execute("INSERT INTO numpy_namespaces VALUES (?, ?, ?)", (name, namespace.revision, namespace.pruned))
        ends = pairwise([0, *np.cumsum(forward.sizes).tolist()])
        entries = zip(namespace.entries, ends, forward.contexts.tolist(), strict=True)
        image.executemany(
            "INSERT INTO numpy_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *(name, entry.id, _vector_bytes(entry.vector), entry.text, entry.context),
                    *(json.dumps(entry.metadata, ensure_ascii=False), entry.revision, entry.no_vector),
                    *(forward.numbers[start:end].astype("<i4").tobytes(), contexts),
                )
                for entry, (start, end), contexts in entries
            ),
        )
        image.executemany(
            "INSERT INTO numpy_next_vectors VALUES (?, ?, ?, ?)",
            (
                (name, id, None, value) if isinstance(value, str) else (name, id, _vector_bytes(value), None)
                for id, value in namespace.second.items()
            ),
        )
        changes, terms = namespace.log, enumerate(namespace.terms, 1)
        image.executemany("INSERT INTO numpy_changes VALUES (?, ?, ?)", ((name, *change) for change in changes))
        image.executemany("INSERT INTO numpy_terms VALUES (?, ?, ?)", ((name, *term) for term in terms))


def _vector_bytes(vector: Vector | None) -> bytes | None:
    return None if vector is None else vector.astype("<f4").tobytes()


def _read_state(image: apsw.Connection) -> StoreState:
    ((text,),) = image.execute("SELECT facts FROM numpy_store")
    facts = json.loads(text)
    space, next_space = _read_space(facts["space"]), _read_space(facts["next_space"])
    rows: list[Any] = image.execute("SELECT name, revision, pruned FROM numpy_namespaces ORDER BY name").fetchall()
    namespaces = tuple(_read_namespace(image, *row, space=space, next_space=next_space) for row in rows)
    language, fingerprint = facts["language"], facts["fingerprint"]
    return StoreState(space, next_space, language, fingerprint, tuple(facts["fields"]), namespaces)


def _read_namespace(
    image: apsw.Connection, name: str, revision: int, pruned: int, *, space: Space | None, next_space: Space | None
) -> NamespaceState:
    columns = "id, vector, text, context, metadata, revision, no_vector, terms, context_terms"
    entries: list[Entry] = []
    numbers: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    contexts: list[int] = []
    for id, vector, content, context, metadata, written, reason, terms, context_terms in image.execute(
        f"SELECT {columns} FROM numpy_entries WHERE namespace = ? ORDER BY rowid", (name,)
    ):
        fields = json.loads(metadata)
        if not isinstance(fields, dict):
            raise TypeError(f"metadata of {id!r} that are no object")
        entries.append(Entry(id, _read_vector(vector, space), content, context, fields, written, reason))
        numbers.append(np.frombuffer(terms, "<i4").astype(np.int32))
        contexts.append(context_terms)
    next_vectors = image.execute("SELECT id, vector, no_vector FROM numpy_next_vectors WHERE namespace = ?", (name,))
    second = {id: _read_vector(vector, next_space) if reason is None else reason for id, vector, reason in next_vectors}
    changes = image.execute("SELECT revision, id FROM numpy_changes WHERE namespace = ? ORDER BY rowid", (name,))
    named = image.execute("SELECT term FROM numpy_terms WHERE namespace = ? ORDER BY number", (name,))
    state = NamespaceState(
        name=name,
        entries=entries,
        second={id: value for id, value in second.items() if value is not None},
        log=[(number, id) for number, id in changes],
        pruned=pruned,
        revision=revision,
        terms=[term for (term,) in named],
        forward=ForwardBlock(
            (), np.concatenate(numbers), np.array([len(part) for part in numbers[1:]], np.int64), np.array(contexts)
        ),
    )
    _check_terms(state)
    return state


def _check_terms(state: NamespaceState) -> None:
    """Refuse terms that nobody knows and contexts longer than their entry: a checksum is not a signature."""
    forward = state.forward
    if len(forward.numbers) and not 0 <= forward.numbers.min() <= forward.numbers.max() <= len(state.terms):
        raise ValueError("unknown terms")
    if np.any(forward.contexts < 0) or np.any(forward.contexts > forward.sizes):
        raise ValueError("a context longer than its entry")


def _read_vector(data: bytes | None, space: Space | None) -> Vector | None:
    if data is None:
        return None
    vector = np.frombuffer(data, "<f4").astype(np.float32)  # each its own, so that one kept does not keep them all
    if space is None or vector.shape != (space.dimension,):
        raise ValueError("a vector of another space")
    return vector


def _read_space(facts: dict[str, Any] | None) -> Space | None:
    return None if facts is None else Space(facts["fingerprint"], facts["dimension"], Metric(facts["metric"]))
