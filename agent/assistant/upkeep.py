"""Upkeep of a memory by processes of their own: the daily backup, and lines that say what memories are about."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.backup_process import start_if_due
from tellback.agent.assistant.line_process import start_lines_if_due

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings

_SECONDS_BETWEEN_LOOKS: Final = 600.0


def start_upkeep(settings: AssistantSettings) -> None:
    """Start what is due for the memory of *settings*: a command that has written calls it at its end."""
    start_if_due(settings)
    start_lines_if_due(settings)


class UpkeepWatch:
    """Starts what is due every ten minutes, in a process that stays; ``stop`` ends it, with a last look."""

    def __init__(self, settings: AssistantSettings) -> None:
        self._settings = settings
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="tellback-upkeep", daemon=True).start()

    def stop(self) -> None:
        """End the looks; start what is due now."""
        self._ended.set()
        start_upkeep(self._settings)

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            start_upkeep(self._settings)
