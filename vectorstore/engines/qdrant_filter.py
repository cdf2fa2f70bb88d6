"""Filters for Qdrant: what it can decide of one as a condition on the payload, which lets through all that may match.

Qdrant's conditions are not ours: a list matches by any of its items, 1 is not 1.0, a negation needs an exact inside,
and texts have no order. So a filter narrows what Qdrant looks at, and each entry is held against the filter itself.
"""

from __future__ import annotations

import re
from typing import Any, Final

from qdrant_client import models

from tellback.vectorstore.filters import And, Condition, FilterNode, Or
from tellback.vectorstore.json_values import is_number

FIELDS: Final = "fields"
"""Key of the payload that has the metadata."""
_PLAIN_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXACT_NUMBERS: Final = 2**53
_RANGES: Final = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def qdrant_condition(node: FilterNode) -> models.Condition | None:
    """Return a condition that every match of *node* has; None where all entries may match."""
    match node:
        case And(nodes):
            parts = [part for part in map(qdrant_condition, nodes) if part is not None]
            return models.Filter(must=parts) if parts else None
        case Or(nodes):
            each = [qdrant_condition(inner) for inner in nodes]
            known = [part for part in each if part is not None]
            return models.Filter(should=known) if known and len(known) == len(each) else None
        case Condition(field, "$eq", value):
            return _one_of(field, [value])
        case Condition(field, "$in", value):
            return _one_of(field, value)
        case Condition(field, operator, value) if operator in _RANGES and is_number(value) and _is_exact(value):
            return _ranged(field, **{_RANGES[operator]: float(value)})
    return None


def _one_of(field: str, values: list[Any]) -> models.Condition | None:
    parts = []
    for value in values:
        if isinstance(value, str | bool):
            part = _matching(field, value)
        elif is_number(value) and _is_exact(value):
            part = _ranged(field, gte=float(value), lte=float(value))
        else:
            part = None
        if part is None:
            return None
        parts.append(part)
    return models.Filter(should=parts) if parts else None


def _matching(field: str, value: str | bool) -> models.Condition | None:
    if not _PLAIN_FIELD.fullmatch(field):
        return None
    return models.FieldCondition(key=f"{FIELDS}.{field}", match=models.MatchValue(value=value))


def _ranged(field: str, **bounds: float) -> models.Condition | None:
    if not _PLAIN_FIELD.fullmatch(field):
        return None
    return models.FieldCondition(key=f"{FIELDS}.{field}", range=models.Range(**bounds))


def _is_exact(value: int | float) -> bool:
    return abs(value) <= _EXACT_NUMBERS
