"""``tellback forget``: removal of memories with all versions and all messages that hold their words, and its proof."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import EXIT_FAILED, with_error_report
from agent.assistant.cli.json_output import receipt_json
from agent.assistant.cli.output import format_count, format_minute, one_line, print_json, print_note, print_text
from agent.assistant.cli.parsing import parse_duration, parse_filter, parse_scopes, parse_time_or_duration
from agent.assistant.cli.prompts import confirm, require_terminal_or_yes

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Receipt

_LISTED_MEMORIES = 20


@with_error_report
def forget(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Which memories.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="All of a session.")] = None,
    document: Annotated[str | None, typer.Option(metavar="SOURCE", help="All of a document.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="All from a session or a document.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="With any of these tags.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of every one of these scopes.")] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Those that a filter matches.")] = None,
    older_than: Annotated[str | None, typer.Option(metavar="AGE", help="Older than 30d, 2w, or a day.")] = None,
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="What a question finds; asks for each set.")] = None,
    count: Annotated[int, typer.Option("-k", metavar="COUNT", min=1, help="With --query: how many at most.")] = 10,
    everything: Annotated[bool, typer.Option("--everything", help="All of the namespace.")] = False,
    grace: Annotated[str | None, typer.Option(metavar="TIME", help="Can be taken back for so long: 12h, 30d.")] = None,
    take_back: Annotated[str | None, typer.Option(metavar="OPERATION", help="Take one back in its grace.")] = None,
    remove_backups: Annotated[bool, typer.Option("--remove-backups", help="Remove recorded backups, too.")] = False,
    receipt: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the receipt to FILE.")] = None,
    verify: Annotated[Path | None, typer.Option(metavar="FILE", help="Prove what a receipt says.")] = None,
    text: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="With --verify: these words.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove memories for good.

    With them go their versions, what was made from them alone, and every message that holds their words. All that is
    named must hold; --query lists what a question finds, and needs a yes on a terminal.
    """
    named: dict[str, Any] = {
        "ids": ids or None,
        "session": session,
        "document": document,
        "source": source,
        "tags": tag or (),
        "scopes": parse_scopes(scope or [], name="--scope"),
        "where": parse_filter(where, name="--where"),
        "older_than": None if older_than is None else parse_time_or_duration(older_than, name="--older-than"),
    }
    selects = any(value not in (None, ()) for value in named.values()) or query is not None
    _require_one_selection(
        {"--verify": verify, "--take-back": take_back, "--everything": everything, "a selection": selects}
    )
    if receipt is not None and receipt.exists():
        raise typer.BadParameter(f"{receipt} is there already", param_hint="--receipt")
    if text and verify is None:
        raise typer.BadParameter("belongs to --verify", param_hint="--text")
    with opened_memory(context) as place:
        if verify is not None:
            _verify_receipt(place, verify, text or [], json=json)
            return
        if take_back is not None:
            _restore_forgotten(place, take_back, json=json)
            return
        if query is not None and not dry_run:
            named = _confirmed_query_ids(place, named, query, count, yes=yes)
        elif query is not None:
            named |= {"query": query, "k": count}
        lasting: dict[str, Any] = {"remove_backups": remove_backups}
        if grace is not None:
            lasting |= {"grace": parse_duration(grace, name="--grace")}
        done = _forget_confirmed(
            place, _forget_call(place, named, everything=everything), lasting, dry_run=dry_run, yes=yes
        )
        if receipt is not None and not done.dry_run:
            _write_receipt_file(receipt, done)
        _print_receipt(place, done, dry_run=dry_run, json=json)


def _forget_call(place: OpenedMemory, named: dict[str, Any], *, everything: bool) -> Callable[..., Receipt]:
    from memory import run_sync

    memory, namespace = place.memory, place.namespace
    if everything:
        return lambda **options: run_sync(memory.forget_namespace(namespace, **options))
    return lambda **options: run_sync(memory.forget(namespace=namespace, **named, **options))


def _forget_confirmed(
    place: OpenedMemory, call: Callable[..., Receipt], lasting: dict[str, Any], *, dry_run: bool, yes: bool
) -> Receipt:
    plan = call(dry_run=True)
    if dry_run or not (plan.ids or plan.messages or plan.versions):
        return plan
    require_terminal_or_yes(yes=yes)
    if not yes:
        for line in _memory_lines(place, plan):
            print_note(f"  {line}")
        if not confirm(f"{_receipt_counts(plan)} will be gone for good. Go on?"):
            print_note("tellback: nothing was forgotten")
            raise typer.Exit(EXIT_FAILED)
    return call(**lasting)


def _confirmed_query_ids(
    place: OpenedMemory, named: dict[str, Any], query: str, count: int, *, yes: bool
) -> dict[str, Any]:
    """Return the ids that a question finds, once they were seen: --yes alone is no yes to what nobody has looked at."""
    from memory import run_sync

    if yes:
        raise typer.BadParameter("--yes needs ids; see them with --dry-run first", param_hint="--query")
    require_terminal_or_yes(yes=False)
    plan = run_sync(place.memory.forget(namespace=place.namespace, **named, query=query, k=count, dry_run=True))
    if not plan.memories:
        print_note("tellback: nothing was found")
        raise typer.Exit(EXIT_FAILED)
    return {"ids": plan.memories}


def _verify_receipt(place: OpenedMemory, path: Path, texts: list[str], *, json: bool) -> None:
    from memory import read_receipt, run_sync

    verified = run_sync(place.memory.verify_forgotten(read_receipt(_read_receipt_file(path)), texts))
    if json:
        left = [{"where": one.where, "what": one.what} for one in verified.left]
        seen = {"rows": verified.rows, "files": list(verified.files), "texts": verified.texts}
        print_json({"gone": verified.gone, "left": left, **seen, "notes": list(verified.notes)})
    else:
        files = format_count(len(verified.files), "file")
        state = "gone" if verified.gone else "not gone"
        print_text(f"{state}: {format_count(verified.rows, 'row')} and {files} looked through")
        for one in verified.left:
            print_text(f"  {one.where}: {one.what}")
        for remark in verified.notes:
            print_note(f"  {remark}")
    if not verified.gone:
        raise typer.Exit(EXIT_FAILED)


def _restore_forgotten(place: OpenedMemory, operation: str, *, json: bool) -> None:
    from memory import run_sync

    done = run_sync(place.memory.restore_forgotten(operation, namespace=place.namespace))
    if json:
        print_json({"operation": done.id, "undoes": operation, "memories": [one.id for one in done.changes]})
    else:
        print_text(f"brought back {format_count(len(done.changes), 'memory', 'memories')}")


def _require_one_selection(given: dict[str, Any]) -> None:
    named = [option for option, value in given.items() if value]
    if len(named) > 1:
        raise typer.BadParameter(f"{' and '.join(named)} do not go together")
    if not named:
        raise typer.BadParameter("an ID, or what else is to be forgotten, is needed", param_hint="ID")


def _read_receipt_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read", param_hint="--verify") from error


def _write_receipt_file(path: Path, receipt: Receipt) -> None:
    from memory import receipt_text

    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(receipt_text(receipt) + "\n")
    print_note(f"the receipt is in {path}; check with: tellback forget --verify {path}")


def _print_receipt(place: OpenedMemory, done: Receipt, *, dry_run: bool, json: bool) -> None:
    if json:
        print_json({**receipt_json(done), "dry_run": dry_run})
        return
    something = done.ids or done.messages or done.versions
    if not something:
        print_text("forgotten already, or never there")
    elif dry_run:
        print_text(f"would forget {_receipt_counts(done)}")
        for line in _memory_lines(place, done):
            print_text(f"  {line}")
    else:
        print_text(f"forgot {_receipt_counts(done)}")
    if done.due is not None and something:
        print_note(f"can be taken back until {format_minute(done.due)}: tellback forget --take-back {done.operation}")
    if done.named:
        print_note(f"made with what goes, and kept: {', '.join(done.named)}")
    for one in done.unreached if something else ():
        print_note(f"{one.kind} {one.path}: {'removed' if one.removed else one.note or 'may still hold it'}")
    if done.pending:
        print_note("another process is reading; the last bytes go when it is done")


def _memory_lines(place: OpenedMemory, plan: Receipt) -> list[str]:
    """Return a line for each memory that would go, the first ones."""
    from memory import run_sync

    found = run_sync(place.memory.get(plan.ids[:_LISTED_MEMORIES], namespace=place.namespace))
    lines = [f"{one.id}  {one_line(one.text)}" for one in found if one is not None]
    return [*lines, *([f"and {len(plan.ids) - _LISTED_MEMORIES} more"] if len(plan.ids) > _LISTED_MEMORIES else [])]


def _receipt_counts(receipt: Receipt) -> str:
    """Return what a receipt counts, in words."""
    counts = (
        (len(receipt.memories), "memory", "memories"),
        (receipt.versions, "older version", ""),
        (len(receipt.derived), "memory made from it alone", "memories made from it alone"),
        (len(receipt.also), "other memory with the same words", "other memories with the same words"),
        (receipt.messages, "message", ""),
    )
    return ", ".join(format_count(count, one, several) for count, one, several in counts if count)
