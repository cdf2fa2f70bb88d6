"""Rows of tables, items of lists and fields of records: the parts of a text that answer although they are no sentences.

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
_MARK: Final = r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+"
_LIST: Final = re.compile(rf"^(?:{_MARK}[^\n]+(?:\n(?!{_MARK})[ \t]+[^\n]+)*(?:\n+(?={_MARK})|\n|\Z))+", re.MULTILINE)
_LIST_ITEM: Final = re.compile(rf"^{_MARK}[^\n]+(?:\n(?!{_MARK})[^\n]+)*", re.MULTILINE)
_RECORDS: Final = re.compile(r"^(?P<name>[^:;|\n]{1,80}): [^\n]*(?:\n(?P=name): [^\n]*)+", re.MULTILINE)
_LINE: Final = re.compile(r"[^\n]+")
_NAMED_FIELDS: Final = re.compile(r"(?:[^\s:;.]+\.)+[^\s:;.]+: |[^:;\n]{1,80}: [^;\n]*; [^:;\n]{1,80}: ")
_ASSIGNMENT: Final = re.compile(
    r"^[ \t]*(?P<assignment>[\"']?[A-Za-z_][\w.\-]*[\"']?[ \t]*[:=][ \t]*"
    r"(?:[-+]?\d[\w.+\-]*|\"[^\"\n]*\"|'[^'\n]*'|[Tt]rue|[Ff]alse))[ \t]*[,;]?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE,
)


def table_rows(text: str) -> list[TextSpan]:
    """Return the rows of the tables of *text* in Markdown, in order, without those that name the columns."""
    return [row.span() for table in _TABLE.finditer(text) for row in _ROW.finditer(text, *table.span("rows"))]


def items_around(text: str, place: int) -> list[TextSpan]:
    """Return the items of the list, the rows of the table or the records among which *place* is, in order; else none.

    Rows and records are without what names the columns, items have their bullets and numbers.
    """
    for group, item, name in ((_TABLE, _ROW, "rows"), (_LIST, _LIST_ITEM, 0), (_RECORDS, _LINE, 0)):
        for found in group.finditer(text):
            if found.start(name) <= place < found.end(name):
                return [part.span() for part in item.finditer(text, *found.span(name))]
    return []


def is_row(text: str, start: int) -> bool:
    """Return whether the row of a table or a record begins at *start*, which says nothing about what follows it."""
    return text.startswith("|", start) or _NAMED_FIELDS.match(text, start) is not None


def quoted_text(text: str, start: int, end: int) -> str:
    """Return ``text[start:end]``; of rows of a table each value with the name of its column, a line for each row."""
    for table in _TABLE.finditer(text) if text.startswith("|", start) else ():
        if table.start("rows") <= start < table.end("rows"):
            names = _cells(table[1])
            return "\n".join(write_record(named(names, _cells(row[0]))) for row in _ROW.finditer(text, start, end))
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
