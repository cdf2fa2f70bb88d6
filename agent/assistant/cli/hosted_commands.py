"""Commands that run in the resident for other processes, on memories that stay open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tellback.agent.assistant.backup_process import start_if_due
from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import CONFIG_VARIABLE, AssistantSettings
from tellback.agent.assistant.resident import wire
from tellback.agent.assistant.resident.host import CapturedStream, Host, hosted
from tellback.agent.assistant.resident.memory_pool import MemoryPool
from tellback.agent.assistant.resident.server import CommandOutput, resident_bytes
from tellback.agent.assistant.wiring import OpenedMemory

_QUIET: Final = 0.2
"""Seconds after a request in which the next one often comes."""
_RELEASE_AFTER: Final = 300.0
_KEPT_BYTES: Final = 300_000_000
"""Size of the process above which it closes the memories that were not used for five minutes."""


class HostedCommands:
    """Runs commands as their own processes would; any thread may call. *idle* is from the last command's settings."""

    def __init__(self) -> None:
        self._pool = MemoryPool()
        self.idle = float(AssistantSettings.resident_idle)

    def run(self, request: Mapping[str, Any], data: bytes) -> CommandOutput | None:
        """Return the outcome of the command of *request*, with *data* as its standard input.

        None sends the command back to its own process: one with another home, zone or installation than this
        resident's, and every command that fails.
        """
        if request["identity"] != wire.identity(os.environ):
            return None
        folder, environ = request["folder"], dict(request["environment"])
        if CONFIG_VARIABLE in environ:
            environ[CONFIG_VARIABLE] = str(Path(folder, environ[CONFIG_VARIABLE]))
        output, notes = request["terminals"]
        host = Host(
            environ=environ,
            folder=folder,
            open_memory=self._open_memory,
            terminal=request["terminal"],
            columns=request["columns"],
            stdin=CapturedStream(data),
            stdout=CapturedStream(terminal=output),
            stderr=CapturedStream(terminal=notes),
        )
        with hosted(host):
            code = run_command_line(request["arguments"])
        return None if code else CommandOutput(host.stdout.bytes.getvalue(), host.stderr.bytes.getvalue())

    def open_paths(self) -> list[str]:
        """Return the memory files that are open."""
        return self._pool.open_paths()

    def pause(self, seconds: float) -> int:
        """Empty the logs of open files, start due backups, and close unused memories; return how many were closed.

        *seconds* is the time since the last request.
        """
        if seconds > _QUIET:
            self._pool.empty_logs()
            for settings in self._pool.open_settings():
                start_if_due(settings)
        keeps_all = seconds <= _RELEASE_AFTER or resident_bytes() <= _KEPT_BYTES
        return 0 if keeps_all else self._pool.release(unused_for=_RELEASE_AFTER)

    def close(self) -> None:
        """Release all memories that no command uses."""
        self._pool.release()

    @contextmanager
    def _open_memory(self, settings: AssistantSettings, create: bool) -> Iterator[OpenedMemory]:
        self.idle = float(settings.resident_idle)
        with self._pool.lend(settings, create) as opened:
            yield opened
