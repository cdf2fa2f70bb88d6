"""The command line: a thin client of the library. Each command's module imports what it needs when it runs."""

from agent.assistant.cli.app import main

__all__ = ["main"]
