"""Host of a command that runs in the resident for another process.

It has that process's environment, folder, screen and standard streams, and lends a memory that is open already. A
command that runs in a process of its own has no host.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.agent.assistant.wiring import OpenedMemory


class CapturedStream(io.TextIOWrapper):
    """Standard stream of another process, held in memory."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False) -> None:
        self.bytes = io.BytesIO(data)
        self._terminal = terminal
        super().__init__(self.bytes, encoding="utf-8", errors="backslashreplace", write_through=True)

    def isatty(self) -> bool:
        """Return whether the stream of the other process is a terminal."""
        return self._terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Process for which a command runs, as its request describes it; *open_memory* lends a memory that is open.

    *environ* are the variables of settings and screen, *terminal* is the name of its terminal, *columns* is the width
    of its screen. *in_chat*: the command was typed in a chat, so hints name commands with a slash.
    """

    environ: Mapping[str, str]
    folder: str
    open_memory: Callable[[AssistantSettings, bool], AbstractContextManager[OpenedMemory]]
    terminal: str | None = None
    columns: int = 80
    in_chat: bool = False
    stdin: CapturedStream = field(default_factory=CapturedStream)
    stdout: CapturedStream = field(default_factory=CapturedStream)
    stderr: CapturedStream = field(default_factory=CapturedStream)


_HOST: ContextVar[Host | None] = ContextVar("host", default=None)


def current_host() -> Host | None:
    """Return the host of the command that runs here; None in a process of its own."""
    return _HOST.get()


@contextmanager
def hosted(host: Host) -> Iterator[None]:
    """Run the block for *host*; other threads and tasks have hosts of their own."""
    token = _HOST.set(host)
    try:
        yield
    finally:
        _HOST.reset(token)


def current_environment() -> Mapping[str, str]:
    """Return the environment of the process for which the command runs."""
    host = _HOST.get()
    return os.environ if host is None else host.environ


def current_folder() -> str:
    """Return the working directory of the process for which the command runs."""
    host = _HOST.get()
    return os.getcwd() if host is None else host.folder


class _RoutedStream:
    """Standard stream that is the host's while a command runs for one, and the process's own otherwise.

    It allows no weak references: click would cache by one, and mix up the streams of hosts.
    """

    __slots__ = ("_name", "_own")

    def __init__(self, name: str) -> None:
        self._name, self._own = name, getattr(sys, name)

    def __getattr__(self, name: str) -> Any:
        host = _HOST.get()
        return getattr(self._own if host is None else getattr(host, self._name), name)


def route_standard_streams() -> None:
    """Replace the standard streams: commands that run for a host use the host's."""
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, _RoutedStream(name))
