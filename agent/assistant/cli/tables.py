"""A plain table: cut to the width of a terminal, whole where it is piped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

import typer

from agent.assistant.cli.printable import one_line

_GAP = "  "
_WIDEST = 28
_NARROWEST_LAST = 12


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, whole: int = 0) -> None:
    """Print *rows* under *headings*, columns aligned; only the last one may be long.

    The first *whole* columns are never cut: ids, which somebody is to copy. A column between them and the last in which
    there is nothing is left out on a terminal.
    """
    from rich.cells import cell_len

    lines = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    terminal = sys.stdout.isatty()
    if terminal:
        last = len(headings) - 1
        kept = [
            at for at in range(len(headings)) if at < max(whole, 1) or at == last or any(row[at] for row in lines[1:])
        ]
        lines = [[line[at] if at < whole or at == last else _cut(line[at], _WIDEST) for at in kept] for line in lines]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(lines[0]) - 1)]
    used = sum(widths) + len(_GAP) * len(widths)
    for line in lines:
        cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=False)]
        end = _cut(line[-1], _room(used)) if terminal else line[-1]
        typer.echo(_GAP.join((*cells, end)).rstrip())


def _room(used: int) -> int:
    return max(shutil.get_terminal_size().columns - used, _NARROWEST_LAST)


def _cut(text: str, width: int) -> str:
    """Return *text* in at most *width* cells of the screen (a Chinese character takes two)."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
