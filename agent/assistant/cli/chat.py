"""``mneme chat``: a conversation in the terminal that is remembered across runs; piped input works too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.command_context import opened_assistant
from agent.assistant.cli.errors import described, reported
from agent.assistant.cli.json_output import citation_json
from agent.assistant.cli.output import note, one_line, print_json, say, say_piece
from agent.assistant.cli.prompts import agree, piped_lines

if TYPE_CHECKING:
    from agent.assistant.wiring import Assistant
    from agent.results import RunResult

_LEAVE = ("/quit", "/exit", "/bye")
_HELP = "Say something, or ask something.\n/new begins a new session, /session names this one, /quit leaves."


@reported
def chat(
    context: typer.Context,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a turn.")] = False,
) -> None:
    """Talk; what is said is remembered across runs.

    Reads lines from a pipe too, a turn each.
    """
    if session is not None and not session.strip():
        raise typer.BadParameter("the id of a session is needed", param_hint="--session")
    interactive = sys.stdin.isatty() and not json
    with opened_assistant(context, reads_only=False) as assistant:
        from agent.agent import new_session

        talk = _Talk(assistant, session or new_session(), json=json, interactive=interactive)
        if interactive:
            model = assistant.settings.model or "no model: statements are kept, questions answered by quotes"
            note(f"mneme · {assistant.settings.memory} · {model}")
            note(_HELP)
        for line in _typed_lines() if interactive else piped_lines():
            if line in _LEAVE:
                break
            talk.take(line)
    if talk.failures:
        raise typer.Exit(talk.failures[0])


@dataclass(slots=True)
class _Talk:
    """One run of ``chat``: where it stands, and the exit codes of the turns that failed."""

    assistant: Assistant
    session: str
    json: bool
    interactive: bool
    failures: list[int] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Obey a command, or answer what was said."""
        if line == "/new":
            from agent.agent import new_session

            self.session = new_session()
            note("a new session begins")
        elif line == "/session":
            note(self.session)
        elif line.startswith("/") and line[1:].isalpha():
            note(_HELP if line == "/help" else f"there is no {line}.\n{_HELP}")
        else:
            self._answer(line)

    def _answer(self, line: str) -> None:
        """Answer one line; a turn that fails is said, and the conversation goes on."""
        from memory import run_sync

        turn = _Turn(silent=self.json, interactive=self.interactive)
        try:
            run_sync(turn.run(self.assistant, line, self.session))
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            note("\nstopped; nothing of this turn is kept")
            return
        except Exception as error:  # a bad line, a file that fails: the next line may be fine
            turn.problem = error
        if self.json:
            print_json({"session": self.session, "question": line, **turn.answer()})
        if turn.problem is not None:
            code, problem = described(turn.problem)
            note(f"mneme: {problem}")
            self.failures.append(code)


@dataclass(slots=True)
class _Turn:
    """One answer as it comes in: printed at once, or (*silent*) kept for its JSON object. *interactive*: somebody can
    be asked whether a tool may be called."""

    silent: bool
    interactive: bool
    result: RunResult | None = None
    problem: Exception | None = None
    warnings: list[str] = field(default_factory=list)

    async def run(self, assistant: Assistant, line: str, session: str) -> None:
        """Answer *line*."""
        from agent.events import ApprovalRequested, RunEnded, TextDelta, Warned

        midway = False
        async for event in assistant.agent.stream(line, session=session):
            if isinstance(event, TextDelta) and not self.silent:
                say_piece(event.text)
                midway = not event.text.endswith("\n")
            elif isinstance(event, ApprovalRequested):
                if midway:
                    say()
                midway = False
                await agree(event.request, assistant.place, interactive=self.interactive)
            elif isinstance(event, Warned):
                self.warnings.append(event.text)
            elif isinstance(event, RunEnded):
                self.result, self.problem = event.result, event.error
        if not self.silent:
            if midway:
                say()
            for item in self.result.citations if self.result is not None else ():
                say(f"[{item.number}] {one_line(item.where)}")
            for warning in self.warnings:
                note(warning)

    def answer(self) -> dict[str, Any]:
        """Return what ``--json`` says of it."""
        result = self.result
        return {
            "answer": "" if result is None else result.text,
            "citations": [] if result is None else [citation_json(item) for item in result.citations],
            "stored": [] if result is None else [report.id for report in result.stored if report.stored],
            "warnings": self.warnings,
            "error": None if self.problem is None else described(self.problem)[1],
        }


def _typed_lines() -> Iterator[str]:
    with suppress(ImportError):  # not on every platform; where it is, input() gets editing and earlier lines
        import readline  # noqa: F401
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            note()
            return
        if line:
            yield line
