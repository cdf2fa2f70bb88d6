"""What a command reads besides its options: text from a pipe, and a yes before something is destroyed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer

from agent.assistant.cli.output import note


def given_text(argument: str, *, name: str, what: str) -> str:
    """Return the text of *argument* (``-``: of standard input), which must not be blank."""
    text = _decoded(sys.stdin.buffer.read()).strip("\r\n") if argument == "-" else argument
    if not text.strip():
        raise typer.BadParameter(f"{what} is needed", param_hint=name)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter("is not UTF-8 text", param_hint=name) from error
    return text


def piped_lines() -> Iterator[str]:
    """Yield the lines of standard input as they come, without blank ones."""
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        if text := _decoded(line, f"line {number} of standard input").strip():
            yield text


def may_ask(*, yes: bool) -> None:
    """Raise where something is to be destroyed, there is no terminal to ask on, and ``--yes`` was not given."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("needed where there is no terminal to ask on", param_hint="--yes")


def confirmed(question: str) -> bool:
    """Ask on the terminal whether to go on; only a yes is one."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        note()  # end of input: the line of the question is still open
    return answer.strip().lower() in ("y", "yes")


def _decoded(data: bytes, what: str = "standard input") -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"{what} is not UTF-8 text (byte {error.start + 1}); convert it, for example with iconv"
        raise typer.BadParameter(problem, param_hint="-") from error
