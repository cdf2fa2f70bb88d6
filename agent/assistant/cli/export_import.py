"""``tellback export``: the memory, or a part of it, as a file of lines; and its way back in by ``tellback import``.

An import takes a file in batch by batch, and prints a line for each item not taken.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import exit_if_damaged
from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.cli.options import JsonOption, QuietOption, parse_filter, parse_scopes
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_text, progress_bar
from tellback.agent.assistant.cli.prompts import confirm_or_exit

if TYPE_CHECKING:
    from tellback.memory.internals import BackfillReport, ImportReport

ImportMode: TypeAlias = Literal["merge", "upsert"]
TrustName: TypeAlias = Literal["user", "assistant", "tool", "document"]


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
    scopes, condition = parse_scopes(scope or [], name="--scope"), parse_filter(where, name="--where")
    to_stream = str(file) == "-"
    if to_stream and json:
        raise typer.BadParameter("an export on standard output is JSON already", param_hint="--json")
    if markdown:
        if to_stream or no_vectors:
            raise typer.BadParameter("writes a folder, without vectors", param_hint="--markdown")
        with opened_memory(context) as opened:
            chosen: dict[str, Any] = {"where": condition, "scopes": scopes, "tags": tag or ()}
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
                where=condition,
                scopes=scopes,
                tags=tag or (),
                on_progress=lambda done: advance(done, 0, ""),
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


_REASON_LINE_LIMIT = 20
_MINE_QUESTION = (
    "what it calls your words will count as your own, over what tools and documents say; its pinned memories are shown "
    "to the assistant always; its conversations and log come too. Did you make this file yourself?"
)
_FOLDED_FROM = 2
"""Lines with the same reason above which they are printed as one."""


def import_own_export(
    context: typer.Context,
    file: Path,
    *,
    mode: ImportMode,
    trust: TrustName | None,
    mine: bool,
    dry_run: bool,
    quiet: bool,
    json: bool,
) -> None:
    """Take in the export *file* of a memory; *mine*: with the trust that it states, once that is confirmed."""
    if trust == "user":
        raise typer.BadParameter("say --mine on a terminal if the export is your own", param_hint="--trust")
    if mine and not sys.stdin.isatty():
        problem = "is asked on a terminal, so that no script and no model can say it"
        raise typer.BadParameter(problem, param_hint="--mine")
    if mine:
        confirm_or_exit(f"{file}: {_MINE_QUESTION}", "nothing was imported")
    from tellback.memory.internals import BackfillReport

    with opened_memory(context, create=not dry_run) as opened:
        memory = opened.memory
        believed = "user" if mine else trust
        options: dict[str, Any] = {"mode": mode, "trust": believed, "namespace": opened.namespace}
        with progress_bar("importing", quiet=quiet or json) as advance:
            report = run(
                memory.import_(
                    file, **options, dry_run=dry_run, on_progress=lambda done, total: advance(done, total, "")
                )
            )
        to_embed = report.pending and not dry_run
        embedded = run(memory.flush(namespace=opened.namespace)) if to_embed else BackfillReport()
    if json:
        print_json({**json_object(report), "embedded": embedded.embedded, "truncated": embedded.truncated})
    else:
        _print_import_report(report, embedded)


def _print_import_report(report: ImportReport, embedded: BackfillReport) -> None:
    counts = Counter(str(line.outcome) for line in report.lines)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing"
    print_text(f"{'would import' if report.dry_run else 'imported'} memories and passages: {outcomes}")
    if derived := sum(fact.stored for line in report.lines for fact in line.made):
        print_text(f"  made of them: {format_count(derived, 'memory', 'memories')}")
    for kind, count in report.taken.items():
        print_text(f"  {kind}: {count}")
    if embedded.embedded:
        cut = f", {embedded.truncated} of them cut" if embedded.truncated else ""
        print_text(f"  embedded: {embedded.embedded}{cut}")
    explained = [line for line in report.lines if line.reason]
    reasons = Counter((str(line.outcome), line.reason) for line in explained)
    folded = [reason for reason, count in reasons.items() if count > _FOLDED_FROM]
    for outcome, reason in folded:
        print_note(f"  {reasons[outcome, reason]} {outcome}: {reason}")
    single = [line for line in explained if (str(line.outcome), line.reason) not in folded]
    for line in single[:_REASON_LINE_LIMIT]:
        print_note(f"  line {line.line}: {line.id}: {line.outcome}: {line.reason}")
    if len(single) > _REASON_LINE_LIMIT:
        print_note(f"  and {len(single) - _REASON_LINE_LIMIT} more (--json shows all)")
    for kind, count in report.left.items():
        print_note(f"  {kind}: {count} not taken")
    for note in report.notes:
        print_note(f"  {note.replace('say trust=user', 'say --mine on a terminal')}")
    if any(report.left.values()) and not report.trusted:
        print_note("     -> a whole memory moves by `tellback backup FILE`, and there `tellback restore FILE`")
