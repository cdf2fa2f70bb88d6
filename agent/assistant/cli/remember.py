"""``tellback remember``: keeps a text as a memory. Words that look like a secret need a confirmation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, opened_memory, run, trial_memory
from tellback.agent.assistant.cli.errors import EXIT_USAGE
from tellback.agent.assistant.cli.options import JsonOption, parse_scopes, with_options
from tellback.agent.assistant.cli.output import fit_line, format_minute, one_line, print_json, print_note, print_text
from tellback.agent.assistant.cli.prompts import AllowSensitiveOption, confirm_sensitive, read_text_argument
from tellback.agent.assistant.cli.short_ids import resolve_ids
from tellback.agent.assistant.cli.times import parse_time
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.memory import Memory, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberOptions:
    """Arguments and options of ``tellback remember``."""

    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to remember; '-' reads standard input.")]
    about: Annotated[
        str, typer.Option(metavar="LINE", help="What it is about, without the answer: 'spare key: who keeps it'.")
    ] = ""
    kind: Annotated[str, typer.Option(metavar="KIND", help="What it is: fact, preference, event, note, …")] = "fact"
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag; may be repeated.")] = None
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A scope, as project=atlas; may be repeated.")
    ] = None
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Who said it.")] = None
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said or happened, as 2026-05-03T18:30.")
    ] = None
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="From when on it is in no answer any more.")] = (
        None
    )
    importance: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, metavar="NUMBER", help="How much it matters, from 0 to 1.")
    ] = None
    pin: Annotated[bool, typer.Option("--pin", help="Show it to the assistant always.")] = False
    key: Annotated[str | None, typer.Option(metavar="KEY", help="A name of your own that makes repeating safe.")] = None
    replaces: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A memory that holds no longer since this one; may be repeated."),
    ] = None
    allow_sensitive: AllowSensitiveOption = False
    json: JsonOption = False

    def memory(self, text: str) -> Memory:
        """Return the memory of *text*; ask first if it looks like a secret."""
        from tellback.memory import Memory

        return Memory(
            text=text,
            about=self.about,
            kind=self.kind,
            tags=tuple(self.tag or ()),
            scopes=parse_scopes(self.scope or (), name="--scope") or {},
            speaker=self.speaker,
            occurred_at=parse_time(self.at, name="--at"),
            expires_at=parse_time(self.expires, name="--expires", ahead=True),
            importance=self.importance,
            pinned=self.pin,
            key=self.key,
            sensitive=confirm_sensitive(text, allowed=self.allow_sensitive),
        )


@with_options(RememberOptions)
def remember(context: typer.Context, options: RememberOptions) -> None:
    """Keep TEXT in the memory.

    With --replaces, the older memory ends at the time of this one; it stays for questions about its own time.

    What looks like a password, a key or a card number is asked about; it is then marked, and shown to no remote
    model or embedder.
    """
    compute_in_one_thread()
    item = options.memory(read_text_argument(options.text, name="TEXT", what="something to remember"))
    from tellback.agent.desk.consent import Person
    from tellback.memory.internals import Outcome

    if (trial := trial_memory(context)) is not None:
        run(trial.desk.remember(Person(), item, replaces=options.replaces or ()))
    with opened_memory(context, create=True) as opened:
        replaces = resolve_ids(opened, options.replaces or (), changes=True)
        report = run(opened.desk.remember(Person(), item, replaces=replaces))
        concerned = [*report.replaced, *filter(None, [report.may_replace])]
        older = [] if options.json else run(opened.memory.get(concerned, namespace=opened.namespace))
    if options.json:
        print_json(report)
    else:
        for written in (replace(report, replaced=(), may_replace=None), *report.made):
            detail = str(written).removeprefix(written.headline)
            print_text(f"{written.headline} {written.id}".rstrip() + detail)
        for memory in filter(None, older):
            _print_older(memory, report)
    if report.outcome == Outcome.REJECTED:
        raise typer.Exit(EXIT_USAGE)


def _print_older(memory: Memory, report: Report) -> None:
    """Print the older *memory* that the one of *report* replaces, or may replace."""
    old, new = short_id(memory.id), short_id(report.id)
    if memory.id in report.replaced:
        print_text(f"  replaces {old}, until {format_minute(memory.valid_to)}: {one_line(memory.text)}", indent="    ")
        print_note("take it back with:", command=f"tellback undo {report.operation}")
    else:
        print_note(fit_line(f"this may replace {old}: {one_line(memory.text)}"))
        print_note("if it does:", command=f"tellback memories settle {old} {new} --keep {new}")
