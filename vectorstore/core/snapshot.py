"""The state of a store in memory as a header and named arrays, and back: what a snapshot keeps, and how.

Texts are two arrays: the UTF-8 of all of them end to end (``.bytes``), and where each ends (``.ends``). Rows of all
namespaces follow one another; ``namespaces.counts`` says how many are whose: entries, second, changes, terms; then a
namespace's write number, and the one before which its changes are forgotten. An empty reason (``no_vector``) is none.
Of ``terms``, what no entry has any more was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore.core.array_file import Arrays, UnfitError, packed, unpacked
from vectorstore.core.state import Forward, NamespaceState, StoreState
from vectorstore.errors import DamageError
from vectorstore.types import Entry, Metric, Space, Vector

_COUNTS: Final = 6
_UNFIT: Final = (KeyError, ValueError, TypeError, IndexError, OverflowError, RecursionError)
"""What reading raises where the arrays of a file that nobody damaged do not fit together."""


def encoded(state: StoreState) -> Iterator[bytes]:
    """Yield the bytes of a snapshot, part by part."""
    header = {
        "space": _facts_of(state.space),
        "next_space": _facts_of(state.next_space),
        "analyser": {"language": state.language, "fingerprint": state.fingerprint},
        "fields": list(state.fields),
    }
    return packed(header, _arrays(state))


def decoded(data: bytes, source: str) -> StoreState:
    """Return the state in *data*; *source* names it in errors."""
    try:
        return _state(*unpacked(data, source))
    except _UNFIT as error:
        raise DamageError(f"{source}: its parts do not fit together ({error}); restore a copy") from error


# Down.


def _arrays(state: StoreState) -> Arrays:
    spaces = state.namespaces
    entries = [entry for space in spaces for entry in space.entries]
    second = [pair for space in spaces for pair in space.second.items()]
    changes = [change for space in spaces for change in space.log]
    return {
        **_texts("namespaces.name", [space.name for space in spaces]),
        "namespaces.counts": np.array([_counts(space) for space in spaces], dtype=np.int64).reshape(-1, _COUNTS),
        **_texts("entries.id", [entry.id for entry in entries]),
        **_texts("entries.text", [entry.text for entry in entries]),
        **_texts("entries.context", [entry.context for entry in entries]),
        **_texts("entries.metadata", [json.dumps(entry.metadata, ensure_ascii=False) for entry in entries]),
        **_texts("entries.no_vector", [entry.no_vector or "" for entry in entries]),
        "entries.revision": np.array([entry.revision for entry in entries], dtype=np.int64),
        "entries.has_vector": np.array([entry.vector is not None for entry in entries], dtype=np.bool_),
        "entries.vectors": _stacked([entry.vector for entry in entries if entry.vector is not None], state.space),
        **_texts("second.id", [id for id, _ in second]),
        **_texts("second.no_vector", [given if isinstance(given, str) else "" for _, given in second]),
        "second.vectors": _stacked([given for _, given in second if not isinstance(given, str)], state.next_space),
        **_texts("changes.id", [id for _, id in changes]),
        "changes.revision": np.array([revision for revision, _ in changes], dtype=np.int64),
        **_texts("terms.term", [term for space in spaces for term in space.forward.terms]),
        "terms.numbers": _joined([space.forward.numbers for space in spaces], np.int32),
        "terms.lengths": _joined([space.forward.lengths for space in spaces], np.int64),
        "terms.contexts": _joined([space.forward.contexts for space in spaces], np.int32),
    }


def _counts(space: NamespaceState) -> tuple[int, ...]:
    rows = (space.entries, space.second, space.log, space.forward.terms)
    return (*map(len, rows), space.revision, space.pruned)


def _texts(name: str, texts: Sequence[str]) -> Arrays:
    pieces = [text.encode() for text in texts]
    ends = np.cumsum(np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)))
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), dtype=np.uint8), f"{name}.ends": ends}


def _stacked(vectors: Sequence[Vector], space: Space | None) -> NDArray[np.float32]:
    empty = np.empty((0, 0 if space is None else space.dimension), dtype=np.float32)
    return np.stack(vectors) if vectors else empty


def _joined(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


def _facts_of(space: Space | None) -> dict[str, object] | None:
    if space is None:
        return None
    return {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}


# Up.


def _state(header: dict[str, Any], arrays: Arrays) -> StoreState:
    space, next_space = _space(header["space"]), _space(header["next_space"])
    return StoreState(
        space=space,
        next_space=next_space,
        language=header["analyser"]["language"],
        fingerprint=header["analyser"]["fingerprint"],
        fields=tuple(header["fields"]),
        namespaces=list(_namespaces(arrays, space, next_space)),
    )


def _namespaces(arrays: Arrays, space: Space | None, next_space: Space | None) -> Iterator[NamespaceState]:
    counts = arrays["namespaces.counts"]
    entries = _entries(arrays, _dimension(space))
    second = _second(arrays, _dimension(next_space))
    changes = list(zip(arrays["changes.revision"].tolist(), _read_texts(arrays, "changes.id"), strict=True))
    terms = _read_texts(arrays, "terms.term")
    ends = np.cumsum(counts[:, :4], axis=0)
    _need((counts >= 0).all(), "a count below 0")
    _need(
        np.array_equal(counts[:, :4].sum(axis=0), [len(entries), len(second), len(changes), len(terms)]),
        "rows that belong to no namespace",
    )
    lengths = arrays["terms.lengths"]
    number_ends = np.concatenate(([0], np.cumsum(lengths)))
    _need(len(lengths) == len(arrays["terms.contexts"]) == len(entries), "terms without an entry")
    for name, count, end in zip(_read_texts(arrays, "namespaces.name"), counts, ends, strict=True):
        of_entries, of_second, of_changes, of_terms = map(slice, (end - count[:4]).tolist(), end.tolist())
        forward = Forward(
            terms=terms[of_terms],
            numbers=arrays["terms.numbers"][number_ends[of_entries.start] : number_ends[of_entries.stop]],
            lengths=lengths[of_entries],
            contexts=arrays["terms.contexts"][of_entries],
        )
        _check_forward(forward)
        _need(len({entry.id for entry in entries[of_entries]}) == int(count[0]), "an id twice")
        yield NamespaceState(
            name=name,
            entries=entries[of_entries],
            second=dict(second[of_second]),
            log=changes[of_changes],
            revision=int(count[4]),
            pruned=int(count[5]),
            forward=forward,
        )


def _entries(arrays: Arrays, dimension: int) -> list[Entry]:
    has_vector = arrays["entries.has_vector"]
    vectors = _vectors(arrays["entries.vectors"], dimension, int(np.count_nonzero(has_vector)))
    columns = zip(
        _read_texts(arrays, "entries.id"),
        _read_texts(arrays, "entries.text"),
        _read_texts(arrays, "entries.context"),
        map(_object, _read_texts(arrays, "entries.metadata")),
        arrays["entries.revision"].tolist(),
        _read_texts(arrays, "entries.no_vector"),
        has_vector.tolist(),
        strict=True,
    )
    return [
        Entry(id, next(vectors) if has else None, text, context, metadata, revision, reason or None)
        for id, text, context, metadata, revision, reason, has in columns
    ]


def _second(arrays: Arrays, dimension: int) -> list[tuple[str, Vector | str]]:
    ids, reasons = _read_texts(arrays, "second.id"), _read_texts(arrays, "second.no_vector")
    vectors = _vectors(arrays["second.vectors"], dimension, reasons.count(""))
    return [(id, reason or next(vectors)) for id, reason in zip(ids, reasons, strict=True)]


def _vectors(rows: NDArray[np.float32], dimension: int, wanted: int) -> Iterator[Vector]:
    _need(rows.dtype == np.float32 and rows.shape == (wanted, dimension), "vectors of another space or number")
    return (row.copy() for row in rows)  # each its own, so that one kept does not keep them all


def _read_texts(arrays: Arrays, name: str) -> list[str]:
    data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"]
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    _need(bool((starts <= ends).all()) and (int(ends[-1]) if len(ends) else 0) == len(data), f"ends of {name}")
    return [data[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _check_forward(forward: Forward) -> None:
    numbers, lengths, contexts = forward.numbers, forward.lengths, forward.contexts
    _need(int(lengths.sum()) == len(numbers), "terms that belong to no entry")
    _need(bool((contexts >= 0).all() and (contexts <= lengths).all()), "a context longer than its entry")
    _need(not len(numbers) or 0 <= numbers.min() <= numbers.max() <= len(forward.terms), "unknown terms")


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    _need(isinstance(value, dict), "metadata that are no object")
    checked: dict[str, Any] = value
    return checked


def _space(facts: dict[str, Any] | None) -> Space | None:
    if facts is None:
        return None
    return Space(facts["fingerprint"], facts["dimension"], Metric(facts["metric"]))


def _dimension(space: Space | None) -> int:
    return 0 if space is None else space.dimension


def _need(fits: object, what: str) -> None:
    if not fits:
        raise UnfitError(what)
