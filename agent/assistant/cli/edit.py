"""``tellback correct``, and ``tellback memories pin``, ``tag``, ``expire``, ``merge`` and the like: changes of
memories.

Each can be undone. The old version of a corrected memory stays in its history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.json_output import report_json
from agent.assistant.cli.output import format_minute, print_json, print_note, print_text
from agent.assistant.cli.parsing import parse_time
from agent.assistant.cli.prompts import AllowSensitiveOption, confirm_sensitive, is_any_sensitive, read_text_argument

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory.internals import Operation


@with_error_report
def correct(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory; recall and memories list show ids.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should say; '-' reads it from standard input.")],
    valid_from: Annotated[str | None, typer.Option(metavar="TIME", help="Since when that holds.")] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="TIME", help="Until when that holds.")] = None,
    allow_sensitive: AllowSensitiveOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put TEXT in the place of memory ID.

    The old version stays in its history. What looks like a secret is asked about as by `remember`, unless the memory
    is marked already.
    """
    words = read_text_argument(text, name="TEXT", what="what it should say")
    start, stop = parse_time(valid_from, name="--valid-from"), parse_time(valid_to, name="--valid-to")
    from memory import run_sync

    with opened_memory(context) as opened:
        marked = is_any_sensitive(opened, [id]) or confirm_sensitive(words, allowed=allow_sensitive)
        report = run_sync(
            opened.memory.correct(
                id, words, valid_from=start, valid_to=stop, sensitive=marked, namespace=opened.namespace
            )
        )
    if json:
        print_json(report_json(report))
        return
    if report.operation is None:
        print_text(f"nothing to change: {report.id}")
        return
    detail = str(report).removeprefix("stored").lstrip(", ")
    print_text(f"corrected {report.id}" + (f": {detail}" if detail else ""))
    for derived in report.made:
        print_text(f"made of it: {derived.id}: {derived}")
    for retired in report.retired:
        print_text(f"had been made of the old words, and went to the archive: {retired}")
    print_note(f"take it back with: tellback undo {report.operation}")


_IdsArgument = Annotated[list[str], typer.Argument(metavar="ID", help="Which memories: one id or several.")]
_IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Which memory.")]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_TagsOption = Annotated[list[str], typer.Option("--tag", metavar="TAG", help="Which tag; may be repeated.")]


@with_error_report
def pin(context: typer.Context, ids: _IdsArgument, json: _JsonOption = False) -> None:
    """Pin memories: the assistant is shown them always."""
    _apply_change(context, ids, "pinned", lambda opened: opened.memory.pin(ids, namespace=opened.namespace), json=json)


@with_error_report
def unpin(context: typer.Context, ids: _IdsArgument, json: _JsonOption = False) -> None:
    """Unpin memories."""
    _apply_change(
        context, ids, "unpinned", lambda opened: opened.memory.unpin(ids, namespace=opened.namespace), json=json
    )


@with_error_report
def disable(context: typer.Context, ids: _IdsArgument, json: _JsonOption = False) -> None:
    """Keep memories out of every answer; they stay and are listed."""
    _apply_change(
        context, ids, "disabled", lambda opened: opened.memory.disable(ids, namespace=opened.namespace), json=json
    )


@with_error_report
def enable(context: typer.Context, ids: _IdsArgument, json: _JsonOption = False) -> None:
    """Let disabled memories be found again."""
    _apply_change(
        context, ids, "enabled", lambda opened: opened.memory.enable(ids, namespace=opened.namespace), json=json
    )


@with_error_report
def tag(context: typer.Context, ids: _IdsArgument, tags: _TagsOption, json: _JsonOption = False) -> None:
    """Add tags to memories."""
    _apply_change(
        context, ids, "tagged", lambda opened: opened.memory.tag(ids, tags, namespace=opened.namespace), json=json
    )


@with_error_report
def untag(context: typer.Context, ids: _IdsArgument, tags: _TagsOption, json: _JsonOption = False) -> None:
    """Take tags off memories."""
    _apply_change(
        context, ids, "untagged", lambda opened: opened.memory.untag(ids, tags, namespace=opened.namespace), json=json
    )


@with_error_report
def importance(
    context: typer.Context,
    ids: _IdsArgument,
    weight: Annotated[str, typer.Option("--set", metavar="NUMBER", help="From 0 to 1, or 'none'.")],
    json: _JsonOption = False,
) -> None:
    """Say how much memories matter: more than others, or less."""
    value = _parse_importance(weight)

    def change(opened: OpenedMemory) -> Awaitable[Operation | None]:
        return opened.memory.set_importance(ids, value, namespace=opened.namespace)

    _apply_change(context, ids, "importance none:" if value is None else f"importance {value:g}:", change, json=json)


@with_error_report
def expire(
    context: typer.Context,
    ids: _IdsArgument,
    at: Annotated[str, typer.Option(metavar="TIME", help="From when on they are in no answer, or 'never'.")],
    json: _JsonOption = False,
) -> None:
    """Let memories be in no answer from a time on.

    They are kept and listed; `tellback forget` removes them.
    """
    moment = None if at == "never" else parse_time(at, name="--at")

    def change(opened: OpenedMemory) -> Awaitable[Operation | None]:
        return opened.memory.expire(ids, moment, namespace=opened.namespace)

    _apply_change(
        context, ids, "never expires:" if moment is None else f"expires {format_minute(moment)}:", change, json=json
    )


@with_error_report
def end(
    context: typer.Context,
    id: _IdArgument,
    at: Annotated[str, typer.Option(metavar="TIME", help="Until when it holds, or 'never'.")],
    json: _JsonOption = False,
) -> None:
    """Say until when memory ID holds.

    Asked for an earlier time (`tellback recall --as-of`), it is found.
    """
    moment = None if at == "never" else parse_time(at, name="--at")
    from memory import run_sync

    with opened_memory(context) as opened:
        report = run_sync(opened.memory.end(id, moment, namespace=opened.namespace))
    if json:
        print_json(report_json(report))
    elif report.operation is None:
        print_text(f"nothing to change: {id}")
    else:
        print_text(f"{id} holds " + ("without an end" if moment is None else f"until {format_minute(moment)}"))
        _print_undo_hint(report.operation)


@with_error_report
def merge(
    context: typer.Context,
    ids: _IdsArgument,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="What they say together; '-' reads it.")],
    allow_sensitive: AllowSensitiveOption = False,
    json: _JsonOption = False,
) -> None:
    """Make one memory of several.

    The first says TEXT and keeps its id, the others go to the archive and are found no more. What looks like a secret
    is asked about as by `remember`, unless one of them is marked already.
    """
    words = read_text_argument(text, name="--text", what="what they say together")
    from memory import run_sync

    with opened_memory(context) as opened:
        marked = is_any_sensitive(opened, ids) or confirm_sensitive(words, allowed=allow_sensitive)
        report = run_sync(opened.memory.merge(ids, words, sensitive=marked, namespace=opened.namespace))
    if json:
        print_json({**report_json(report), "merged": ids[1:]})
        return
    print_text(f"merged into {report.id}: {', '.join(ids[1:])}")
    if report.deferred:
        print_note(f"found by its words only for now: {report.deferred}")
    _print_undo_hint(report.operation)


def _apply_change(
    context: typer.Context,
    ids: list[str],
    what: str,
    change: Callable[[OpenedMemory], Awaitable[Operation | None]],
    *,
    json: bool,
) -> None:
    from memory import run_sync

    with opened_memory(context) as opened:
        operation = run_sync(change(opened))
    changed = [] if operation is None else [change.id for change in operation.changes]
    if json:
        print_json({"operation": None if operation is None else operation.id, "changed": changed, "ids": ids})
        return
    if changed:
        print_text(f"{what} {', '.join(changed)}")
    if unchanged := [id for id in dict.fromkeys(ids) if id not in changed]:
        print_text(f"nothing to change: {', '.join(unchanged)}")
    _print_undo_hint(None if operation is None else operation.id)


def _print_undo_hint(operation: str | None) -> None:
    if operation is not None:
        print_note(f"take it back with: tellback undo {operation}")


def _parse_importance(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"a number from 0 to 1, or 'none', is needed, got {text!r}", param_hint="--set"
        ) from None
