"""The loaders of tables: CSV and TSV by the standard library, Excel workbooks by openpyxl. Each row is a record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import Any, Final

from tellback.memory.documents.loaders.archive import Archive, core_fields
from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.records import header_names, named, write_record
from tellback.memory.documents.loaders.text import decode_text
from tellback.memory.errors import LoadError

_DELIMITERS: Final = (",", ";", "\t", "|")
_SAMPLE_ROWS: Final = 20
_SAMPLE: Final = 65_536


def read_csv(data: bytes, source: str) -> LoadedDocument:
    """Return a line for each row with the names of its columns.

    The delimiter is recognised, and a first row of words names the columns.
    """
    text, notes = decode_text(data, source)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    parts: list[str] = []
    lines: list[tuple[int, int]] = []
    length = 0
    header: list[str] | None = None
    try:
        for number, (line, row) in enumerate(_numbered(reader)):
            if number == 0 and (header := header_names(row)) is not None:
                continue
            if record := write_record(named(header, row)):
                parts.append(record)
                lines.append((length, line))
                length += len(record) + 1
    except csv.Error as error:
        raise LoadError(source, f"line {reader.line_num} is not that of a table ({error})") from error
    if header is not None and not parts:
        parts = [", ".join(header)]
    return LoadedDocument(text="\n".join(parts), lines=tuple(lines), notes=notes)


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that have words, with the lines where they begin."""
    begin = 1
    for row in reader:
        if any(cell.strip() for cell in row):
            yield begin, row
        begin = reader.line_num + 1


def _delimiter(text: str) -> str:
    """Return the delimiter that gives the first rows the most columns in equal number."""
    sample = text[:_SAMPLE]

    def columns(delimiter: str) -> int:
        try:
            rows = list(islice(csv.reader(io.StringIO(sample), delimiter=delimiter), _SAMPLE_ROWS))
        except csv.Error:
            return 0
        counts = [len(row) for row in rows if row]
        return min(counts[:-1] or counts, default=0)

    return max(_DELIMITERS, key=columns)


def read_xlsx(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return a section for each visible sheet, a line for each row; of a formula its last value is read."""
    from openpyxl import load_workbook

    archive = Archive(data, source, limits)
    for name in archive.names:
        if name.endswith((".xml", ".rels")):
            archive.checked_xml(name)
    workbook = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    fields = core_fields(archive.optional_xml("docProps/core.xml"))
    title = fields.pop("title", "")
    parts: list[str] = []
    lines: list[tuple[int, int]] = []
    length = 0
    for sheet in workbook.worksheets:
        if sheet.sheet_state != "visible":
            continue
        records = list(_row_records(sheet.iter_rows(values_only=True)))
        for number, (row, record) in enumerate(records):
            part = f"# {sheet.title}\n{record}" if number == 0 else record
            part += "\n\n" if number == len(records) - 1 else "\n"
            parts.append(part)
            lines.append((length, max(row - 1, 1) if number == 0 else row))  # the heading is one line above it
            length += len(part)
    return LoadedDocument(text="".join(parts).rstrip(), title=title, lines=tuple(lines), metadata=fields)


def _row_records(rows: Iterable[Sequence[object]]) -> Iterator[tuple[int, str]]:
    """Yield a record for each row that has values, with the number of the row; a header names the columns."""
    texts = [(number, [_cell_text(value) for value in row]) for number, row in enumerate(rows, start=1)]
    filled = [(number, row) for number, row in texts if any(cell.strip() for cell in row)]
    header = header_names(filled[0][1]) if len(filled) > 1 else None
    for number, row in filled[header is not None :]:
        yield number, write_record(named(header, row))


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)
