"""JSON of others, of which nothing is certain: an object or nothing, and its fields by their kind. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def parsed_object(text: Any) -> dict[str, Any] | None:
    """Return the JSON object in *text*, a string or bytes; None for anything else."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def object_field(value: Any, name: str) -> dict[str, Any]:
    """Return the object *name* of the object *value*; an empty one where there is none."""
    field = value.get(name) if isinstance(value, dict) else None
    return field if isinstance(field, dict) else {}


def object_list(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list *name* of *value*; none where there is no list."""
    items = value.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def text_or_empty(value: Any) -> str:
    """Return *value* if it is text, else nothing."""
    return value if isinstance(value, str) else ""
