"""Pool of open memories: each file is open once, for all commands that ask for it with the same settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.wiring import OpenedMemory, open_configured_memory
from tellback.memory import run_sync
from tellback.vectorstore.sqlite import SqliteDatabase

MOST_OPEN: Final = 4
"""Most memories that stay open; beyond that, the least recently used is closed."""


@dataclass(slots=True, eq=False)
class _PooledMemory:
    """Memory of *settings* with the opened *file* (device and inode) and the number of commands that use it."""

    settings: AssistantSettings
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: OpenedMemory | None = None
    file: tuple[int, int] | None = None
    users: int = 0
    namespaces: set[str] = field(default_factory=set)
    used_at: float = 0.0


class MemoryPool:
    """Lends open memories to commands; any thread may call. The namespace is that of the command's settings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pooled: list[_PooledMemory] = []
        self._dropped: list[_PooledMemory] = []

    @contextmanager
    def lend(self, settings: AssistantSettings, create: bool) -> Iterator[OpenedMemory]:
        """Yield the memory of *settings*, opening it if needed; a file that was replaced is opened again."""
        pooled = self._taken(_opening(settings))
        try:
            with pooled.lock:
                if pooled.opened is None:
                    pooled.opened = open_configured_memory(pooled.settings, create=create)
                    pooled.file = _file_of(settings)
                opened = pooled.opened
                pooled.namespaces.add(settings.namespace)
            yield replace(opened, settings=settings)
        finally:
            self._return(pooled)

    def lend_always(self, opened: OpenedMemory) -> None:
        """Lend *opened*, too, which whoever opened it closes after the last command."""
        settings = _opening(opened.settings)
        own = _PooledMemory(settings, opened=opened, file=_file_of(settings), users=1)
        own.namespaces.add(opened.namespace)
        with self._lock:
            self._pooled.append(own)

    def open_paths(self) -> list[str]:
        """Return the files that are open."""
        with self._lock:
            return [str(pooled.settings.shown_memory) for pooled in self._pooled if pooled.opened is not None]

    def open_settings(self) -> list[AssistantSettings]:
        """Return the settings of the memories that are open, once for each namespace that they were lent for."""
        with self._lock:
            return [
                replace(pooled.settings, namespace=namespace)
                for pooled in self._pooled
                if pooled.opened is not None
                for namespace in sorted(pooled.namespaces)
            ]

    def empty_logs(self) -> None:
        """Checkpoint the open files that nobody uses, so that each may be copied or moved without its log."""
        with self._lock:
            unused = [pooled for pooled in self._pooled if not pooled.users and pooled.settings.remote_memory is None]
        for memory in [pooled.opened for pooled in unused if pooled.opened]:
            database = memory.memory.database
            if not isinstance(database, SqliteDatabase) or database.read_only:
                continue
            log = database.path.with_name(database.path.name + "-wal")
            if log.exists() and log.stat().st_size:
                database.empty_log()

    def release(self, *, unused_for: float = 0.0) -> int:
        """Close the memories that were *unused_for* so many seconds; return how many."""
        before = time.monotonic() - unused_for
        with self._lock:
            for pooled in [*self._pooled]:
                if not pooled.users and pooled.used_at <= before:
                    self._drop(pooled)
        return self._close_dropped()

    def _taken(self, settings: AssistantSettings) -> _PooledMemory:
        with self._lock:
            pooled = next((kept for kept in self._pooled if kept.settings == settings), None)
            if pooled is not None and pooled.opened is not None and pooled.file != _file_of(settings):
                self._drop(pooled)
                pooled = None
            if pooled is None:
                pooled = _PooledMemory(settings)
                self._pooled.append(pooled)
            pooled.users += 1
            return pooled

    def _return(self, pooled: _PooledMemory) -> None:
        with self._lock:
            pooled.users -= 1
            pooled.used_at = time.monotonic()
            unused = sorted((kept for kept in self._pooled if not kept.users), key=lambda kept: kept.used_at)
            for kept in unused[: max(len(self._pooled) - MOST_OPEN, 0)]:
                self._drop(kept)
        self._close_dropped()

    def _drop(self, pooled: _PooledMemory) -> None:
        """Stop lending *pooled*; it is closed when nobody uses it. The caller holds the lock."""
        self._pooled.remove(pooled)
        self._dropped.append(pooled)

    def _close_dropped(self) -> int:
        with self._lock:
            closing = [pooled for pooled in self._dropped if not pooled.users]
            self._dropped = [pooled for pooled in self._dropped if pooled.users]
        opened = [pooled.opened for pooled in closing if pooled.opened is not None]
        for memory in opened:
            run_sync(memory.close())
        return len(opened)


def _opening(settings: AssistantSettings) -> AssistantSettings:
    """Return what of *settings* says how a memory is opened: commands with the same are lent the same one."""
    token = None if settings.remote_memory is None else settings.token
    memory = settings.memory if settings.file is None else Path.cwd() / settings.file
    return replace(settings, namespace="", token=token, memory=memory)


def _file_of(settings: AssistantSettings) -> tuple[int, int] | None:
    if settings.file is None:
        return None
    try:
        status = settings.file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
