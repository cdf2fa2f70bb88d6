"""``tellback sessions``: list the conversations that are kept, show the messages of one."""

from __future__ import annotations

import json as encoding
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.json_output import message_json, session_json
from agent.assistant.cli.output import format_count, format_minute, print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Message
    from memory.internals import StoredMessage

_DEFAULT_SESSION_LIMIT = 20


@with_error_report
def list_sessions_by_default(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at conversations; alone, list them."""
    if context.invoked_subcommand is None:
        list_sessions(context, json=json)
    elif json:
        raise typer.BadParameter(f"belongs after {context.invoked_subcommand}", param_hint="--json")


@with_error_report
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)] = _DEFAULT_SESSION_LIMIT,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the sessions, the one used last first."""
    from memory import run_sync

    with opened_memory(context) as opened:
        found = run_sync(opened.memory.conversations.sessions(namespace=opened.namespace, limit=limit + 1))
    listed, more = found[:limit], len(found) > limit
    if json:
        print_json({"sessions": [session_json(info) for info in listed], "more": more})
        return
    if not listed:
        print_text("No conversation is kept yet.")
        return
    rows = [(info.session, format_minute(info.last_at), str(info.messages), info.begins) for info in listed]
    print_table(("session", "used last", "messages", "begins"), rows, whole=1)
    if more:
        print_note(f"the {format_count(limit, 'session')} used last; more with --limit")


@with_error_report
def show_session(
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Which session.")],
    limit: Annotated[int | None, typer.Option(metavar="COUNT", help="Only so many of the newest.", min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what was said in SESSION, oldest first."""
    from memory import ArgumentError, run_sync

    with opened_memory(context) as opened:
        stored = run_sync(_load_with_quotes(opened, session, limit))
    if not stored:
        raise ArgumentError("session", session, "no such session is kept here; `tellback sessions` lists what there is")
    if json:
        print_json({"session": session, "messages": [message_json(kept) for kept in stored]})
        return
    for kept in stored:
        message = kept.message
        text = "\n".join((*([message.text] if message.text else []), *_block_lines(message))) or "(nothing)"
        print_text(f"{format_minute(message.at or kept.at)}  {message.name or message.role}: {text}", indent="    ")


async def _load_with_quotes(opened: OpenedMemory, session: str, limit: int | None) -> list[StoredMessage]:
    """Return the messages; quotes that are kept as ids of memories are replaced by their words."""
    from dataclasses import replace

    from agent.turn_store import quoted_message

    stored = await opened.memory.conversations.load(session, limit=limit, namespace=opened.namespace)
    ids = list(dict.fromkeys(id for kept in stored for id in quoted_message(kept.message).ids))
    found = await opened.memory.get(ids, namespace=opened.namespace) if ids else []
    texts = {memory.id: memory.text for memory in found if memory is not None}
    return [replace(kept, message=quoted_message(kept.message).with_text(texts)) for kept in stored]


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
