"""``tellback forget``: removal of memories with all versions and all messages that hold their words, and its proof."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import EXIT_FAILED
from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.cli.options import (
    JsonOption,
    YesOption,
    parse_filter,
    parse_scopes,
    with_options,
)
from tellback.agent.assistant.cli.output import (
    fit_line,
    format_count,
    format_day,
    format_minute,
    one_line,
    print_json,
    print_note,
    print_text,
)
from tellback.agent.assistant.cli.prompts import choose, confirm_or_exit, require_terminal_or_yes
from tellback.agent.assistant.cli.short_ids import resolve_ids, resolve_operation, resolve_session
from tellback.agent.assistant.cli.times import parse_duration, parse_time
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.agent.desk.consent import Person
    from tellback.memory import Memory, Receipt

_LISTED_MEMORIES = 20
_LIST_INDENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """Arguments and options of ``tellback forget``."""

    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Which memories.")] = None
    session: Annotated[str | None, typer.Option(metavar="ID", help="All of a session.")] = None
    document: Annotated[str | None, typer.Option(metavar="SOURCE", help="All of a document.")] = None
    source: Annotated[str | None, typer.Option(metavar="NAME", help="All from a session or a document.")] = None
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="With any of these tags.")] = None
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of every one of these scopes.")] = None
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Those that a filter matches.")] = None
    older_than: Annotated[str | None, typer.Option(metavar="AGE", help="Older than 30d, 2w, or a day.")] = None
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="What a question finds; asks for each set.")] = None
    count: Annotated[int, typer.Option("-k", metavar="COUNT", min=1, help="With --query: how many at most.")] = 10
    everything: Annotated[bool, typer.Option("--everything", help="All of the namespace.")] = False
    grace: Annotated[str | None, typer.Option(metavar="TIME", help="Can be taken back for so long: 12h, 30d.")] = None
    take_back: Annotated[str | None, typer.Option(metavar="OPERATION", help="Take one back in its grace.")] = None
    remove_backups: Annotated[bool, typer.Option("--remove-backups", help="Remove recorded backups, too.")] = False
    receipt: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the receipt to FILE.")] = None
    verify: Annotated[Path | None, typer.Option(metavar="FILE", help="Prove what a receipt says.")] = None
    text: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="With --verify: these words.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False
    yes: YesOption = False
    json: JsonOption = False

    def selection(self) -> dict[str, Any]:
        """Return the arguments of ``LongTermMemory.forget`` that name memories, but for the query's."""
        return {
            "ids": self.ids or None,
            "session": self.session,
            "document": self.document,
            "source": self.source,
            "tags": self.tag or (),
            "scopes": parse_scopes(self.scope or [], name="--scope"),
            "where": parse_filter(self.where, name="--where"),
            "older_than": parse_time(self.older_than, name="--older-than"),
        }

    def check(self, selection: Mapping[str, Any]) -> None:
        """Refuse options that do not go together."""
        selects = any(value not in (None, ()) for value in selection.values()) or self.query is not None
        options = {"--verify": self.verify, "--take-back": self.take_back, "--everything": self.everything}
        named = [option for option, value in {**options, "a selection": selects}.items() if value]
        if len(named) > 1:
            raise typer.BadParameter(f"{' and '.join(named)} do not go together")
        if not named:
            raise typer.BadParameter(
                "an ID, a number of the last list (2 or '#2'), or an option that selects memories is needed",
                param_hint="ID",
            )
        if self.receipt is not None and self.receipt.exists():
            raise typer.BadParameter(f"{self.receipt} is there already", param_hint="--receipt")
        if self.receipt is not None and not self.receipt.parent.is_dir():  # else it would be lost after the forgetting
            raise typer.BadParameter(f"{self.receipt.parent}: no such folder", param_hint="--receipt")
        if self.text and self.verify is None:
            raise typer.BadParameter("belongs to --verify", param_hint="--text")


@with_options(ForgetOptions)
def forget(context: typer.Context, options: ForgetOptions) -> None:
    """Remove memories for good.

    With them go their versions, what was made from them alone, and every message that holds their words. All that is
    named must hold; --query lists what a question finds, and needs a yes on a terminal.
    """
    selection = options.selection()
    options.check(selection)
    with opened_memory(context) as opened:
        if options.ids:
            selection["ids"] = resolve_ids(opened, options.ids, changes=True)
        if options.session is not None:
            selection["session"] = resolve_session(opened, options.session)
        if options.verify is not None:
            _verify_receipt(opened, options.verify, options.text or [], json=options.json)
        elif options.take_back is not None:
            _restore_forgotten(opened, resolve_operation(opened, options.take_back), json=options.json)
        else:
            if options.query is not None:
                selection = _query_selection(opened, selection, options.query, options)
            receipt, also = _forget_confirmed(opened, selection, options)
            if options.receipt is not None and not receipt.dry_run:
                _write_receipt_file(options.receipt, receipt)
            _print_receipt(opened, receipt, also, dry_run=options.dry_run, json=options.json)


def _forget_confirmed(
    opened: OpenedMemory, selection: dict[str, Any], options: ForgetOptions
) -> tuple[Receipt, list[str]]:
    """Return the receipt, and a line for each of the first other memories that went because they repeat the words."""
    from tellback.agent.desk.consent import Person, agree_as_asked

    grace = None if options.grace is None else parse_duration(options.grace, name="--grace")
    chosen: dict[str, Any] = {"everything": True} if options.everything else selection

    def forget(by: Person) -> Receipt:
        work = opened.desk.forget(
            by, **chosen, grace=grace, remove_backups=options.remove_backups, dry_run=options.dry_run
        )
        change = run(work)
        assert change.receipt is not None
        return change.receipt

    plan = forget(Person())
    also = [] if options.json else _memory_lines(opened, plan.also, words=False)
    if options.dry_run or not (plan.ids or plan.messages or plan.versions):
        return plan, also
    require_terminal_or_yes(yes=options.yes)
    if not options.yes:
        for line in _memory_lines(opened, (*plan.memories, *plan.derived)):
            print_note(f"  {line}")
        for line in also:
            print_note(f"  with the same words: {line}")
        confirm_or_exit(f"{_receipt_counts(plan)} will be gone for good. Go on?", "nothing was forgotten")
    return forget(Person(agree_as_asked)), also


def _query_selection(
    opened: OpenedMemory, selection: dict[str, Any], query: str, options: ForgetOptions
) -> dict[str, Any]:
    """Return the selection by *query*: for a dry run the query itself, else the ids that the user chose of its hits.

    ``--yes`` is refused: nobody has seen what the query finds.
    """
    by_query = {**selection, "query": query, "k": options.count}
    if options.dry_run:
        return by_query
    if options.yes:
        raise typer.BadParameter("--yes needs ids; see them with --dry-run first", param_hint="--query")
    require_terminal_or_yes(yes=False)
    plan = run(opened.memory.forget(namespace=opened.namespace, **by_query, dry_run=True))
    if not plan.memories:
        print_note("tellback: nothing was found")
        raise typer.Exit(EXIT_FAILED)
    lines = _memory_lines(opened, plan.memories, limit=len(plan.memories))
    for number, line in enumerate(lines, start=1):
        print_note(f"{number:>3}  {line}")
    numbers = choose(len(plan.memories), "Which are to be forgotten? Such as 1 3-5, all, all -2; Enter for none:")
    if not numbers:
        print_note("tellback: nothing was forgotten")
        raise typer.Exit(EXIT_FAILED)
    return {"ids": [plan.memories[number - 1] for number in numbers]}


def _verify_receipt(opened: OpenedMemory, path: Path, texts: list[str], *, json: bool) -> None:
    from tellback.memory import read_receipt

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read", param_hint="--verify") from error
    verified = run(opened.memory.verify_forgotten(read_receipt(text), texts))
    if json:
        print_json(verified)
    else:
        files = format_count(len(verified.files), "file")
        state = "gone" if verified.gone else "not gone"
        print_text(f"{state}: {format_count(verified.rows, 'row')} and {files} looked through")
        for remnant in verified.left:
            print_text(f"  {remnant.where}: {remnant.what}")
        for note in verified.notes:
            print_note(f"  {note}")
    if not verified.gone:
        raise typer.Exit(EXIT_FAILED)


def _restore_forgotten(opened: OpenedMemory, operation: str, *, json: bool) -> None:
    restoration = run(opened.memory.restore_forgotten(operation, namespace=opened.namespace))
    if json:
        ids = [change.id for change in restoration.changes]
        print_json({"operation": restoration.id, "undoes": operation, "memories": ids})
    else:
        print_text(f"brought back {format_count(len(restoration.changes), 'memory', 'memories')}")


def _write_receipt_file(path: Path, receipt: Receipt) -> None:
    from tellback.memory import receipt_text

    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(receipt_text(receipt) + "\n")
    print_note(f"the receipt is in {path}; check with:", command=f"tellback forget --verify {path}")


def _print_receipt(opened: OpenedMemory, receipt: Receipt, also: list[str], *, dry_run: bool, json: bool) -> None:
    if json:
        print_json({**json_object(receipt), "dry_run": dry_run})
        return
    forgotten = receipt.ids or receipt.messages or receipt.versions
    if receipt.spared:
        pinned = format_count(receipt.spared, "pinned memory", "pinned memories")
        print_note(f"{pinned} spared: name the ids, or 'pinned' in the filter, to forget them too")
    if not forgotten:
        print_text("forgotten already, or never there")
    elif dry_run:
        print_text(f"would forget {_receipt_counts(receipt)}")
        for line in _memory_lines(opened, (*receipt.memories, *receipt.derived)):
            print_text(f"  {line}")
    else:
        print_text(f"forgot {_receipt_counts(receipt)}")
    for line in also:
        print_text(f"  with the same words: {line}")
    if receipt.due is not None and forgotten:
        print_note(
            f"can be taken back until {format_minute(receipt.due)}: tellback forget --take-back {receipt.operation}"
        )
    if receipt.named:
        print_note(f"derived from other memories too, and kept: {', '.join(receipt.named)}")
    for copy in receipt.unreached if forgotten else ():
        print_note(f"{copy.kind} {copy.path}: {'removed' if copy.removed else copy.note or 'may still hold it'}")
    if receipt.pending:
        print_note("another process is reading; the last bytes go when it is done")


def _memory_lines(
    opened: OpenedMemory, ids: Sequence[str], *, limit: int = _LISTED_MEMORIES, words: bool = True
) -> list[str]:
    """Return a line with id and origin, and the text if *words*, for each of the first *limit* memories."""
    lines = []
    for memory in filter(None, run(opened.memory.get(ids[:limit], namespace=opened.namespace))):
        line = f"{short_id(memory.id)}  {_origin(memory)}"
        lines.append(fit_line(f"{line}  {one_line(memory.text)}", indent=_LIST_INDENT) if words else line)
    return [*lines, f"and {len(ids) - limit} more"] if len(ids) > limit else lines


def _origin(memory: Memory) -> str:
    """Return the document of a passage, or the day of a memory."""
    if memory.source is not None and memory.source.document is not None:
        return one_line(memory.source.document)
    return format_day(memory.occurred_at or memory.recorded_at)


def _receipt_counts(receipt: Receipt) -> str:
    """Return the counts of *receipt* in words."""
    counts = (
        (len(receipt.memories), "memory", "memories"),
        (receipt.versions, "older version", ""),
        (len(receipt.derived), "memory made from it alone", "memories made from it alone"),
        (len(receipt.also), "other memory with the same words", "other memories with the same words"),
        (receipt.messages, "message", ""),
    )
    return ", ".join(format_count(count, singular, plural) for count, singular, plural in counts if count)
