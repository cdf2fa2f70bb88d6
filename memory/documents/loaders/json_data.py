"""The loaders of JSON, JSON Lines and Jupyter notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import Any, Final

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.documents.loaders.markdown import first_heading
from tellback.memory.documents.loaders.records import write_record
from tellback.memory.documents.loaders.text import decode_text
from tellback.memory.errors import LoadError

_MAX_DEPTH: Final = 100
_MAX_OUTPUT: Final = 2_000
"""Characters that are kept of one output of a notebook's cell."""


def read_json(data: bytes, source: str) -> LoadedDocument:
    """Return a record for each object of a list; nested objects are named by their path."""
    text, notes = decode_text(data, source)
    value = parse_json(text, source)
    return LoadedDocument(text="\n\n".join(value_records(value, source)), title=_title(value), notes=notes)


def read_jsonl(data: bytes, source: str) -> LoadedDocument:
    """Return a line for each record; a line that is no JSON raises ``LoadError``."""
    text, notes = decode_text(data, source)
    parts: list[str] = []
    lines: list[tuple[int, int]] = []
    length = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = "\n\n".join(value_records(parse_json(line, source, f"line {number}"), source))
        if record:
            parts.append(record)
            lines.append((length, number))
            length += len(record) + 1
    return LoadedDocument(text="\n".join(parts), lines=tuple(lines), notes=notes)


def read_ipynb(data: bytes, source: str) -> LoadedDocument:
    """Return the cells of a notebook in their order, without the pictures among the outputs.

    Text cells stand as they are, code cells as blocks of code, the text of outputs indented below.
    """
    text, notes = decode_text(data, source)
    notebook = parse_json(text, source)
    if not isinstance(notebook, dict):
        raise LoadError(source, "not a notebook")
    worksheets = notebook.get("worksheets")  # of version 3
    cells = notebook.get("cells") or [cell for sheet in _objects(worksheets) for cell in sheet.get("cells", ())]
    language = _language(notebook)
    parts = [part for cell in _objects(cells) for part in _cell_parts(cell, language)]
    whole = "\n\n".join(parts)
    return LoadedDocument(text=whole, title=first_heading(whole), notes=notes)


def parse_json(text: str, source: str, place: str = "") -> Any:
    """Return the value of *text*; what is no JSON, or nested too deeply, raises ``LoadError``."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise LoadError(source, "nested too deeply") from error
    except ValueError as error:
        raise LoadError(source, f"{place or 'it'} is no JSON ({error})") from error


def value_records(value: Any, source: str) -> Iterator[str]:
    """Yield the records of a JSON value: of a list each item, else the value itself."""
    for item in value if isinstance(value, list) else [value]:
        if record := write_record(_fields(item, "", source, 0)):
            yield record


def _fields(value: Any, path: str, source: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH:
        raise LoadError(source, "nested too deeply")
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else str(name), source, depth + 1)
    elif isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            yield path, ", ".join(_scalar(item) for item in value if item is not None)
        else:
            for number, item in enumerate(value, start=1):
                yield from _fields(item, f"{path}.{number}" if path else str(number), source, depth + 1)
    elif value is not None:
        yield path, _scalar(value)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _title(value: Any) -> str:
    title = value.get("title") if isinstance(value, dict) else None
    return title if isinstance(title, str) else ""


def _objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _joined(source: Any) -> str:
    if isinstance(source, str):
        return source
    return "".join(map(str, source)) if isinstance(source, Sequence) else ""


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isidentifier() else "python"


def _cell_parts(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", ""))).strip("\n")
    if not source.strip():
        return
    if cell.get("cell_type") == "heading":
        yield "#" * int(cell.get("level", 1)) + " " + source
    elif cell.get("cell_type") != "code":
        yield source
    else:
        yield _fenced(source, language)
        for output in _objects(cell.get("outputs")):
            if text := _output_text(output).strip("\n"):
                yield indent(text if len(text) <= _MAX_OUTPUT else text[:_MAX_OUTPUT] + "…", "    ")


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _output_text(output: Mapping[str, Any]) -> str:
    data = output.get("data")
    plain = data.get("text/plain") if isinstance(data, dict) else output.get("text", "")
    return "" if output.get("output_type") == "error" else _joined(plain)
