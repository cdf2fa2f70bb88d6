"""``mneme memories show``, ``history`` and ``stats``: one memory, what became of it, and what there is in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.deeds import operation_line, version_line
from agent.assistant.cli.failures import reported
from agent.assistant.cli.named import scopes_named
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import counted, day, minute, print_json, say
from agent.assistant.cli.shapes import memory_json, operation_json, stats_json

if TYPE_CHECKING:
    from memory import Memory


@reported
def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory, or which version (ID@REVISION).")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show everything about memory ID."""
    from memory import ArgumentError, run_sync

    with opened_memory(context) as place:
        (memory,) = run_sync(place.memory.get([id], namespace=place.namespace))
        if memory is None:
            run_sync(place.memory.history(id, namespace=place.namespace))
            gone = f"it was taken back, or merged into another; `mneme memories history {id}` tells"
            raise ArgumentError("id", id, f"a memory that is there is needed ({gone})")
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
    """Show the versions of memory ID and what was done to it.

    The newest first. An earlier version is shown whole by `mneme memories show ID@REVISION`.
    """
    from memory import run_sync

    with opened_memory(context) as place:
        told = run_sync(place.memory.history(id, namespace=place.namespace))
    if json:
        versions = [memory_json(version) for version in told]
        print_json({"versions": versions, "operations": [operation_json(one) for one in told.operations]})
        return
    for version in told:
        taken_back = "  (taken back)" if version.withdrawn else ""
        say(f"{_span(version)}  {version.text}{taken_back}", indent="    ")
        if line := version_line(version):
            say(f"  {line}")
    for operation in told.operations:
        say(f"  {operation_line(operation, id.partition('@')[0])}")


@reported
def stats(
    context: typer.Context,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only what has it; may be repeated.")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of this scope; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count what is remembered."""
    scopes = scopes_named(scope or (), name="--scope")
    from memory import run_sync

    with opened_memory(context) as place:
        counts = run_sync(place.memory.stats(namespace=place.namespace, tags=tuple(tag or ()), scopes=scopes))
    if json:
        print_json(stats_json(counts))
        return
    passages, versions = counts.lanes["documents"], counts.lanes["archive"]
    say(f"{counted(counts.memories, 'memory', 'memories')}, {counted(versions, 'earlier version')}")
    if counts.first is not None:
        say(f"  from {day(counts.first)} to {day(counts.last)}")
    for name, values in (("kinds", counts.kinds), ("whose word", counts.trust), ("tags", counts.tags)):
        if values:
            say(f"  {name}: " + ", ".join(f"{value} {count}" for value, count in values.items()))
    marks = ("pinned", "disabled", "sensitive", "expired", "ended")
    if marked := [f"{getattr(counts, mark)} {mark}" for mark in marks if getattr(counts, mark)]:
        say("  " + ", ".join(marked))
    if passages:
        say(f"{counted(passages, 'passage')} of documents")
    if counts.pending:
        say(f"{counts.pending} wait for their vector")
    say(f"{_size(counts.text_bytes)} of text, {_size(counts.vector_bytes)} of vectors")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count >= 1e3 else f"{count} bytes"


def _span(version: Memory) -> str:
    since = minute(version.recorded_at) or "?"
    return f"{since} to {minute(version.retired_at)}" if version.retired_at else f"{since} to now"


def _shown(value: Any) -> str:
    if hasattr(value, "astimezone"):
        return minute(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={inner}" for name, inner in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
