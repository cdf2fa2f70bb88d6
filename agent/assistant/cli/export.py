"""``mneme export``: all that is remembered, or a part of it, as a file of lines that is yours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.named import filter_named, scopes_named
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import counted, print_json, say
from agent.assistant.cli.progress import progress


@reported
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; nothing may be there yet.")],
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Smaller; an import embeds anew.")] = False,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only with any of these tags.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of these scopes.")] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Only those that a filter matches.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the memory to FILE, as JSON Lines.

    The file holds everything in plain text, vectors too; it is for you alone (mode 0600). That it was made is recorded,
    and named by every later forget.
    """
    scopes, chosen = scopes_named(scope or [], name="--scope"), filter_named(where, name="--where")
    from memory import run_sync

    with opened_memory(context) as place, progress("exporting", quiet=quiet or json) as shown:
        report = run_sync(
            place.memory.export(
                file,
                namespace=place.namespace,
                vectors=not no_vectors,
                where=chosen,
                scopes=scopes,
                tags=tag or (),
                on_progress=lambda done: shown(done, 0, ""),
            )
        )
    if json:
        counts = dict(report.counts)
        told = {"path": report.path, "counts": counts, "hash": report.hash, "vectors": report.vectors}
        print_json({**told, "operation": report.operation})
        return
    say(f"wrote {counted(sum(report.counts.values()), 'item')} to {report.path}")
    for kind, count in report.counts.items():
        if count:
            say(f"  {kind}: {count}")
