"""Reference of the HTTP API as one page over its OpenAPI description: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"
}
STYLE: Final = """\
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
code { font-size: .95em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; }
summary { cursor: pointer; padding: .35rem 0; }
"""


def reference_page(description: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI *description*: every call with its parameters, body, and answer."""
    return "\n".join(_page(description))


def _page(description: Mapping[str, Any]) -> Iterator[str]:
    title = escape(f"{description['info']['title']} HTTP API")
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/api/docs.css"></head>'
    yield f"<body><main><h1>{title}</h1><p>Each request bears a token: <code>Authorization: Bearer …</code>. The"
    yield 'description for programs is <code><a href="/api/v1/openapi.json">openapi.json</a></code>.</p>'
    schemas: Mapping[str, Any] = description.get("components", {}).get("schemas", {})
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            summary = escape(str(call.get("description") or call.get("summary", "")))
            yield f"<details><summary><code>{method.upper()} {escape(path)}</code> {summary.partition(chr(10))[0]}"
            yield f"</summary><p>{summary}</p>"
            yield from _fields("Parameter", {one["name"]: one.get("schema", {}) for one in call.get("parameters", ())})
            for media, content in call.get("requestBody", {}).get("content", {}).items():
                yield from _fields(f"Field of {media}", _properties(content.get("schema", {}), schemas))
            answer = call.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
            yield from _fields("Field of the answer", _properties(answer.get("schema", {}), schemas))
            yield "</details>"
    yield "</main></body></html>"


def _properties(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    if schema.get("type") == "array":
        schema = schema.get("items", {})
    named = schemas.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    fields: Mapping[str, Any] = named.get("properties", {})
    return fields


def _fields(heading: str, fields: Mapping[str, Any]) -> Iterator[str]:
    if not fields:
        return
    yield f"<table><thead><tr><th>{escape(heading)}</th><th>Type</th></tr></thead><tbody>"
    for name, schema in fields.items():
        kind = escape(_type(schema))
        yield f"<tr><td><code>{escape(name)}</code></td><td>{kind} {escape(schema.get('description', ''))}</td></tr>"
    yield "</tbody></table>"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_type, choices))
    if values := schema.get("enum"):
        return " or ".join(map(str, values))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
