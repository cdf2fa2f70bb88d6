"""The cache of retrieval indexes: segments of derived records, their merging, and their encoding as bytes.

The segments of a namespace together are its records at one position of its change log; later changes are derived from
the entries. So a cache may be late or incomplete, and is never wrong.

A batch is encoded as an uncompressed zip of arrays (numpy's npz), so that a search of the file's bytes for a forgotten
word sees everything. Decoding only checks that the parts fit together: a checksum is kept beside the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record_batch import RECORD_DTYPE, Ints, RecordBatch, concatenate_batches


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """Rows that came or were replaced, and ids that went; it overrules the segments before it."""

    columns: RecordBatch
    removed: frozenset[str] = frozenset()


class IndexCache(Protocol):
    """Keeps segments; each call stands alone. *basis* says what derived them: what another derived is nothing."""

    def load(self, namespace: str, basis: str, take: Callable[[RecordBatch], object]) -> int | None:
        """Hand all rows that are kept of a namespace to *take*, piece by piece and no two of one id.

        Returns the place of the change log that they are of; None where nothing is kept, or it is damaged: then what
        *take* was given is of no use.
        """
        ...

    def save(
        self,
        namespace: str,
        basis: str,
        segments: Sequence[IndexSegment],
        *,
        since: int | None,
        position: int,
        unchanged: Callable[[], bool],
    ) -> bool:
        """Keep what happened from *since* (None: ever) until *position*; say whether it is kept now.

        Not where somebody else writes, where the file can only be read or the disk is full, or where *unchanged*, asked
        inside the transaction, says no: what was erased meanwhile must not come back.
        """
        ...


def surviving_rows(said: Sequence[tuple[Sequence[str], frozenset[str]]]) -> list[NDArray[np.int64] | None]:
    """Return which rows of each segment no later one overrules, None: all; *said* are its ids, and those that went."""
    found: list[NDArray[np.int64] | None] = []
    seen: set[str] = set()
    for ids, removed in reversed(said):
        left = None if seen.isdisjoint(ids) else [at for at, id in enumerate(ids) if id not in seen]
        found.append(None if left is None else np.array(left, dtype=np.int64))
        seen.update(ids, removed)
    return found[::-1]


def merge_segments(segments: Sequence[IndexSegment]) -> IndexSegment:
    """Return one segment that says what *segments* say one after the other."""
    rows = surviving_rows([(segment.columns.ids, segment.removed) for segment in segments])
    parts = [one.columns if left is None else one.columns.taken(left) for one, left in zip(segments, rows, strict=True)]
    columns = concatenate_batches(parts)
    gone = frozenset[str]().union(*(segment.removed for segment in segments))
    return IndexSegment(columns, gone.difference(columns.ids))


def remove_ids(segment: IndexSegment, ids: Iterable[str]) -> IndexSegment:
    """Return *segment* without rows of *ids*, and without a word of them."""
    dropped = frozenset(ids)
    left = [at for at, id in enumerate(segment.columns.ids) if id not in dropped]
    return IndexSegment(segment.columns.taken(np.array(left, dtype=np.int64)), segment.removed - dropped)


_TEXT_PARTS = ("sessions", "speakers", "terms", "forms", "called")
_NUMBER_PARTS = ("words", "starts", "texts", "form_terms", "marks", "mark_starts", "calls", "call_rows")


class DamagedSegment(ValueError):
    """Bytes that are no columns."""


def encode_batch(columns: RecordBatch) -> bytes:
    """Return everything of *columns* but the ids."""
    texts = json.dumps({name: getattr(columns, name) for name in _TEXT_PARTS}).encode()
    arrays = {name: _smallest_integers(getattr(columns, name)) for name in _NUMBER_PARTS}
    file = BytesIO()
    np.savez(file, allow_pickle=False, text=np.frombuffer(texts, np.uint8), values=columns.values, **arrays)
    return file.getvalue()


def decode_batch(data: bytes, ids: tuple[str, ...]) -> RecordBatch:
    """Return the columns of *ids*; raise ``DamagedSegment`` where *data* are not those."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            texts = json.loads(arrays["text"].tobytes())
            numbers = {name: arrays[name].astype(np.int32) for name in _NUMBER_PARTS}
            values = arrays["values"]
        parts: dict[str, Any] = {**{name: tuple(texts[name]) for name in _TEXT_PARTS}, **numbers}
        columns = RecordBatch(ids=ids, values=values, **parts)
    except (BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise DamagedSegment(str(error)) from error
    if not _is_consistent(columns):
        raise DamagedSegment("its parts do not fit together")
    return columns


def _smallest_integers(numbers: Ints) -> NDArray[np.unsignedinteger]:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _is_consistent(columns: RecordBatch) -> bool:
    """Whether no number points beyond what it numbers."""
    rows, values = len(columns), columns.values
    if values.dtype != RECORD_DTYPE or len(values) != rows or len(columns.texts) != rows:
        return False
    if len(columns.forms) != len(columns.form_terms) or len(columns.calls) != len(columns.call_rows):
        return False
    return (
        _are_offsets(columns.starts, rows, len(columns.words))
        and _are_offsets(columns.mark_starts, rows, len(columns.marks))
        and bool((columns.texts >= columns.starts[:-1]).all() and (columns.texts < columns.starts[1:]).all())
        and _are_below(columns.words, len(columns.terms) + 1)
        and _are_below(columns.form_terms, len(columns.terms))
        and _are_below(columns.marks >> 1, len(columns.forms))
        and _are_below(columns.calls, len(columns.called))
        and _are_below(columns.call_rows, rows)
        and _are_below(values["session"] + 1, len(columns.sessions) + 1)
        and _are_below(values["speaker"], len(columns.speakers))
    )


def _are_offsets(starts: Ints, rows: int, length: int) -> bool:
    return len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == length and bool((np.diff(starts) >= 0).all())


def _are_below(numbers: Ints, size: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < size)
