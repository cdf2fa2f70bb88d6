"""Daily backup of a memory, made by a process of its own, which a command starts after it has written.

The check whether a backup is due reads the times of two files. The process has no terminal, runs at low priority and
prints nothing: `tellback doctor` says when the last backup was made, and what is wrong.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.own_process import start_own_process

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings

_SECONDS_BETWEEN_LOOKS: Final = 600.0
_MODULE: Final = "tellback.agent.assistant.backup_process"


def start_if_due(settings: AssistantSettings) -> bool:
    """Start the process that makes today's backup if one is wanted and due; return whether it was started."""
    if not settings.automatic_backups or settings.file is None:
        return False
    from tellback.memory.internals import is_backup_due, was_tried

    memory = settings.file.absolute()
    try:
        if not memory.is_file() or memory.stat().st_size > settings.backup_space * 1_000_000:
            return False
        if not is_backup_due(memory, datetime.now().astimezone()) or was_tried(memory, within=_SECONDS_BETWEEN_LOOKS):
            return False
        start_own_process(_MODULE, str(memory), str(settings.backup_space), folder=memory.parent)
    except OSError:  # the command itself has succeeded, and must not fail for its backup
        return False
    return True


def main() -> None:
    """Make the backup that the arguments name: the memory file, and megabytes that all backups may take."""
    from tellback.memory.internals import make_daily_backup

    if hasattr(os, "nice"):
        os.nice(10)
    memory, megabytes = Path(sys.argv[1]), int(sys.argv[2])
    with suppress(Exception):  # no terminal: doctor reports the failure
        make_daily_backup(memory, now=datetime.now().astimezone(), max_bytes=megabytes * 1_000_000)
