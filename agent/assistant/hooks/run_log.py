"""Log of hooks, and the switch that pauses them: files in the state folder of the platform, for the user alone.

Each run is a line: time, event, outcome, seconds. The log has no words of a conversation. It is bounded: above 64 kB
only the newest 100 lines of a client's log stay.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import platformdirs

from tellback.agent.assistant.hooks.hook_call import HookCall

_MAX_BYTES: Final = 64_000
_KEPT_LINES: Final = 100
_ERROR_CHARACTERS: Final = 200
_CLIENT_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """Run of a hook: its time (*at*, ISO form), *event*, *outcome* and *seconds*, the numbers of memories *shown* and
    messages *kept*; of a failure the *error*, without words of a conversation."""

    at: str
    event: str
    outcome: Literal["done", "failed", "paused"]
    seconds: float = 0.0
    shown: int = 0
    kept: int = 0
    error: str = ""

    @classmethod
    def failed(cls, call: HookCall, error: BaseException, seconds: float) -> HookRun:
        """Return the run of a *call* that failed with *error*."""
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_ERROR_CHARACTERS]
        return cls(at=call.received.isoformat(), event=call.event, outcome="failed", seconds=seconds, error=text)


def state_folder() -> Path:
    """Return the folder of the log and the switch."""
    return platformdirs.user_state_path("tellback") / "hooks"


def log_run(client: str, run: HookRun) -> None:
    """Add *run* to the log of *client*; errors of writing it are ignored."""
    try:
        path = _log_path(client)
        _make_private_folder(path.parent)
        line = json.dumps(asdict(run)) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())  # one write: the lines of two processes do not mix
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > _MAX_BYTES:
            _write_private(path, "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[-_KEPT_LINES:]))
    except OSError:
        return


def read_runs(client: str) -> Sequence[HookRun]:
    """Return the runs in the log of *client*, oldest first."""
    try:
        lines = _log_path(client).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    runs = []
    for line in lines:
        try:
            runs.append(HookRun(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return runs


def paused_since() -> datetime | None:
    """Return the time since which hooks are paused; None where they are not."""
    try:
        return datetime.fromtimestamp(_pause_path().stat().st_mtime, UTC)
    except OSError:
        return None


def pause() -> None:
    """Pause all hooks: they add nothing and keep nothing."""
    _make_private_folder(_pause_path().parent)
    _pause_path().touch(mode=0o600)


def resume() -> bool:
    """Resume the hooks; return whether they were paused."""
    was_paused = paused_since() is not None
    _pause_path().unlink(missing_ok=True)
    return was_paused


def _pause_path() -> Path:
    return state_folder() / "paused"


def _log_path(client: str) -> Path:
    return state_folder() / f"{client if _CLIENT_NAME.fullmatch(client) else 'unknown'}.jsonl"


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _write_private(path: Path, text: str) -> None:
    """Replace the file *path* by one that holds *text*, as a whole."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
