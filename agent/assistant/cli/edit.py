"""``mneme correct``, and ``mneme memories pin``, ``tag``, ``expire``, ``merge`` and the like: changes of memories.

Each can be undone. The old version of a corrected memory stays in its history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import reported
from agent.assistant.cli.json_output import report_json
from agent.assistant.cli.output import minute, note, print_json, say
from agent.assistant.cli.parsing import moment_named
from agent.assistant.cli.prompts import AllowSensitive, given_text, is_sensitive, marked_already

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Operation


@reported
def correct(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory; recall and memories list show ids.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should say; '-' reads it from standard input.")],
    valid_from: Annotated[str | None, typer.Option(metavar="TIME", help="Since when that holds.")] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="TIME", help="Until when that holds.")] = None,
    allow_sensitive: AllowSensitive = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put TEXT in the place of memory ID.

    The old version stays in its history. What looks like a secret is asked about as by `remember`, unless the memory
    is marked already.
    """
    words = given_text(text, name="TEXT", what="what it should say")
    start, stop = moment_named(valid_from, name="--valid-from"), moment_named(valid_to, name="--valid-to")
    from memory import run_sync

    with opened_memory(context) as place:
        marked = marked_already(place, [id]) or is_sensitive(words, allowed=allow_sensitive)
        report = run_sync(
            place.memory.correct(
                id, words, valid_from=start, valid_to=stop, sensitive=marked, namespace=place.namespace
            )
        )
    if json:
        print_json(report_json(report))
        return
    if report.operation is None:
        say(f"nothing to change: {report.id}")
        return
    told = str(report).removeprefix("stored").lstrip(", ")
    say(f"corrected {report.id}" + (f": {told}" if told else ""))
    for made in report.made:
        say(f"made of it: {made.id}: {made}")
    for one in report.retired:
        say(f"had been made of the old words, and went to the archive: {one}")
    note(f"take it back with: mneme undo {report.operation}")


_Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Which memories: one id or several.")]
_Id = Annotated[str, typer.Argument(metavar="ID", help="Which memory.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Tags = Annotated[list[str], typer.Option("--tag", metavar="TAG", help="Which tag; may be repeated.")]


@reported
def pin(context: typer.Context, ids: _Ids, json: _Json = False) -> None:
    """Pin memories: the assistant is shown them always."""
    _mark(context, ids, "pinned", lambda place: place.memory.pin(ids, namespace=place.namespace), json=json)


@reported
def unpin(context: typer.Context, ids: _Ids, json: _Json = False) -> None:
    """Unpin memories."""
    _mark(context, ids, "unpinned", lambda place: place.memory.unpin(ids, namespace=place.namespace), json=json)


@reported
def disable(context: typer.Context, ids: _Ids, json: _Json = False) -> None:
    """Keep memories out of every answer; they stay and are listed."""
    _mark(context, ids, "disabled", lambda place: place.memory.disable(ids, namespace=place.namespace), json=json)


@reported
def enable(context: typer.Context, ids: _Ids, json: _Json = False) -> None:
    """Let disabled memories be found again."""
    _mark(context, ids, "enabled", lambda place: place.memory.enable(ids, namespace=place.namespace), json=json)


@reported
def tag(context: typer.Context, ids: _Ids, tags: _Tags, json: _Json = False) -> None:
    """Add tags to memories."""
    _mark(context, ids, "tagged", lambda place: place.memory.tag(ids, tags, namespace=place.namespace), json=json)


@reported
def untag(context: typer.Context, ids: _Ids, tags: _Tags, json: _Json = False) -> None:
    """Take tags off memories."""
    _mark(context, ids, "untagged", lambda place: place.memory.untag(ids, tags, namespace=place.namespace), json=json)


@reported
def importance(
    context: typer.Context,
    ids: _Ids,
    weight: Annotated[str, typer.Option("--set", metavar="NUMBER", help="From 0 to 1, or 'none'.")],
    json: _Json = False,
) -> None:
    """Say how much memories matter: more than others, or less."""
    value = _number(weight)

    def done(place: OpenedMemory) -> Awaitable[Operation | None]:
        return place.memory.set_importance(ids, value, namespace=place.namespace)

    _mark(context, ids, "importance none:" if value is None else f"importance {value:g}:", done, json=json)


@reported
def expire(
    context: typer.Context,
    ids: _Ids,
    at: Annotated[str, typer.Option(metavar="TIME", help="From when on they are in no answer, or 'never'.")],
    json: _Json = False,
) -> None:
    """Let memories be in no answer from a time on.

    They are kept and listed; `mneme forget` removes them.
    """
    moment = None if at == "never" else moment_named(at, name="--at")

    def done(place: OpenedMemory) -> Awaitable[Operation | None]:
        return place.memory.expire(ids, moment, namespace=place.namespace)

    _mark(context, ids, "never expires:" if moment is None else f"expires {minute(moment)}:", done, json=json)


@reported
def end(
    context: typer.Context,
    id: _Id,
    at: Annotated[str, typer.Option(metavar="TIME", help="Until when it holds, or 'never'.")],
    json: _Json = False,
) -> None:
    """Say until when memory ID holds.

    Asked for an earlier time (`mneme recall --as-of`), it is found.
    """
    moment = None if at == "never" else moment_named(at, name="--at")
    from memory import run_sync

    with opened_memory(context) as place:
        report = run_sync(place.memory.end(id, moment, namespace=place.namespace))
    if json:
        print_json(report_json(report))
    elif report.operation is None:
        say(f"nothing to change: {id}")
    else:
        say(f"{id} holds " + ("without an end" if moment is None else f"until {minute(moment)}"))
        _say_how_to_undo(report.operation)


@reported
def merge(
    context: typer.Context,
    ids: _Ids,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="What they say together; '-' reads it.")],
    allow_sensitive: AllowSensitive = False,
    json: _Json = False,
) -> None:
    """Make one memory of several.

    The first says TEXT and keeps its id, the others go to the archive and are found no more. What looks like a secret
    is asked about as by `remember`, unless one of them is marked already.
    """
    words = given_text(text, name="--text", what="what they say together")
    from memory import run_sync

    with opened_memory(context) as place:
        marked = marked_already(place, ids) or is_sensitive(words, allowed=allow_sensitive)
        report = run_sync(place.memory.merge(ids, words, sensitive=marked, namespace=place.namespace))
    if json:
        print_json({**report_json(report), "merged": ids[1:]})
        return
    say(f"merged into {report.id}: {', '.join(ids[1:])}")
    if report.deferred:
        note(f"found by its words only for now: {report.deferred}")
    _say_how_to_undo(report.operation)


def _mark(
    context: typer.Context,
    ids: list[str],
    what: str,
    done: Callable[[OpenedMemory], Awaitable[Operation | None]],
    *,
    json: bool,
) -> None:
    from memory import run_sync

    with opened_memory(context) as place:
        operation = run_sync(done(place))
    changed = [] if operation is None else [change.id for change in operation.changes]
    if json:
        print_json({"operation": None if operation is None else operation.id, "changed": changed, "ids": ids})
        return
    if changed:
        say(f"{what} {', '.join(changed)}")
    if unchanged := [one for one in dict.fromkeys(ids) if one not in changed]:
        say(f"nothing to change: {', '.join(unchanged)}")
    _say_how_to_undo(None if operation is None else operation.id)


def _say_how_to_undo(operation: str | None) -> None:
    if operation is not None:
        note(f"take it back with: mneme undo {operation}")


def _number(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"a number from 0 to 1, or 'none', is needed, got {text!r}", param_hint="--set"
        ) from None
