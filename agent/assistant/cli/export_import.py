"""``tellback export`` and ``tellback import``: the memory, or a part of it, as a file of lines, written and read.

An import takes a file in batch by batch, or in the place of everything, and prints a line for each item not taken.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agent.assistant.cli.command_context import global_options, opened_memory, run
from agent.assistant.cli.errors import EXIT_FAILED, EXIT_PARTIAL, exit_if_damaged, with_error_report
from agent.assistant.cli.json_output import json_object
from agent.assistant.cli.options import JsonOption, QuietOption, YesOption, parse_filter, parse_scopes
from agent.assistant.cli.output import format_count, print_json, print_note, print_text, progress_bar
from agent.assistant.cli.prompts import confirm, require_terminal_or_yes

if TYPE_CHECKING:
    from memory.internals import BackfillReport, ImportReport


@with_error_report
def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to, nothing may be there yet; '-' is standard output.")
    ],
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Smaller; an import embeds anew.")] = False,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only with any of these tags.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of these scopes.")] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Only those that a filter matches.")] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write the memory to FILE, as JSON Lines.

    The file holds everything in plain text, vectors too; it is for you alone (mode 0600). That it was made is recorded,
    and named by every later forget.
    """
    scopes, condition = parse_scopes(scope or [], name="--scope"), parse_filter(where, name="--where")
    to_stream = str(file) == "-"
    if to_stream and json:
        raise typer.BadParameter("an export on standard output is JSON already", param_hint="--json")
    with opened_memory(context) as opened, progress_bar("exporting", quiet=quiet or json) as shown:
        report = run(
            opened.memory.export(
                sys.stdout.buffer if to_stream else file,
                namespace=opened.namespace,
                vectors=not no_vectors,
                where=condition,
                scopes=scopes,
                tags=tag or (),
                on_progress=lambda done: shown(done, 0, ""),
            )
        )
    if json:
        print_json(report)
    else:
        show = print_note if to_stream else print_text
        where = "standard output" if to_stream else report.path
        show(f"wrote {format_count(sum(report.counts.values()), 'item')} to {where}")
        for kind, count in report.counts.items():
            if count:
                show(f"  {kind}: {count}")
    exit_if_damaged(report.damaged)


_REASON_LINE_LIMIT = 20
_FOLDED_FROM = 2
"""Equal reasons, of more lines than this, are one line."""


@with_error_report
def import_export(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="An export; or transcripts.")] = None,
    from_client: Annotated[
        str | None, typer.Option("--from", metavar="CLIENT", help="Conversations of this client; FILE: only those.")
    ] = None,
    mode: Annotated[
        Literal["merge", "upsert", "replace"],
        typer.Option(help="Keep what is here; correct it by the file; or put the file in its place."),
    ] = "merge",
    trust: Annotated[
        Literal["user", "assistant", "tool", "document"] | None,
        typer.Option(help="The most that anything in it can have; 'user' if the file is your own."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be taken.")] = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Take in the export FILE, or a client's conversations.

    A file that this memory has not written itself is trusted as a document, and brings no history, unless --trust says
    otherwise. What was forgotten here does not come back. The same file again adds nothing; one that was broken off is
    finished by importing it again.

    With --from, the client's transcripts are read, or the file or folder FILE of such: what was typed is kept as the
    user's words, and the last answer of each turn. What is there already, and what was forgotten, is left out.
    """
    if from_client is not None:
        _import_transcripts(context, from_client, file, dry_run=dry_run, quiet=quiet, json=json)
        return
    if file is None:
        raise typer.BadParameter("an export, or --from CLIENT, is needed", param_hint="FILE")
    if not file.is_file():  # before a memory file is made for it
        raise typer.BadParameter(f"{file} is no file", param_hint="FILE")
    if mode == "replace" and not dry_run:
        require_terminal_or_yes(yes=yes)
    from memory.internals import BackfillReport

    with opened_memory(context, create=not dry_run) as opened:
        memory = opened.memory
        options: dict[str, Any] = {"mode": mode, "trust": trust, "namespace": opened.namespace}
        if mode == "replace" and not dry_run:
            plan = run(memory.import_(file, **options, dry_run=True))
            removed = format_count(plan.removed, "entry", "entries")
            question = f"{removed} will be gone, and the file in their place. Go on?"
            if plan.removed and not yes and not confirm(question):
                print_note("tellback: nothing was imported")
                raise typer.Exit(EXIT_FAILED)
        with progress_bar("importing", quiet=quiet or json) as shown:
            report = run(
                memory.import_(file, **options, dry_run=dry_run, on_progress=lambda done, total: shown(done, total, ""))
            )
        to_embed = report.pending and not dry_run
        embedded = run(memory.flush(namespace=opened.namespace)) if to_embed else BackfillReport()
    if json:
        print_json({**json_object(report), "embedded": embedded.embedded, "truncated": embedded.truncated})
    else:
        _print_import_report(report, embedded)


def _import_transcripts(
    context: typer.Context, name: str, path: Path | None, *, dry_run: bool, quiet: bool, json: bool
) -> None:
    from agent.assistant.clients.registry import hook_client
    from agent.assistant.hooks.hook_settings import HookSettings
    from agent.assistant.hooks.transcript_import import import_transcripts

    client = hook_client(name)
    if path is not None and not path.exists():
        raise typer.BadParameter(f"{path} is not there", param_hint="FILE")
    if path is None:
        paths = [*client.transcripts(), *client.archives()]
    else:
        paths = [path] if path.is_file() else [*client.transcripts(path)]
    if not paths:
        print_note(f"tellback: no conversation of {client.title} is in {path or client.folder}")
    with ExitStack() as stack:
        if dry_run and not os.path.lexists(global_options(context).configuration().settings.memory):
            empty = Path(stack.enter_context(TemporaryDirectory())) / "empty.db"  # what is there is none: all is new
            options = global_options(context)
            context.obj = replace(options, flags={**options.flags, "memory": str(empty)})
        opened = stack.enter_context(opened_memory(context, create=True))
        shown = stack.enter_context(progress_bar("importing", quiet=quiet or json))
        report = run(
            import_transcripts(
                client,
                paths,
                memory=opened.memory,
                settings=HookSettings.of(opened.settings),
                dry_run=dry_run,
                on_progress=lambda done, total: shown(done, total, ""),
            )
        )
    if json:
        print_json(asdict(report))
    else:
        would = "would keep" if dry_run else "kept"
        print_text(
            f"{would} {format_count(report.kept, 'message')} of {format_count(report.conversations, 'conversation')}"
        )
        for count, what in ((report.known, "known already"), (report.forgotten, "forgotten since they were said")):
            if count:
                print_text(f"  {what}: {count}")
        for kind, count in sorted(report.untyped.items()):
            print_text(f"  not typed by you, {kind}: {count}")
        if report.off:
            print_text(f"  of projects where hooks are off: {format_count(report.off, 'conversation')}")
        for place, reason in report.unreadable.items():
            print_note(f"  {place}: {reason}")
    if report.unreadable:
        raise typer.Exit(EXIT_PARTIAL)


def _print_import_report(report: ImportReport, embedded: BackfillReport) -> None:
    counts = Counter(str(line.outcome) for line in report.lines)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing"
    print_text(f"{'would import' if report.dry_run else 'imported'} memories and passages: {outcomes}")
    if derived := sum(fact.stored for line in report.lines for fact in line.made):
        print_text(f"  made of them: {format_count(derived, 'memory', 'memories')}")
    for kind, count in report.taken.items():
        print_text(f"  {kind}: {count}")
    if report.removed:
        print_text(f"  removed before: {report.removed}")
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
        print_note(f"  {note.replace('say trust=user', 'say --trust user')}")
    if any(report.left.values()) and not report.trusted:
        print_note("     -> a whole memory moves by `tellback backup FILE`, and there `tellback restore FILE`")
