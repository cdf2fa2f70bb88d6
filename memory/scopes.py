"""Scopes and tags as a filter of the store: "only of this project".

A memory is in a scope if it carries that very value; one without it is not. Several values of a scope, and several
tags, mean any of them; different scopes must all agree.

    >>> scope_filter({"project": "atlas"}, tags=("work", "home"))
    {'$and': [{'scope.project': 'atlas'}, {'tags': {'$in': ['work', 'home']}}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tellback.memory.codec import check_field_names
from tellback.memory.errors import ArgumentError
from tellback.vectorstore import Filter

Scopes: TypeAlias = Mapping[str, str | Sequence[str]]
"""Values by the name of a scope: one value, or a list of values of which any will do."""

SESSION_SCOPE: Final = "session"
"""The scope that is a field of every memory; the others are in ``Memory.scopes`` (user, project, agent, …)."""


def scope_filter(scopes: Scopes | None = None, tags: Sequence[str] = (), where: Filter | None = None) -> Filter | None:
    """Return one filter for *scopes*, *tags* and *where* together, None without any.

    A text that cannot name a scope, a value or a tag raises ``ArgumentError``; so does an empty list of values, which
    would find nothing where everything may be meant.
    """
    conditions: list[Filter] = [] if where is None else [where]
    if where is not None:
        check_field_names(where)
    if scopes is not None:
        if not isinstance(scopes, Mapping):
            raise ArgumentError("scopes", scopes, "a mapping of scopes to their values is needed")
        conditions += [_scope_condition(_checked_word(name, "scopes"), value) for name, value in scopes.items()]
    checked_tags = _checked_words(tags, "tags")
    if checked_tags:
        conditions.append({"tags": {"$in": list(checked_tags)}})
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"$and": conditions}


def _scope_condition(name: str, value: object) -> Filter:
    values = (
        (_checked_word(value, f"scopes[{name!r}]"),)
        if isinstance(value, str)
        else _checked_words(value, f"scopes[{name!r}]")
    )
    if not values:
        raise ArgumentError(f"scopes[{name!r}]", value, "at least one value is needed")
    operand: Any = values[0] if len(values) == 1 else {"$in": list(values)}
    condition = {f"scope.{name}": operand}
    return {"$or": [{SESSION_SCOPE: operand}, condition]} if name == SESSION_SCOPE else condition


def _checked_words(values: object, argument: str) -> tuple[str, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sequence):
        raise ArgumentError(argument, values, "a list of texts is needed")
    return tuple(_checked_word(value, f"{argument}[{i}]") for i, value in enumerate(values))


def _checked_word(value: object, argument: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(argument, value, "a text that is not blank is needed")
    return value
