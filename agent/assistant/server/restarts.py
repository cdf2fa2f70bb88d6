"""Restarts of what a process serves: it ends, something is done while nothing is open, and it serves again.

So a backup is put back, and changed settings hold, while the port stays open: who asks meanwhile waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tellback.agent.assistant.config import Configuration
from tellback.agent.errors import AgentError
from tellback.memory import MemoryLayerError
from tellback.memory.internals import restore_memory
from tellback.vectorstore import VectorStoreError

_FAILURES: Final = (AgentError, MemoryLayerError, VectorStoreError, OSError)


class Restarts:
    """Restarts of a server with the *configuration*; *configure* reads it anew.

    What the last one has come to is its *outcome* for people, which *failed*, or not.
    """

    def __init__(self, configuration: Configuration, configure: Callable[[], Configuration]) -> None:
        self.configuration = configuration
        self.outcome, self.failed = "", False
        self._configure = configure
        self._end: Callable[[], object] = lambda: None
        self._work: Callable[[], str] | None = None

    def serves(self, end: Callable[[], object]) -> None:
        """Note that the server serves, and that *end* ends it."""
        self._end = end

    def restore(self, backup: Path) -> None:
        """End the server, put *backup* in the place of its memory, and serve that."""
        path = self.configuration.settings.file
        assert path is not None, "a memory on a server has no backups here"
        self._work = partial(_restored, backup, path.absolute())
        self._end()

    def take_settings(self, sentence: str) -> None:
        """End the server, and serve by the settings as they are written now; *sentence* says what was done."""
        self._work = lambda: sentence
        self._end()

    def perform(self) -> bool:
        """Do what was asked for; return whether to serve again. What fails leaves everything as it was."""
        if self._work is None:
            return False
        work, self._work = self._work, None
        try:
            self.outcome, self.failed = work(), False
            self.configuration = self._configure()
        except _FAILURES as error:
            self.outcome, self.failed = str(error), True
        return True


def _restored(backup: Path, path: Path) -> str:
    report = restore_memory(backup, path)
    kept = f" The memory that was there is in {report.kept}." if report.kept is not None else ""
    return f"The backup {backup.name} is put back: {report.entries:,} memories and passages.{kept}"
