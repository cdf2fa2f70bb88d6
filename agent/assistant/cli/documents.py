"""``mneme ingest`` and ``mneme documents``: read files and folders into the memory, and list what was ingested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import invocation, opened_memory
from agent.assistant.cli.errors import PARTLY, USAGE, reported
from agent.assistant.cli.json_output import document_json, ingest_json
from agent.assistant.cli.output import day, note, print_json, print_table, progress, say

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import IngestProgress, IngestReport

_NOTHING_READABLE = "no readable document there; Markdown, text, source code and PDF are read"


@reported
def ingest(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    again: Annotated[
        bool, typer.Option("--again", help="Read everything anew, and bring back what was forgotten.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the totals, and no bar.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read files and folders into the memory.

    Only what changed is read anew; what vanished from a folder is retired.
    """
    for path in paths:
        if not path.exists():  # before a memory file is made for nothing
            raise typer.BadParameter(f"{path}: no such file or folder", param_hint="PATH")
    report = None
    if not invocation(context).configuration().settings.memory.exists():
        from memory import unreadable

        report = unreadable(paths)
    if report is None:
        with opened_memory(context, create=True) as place:
            report = _ingested(place, paths, again=again, quiet=json or quiet)
    read = any(line.action not in ("failed", "skipped") for line in report.lines)
    if json:
        print_json(ingest_json(report))
    elif read:
        _show(report, quiet=quiet)
    else:
        _refuse(report)
    if not read:
        raise typer.Exit(USAGE)
    if any(line.action == "failed" for line in report.lines):
        raise typer.Exit(PARTLY)


def _ingested(place: OpenedMemory, paths: list[Path], *, again: bool, quiet: bool) -> IngestReport:
    from memory import run_sync

    with progress("ingesting", quiet=quiet) as advance:

        def on_progress(step: IngestProgress) -> None:
            advance(step.done, step.total, step.line.source)

        return run_sync(place.knowledge().ingest(paths, again=again, on_progress=on_progress))


def _show(report: IngestReport, *, quiet: bool) -> None:
    for line in report.lines:
        if line.action in ("failed", "skipped"):
            note(str(line))
        elif not quiet and line.action != "unchanged":
            say(str(line))
    say(str(report) if report.changed else f"nothing changed: {report}")


def _refuse(report: IngestReport) -> None:
    """Say in one line why nothing could be read, when one reason says it all; else a line each."""
    if len(report.lines) == 1:
        note(f"mneme: {report.lines[0].source}: {report.lines[0].reason}")
        return
    for line in report.lines:
        note(str(line))
    note(f"mneme: {_NOTHING_READABLE}")


@reported
def documents(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the documents that were ingested."""
    from memory import run_sync

    with opened_memory(context) as place:
        listed = run_sync(place.knowledge().documents())
    if json:
        print_json({"documents": [document_json(one) for one in listed]})
    elif not listed:
        say("No document was ingested yet; `mneme ingest PATH` reads some.")
    else:
        rows = [(one.source, str(one.chunks), day(one.ingested), one.title) for one in listed]
        print_table(("document", "chunks", "ingested", "title"), rows)
