"""What a function's docstring says of it and of its parameters, in the Google, NumPy and Sphinx habits. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

_SECTION = re.compile(
    r"^(?:args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?|attributes)\s*:?\s*$", re.I
)
_ARGUMENTS = re.compile(r"^(?:args|arguments|parameters|params)\s*:?\s*$", re.IGNORECASE)
_GOOGLE = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^(\*{0,2}\w+)\s*(?::\s*.*)?$")
_SPHINX = re.compile(r"^:param(?:\s+[^:]+?)??\s+(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r"^:\w+[^:]*:")


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of *function* and those of its parameters."""
    lines = (inspect.getdoc(function) or "").splitlines()
    for start, line in enumerate(lines):
        if _SECTION.match(line) or _FIELD.match(line):
            return _joined(lines[:start]), _parameters(lines[start:])
    return _joined(lines), {}


def _parameters(lines: list[str]) -> dict[str, str]:
    found = _sphinx(lines)
    for start, line in enumerate(lines):
        if not _ARGUMENTS.match(line):
            continue
        body = lines[start + 1 :]
        if body and set(body[0].strip()) == {"-"}:
            return found | _entries(body[1:], _NUMPY, indented=False)
        return found | _entries(body, _GOOGLE, indented=True)
    return found


def _entries(lines: list[str], pattern: re.Pattern[str], *, indented: bool) -> dict[str, str]:
    """Return name and text of each entry of a section; deeper lines go on with the entry above them."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    margin: int | None = None
    for line in lines:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        margin = depth if margin is None else margin
        if _SECTION.match(line) or depth < margin or (indented and depth == 0):
            break
        match = pattern.match(line.strip()) if depth == margin else None
        if match:
            current = found[match[1].lstrip("*")] = [match[2]] if pattern is _GOOGLE else []
        elif current is not None:
            current.append(line.strip())
    return {name: _joined(parts) for name, parts in found.items()}


def _sphinx(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        if match := _SPHINX.match(line):
            current = found[match[1]] = [match[2]]
        elif _FIELD.match(line) or not line.strip():
            current = None
        elif current is not None:
            current.append(line.strip())
    return {name: _joined(parts) for name, parts in found.items()}


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip()
