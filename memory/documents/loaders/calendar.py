"""The loader of calendars (``.ics``): a record for each event and task."""

from __future__ import annotations

import re
from typing import Final

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.documents.loaders.records import write_record
from tellback.memory.documents.loaders.text import decode_text
from tellback.memory.errors import LoadError

_FOLDED: Final = re.compile(r"\n[ \t]")
_PROPERTY: Final = re.compile(r"(?P<name>[\w-]+)(?P<parameters>(?:;[\w-]+=(?:\"[^\"]*\"|[^;:\"]*))*):(?P<value>.*)")
_ESCAPE: Final = re.compile(r"\\([\\;,nN])")
_TIME: Final = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})\d{2}(Z?))?")
_NAMES: Final = {
    "SUMMARY": "what",
    "DTSTART": "start",
    "DTEND": "end",
    "DUE": "due",
    "LOCATION": "where",
    "ORGANIZER": "organizer",
    "ATTENDEE": "with",
    "RRULE": "repeats",
    "STATUS": "status",
    "DESCRIPTION": "description",
}


def read_ics(data: bytes, source: str) -> LoadedDocument:
    """Return the events of a calendar in their order, each with its times, place and people."""
    text, notes = decode_text(data, source)
    if not text.lstrip().upper().startswith("BEGIN:VCALENDAR"):
        raise LoadError(source, "not a calendar")
    records: list[str] = []
    fields: list[tuple[str, str]] | None = None
    title = ""
    nested = 0
    for line in _FOLDED.sub("", text).split("\n"):
        match = _PROPERTY.match(line)
        if match is None:
            continue
        name, value = match["name"].upper(), match["value"].strip()
        if name == "BEGIN":
            if value.upper() in ("VEVENT", "VTODO", "VJOURNAL"):
                fields, nested = [], 0
            else:
                nested += 1
        elif name == "END":
            if fields is not None and value.upper() in ("VEVENT", "VTODO", "VJOURNAL"):
                records.append(write_record(fields))
                fields = None
            else:
                nested -= 1
        elif fields is not None and not nested and name in _NAMES:
            fields.append((_NAMES[name], _value(name, match["parameters"], value)))
        elif name == "X-WR-CALNAME":
            title = value
    return LoadedDocument(text="\n\n".join(filter(None, records)), title=title, notes=notes)


def _value(name: str, parameters: str, value: str) -> str:
    if name in ("DTSTART", "DTEND", "DUE") and (match := _TIME.match(value)):
        day = "-".join(match.group(1, 2, 3))
        return f"{day} {match[4]}:{match[5]}{' UTC' if match[6] else ''}" if match[4] else day
    if name in ("ATTENDEE", "ORGANIZER"):
        person = re.search(r';CN=(?:"([^"]*)"|([^;:]*))', parameters, re.IGNORECASE)
        address = re.sub(r"(?i)^mailto:", "", value)
        return f"{person[1] or person[2]} <{address}>" if person else address
    return _ESCAPE.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)
