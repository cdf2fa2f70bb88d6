"""Launcher of the command ``tellback``; in the installed package it is ``tellback.__main__``, too."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> None:
    """Run the command line; a hook goes to the resident server before anything else is imported."""
    _open_closed_streams()
    from tellback.agent.assistant.resident.client import hook_parts

    if hook_parts(sys.argv[1:]) is not None:
        _run_hook()
    from tellback.agent.assistant.cli import main as run

    run()


def _run_hook() -> NoReturn:
    """Run a hook and end the process with exit code 0: clients take 2 for a veto, and show the user any other code."""
    from tellback.agent.assistant.resident.client import answer_hook

    try:
        if not answer_hook(sys.argv[1:], os.environ):
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


if __name__ == "__main__":
    main()
