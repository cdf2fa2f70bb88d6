"""``mneme memories``: list what is remembered, by what it is and when it was, page by page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.named import filter_named, moment_named, scopes_named
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
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of this scope; may be repeated.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only of this conversation.")] = None,
    trust: Annotated[
        list[str] | None, typer.Option(metavar="WHOSE", help="Only the word of user, assistant, tool or document.")
    ] = None,
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with this in its words.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, since then.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, before.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="JSON", help='Only what passes a filter: {"role": "user"}.')
    ] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--not-pinned", help="Only those that are pinned, or only the others.")
    ] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disabled/--not-disabled", help="Only those that are disabled, or only the others.")
    ] = None,
    expired: Annotated[
        bool | None, typer.Option("--expired/--not-expired", help="Only those that have expired, or only the others.")
    ] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="What held then, as is known now.")] = None,
    known_at: Annotated[str | None, typer.Option(metavar="TIME", help="What was known then.")] = None,
    order: Annotated[Order, typer.Option(help="As they were written, or by when they were said.")] = Order.ID,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)] = _LIMIT,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List memories, disabled and expired ones too.

    In the order in which they were written, those with a key of yours last, unless --order says otherwise. Several
    kinds, tags or trusts mean any of them; different scopes must all agree.
    """
    between = (moment_named(since, name="--since"), moment_named(before, name="--before"))
    filters: dict[str, Any] = {
        "kinds": kind,
        "tags": tag,
        "scopes": scopes_named(scope or (), name="--scope"),
        "where": filter_named(where, name="--where"),
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
    filters = {name: value for name, value in filters.items() if value not in (None, [])}
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
    print_table(("id", "day", "who", "kind", "text"), [_row(one) for one in listed], whole=1)
    if listed.next is not None:
        given = {
            "kind": kind,
            "tag": tag,
            "scope": scope,
            "session": session,
            "trust": trust,
            "contains": contains,
            "since": since,
            "before": before,
            "where": where,
            "pinned": pinned,
            "disabled": disabled,
            "expired": expired,
            "as-of": as_of,
            "known-at": known_at,
            "order": None if order is Order.ID else order.value,
            "limit": None if limit == _LIMIT else str(limit),
            "after": listed.next,
        }
        note(f"{len(listed)} of {total}; go on with: mneme memories list {shlex.join(_options(given))}")


def _options(given: Mapping[str, str | list[str] | bool | None]) -> Iterator[str]:
    """Yield the options that were *given*, as they are typed."""
    for name, value in given.items():
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--not-{name}"
            continue
        for one in [value] if isinstance(value, str) else value or ():
            yield from (f"--{name}", one)


def _row(one: Memory) -> tuple[str, str, str, str, str]:
    marks = [name for name in ("pinned", "disabled", "sensitive", "withdrawn") if getattr(one, name)]
    kind = " ".join([one.kind, *marks])
    return (one.id, day(one.occurred_at or one.recorded_at), one.speaker or one.role or "", kind, one.text)


def _empty(kind: list[str] | None, total: int, filters: dict[str, Any]) -> str:
    if total:
        return "No more."
    if kind and len(filters) == 1:
        return f"Nothing of the kind {' or '.join(kind)} is remembered."
    return "Nothing like that is remembered." if filters else "Nothing is remembered yet."
