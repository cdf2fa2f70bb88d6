r"""Snapshot of a store in memory: its state as values, and as the bytes of a header and named arrays. No I/O.

    16 bytes   ``persisted_names.SNAPSHOT_MAGIC``
     4 bytes   version of the format, little-endian
     4 bytes   length of the header, little-endian
    header     JSON; under "arrays" the [name, dtype, shape] of each array in order
    arrays     as ``numpy.frombuffer`` reads them, little-endian, C order, each at a multiple of 64 bytes
    32 bytes   BLAKE2b of everything before

First bytes, version and the checksum at the end stay where they are in every version. No pickle: reading runs no
code.

Texts are two arrays: the UTF-8 of all of them end to end (``.bytes``), and where each ends (``.ends``). Rows of all
namespaces follow one another; ``namespaces.counts`` says how many are whose: entries, second, changes, terms; then a
namespace's write number, and the one before which its changes are forgotten. An empty reason (``no_vector``) is none.
Of ``terms``, what no entry has any more was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore.errors import DamageError, NewerFile, NotAStore
from vectorstore.index.bm25 import ForwardBlock
from vectorstore.persisted_names import SNAPSHOT_MAGIC
from vectorstore.types import Entry, Metric, Space, Vector


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """State of one namespace; *forward* is in the order of *entries*, and 1 in it is the first of *terms*."""

    name: str
    entries: Sequence[Entry]
    second: Mapping[str, Vector | str]
    """Vectors of the space that is being filled, by id; a text is the reason for none."""
    log: Sequence[tuple[int, str]]
    pruned: int
    revision: int
    terms: Sequence[str]
    forward: ForwardBlock


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store: what it was made with, and its namespaces."""

    space: Space | None
    next_space: Space | None
    language: str
    fingerprint: str
    """Fingerprint of the analyzer that made the terms."""
    fields: tuple[str, ...]
    namespaces: Sequence[NamespaceState]


SNAPSHOT_VERSION: Final = 1
PREAMBLE_SIZE: Final = len(SNAPSHOT_MAGIC) + 8
"""Bytes before the header; enough to recognise a snapshot."""
_DIGEST_SIZE: Final = 32
_ALIGNMENT: Final = 64
_DTYPES: Final = ("<f4", "<i4", "<i8", "|u1", "|b1")

NamedArrays = dict[str, NDArray[Any]]


class SnapshotFormatError(ValueError):
    """Data with the right checksum that makes no sense."""


def pack_arrays(header: Mapping[str, object], arrays: NamedArrays) -> Iterator[bytes]:
    """Yield the bytes of a header and arrays, part by part."""
    listed = {name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    described = [[name, array.dtype.str, list(array.shape)] for name, array in listed.items()]
    text = json.dumps({**header, "arrays": described}, ensure_ascii=False).encode()
    front = SNAPSHOT_MAGIC + SNAPSHOT_VERSION.to_bytes(4, "little") + len(text).to_bytes(4, "little")
    digest = blake2b(digest_size=_DIGEST_SIZE)
    for part in chain([front + text], (array.tobytes() for array in listed.values())):
        padded = part + bytes(-len(part) % _ALIGNMENT)
        digest.update(padded)
        yield padded
    yield digest.digest()


def check_preamble(front: bytes, source: str) -> None:
    """Refuse what does not begin as a snapshot of a version that is known; *source* names it."""
    if front[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
        raise NotAStore(source, "it is not a snapshot of a numpy store; choose another path")
    version = int.from_bytes(front[len(SNAPSHOT_MAGIC) : len(SNAPSHOT_MAGIC) + 4], "little")
    if version > SNAPSHOT_VERSION:
        raise NewerFile(source, "snapshot format", version, SNAPSHOT_VERSION)


def unpack_arrays(data: bytes, source: str) -> tuple[dict[str, Any], NamedArrays]:
    """Return the header and the arrays, read-only, in *data*; *source* names it in errors."""
    check_preamble(data[: len(SNAPSHOT_MAGIC)], source)
    body = memoryview(data)[:-_DIGEST_SIZE]
    if blake2b(body, digest_size=_DIGEST_SIZE).digest() != data[-_DIGEST_SIZE:]:
        raise DamageError(f"{source}: its bytes are not those that were written; restore a copy")
    check_preamble(data[:PREAMBLE_SIZE], source)  # a version is believed only where the checksum is right
    end = PREAMBLE_SIZE + int.from_bytes(data[PREAMBLE_SIZE - 4 : PREAMBLE_SIZE], "little")
    header = json.loads(data[PREAMBLE_SIZE:end])
    arrays: NamedArrays = {}
    for name, dtype, shape in header["arrays"]:
        end += -end % _ALIGNMENT
        arrays[name] = _read_array(body, end, dtype, shape)
        end += arrays[name].nbytes
    return header, arrays


def _read_array(body: memoryview, start: int, dtype: str, shape: list[int]) -> NDArray[Any]:
    if dtype not in _DTYPES or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise SnapshotFormatError(f"an array of {dtype!r} and {shape}")
    flat = np.frombuffer(body[start : start + int(np.dtype(dtype).itemsize * np.prod(shape, dtype=object))], dtype)
    return flat.astype(flat.dtype.newbyteorder("="), copy=False).reshape(shape)


_COUNT_COLUMNS: Final = 6
_FORMAT_ERRORS: Final = (KeyError, ValueError, TypeError, IndexError, OverflowError, RecursionError)
"""Errors of reading arrays that do not fit together, in a file that nobody damaged."""


def encode_snapshot(state: StoreState) -> Iterator[bytes]:
    """Yield the bytes of a snapshot, part by part."""
    header = {
        "space": None if state.space is None else asdict(state.space),
        "next_space": None if state.next_space is None else asdict(state.next_space),
        "analyser": {"language": state.language, "fingerprint": state.fingerprint},
        "fields": list(state.fields),
    }
    return pack_arrays(header, _state_arrays(state))


def decode_snapshot(data: bytes, source: str) -> StoreState:
    """Return the state in *data*; *source* names it in errors."""
    try:
        return _read_state(*unpack_arrays(data, source))
    except _FORMAT_ERRORS as error:
        raise DamageError(f"{source}: its parts do not fit together ({error}); restore a copy") from error


# Writing.


def _state_arrays(state: StoreState) -> NamedArrays:
    spaces = state.namespaces
    entries = [entry for space in spaces for entry in space.entries]
    second = [pair for space in spaces for pair in space.second.items()]
    changes = [change for space in spaces for change in space.log]
    rows = [(space.entries, space.second, space.log, space.terms) for space in spaces]
    counts = [(*map(len, parts), space.revision, space.pruned) for parts, space in zip(rows, spaces, strict=True)]
    return {
        **_text_arrays("namespaces.name", [space.name for space in spaces]),
        "namespaces.counts": np.array(counts, dtype=np.int64).reshape(-1, _COUNT_COLUMNS),
        **_text_arrays("entries.id", [entry.id for entry in entries]),
        **_text_arrays("entries.text", [entry.text for entry in entries]),
        **_text_arrays("entries.context", [entry.context for entry in entries]),
        **_text_arrays("entries.metadata", [json.dumps(entry.metadata, ensure_ascii=False) for entry in entries]),
        **_text_arrays("entries.no_vector", [entry.no_vector or "" for entry in entries]),
        "entries.revision": np.array([entry.revision for entry in entries], dtype=np.int64),
        "entries.has_vector": np.array([entry.vector is not None for entry in entries], dtype=np.bool_),
        "entries.vectors": _stack_vectors([entry.vector for entry in entries if entry.vector is not None], state.space),
        **_text_arrays("second.id", [id for id, _ in second]),
        **_text_arrays("second.no_vector", [vector if isinstance(vector, str) else "" for _, vector in second]),
        "second.vectors": _stack_vectors(
            [vector for _, vector in second if not isinstance(vector, str)], state.next_space
        ),
        **_text_arrays("changes.id", [id for _, id in changes]),
        "changes.revision": np.array([revision for revision, _ in changes], dtype=np.int64),
        **_text_arrays("terms.term", [term for space in spaces for term in space.terms]),
        "terms.numbers": _concatenate([space.forward.numbers for space in spaces], np.int32),
        "terms.lengths": _concatenate([space.forward.sizes for space in spaces], np.int64),
        "terms.contexts": _concatenate([space.forward.contexts for space in spaces], np.int32),
    }


def _text_arrays(name: str, texts: Sequence[str]) -> NamedArrays:
    pieces = [text.encode() for text in texts]
    ends = np.cumsum(np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)))
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), dtype=np.uint8), f"{name}.ends": ends}


def _stack_vectors(vectors: Sequence[Vector], space: Space | None) -> NDArray[np.float32]:
    return np.stack(vectors) if vectors else np.empty((0, _dimension_of(space)), dtype=np.float32)


def _concatenate(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


# Reading.


def _read_state(header: dict[str, Any], arrays: NamedArrays) -> StoreState:
    space, next_space = _read_space(header["space"]), _read_space(header["next_space"])
    language, fingerprint = header["analyser"]["language"], header["analyser"]["fingerprint"]
    namespaces = list(_read_namespaces(arrays, space, next_space))
    return StoreState(space, next_space, language, fingerprint, tuple(header["fields"]), namespaces)


def _read_namespaces(arrays: NamedArrays, space: Space | None, next_space: Space | None) -> Iterator[NamespaceState]:
    counts = arrays["namespaces.counts"]
    entries = _read_entries(arrays, _dimension_of(space))
    second = _read_pending_vectors(arrays, _dimension_of(next_space))
    changes = list(zip(arrays["changes.revision"].tolist(), _read_texts(arrays, "changes.id"), strict=True))
    terms = _read_texts(arrays, "terms.term")
    ends = np.cumsum(counts[:, :4], axis=0)
    _require((counts >= 0).all(), "a count below 0")
    _require(
        np.array_equal(counts[:, :4].sum(axis=0), [len(entries), len(second), len(changes), len(terms)]),
        "rows that belong to no namespace",
    )
    lengths = arrays["terms.lengths"]
    number_ends = np.concatenate(([0], np.cumsum(lengths)))
    _require(len(lengths) == len(arrays["terms.contexts"]) == len(entries), "terms without an entry")
    for name, count, end in zip(_read_texts(arrays, "namespaces.name"), counts, ends, strict=True):
        of_entries, of_second, of_changes, of_terms = map(slice, (end - count[:4]).tolist(), end.tolist())
        numbers = arrays["terms.numbers"][number_ends[of_entries.start] : number_ends[of_entries.stop]]
        sizes, contexts = lengths[of_entries], arrays["terms.contexts"][of_entries]
        _require(int(sizes.sum()) == len(numbers), "terms that belong to no entry")
        _require(bool((contexts >= 0).all() and (contexts <= sizes).all()), "a context longer than its entry")
        _require(not len(numbers) or 0 <= numbers.min() <= numbers.max() <= int(count[3]), "unknown terms")
        _require(len({entry.id for entry in entries[of_entries]}) == int(count[0]), "an id twice")
        yield NamespaceState(
            name=name,
            entries=entries[of_entries],
            second=dict(second[of_second]),
            log=changes[of_changes],
            revision=int(count[4]),
            pruned=int(count[5]),
            terms=terms[of_terms],
            forward=ForwardBlock((), numbers, sizes, contexts),
        )


def _read_entries(arrays: NamedArrays, dimension: int) -> list[Entry]:
    has_vector = arrays["entries.has_vector"]
    metadata = [json.loads(text) for text in _read_texts(arrays, "entries.metadata")]
    _require(all(isinstance(fields, dict) for fields in metadata), "metadata that are no object")
    vectors = _read_vectors(arrays["entries.vectors"], dimension, int(np.count_nonzero(has_vector)))
    columns = zip(
        _read_texts(arrays, "entries.id"),
        _read_texts(arrays, "entries.text"),
        _read_texts(arrays, "entries.context"),
        metadata,
        arrays["entries.revision"].tolist(),
        _read_texts(arrays, "entries.no_vector"),
        has_vector.tolist(),
        strict=True,
    )
    return [
        Entry(id, next(vectors) if has else None, text, context, fields, revision, reason or None)
        for id, text, context, fields, revision, reason, has in columns
    ]


def _read_pending_vectors(arrays: NamedArrays, dimension: int) -> list[tuple[str, Vector | str]]:
    ids, reasons = _read_texts(arrays, "second.id"), _read_texts(arrays, "second.no_vector")
    vectors = _read_vectors(arrays["second.vectors"], dimension, reasons.count(""))
    return [(id, reason or next(vectors)) for id, reason in zip(ids, reasons, strict=True)]


def _read_vectors(rows: NDArray[np.float32], dimension: int, count: int) -> Iterator[Vector]:
    _require(rows.dtype == np.float32 and rows.shape == (count, dimension), "vectors of another space or number")
    return (row.copy() for row in rows)  # each its own, so that one kept does not keep them all


def _read_texts(arrays: NamedArrays, name: str) -> list[str]:
    data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"]
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    _require(bool((starts <= ends).all()) and (int(ends[-1]) if len(ends) else 0) == len(data), f"ends of {name}")
    return [data[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _read_space(facts: dict[str, Any] | None) -> Space | None:
    if facts is None:
        return None
    return Space(facts["fingerprint"], facts["dimension"], Metric(facts["metric"]))


def _dimension_of(space: Space | None) -> int:
    return 0 if space is None else space.dimension


def _require(fits: object, what: str) -> None:
    if not fits:
        raise SnapshotFormatError(what)
