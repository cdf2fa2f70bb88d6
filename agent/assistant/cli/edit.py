"""``tellback correct`` and ``undo``, and ``tellback memories pin``, ``tag``, ``expire``, ``merge``, ``operations`` and
the like: changes of memories, and their log.

Each can be undone. The old version of a corrected memory stays in its history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.cli.listing import keep_listing
from tellback.agent.assistant.cli.options import (
    DEFAULT_LIMIT,
    FullOption,
    IdArgument,
    JsonOption,
    LimitOption,
    YesOption,
)
from tellback.agent.assistant.cli.output import (
    fit_line,
    format_minute,
    one_line,
    operation_line,
    print_json,
    print_note,
    print_table,
    print_text,
)
from tellback.agent.assistant.cli.prompts import (
    AllowSensitiveOption,
    confirm_or_exit,
    confirm_sensitive,
    is_any_sensitive,
    read_text_argument,
    require_terminal_or_yes,
)
from tellback.agent.assistant.cli.short_ids import resolve_id, resolve_ids, resolve_operation
from tellback.agent.assistant.cli.text_diff import print_difference
from tellback.agent.assistant.cli.times import parse_time
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.agent.desk.desk import Mark
    from tellback.memory.internals import Operation

_OPERATION_PAGE = 100
_LISTED_IDS = 5
_IdsArgument: TypeAlias = Annotated[list[str], typer.Argument(metavar="ID", help="Which memories: one id or several.")]
_TagsOption: TypeAlias = Annotated[list[str], typer.Option("--tag", metavar="TAG", help="Which tag; may be repeated.")]


def correct(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory; recall and memories list show ids.")],
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="What it should say; '-' reads it from standard input.")
    ],
    valid_from: Annotated[str | None, typer.Option(metavar="TIME", help="Since when that holds.")] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="TIME", help="Until when that holds.")] = None,
    about: Annotated[str | None, typer.Option(metavar="LINE", help="What it is about, without the answer.")] = None,
    allow_sensitive: AllowSensitiveOption = False,
    json: JsonOption = False,
) -> None:
    """Put TEXT in the place of memory ID.

    The old version stays in its history. What looks like a secret is asked about as by `remember`, unless the memory
    is marked already.
    """
    from tellback.agent.desk.consent import Person

    words = read_text_argument(text, name="TEXT", what="what it should say")
    start, stop = parse_time(valid_from, name="--valid-from"), parse_time(valid_to, name="--valid-to")
    with opened_memory(context) as opened:
        id = resolve_id(opened, id, changes=True)
        marked = is_any_sensitive(opened, [id]) or confirm_sensitive(words, allowed=allow_sensitive)
        fields: dict[str, Any] = {"about": about, "sensitive": marked, "valid_from": start, "valid_to": stop}
        change = run(opened.desk.correct(Person(), id, words, **fields))
        (before,), report = change.concerned, change.report
        assert report is not None
    if json:
        print_json(report)
        return
    if report.operation is None:
        print_text(f"nothing to change: {report.id}")
        return
    detail = str(report).removeprefix("stored").lstrip(", ")
    print_text(f"corrected {report.id}" + (f": {detail}" if detail else ""))
    print_difference(before.text, words)
    for derived in report.made:
        print_text(f"derived from it: {derived.id}: {derived}")
    for retired in report.retired:
        print_text(f"derived from the old text, now in the archive: {retired}")
    _print_undo_hint(report.operation)


def _marking(mark: Mark, done: str, purpose: str) -> Callable[..., None]:
    """Return a command that sets a *mark*; *done* is its report, *purpose* its help."""

    def command(context: typer.Context, ids: _IdsArgument, json: JsonOption = False) -> None:
        _apply_change(context, ids, done, mark, json=json)

    command.__name__, command.__doc__ = mark, purpose
    return command


pin = _marking("pin", "pinned", "Pin memories: the assistant is shown them always.")
unpin = _marking("unpin", "unpinned", "Unpin memories.")
disable = _marking("disable", "disabled", "Keep memories out of every answer; they stay and are listed.")
enable = _marking("enable", "enabled", "Let disabled memories be found again.")
promote = _marking("promote", "promoted", "Recall memories taken for questions or small talk.")
demote = _marking("demote", "demoted", "Recall memories only where all are asked for.")


def tag(context: typer.Context, ids: _IdsArgument, tags: _TagsOption, json: JsonOption = False) -> None:
    """Add tags to memories."""
    _apply_change(context, ids, "tagged", "tag", tags, json=json)


def untag(context: typer.Context, ids: _IdsArgument, tags: _TagsOption, json: JsonOption = False) -> None:
    """Take tags off memories."""
    _apply_change(context, ids, "untagged", "untag", tags, json=json)


def importance(
    context: typer.Context,
    ids: _IdsArgument,
    weight: Annotated[str, typer.Option("--set", metavar="NUMBER", help="From 0 to 1, or 'none'.")],
    json: JsonOption = False,
) -> None:
    """Set how much memories matter, from 0 to 1."""
    try:
        value = None if weight == "none" else float(weight)
    except ValueError:
        problem = f"a number from 0 to 1, or 'none', is needed, got {weight!r}"
        raise typer.BadParameter(problem, param_hint="--set") from None
    what = f"importance {'none' if value is None else format(value, 'g')}:"
    _apply_change(context, ids, what, "set_importance", value, json=json)


def expire(
    context: typer.Context,
    ids: _IdsArgument,
    at: Annotated[str, typer.Option(metavar="TIME", help="From when on they are in no answer, or 'never'.")],
    json: JsonOption = False,
) -> None:
    """Let memories be in no answer from a time on.

    They are kept and listed; `tellback forget` removes them.
    """
    moment = _parse_end(at)
    what = "never expires:" if moment is None else f"expires {format_minute(moment)}:"
    _apply_change(context, ids, what, "expire", moment, json=json)


def end(
    context: typer.Context,
    id: IdArgument,
    at: Annotated[str, typer.Option(metavar="TIME", help="Until when it holds, or 'never'.")],
    json: JsonOption = False,
) -> None:
    """Set the time until which memory ID holds.

    A question about an earlier time (`tellback recall --as-of`) still finds it.
    """
    moment = _parse_end(at)
    with opened_memory(context) as opened:
        id = resolve_id(opened, id, changes=True)
        report = run(opened.memory.end(id, moment, namespace=opened.namespace))
    if json:
        print_json(report)
    elif report.operation is None:
        print_text(f"nothing to change: {id}")
    else:
        print_text(f"{id} holds " + ("without an end" if moment is None else f"until {format_minute(moment)}"))
        _print_undo_hint(report.operation)


def merge(
    context: typer.Context,
    ids: _IdsArgument,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="What they say together; '-' reads it.")],
    allow_sensitive: AllowSensitiveOption = False,
    json: JsonOption = False,
) -> None:
    """Make one memory of several.

    The first says TEXT and keeps its id, the others go to the archive and are found no more. What looks like a secret
    is asked about as by `remember`, unless one of them is marked already.
    """
    words = read_text_argument([text], name="--text", what="what they say together")
    with opened_memory(context) as opened:
        ids = resolve_ids(opened, ids, changes=True)
        marked = is_any_sensitive(opened, ids) or confirm_sensitive(words, allowed=allow_sensitive)
        report = run(opened.memory.merge(ids, words, sensitive=marked, namespace=opened.namespace))
    if json:
        print_json({**json_object(report), "merged": ids[1:]})
        return
    print_text(f"merged into {report.id}: {', '.join(ids[1:])}")
    if report.deferred:
        print_note(f"found by its words only for now: {report.deferred}")
    _print_undo_hint(report.operation)


def _parse_end(text: str) -> datetime | None:
    return None if text == "never" else parse_time(text, name="--at", ahead=True)


def _apply_change(context: typer.Context, ids: list[str], what: str, mark: Mark, *values: object, json: bool) -> None:
    """Set a *mark* of the memories that *ids* name, with *values*; print *what* was done to them."""
    with opened_memory(context) as opened:
        ids = resolve_ids(opened, ids, changes=True)
        operation = run(opened.desk.mark(mark, ids, *values))
    done = None if operation is None else operation.id
    changed = [] if operation is None else [change.id for change in operation.changes]
    if json:
        print_json({"operation": done, "changed": changed, "ids": ids})
        return
    if changed:
        print_text(f"{what} {', '.join(changed)}")
    if unchanged := [id for id in dict.fromkeys(ids) if id not in changed]:
        print_text(f"nothing to change: {', '.join(unchanged)}")
    _print_undo_hint(done)


def _print_undo_hint(operation: str | None) -> None:
    if operation is not None:
        print_note("take it back with:", command=f"tellback undo {operation}")


def undo(
    context: typer.Context,
    operation: Annotated[
        str | None,
        typer.Argument(metavar="[OPERATION]", help="Its id; without one the last that stands, after a question."),
    ] = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Take back what was done: all of it, or nothing.

    Undoing an undo does it again; `tellback memories operations` lists what was done. What was forgotten is gone for
    good, unless a time of grace (`tellback forget --grace`) lasts.
    """
    with opened_memory(context) as opened:
        if operation is not None:
            operation = resolve_operation(opened, operation)
            done = run(opened.desk.undo(operation))
        else:
            require_terminal_or_yes(yes=yes)
            operation, done = _undo_last(opened, yes=yes)
        lines = [] if json else _operation_lines(opened, done)
    if json:
        print_json(done)
        return
    print_text(f"took back {operation}")
    for line in lines[1:]:
        print_text(line)
    if done.kind == "undo":  # what was brought back from a forgetting is forgotten again by forgetting it
        print_note("do it again with:", command=f"tellback undo {done.id}")


def _undo_last(opened: OpenedMemory, *, yes: bool) -> tuple[str, Operation]:
    """Undo the last operation that can be undone, after a question; return its id and that of the undo.

    Operations that cannot be undone are passed over with a note: an export, an erasure whose time of grace is over, and
    those that later operations depend on. Those of the system itself, such as lines that a model wrote, are not meant.
    """
    from tellback.memory import CannotUndo
    from tellback.memory.internals import FORGET_KIND, irreversible_reason

    in_grace, forgotten = opened.memory.soft_deletes.of(opened.namespace), set[str]()
    for last in _standing_operations(opened):
        ids = {change.id for change in last.changes}
        try:
            if last.id not in in_grace and (reason := irreversible_reason(last)) is not None:
                raise CannotUndo(last.id, reason)
            if ids & forgotten:
                raise CannotUndo(last.id, "it was forgotten since")
            if not yes:
                for line in _operation_lines(opened, last):
                    print_note(line)
                confirm_or_exit("Take this back?", "nothing was undone")
            return last.id, run(opened.desk.undo(last.id))
        except CannotUndo as error:
            if last.kind == FORGET_KIND:
                forgotten |= ids
            print_note(f"passed over {operation_line(last)}: {error.reason}")
    raise typer.BadParameter("there is nothing to take back", param_hint="OPERATION")


def operations(
    context: typer.Context,
    of: Annotated[str | None, typer.Option(metavar="ID", help="Only on this memory.")] = None,
    limit: LimitOption = DEFAULT_LIMIT,
    before: Annotated[str | None, typer.Option(metavar="OPERATION", help="Go on behind this one.")] = None,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """List what was done, the newest first."""
    with opened_memory(context) as opened:
        memory = None if of is None else resolve_id(opened, of)
        log_entries = run(opened.desk.operations(memory=memory, before=before, limit=limit + 1))
        if not json:
            keep_listing("operations", opened.settings, [operation.id for operation in log_entries[:limit]])
    page, more = log_entries[:limit], len(log_entries) > limit
    if json:
        print_json({"operations": page, "next": page[-1].id if more else None})
        return
    if not page:
        nothing = "Nothing was done yet." if memory is None else f"Nothing is known of a memory {memory}."
        print_text(nothing if before is None else "No more.")
        return
    rows = []
    shown_id: Callable[[str], str] = str if full else short_id
    for number, done in enumerate(page, start=1):
        what = done.kind + (" (taken back)" if done.undone_by else "")
        ids = [change.id for change in done.changes]
        shown = ", ".join(map(shown_id, ids[:_LISTED_IDS]))
        if len(ids) > _LISTED_IDS:
            shown += f" and {len(ids) - _LISTED_IDS} more"
        rows.append((str(number), shown_id(done.id), format_minute(done.at), what, done.actor, shown))
    print_table(("#", "id", "when", "what", "who", "memories"), rows, whole=2, full=full)
    if more:
        print_note("go on with:", command=f"tellback memories operations --before {page[-1].id}")


def _standing_operations(opened: OpenedMemory) -> Iterator[Operation]:
    """Yield the operations in effect that were asked for, newest first: neither undone nor an undo themselves."""
    before: str | None = None
    while True:
        page = run(opened.desk.operations(before=before, limit=_OPERATION_PAGE))
        for operation in page:
            if operation.undoes is None and operation.undone_by is None and operation.actor != "system":
                yield operation
        if len(page) < _OPERATION_PAGE:
            return
        before = page[-1].id


def _operation_lines(opened: OpenedMemory, operation: Operation) -> list[str]:
    """Return lines about an operation: itself, and the first of its memories."""
    ids = [change.id for change in operation.changes]
    memories = run(opened.memory.get(ids[:_LISTED_IDS], namespace=opened.namespace))
    lines = [
        fit_line(f"  {id}  {one_line(memory.text) if memory is not None else 'not in any answer now'}")
        for id, memory in zip(ids, memories, strict=False)
    ]
    if len(ids) > _LISTED_IDS:
        lines.append(f"  and {len(ids) - _LISTED_IDS} more")
    return [operation_line(operation), *lines]
