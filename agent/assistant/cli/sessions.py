"""``tellback sessions``: list the conversations that are kept, show the messages of one."""

from __future__ import annotations

import json as encoding
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import exit_if_damaged
from tellback.agent.assistant.cli.listing import keep_listing, listing_number
from tellback.agent.assistant.cli.options import DEFAULT_LIMIT, FullOption, JsonOption, LimitOption
from tellback.agent.assistant.cli.output import (
    format_count,
    format_minute,
    one_line,
    print_json,
    print_note,
    print_table,
    print_text,
)
from tellback.agent.assistant.cli.short_ids import resolve_session
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import Message
    from tellback.memory.internals import SessionInfo, StoredMessage
    from tellback.vectorstore import Finding

_SUGGESTED: Final = 3
_LONGEST_NAME: Final = 80


def list_sessions(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]", help="Only sessions of this name, or about this.")
    ] = None,
    limit: LimitOption = DEFAULT_LIMIT,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """List the sessions, the one used last first, or those about WORDS."""
    with opened_memory(context) as opened:
        about = " ".join(words or ()).strip()
        sessions = run(opened.desk.sessions(about, limit + 1))
        if not json:
            keep_listing("sessions", opened.settings, [info.session for info in sessions[:limit]])
    listed, more = sessions[:limit], len(sessions) > limit
    if json:
        print_json({"sessions": listed, "more": more})
        return
    if not listed:
        print_text("No conversation is about that." if about else "No conversation is kept yet.")
        return
    rows = [
        (
            str(number),
            info.session if full else short_id(info.session),
            format_minute(info.last_at),
            str(info.messages),
            session_words(info),
        )
        for number, info in enumerate(listed, start=1)
    ]
    print_table(("#", "session", "used last", "messages", "begins"), rows, whole=2, full=full)
    if more:
        print_note(f"the first {format_count(limit, 'session')}; more with --limit")


def session_words(info: SessionInfo) -> str:
    """Return the title of a session, or where it has none the words that it begins with."""
    return info.title or info.begins


def known_session(opened: OpenedMemory, word: str) -> str:
    """Return the id of the session that *word* names; where there is none, ``BadParameter`` suggests similar names."""
    from tellback.memory.internals import redact_secrets

    id = resolve_session(opened, word)
    sessions = run(opened.memory.conversations.sessions(namespace=opened.namespace))
    if any(info.session == id for info in sessions):
        return id
    meant = get_close_matches(word, [info.session for info in sessions], n=3)
    meant += [
        info.session
        for info in sessions
        if word.casefold() in session_words(info).casefold() and info.session not in meant
    ]
    shown = [short_id(id) for id in meant[:_SUGGESTED]]
    hint = f"did you mean {' or '.join(shown)}?" if shown else "`tellback sessions` lists all,"
    name, _ = redact_secrets(one_line(word))
    raise typer.BadParameter(f"no session is called {name}; {hint} --new {name} begins it", param_hint="--session")


def new_session(opened: OpenedMemory, name: str | None) -> str:
    """Return the id of a new session: *name*, or a random one for None; an unusable or taken name is an error."""
    from tellback.agent.configuration import new_session_id
    from tellback.memory.internals import find_secrets

    if name is None:
        return new_session_id()
    if not name.strip() or name != one_line(name) or len(name) > _LONGEST_NAME or listing_number(name) is not None:
        problem = f"a name of at most {_LONGEST_NAME} characters on one line, not a number, is needed"
        raise typer.BadParameter(problem, param_hint="--new")
    if find_secrets(name):
        raise typer.BadParameter("a name that holds no secret is needed", param_hint="--new")
    if any(info.session == name for info in run(opened.memory.conversations.sessions(namespace=opened.namespace))):
        raise typer.BadParameter(f"{name} is there already; --session {name} goes on with it", param_hint="--new")
    return name


def show_session(
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Which session.")],
    limit: Annotated[int | None, typer.Option(metavar="COUNT", help="Only so many of the newest.", min=1)] = None,
    json: JsonOption = False,
) -> None:
    """Show what was said in SESSION, oldest first."""
    from tellback.memory import ArgumentError

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
    """Return the messages without damaged ones; quotes stored as ids of memories get their words."""
    from tellback.agent.turn_store import with_quoted_words
    from tellback.memory import DatabaseHistory

    history = opened.memory.conversations
    assert isinstance(history, DatabaseHistory), "that of a memory file is"
    stored = await history.load(session, limit=limit, namespace=opened.namespace, on_damage=on_damage)
    return await with_quoted_words(stored, opened.memory, opened.namespace)


def _block_lines(message: Message) -> Iterator[str]:
    """Yield a line for each block of a message that is not text."""
    for block in message.blocks:
        if block.type in ("image", "document"):
            words = getattr(block, "caption", "") or block.name or block.media_type
            yield f"({block.type}: {words})"
    for call in message.tool_calls:
        arguments = encoding.dumps(call.arguments, ensure_ascii=False) if call.invalid is None else call.invalid
        yield f"(calls {call.name} {arguments})"
    for result in message.tool_results:
        yield f"({'error of ' if result.is_error else ''}{result.name or 'result'}: {result.text})"
