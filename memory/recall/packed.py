"""Columns as bytes and back: an uncompressed zip of arrays (numpy's npz).

Not compressed, so that a search of the file's bytes for a forgotten word sees all there is. Whoever keeps the bytes
keeps a checksum beside them: here it is only looked at whether the parts fit together.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from memory.recall.columns import VALUES, Columns, Ints

_TEXTS = ("sessions", "speakers", "terms", "forms", "called")
_NUMBERS = ("words", "starts", "texts", "form_terms", "marks", "mark_starts", "calls", "call_rows")


class Damaged(ValueError):
    """Bytes that are no columns."""


def packed(columns: Columns) -> bytes:
    """Return everything of *columns* but the ids."""
    texts = json.dumps({name: getattr(columns, name) for name in _TEXTS}).encode()
    arrays = {name: _small(getattr(columns, name)) for name in _NUMBERS}
    file = BytesIO()
    np.savez(file, allow_pickle=False, text=np.frombuffer(texts, np.uint8), values=columns.values, **arrays)
    return file.getvalue()


def unpacked(data: bytes, ids: tuple[str, ...]) -> Columns:
    """Return the columns of *ids*; raise ``Damaged`` where *data* are not those."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            texts = json.loads(arrays["text"].tobytes())
            numbers = {name: arrays[name].astype(np.int32) for name in _NUMBERS}
            values = arrays["values"]
        parts: dict[str, Any] = {**{name: tuple(texts[name]) for name in _TEXTS}, **numbers}
        columns = Columns(ids=ids, values=values, **parts)
    except (BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise Damaged(str(error)) from error
    if not _fits(columns):
        raise Damaged("its parts do not fit together")
    return columns


def _small(numbers: Ints) -> NDArray[np.unsignedinteger]:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _fits(columns: Columns) -> bool:
    """Whether no number points beyond what it numbers."""
    rows, values = len(columns), columns.values
    if values.dtype != VALUES or len(values) != rows or len(columns.texts) != rows:
        return False
    if len(columns.forms) != len(columns.form_terms) or len(columns.calls) != len(columns.call_rows):
        return False
    return (
        _runs(columns.starts, rows, len(columns.words))
        and _runs(columns.mark_starts, rows, len(columns.marks))
        and bool((columns.texts >= columns.starts[:-1]).all() and (columns.texts < columns.starts[1:]).all())
        and _below(columns.words, len(columns.terms) + 1)
        and _below(columns.form_terms, len(columns.terms))
        and _below(columns.marks >> 1, len(columns.forms))
        and _below(columns.calls, len(columns.called))
        and _below(columns.call_rows, rows)
        and _below(values["session"] + 1, len(columns.sessions) + 1)
        and _below(values["speaker"], len(columns.speakers))
    )


def _runs(starts: Ints, rows: int, length: int) -> bool:
    return len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == length and bool((np.diff(starts) >= 0).all())


def _below(numbers: Ints, size: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < size)
