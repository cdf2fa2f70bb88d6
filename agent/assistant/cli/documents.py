"""``tellback ingest`` and ``tellback documents``: read files and folders into the memory, and list what was
ingested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import global_options, opened_memory, run
from agent.assistant.cli.errors import EXIT_PARTIAL, EXIT_USAGE, with_error_report
from agent.assistant.cli.options import JsonOption
from agent.assistant.cli.output import format_day, print_json, print_note, print_table, print_text, progress_bar

if TYPE_CHECKING:
    from memory.internals import IngestLine, IngestProgress, IngestReport

_MAX_EQUAL_LINES = 4
_NAMED_FILES = 3
_COUNTS = ("chunks", "embedded", "pending", "forgotten", "erased")
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
    for lines in _equal_outcomes(line for line in report.lines if line.action != "unchanged"):
        if lines[0].action in ("failed", "skipped"):
            print_note(_outcome_line(lines))
        elif not quiet:
            print_text(_outcome_line(lines))
    print_text(str(report) if report.changed else f"nothing changed: {report}")


def _print_unreadable(report: IngestReport) -> None:
    """Print why nothing could be read: in one line for a single document, else in a line for each."""
    if len(report.lines) == 1:
        print_note(f"tellback: {report.lines[0].source}: {report.lines[0].reason}")
        return
    for lines in _equal_outcomes(report.lines):
        print_note(_outcome_line(lines))
    print_note(f"tellback: {_NO_READABLE_DOCUMENT}")


def _equal_outcomes(lines: Iterable[IngestLine]) -> Iterator[Sequence[IngestLine]]:
    """Yield *lines* one by one, but those of many files of one kind with the same outcome together."""
    groups: dict[tuple[object, ...], list[IngestLine]] = {}
    for line in lines:
        also = bool(line.pending), bool(line.forgotten), bool(line.erased)
        groups.setdefault((line.action, line.reason, line.notes, _kind_of_file(line), also), []).append(line)
    for group in groups.values():
        yield from [group] if len(group) > _MAX_EQUAL_LINES else ([line] for line in group)


def _outcome_line(lines: Sequence[IngestLine]) -> str:
    """Return the outcome of *lines*, which is the same, with the sums of their counts."""
    first = lines[0]
    if len(lines) == 1:
        return str(first)
    names = ", ".join(line.source for line in lines[:_NAMED_FILES])
    counts = {name: sum(getattr(line, name) for line in lines) for name in _COUNTS}
    return str(replace(first, source=f"{len(lines)} {_kind_of_file(first)} files ({names}, …)", **counts))


def _kind_of_file(line: IngestLine) -> str:
    return PurePath(line.source).suffix.lower() or "other"


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
