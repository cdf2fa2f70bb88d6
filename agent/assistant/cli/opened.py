"""Opening what a command works on, and closing it whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from agent.assistant.cli.context import invocation

if TYPE_CHECKING:
    from agent.assistant.wiring import Assistant, OpenedMemory


@contextmanager
def opened_memory(context: typer.Context, *, create: bool = False) -> Iterator[OpenedMemory]:
    """Open the memory file that is configured; one that is not there is made only where *create* says so."""
    settings = invocation(context).configuration().settings
    from agent.assistant.wiring import open_settings_memory
    from memory import run_sync

    place = open_settings_memory(settings, create=create)
    try:
        yield place
    finally:
        run_sync(place.close())


@contextmanager
def opened_assistant(context: typer.Context, *, reads_only: bool) -> Iterator[Assistant]:
    """Open the assistant that is configured.

    *reads_only*: a memory file that is not there, or cannot be read, is an error; else it is made, and a turn that
    cannot read it is answered without it.
    """
    settings = invocation(context).configuration().settings
    from agent.assistant.wiring import open_assistant
    from memory import run_sync

    assistant = open_assistant(
        settings,
        create=not reads_only,
        reads_only=reads_only,
        on_memory_error="raise" if reads_only else "degrade",
    )
    try:
        yield assistant
    finally:
        run_sync(assistant.close())
