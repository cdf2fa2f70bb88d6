"""``tellback ingest`` and ``tellback documents``: read files and folders into the memory, list what was ingested, and
forget what came from a folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import global_options, opened_memory, run, trial_memory
from tellback.agent.assistant.cli.errors import EXIT_PARTIAL, EXIT_USAGE
from tellback.agent.assistant.cli.options import (
    DEFAULT_LIMIT,
    CollectionOption,
    FullOption,
    IntoCollectionOption,
    JsonOption,
    YesOption,
)
from tellback.agent.assistant.cli.output import (
    format_count,
    format_day,
    one_line,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
)
from tellback.agent.assistant.cli.prompts import confirm_or_exit, require_terminal_or_yes

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import KnowledgeBase
    from tellback.memory.internals import DocumentInfo, FileSelection, IngestLine, IngestProgress, IngestReport

_MAX_EQUAL_LINES = 4
_NAMED_FILES = 3
_NOT_READ: Final = ("failed", "skipped", "unreadable")
_COUNTS = ("chunks", "embedded", "pending", "forgotten", "erased")
_NO_READABLE_DOCUMENT = "no readable document there; `tellback ingest --help` names the formats that are read"
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SHOWN_SOURCES: Final = 5
IncludeOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Only these, as in .gitignore; repeatable.")
]
ExcludeOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Not these, as in .gitignore; repeatable.")
]
MaxSizeOption: TypeAlias = Annotated[str | None, typer.Option(metavar="SIZE", help="None larger, such as 10M.")]
NoIgnoreOption: TypeAlias = Annotated[bool, typer.Option("--no-ignore", help="Do not follow .gitignore and .ignore.")]


def ingest(
    context: typer.Context,
    places: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders and web addresses.")],
    again: Annotated[
        bool, typer.Option("--again", help="Read everything anew, and bring back what was forgotten.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the totals and what failed; no bar, nothing of what is skipped.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Retire the documents of a PATH that is gone, unasked.")] = False,
    collection: IntoCollectionOption = "default",
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    max_size: MaxSizeOption = None,
    no_ignore: NoIgnoreOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be read and what not; read nothing.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Let the model write the question that each passage answers.")
    ] = False,
    most_tokens: Annotated[
        int, typer.Option(metavar="COUNT", min=1, help="With --lines: stop before it takes more tokens.")
    ] = 100_000,
    json: JsonOption = False,
) -> None:
    """Read files, folders and web pages into the memory.

    Markdown, text, source code, HTML, PDF and more are read (docs/documents.md lists all). Only what changed is read
    anew; what vanished from a folder is retired. For a PATH that is gone itself, you are asked whether its documents
    are to be retired.
    """
    if lines and global_options(context).configuration().settings.model is None:
        raise typer.BadParameter("no model is set to write them: `tellback init` looks for one", param_hint="--lines")
    selection = file_selection(include, exclude, max_size, no_ignore=no_ignore)
    pages = [place for place in places if _is_url(place)]
    paths = [Path(place) for place in places if not _is_url(place)]
    if dry_run:
        _show_plan(paths, pages, selection, json=json)
        return
    settings = global_options(context).configuration().settings
    if pages and settings.offline:
        raise typer.BadParameter("no web page is read while offline is set", param_hint="PATH")
    exists = settings.is_begun
    gone = [path for path in paths if not path.exists()]
    if gone and not exists:  # before a memory file is made for nothing
        raise _no_such_path(gone[0])
    # A memory file is made for something that can be read.
    report = None if exists else _tried(context, paths, pages, selection)
    if report is None or any(line.action not in _NOT_READ for line in report.lines):
        with opened_memory(context, create=True) as opened:
            knowledge = opened.knowledge(collection)
            _confirm_retiring(knowledge, gone, yes=yes)
            report = _ingest_with_progress(knowledge, paths, selection, again=again, quiet=json or quiet)
            report = replace(report, lines=(*report.lines, *_page_lines(opened, knowledge, pages, again=again)))
            if lines:
                _write_lines(opened, knowledge, most_tokens, quiet=json or quiet)
    read = any(line.action not in _NOT_READ for line in report.lines)
    if json:
        print_json(report)
    elif read:
        print_ingest_report(report, quiet=quiet)
        if not exists and not quiet:  # the first step of many people: once, the second is named
            print_note(
                "next: `tellback chat` remembers what you tell it, and this answers:", command="tellback ask QUESTION"
            )
    else:
        _print_unreadable(report)
    if not read:
        raise typer.Exit(EXIT_USAGE)
    if not report.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _write_lines(opened: OpenedMemory, knowledge: KnowledgeBase, most_tokens: int, *, quiet: bool) -> None:
    """Let the model write the lines of passages that have none, up to *most_tokens*; what is written stays."""
    from tellback.agent.assistant.wiring import make_http_client, make_section_writer
    from tellback.agent.context.line_writer import LineProgress

    client, progress = make_http_client(opened.settings), LineProgress()

    async def write(total: int) -> None:
        nonlocal progress
        async for progress in writer.write(knowledge, most_tokens=most_tokens):
            advance(progress.done, total)

    try:
        writer = make_section_writer(opened.settings, client)
        estimate = run(writer.estimate(knowledge))
        if not quiet and estimate.memories:
            count = format_count(estimate.memories, "passage")
            print_note(f"{count} would go to {opened.settings.model}: about {estimate.tokens:,} tokens")
        with progress_bar("writing lines", quiet=quiet) as advance:
            run(write(estimate.memories))
    finally:
        run(client.aclose())
    if not quiet and estimate.memories:
        rest = "; stopped before the limit of tokens, and the same command goes on" if progress.stopped else ""
        print_note(f"{format_count(progress.written, 'line')} written, {progress.tokens:,} tokens{rest}")


def _tried(
    context: typer.Context, paths: Sequence[Path], pages: Sequence[str], selection: FileSelection
) -> IngestReport:
    """Return what would be read for a first memory: files as planned, and pages where there is no such file."""
    from tellback.memory.internals import IngestReport, plan_ingest

    report = plan_ingest(paths, selection, trial=True) if paths else IngestReport(())
    trial = None if report.of("planned") else trial_memory(context)
    if trial is None:
        return report
    return replace(report, lines=(*report.lines, *_page_lines(trial, trial.knowledge(), pages)))


def _page_lines(
    opened: OpenedMemory, knowledge: KnowledgeBase, pages: Sequence[str], *, again: bool = False
) -> Iterator[IngestLine]:
    """Read web pages, and yield the line of each."""
    hosts = [host.strip() for host in opened.settings.web_hosts.split(",") if host.strip()]
    for page in pages:
        yield from run(knowledge.ingest_url(page, allowed_hosts=hosts, again=again)).lines


def file_selection(
    include: Sequence[str] | None, exclude: Sequence[str] | None, max_size: str | None, *, no_ignore: bool
) -> FileSelection:
    """Return the choice of files that the options name."""
    from tellback.memory.internals import FileSelection

    return FileSelection(tuple(include or ()), tuple(exclude or ()), _parse_size(max_size), not no_ignore)


def _parse_size(text: str | None) -> int | None:
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (size := int(float(match[1]) * _SIZE_UNITS[match[2].casefold()])):
        raise typer.BadParameter(f"{text!r} is not a size such as 500k or 10M", param_hint="--max-size")
    return size


def _is_url(place: str) -> bool:
    return place.casefold().startswith(("http://", "https://"))


def _show_plan(paths: Sequence[Path], pages: Sequence[str], selection: FileSelection, *, json: bool) -> None:
    from tellback.memory.internals import IngestAction, IngestLine, IngestReport, plan_ingest

    for path in paths:
        if not path.exists():
            raise _no_such_path(path)
    planned = plan_ingest(paths, selection).lines if paths else ()
    report = IngestReport((*planned, *(IngestLine(page, IngestAction.PLANNED) for page in pages)))
    if json:
        print_json(report)
        return
    for lines in _equal_outcomes(report.lines):
        (print_text if lines[0].action == "planned" else print_note)(_outcome_line(lines))
    print_text(f"{report.counts}; nothing was read")


def _no_such_path(path: Path) -> typer.BadParameter:
    return typer.BadParameter(f"{path}: no such file or folder", param_hint="PATH")


def _confirm_retiring(knowledge: KnowledgeBase, gone: Sequence[Path], *, yes: bool) -> None:
    """Ask whether the documents of paths that are *gone* are to be retired; a path without any is an error."""
    listed = run(knowledge.documents()) if gone else []
    for path in gone:
        sources = [
            info.source for info in listed if info.location and Path(info.location).is_relative_to(path.resolve())
        ]
        if not sources:
            raise _no_such_path(path)
        if yes:
            continue
        print_note(f"{path} is gone; {format_count(len(sources), 'document')} came from it: {_some_names(sources)}")
        if not sys.stdin.isatty():
            raise typer.BadParameter("needed to retire them where there is no terminal to ask on", param_hint="--yes")
        confirm_or_exit("Retire them?", "nothing was done")


def _ingest_with_progress(
    knowledge: KnowledgeBase, paths: Sequence[Path], selection: FileSelection, *, again: bool, quiet: bool
) -> IngestReport:
    """Ingest *paths* with a progress bar, and return the report."""
    from tellback.memory.internals import IngestReport

    if not paths:
        return IngestReport(())
    with ingest_progress(quiet=quiet) as on_progress:
        ingested = knowledge.ingest(
            paths, again=again, retire_missing=True, on_progress=on_progress, **asdict(selection)
        )
        return run(ingested)


@contextmanager
def ingest_progress(*, quiet: bool) -> Iterator[Callable[[IngestProgress], None]]:
    """Show a progress bar for the ingest inside the block; after Ctrl-C, print how far it came."""
    done = total = kept = 0
    try:
        with progress_bar("ingesting", quiet=quiet, in_bytes=True) as advance:

            def on_progress(step: IngestProgress) -> None:
                nonlocal done, total, kept
                done, total = step.done, step.total
                kept += step.line.action in ("added", "updated")
                advance(
                    step.bytes_done, step.bytes_total, f"{done} of {format_count(total, 'file')} · {step.line.source}"
                )

            yield on_progress
    except KeyboardInterrupt:
        print_note(
            f"stopped after {done} of {format_count(total, 'file')}: {kept} added or updated are kept; "
            "the same command goes on"
        )
        raise


def print_ingest_report(report: IngestReport, *, quiet: bool) -> None:
    """Print the outcome of each document, equal ones folded, and the totals."""
    for lines in _equal_outcomes(line for line in report.lines if line.action != "unchanged"):
        action = lines[0].action
        if action == "failed" or (action in _NOT_READ and not quiet):
            print_note(_outcome_line(lines))
        elif not quiet and action not in _NOT_READ:
            print_text(_outcome_line(lines))
    print_text(str(report) if report.changed else f"nothing changed: {report}")


def _print_unreadable(report: IngestReport) -> None:
    """Print why nothing could be read: one line for a single document, else one for each outcome."""
    if len(report.lines) == 1:
        print_note(one_line(f"tellback: {report.lines[0].source}: {report.lines[0].reason}"))
        return
    for lines in _equal_outcomes(report.lines):
        print_note(_outcome_line(lines))
    print_note(f"tellback: {_NO_READABLE_DOCUMENT}")


def _equal_outcomes(lines: Iterable[IngestLine]) -> Iterator[Sequence[IngestLine]]:
    """Yield *lines* in groups: many files of one kind with the same outcome together, all others alone."""
    groups: dict[tuple[object, ...], list[IngestLine]] = {}
    for line in lines:
        also = bool(line.pending), bool(line.forgotten), bool(line.erased)
        groups.setdefault((line.action, line.reason, line.notes, _kind_of_file(line), also), []).append(line)
    for group in groups.values():
        yield from [group] if len(group) > _MAX_EQUAL_LINES else ([line] for line in group)


def _outcome_line(lines: Sequence[IngestLine]) -> str:
    """Return the outcome that *lines* share, with the sums of their counts."""
    first = lines[0]
    if len(lines) == 1:
        return one_line(str(first))
    names = ", ".join(line.source for line in lines[:_NAMED_FILES])
    counts = {name: sum(getattr(line, name) for line in lines) for name in _COUNTS}
    return one_line(str(replace(first, source=f"{len(lines)} {_kind_of_file(first)} files ({names}, …)", **counts)))


def _kind_of_file(line: IngestLine) -> str:
    return PurePath(line.source).suffix.lower() or "other"


def documents(
    context: typer.Context,
    matching: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only documents with TEXT in their name or title.")
    ] = None,
    sort: Annotated[
        Literal["newest", "modified", "name", "chunks"],
        typer.Option(help="Ingested last, changed last, by name, or the longest first."),
    ] = "newest",
    limit: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help=f"How many at most ({DEFAULT_LIMIT}; JSON: all).")
    ] = None,
    collection: CollectionOption = None,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """List the documents that were ingested, the newest first."""
    with opened_memory(context) as opened:
        matches = run(opened.desk.documents(matching or "", order=sort, collection=collection))
        every = matches if matches or not matching else run(opened.desk.documents(collection=collection))
    shown = matches[: len(matches) if json and limit is None else limit or DEFAULT_LIMIT]
    if json:
        print_json({"documents": shown, "total": len(matches)})
        return
    if not every:
        print_text("No document was ingested yet; `tellback ingest PATH` reads some.")
        return
    if not matches:
        print_text(f"None of {format_count(len(every), 'document')} has that in its name or title.")
        return
    several = len({info.collection for info in matches}) > 1
    names = [(f"{info.collection}: " if several else "") + _name_and_title(info) for info in shown]
    rows = [(str(info.chunks), format_day(info.ingested), name) for info, name in zip(shown, names, strict=True)]
    print_table(("chunks", "ingested", "document"), rows, full=full)
    chunks = format_count(sum(info.chunks for info in matches), "chunk")
    some = (
        f"{len(shown)} of {format_count(len(matches), 'document')}, the rest with --limit" if shown != matches else ""
    )
    print_note(f"{some or format_count(len(matches), 'document')}; {chunks} in all")


def forget_folder(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A folder or file that was ingested; it may be gone.")],
    collection: CollectionOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Forget all documents that came from FOLDER.

    Files are not touched; an ingest does not bring the documents back by itself (--again does). What else holds their
    words stays: `tellback forget --document NAME` reaches that, too.
    """
    with opened_memory(context) as opened:
        path = Path(Path.cwd(), folder).resolve()
        bases = run(opened.knowledge_bases(collection))
        listed = [info for base in bases for info in run(base.documents())]
        below = [info.source for info in listed if info.location and Path(info.location).is_relative_to(path)]
        if not below:
            raise typer.BadParameter(f"no document came from {folder}", param_hint="FOLDER")
        require_terminal_or_yes(yes=yes)
        if not yes:
            print_note(f"{format_count(len(below), 'document')} came from {folder}: {_some_names(below)}")
            confirm_or_exit("Forget them?", "nothing was forgotten")
        removed = [source for base in bases for source in run(base.remove_folder(path))]
    if json:
        print_json({"folder": str(path), "removed": removed})
    else:
        print_text(f"forgot {format_count(len(removed), 'document')} of {folder}")


def _some_names(sources: Sequence[str]) -> str:
    return ", ".join(map(one_line, sources[:_SHOWN_SOURCES])) + (", …" if len(sources) > _SHOWN_SOURCES else "")


def _name_and_title(info: DocumentInfo) -> str:
    name = info.source.rpartition("/")[2]
    return info.source if info.title in ("", name) else f"{info.source} · {info.title}"
