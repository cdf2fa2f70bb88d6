"""``mneme memories``: list what is remembered, by what it is and when it was, page by page."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.named import moment_named
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import day, note, print_json, say
from agent.assistant.cli.shapes import memory_json
from agent.assistant.cli.tables import print_table

if TYPE_CHECKING:
    from memory import Memory

_LIMIT = 20


class Order(StrEnum):
    """What comes first in a list."""

    ID = "id"
    OLDEST = "oldest"
    NEWEST = "newest"


@reported
def look(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at what is remembered, and change it; alone, list it."""
    if context.invoked_subcommand is None:
        list_memories(context, json=json)
    elif json:
        raise typer.BadParameter(f"belongs after {context.invoked_subcommand}", param_hint="--json")


@reported
def list_memories(
    context: typer.Context,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only of this kind; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only with this tag; may be repeated.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only of this conversation.")] = None,
    trust: Annotated[
        list[str] | None, typer.Option(metavar="WHOSE", help="Only the word of user, assistant, tool or document.")
    ] = None,
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with this in its words.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, since then.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, before.")] = None,
    pinned: Annotated[bool | None, typer.Option("--pinned/--not-pinned", help="Only those, or only others.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disabled/--not-disabled", help="The same.")] = None,
    expired: Annotated[bool | None, typer.Option("--expired/--not-expired", help="The same.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="What held then, as is known now.")] = None,
    known_at: Annotated[str | None, typer.Option(metavar="TIME", help="What was known then.")] = None,
    order: Annotated[Order, typer.Option(help="As written, or by when it was said.")] = Order.ID,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)] = _LIMIT,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List memories, disabled and expired ones too.

    In order of their ids, that of writing: those with a key of yours come last.
    """
    between = (moment_named(since, name="--since"), moment_named(before, name="--before"))
    filters: dict[str, Any] = {
        "kinds": kind,
        "tags": tag,
        "session": session,
        "trust": trust,
        "contains": contains,
        "between": between if any(between) else None,
        "pinned": pinned,
        "disabled": disabled,
        "expired": expired,
        "as_of": moment_named(as_of, name="--as-of"),
        "known_at": moment_named(known_at, name="--known-at"),
    }
    filters = {name: value for name, value in filters.items() if value is not None and value != []}
    from memory import run_sync

    with opened_memory(context) as place:
        memory, namespace = place.memory, place.namespace
        listed = run_sync(memory.list(order=order.value, after=after, limit=limit, namespace=namespace, **filters))
        total = run_sync(memory.count(namespace=namespace, **filters))
    if json:
        print_json({"memories": [memory_json(one) for one in listed], "total": total, "next": listed.next})
        return
    if not listed:
        say(_empty(kind, total, filters))
        return
    print_table(("id", "day", "who", "kind", "text"), [_row(one) for one in listed])
    if listed.next is not None:
        note(f"{len(listed)} of {total}; go on with: mneme memories list {_again(order, listed.next)}")


def _again(order: Order, cursor: str) -> str:
    return f"--after {cursor}" if order is Order.ID else f"--order {order} --after {cursor}"


def _row(one: Memory) -> tuple[str, str, str, str, str]:
    marks = [name for name in ("pinned", "disabled", "withdrawn") if getattr(one, name)]
    kind = " ".join([one.kind, *marks])
    return (one.id, day(one.occurred_at or one.recorded_at), one.speaker or one.role or "", kind, one.text)


def _empty(kind: list[str] | None, total: int, filters: dict[str, Any]) -> str:
    if total:
        return "No more."
    if kind and len(filters) == 1:
        return f"Nothing of the kind {' or '.join(kind)} is remembered."
    return "Nothing like that is remembered." if filters else "Nothing is remembered yet."
