"""Validation of arguments and of every field of a memory, before anything is embedded or written.

An error names the field and the value that is wrong. What a write policy thinks of a memory is ``write.policies``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, Final, cast, get_args

from tellback.memory.errors import ArgumentError
from tellback.memory.models import (
    MAX_ABOUT_LENGTH,
    AboutAuthor,
    Actor,
    Memory,
    Repetition,
    Source,
    Trust,
    UtteranceKind,
    choice,
)
from tellback.memory.timestamps import to_aware
from tellback.vectorstore.internals import check_text, plain_json

MAX_ID_LENGTH: Final = 1000  # leaves room for "@revision" within the store's 1,024
_MAX_JSON_DEPTH: Final = 90
_TIME_FIELDS: Final = ("occurred_at", "valid_from", "valid_to", "expires_at", "recorded_at")
_VERSION_FIELDS: Final = ("retired_at", "counts_from", "counts_to", "withdrawn")


def checked_memory(item: object, *, zone: tzinfo | None = None, argument: str = "item") -> Memory:
    """Return *item* (a text or a Memory) as a memory whose fields are all right and whose times are aware."""
    memory = Memory(text=item) if isinstance(item, str) else item
    if not isinstance(memory, Memory):
        raise ArgumentError(argument, item, "a text or a Memory is needed")
    text = checked_text(memory.text, f"{argument}.text")
    if not text.strip():
        raise ArgumentError(f"{argument}.text", text, "a text that is not blank is needed")
    for field in _VERSION_FIELDS:
        if getattr(memory, field):
            expected = "must be empty; correcting and undoing give it to a version"
            raise ArgumentError(f"{argument}.{field}", getattr(memory, field), expected)
    fields = {name: check(getattr(memory, name), f"{argument}.{name}") for name, check in _FIELD_CHECKS.items()}
    fields |= _checked_times(memory, zone, argument)
    fields["about_by"] = (fields["about_by"] or "caller") if fields["about"] else ""
    changed = {name: value for name, value in fields.items() if getattr(memory, name) is not value}
    return replace(memory, **changed) if changed else memory  # a copy of a value is the value


def checked_text(value: object, argument: str) -> str:
    """Return *value* if it is text that UTF-8 can hold."""
    return check_text(value, argument, ArgumentError)


def checked_label(value: object, argument: str) -> str:
    """Return *value* if it can name something: text, not blank, without NUL, of bounded length."""
    text = checked_text(value, argument)
    if not text.strip():
        raise ArgumentError(argument, value, "must not be blank")
    if len(text) > MAX_ID_LENGTH:
        raise ArgumentError(argument, value, f"may have at most {MAX_ID_LENGTH} characters")
    if "\0" in text:
        raise ArgumentError(argument, value, "must not contain NUL")
    return text


def checked_labels(values: object, argument: str) -> tuple[str, ...]:
    """Return *values* as a tuple of names; a single text, which would be taken by letters, is refused."""
    return tuple(
        checked_label(value, f"{argument}[{i}]") for i, value in enumerate(checked_text_list(values, argument))
    )


def checked_text_list(values: object, argument: str) -> tuple[str, ...]:
    """Return *values* as a tuple of texts, empty ones too; a single text is refused."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ArgumentError(argument, values, "a list of texts is needed")
    found = tuple(values)
    for index, value in enumerate(found):
        if not isinstance(value, str):
            raise ArgumentError(f"{argument}[{index}]", value, "a text is needed")
    return found


def checked_int(value: object, argument: str, least: int = 0) -> int:
    """Return *value* if it is a whole number of at least *least*."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(argument, value, f"a whole number of {least} or more is needed")
    return value


def checked_bool(value: object, argument: str) -> bool:
    """Return *value* if it is True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(argument, value, "True or False is needed")
    return value


def check_known_fields(fields: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an item of a file that has a field beside those *known*, which would be lost."""
    if strange := sorted(set(fields) - set(known)):
        raise ArgumentError("item", strange[0], f"only {', '.join(sorted(known))} are fields of it")


def checked_actor(value: Any, argument: str) -> Actor:
    """Return *value* if it is one of those who may act."""
    if value not in get_args(Actor):
        raise ArgumentError(argument, value, f"one of {', '.join(get_args(Actor))} is needed")
    return cast("Actor", value)


def _checked_times(memory: Memory, zone: tzinfo | None, argument: str) -> dict[str, Any]:
    times: dict[str, datetime | None] = {}
    for field in _TIME_FIELDS:
        moment = getattr(memory, field)
        times[field] = None if moment is None else to_aware(moment, zone, argument=f"{argument}.{field}")
    start, end = times["valid_from"], times["valid_to"]
    if start is not None and end is not None and end < start:
        raise ArgumentError(f"{argument}.valid_to", end, f"must not be before valid_from ({start})")
    return times


def checked_about(value: object, argument: str) -> str:
    """Return *value* if it can say what a memory is about: one line of bounded length, or "" for none."""
    text = checked_text(value, argument).strip()
    if len(text) > MAX_ABOUT_LENGTH or len(text.splitlines()) > 1 or "\0" in text:
        raise ArgumentError(argument, value, f"one line of at most {MAX_ABOUT_LENGTH} characters is needed")
    return text


def checked_about_author(value: Any, argument: str) -> AboutAuthor:
    """Return *value* if it is an author of such lines; "" is none."""
    if value not in get_args(AboutAuthor):
        raise ArgumentError(argument, value, f"one of {', '.join(filter(None, get_args(AboutAuthor)))} is needed")
    return cast("AboutAuthor", value)


def checked_number(value: object, argument: str, expected: str, fits: Callable[[float], bool]) -> float:
    """Return *value* if it is a finite number that *fits*; *expected* says what is needed."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits(value) or not math.isfinite(value):
        raise ArgumentError(argument, value, expected)
    return float(value)


def checked_seconds(value: object, argument: str) -> float:
    """Return *value* if it is a length of time."""
    return checked_number(value, argument, "a number of seconds, at least 0, is needed", lambda number: number >= 0)


def checked_importance(value: object, argument: str) -> float | None:
    """Return *value* if it says how much something matters: a number in [0, 1], or None."""
    expected = "a number in [0, 1] is needed"
    return None if value is None else checked_number(value, argument, expected, lambda number: 0 <= number <= 1)


def checked_trust(value: object, argument: str) -> Trust:
    """Return *value* as a trust; a text that names one will do."""
    return choice(Trust, value, argument)


def _checked_scopes(value: object, argument: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, value, "a mapping of names to texts is needed")
    return value and {
        checked_label(key, argument): checked_label(inner, f"{argument}[{key!r}]") for key, inner in value.items()
    }


def checked_json_object(value: object, argument: str) -> Mapping[str, Any]:
    """Return *value* if it is a JSON object as the store takes it: names for keys, finite numbers, bounded depth."""
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, value, "a JSON object (a mapping) is needed")
    return value and {
        checked_label(key, argument): plain_json(inner, f"{argument}[{key!r}]", ArgumentError, _MAX_JSON_DEPTH)
        for key, inner in value.items()
    }


def _checked_source(value: object, argument: str) -> Source | None:
    if value is None:
        return None
    if not isinstance(value, Source):
        raise ArgumentError(argument, value, "a Source is needed")
    for field, check in _SOURCE_CHECKS.items():
        check(getattr(value, field), f"{argument}.{field}")
    heading: object = value.heading
    if isinstance(heading, str) or not all(isinstance(part, str) for part in value.heading):
        raise ArgumentError(f"{argument}.heading", heading, "a tuple of texts is needed")
    return replace(value, heading=tuple(value.heading))


def _checked_repetitions(value: object, argument: str) -> tuple[Repetition, ...]:
    if not isinstance(value, tuple) or not all(isinstance(repetition, Repetition) for repetition in value):
        raise ArgumentError(argument, value, "a tuple of Repetition is needed")
    for repetition in value:
        optional(checked_label)(repetition.session, f"{argument}.session")
        checked_actor(repetition.actor, f"{argument}.actor")
    return tuple(replace(repetition, at=to_aware(repetition.at, argument=f"{argument}.at")) for repetition in value)


def optional(check: Callable[[object, str], Any]) -> Callable[[object, str], Any]:
    """Return *check* for a value that may also be None."""
    return lambda value, argument: None if value is None else check(value, argument)


_FIELD_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "id": lambda id, argument: id and checked_label(id, argument),
    **dict.fromkeys(("role", "speaker", "session", "key", "supersedes", "operation"), optional(checked_label)),
    "kind": checked_label,
    "caption": checked_text,
    "about": checked_about,
    "about_by": checked_about_author,
    **dict.fromkeys(("pinned", "disabled", "sensitive"), checked_bool),
    "sequence": optional(checked_int),
    "importance": checked_importance,
    "trust": checked_trust,
    "actor": checked_actor,
    **dict.fromkeys(("tags", "derived_from", "replaces"), checked_labels),
    "scopes": _checked_scopes,
    "metadata": checked_json_object,
    "source": _checked_source,
    "utterance": optional(lambda value, argument: choice(UtteranceKind, value, argument)),
    "utterance_reason": checked_text,
    "evidence": optional(checked_bool),
    "repeated": _checked_repetitions,
}
_SOURCE_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("session", "document"), optional(checked_label)),
    "title": optional(checked_text),
    "sequence": optional(checked_int),
    "page": optional(partial(checked_int, least=1)),
    **dict.fromkeys(("start", "end"), optional(checked_int)),
}
