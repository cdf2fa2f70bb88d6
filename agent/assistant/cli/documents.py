"""``tellback ingest`` and ``tellback documents``: read files and folders into the memory, and list what was
ingested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import global_options, opened_memory, run
from agent.assistant.cli.errors import EXIT_PARTIAL, EXIT_USAGE, with_error_report
from agent.assistant.cli.options import JsonOption
from agent.assistant.cli.output import format_day, print_json, print_note, print_table, print_text, progress_bar

if TYPE_CHECKING:
    from memory.internals import IngestProgress, IngestReport

_NO_READABLE_DOCUMENT = "no readable document there; Markdown, text, source code and PDF are read"


@with_error_report
def ingest(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    again: Annotated[
        bool, typer.Option("--again", help="Read everything anew, and bring back what was forgotten.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the totals, and no bar.")] = False,
    json: JsonOption = False,
) -> None:
    """Read files and folders into the memory.

    Only what changed is read anew; what vanished from a folder is retired.
    """
    for path in paths:
        if not path.exists():  # before a memory file is made for nothing
            raise typer.BadParameter(f"{path}: no such file or folder", param_hint="PATH")
    report = None
    if not global_options(context).configuration().settings.memory.exists():
        from memory.internals import report_unreadable

        report = report_unreadable(paths)
    if report is None:
        with opened_memory(context, create=True) as opened, progress_bar("ingesting", quiet=json or quiet) as advance:

            def on_progress(step: IngestProgress) -> None:
                advance(step.done, step.total, step.line.source)

            report = run(opened.knowledge().ingest(paths, again=again, on_progress=on_progress))
    read = any(line.action not in ("failed", "skipped") for line in report.lines)
    if json:
        print_json(report)
    elif read:
        _print_ingest_report(report, quiet=quiet)
    else:
        _print_unreadable(report)
    if not read:
        raise typer.Exit(EXIT_USAGE)
    if any(line.action == "failed" for line in report.lines):
        raise typer.Exit(EXIT_PARTIAL)


def _print_ingest_report(report: IngestReport, *, quiet: bool) -> None:
    for line in report.lines:
        if line.action in ("failed", "skipped"):
            print_note(str(line))
        elif not quiet and line.action != "unchanged":
            print_text(str(line))
    print_text(str(report) if report.changed else f"nothing changed: {report}")


def _print_unreadable(report: IngestReport) -> None:
    """Print why nothing could be read: in one line for a single document, else in a line for each."""
    if len(report.lines) == 1:
        print_note(f"tellback: {report.lines[0].source}: {report.lines[0].reason}")
        return
    for line in report.lines:
        print_note(str(line))
    print_note(f"tellback: {_NO_READABLE_DOCUMENT}")


@with_error_report
def documents(context: typer.Context, json: JsonOption = False) -> None:
    """List the documents that were ingested."""
    with opened_memory(context) as opened:
        listed = run(opened.knowledge().documents())
    if json:
        print_json({"documents": listed})
    elif not listed:
        print_text("No document was ingested yet; `tellback ingest PATH` reads some.")
    else:
        rows = [(info.source, str(info.chunks), format_day(info.ingested), info.title) for info in listed]
        print_table(("document", "chunks", "ingested", "title"), rows)
