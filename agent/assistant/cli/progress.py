"""A bar on standard error while long work goes on; nothing where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.assistant.cli.printable import one_line


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show how far the work is; yields a function that takes (done, total, what was done last)."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, last: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task(what, total=None, last="")
        yield lambda done, total, last: bar.update(task, completed=done, total=total, last=one_line(last))
