"""Errors of commands: one line and an exit code for each; the traceback only with ``--debug``.

0  done                          3  the memory file cannot be used
1  an unexpected failure         4  a model, embedder or network failed
2  wrong usage or bad input      5  done in part (some documents or messages could not be read)
                               130  interrupted
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from tellback.agent.assistant.cli.command_context import global_options
from tellback.agent.assistant.cli.output import one_line, print_note

EXIT_FAILED, EXIT_USAGE, EXIT_FILE, EXIT_ENDPOINT, EXIT_PARTIAL, EXIT_INTERRUPTED = 1, 2, 3, 4, 5, 130

if TYPE_CHECKING:
    from tellback.vectorstore import Finding

_HINTS: Final = {
    "NoSuchMemory": "; `tellback memories` lists what there is",
    "EmbedderMismatch": " (`tellback reembed`)",
}
"""Sentences that the command line adds to errors of the memory, whose texts know no command."""

# Typer keeps the base of its usage errors in a private module, which changes from version to version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@contextmanager
def error_report(context: typer.Context) -> Iterator[None]:
    """Turn an exception of the command of *context* into one line on standard error and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BrokenPipeError:
        discard_stdout()
        raise typer.Exit(0) from None
    except UsageError as error:
        raise typer.Exit(report_usage_error(error, context.command_path)) from None
    except (Exception, KeyboardInterrupt) as error:  # the border: whatever it is, the user gets a line and a code
        if global_options(context).debug:
            raise
        raise typer.Exit(report_error(error)) from None


def report_error(error: BaseException) -> int:
    """Print in one line what went wrong; return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print_note("\ntellback: interrupted")
        return EXIT_INTERRUPTED
    code, line = describe_error(error)
    print_note(f"tellback: {line}")
    return code


def discard_stdout() -> None:
    """Discard further output after the reader of a pipe has left, also that of the interpreter's exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_usage_error(error: Exception, command: str) -> int:
    """Print in one line what is wrong with the arguments of *command*; return the exit code."""
    message = str(error.format_message() if hasattr(error, "format_message") else error)
    message = one_line(message.replace("Invalid value for ", "", 1).replace("Value error, ", "", 1)).rstrip(".")
    context = getattr(error, "ctx", None)
    parameters = () if context is None else context.command.params
    texts = [parameter.name for parameter in parameters if parameter.name in ("text", "question")]
    if message.startswith("Missing argument 'ID"):
        message += "; a number is typed as 2 or quoted, '#2'"
    name = (getattr(error, "option_name", "") or "").lstrip("-")
    if context is not None and name in context.find_root().command.commands:
        message += f"; `tellback {name}` is a command"
    is_option = getattr(error, "option_name", None) is not None
    hint = f"put quotes round the {texts[0]}, or see" if texts and is_option else "see"
    print_note(f"tellback: {message} ({hint} {command} --help)")
    return EXIT_USAGE


def exit_if_damaged(damaged: Sequence[Finding]) -> None:
    """Print how many messages were passed over, if any were, and exit with ``EXIT_PARTIAL``."""
    if damaged:
        passed = "1 damaged message was" if len(damaged) == 1 else f"{len(damaged)} damaged messages were"
        print_note(f"tellback: {passed} passed over: {', '.join(finding.subject for finding in damaged)}")
        print_note("     -> `tellback doctor` names all damage, `tellback doctor --salvage NEW` saves the rest")
        raise typer.Exit(EXIT_PARTIAL)


def describe_error(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the line for *error*."""
    import tellback.agent.errors as agent_errors
    import tellback.memory.http
    from tellback import vectorstore
    from tellback.agent.assistant.config import ConfigurationError

    if isinstance(error, agent_errors.MemoryUnavailable) and error.__cause__ is not None:
        return describe_error(error.__cause__)
    kinds: dict[int, tuple[type[Exception], ...]] = {
        EXIT_USAGE: (
            ConfigurationError,
            tellback.memory.CannotUndo,
            tellback.memory.DuplicateKey,
            tellback.memory.EmbedderMismatch,
            tellback.memory.LoadError,
            tellback.memory.NoSuchMemory,
            tellback.memory.RejectedText,
            tellback.memory.UnreadableExport,
            vectorstore.ArgumentError,
            vectorstore.MissingExtra,
        ),
        EXIT_ENDPOINT: (tellback.memory.http.HttpError, tellback.memory.EmbedderError, agent_errors.ProviderError),
        EXIT_FILE: (vectorstore.VectorStoreError,),
        EXIT_FAILED: (tellback.memory.MemoryLayerError, agent_errors.AgentError),
    }
    line = one_line(str(error)) or type(error).__name__
    line += next((hint for kind, hint in _HINTS.items() if isinstance(error, getattr(tellback.memory, kind))), "")
    for code, errors in kinds.items():
        if isinstance(error, errors):
            return code, line
    return EXIT_FAILED, f"unexpected {type(error).__name__}: {line} (tellback --debug shows where)"
