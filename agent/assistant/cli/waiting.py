"""Waiting status: a line on the terminal that says what is waited for, until the first word of an answer.

It is written to standard error, and only where that is a terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tellback.agent.assistant.cli.output import console, one_line, print_note

if TYPE_CHECKING:
    from rich.status import Status

    from tellback.agent.events import Event


class WaitingStatus:
    """Line with a spinner; *shown* False shows nothing. ``show`` may be called again after ``clear``."""

    def __init__(self, *, shown: bool = True) -> None:
        self.shown = shown and sys.stderr.isatty()
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show *text*, in the place of what is shown."""
        if not self.shown:
            return
        from rich.text import Text

        line = Text(one_line(text), style="dim", no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = console(error=True).status(line)
            self._status.start()
        else:
            self._status.update(line)

    def clear(self) -> None:
        """Take the line off the terminal; before anything else is printed."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def show_wait(event: Event, status: WaitingStatus) -> None:
    """Show in *status* the wait that *event* reports; without a visible status, print it on a line of its own."""
    from tellback.agent.events import RoundStarted, ToolStarted, Waiting

    if isinstance(event, Waiting):
        if status.shown:
            wait, colon, problem = event.text.partition(": ")
            status.show(f"{wait}; Ctrl-C stops{colon}{problem}")
        else:
            print_note(event.text)
    elif isinstance(event, ToolStarted):
        status.show(f"calling {event.call.name}…")
    elif isinstance(event, RoundStarted):
        status.show("thinking…")
