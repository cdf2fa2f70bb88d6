"""``mneme correct``: what was wrong is put right; the old version stays in the history."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.inputs import given_text
from agent.assistant.cli.named import moment_named
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import note, print_json, say
from agent.assistant.cli.sensitive import AllowSensitive, is_sensitive, marked_already
from agent.assistant.cli.shapes import report_json


@reported
def correct(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory; recall and memories list show ids.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should say; '-' reads it from standard input.")],
    valid_from: Annotated[str | None, typer.Option(metavar="TIME", help="Since when that holds.")] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="TIME", help="Until when that holds.")] = None,
    allow_sensitive: AllowSensitive = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put TEXT in the place of memory ID.

    The old version stays in its history. What looks like a secret is asked about as by `remember`, unless the memory
    is marked already.
    """
    words = given_text(text, name="TEXT", what="what it should say")
    start, stop = moment_named(valid_from, name="--valid-from"), moment_named(valid_to, name="--valid-to")
    from memory import run_sync

    with opened_memory(context) as place:
        marked = marked_already(place, [id]) or is_sensitive(words, allowed=allow_sensitive)
        report = run_sync(
            place.memory.correct(
                id, words, valid_from=start, valid_to=stop, sensitive=marked, namespace=place.namespace
            )
        )
    if json:
        print_json(report_json(report))
        return
    if report.operation is None:
        say(f"nothing to change: {report.id}")
        return
    told = str(report).removeprefix("stored").lstrip(", ")
    say(f"corrected {report.id}" + (f": {told}" if told else ""))
    for made in report.made:
        say(f"made of it: {made.id}: {made}")
    for one in report.retired:
        say(f"had been made of the old words, and went to the archive: {one}")
    note(f"take it back with: mneme undo {report.operation}")
