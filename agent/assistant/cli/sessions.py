"""``tellback sessions``: list the conversations that are kept, show the messages of one."""

from __future__ import annotations

import json as encoding
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory, run
from agent.assistant.cli.errors import exit_if_damaged, with_error_report
from agent.assistant.cli.listing import keep_listing
from agent.assistant.cli.options import DEFAULT_LIMIT, FullOption, JsonOption, LimitOption
from agent.assistant.cli.output import format_count, format_minute, print_json, print_note, print_table, print_text
from agent.assistant.cli.short_ids import resolve_session, short_id

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Message
    from memory.internals import StoredMessage
    from vectorstore import Finding


@with_error_report
def list_sessions(
    context: typer.Context, limit: LimitOption = DEFAULT_LIMIT, full: FullOption = False, json: JsonOption = False
) -> None:
    """List the sessions, the one used last first."""
    with opened_memory(context) as opened:
        found = run(opened.memory.conversations.sessions(namespace=opened.namespace, limit=limit + 1))
        if not json:
            keep_listing("sessions", opened, [info.session for info in found[:limit]])
    listed, more = found[:limit], len(found) > limit
    if json:
        print_json({"sessions": listed, "more": more})
        return
    if not listed:
        print_text("No conversation is kept yet.")
        return
    rows = [
        (
            str(number),
            info.session if full else short_id(info.session),
            format_minute(info.last_at),
            str(info.messages),
            info.begins,
        )
        for number, info in enumerate(listed, start=1)
    ]
    print_table(("#", "session", "used last", "messages", "begins"), rows, whole=2, full=full)
    if more:
        print_note(f"the {format_count(limit, 'session')} used last; more with --limit")


@with_error_report
def show_session(
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Which session.")],
    limit: Annotated[int | None, typer.Option(metavar="COUNT", help="Only so many of the newest.", min=1)] = None,
    json: JsonOption = False,
) -> None:
    """Show what was said in SESSION, oldest first."""
    from memory import ArgumentError

    with opened_memory(context) as opened:
        session = resolve_session(opened, session)
        damaged: list[Finding] = []
        stored = run(_load_with_quotes(opened, session, limit, damaged.append))
    if not stored and not damaged:
        raise ArgumentError("session", session, "no such session is kept here; `tellback sessions` lists what there is")
    if json:
        print_json({"session": session, "messages": stored})
        exit_if_damaged(damaged)
        return
    for kept in stored:
        message = kept.message
        text = "\n".join((*([message.text] if message.text else []), *_block_lines(message))) or "(nothing)"
        print_text(f"{format_minute(message.at or kept.at)}  {message.name or message.role}: {text}", indent="    ")
    exit_if_damaged(damaged)


async def _load_with_quotes(
    opened: OpenedMemory, session: str, limit: int | None, on_damage: Callable[[Finding], object]
) -> list[StoredMessage]:
    """Return the messages but damaged ones; quotes that are kept as ids of memories are replaced by their words."""
    from agent.turn_store import with_quoted_words
    from memory import SqliteHistory

    history = opened.memory.conversations
    assert isinstance(history, SqliteHistory), "that of a memory file is"
    stored = await history.load(session, limit=limit, namespace=opened.namespace, on_damage=on_damage)
    return await with_quoted_words(stored, opened.memory, opened.namespace)


def _block_lines(message: Message) -> Iterator[str]:
    """Yield a line for each block of a message that is no text."""
    for block in message.blocks:
        if block.type in ("image", "document"):
            words = getattr(block, "caption", "") or block.name or block.media_type
            yield f"({block.type}: {words})"
    for call in message.tool_calls:
        arguments = encoding.dumps(call.arguments, ensure_ascii=False) if call.invalid is None else call.invalid
        yield f"(calls {call.name} {arguments})"
    for result in message.tool_results:
        yield f"({'error of ' if result.is_error else ''}{result.name or 'result'}: {result.text})"
