"""Edits of one table of a TOML text that leave the rest as it is, comments included. Pure.

>>> print(set_table('model = "m" # mine', ("servers", "x"), {"command": "run", "args": ["a"]}), end="")
model = "m" # mine
<BLANKLINE>
[servers.x]
command = "run"
args = ["a"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from tellback.vectorstore import MissingExtra


def set_table(text: str, path: Sequence[str], values: Mapping[str, str | Sequence[str]]) -> str:
    """Return *text* with the table at *path* set to *values*, as its last table; ``ValueError`` for invalid TOML."""
    library = _library()
    table = library.parse(text).unwrap()
    for key in path:
        table = table.get(key, {})
    if table == dict(values):
        return text
    rest = remove_table(text, path).rstrip("\n")
    added: Any = dict(values)
    for key in reversed(path):
        added = {key: added}
    after = "\n".join([*([rest, ""] if rest else []), library.dumps(added)])
    library.parse(after)  # where the outer table is an inline one, it cannot be extended
    return after


def remove_table(text: str, path: Sequence[str], *, kept: bool = False) -> str:
    """Return *text* without the table at *path*, and without outer tables that become empty unless *kept*."""
    document = _library().parse(text)
    tables = [document]
    for key in path[:-1]:
        if key not in tables[-1]:
            return text
        tables.append(tables[-1][key])
    if path[-1] not in tables[-1]:
        return text
    for table, key in zip(reversed(tables), reversed(path), strict=True):
        if key == path[-1] or not (kept or table[key]):
            del table[key]
    after: str = document.as_string()
    return after.rstrip("\n") + "\n" if after.strip() else ""


def _library() -> ModuleType:
    try:
        import tomlkit
    except ImportError as error:
        raise MissingExtra("editing TOML files", "mcp") from error
    return tomlkit
