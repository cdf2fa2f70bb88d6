"""JSON schemas as the strict modes of OpenAI and Anthropic take them.

Both APIs answer 400 to words of JSON schema that they do not know, and pydantic writes many of them. The functions are
pure; the results mean the same as those of the official SDKs (`openai.lib._pydantic`, `anthropic.lib._parse`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_ANTHROPIC_STRING_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_ANTHROPIC_KEYWORDS = frozenset({"$defs", "anyOf", "oneOf", "allOf", "description", "title", "discriminator"})
"""Keywords that the API takes with every type, or that add nothing to the schema."""


def openai_schema(schema: Schema) -> dict[str, Any]:
    """Return *schema* with closed objects whose properties are all required, and no reference that has neighbours."""
    return _openai_schema(schema, schema, frozenset())


def _openai_schema(schema: Schema, root: Schema, unfolded: frozenset[str]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if isinstance(reference, str) and len(schema) > 1:
        target = _referenced(root, reference)
        if target is None or reference in unfolded:
            return {"$ref": reference}
        neighbours = {name: value for name, value in schema.items() if name != "$ref"}
        return _openai_schema({**target, **neighbours}, root, unfolded | {reference})

    def strict(value: Any) -> Any:
        return _openai_schema(value, root, unfolded) if isinstance(value, Mapping) else value

    result = {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    if result.get("type") == "object":
        result.setdefault("additionalProperties", False)
    for name in ("$defs", "definitions", "properties"):
        if isinstance(result.get(name), Mapping):
            result[name] = {key: strict(value) for key, value in result[name].items()}
    if isinstance(result.get("properties"), dict):
        result["required"] = list(result["properties"])
    if "items" in result:
        result["items"] = strict(result["items"])
    for name in ("anyOf", "allOf"):
        if isinstance(result.get(name), list):
            result[name] = [strict(variant) for variant in result[name]]
    if isinstance(result.get("allOf"), list) and len(result["allOf"]) == 1:
        (only,) = result.pop("allOf")
        result.update(only)
    return result


def _referenced(root: Schema, reference: str) -> Schema | None:
    """Return the schema at *reference*, such as ``#/$defs/City``; None where there is none."""
    value: Any = root
    for key in reference.removeprefix("#/").split("/"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else None


def anthropic_schema(schema: Schema) -> dict[str, Any]:
    """Return *schema* with closed objects; constraints that the API does not take go into the description as words."""
    result: dict[str, Any] = {}
    if isinstance(schema.get("$defs"), Mapping):
        result["$defs"] = {name: anthropic_schema(value) for name, value in schema["$defs"].items()}
    if "$ref" in schema:
        return {**result, "$ref": schema["$ref"]}
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list):
            result["allOf" if name == "allOf" else "anyOf"] = [anthropic_schema(variant) for variant in schema[name]]
            break
    literal = [name for name in ("enum", "const") if _is_literal(schema.get(name, ())) and schema.get(name) != []]
    taken = {*_ANTHROPIC_KEYWORDS, *literal, "type"}
    result |= {name: schema[name] for name in literal}
    kind = None if literal else schema.get("type")
    if kind is not None and not {"anyOf", "allOf"} & set(result):
        result["type"] = kind
    result |= {name: schema[name] for name in ("description", "title") if schema.get(name) is not None}
    if kind == "object":
        properties = schema.get("properties", {})
        result["properties"] = {name: anthropic_schema(value) for name, value in properties.items()}
        result["additionalProperties"] = False
        if "required" in schema:
            result["required"] = schema["required"]
        taken |= {"properties", "additionalProperties", "required"}
    elif kind == "string" and schema.get("format") in _ANTHROPIC_STRING_FORMATS:
        result["format"] = schema["format"]
        taken.add("format")
    elif kind == "array":
        if isinstance(schema.get("items"), Mapping):
            result["items"] = anthropic_schema(schema["items"])
            taken.add("items")
        if schema.get("minItems") in (0, 1):
            result["minItems"] = schema["minItems"]
            taken.add("minItems")
    rest = {name: value for name, value in schema.items() if name not in taken}
    if rest:
        words = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rest.items())
        result["description"] = "\n\n".join(filter(None, (result.get("description"), f"{{{words}}}")))
    return result


def _is_literal(value: Any) -> bool:
    """Return whether *value* is a constant, or a list of them, that the API takes."""
    values = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, (str, int, float)) for item in values)
