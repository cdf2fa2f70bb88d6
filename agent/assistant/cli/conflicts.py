"""``tellback memories settle``: of contradicting memories one holds, the others hold no longer."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.command_context import opened_memory, run
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.options import JsonOption
from agent.assistant.cli.output import format_minute, one_line, print_json, print_note, print_text
from agent.assistant.cli.short_ids import resolve_id, resolve_ids, short_id


@with_error_report
def settle(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Which memories: two ids or more.")],
    keep: Annotated[
        str, typer.Option(metavar="WHICH", help="What holds: newest, most-trusted, or one of the ids.")
    ] = "newest",
    json: JsonOption = False,
) -> None:
    """Let one of several contradicting memories hold.

    Older ones end at the time of the one that is kept, and answer questions about their own time; a later one that is
    not kept goes to the archive.
    """
    with opened_memory(context) as opened:
        ids = resolve_ids(opened, ids, changes=True)
        choice = {"newest": "newest", "most-trusted": "most trusted"}.get(keep) or resolve_id(opened, keep)
        operation = run(opened.memory.settle(ids, keep=choice, namespace=opened.namespace))
        memories = run(opened.memory.get(list(dict.fromkeys(ids)), namespace=opened.namespace))
    if json:
        print_json(operation)
        return
    changed = {change.id: change for change in operation.changes}
    for id, memory in zip(dict.fromkeys(ids), memories, strict=True):
        if memory is None:
            print_text(f"{short_id(id)} never held, and is in the archive")
        else:
            what = f"held until {format_minute(memory.valid_to)}" if id in changed else "holds"
            print_text(f"{short_id(id)} {what}: {one_line(memory.text)}", indent="  ")
    print_note("take it back with:", command=f"tellback undo {operation.id}")
