"""Waiting status: a line on the terminal that says what is waited for, until the first word of an answer.

It is written to standard error, and only where that is a terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agent.assistant.cli.output import one_line

if TYPE_CHECKING:
    from rich.status import Status

    from agent.events import Event


class WaitingStatus:
    """Line with a spinner; *shown* False shows nothing. ``show`` may be called again after ``clear``."""

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show *text*, in the place of what is shown."""
        if not self._shown:
            return
        from rich.text import Text

        line = Text(one_line(text), style="dim", no_wrap=True, overflow="ellipsis")
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status(line)
            self._status.start()
        else:
            self._status.update(line)

    def clear(self) -> None:
        """Take the line off the terminal; before anything else is printed."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def show_wait(event: Event, status: WaitingStatus) -> None:
    """Show in *status* what *event* says is waited for; other events change nothing."""
    from agent.events import RoundStarted, ToolStarted

    if isinstance(event, ToolStarted):
        status.show(f"calling {event.call.name}…")
    elif isinstance(event, RoundStarted):
        status.show("thinking…")
