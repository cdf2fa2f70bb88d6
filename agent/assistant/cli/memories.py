"""``mneme memories``: list what is remembered, show one, show its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import day, minute, note, print_json, say
from agent.assistant.cli.shapes import memory_json
from agent.assistant.cli.tables import print_table

if TYPE_CHECKING:
    from memory import Memory

_LIMIT = 20


@reported
def look(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at what is remembered; alone, list it."""
    if context.invoked_subcommand is None:
        list_memories(context, json=json)
    elif json:
        raise typer.BadParameter(f"belongs after {context.invoked_subcommand}", param_hint="--json")


@reported
def list_memories(
    context: typer.Context,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only of this kind.")] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)] = _LIMIT,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Go on after this id.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List memories, the oldest first.

    The order is that of their ids; memories with a key of yours come last.
    """
    where = {"kind": kind} if kind else None
    from memory import run_sync

    with opened_memory(context) as place:
        memory, namespace = place.memory, place.namespace
        listed = run_sync(memory.list(where=where, after=after, limit=limit + 1, namespace=namespace))
        total = run_sync(memory.count(where=where, namespace=namespace))
    listed, more = listed[:limit], len(listed) > limit
    if json:
        last = listed[-1].id if more else None
        print_json({"memories": [memory_json(memory) for memory in listed], "total": total, "next": last})
        return
    if not listed:
        say(_empty(kind, total))
        return
    rows = [
        (one.id, day(one.occurred_at or one.recorded_at), one.speaker or one.role or "", one.kind, one.text)
        for one in listed
    ]
    print_table(("id", "day", "who", "kind", "text"), rows)
    if more:
        note(f"{len(listed)} of {total}; go on with: mneme memories list --after {listed[-1].id}")


@reported
def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show everything about memory ID."""
    from memory import NoSuchMemory, run_sync

    with opened_memory(context) as place:
        (memory,) = run_sync(place.memory.get([id], namespace=place.namespace))
        if memory is None:
            raise NoSuchMemory(id)
    if json:
        print_json(memory_json(memory))
        return
    say(memory.text)
    for name, value in memory_json(memory).items():
        if name != "text" and value not in (None, "", [], {}, False):
            say(f"  {name}: {_shown(value)}", indent="    ")


@reported
def history(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the versions of memory ID, newest first."""
    from memory import run_sync

    with opened_memory(context) as place:
        versions = run_sync(place.memory.history(id, namespace=place.namespace))
    if json:
        print_json({"versions": [memory_json(version) for version in versions]})
        return
    for version in versions:
        say(f"{_span(version)}  {version.text}", indent="    ")


def _empty(kind: str | None, total: int) -> str:
    if total:
        return "No more."
    return f"Nothing of the kind {kind} is remembered." if kind else "Nothing is remembered yet."


def _span(version: Memory) -> str:
    since = minute(version.recorded_at) or "?"
    return f"{since} to {minute(version.retired_at)}" if version.retired_at else f"{since} to now"


def _shown(value: Any) -> str:
    if hasattr(value, "astimezone"):
        return minute(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
