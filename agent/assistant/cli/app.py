"""The tree of commands, the global options, and the entry point.

Nothing of the library is imported here: ``--help`` and ``--version`` cost no more than typer does.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from agent.assistant.cli import conflicts, edit, memories, resident, sessions
from agent.assistant.cli.chat import ask, chat
from agent.assistant.cli.citations import show
from agent.assistant.cli.command_context import GlobalOptions, global_options
from agent.assistant.cli.command_groups import Command, Group, RootGroup
from agent.assistant.cli.doctor import config, doctor
from agent.assistant.cli.documents import documents, ingest
from agent.assistant.cli.errors import (
    EXIT_FAILED,
    EXIT_USAGE,
    UsageError,
    discard_stdout,
    report_usage_error,
    with_error_report,
)
from agent.assistant.cli.export_import import export, import_export
from agent.assistant.cli.forget import forget
from agent.assistant.cli.hook import hook, pause, resume
from agent.assistant.cli.mcp import mcp
from agent.assistant.cli.output import print_note
from agent.assistant.cli.recall import evaluate_memory, recall, why_not
from agent.assistant.cli.reembed import reembed
from agent.assistant.cli.remember import remember

_OBJECTS_PER_COLLECTION = 100_000
app = typer.Typer(
    name="tellback",
    cls=RootGroup,
    help="A memory for AI agents that you own: one file on your disk, found again with its source.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
memories_app = typer.Typer(help="Look at what is remembered, and change it.", cls=Group, rich_markup_mode=None)
sessions_app = typer.Typer(help="Look at the conversations that are kept.", cls=Group, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tellback {version('tellback')}")
        raise typer.Exit


@app.callback()
def read_global_options(
    context: typer.Context,
    memory: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The memory file (else TELLBACK_MEMORY, else in the data folder)."),
    ] = None,
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Whose memories; none sees another's.")] = None,
    offline: Annotated[bool | None, typer.Option("--offline", help="Open no connection beyond this machine.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Of a new memory file, which keeps it: de, es, zh, … (else TELLBACK_LANGUAGE, en)."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="What answers (else TELLBACK_MODEL); 'none' answers by quotes.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A memory for AI agents that you own: one file on your disk, found again with its source."""
    flags = {"memory": memory, "namespace": namespace, "offline": offline, "language": language, "model": model}
    context.obj = GlobalOptions(flags=flags, debug=debug, json=json)


def _list_by_default(listing: Callable[..., None], purpose: str) -> Callable[..., None]:
    """Return the callback of a group of commands for *purpose*: without a command it calls *listing*."""

    def callback(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            listing(context, json=global_options(context).json)

    callback.__doc__ = purpose
    return with_error_report(callback)


@with_error_report
def show_help(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Of which command.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All commands, in groups.")] = False,
) -> None:
    """Show help: the first commands, all of them, or one."""
    root = context.find_root()
    if every:
        typer.echo(root.command.all_commands_help(root))  # type: ignore[attr-defined]  # it is a RootGroup
        return
    app(args=[*(command or []), "--help"], prog_name="tellback", standalone_mode=False)


_COMMANDS = (chat, ask, ingest, remember, recall, why_not, edit.correct, forget, edit.undo, documents, show, export)
_COMMAND_NAMES = {why_not: "why-not", import_export: "import", evaluate_memory: "eval", show_help: "help"}
for command in (*_COMMANDS, import_export, mcp, pause, resume, reembed, config, doctor, evaluate_memory, show_help):
    app.command(_COMMAND_NAMES.get(command), cls=Command)(command)
for alias, command in {"list": memories.list_memories, "search": recall}.items():
    app.command(alias, cls=Command, hidden=True)(command)
app.command(cls=Command, hidden=True)(hook)
memories_app.callback(invoke_without_command=True)(
    _list_by_default(memories.list_memories, "Look at what is remembered, and change it; alone, list it.")
)
memories_app.command("list", cls=Command)(memories.list_memories)
for command in (
    memories.show,
    memories.history,
    edit.operations,
    memories.stats,
    memories.namespaces,
    *edit.CHANGES,
    conflicts.conflicts,
    conflicts.settle,
):
    memories_app.command(cls=Command)(command)
app.add_typer(memories_app, name="memories")
sessions_app.callback(invoke_without_command=True)(
    _list_by_default(sessions.list_sessions, "Look at conversations; alone, list them.")
)
sessions_app.command("list", cls=Command)(sessions.list_sessions)
sessions_app.command("show", cls=Command)(sessions.show_session)
app.add_typer(sessions_app, name="sessions")
resident_app = typer.Typer(help="Look at the processes that answer hooks.", cls=Group, rich_markup_mode=None)
for command in (resident.status, resident.stop):
    resident_app.command(cls=Command)(command)
app.add_typer(resident_app, name="resident", hidden=True)


@functools.cache
def _command() -> Callable[..., object]:
    """Return the command of all commands, which takes long to put together; a resident runs it again and again."""
    command: Callable[..., object] = typer.main.get_command(app)
    return command


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; None takes the arguments of the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # no text of a memory may fail for the encoding of a terminal
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _command()(args=arguments, prog_name="tellback", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        if str(error).startswith("Usage:"):
            typer.echo(str(error))  # no command at all: the message is the help
            return EXIT_USAGE
        return report_usage_error(error, getattr(getattr(error, "ctx", None), "command_path", "tellback"))
    except typer.Abort:
        print_note("tellback: nothing was done")
        return EXIT_FAILED
    except BrokenPipeError:
        discard_stdout()
        return 0
    return code if isinstance(code, int) else 0


def main() -> None:
    """Run the command line as a process does.

    Garbage is collected seldom: loading an index makes many objects and no garbage, and looking through all of them
    again and again takes a tenth of a recall. At the end nothing of it is looked through.
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    code = run_command_line()
    gc.freeze()
    sys.exit(code)
