"""``tellback memories list``, ``show``, ``history`` and ``stats``: what is remembered, one memory, and counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import (
    DEFAULT_LIMIT,
    AsOfOption,
    FullOption,
    IdArgument,
    JsonOption,
    KnownAtOption,
    LimitOption,
    ScopeOption,
    parse_filter,
    parse_scopes,
    with_options,
)
from tellback.agent.assistant.cli.output import (
    demotion_marks,
    format_count,
    format_day,
    format_minute,
    operation_line,
    print_json,
    print_note,
    print_table,
    print_text,
    version_line,
)
from tellback.agent.assistant.cli.short_ids import resolve_id, resolve_session
from tellback.agent.assistant.cli.times import parse_time
from tellback.agent.short_ids import short_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of ``tellback memories list``."""

    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only of this kind; may be repeated.")] = None
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only with this tag; may be repeated.")] = None
    scope: ScopeOption = None
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only of this conversation.")] = None
    trust: Annotated[
        list[str] | None, typer.Option(metavar="WHOSE", help="Only the word of user, assistant, tool or document.")
    ] = None
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with this in its words.")] = None
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, since then.")] = None
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Only said, or else written, before.")] = None
    where: Annotated[str | None, typer.Option(metavar="JSON", help='Only what passes a filter: {"role": "user"}.')] = (
        None
    )
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--not-pinned", help="Only those that are pinned, or only the others.")
    ] = None
    disabled: Annotated[
        bool | None, typer.Option("--disabled/--not-disabled", help="Only those that are disabled, or only the others.")
    ] = None
    expired: Annotated[
        bool | None, typer.Option("--expired/--not-expired", help="Only those that have expired, or only the others.")
    ] = None
    as_of: AsOfOption = None
    known_at: KnownAtOption = None
    sort: Annotated[
        Literal["newest", "oldest", "id"], typer.Option(help="By when it was said, or as it was written ('id').")
    ] = "newest"
    limit: LimitOption = DEFAULT_LIMIT
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None
    full: FullOption = False
    json: JsonOption = False

    def filters(self) -> dict[str, Any]:
        """Return the arguments of ``LongTermMemory.list`` and ``count`` that were given."""
        between = (parse_time(self.since, name="--since"), parse_time(self.before, name="--before"))
        filters = {
            "kinds": self.kind,
            "tags": self.tag,
            "scopes": parse_scopes(self.scope or (), name="--scope"),
            "where": parse_filter(self.where, name="--where"),
            "session": self.session,
            "trust": self.trust,
            "contains": self.contains,
            "between": between if any(between) else None,
            "pinned": self.pinned,
            "disabled": self.disabled,
            "expired": self.expired,
            "as_of": parse_time(self.as_of, name="--as-of"),
            "known_at": parse_time(self.known_at, name="--known-at"),
        }
        return {name: value for name, value in filters.items() if value not in (None, [])}

    def words(self) -> Iterator[str]:
        """Yield the options that differ from their defaults, as they are typed."""
        for field in fields(self):
            value, name = getattr(self, field.name), field.name.replace("_", "-")
            if field.name == "json" or value is None or value == field.default:
                continue
            if isinstance(value, bool):
                yield f"--{name}" if value else f"--not-{name}"
                continue
            for word in value if isinstance(value, list) else [value]:
                yield from (f"--{name}", str(word))


@with_options(ListOptions)
def list_memories(context: typer.Context, options: ListOptions) -> None:
    """List memories, disabled and expired ones too.

    The newest first, unless --sort says otherwise. Several kinds, tags or trusts mean any of them; different scopes
    must all agree. The number or the short id before a memory stands for it in other commands.
    """
    filters = options.filters()
    with opened_memory(context) as opened:
        if options.session is not None:
            filters["session"] = resolve_session(opened, options.session)
        listing = opened.desk.page(order=options.sort, after=options.after, limit=options.limit, **filters)
        page, total = run(listing), run(opened.desk.count(**filters))
        if not options.json:
            keep_memories(opened.settings, page)
    if options.json:
        print_json({"memories": list(page), "total": total, "next": page.next})
        return
    if not page:
        print_text(_empty_list_text(options.kind, total, filters))
        return
    rows: list[tuple[str, ...]] = []
    for number, memory in enumerate(page, start=1):
        marks = [name for name in ("pinned", "disabled", "sensitive", "withdrawn") if getattr(memory, name)]
        marks += demotion_marks(memory)
        day, who = format_day(memory.occurred_at or memory.recorded_at), memory.speaker or memory.role or ""
        id = memory.id if options.full else short_id(memory.id)
        rows.append((str(number), id, day, who, " ".join([memory.kind, *marks]), memory.about, memory.text))
    columns: tuple[str, ...] = ("#", "id", "day", "who", "kind", "about", "text")
    if not any(memory.about for memory in page):
        columns, *rows = [(*row[:5], row[6]) for row in (columns, *rows)]
    print_table(columns, rows, whole=2, full=options.full)
    if page.next is None:
        print_note(f"{len(page)} of {total}" if len(page) < total else format_count(total, "memory", "memories"))
    else:
        words = shlex.join(replace(options, after=page.next).words())
        print_note(f"{len(page)} of {total}; go on with:", command=f"tellback memories list {words}")


def _empty_list_text(kind: list[str] | None, total: int, filters: dict[str, Any]) -> str:
    if total:
        return "No more."
    if kind and len(filters) == 1:
        return f"Nothing of the kind {' or '.join(kind)} is remembered."
    return "Nothing like that is remembered." if filters else "Nothing is remembered yet."


def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Which memory, or which version (ID@REVISION).")],
    json: JsonOption = False,
) -> None:
    """Show everything about memory ID."""
    from tellback.memory import ArgumentError

    with opened_memory(context) as opened:
        id = resolve_id(opened, id)
        (memory,) = run(opened.memory.get([id], namespace=opened.namespace))
        if memory is None:
            run(opened.memory.history(id, namespace=opened.namespace))
            gone = f"it was taken back, or merged into another: see `tellback memories history {id}`"
            raise ArgumentError("id", id, f"the id of an existing memory is needed ({gone})")
    if json:
        print_json(memory)
        return
    print_text(memory.text)
    if marks := demotion_marks(memory):
        print_text(f"  not recalled by default: {', '.join(marks)}; `tellback memories promote {id}` changes that")
    for name, value in json_object(memory).items():
        if name != "text" and value:
            print_text(f"  {name}: {_format_value(value)}", indent="    ")


def history(context: typer.Context, id: IdArgument, json: JsonOption = False) -> None:
    """Show the versions of memory ID and what was done to it.

    The newest first. An earlier version is shown whole by `tellback memories show ID@REVISION`.
    """
    with opened_memory(context) as opened:
        id = resolve_id(opened, id)
        memory_history = run(opened.memory.history(id, namespace=opened.namespace))
    if json:
        print_json({"versions": list(memory_history), "operations": memory_history.operations})
        return
    for version in memory_history:
        taken_back = "  (taken back)" if version.withdrawn else ""
        period = f"{format_minute(version.recorded_at) or '?'} to {format_minute(version.retired_at) or 'now'}"
        print_text(f"{period}  {version.text}{taken_back}", indent="    ")
        if line := version_line(version):
            print_text(f"  {line}")
    for operation in memory_history.operations:
        print_text(f"  {operation_line(operation, id.partition('@')[0])}")


def stats(
    context: typer.Context,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only what has it; may be repeated.")] = None,
    scope: ScopeOption = None,
    json: JsonOption = False,
) -> None:
    """Count what is remembered."""
    scopes = parse_scopes(scope or (), name="--scope")
    with opened_memory(context) as opened:
        counts = run(opened.memory.stats(namespace=opened.namespace, tags=tuple(tag or ()), scopes=scopes))
    if json:
        print_json(counts)
        return
    passages, versions = counts.lanes["documents"], counts.lanes["archive"]
    print_text(f"{format_count(counts.memories, 'memory', 'memories')}, {format_count(versions, 'earlier version')}")
    if counts.first is not None:
        print_text(f"  from {format_day(counts.first)} to {format_day(counts.last)}")
    named_counts = {"kinds": counts.kinds, "whose word": counts.trust, "tags": counts.tags, "lines by": counts.lines}
    for name, values in named_counts.items():
        if values:
            print_text(f"  {name}: " + ", ".join(f"{value} {count}" for value, count in values.items()))
    marks = ("pinned", "disabled", "sensitive", "expired", "ended")
    if marked := [f"{getattr(counts, mark)} {mark}" for mark in marks if getattr(counts, mark)]:
        print_text("  " + ", ".join(marked))
    if passages:
        print_text(f"{format_count(passages, 'passage')} of documents")
    if counts.pending:
        print_text(f"{counts.pending} wait for their vector")
    print_text(f"{_format_bytes(counts.text_bytes)} of text, {_format_bytes(counts.vector_bytes)} of vectors")


def namespaces(context: typer.Context, json: JsonOption = False) -> None:
    """List the namespaces of the memory file.

    No namespace sees another's memories; this list is for the owner of the file.
    """
    with opened_memory(context) as opened:
        counts = run(opened.memory.namespaces())
        present = opened.namespace
    if json:
        print_json({"namespaces": [{"namespace": name, "entries": count} for name, count in counts.items()]})
        return
    if not counts:
        print_text("Nothing is remembered yet.")
        return
    rows = [(name or "(default)", str(count), "in use" if name == present else "") for name, count in counts.items()]
    print_table(("namespace", "memories and passages", ""), rows, whole=1)
    if present not in counts:
        print_note(f"nothing is remembered in the namespace in use, {present or '(default)'}")


def _format_bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count >= 1e3 else f"{count} bytes"


def _format_value(value: Any) -> str:
    if hasattr(value, "astimezone"):
        return format_minute(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={inner}" for name, inner in value.items())
    if value is True:
        return "yes"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
