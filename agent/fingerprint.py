"""A fingerprint of an agent's configuration, so that a stored run can be told to belong to it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from agent.tools.facets import facets_of
from agent.tools.protocol import Tool


def fingerprint(tools: Iterable[Tool], **parts: Any) -> str:
    """Return SHA-256, in hex, over *parts* and *tools* in a canonical form: neither the order of the tools nor that
    of any keys matters, nor what is None. Functions count by their names, other objects by their types."""
    described = sorted((_tool(tool) for tool in tools), key=lambda tool: str(tool["name"]))
    text = json.dumps({**_plain(parts), "tools": _plain(described)}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _tool(tool: Tool) -> dict[str, Any]:
    spec, facets = tool.spec, facets_of(tool)
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "timeout": tool.timeout,
        "facets": facets,
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(one), sort_keys=True) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
        return {"type": type(value).__name__, **_plain(held)}
    return getattr(value, "__qualname__", type(value).__qualname__)
