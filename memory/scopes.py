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
from tellback.memory.validation import checked_label, checked_labels
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
        conditions += [_scope_condition(checked_label(name, "scopes"), value) for name, value in scopes.items()]
    checked_tags = checked_labels(tags, "tags")
    if checked_tags:
        conditions.append({"tags": {"$in": list(checked_tags)}})
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"$and": conditions}


def _scope_condition(name: str, value: object) -> Filter:
    argument = f"scopes[{name!r}]"
    values = (checked_label(value, argument),) if isinstance(value, str) else checked_labels(value, argument)
    if not values:
        raise ArgumentError(argument, value, "at least one value is needed")
    operand: Any = values[0] if len(values) == 1 else {"$in": list(values)}
    condition = {f"scope.{name}": operand}
    return {"$or": [{SESSION_SCOPE: operand}, condition]} if name == SESSION_SCOPE else condition
