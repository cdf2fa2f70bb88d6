"""Rows of tables and fields of records: the parts of a text that answer although they are no sentences.

>>> text = "| service | port |\\n|---|---|\\n| mailer | 2525 |"
>>> [quoted_text(text, *row) for row in table_rows(text)]
['service: mailer; port: 2525']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tellback.memory.chunking.sentences import TextSpan
from tellback.memory.documents.loaders.records import named, write_record

_TABLE: Final = re.compile(
    r"^[ \t]*(\|[^\n]*)\n[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*\n(?P<rows>(?:[ \t]*\|[^\n]*(?:\n|\Z))+)", re.MULTILINE
)
"""The names of the columns, the rule below them, and the rows."""
_ROW: Final = re.compile(r"\|[^\n]*\|")
_CELL_BORDER: Final = re.compile(r"(?<!\\)\|")
_FIELD: Final = re.compile(r"(?:\A|(?<=; ))(?P<name>[^\s:;][^:;\n]{0,79}): ")
_ASSIGNMENT: Final = re.compile(
    r"^[ \t]*(?P<assignment>[\"']?[A-Za-z_][\w.\-]*[\"']?[ \t]*[:=][ \t]*"
    r"(?:[-+]?\d[\w.+\-]*|\"[^\"\n]*\"|'[^'\n]*'|[Tt]rue|[Ff]alse))[ \t]*[,;]?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE,
)


def table_rows(text: str) -> list[TextSpan]:
    """Return the rows of the tables of *text* in Markdown, in order, without those that name the columns."""
    return [row.span() for table in _TABLE.finditer(text) for row in _ROW.finditer(text, *table.span("rows"))]


def quoted_text(text: str, start: int, end: int) -> str:
    """Return ``text[start:end]``; of the row of a table each value with the name of its column."""
    for table in _TABLE.finditer(text) if text.startswith("|", start) else ():
        if table.start("rows") <= start < table.end("rows"):
            return write_record(named(_cells(table[1]), _cells(text[start:end])))
    return text[start:end]


def record_fields(text: str, start: int, end: int) -> Iterator[TextSpan]:
    """Yield the parts of the record ``text[start:end]``: each field that a path names ("mailer.port: 2525") by itself.

    Fields without a path, and those of one item of a list ("services.1.port"), say together what they are about.
    """
    record = text[start:end]
    fields = list(_FIELD.finditer(record))
    borders = [*(field.start() for field in fields[1:]), len(record) + 2]  # with the "; " that ends a field
    for _, group in groupby(zip(fields, borders, strict=True), lambda item: _subject(item[0]["name"])):
        (first, border), *others = group
        yield start + first.start(), start + (others[-1][1] if others else border) - 2


def assignments(text: str, start: int, end: int) -> list[TextSpan]:
    """Return the lines of the code ``text[start:end]`` that give a name a plain value: settings, and results."""
    return [match.span("assignment") for match in _ASSIGNMENT.finditer(text, start, end)]


def _subject(name: str) -> str:
    """Return what the field *name* is about: all fields of a list's item share it, and all that have no path."""
    parts = name.split(".")
    item = max((index for index, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[: item + 1]) if item >= 0 else name * (len(parts) > 1)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in _CELL_BORDER.split(row.strip().strip("|"))]
