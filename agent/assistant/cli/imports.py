"""``tellback import``: this memory's own exports, conversations of other assistants and clients, notes and tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from tellback.agent.assistant.cli.command_context import global_options, opened_memory, run
from tellback.agent.assistant.cli.documents import ingest
from tellback.agent.assistant.cli.errors import EXIT_PARTIAL, EXIT_USAGE
from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.cli.options import JsonOption, QuietOption, YesOption, with_options
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_text, progress_bar
from tellback.agent.assistant.cli.prompts import confirm_or_exit

if TYPE_CHECKING:
    from tellback.agent.assistant.clients.transcript import ConversationSource
    from tellback.agent.assistant.importers.tables import TableFormat, TableReport
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory.internals import BackfillReport, ImportReport

_REASON_LINE_LIMIT = 20
_MINE_QUESTION = (
    "what it calls your words will count as your own, over what tools and documents say; its pinned memories are shown "
    "to the assistant always; its conversations and log come too. Did you make this file yourself?"
)
_FOLDED_FROM = 2
"""Lines with the same reason above which they are printed as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Arguments and options of ``tellback import``."""

    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="Exports, vaults, tables; or transcripts.")
    ] = None
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="What FILE is of, where it is not recognised; or a client."),
    ] = None
    mode: Annotated[
        Literal["merge", "upsert"],
        typer.Option(help="Of tellback's export: keep what is here, or correct it by the file."),
    ] = "merge"
    trust: Annotated[
        Literal["user", "assistant", "tool", "document"] | None,
        typer.Option(help="Of an export or a table: the most trust in it; 'user' if a table's words are your own."),
    ] = None
    mine: Annotated[
        bool, typer.Option("--mine", help="The export is your own: its trust and conversations come too. Asks first.")
    ] = False
    text: Annotated[str | None, typer.Option("--text", metavar="COLUMN", help="The words.")] = None
    time: Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="When.")] = None
    tags: Annotated[str | None, typer.Option("--tags", metavar="COLUMN", help="Tags.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be taken.")] = False
    yes: YesOption = False
    quiet: QuietOption = False
    json: JsonOption = False


@with_options(ImportOptions)
def import_files(context: typer.Context, options: ImportOptions) -> None:
    """Take in an export, other assistants, notes or tables.

    FILE is recognised by its content: the data export of ChatGPT or Claude (the ZIP file as it came, or what was in
    it), the logs of llm, a Markdown vault, a table (CSV, JSON Lines), an export of tellback. The same again adds
    nothing; what was broken off is finished by importing it again; what was forgotten here does not come back.

    Of conversations, what you typed is kept as your words, and the answers as answers, with their times. With --from a
    client (claude-code, codex, cursor, gemini-cli) and no FILE, its own transcripts are read.
    """
    from tellback.agent.assistant.importers.registry import ALIASES, MARKDOWN, TELLBACK, conversation_source

    files = options.files or []
    for file in files:
        if not file.exists():
            raise typer.BadParameter(f"{file}: no such file or folder", param_hint="FILE")
    name = ALIASES.get(options.from_ or "", options.from_) or _recognised(files)
    source = conversation_source(name)
    _refuse_unused(options, name)
    if source is not None:
        paths = _source_files(source, files)
        _import_conversations(context, source, paths, options)
        return
    if not files:
        raise typer.BadParameter(f"the file of format {name} is needed", param_hint="FILE")
    if name == MARKDOWN:
        ingest(
            context,
            places=[str(file) for file in files],
            quiet=options.quiet,
            dry_run=options.dry_run,
            yes=options.yes,
            json=options.json,
        )
    elif name == TELLBACK:
        for file in files:
            _import_export(context, file, options)
    else:
        _import_tables(context, cast("TableFormat", name), files, options)


def _recognised(files: Sequence[Path]) -> str:
    """Return the format that all *files* have; an unknown format, or several, raise ``BadParameter``."""
    from tellback.agent.assistant.importers.registry import FORMATS, recognised_format

    if not files:
        raise typer.BadParameter("a file to import, or --from CLIENT, is needed", param_hint="FILE")
    formats = {file: recognised_format(file) for file in files}
    for file, name in formats.items():
        if name is None:
            known = ", ".join(FORMATS)
            problem = f"{file} is of no format that is known; name it with --from: {known}"
            raise typer.BadParameter(problem, param_hint="FILE")
    names = list(dict.fromkeys(filter(None, formats.values())))
    if len(names) > 1:
        raise typer.BadParameter(
            f"these are of several formats ({', '.join(names)}); import one after the other", param_hint="FILE"
        )
    return names[0]


def _refuse_unused(options: ImportOptions, name: str) -> None:
    """Raise ``BadParameter`` for an option that the format *name* does not use."""
    from tellback.agent.assistant.importers.registry import TELLBACK
    from tellback.agent.assistant.importers.tables import TABLE_FORMATS

    columns = {"--text": options.text, "--time": options.time, "--tags": options.tags}
    unused = [option for option, value in columns.items() if value is not None and name not in TABLE_FORMATS]
    unused += ["--mode"] if options.mode != "merge" and name != TELLBACK else []
    unused += ["--mine"] if options.mine and name != TELLBACK else []
    unused += ["--trust"] if options.trust and name not in (TELLBACK, *TABLE_FORMATS) else []
    if unused:
        raise typer.BadParameter(f"does not apply to the format {name}", param_hint=unused[0])


def _source_files(source: ConversationSource, files: Sequence[Path]) -> list[Path]:
    """Return the files with conversations of *source*: those in *files*, or without any, in its default places."""
    from tellback.agent.assistant.clients.registry import HOOK_CLIENTS
    from tellback.agent.assistant.importers.export_files import export_files
    from tellback.agent.assistant.importers.registry import LLM

    client = next((client for client in HOOK_CLIENTS if client.name == source.name), None)
    if client is not None:
        paths = [path for file in files for path in ([file] if file.is_file() else client.transcripts(file))]
        paths = paths if files else [*client.transcripts(), *client.archives()]
        place = str(client.folder)
    elif source is LLM:
        place = str(LLM.database)
        paths = list(files) or [path for path in [LLM.database] if path.is_file()]
    elif files:
        paths = [path for file in files for path in export_files(file)]
    else:
        raise typer.BadParameter(f"the export of {source.title} is needed", param_hint="FILE")
    if not paths:
        print_note(f"tellback: no conversation of {source.title} is in {', '.join(map(str, files)) or place}")
    return paths


@contextmanager
def _opened_for(context: typer.Context, *, dry_run: bool) -> Iterator[OpenedMemory]:
    """Open the memory; for a dry run without one, an empty temporary one."""
    options = global_options(context)
    with ExitStack() as stack:
        if dry_run and not options.configuration().settings.is_begun:
            empty = Path(stack.enter_context(TemporaryDirectory())) / "empty.db"
            context.obj = replace(options, flags={**options.flags, "memory": str(empty)})
        yield stack.enter_context(opened_memory(context, create=True))


def _import_conversations(
    context: typer.Context, source: ConversationSource, paths: Sequence[Path], options: ImportOptions
) -> None:
    from tellback.agent.assistant.hooks.transcript_import import import_transcripts

    with (
        _opened_for(context, dry_run=options.dry_run or not paths) as opened,
        progress_bar("importing", quiet=options.quiet or options.json, in_bytes=True) as advance,
    ):
        report = run(
            import_transcripts(
                source,
                paths,
                memory=opened.memory,
                settings=opened.settings,
                dry_run=options.dry_run,
                on_progress=advance,
            )
        )
    if options.json:
        print_json(asdict(report))
    else:
        would = "would keep" if options.dry_run else "kept"
        conversations = format_count(report.conversations, "conversation")
        print_text(f"{would} {format_count(report.kept, 'message')} of {conversations}")
        _print_counts({"known already": report.known, "forgotten since they were said": report.forgotten})
        _print_counts({f"not typed by you, {kind}": count for kind, count in sorted(report.untyped.items())})
        if report.off:
            print_text(f"  of projects where hooks are off: {format_count(report.off, 'conversation')}")
        for place, reason in report.unreadable.items():
            print_note(f"  {place}: {reason}")
    if report.unreadable:
        raise typer.Exit(EXIT_PARTIAL if report.conversations else EXIT_USAGE)


def _import_export(context: typer.Context, file: Path, options: ImportOptions) -> None:
    """Take in the export *file* of a memory, batch by batch; with the trust that it states once that is confirmed."""
    if options.trust == "user":
        raise typer.BadParameter("say --mine on a terminal if the export is your own", param_hint="--trust")
    if options.mine and not sys.stdin.isatty():
        problem = "is asked on a terminal, so that no script and no model can say it"
        raise typer.BadParameter(problem, param_hint="--mine")
    if options.mine:
        confirm_or_exit(f"{file}: {_MINE_QUESTION}", "nothing was imported")
    from tellback.memory.internals import BackfillReport

    with opened_memory(context, create=not options.dry_run) as opened:
        with progress_bar("importing", quiet=options.quiet or options.json) as advance:
            report = run(
                opened.memory.import_(
                    file,
                    mode=options.mode,
                    trust="user" if options.mine else options.trust,
                    namespace=opened.namespace,
                    dry_run=options.dry_run,
                    on_progress=advance,
                )
            )
        to_embed = report.pending and not options.dry_run
        embedded = run(opened.memory.flush(namespace=opened.namespace)) if to_embed else BackfillReport()
    if options.json:
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


def _import_tables(context: typer.Context, format: TableFormat, files: Sequence[Path], options: ImportOptions) -> None:
    from tellback.agent.assistant.importers.tables import WITHOUT_TEXT, ColumnNames, TableReport, import_table
    from tellback.memory import Trust

    report = TableReport(format, options.dry_run)
    columns = ColumnNames(text=options.text, time=options.time, tags=options.tags)
    trust = Trust(options.trust or Trust.DOCUMENT)
    sizes = [file.stat().st_size for file in files]
    with (
        _opened_for(context, dry_run=options.dry_run) as opened,
        progress_bar("importing", quiet=options.quiet or options.json, in_bytes=True) as advance,
    ):
        for number, file in enumerate(files):

            def on_progress(position: int, before: int = sum(sizes[:number]), name: str = file.name) -> None:
                advance(before + position, sum(sizes), name)

            run(
                import_table(
                    file,
                    report,
                    memory=opened.memory,
                    namespace=opened.namespace,
                    columns=columns,
                    trust=trust,
                    on_progress=on_progress,
                )
            )
    if options.json:
        print_json(asdict(report))
    else:
        _print_table_report(report, trust=trust, asked=options.trust is not None)
    if set(report.skipped) - {WITHOUT_TEXT}:
        raise typer.Exit(EXIT_PARTIAL)


def _print_table_report(report: TableReport, *, trust: str, asked: bool) -> None:
    would = "would keep" if report.dry_run else "kept"
    print_text(f"{would} {format_count(report.kept, 'memory', 'memories')} of {format_count(report.rows, 'row')}")
    _print_counts({"known already": report.known, "forgotten since": report.forgotten, "redacted": report.redacted})
    _print_counts({f"kept, {reason}": count for reason, count in report.noted.items()})
    for reason, count in report.skipped.items():
        print_note(f"  left out, {reason}: {count}")
    if report.kept and not asked:
        print_note(f"  trusted as a {trust}; `--trust user` if the words are your own")


def _print_counts(counts: Mapping[str, int]) -> None:
    for what, count in counts.items():
        if count:
            print_text(f"  {what}: {count}")
