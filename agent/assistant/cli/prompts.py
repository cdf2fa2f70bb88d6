"""Prompts and standard input: text from a pipe, confirmations, and approval of tool calls at the terminal.

Where there is no terminal, a confirmation is an option of the command, and an approval is answered as unavailable.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.errors import EXIT_FAILED
from tellback.agent.assistant.cli.keyboard import answering_keyboard
from tellback.agent.assistant.cli.output import one_line, print_note, screen_width, wrap_text
from tellback.agent.assistant.cli.text_diff import print_difference
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.approval import ApprovalRequest
    from tellback.agent.assistant.wiring import OpenedMemory

YES_ANSWERS = ("y", "yes")
NO_ANSWERS = ("n", "no", "none")


def read_text_argument(words: Sequence[str], *, name: str, what: str) -> str:
    """Return the text of *words*, one or several arguments (``-``: of standard input), which must not be blank."""
    argument = " ".join(words)
    text = _decode_input(sys.stdin.buffer.read()).strip("\r\n") if argument == "-" else argument
    if not text.strip():
        raise typer.BadParameter(f"{what} is needed", param_hint=name)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter("is not UTF-8 text", param_hint=name) from error
    return text


def piped_input_lines() -> Iterator[str]:
    """Yield the lines of standard input as they come, without blank ones."""
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        if text := _decode_input(line, f"line {number} of standard input").strip():
            yield text


def require_terminal_or_yes(*, yes: bool) -> None:
    """Raise where something is to be destroyed, there is no terminal to ask on, and ``--yes`` was not given."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("needed where there is no terminal to ask on", param_hint="--yes")


def hidden_line(question: str) -> str:
    """Ask on the terminal for a text that is not shown while it is typed; it may be empty."""
    from getpass import getpass

    return getpass(f"{question}: ").strip()


def ask_line(question: str, suggested: str | None) -> str:
    """Ask on the terminal for a line of text; Enter takes the *suggested* one, the end of input raises ``Abort``."""
    hint = f" [{suggested}]" if suggested else ""
    if not (answer := _answer(f"{question}{hint}:")):
        raise typer.Abort
    return answer.strip() or suggested or ""


def confirm(question: str) -> bool:
    """Ask on the terminal whether to go on; return True only for "y" or "yes"."""
    return ask_on_terminal(f"{question} [y/N]") in YES_ANSWERS


def confirm_or_exit(question: str, otherwise: str) -> None:
    """Ask on the terminal whether to go on; without a yes, print what holds *otherwise* and exit."""
    if not confirm(question):
        print_note(f"tellback: {otherwise}")
        raise typer.Exit(EXIT_FAILED)


def ask_on_terminal(question: str) -> str:
    """Ask *question* on the terminal; return the answer in lower case, "" at the end of input."""
    return _answer(question).strip().lower()


def _answer(question: str) -> str:
    """Return the line that is typed after *question*, with its line feed; "" at the end of input."""
    typer.echo("\n".join(wrap_text(question, screen_width() - 1)) + " ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        print_note()  # the line of the question is still open
    return answer


def choose(count: int, question: str) -> list[int]:
    """Ask on the terminal which of *count* numbered lines are meant; return their numbers, none for an empty answer.

    Numbers, ranges such as ``2-4``, ``all``, and either behind a minus: ``all -3``.
    """
    while True:
        try:
            return chosen_numbers(_answer(question), count)
        except ValueError as error:
            print_note(f"{error}; numbers from 1 to {count} are needed, as in 1 3-5, or all, or all -2")


def chosen_numbers(answer: str, count: int) -> list[int]:
    """Return the numbers that *answer* names out of 1 to *count*, in order; raise ``ValueError`` for another word."""
    chosen: set[int] = set()
    if answer.strip().lower() in NO_ANSWERS:
        return []
    for word in answer.replace(",", " ").split():
        takes_away, name = word.startswith("-"), word.removeprefix("-")
        first, dash, last = name.partition("-")
        if name == "all":
            numbers = set(range(1, count + 1))
        elif first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit())):
            numbers = set(range(int(first), int(last or first) + 1))
        else:
            raise ValueError(f"{word!r} is not a number")
        if not numbers or not numbers <= set(range(1, count + 1)):
            raise ValueError(f"{word} is not in the list")
        chosen = chosen - numbers if takes_away else chosen | numbers
    return sorted(chosen)


def _decode_input(data: bytes, what: str = "standard input") -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"{what} is not UTF-8 text (byte {error.start + 1}); convert it, for example with iconv"
        raise typer.BadParameter(problem, param_hint="-") from error


AllowSensitiveOption: TypeAlias = Annotated[
    bool, typer.Option("--allow-sensitive", help="Keep it even if it looks like a secret, marked as sensitive.")
]


def confirm_sensitive(words: str, *, allowed: bool) -> bool:
    """Return whether *words* hold a secret that is to be kept; raise if it is neither allowed nor confirmed."""
    from tellback.memory.internals import find_secrets

    kinds = ", ".join(dict.fromkeys(span.kind for span in find_secrets(words)))
    if not kinds or allowed:
        return bool(kinds)
    if not sys.stdin.isatty():
        problem = f"it looks like a secret ({kinds}); --allow-sensitive keeps it, marked as sensitive"
        raise typer.BadParameter(problem, param_hint="TEXT")
    confirm_or_exit(f"This looks like a secret ({kinds}). Keep it, marked as sensitive?", "nothing was kept")
    return True


def is_any_sensitive(opened: OpenedMemory, ids: Sequence[str]) -> bool:
    """Return whether one of the memories *ids* is marked as sensitive; its new words are marked, too."""
    memories = run(opened.memory.get(ids, namespace=opened.namespace))
    return any(memory is not None and memory.sensitive for memory in memories)


_EXCERPT_LENGTH = 200


async def answer_approval(request: ApprovalRequest, opened: OpenedMemory, *, interactive: bool) -> None:
    """Answer *request* by a question on the terminal that shows the memories concerned; without a terminal, refuse.

    The event loop waits meanwhile: nothing else goes on in a conversation, and the line that is typed is the answer.
    """
    from tellback.agent.approval import ApprovalDecision, ApprovalStatus

    if not interactive:
        request.answer(ApprovalDecision(ApprovalStatus.UNAVAILABLE, "nobody sits at a terminal"))
        return
    print_note(f"The model wants to call {one_line(request.call.name)}")
    arguments = dict(request.call.arguments)
    if (replaced := await _replaced_text(arguments, opened)) is not None:
        print_difference(replaced, str(arguments.pop("text")), aside=True)
        arguments.pop("id", None)
    for line in await _argument_lines(arguments, opened):
        print_note(f"  {line}")
    if _answered_yes("Allow it? [y/N] "):
        request.approve()
    else:
        request.reject()


async def _replaced_text(arguments: dict[str, Any], opened: OpenedMemory) -> str | None:
    """Return the text of the one memory that *arguments* give a new text; None for any other call."""
    several = arguments.get("ids")
    ids = several if isinstance(several, list) else [arguments.get("id")]
    if len(ids) != 1 or not isinstance(ids[0], str) or not ids[0].strip() or not isinstance(arguments.get("text"), str):
        return None
    (memory,) = await opened.memory.get([ids[0]], namespace=opened.namespace)
    return None if memory is None else memory.text


async def _argument_lines(arguments: dict[str, Any], opened: OpenedMemory) -> list[str]:
    """Return a line for each memory that *arguments* name, as it is now, and one for each other argument."""
    several = arguments.get("ids") or []
    values = [arguments.get("id"), *several] if isinstance(several, list) else []
    ids = [value for value in values if isinstance(value, str) and value.strip()]
    memories = await opened.memory.get(ids, namespace=opened.namespace) if ids else []
    texts = {
        id: "no memory has this id" if memory is None else memory.text for id, memory in zip(ids, memories, strict=True)
    }
    lines = [f"{short_id(one_line(id))}: {_excerpt(text)}" for id, text in texts.items()]
    others = {name: value for name, value in arguments.items() if not ids or name not in ("id", "ids")}
    return lines + [f"{one_line(name)}: {_excerpt(_argument_text(value))}" for name, value in others.items()]


def _argument_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _answered_yes(question: str) -> bool:
    """Return whether *question* is answered by a yes; Ctrl-C is a no.

    The handler is the default one meanwhile: that of a running event loop would wait for the next key.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with answering_keyboard():
            return input(question).strip().casefold() in YES_ANSWERS
    except (EOFError, KeyboardInterrupt):
        print_note()
        return False
    finally:
        signal.signal(signal.SIGINT, before)


def _excerpt(text: str) -> str:
    from tellback.agent.errors import shorten

    return shorten(one_line(text), _EXCERPT_LENGTH)
