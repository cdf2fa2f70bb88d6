"""The file of one stage: JSON Lines, schema 1: a header, then a row an answer. It is written row by row and resumed.

``schema.json`` beside this file describes headers and rows. A row is known by its *key*; one that was cut off by a
kill is dropped. What a stage was made from stands in its header: where that differs, the file is not continued.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

SCHEMA = 1
_CIRCUMSTANCES = frozenset({"made", "machine", "load", "commit"})
"""Fields of a header that may differ between two runs of the same."""
MEASURED = frozenset({"ms", "cpu_ms", "seconds", "cpu", "rss", "bytes", "usage"})
"""Fields of a row that differ from run to run; all others are equal for equal input."""

Row: TypeAlias = dict[str, Any]


class ChangedInput(ValueError):
    """The file was made from something else than what is here; the message names it."""


class StageFile:
    """A stage's file with the rows that are there already."""

    def __init__(self, path: Path, header: Mapping[str, Any], key: Sequence[str], *, again: bool = False) -> None:
        self.path, self.key = path, tuple(key)
        self.header: Mapping[str, Any] = {"schema": SCHEMA, **header}
        self.rows: dict[tuple[str, ...], Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not again:
            found, rows = read_stage(path)
            now = json.loads(json.dumps(self.header))
            for name in sorted((found.keys() | now.keys()) - _CIRCUMSTANCES):
                if found.get(name) != now.get(name):
                    made = f"{path}: made with {name} {found.get(name)}, now it is {now.get(name)}"
                    raise ChangedInput(f"{made}; --again makes it anew")
            self.rows = {self._key(row): row for row in rows if not row.get("error")}  # errors are tried again
        whole = [{**self.header, "made": datetime.now(UTC).isoformat(timespec="seconds")}, *self.rows.values()]
        beside = path.with_suffix(".new")
        beside.write_text("".join(_line(row) for row in whole), "utf-8")
        beside.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Write *row* at once."""
        self.rows[self._key(row)] = row
        self._file.write(_line(row))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.key)


def read_stage(path: Path) -> tuple[Row, list[Row]]:
    """Return header and rows of *path* without a last line that was cut off; another schema is a ``ValueError``."""
    lines = path.read_text("utf-8").split("\n")
    try:
        header, *rows = (json.loads(line) for line in lines[:-1])
    except ValueError as error:
        raise ValueError(f"{path}: not a file of a stage: {error}") from error
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {header.get('schema')}; {SCHEMA} is read")
    return header, rows


def digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of *rows* in any order, without what is measured: equal for equal results."""
    lines = sorted(_line({name: value for name, value in row.items() if name not in MEASURED}) for row in rows)
    return sha256("".join(lines).encode()).hexdigest()


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"
