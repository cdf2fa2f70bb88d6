"""``tellback export``: the memory, or a part of it, as a file of lines or a folder of notes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import exit_if_damaged
from tellback.agent.assistant.cli.options import JsonOption, QuietOption, parse_filter, parse_scopes
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_text, progress_bar


def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to, nothing may be there yet; '-' is standard output.")
    ],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Notes with front matter in the new folder FILE, one a memory.")
    ] = False,
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Smaller; an import embeds anew.")] = False,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only with any of these tags.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of these scopes.")] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Only those that a filter matches.")] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write the memory to FILE, as JSON Lines.

    The file holds everything in plain text, vectors too, and only you may read it (mode 0600). The export is recorded,
    and every later forget names it.
    """
    chosen: dict[str, Any] = {
        "scopes": parse_scopes(scope or [], name="--scope"),
        "where": parse_filter(where, name="--where"),
        "tags": tag or (),
    }
    to_stream = str(file) == "-"
    if to_stream and json:
        raise typer.BadParameter("an export on standard output is JSON already", param_hint="--json")
    if markdown:
        if to_stream or no_vectors:
            raise typer.BadParameter("writes a folder, without vectors", param_hint="--markdown")
        with opened_memory(context) as opened:
            notes = run(opened.memory.export_notes(file, namespace=opened.namespace, **chosen))
        if json:
            print_json(notes)
        else:
            print_text(f"wrote {format_count(sum(notes.counts.values()), 'note')} to {notes.path}")
        return
    with opened_memory(context) as opened, progress_bar("exporting", quiet=quiet or json) as advance:
        report = run(
            opened.memory.export(
                sys.stdout.buffer if to_stream else file,
                namespace=opened.namespace,
                vectors=not no_vectors,
                on_progress=advance,
                **chosen,
            )
        )
    if json:
        print_json(report)
    else:
        show = print_note if to_stream else print_text
        place = "standard output" if to_stream else report.path
        show(f"wrote {format_count(sum(report.counts.values()), 'item')} to {place}")
        for kind, count in report.counts.items():
            if count:
                show(f"  {kind}: {count}")
    exit_if_damaged(report.damaged)
