"""``tellback remember``: one thing into the memory. Words that look like a secret need a confirmation."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import EXIT_USAGE, with_error_report
from agent.assistant.cli.json_output import report_json
from agent.assistant.cli.output import print_json, print_text
from agent.assistant.cli.parsing import parse_scopes, parse_time
from agent.assistant.cli.prompts import AllowSensitiveOption, confirm_sensitive, read_text_argument


@with_error_report
def remember(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; '-' reads it from standard input.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="What it is: fact, preference, event, note, …")] = "fact",
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag; may be repeated.")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A scope, as project=atlas; may be repeated.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Who said it.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said or happened, as 2026-05-03T18:30.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="From when on it is in no answer any more.")
    ] = None,
    importance: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, metavar="NUMBER", help="How much it matters, from 0 to 1.")
    ] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Show it to the assistant always.")] = False,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="A name of your own that makes repeating safe.")
    ] = None,
    allow_sensitive: AllowSensitiveOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Keep TEXT in the memory.

    What looks like a password, a key or a card number is asked about; it is then marked, and shown to no remote
    model or embedder.
    """
    words = read_text_argument(text, name="TEXT", what="something to remember")
    from memory import Memory, run_sync
    from memory.internals import Outcome

    item = Memory(
        text=words,
        kind=kind,
        tags=tuple(tag or ()),
        scopes=parse_scopes(scope or (), name="--scope") or {},
        speaker=speaker,
        occurred_at=parse_time(at, name="--at"),
        expires_at=parse_time(expires, name="--expires"),
        importance=importance,
        pinned=pin,
        key=key,
        sensitive=confirm_sensitive(words, allowed=allow_sensitive),
    )
    with opened_memory(context, create=True) as place:
        report = run_sync(place.memory.remember(item, namespace=place.namespace))
    if json:
        print_json(report_json(report))
    else:
        print_text(_write_report_line(report.id, str(report)))
        for made in report.made:
            print_text(_write_report_line(made.id, str(made)))
    if report.outcome is Outcome.REJECTED:
        raise typer.Exit(EXIT_USAGE)


def _write_report_line(id: str, report: str) -> str:
    """Return the line of a report: its first word, the id, and the rest."""
    outcome, _, rest = report.partition(" ")
    return " ".join(part for part in (outcome.rstrip(","), id, rest) if part)
