"""A process of our own: ``main`` of one of our modules, run by the interpreter that runs this one."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final

COMMAND_LINE: Final = "tellback.agent.assistant.cli"


def own_command(module: str, *words: str) -> list[str]:
    """Return the command that runs ``main`` of *module* with *words*, in a checkout as where a wheel is installed."""
    return [sys.executable, "-P", "-c", f"from {module} import main; main()", *words]


def own_environment(**variables: str) -> dict[str, str]:
    """Return the environment with *variables*, in which the process finds the modules that this one finds."""
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def start_own_process(module: str, *words: str, folder: Path | None = None, **variables: str) -> None:
    """Start ``main`` of *module* in the background: without a terminal, silent, in *folder*. It outlives this one.

    Raises ``OSError`` where it cannot be started.
    """
    import subprocess  # only our own module is run, by our own interpreter

    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        own_command(module, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=own_environment(**variables),
        cwd=folder,
        start_new_session=True,
    )
    # A process that stays, such as the memory server, must collect its ended child.
    threading.Thread(target=process.wait, name=f"tellback-{module.rpartition('.')[2]}", daemon=True).start()
