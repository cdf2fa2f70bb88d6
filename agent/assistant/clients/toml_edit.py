"""Edits of one table of a TOML text that leave the rest as it is, comments included. Pure.

>>> print(set_table('model = "m" # mine', ("servers", "x"), {"command": "run", "args": ["a"]}), end="")
model = "m" # mine
<BLANKLINE>
[servers.x]
command = "run"
args = ["a"]
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def set_table(text: str, path: Sequence[str], values: Mapping[str, str | Sequence[str]]) -> str:
    """Return *text* with the table at *path* set to *values*; its other keys are removed.

    Invalid TOML, and a table in a form that cannot be edited here, such as an inline one, raise ``ValueError``.
    """
    before = tomllib.loads(text)
    if _value_at(before, path) == {name: _plain(value) for name, value in values.items()}:
        return text
    rest = remove_table(text, path).rstrip("\n")
    lines = [f"[{'.'.join(map(_key_text, path))}]"]
    # JSON strings and lists of them are valid TOML, but TOML has no surrogate pairs: hence no ASCII escapes.
    lines += [f"{_key_text(name)} = {json.dumps(_plain(value), ensure_ascii=False)}" for name, value in values.items()]
    after = "\n".join([*([rest, ""] if rest else []), *lines]) + "\n"
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"[{'.'.join(path)}] cannot be added: {error}") from None
    return after


def remove_table(text: str, path: Sequence[str]) -> str:
    """Return *text* without the table at *path* and the tables below it; ``ValueError`` as of ``set_table``."""
    before = tomllib.loads(text)
    if _value_at(before, path) is None:
        return text
    kept: list[str] = []
    removing = False
    for line in text.splitlines(keepends=True):
        header = _header(line)
        if header is not None:
            removing = header[: len(path)] == tuple(path)
        if not removing:
            kept.append(line)
    after = "".join(kept)
    try:
        is_right = tomllib.loads(after) == _without(before, path)
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ValueError(f"{'.'.join(path)} is not a table of its own in it: edit it by hand")
    return after.rstrip("\n") + "\n" if after.strip() else ""


def _header(line: str) -> tuple[str, ...] | None:
    """Return the keys of the table that *line* begins; None where it begins none."""
    if not line.lstrip().startswith("["):
        return None
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:  # a line of a list over several lines, or of a text
        return None
    keys = []
    while value:
        value = value[0] if isinstance(value, list) else value
        if not value:
            break
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)


def _value_at(values: Any, path: Sequence[str]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _without(values: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return *values* without the value at *path*, and without tables that become empty."""
    rest = {name: value for name, value in values.items() if name != path[0]}
    inner = _without(values[path[0]], path[1:]) if len(path) > 1 else {}
    return {**rest, path[0]: inner} if inner else rest


def _key_text(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _plain(value: str | Sequence[str]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)
