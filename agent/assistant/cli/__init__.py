"""The command line: a thin client of the library. Each command's module imports what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command line as a process does."""
    from agent.assistant.cli.app import main as run

    run()


__all__ = ["main"]
