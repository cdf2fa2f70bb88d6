"""``tellback memories about``: the line that says what a memory is about; those without one are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import with_error_report
from tellback.agent.assistant.cli.listing import keep_listing
from tellback.agent.assistant.cli.options import DEFAULT_LIMIT, FullOption, JsonOption, LimitOption
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_table, print_text
from tellback.agent.assistant.cli.short_ids import resolve_id
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import Memory

_PAGE = 500


@with_error_report
def about(
    context: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Which memory.")] = None,
    line: Annotated[list[str] | None, typer.Argument(metavar="[LINE]", help="Its line; '' takes it away.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List the memories without a line.")] = False,
    limit: LimitOption = DEFAULT_LIMIT,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """Say what memory ID is about, or list those without a line.

    The line has 3 to 10 words: the attribute, and the person or thing by name, without the answer ("spare house key:
    who keeps it"). The memory is found by it in other words.
    """
    if missing == (id is not None) or (not missing and line is None):
        raise typer.BadParameter("an ID and its LINE are needed, or --missing", param_hint="ID")
    with opened_memory(context) as opened:
        if id is None:
            _list_missing(opened, limit, full=full, json=json)
            return
        id = resolve_id(opened, id, changes=True)
        (report,) = run(opened.memory.describe({id: " ".join(line or ())}, namespace=opened.namespace))
    if json:
        print_json(report)
    elif report.operation is None:
        print_text(f"nothing to change: {report.id}")
    else:
        print_text(f"described {report.id}" + (f": {report.deferred}" if report.deferred else ""))
        print_note("take it back with:", command=f"tellback undo {report.operation}")


def _list_missing(opened: OpenedMemory, limit: int, *, full: bool, json: bool) -> None:
    """Print how many memories have no line, and the newest of them; what is no evidence needs none."""
    memories = _memories_without_line(opened)
    page = memories[:limit]
    if json:
        print_json({"memories": page, "total": len(memories)})
        return
    if not memories:
        print_text("Every memory says what it is about.")
        return
    keep_listing("memories", opened, [memory.id for memory in page], [memory.revision for memory in page])
    print_text(f"{format_count(len(memories), 'memory', 'memories')} without a line:")
    rows = [(str(n), memory.id if full else short_id(memory.id), memory.text) for n, memory in enumerate(page, start=1)]
    print_table(("#", "id", "text"), rows, whole=2, full=full)


def _memories_without_line(opened: OpenedMemory) -> list[Memory]:
    found: list[Memory] = []
    after: str | None = None
    while True:
        page = run(
            opened.memory.list(
                order="newest",
                after=after,
                limit=_PAGE,
                namespace=opened.namespace,
                where={"about": {"$exists": False}},
            )
        )
        found += [memory for memory in page if memory.is_evidence]
        if page.next is None:
            return found
        after = page.next
