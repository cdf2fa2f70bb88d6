"""Lines written in the background: a process of its own gives the memories without one a line that says what they are
about, with the writer that the settings name.

Whoever has written into a memory starts it: a hook, an import, a command, a server. It runs at low priority and prints
nothing. A record in the state folder (per memory and namespace; counts and times, never words) bounds it: one start in
ten minutes, an hour after a failure, and the tokens of a day where the writer is elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.own_process import start_own_process

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings

SECONDS_BETWEEN_STARTS: Final = 600.0
SECONDS_AFTER_FAILURE: Final = 3600.0
_MODULE: Final = "tellback.agent.assistant.line_process"


@dataclass(frozen=True, slots=True)
class LineRecord:
    """Record of the background's lines: when it was last *started*, and *ended* with nothing more to do.

    *tokens* are those that were taken on *day*. *failure* is the problem that the last run ended with, "" for none.
    """

    started: float = 0.0
    ended: float = 0.0
    day: str = ""
    tokens: int = 0
    failure: str = ""

    @classmethod
    def of(cls, settings: AssistantSettings) -> LineRecord:
        """Return the record of the memory and namespace of *settings*, with the tokens of today."""
        try:
            kept = cls(**json.loads(_path(settings).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            kept = cls()
        today = datetime.now().astimezone().date().isoformat()
        return kept if kept.day == today else replace(kept, day=today, tokens=0)

    def keep(self, settings: AssistantSettings) -> None:
        """Write the record, whole or not at all."""
        path = _path(settings)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(path)


def allowed_tokens(settings: AssistantSettings) -> int | None:
    """Return how many tokens the background may still take today; None: as many as it needs, on this machine."""
    from tellback.memory.internals import is_loopback

    if not settings.line_client and is_loopback(settings.model_endpoint.url):
        return None
    return max(settings.line_tokens - LineRecord.of(settings).tokens, 0)


def note_tokens(settings: AssistantSettings, tokens: int) -> None:
    """Count *tokens* as taken today."""
    record = LineRecord.of(settings)
    replace(record, tokens=record.tokens + tokens).keep(settings)


def start_lines_if_due(settings: AssistantSettings) -> bool:
    """Start the process that writes missing lines if one is wanted and due; return whether it was started."""
    if settings.lines == "off" or (settings.model is None and not settings.line_client):
        return False
    from tellback.agent.assistant.wiring import writes_lines

    try:
        if not (settings.line_client and not settings.offline) and not writes_lines(settings):
            return False
        record, now = LineRecord.of(settings), time.time()
        wait = SECONDS_AFTER_FAILURE if record.failure else SECONDS_BETWEEN_STARTS
        if now - record.started < wait or _written_at(settings.file) <= record.ended:
            return False
        if allowed_tokens(settings) == 0:
            return False
        replace(record, started=now).keep(settings)
        folder = None if settings.file is None else settings.file.absolute().parent
        start_own_process(_MODULE, folder=folder, **_variables(settings), OPENBLAS_NUM_THREADS="1")
    except OSError:  # what started it has succeeded, and must not fail for lines
        return False
    return True


async def write_lines(settings: AssistantSettings) -> None:
    """Write the missing lines of the memory of *settings* within its allowance, and record what came of it."""
    from tellback.agent.assistant.wiring import make_http_client, make_line_writer, open_configured_memory
    from tellback.agent.context.line_writer import LineProgress

    opened = open_configured_memory(settings, create=False)
    client, progress, failure = make_http_client(settings), LineProgress(), ""
    try:
        writer = make_line_writer(settings, client)
        allowed = allowed_tokens(settings)
        async for step in writer.write(opened.memory, namespace=settings.namespace, most_tokens=allowed):
            note_tokens(settings, step.tokens - progress.tokens)
            progress = step
    except Exception as error:  # no terminal: doctor reports the failure, by its kind alone
        failure = type(error).__name__
    finally:
        await client.aclose()
        await opened.close()
    finished = not (failure or progress.stopped)
    record = LineRecord.of(settings)
    replace(record, failure=failure, ended=time.time() if finished else record.ended).keep(settings)


def main() -> None:
    """Write the missing lines of the memory that the environment names, unless another process does."""
    import logging

    from tellback.agent.assistant.config import load_configuration
    from tellback.memory import run_sync
    from tellback.memory.internals import try_lock

    if hasattr(os, "nice"):
        os.nice(10)
    logging.getLogger().addHandler(logging.NullHandler())
    with suppress(Exception):  # no terminal, and a failure of the model is in the record
        settings = load_configuration(flags={}, environ=os.environ).settings
        path = _path(settings).with_suffix(".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        if try_lock(descriptor):
            run_sync(write_lines(settings))


def _path(settings: AssistantSettings) -> Path:
    import platformdirs

    name = f"{_place(settings)}\0{settings.namespace}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(name, digest_size=8).hexdigest()
    return platformdirs.user_state_path("tellback") / "lines" / f"{digest}.json"


def _place(settings: AssistantSettings) -> str:
    return str(settings.memory if settings.file is None else settings.file.absolute())


def _written_at(memory: Path | None) -> float:
    """Return when the file *memory* was last written, 0 where it is not there; a server's may be at any time."""
    if memory is None:
        return time.time()
    times = [0.0]
    for path in (memory, memory.with_name(memory.name + "-wal")):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _variables(settings: AssistantSettings) -> Mapping[str, str]:
    """Return *settings* as variables of the environment; keys of models are for no client's command."""
    from tellback.agent.assistant.config import ENVIRONMENT_VARIABLES, AssistantSettings
    from tellback.agent.assistant.setting_checks import Secret

    usual, variables = AssistantSettings(), dict[str, str]()
    for name, variable in ENVIRONMENT_VARIABLES.items():
        value = getattr(settings, name)
        if isinstance(value, Secret):
            if not settings.line_client or variable.startswith("TELLBACK_"):
                variables[variable] = value.reveal()
        elif value != getattr(usual, name):
            variables[variable] = str(value)
    return {**variables, "TELLBACK_MEMORY": _place(settings)}
