"""``tellback install CLIENT``: connects a client to the memory, by its own configuration files, or disconnects it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import global_options
from tellback.agent.assistant.cli.errors import EXIT_USAGE
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_note, print_table, print_text
from tellback.agent.assistant.local_time import local_now

if TYPE_CHECKING:
    from tellback.agent.assistant.clients.client import Client
    from tellback.agent.assistant.clients.config_files import FileChange
    from tellback.agent.assistant.clients.registration import Launch
    from tellback.agent.assistant.config import Configuration

_PASSED_ON = ("memory", "namespace")
"""Settings passed on to the client's processes where an option or the environment set them."""


def install(
    context: typer.Context,
    client: Annotated[str | None, typer.Argument(metavar="[CLIENT]", help="Which client; alone, list them.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be changed.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out what was added.")] = False,
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Only the memory server, no hooks and skill.")] = False,
    json: JsonOption = False,
) -> None:
    """Connect a client to this memory.

    Adds the memory server, hooks and a skill to the files of CLIENT, as far as it supports them. Other settings stay as
    they are, and a copy of each changed file is kept beside it. A memory file or namespace given here or in the
    environment is passed on to the client. `tellback hooks pause` stops the hooks in all clients, `tellback hooks
    resume` lets them go on.
    """
    if client is None:
        _list_clients(json=json)
        return
    from tellback.agent.assistant.clients.config_files import write_changes
    from tellback.agent.assistant.clients.installation import planned_changes
    from tellback.agent.assistant.clients.registration import start_failure
    from tellback.agent.assistant.clients.registry import client_named

    chosen = client_named(client)
    launch = None if remove else _launch(global_options(context).configuration())
    if launch is not None and (failure := start_failure([str(launch.program), *launch.server_arguments])):
        print_note(f"tellback: nothing was changed, for the memory server could not start: {failure}")
        raise typer.Exit(EXIT_USAGE)
    changes = planned_changes(chosen, launch, hooks=remove or not no_hooks)
    written = [] if dry_run else write_changes(changes, now=local_now())
    changed = [change for change in changes if change.changes] if dry_run else written
    if json:
        lines = [
            {"path": str(change.path), "backup": str(change.backup or "") or None, "diff": change.diff()}
            for change in changed
        ]
        print_json({"client": chosen.name, "dry_run": dry_run, "remove": remove, "changed": lines})
        return
    _print_changes(chosen, changed, dry_run=dry_run)
    if changed and not remove:
        for note in chosen.notes:
            print_note(f"  -> {note}")


def _print_changes(client: Client, changed: list[FileChange], *, dry_run: bool) -> None:
    if not changed:
        print_text(f"{client.title}: everything is as it should be; nothing was changed")
    for change in changed:
        if dry_run:
            print_text(change.diff())
            continue
        action = "removed" if change.after is None else "made" if change.before is None else "changed"
        print_text(f"{action} {change.path}")
        if change.backup is not None:
            print_text(f"  as it was: {change.backup}")


def _launch(configuration: Configuration) -> Launch:
    from tellback.agent.assistant.clients.registration import Launch, own_program
    from tellback.agent.assistant.hooks.hook_call import HOOK_SECONDS

    options: list[str] = []
    for name in _PASSED_ON:
        value = getattr(configuration.settings, name)
        if value and configuration.origins.get(name, "").startswith(("--", "TELLBACK_")):
            options += [f"--{name}", str(value.absolute() if isinstance(value, Path) else value)]
    return Launch(own_program(), tuple(options), HOOK_SECONDS)


def _list_clients(*, json: bool) -> None:
    from tellback.agent.assistant.clients.registry import CLIENTS

    rows = [
        {
            "client": client.name,
            "title": client.title,
            "here": client.folder.exists(),
            "connected": bool(client.server_file.registered()),
            "hooks": client.hook_file is not None,
            "formats": client.documented,
        }
        for client in CLIENTS
    ]
    if json:
        print_json({"clients": rows})
        return
    words = {True: "yes", False: ""}
    print_table(
        ("client", "is here", "connected", "hooks", "written for"),
        [
            (
                str(row["client"]),
                *(words[bool(row[name])] for name in ("here", "connected", "hooks")),
                str(row["formats"]),
            )
            for row in rows
        ],
    )
