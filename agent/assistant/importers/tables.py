"""Tables as memories: each row of a CSV file, or each object of JSON Lines, becomes one memory.

Rows are read one by one, and written in batches of 256. A row's key is made from its text, time and tags, so importing
the same file again adds nothing, and an interrupted import is finished by repeating it.
"""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

from tellback.agent.assistant.importers.conversation_tree import clean_text, time_of_seconds
from tellback.agent.json_values import parsed_object
from tellback.memory import ArgumentError, LongTermMemory, Memory, Report, Trust
from tellback.memory.internals import ORIGIN, Outcome

TableFormat: TypeAlias = Literal["csv", "jsonl"]
TABLE_FORMATS: Final[tuple[TableFormat, ...]] = ("csv", "jsonl")

WITHOUT_TEXT: Final = "without text"
"""Reason for skipping a row without a text."""
_USUAL_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "text": ("text", "content", "memory", "note", "body", "message", "fact"),
    "time": ("time", "date", "timestamp", "datetime", "created_at", "created", "occurred_at"),
    "tags": ("tags", "tag", "labels"),
}
_BATCH: Final = 256
_SAMPLE: Final = 65_536
_LONGEST_LINE: Final = 16_000_000
_MILLISECONDS_FROM: Final = 100_000_000_000
"""Number from which a time is in milliseconds: as seconds it would be in the year 5138."""
_TAG_BORDER: Final = re.compile(r"[,;]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """Columns with the *text*, the *time* and the *tags* of a memory; None: the column with a usual name, if any."""

    text: str | None = None
    time: str | None = None
    tags: str | None = None

    def found_in(self, row: Mapping[str, Any], file: str) -> ColumnNames:
        """Return the columns of *row*; a named column that it lacks, or no column of text, raises ``ArgumentError``."""
        named = {"text": self.text, "time": self.time, "tags": self.tags}
        usual = {column.strip().casefold(): column for column in reversed(list(row))}
        for option, name in named.items():
            if name is not None and name not in row:
                raise ArgumentError(f"--{option}", name, f"a column of {file} is needed: {', '.join(row)}")
            named[option] = name or next((usual[word] for word in _USUAL_NAMES[option] if word in usual), None)
        if named["text"] is None:
            raise ArgumentError("--text", None, f"name the column of {file} with the words: {', '.join(row)}")
        return ColumnNames(**named)


@dataclass(slots=True)
class TableReport:
    """Report of an import of *rows*: how many were *kept*, *known* already, or *forgotten* since.

    *skipped* counts the rows that were left out, *noted* those with an assumption, each by reason.
    """

    format: TableFormat
    dry_run: bool
    rows: int = 0
    kept: int = 0
    known: int = 0
    forgotten: int = 0
    redacted: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count a row that is left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def note(self, reason: str) -> None:
        """Count a row with an assumption."""
        self.noted[reason] = self.noted.get(reason, 0) + 1


async def import_table(
    path: Path,
    report: TableReport,
    *,
    memory: LongTermMemory,
    namespace: str = "",
    columns: ColumnNames = ColumnNames(),
    trust: Trust = Trust.DOCUMENT,
    on_progress: Callable[[int], object] = lambda position: None,
) -> None:
    """Keep the rows of *path* as memories of *trust*, and count them in *report*; with its ``dry_run`` only count.

    *on_progress* gets the byte up to which the file was read.
    """
    with path.open("rb") as file:
        rows = _csv_rows(file) if report.format == "csv" else _json_rows(file)
        drafts = _memories(rows, report, columns, path.name, trust)
        while batch := list(islice(drafts, _BATCH)):
            items = [item for item in batch if not _is_forgotten(memory, namespace, item, report)]
            if report.dry_run:
                known = await memory.get(keys=[item.key or "" for item in items], namespace=namespace)
                report.known += sum(item is not None for item in known)
                report.kept += sum(item is None for item in known)
            else:
                for written in await _remember(memory, items, namespace, report):
                    _count(written, report)
            on_progress(file.tell())


async def _remember(
    memory: LongTermMemory, items: Sequence[Memory], namespace: str, report: TableReport
) -> Sequence[Report]:
    try:
        return await memory.remember_many(items, namespace=namespace)
    except ArgumentError:
        if len(items) > 1:  # one of them is unusable: find it
            return [written for item in items for written in await _remember(memory, [item], namespace, report)]
        report.skip("not fit for a memory")
        return []


def _count(written: Report, report: TableReport) -> None:
    if written.outcome in (Outcome.STORED, Outcome.REDACTED):
        report.kept += 1
        report.redacted += written.outcome == Outcome.REDACTED
    elif written.outcome == Outcome.REJECTED:
        report.skip(written.reason or "rejected")
    else:
        report.known += 1


def _is_forgotten(memory: LongTermMemory, namespace: str, item: Memory, report: TableReport) -> bool:
    """Return whether the words of *item* were forgotten after its time, and count it."""
    forgotten = memory.tombstones.words_at(namespace, memory.redacted(item.text))
    time = item.occurred_at or datetime.min.replace(tzinfo=UTC)
    is_forgotten = forgotten is not None and (time.astimezone() if time.tzinfo is None else time) <= forgotten
    report.forgotten += is_forgotten
    return is_forgotten


def _memories(
    rows: Iterator[Mapping[str, Any] | None], report: TableReport, columns: ColumnNames, file: str, trust: Trust
) -> Iterator[Memory]:
    names: ColumnNames | None = None
    for row in rows:
        report.rows += 1
        if row is None:
            report.skip("not an object of JSON")
            continue
        names = names or columns.found_in(row, file)
        value = row.get(names.text or "")
        text = clean_text(value) if isinstance(value, str) else ""
        if not text:
            report.skip(WITHOUT_TEXT)
            continue
        written = row.get(names.time or "")
        time = _time(written)
        if time is None and written not in (None, ""):
            report.note("time not understood")
        tags = _tags(row.get(names.tags or ""))
        used = (names.text, names.time, names.tags)
        others = {name: row[name] for name in row if name not in used and row[name] not in (None, "")}
        digest = blake2b(json.dumps([text, time and time.isoformat(), tags]).encode(), digest_size=16).hexdigest()
        yield Memory(
            text=text,
            kind="note",
            tags=tags,
            key=f"{report.format}:{digest}",
            trust=trust,
            actor=trust.value,
            occurred_at=time,
            metadata={**others, ORIGIN: report.format},
        )


def _csv_rows(file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows below the first, which names the columns. The delimiter is recognised."""
    sample = file.read(_SAMPLE)
    file.seek(0)
    encoding = "utf-8"
    try:
        head = sample.removeprefix(BOM_UTF8).decode(encoding)
    except UnicodeDecodeError as error:
        is_cut = error.end == len(sample) == _SAMPLE and error.start > _SAMPLE - 4
        encoding = encoding if is_cut else "cp1252"
        head = sample.decode(encoding, "replace")
    try:
        dialect: Any = csv.Sniffer().sniff(head.partition("\n")[0] or head, delimiters=",;\t|")
        delimiter = dialect.delimiter
    except csv.Error:
        delimiter = ","
    if sample.startswith(BOM_UTF8):
        file.seek(len(BOM_UTF8))
    rows = csv.DictReader((line.decode(encoding, "replace") for line in file), delimiter=delimiter)
    while True:
        limit = csv.field_size_limit(_LONGEST_LINE)  # that of the whole process, whose other readers rely on it
        try:
            row = next(rows, None)
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield {name: value for name, value in row.items() if isinstance(name, str)}


def _json_rows(file: IO[bytes]) -> Iterator[Mapping[str, Any] | None]:
    """Yield the object of each line; None for a line that is none."""
    while line := file.readline(_LONGEST_LINE):
        if not line.strip():
            continue
        yield parsed_object(line)


def _time(value: object) -> datetime | None:
    """Return the time *value*, in ISO form or as seconds or milliseconds since 1970; None for anything else."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, int | float) and value >= _MILLISECONDS_FROM:
        value /= 1000
    return time_of_seconds(value)


def _tags(value: object) -> tuple[str, ...]:
    names = _TAG_BORDER.split(value) if isinstance(value, str) else value if isinstance(value, list) else ()
    cleaned = (clean_text(name).lstrip("#") for name in names if isinstance(name, str))
    return tuple(dict.fromkeys(filter(None, cleaned)))
