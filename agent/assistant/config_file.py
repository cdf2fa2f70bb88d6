"""Configuration file: settings are written into it or taken out, and everything else stays, comments included.

A new file is private (0600); it is written whole or not at all. Keys are kept elsewhere (``key_store``).
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tellback.agent.assistant.config import (
    SETTINGS,
    ConfigurationError,
    UnusableSetting,
    checked_setting,
    describe_unusable,
)

_TABLES: Final = ("mcp",)
"""Settings that are tables: they are edited by hand."""


def known_setting(name: str) -> str:
    """Return *name*, written with dashes or underscores, as a field of the settings; suggest the nearest otherwise."""
    field = name.strip().replace("-", "_").lower()
    if field in SETTINGS:
        return field
    near = get_close_matches(field, SETTINGS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`tellback config` lists all settings"
    raise ConfigurationError(f"{name}: no such setting; {hint}")


def write_settings(path: Path, values: Mapping[str, str | float | bool | None]) -> bool:
    """Check *values* by setting and write them into the file at *path*, which is created where there is none.

    None takes a setting out. Returns whether the file was changed. An unusable value, or a file that cannot be edited,
    raises ``ConfigurationError`` and leaves the file as it was.
    """
    lines = {name: None if value is None else _toml_value(name, value) for name, value in values.items()}
    return _replace_settings(path, lines)


def _toml_value(name: str, value: Any) -> str:
    """Return *value* as TOML, in the type that the setting has."""
    if name in _TABLES:
        raise ConfigurationError(f"{name}: a table, which is written into the file by hand (docs/mcp.md has its keys)")
    try:
        checked = checked_setting(name, value)
    except UnusableSetting as error:
        raise ConfigurationError(describe_unusable(error, "the new value")) from None
    if checked is None:
        checked = value
    plain = checked if isinstance(checked, bool | int | float) else str(checked)
    return json.dumps(plain, ensure_ascii=False)


def replace_text(path: Path, text: str) -> None:
    """Write *text* to the file *path*, whole or not at all.

    A link is followed, so that a folder of dotfiles keeps its file. A file that was there keeps its mode; a new one is
    private (0600).
    """
    from tellback.vectorstore.sqlite import atomic_write

    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, token=os.urandom, replace=True) as new:
        new.write_bytes(text.encode())
        new.chmod(mode)


def _replace_settings(path: Path, lines: Mapping[str, str | None]) -> bool:
    """Set each name in the file at *path* to its TOML value, or take it out (None); return whether the file changed."""
    try:
        before = after = path.read_text(encoding="utf-8") if path.exists() else ""
        for name, value in lines.items():
            after = with_setting(after, name, value)
        if after == before:
            return False
        replace_text(path, after)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}; nothing was changed") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be changed ({error})") from error
    return True


def with_setting(text: str, name: str, value: str | None) -> str:
    r"""Return the TOML *text* with the line ``name = value`` above its tables, or without one where *value* is None.

    >>> print(with_setting("model = 'a'  # mine\n\n[mcp.servers.x]\n", "language", '"de"'), end="")
    model = 'a'  # mine
    language = "de"
    <BLANKLINE>
    [mcp.servers.x]
    """
    wanted = tomllib.loads(text)
    wanted.pop(name, None)
    if value is not None:
        wanted[name] = tomllib.loads(f"{name} = {value}")[name]
    lines = text.splitlines(keepends=True)
    top = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    first, last = _statement(lines, name)
    if first == last:  # not set yet: the last line above the tables
        first = last = max((number + 1 for number in range(top) if lines[number].strip()), default=0)
    new = [] if value is None else [f"{name} = {value}\n"]
    if new and first and not lines[first - 1].endswith("\n"):
        new[0] = "\n" + new[0]
    after = "".join([*lines[:first], *new, *lines[last:]])
    try:
        is_right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigurationError(f"{name}: the file sets it in a form that cannot be edited here: change it by hand")
    return after


def _statement(lines: list[str], name: str) -> tuple[int, int]:
    """Return the index of the line that sets *name* and that of the line after its value; (0, 0) where none does."""
    for first, line in enumerate(lines):
        if line.partition("=")[0].strip().strip("\"'") != name:
            continue
        for last in range(first + 1, len(lines) + 1):
            try:
                values = tomllib.loads("".join(lines[first:last]))
            except tomllib.TOMLDecodeError:
                continue
            if set(values) == {name}:
                return first, last
            break
    return 0, 0
