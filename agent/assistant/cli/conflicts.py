"""``tellback memories conflicts`` and ``settle``: memories that contradict each other, and which of them holds."""

from __future__ import annotations

from typing import Annotated

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import DEFAULT_LIMIT, JsonOption, LimitOption
from tellback.agent.assistant.cli.output import (
    format_day,
    format_minute,
    one_line,
    print_json,
    print_note,
    print_table,
    print_text,
)
from tellback.agent.assistant.cli.short_ids import resolve_id, resolve_ids
from tellback.agent.short_ids import short_id


def conflicts(
    context: typer.Context,
    limit: LimitOption = DEFAULT_LIMIT,
    json: JsonOption = False,
) -> None:
    """List memories that contradict each other, such as two homes.

    They are found by rules and may be wrong: look at them, and `tellback memories settle` says which one holds. The
    number before a memory stands for it in other commands.
    """
    with opened_memory(context) as opened:
        contradictions = run(opened.desk.conflicts(limit))
        memories = [memory for conflict in contradictions for memory in conflict.memories]
        if not json:
            keep_memories(opened.settings, memories)
    if json:
        print_json({"conflicts": contradictions})
        return
    if not contradictions:
        print_text("No memories contradict each other, as far as rules can tell.")
        return
    number = 0
    for conflict in contradictions:
        rows = []
        for memory in conflict.memories:
            number += 1
            day, who = format_day(memory.occurred_at or memory.recorded_at), memory.speaker or memory.role or ""
            rows.append((str(number), short_id(memory.id), day, who, memory.trust.value, memory.text))
        print_table(("#", "id", "day", "who", "whose word", "text"), rows, whole=2, full=False)
        ids = " ".join(short_id(id) for id in conflict.ids)
        print_note("let the newest hold:", command=f"tellback memories settle {ids}")


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
        operation = run(opened.desk.settle(ids, choice))
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
