"""Slash commands of the chat, as a table: name, argument, purpose and function.

Most run a command of the command line on the memory that the chat has open. Some commands have no entry of their own
and run by their names, such as ``/ingest FILE``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.listing import listing_number
from tellback.agent.assistant.cli.output import hang, one_line, print_note, print_text
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.cli.conversation.session import ChatSession

Argument: TypeAlias = Literal["", "text", "memory", "session", "file", "model"]

_COMMAND: Final = re.compile(r"/(?P<name>[a-z?][a-z-]*)(?:\s+(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)
_LEAST_ID_LENGTH: Final = 4
GENERAL_COMMANDS: Final[Mapping[str, str]] = {
    "config": "show the settings",
    "documents": "list the documents",
    "doctor": "check the memory",
    "export": "write the memory to a file",
    "ingest": "read files into the memory",
    "memories": "list memories, or change one",
    "show": "print the place that an answer cites",
    "why-not": "say why a question does not find a memory",
}
"""Commands of the command line that take the same arguments behind a slash as behind ``tellback``."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """Slash command: *takes* is the kind of its argument, *argument* the word for it in the help."""

    name: str
    argument: str
    takes: Argument
    purpose: str
    function: Callable[[ChatSession, str], None]


def parse_command(line: str) -> tuple[str, str] | None:
    """Return name and argument of a slash command, known or not; None for another *line*, such as a path."""
    match = _COMMAND.fullmatch(line.strip())
    return None if match is None else (match["name"].lower(), (match["rest"] or "").strip())


def run_slash_command(chat: ChatSession, name: str, rest: str) -> None:
    """Run the command *name* with the argument *rest*; for an unknown one, print similar names."""
    if (command := SLASH_COMMANDS.get(name)) is not None:
        command.function(chat, rest)
    elif name in GENERAL_COMMANDS:
        chat.run_command(name, *_words(rest))
    else:
        close = get_close_matches(name, [*SLASH_COMMANDS, *GENERAL_COMMANDS], n=2)
        hint = f"did you mean {' or '.join('/' + word for word in close)}?" if close else "/help lists what there is"
        print_note(f"there is no /{one_line(name)}; {hint}")


def help_text() -> str:
    """Return the help of the chat, wrapped to the screen."""
    entries = [(f"/{command.name} {command.argument}".rstrip(), command.purpose) for command in SLASH_COMMANDS.values()]
    width = max(len(usage) for usage, _ in entries) + 2
    others = " ".join(f"/{name}" for name in GENERAL_COMMANDS)
    keys = "Alt-Enter or Ctrl-J: a new line. Up, Ctrl-R: earlier prompts. Tab: completion. Ctrl-C: stop. Ctrl-D: leave."
    lines = [hang(f"  {usage.ljust(width)}", purpose) for usage, purpose in entries]
    return "\n".join(["Say something, or ask something.", *lines, f"As on the command line: {others}", keys])


def _words(rest: str) -> list[str]:
    """Return the words of *rest*, split as a shell does."""
    try:
        words = shlex.split(rest)
    except ValueError:  # an apostrophe
        words = rest.split()
    return [str(Path(word).expanduser()) if word.startswith("~") else word for word in words]


def _as_text(rest: str) -> list[str]:
    """Return *rest* as arguments that keep its line feeds: options first, or else all of it as text."""
    return rest.split(" ") if rest.startswith("-") else ["--", rest]


def _names_memories(chat: ChatSession, words: Sequence[str]) -> bool:
    """Return whether all of *words* are ids, parts of ids, or numbers of the last list."""
    opened = chat.opened
    return bool(words) and all(
        listing_number(word) is not None
        or (len(word) >= _LEAST_ID_LENGTH and bool(run(opened.memory.find_ids(word, namespace=opened.namespace))))
        for word in words
    )


def _recall(chat: ChatSession, rest: str) -> None:
    if rest:
        chat.run_command("recall", *_as_text(rest))
    else:
        print_note("/recall WORDS: what is known about it")


def _why(chat: ChatSession, rest: str) -> None:
    """Explain the hits for a question (none: the last one), or why the last question did not find a memory."""
    last = chat.talk.last
    if _names_memories(chat, rest.split()[:1]) and len(rest.split()) == 1 and last is not None:
        chat.run_command("why-not", "--", last.prompt, rest)
    elif question := rest or (last.prompt if last is not None else ""):
        chat.run_command("recall", "--explain", "--", question)
        if not rest and last is not None and (cited := last.result.citations):
            numbers = {citation.number: short_id(citation.id) for citation in cited}
            marks = ", ".join(f"[{number}] {id}" for number, id in numbers.items())
            print_note(f"in the answer: {marks}")
    else:
        print_note("/why WORDS: what is found, and what its score is made of; /why alone is about the last question")


def _remember(chat: ChatSession, rest: str) -> None:
    if rest:
        chat.run_command("remember", *_as_text(rest))
    else:
        print_note("/remember TEXT: keep it")


def _forget(chat: ChatSession, rest: str) -> None:
    words = rest.split()
    if not words:
        print_note("/forget ID, or words about it: what is found is shown, and you are asked")
    elif words[0].startswith("-") or _names_memories(chat, words):
        chat.run_command("forget", *words)
    else:
        chat.carry_out(run(chat.talk.to_forget(rest)))


def _correct(chat: ChatSession, rest: str) -> None:
    first, _, text = rest.partition(" ")
    if not rest:
        print_note("/correct ID TEXT, or what holds instead: /correct his birthday is 15 March")
    elif text and _names_memories(chat, [first]):
        chat.run_command("correct", first, "--", text)
    elif (request := run(chat.talk.to_correct(rest))) is not None:
        chat.carry_out(request)
    else:
        print_note("nothing was found that this corrects; /correct ID TEXT names the memory")


def _undo(chat: ChatSession, rest: str) -> None:
    chat.run_command("undo", *rest.split())


def _pin(chat: ChatSession, rest: str) -> None:
    ids = rest.split() or chat.talk.focus[:1]
    if ids:
        chat.run_command("memories", "pin", *ids)
    else:
        print_note("/pin ID: show it to the assistant always")


def _keep(chat: ChatSession, rest: str) -> None:
    """Keep the last prompt with a secret unredacted, marked as sensitive."""
    kept = run(chat.talk.keep_withheld())
    if kept is None:
        print_note("nothing was left out of what you said")
        return
    id, kinds = kept
    print_note(f"kept with its {', '.join(kinds)}, marked as sensitive: {short_id(id)}")


def _sessions(chat: ChatSession, rest: str) -> None:
    chat.run_command("sessions", "list", *_as_text(rest) if rest else ())


def _session(chat: ChatSession, rest: str) -> None:
    from tellback.agent.assistant.cli.sessions import known_session

    if rest:
        chat.talk.begin(known_session(chat.opened, rest))
        print_note(f"going on with {one_line(chat.talk.session)}")
    else:
        print_note(chat.talk.session)


def _new(chat: ChatSession, rest: str) -> None:
    from tellback.agent.assistant.cli.sessions import new_session

    chat.talk.begin(new_session(chat.opened, rest or None))
    print_note("a new session begins" + (f": {one_line(rest)}" if rest else ""))


def _sources(chat: ChatSession, rest: str) -> None:
    """Print the places of the last answer's quotes, with their words."""
    from tellback.agent.assistant.cli.citations import citation_lines

    citations = () if chat.talk.last is None else chat.talk.last.result.citations
    if not citations:
        print_note("the last answer cites nothing")
        return
    lines = citation_lines(chat.opened.settings, citations, run(chat.opened.locations(citations)))
    for line, citation in zip(lines, citations, strict=True):
        typer.echo(line)
        print_text(hang("    ", one_line(citation.quote)))


def _model(chat: ChatSession, rest: str) -> None:
    settings = chat.opened.settings
    if not rest:
        where = "" if settings.model is None else f", at {settings.model_endpoint.url}"
        print_note((settings.model or "no model; questions are answered by quotes") + where)
        return
    chat.change_assistant(replace(settings, model=rest))
    print_note(f"{chat.opened.settings.model or 'quotes'} from now on, in this chat")


def _attach(chat: ChatSession, rest: str) -> None:
    if rest:
        chat.attach(_words(rest)[0] if rest[0] in "\"'" else rest)
    elif chat.attachments.names:
        print_note("\n".join(chat.attachments.names))
    else:
        print_note("/attach FILE: to be asked about in this chat, and not kept")


def _retry(chat: ChatSession, rest: str) -> None:
    if chat.unanswered:
        chat.answer(chat.unanswered)
    else:
        print_note("no turn has failed")


def _help(chat: ChatSession, rest: str) -> None:
    print_note(help_text())


def _quit(chat: ChatSession, rest: str) -> None:
    chat.is_over = True


_TABLE: Final = (
    SlashCommand("recall", "WORDS", "text", "show what is known about it", _recall),
    SlashCommand("why", "[WORDS|ID]", "memory", "say how an answer was found, or why a memory was not", _why),
    SlashCommand("sources", "", "", "show the places and the words that the last answer cites", _sources),
    SlashCommand("remember", "TEXT", "text", "keep it", _remember),
    SlashCommand("keep", "", "", "keep what was left out of what you said last, such as a PIN", _keep),
    SlashCommand("correct", "[ID] TEXT", "memory", "put a memory right", _correct),
    SlashCommand("forget", "ID|WORDS", "memory", "remove memories for good; asks first", _forget),
    SlashCommand("pin", "[ID]", "memory", "show a memory to the assistant always; alone, the last", _pin),
    SlashCommand("undo", "[ID]", "", "take back what was done last", _undo),
    SlashCommand("sessions", "[WORDS]", "text", "list the sessions, or those about something", _sessions),
    SlashCommand("session", "[NAME]", "session", "say which session this is, or go on with another", _session),
    SlashCommand("new", "[NAME]", "", "begin a new session", _new),
    SlashCommand("attach", "[FILE]", "file", "attach a file to the conversation", _attach),
    SlashCommand("model", "[NAME]", "model", "say which model answers, or change it", _model),
    SlashCommand("retry", "", "", "send a turn again that failed or was stopped", _retry),
    SlashCommand("help", "", "", "list the commands", _help),
    SlashCommand("quit", "", "", "leave", _quit),
)
SLASH_COMMANDS: Final[Mapping[str, SlashCommand]] = {command.name: command for command in _TABLE}
OTHER_NAMES: Final[Mapping[str, str]] = {"exit": "quit", "bye": "quit", "?": "help", "search": "recall"}
"""Names that people try, and ours for the same."""
