"""The tree of commands and the global options.

Nothing of the library is imported here: ``--help`` and ``--version`` cost no more than typer does. The commands are
named in ``command_groups``, and each is loaded when it is asked for.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import GlobalOptions, global_options
from tellback.agent.assistant.cli.command_groups import ALL_COMMANDS, Group, ListingGroup, RootGroup, load_command
from tellback.agent.assistant.cli.errors import (
    EXIT_FAILED,
    EXIT_USAGE,
    UsageError,
    discard_stdout,
    error_report,
    report_usage_error,
)
from tellback.agent.assistant.cli.output import escape_unencodable, print_note
from tellback.agent.assistant.local_time import load_zone_by

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

app = typer.Typer(
    name="tellback",
    cls=RootGroup,
    help="A memory for AI agents that you own: one file on your disk, found again with its source.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
memories_app = typer.Typer(name="memories", cls=Group, rich_markup_mode=None)
people_app = typer.Typer(name="memories people", cls=Group, rich_markup_mode=None)
documents_app = typer.Typer(
    name="documents",
    help="List what was ingested; forget what came from a folder.",
    cls=ListingGroup,
    rich_markup_mode=None,
)
sessions_app = typer.Typer(name="sessions", cls=Group, rich_markup_mode=None)
config_app = typer.Typer(name="config", cls=Group, rich_markup_mode=None)
users_app = typer.Typer(name="config users", cls=Group, rich_markup_mode=None)
hooks_app = typer.Typer(
    name="hooks", help="Have the hooks in all clients pause, or go on.", cls=Group, hidden=True, rich_markup_mode=None
)
index_app = typer.Typer(
    name="index", help="Indexes on a server, for large namespaces.", cls=Group, hidden=True, rich_markup_mode=None
)
resident_app = typer.Typer(
    name="resident", help="Look at the processes that answer hooks.", cls=Group, hidden=True, rich_markup_mode=None
)


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
        typer.Option(
            metavar="PATH",
            help="The memory: a file, or postgresql://HOST/NAME (else TELLBACK_MEMORY, else in the data folder).",
        ),
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
    lent = context.obj.lent if isinstance(context.obj, GlobalOptions) else None
    context.obj = GlobalOptions(flags=flags, debug=debug, json=json, lent=lent)
    load_zone_by(context.obj.configuration)
    if context.invoked_subcommand is None:
        _greet(context)


def _greet(context: typer.Context) -> None:
    from tellback.agent.assistant.cli.greeting import greet

    with error_report(context):
        greet(global_options(context))


def _list_by_default(group: typer.Typer, listing: str, purpose: str) -> None:
    """Make the *group*, whose help is *purpose*, run the command *listing* where no command is given."""

    def callback(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            with error_report(context):
                load_command(listing)(context, json=global_options(context).json)

    callback.__doc__ = purpose
    group.callback(invoke_without_command=True)(callback)


def show_help(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Of which command.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All commands, in groups.")] = False,
) -> None:
    """Show help: the first commands, all of them, or one."""
    root = context.find_root()
    if every:
        root.meta[ALL_COMMANDS] = True
        typer.echo(root.get_help())
        return
    app(args=[*(command or []), "--help"], prog_name="tellback", standalone_mode=False)


_list_by_default(memories_app, "memories:list_memories", "Look at what is remembered, and change it; alone, list it.")
_list_by_default(people_app, "people:list_people", "See who is who, say it, and take it back; alone, list them.")
_list_by_default(sessions_app, "sessions:list_sessions", "Look at conversations; alone, list them.")
_list_by_default(users_app, "users:list_users", "See and change who uses the memory by a server; alone, list them.")
_list_by_default(config_app, "config:list_settings", "Look at settings, and change them; alone, show all.")


@functools.cache
def _command() -> Callable[..., object]:
    """Return the root command; it is slow to build, and a chat runs it many times."""
    command: Callable[..., object] = typer.main.get_command(app)
    return command


def run_command_line(arguments: Sequence[str] | None = None, *, lent: OpenedMemory | None = None) -> int:
    """Run the command line and return its exit code; None takes the arguments of the process.

    *lent* is an open memory that the command uses.
    """
    escape_unencodable()
    try:
        code = _command()(args=arguments, prog_name="tellback", standalone_mode=False, obj=GlobalOptions(lent=lent))
        sys.stdout.flush()
    except UsageError as error:
        if str(error).startswith("Usage:"):
            typer.echo(str(error))  # no command was given: the message is the help
            return EXIT_USAGE
        return report_usage_error(error, getattr(getattr(error, "ctx", None), "command_path", "tellback"))
    except typer.Abort:
        print_note("tellback: nothing was done")
        return EXIT_FAILED
    except BrokenPipeError:
        discard_stdout()
        return 0
    return code if isinstance(code, int) else 0
