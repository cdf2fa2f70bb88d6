"""``tellback chat``: a conversation in the terminal that is remembered across runs, where piped input works too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import global_options, opened_assistant, run
from agent.assistant.cli.conversation.session import ChatSession
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.keyboard import typed_lines
from agent.assistant.cli.options import AttachOption
from agent.assistant.cli.output import format_count, one_line, print_note, shown_path
from agent.assistant.cli.prompts import piped_input_lines
from agent.assistant.cli.sessions import known_session, new_session, session_words

if TYPE_CHECKING:
    from agent.assistant.cli.conversation.line_editor import LineEditor
    from agent.assistant.wiring import OpenedMemory

_FIRST_HELP = "Say something, or ask something. /help lists the commands; Ctrl-D leaves."


@with_error_report
def chat(
    context: typer.Context,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="Go on with this session.")] = None,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last session.")] = False,
    new: Annotated[str | None, typer.Option("--new", metavar="NAME", help="Begin a session of this name.")] = None,
    attach: AttachOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a turn.")] = False,
) -> None:
    """Talk; the conversation is remembered across runs.

    Lines from a pipe are read too, one turn each.
    """
    if session is not None and not session.strip():
        raise typer.BadParameter("the name of a session is needed", param_hint="--session")
    if [session is not None, go_on, new is not None].count(True) > 1:
        raise typer.BadParameter("--session, --continue and --new do not go together", param_hint="--session")
    interactive = sys.stdin.isatty() and not json
    if interactive and sys.stderr.isatty() and _is_first(context):
        from agent.assistant.cli.init import offer_set_up

        offer_set_up(global_options(context))
    with opened_assistant(context, reads_only=False) as assistant:
        for note in run(assistant.start()):
            print_note(one_line(note))
        chosen = _chosen_session(assistant.opened, session, new, go_on=go_on)
        talk = ChatSession(assistant, chosen, json=json, interactive=interactive)
        try:
            for path in attach or ():
                talk.attach(path)
            _talk(talk)
        finally:
            talk.close()
    if talk.failures:
        raise typer.Exit(talk.failures[0])


def _is_first(context: typer.Context) -> bool:
    """Return whether nothing is set up and no memory exists yet."""
    configuration = global_options(context).configuration()
    settings = configuration.settings
    begun = settings.memory.exists() or configuration.path.exists() or configuration.former_memory is not None
    return not (begun or settings.model or settings.name or settings.zone or settings.language)


def _talk(talk: ChatSession) -> None:
    """Answer each line that is typed or piped in, until the end of input."""
    if not talk.interactive:
        for line in piped_input_lines():
            talk.take(line)
            if talk.is_over:
                return
        return
    settings = talk.opened.settings
    model = settings.model or "no model: statements are kept, questions answered by quotes"
    print_note(f"tellback · {shown_path(settings.memory)} · {model}")
    print_note(_FIRST_HELP)
    talk.editor = _line_editor(talk)
    for line in _plain_lines() if talk.editor is None else _edited_lines(talk.editor):
        talk.take(line)
        if talk.is_over:
            return


def _edited_lines(editor: LineEditor) -> Iterator[str]:
    """Yield the lines that were typed while the chat started, then those that are typed in *editor*."""
    for line in typed_lines():
        print_note(f"> {line}")
        yield line
    yield from iter(editor.read, None)


def _line_editor(talk: ChatSession) -> LineEditor | None:
    """Return the editor of the terminal; None for a terminal without cursor control."""
    if os.environ.get("TERM", "") in ("dumb", "unknown") or not sys.stdout.isatty():
        return None
    from agent.assistant.cli.conversation.completion import ChatCompleter
    from agent.assistant.cli.conversation.line_editor import LineEditor
    from agent.assistant.cli.conversation.prompt_history import PromptHistory

    history = PromptHistory(talk.opened if talk.opened.settings.prompt_history else None)
    return LineEditor(history, ChatCompleter(lambda: talk.opened))


def _chosen_session(opened: OpenedMemory, session: str | None, new: str | None, *, go_on: bool) -> str:
    """Return the id of the session that the options name; print on a terminal which one is continued."""
    conversations, namespace = opened.memory.conversations, opened.namespace
    if go_on:
        from agent.assistant.importers.registry import is_imported

        here = (info.session for info in run(conversations.sessions(namespace=namespace)))
        session = next((name for name in here if not is_imported(name)), None)
        if session is None:
            print_note("no conversation is kept yet; this is the first")
            return new_session(opened, None)
    if session is None:
        return new_session(opened, new)
    id = known_session(opened, session)
    if sys.stdin.isatty():
        info = next(info for info in run(conversations.sessions(namespace=namespace)) if info.session == id)
        print_note(f"going on, {format_count(info.messages, 'message')} so far: {one_line(session_words(info))}")
    return id


def _plain_lines() -> Iterator[str]:
    with suppress(ImportError):  # where the platform has it, input() gets editing and a history
        import readline  # noqa: F401
    while True:
        try:
            yield input("> ").strip()
        except EOFError:
            print_note()
            return
