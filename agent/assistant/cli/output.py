"""What is printed: answers on standard output, everything beside them on standard error."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer

from agent.assistant.cli.printable import safe_json, visible


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on one line."""
    ascii_only = codecs.lookup(sys.stdout.encoding or "ascii").name != "utf-8"
    typer.echo(safe_json(json.dumps(answer, ensure_ascii=ascii_only, default=_plain)))


def say(text: str = "", *, indent: str = "") -> None:
    """Print lines for people; *indent* begins every line but the first, so that no text can pass for another."""
    typer.echo(visible(text).replace("\n", "\n" + indent))


def say_piece(text: str) -> None:
    """Print a piece of a line, at once."""
    typer.echo(visible(text), nl=False)


def note(text: str = "") -> None:
    """Print a line beside the answer, on standard error."""
    typer.echo(visible(text), err=True)


def day(moment: datetime | None) -> str:
    """Return the day of *moment*, where the reader is; nothing for None."""
    return "" if moment is None else f"{_here(moment):%Y-%m-%d}".rjust(10, "0")


def minute(moment: datetime | None) -> str:
    """Return day and time of *moment*, where the reader is; nothing for None."""
    return "" if moment is None else f"{_here(moment):%Y-%m-%d %H:%M}".rjust(16, "0")


def counted(count: int, what: str, several: str = "") -> str:
    """Return a count in words, such as ``3 memories``."""
    return f"{count} {what if count == 1 else several or what + 's'}"


def _here(moment: datetime) -> datetime:
    try:
        return moment.astimezone()
    except (OverflowError, OSError, ValueError):  # at the ends of the calendar
        return moment


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
