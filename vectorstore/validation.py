"""Validation of arguments: names, metadata, entries and spaces are checked here, once, before anything is stored.

Also the rules of a space migration that both engines ask: when it may begin, go on and be committed. The arithmetic of
vectors is checked in ``distance``, filters are checked in ``filters``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeGuard

from tellback.vectorstore.distance import as_vector, stack_plain_vectors
from tellback.vectorstore.errors import ArgumentError, SpaceNotReady
from tellback.vectorstore.json_values import check_text, is_plain_text, plain_json
from tellback.vectorstore.types import Entry, Metadata, Metric, SearchMode, Space, SpaceMigration, Vector, VectorLike

_canonical_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False).encode
NO_SPACE: Final = (
    'the store has no space yet, so it has no vectors: open it with space=Space("name of the model", dimension), '
    "or call set_space"
)
NAME_LIMIT = 1024
BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """An entry that may be written: its own float32 vector, its metadata as canonical JSON."""

    id: str
    vector: Vector | None
    text: str
    context: str
    metadata: str
    no_vector: str | None


def check_name(value: object, argument: str, *, empty: bool) -> str:
    """Return an id or a namespace if it is one."""
    name = check_text(value, argument)
    if not name and not empty:
        raise ArgumentError(argument, value, "must not be empty")
    if len(name) > NAME_LIMIT:
        raise ArgumentError(argument, value, f"may have at most {NAME_LIMIT} characters (it has {len(name)})")
    if "\0" in name:
        raise ArgumentError(argument, value, "must not contain NUL")
    return name


def check_namespace(value: object) -> str:
    """Return a namespace if it is one; the empty one is the default."""
    return check_name(value, "namespace", empty=True)


def check_after(after: str | None) -> str | None:
    """Return the id after which a scan begins; it may be empty and need not exist."""
    return None if after is None else check_name(after, "after", empty=True)


def _listed(values: object, argument: str, items: str) -> list[object]:
    """Return the items of any iterable; a single text is refused, since it would be taken letter by letter."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(argument, values, f"a list of {items} is needed")
    return list(values)


def check_namespaces(values: object) -> set[str]:
    """Return namespaces from any iterable of them."""
    return {check_namespace(value) for value in _listed(values, "namespaces", "namespaces")}


def check_ids(values: object, argument: str = "ids") -> list[str]:
    """Return ids from any iterable of them."""
    ids = _listed(values, argument, "ids")
    if _all_plain_names(ids):
        return ids
    return [check_name(value, f"{argument}[{i}]", empty=False) for i, value in enumerate(ids)]


def _all_plain_names(values: list[object]) -> TypeGuard[list[str]]:
    """Return whether all of a list are plainly ids; many ids are looked up at once."""
    if set(map(type, values)) != {str}:
        return False
    joined = "\0".join(values)  # type: ignore[arg-type]  # all are texts
    lengths = list(map(len, values))  # type: ignore[arg-type]
    return joined.isascii() and joined.count("\0") == len(values) - 1 and 0 < min(lengths) <= max(lengths) <= NAME_LIMIT


def check_fields(values: object) -> tuple[str, ...]:
    """Return the names of metadata fields to declare, each given once."""
    listed = _listed(values, "fields", "field names")
    names = tuple(check_text(value, f"fields[{i}]") for i, value in enumerate(listed))
    if len(set(names)) < len(names):
        raise ArgumentError("fields", names, "each field may be named once")
    return names


def check_k(value: object, argument: str = "k") -> int:
    """Return *k* if it is a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ArgumentError(argument, value, "a whole number of 0 or more is needed")
    return value


def check_min_score(value: object) -> float | None:
    """Return *min_score* if it is None or a number that can be compared."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ArgumentError("min_score", value, "a number is needed")
    return float(value)


def check_search_mode(value: object) -> SearchMode:
    """Return how to search if *value* says so."""
    if not isinstance(value, str) or value not in tuple(SearchMode):
        raise ArgumentError("search", value, "'exact' or 'fast' is needed")
    return SearchMode(value)


def check_expect(expect: object) -> Mapping[str, int]:
    """Return *expect* as a mapping of ids to revisions."""
    if expect is None:
        return {}
    if not isinstance(expect, Mapping):
        raise ArgumentError("expect", expect, "a mapping of ids to revisions is needed")
    for id, revision in expect.items():
        check_name(id, "expect", empty=False)
        if isinstance(revision, bool) or not isinstance(revision, int) or revision < 0:
            raise ArgumentError(f"expect[{id!r}]", revision, "a revision is a whole number; 0 means: does not exist")
    return dict(expect)


def check_metadata(value: object, argument: str) -> str:
    """Return *value* as canonical JSON text if it is a JSON object: finite numbers, text keys, bounded depth."""
    if not (type(value) is dict or isinstance(value, Mapping)):  # to ask an abstract class is slow
        raise ArgumentError(argument, value, "a JSON object (a mapping) is needed")
    return _canonical_json(plain_json(value, argument))


def check_patches(metadata: Mapping[str, Metadata]) -> dict[str, str]:
    """Return the metadata to be written as JSON text, by id."""
    return {
        check_name(id, "metadata", empty=False): check_metadata(value, f"metadata[{id!r}]")
        for id, value in metadata.items()
    }


def check_entries(batch: Sequence[object], start: int, space: Space | None) -> list[CheckedEntry]:
    """Return a *batch*, of which *start* entries came before, checked as ``check_entry`` does each.

    The vectors may be rows of one matrix, for a caller that writes them and does not keep them.
    """
    vectors = [getattr(entry, "vector", None) for entry in batch]
    ready = None if space is None else stack_plain_vectors(vectors, space.dimension)
    return [
        check_entry(entry, f"entries[{start + i}]", space, None if ready is None else ready[i])
        for i, entry in enumerate(batch)
    ]


def check_entry(entry: object, argument: str, space: Space | None, ready: Vector | None = None) -> CheckedEntry:
    """Return *entry* checked against *space*, naming *argument* and the field that is wrong.

    *ready* is its vector where that has been checked already.
    """
    if not isinstance(entry, Entry):
        raise ArgumentError(argument, entry, "an Entry is needed")
    id = entry.id if _is_plain_name(entry.id) else check_name(entry.id, f"{argument}.id", empty=False)
    where = f"{argument} ({id!r})" if len(id) <= 60 else argument
    vector: Vector | None = None
    if entry.vector is not None:
        if space is None:
            raise ArgumentError(f"{where}.vector", entry.vector, NO_SPACE)
        if entry.no_vector is not None:
            raise ArgumentError(f"{where}.no_vector", entry.no_vector, "must be None where there is a vector")
        vector = ready
        if vector is None:
            vector = as_vector(entry.vector, space.dimension, space.metric, argument=f"{where}.vector")
    reason = None if entry.no_vector is None else check_text(entry.no_vector, f"{where}.no_vector")
    if reason == "":
        raise ArgumentError(f"{where}.no_vector", reason, "a reason is needed, or None")
    return CheckedEntry(
        id=id,
        vector=vector,
        text=entry.text if is_plain_text(entry.text) else check_text(entry.text, f"{where}.text"),
        context=entry.context if is_plain_text(entry.context) else check_text(entry.context, f"{where}.context"),
        metadata=check_metadata(entry.metadata, f"{where}.metadata"),
        no_vector=reason,
    )


def _is_plain_name(value: object) -> bool:
    return type(value) is str and value.isascii() and 0 < len(value) <= NAME_LIMIT and "\0" not in value


def check_vectors(vectors: Mapping[str, VectorLike], space: Space | None) -> dict[str, Vector]:
    """Return vectors of *space* by id."""
    if not isinstance(vectors, Mapping):
        raise ArgumentError("vectors", vectors, "a mapping of ids to vectors is needed")
    if space is None:
        raise ArgumentError("vectors", list(vectors), NO_SPACE)
    return {
        check_name(id, "vectors", empty=False): as_vector(
            vector, space.dimension, space.metric, argument=f"vectors[{id!r}]"
        )
        for id, vector in vectors.items()
    }


def check_migration_vectors(
    vectors: Mapping[str, VectorLike], no_vector: Mapping[str, str] | None, space: Space
) -> dict[str, Vector | str]:
    """Return vectors of *space* by id, and reasons for none; an id has one or the other."""
    reasons = {} if no_vector is None else no_vector
    if not isinstance(reasons, Mapping):
        raise ArgumentError("no_vector", no_vector, "a mapping of ids to reasons is needed")
    checked: dict[str, Vector | str] = {**check_vectors(vectors, space)}
    for id, reason in reasons.items():
        name = check_name(id, "no_vector", empty=False)
        if name in checked:
            raise ArgumentError("no_vector", name, "an entry has a vector or a reason for none, not both")
        if not check_text(reason, f"no_vector[{id!r}]"):
            raise ArgumentError(f"no_vector[{id!r}]", reason, "a reason is needed")
        checked[name] = reason
    return checked


def drop_overwritten(batch: Sequence[CheckedEntry]) -> list[CheckedEntry]:
    """Return *batch* without entries that a later one of the same id replaces, in the order of writing."""
    return list({checked.id: checked for checked in batch}.values())


def entry_batches(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield (how many came before, up to ``BATCH_SIZE`` entries), in bounded memory."""
    if isinstance(entries, Entry) or not isinstance(entries, Iterable):
        raise ArgumentError("entries", entries, "an iterable of entries is needed")
    source = iter(entries)
    start = 0
    while batch := list(islice(source, BATCH_SIZE)):
        yield start, batch
        start += len(batch)


def check_space(value: object) -> Space:
    """Return *value* if it is a space that vectors can have."""
    if not isinstance(value, Space):
        raise ArgumentError("space", value, "a Space is needed")
    if not isinstance(value.fingerprint, str) or not value.fingerprint:
        raise ArgumentError("space.fingerprint", value.fingerprint, "a text that is not empty is needed")
    if isinstance(value.dimension, bool) or not isinstance(value.dimension, int) or value.dimension < 1:
        raise ArgumentError("space.dimension", value.dimension, "a whole number of 1 or more is needed")
    if not isinstance(value.metric, Metric):
        raise ArgumentError("space.metric", value.metric, f"a Metric is needed, or one of {', '.join(Metric)}")
    return value


def check_migration_start(space: Space, used: Space | None, filling: Space | None) -> None:
    """Raise unless *space* may be begun, or gone on with, beside the one in use."""
    if used is None:
        raise ArgumentError("space", space, "the store has no space yet; set_space records the first")
    if space == used:
        raise ArgumentError("space", space, "another one than the space in use is needed")
    if filling is not None and filling != space:
        raise SpaceNotReady(
            f"vectors of {filling} are being filled in; commit_space or abort_space ends that", filling=filling
        )


def check_migration_running(filling: Space | None, space: Space | None = None) -> Space:
    """Return the space being filled; raise where there is none, or where it is not *space*."""
    if filling is None:
        raise SpaceNotReady("no second space is being filled; begin_space begins one", filling=None)
    if space is not None and filling != space:
        raise SpaceNotReady(f"vectors of {filling} are being filled in, not of {space}", filling=filling)
    return filling


def check_migration_complete(filling: SpaceMigration | None) -> None:
    """Raise where entries are pending."""
    if filling is not None and filling.pending:
        raise SpaceNotReady(
            f"{sum(filling.pending.values())} entries have neither a vector of {filling.space} nor a reason for"
            " none; unfilled() lists them, fill_space gives them one",
            filling=filling.space,
            pending=filling.pending,
        )
