"""Launcher of the command ``tellback``, installed as the module ``tellback`` beside the packages.

A program's own ``agent.py`` or another distribution's package of that name can come first on Python's path. Then no
code inside the packages would run that could say so.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> None:
    """Run the command line, or print in one line that Python is too old, or which module shadows ours.

    A command that a resident process may answer goes there first, before anything else is imported.
    """
    _open_closed_streams()
    try:
        from tellback.agent.assistant.resident.client import command_name, run_by_resident

        if command_name(sys.argv[1:]) == "hook":
            _run_hook()
        if run_by_resident(sys.argv[1:], os.environ):
            os._exit(0)  # nothing is left to clean up, and an orderly exit takes a tenth of a hook's time
        from tellback.agent.assistant.cli import main as run
    except ImportError as error:
        expected = ("Python finds ", "Tellback needs ")
        problem = _foreign_agent() or (str(error) if str(error).startswith(expected) else "")
        if not problem:
            raise
        print(f"tellback: {problem}", file=sys.stderr)
        sys.exit(1)
    run()


def _run_hook() -> NoReturn:
    """Run a hook and end the process with exit code 0: clients take 2 for a veto, and show the user any other code."""
    from tellback.agent.assistant.resident.client import run_by_resident

    try:
        if not run_by_resident(sys.argv[1:], os.environ):
            from tellback.agent.assistant.cli import main as run

            run()
    except BaseException:  # noqa: S110 - the hook itself logs its failures; `tellback --debug hook` shows others
        pass
    os._exit(0)  # without the flush at exit, which fails on a full or closed output


def _open_closed_streams() -> None:
    """Open the null device as each standard stream that is closed, lest a file that is opened next takes its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _foreign_agent() -> str:
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("agent")
    origin = Path(spec.origin) if spec is not None and spec.origin is not None else None
    if origin is None or (origin.parent / "assistant" / "cli" / "__init__.py").exists():
        return ""
    return (
        f"Python finds {origin} in the place of Tellback's package 'agent': "
        "rename it, or run the command where it is not on the path"
    )


if __name__ == "__main__":
    main()
