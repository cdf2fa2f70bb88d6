"""The command line: a thin client of the library. Each command's module imports what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process.

    The garbage collector runs rarely: imports and a loaded index make many objects and no garbage, and scanning them
    repeatedly takes a tenth of a recall.
    """
    import gc
    import os
    import sys

    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    # Typer imports pydantic, which reads the metadata of all installed distributions to find plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    if not sys.argv[1:] and "_TELLBACK_COMPLETE" not in os.environ:
        from tellback.agent.assistant.cli.greeting import run_greeting

        sys.exit(run_greeting())
    from tellback.agent.assistant.cli.plain_recall import run_plain_recall

    code = run_plain_recall(sys.argv[1:])
    if code is not None:
        os._exit(code)  # everything is closed and written; an orderly exit takes a twentieth of the command's time
    from tellback.agent.assistant.cli.app import run_command_line

    code = run_command_line()
    gc.freeze()  # spares the collection at exit
    sys.exit(code)


_OBJECTS_PER_COLLECTION = 1_000_000

__all__ = ["main"]
