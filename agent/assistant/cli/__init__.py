"""The command line: a thin client of the library. Each command's module imports what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command line as a process does.

    Garbage is collected seldom: imports and loading an index make many objects and no garbage, and looking through all
    of them again and again takes a tenth of a recall.
    """
    import gc
    import os
    import sys

    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    if not sys.argv[1:] and "_TELLBACK_COMPLETE" not in os.environ:
        from agent.assistant.cli.greeting import run_greeting

        sys.exit(run_greeting())
    from agent.assistant.cli.plain_recall import run_plain_recall

    code = run_plain_recall(sys.argv[1:])
    if code is not None:
        os._exit(code)  # all is closed and written: to take the process apart would take a twentieth of its time
    from agent.assistant.cli.app import run_command_line

    code = run_command_line()
    gc.freeze()  # nothing of it is looked through at the end
    sys.exit(code)


_OBJECTS_PER_COLLECTION = 1_000_000

__all__ = ["main"]
