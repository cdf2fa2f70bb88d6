"""``tellback undo`` and ``tellback memories operations``: the operation log, and taking an operation back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import EXIT_FAILED, with_error_report
from agent.assistant.cli.json_output import operation_json
from agent.assistant.cli.output import format_minute, one_line, print_json, print_note, print_table, print_text
from agent.assistant.cli.prompts import confirm, require_terminal_or_yes
from agent.assistant.cli.text import operation_line

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory.internals import Operation

_DEFAULT_OPERATION_LIMIT = 20
_OPERATION_PAGE = 100
_LISTED_IDS = 5


@with_error_report
def undo(
    context: typer.Context,
    operation: Annotated[
        str | None,
        typer.Argument(metavar="[OPERATION]", help="Its id; without one the last that stands, after a question."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take back what was done: all of it, or nothing.

    Undoing an undo does it again; `tellback memories operations` lists what was done. What was forgotten is gone for
    good, unless a time of grace (`tellback forget --grace`) lasts.
    """
    from memory import run_sync

    with opened_memory(context) as opened:
        if operation is None:
            require_terminal_or_yes(yes=yes)
            last = _last_operation(opened)
            if not yes:
                for line in _operation_lines(opened, last):
                    print_note(line)
                if not confirm("Take this back?"):
                    print_note("tellback: nothing was undone")
                    raise typer.Exit(EXIT_FAILED)
            operation = last.id
        done = run_sync(opened.memory.undo(operation, namespace=opened.namespace))
        lines = [] if json else _operation_lines(opened, done)
    if json:
        print_json(operation_json(done))
        return
    print_text(f"took back {operation}")
    for line in lines[1:]:
        print_text(line)
    print_note(f"do it again with: tellback undo {done.id}")


@with_error_report
def operations(
    context: typer.Context,
    memory: Annotated[str | None, typer.Option(metavar="ID", help="Only on this memory.")] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)] = _DEFAULT_OPERATION_LIMIT,
    before: Annotated[str | None, typer.Option(metavar="OPERATION", help="Go on behind this one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what was done, the newest first."""
    from memory import run_sync

    with opened_memory(context) as opened:
        log = opened.memory.operations(memory=memory, before=before, limit=limit + 1, namespace=opened.namespace)
        found = run_sync(log)
    page, more = found[:limit], len(found) > limit
    if json:
        last = page[-1].id if more else None
        print_json({"operations": [operation_json(listed) for listed in page], "next": last})
        return
    if not page:
        nothing = "Nothing was done yet." if memory is None else f"Nothing is known of a memory {memory}."
        print_text(nothing if before is None else "No more.")
        return
    print_table(("id", "when", "what", "who", "memories"), [_operation_row(listed) for listed in page], whole=1)
    if more:
        print_note(f"go on with: tellback memories operations --before {page[-1].id}")


def _last_operation(opened: OpenedMemory) -> Operation:
    """Return the last operation that is neither an undo nor undone."""
    from memory import run_sync

    before: str | None = None
    while True:
        page = run_sync(opened.memory.operations(before=before, limit=_OPERATION_PAGE, namespace=opened.namespace))
        for operation in page:
            if operation.undoes is None and operation.undone_by is None:
                return operation
        if len(page) < _OPERATION_PAGE:
            raise typer.BadParameter("there is nothing to take back", param_hint="OPERATION")
        before = page[-1].id


def _operation_lines(opened: OpenedMemory, operation: Operation) -> list[str]:
    """Return lines about an operation: itself, and the first of its memories."""
    from memory import run_sync

    ids = [change.id for change in operation.changes]
    found = run_sync(opened.memory.get(ids[:_LISTED_IDS], namespace=opened.namespace))
    lines = [
        f"  {id}  {one_line(memory.text) if memory is not None else 'not in any answer now'}"
        for id, memory in zip(ids, found, strict=False)
    ]
    if len(ids) > _LISTED_IDS:
        lines.append(f"  and {len(ids) - _LISTED_IDS} more")
    return [operation_line(operation), *lines]


def _operation_row(operation: Operation) -> tuple[str, str, str, str, str]:
    what = operation.kind + (" (taken back)" if operation.undone_by else "")
    ids = [change.id for change in operation.changes]
    shown = ", ".join(ids[:_LISTED_IDS]) + (f" and {len(ids) - _LISTED_IDS} more" if len(ids) > _LISTED_IDS else "")
    return (operation.id, format_minute(operation.at), what, operation.actor, shown)
