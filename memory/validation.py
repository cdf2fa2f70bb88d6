"""Validation of arguments and of every field of a memory, before anything is embedded or written.

An error names the field and the value that is wrong. What a write policy thinks of a memory is ``write.policies``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Final, get_args

from memory.errors import ArgumentError
from memory.models import Actor, Memory, Source, Trust, choice
from memory.timestamps import aware

ID_LIMIT: Final = 1000  # leaves room for "@revision" within the store's 1,024
_DEPTH: Final = 90
_NAMES: Final = ("role", "speaker", "session", "key", "supersedes", "operation")
_TIMES: Final = ("occurred_at", "valid_from", "valid_to", "expires_at", "recorded_at")
_OF_VERSIONS: Final = ("retired_at", "counts_from", "counts_to", "withdrawn")
_FLAGS: Final = ("pinned", "disabled", "sensitive")


def checked(item: object, *, zone: tzinfo | None = None, argument: str = "item") -> Memory:
    """Return *item* (a text or a Memory) as a memory whose fields are all right and whose times are aware."""
    memory = Memory(text=item) if isinstance(item, str) else item
    if not isinstance(memory, Memory):
        raise ArgumentError(argument, item, "a text or a Memory is needed")
    text = plain_text(memory.text, f"{argument}.text")
    if not text.strip():
        raise ArgumentError(f"{argument}.text", text, "a text that is not blank is needed")
    for field in _OF_VERSIONS:
        if getattr(memory, field):
            expected = "must be empty; correcting and undoing give it to a version"
            raise ArgumentError(f"{argument}.{field}", getattr(memory, field), expected)
    if memory.id:
        name(memory.id, f"{argument}.id")
    for field in _NAMES:
        if getattr(memory, field) is not None:
            name(getattr(memory, field), f"{argument}.{field}")
    name(memory.kind, f"{argument}.kind")
    plain_text(memory.caption, f"{argument}.caption")
    for field in _FLAGS:
        flag(getattr(memory, field), f"{argument}.{field}")
    if memory.sequence is not None:
        whole(memory.sequence, f"{argument}.sequence")
    return _with(
        memory,
        importance=importance_given(memory.importance, f"{argument}.importance"),
        trust=trust_given(memory.trust, f"{argument}.trust"),
        actor=actor_named(memory.actor, f"{argument}.actor"),
        tags=names(memory.tags, f"{argument}.tags"),
        derived_from=names(memory.derived_from, f"{argument}.derived_from"),
        scopes=_scopes(memory.scopes, f"{argument}.scopes"),
        metadata=json_object(memory.metadata, f"{argument}.metadata"),
        source=_source(memory.source, f"{argument}.source"),
        **_times(memory, zone, argument),
    )


def _with(memory: Memory, **fields: Any) -> Memory:
    """Return *memory* with *fields*; itself where it has them all, since a copy of a value is the value."""
    changed = {name: value for name, value in fields.items() if getattr(memory, name) is not value}
    return replace(memory, **changed) if changed else memory


def plain_text(value: object, argument: str) -> str:
    """Return *value* if it is text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise ArgumentError(argument, value, "a text is needed")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(argument, value, "must not contain lone surrogates") from error
    return value


def name(value: object, argument: str) -> str:
    """Return *value* if it can name something: text, not blank, without NUL, of bounded length."""
    text = plain_text(value, argument)
    if not text.strip():
        raise ArgumentError(argument, value, "must not be blank")
    if len(text) > ID_LIMIT:
        raise ArgumentError(argument, value, f"may have at most {ID_LIMIT} characters")
    if "\0" in text:
        raise ArgumentError(argument, value, "must not contain NUL")
    return text


def names(values: object, argument: str) -> tuple[str, ...]:
    """Return *values* as a tuple of names; a single text, which would be taken by letters, is refused."""
    return tuple(name(value, f"{argument}[{i}]") for i, value in enumerate(texts(values, argument)))


def texts(values: object, argument: str) -> tuple[str, ...]:
    """Return *values* as a tuple of texts, empty ones too; a single text is refused."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ArgumentError(argument, values, "a list of texts is needed")
    found = tuple(values)
    for at, value in enumerate(found):
        if not isinstance(value, str):
            raise ArgumentError(f"{argument}[{at}]", value, "a text is needed")
    return found


def whole(value: object, argument: str, least: int = 0) -> int:
    """Return *value* if it is a whole number of at least *least*."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(argument, value, f"a whole number of {least} or more is needed")
    return value


def flag(value: object, argument: str) -> bool:
    """Return *value* if it is True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(argument, value, "True or False is needed")
    return value


def only_fields(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an item of a file that has a field beside those *known*, which would be lost."""
    if strange := sorted(set(given) - set(known)):
        raise ArgumentError("item", strange[0], f"only {', '.join(sorted(known))} are fields of it")


def actor_named(value: Any, argument: str) -> Actor:
    """Return *value* if it is one of those who may act."""
    if value not in get_args(Actor):
        raise ArgumentError(argument, value, f"one of {', '.join(get_args(Actor))} is needed")
    actor: Actor = value
    return actor


def _times(memory: Memory, zone: tzinfo | None, argument: str) -> dict[str, Any]:
    times: dict[str, datetime | None] = {}
    for field in _TIMES:
        moment = getattr(memory, field)
        times[field] = None if moment is None else aware(moment, zone, argument=f"{argument}.{field}")
    start, end = times["valid_from"], times["valid_to"]
    if start is not None and end is not None and end < start:
        raise ArgumentError(f"{argument}.valid_to", end, f"must not be before valid_from ({start})")
    return times


def importance_given(value: object, argument: str) -> float | None:
    """Return *value* if it says how much something matters: a number in [0, 1], or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:  # NaN is in no range
        raise ArgumentError(argument, value, "a number in [0, 1] is needed")
    return float(value)


def trust_given(value: object, argument: str) -> Trust:
    """Return *value* as a trust; a text that names one will do."""
    return choice(Trust, value, argument)


def _scopes(value: object, argument: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, value, "a mapping of names to texts is needed")
    return value and {name(key, argument): name(inner, f"{argument}[{key!r}]") for key, inner in value.items()}


def json_object(value: object, argument: str) -> Mapping[str, Any]:
    """Return *value* if it is a JSON object as the store takes it: names for keys, finite numbers, bounded depth."""
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, value, "a JSON object (a mapping) is needed")
    return value and {name(key, argument): _json(inner, f"{argument}[{key!r}]", _DEPTH) for key, inner in value.items()}


def _json(value: Any, argument: str, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return plain_text(value, argument)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth == 0:
        raise ArgumentError(argument, "…", f"may be at most {_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {plain_text(key, argument): _json(inner, argument, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(inner, argument, depth - 1) for inner in value]
    expected = "must be JSON: text, finite numbers, true, false, null, lists and objects"
    raise ArgumentError(argument, value, expected)


def _source(value: object, argument: str) -> Source | None:
    if value is None:
        return None
    if not isinstance(value, Source):
        raise ArgumentError(argument, value, "a Source is needed")
    for field in ("session", "document"):
        if getattr(value, field) is not None:
            name(getattr(value, field), f"{argument}.{field}")
    if value.title is not None:
        plain_text(value.title, f"{argument}.title")
    for field, least in (("sequence", 0), ("page", 1), ("start", 0), ("end", 0)):
        if getattr(value, field) is not None:
            whole(getattr(value, field), f"{argument}.{field}", least)
    heading: object = value.heading
    if isinstance(heading, str) or not all(isinstance(part, str) for part in value.heading):
        raise ArgumentError(f"{argument}.heading", heading, "a tuple of texts is needed")
    return replace(value, heading=tuple(value.heading))
