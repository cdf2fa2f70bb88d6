"""``mneme remember``: one thing into the memory."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.failures import USAGE, reported
from agent.assistant.cli.inputs import given_text, given_time
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import note, print_json, say
from agent.assistant.cli.shapes import report_json


@reported
def remember(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; '-' reads it from standard input.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="What it is: fact, preference, event, note, …")] = "fact",
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag; may be repeated.")] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Who said it.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said or happened, as 2026-05-03T18:30.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="A name of your own that makes repeating safe.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Keep TEXT in the memory."""
    words = given_text(text, name="TEXT", what="something to remember")
    moment = given_time(at, "--at")
    from memory import Memory, Outcome, run_sync

    item = Memory(text=words, kind=kind, tags=tuple(tag or ()), speaker=speaker, occurred_at=moment, key=key)
    with opened_memory(context, create=True) as place:
        report = run_sync(place.memory.remember(item, namespace=place.namespace))
    if json:
        print_json(report_json(report))
    else:
        say(f"{report.outcome} {report.id}" + (f": {report.reason}" if report.reason else ""))
        if report.deferred:
            note(f"found by its words only for now: {report.deferred}")
    if report.outcome is Outcome.REJECTED:
        raise typer.Exit(USAGE)
