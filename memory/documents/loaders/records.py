"""Records as text: a line of named fields for each, so that a row of a table says what its values are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_LONG: Final = 200
"""Characters from which a value stands in a paragraph of its own."""


def write_record(fields: Iterable[tuple[str, str]]) -> str:
    """Return "name: value; name: value" of the *fields* that have a value; long values follow in paragraphs."""
    short: list[str] = []
    long: list[str] = []
    for name, value in fields:
        if not (words := value.strip()):
            continue
        if len(words) < _LONG:
            short.append(f"{name}: {' '.join(words.split())}" if name else " ".join(words.split()))
        else:
            long.append(f"{name}: {words}" if name else words)
    return "\n\n".join(filter(None, ["; ".join(short), *long]))


def header_names(row: Sequence[str]) -> list[str] | None:
    """Return the names of the columns if *row* is a header: words, all different, none empty but the last ones."""
    names = [" ".join(cell.split()) for cell in row]
    while names and not names[-1]:
        names.pop()
    is_header = bool(names) and all(name and not _is_number(name) for name in names) and len(set(names)) == len(names)
    return names if is_header else None


def named(header: Sequence[str] | None, row: Sequence[str]) -> list[tuple[str, str]]:
    """Return the values of *row* with the names of their columns."""
    names = header or ()
    return [(names[column] if column < len(names) else "", value) for column, value in enumerate(row)]


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
