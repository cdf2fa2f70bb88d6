"""``tellback chat``: a conversation in the terminal that is remembered across runs, where piped input works too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.agent.assistant.cli.command_context import global_options, opened_assistant, run
from tellback.agent.assistant.cli.conversation.session import ChatSession
from tellback.agent.assistant.cli.conversation.slash_commands import (
    OTHER_NAMES,
    help_text,
    parse_command,
    run_slash_command,
)
from tellback.agent.assistant.cli.keyboard import typed_lines
from tellback.agent.assistant.cli.options import AttachOption
from tellback.agent.assistant.cli.output import format_count, one_line, print_note, shown_path
from tellback.agent.assistant.cli.prompts import piped_input_lines
from tellback.agent.assistant.cli.sessions import known_session, new_session, session_words

if TYPE_CHECKING:
    from tellback.agent.assistant.cli.conversation.line_editor import LineEditor
    from tellback.agent.assistant.wiring import OpenedMemory

_EXIT_WORDS: Final = ("quit", "exit")
_HELP_WORDS: Final = ("help", "help!", "help?", "?")
_FIRST_HELP: Final = "Say something, or ask something. /help lists the commands; Ctrl-D leaves."


def chat(
    context: typer.Context,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="Go on with this session.")] = None,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last session.")] = False,
    new: Annotated[str | None, typer.Option("--new", metavar="NAME", help="Begin a session of this name.")] = None,
    fork: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin with a copy of this session, which stays as it is.")
    ] = None,
    attach: AttachOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a turn.")] = False,
) -> None:
    """Talk; the conversation is remembered across runs.

    Lines from a pipe are read too, one turn each.
    """
    if session is not None and not session.strip():
        raise typer.BadParameter("the name of a session is needed", param_hint="--session")
    if [session is not None, go_on, new is not None or fork is not None].count(True) > 1:
        problem = "--session, --continue, and --new with or without --fork do not go together"
        raise typer.BadParameter(problem, param_hint="--session")
    interactive = sys.stdin.isatty() and not json
    if interactive and sys.stderr.isatty() and _is_first(context):
        from tellback.agent.assistant.cli.init import offer_set_up

        offer_set_up(global_options(context))
    with opened_assistant(context, reads_only=False) as assistant:
        for note in run(assistant.start()):
            print_note(one_line(note))
        chosen = _chosen_session(assistant.opened, session, new, fork, go_on=go_on)
        talk = ChatSession.of(assistant, chosen, json=json, interactive=interactive)
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
    begun = settings.is_begun or configuration.path.exists() or configuration.former_memory is not None
    return not (begun or settings.model or settings.name or settings.zone or settings.language)


def _talk(talk: ChatSession) -> None:
    """Answer each line that is typed or piped in, until the end of input."""
    if not talk.interactive:
        for line in piped_input_lines():
            _take(talk, line)
            if talk.is_over:
                return
        return
    settings = talk.opened.settings
    model = settings.model or "no model: statements are kept, questions answered by quotes"
    print_note(f"tellback · {shown_path(settings.shown_memory)} · {model}")
    print_note(_FIRST_HELP)
    talk.editor = _line_editor(talk)
    for line in _plain_lines() if talk.editor is None else _edited_lines(talk.editor):
        _take(talk, line)
        if talk.is_over:
            return


def _take(talk: ChatSession, line: str) -> None:
    """Act on the typed *line*; an empty line repeats a prompt that failed."""
    talk.show_notes()
    line = line.strip()
    lowered = line.lower()
    if not line:
        if talk.unanswered:
            talk.answer(talk.unanswered)
    elif lowered in _EXIT_WORDS:
        talk.is_over = True
    elif lowered in _HELP_WORDS:
        print_note(help_text())
    elif (command := parse_command(line)) is not None:
        name, rest = command
        talk.report(lambda: run_slash_command(talk, OTHER_NAMES.get(name, name), rest))
    elif talk.json or not talk.carries_out(line):
        talk.answer(line)


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
    from tellback.agent.assistant.cli.conversation.completion import ChatCompleter
    from tellback.agent.assistant.cli.conversation.line_editor import LineEditor
    from tellback.agent.assistant.cli.conversation.prompt_history import PromptHistory

    history = PromptHistory(talk.opened if talk.opened.settings.prompt_history else None)
    return LineEditor(history, ChatCompleter(lambda: talk.opened))


def _chosen_session(
    opened: OpenedMemory, session: str | None, new: str | None, fork: str | None, *, go_on: bool
) -> str:
    """Return the id of the session that the options name; print on a terminal which one is continued."""
    conversations, namespace = opened.memory.conversations, opened.namespace
    if go_on:
        from tellback.agent.assistant.importers.registry import is_imported

        here = (info.session for info in run(conversations.sessions(namespace=namespace)))
        session = next((name for name in here if not is_imported(name)), None)
        if session is None:
            print_note("no conversation is kept yet; this is the first")
            return new_session(opened, None)
    if fork is not None:
        forked, id = known_session(opened, fork), new_session(opened, new)
        copied = run(conversations.copy(forked, id, namespace=namespace))
        print_note(f"going on in a copy, {format_count(len(copied), 'message')}, of {one_line(forked)}")
        return id
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
