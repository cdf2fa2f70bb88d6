"""``tellback chat``: a conversation in the terminal that is remembered across runs; piped input works too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.command_context import opened_assistant
from agent.assistant.cli.errors import describe_error, with_error_report
from agent.assistant.cli.json_output import citation_json
from agent.assistant.cli.output import one_line, print_json, print_note, print_piece, print_text
from agent.assistant.cli.prompts import answer_approval, piped_input_lines

if TYPE_CHECKING:
    from agent.assistant.wiring import Assistant
    from agent.results import RunResult

_EXIT_COMMANDS = ("/quit", "/exit", "/bye")
_CHAT_HELP = "Say something, or ask something.\n/new begins a new session, /session names this one, /quit leaves."


@with_error_report
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
        from agent.configuration import new_session_id

        talk = _ChatSession(assistant, session or new_session_id(), json=json, interactive=interactive)
        if interactive:
            model = assistant.settings.model or "no model: statements are kept, questions answered by quotes"
            print_note(f"tellback · {assistant.settings.memory} · {model}")
            print_note(_CHAT_HELP)
        for line in _terminal_lines() if interactive else piped_input_lines():
            if line in _EXIT_COMMANDS:
                break
            talk.take(line)
    if talk.failures:
        raise typer.Exit(talk.failures[0])


@dataclass(slots=True)
class _ChatSession:
    """Session of one run of ``chat``, with the exit codes of the turns that failed."""

    assistant: Assistant
    session: str
    json: bool
    interactive: bool
    failures: list[int] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Obey a command, or answer what was said."""
        if line == "/new":
            from agent.configuration import new_session_id

            self.session = new_session_id()
            print_note("a new session begins")
        elif line == "/session":
            print_note(self.session)
        elif line.startswith("/") and line[1:].isalpha():
            print_note(_CHAT_HELP if line == "/help" else f"there is no {line}.\n{_CHAT_HELP}")
        else:
            self._answer(line)

    def _answer(self, line: str) -> None:
        """Answer one line; a turn that fails is said, and the conversation goes on."""
        from memory import run_sync

        turn = _ChatTurn(silent=self.json, interactive=self.interactive)
        try:
            run_sync(turn.run(self.assistant, line, self.session))
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            print_note("\nstopped; nothing of this turn is kept")
            return
        except Exception as error:  # a bad line, a file that fails: the next line may be fine
            turn.problem = error
        if self.json:
            print_json({"session": self.session, "question": line, **turn.answer()})
        if turn.problem is not None:
            code, problem = describe_error(turn.problem)
            print_note(f"tellback: {problem}")
            self.failures.append(code)


@dataclass(slots=True)
class _ChatTurn:
    """Answer to one line: printed as it arrives, or (*silent*) kept for its JSON object. *interactive*: a person at
    the terminal can approve tool calls."""

    silent: bool
    interactive: bool
    result: RunResult | None = None
    problem: Exception | None = None
    warnings: list[str] = field(default_factory=list)

    async def run(self, assistant: Assistant, line: str, session: str) -> None:
        """Answer *line* in *session*, and print or keep the events of the run."""
        from agent.events import ApprovalRequested, RunEnded, TextDelta, WarningIssued

        midway = False
        async for event in assistant.agent.stream(line, session=session):
            if isinstance(event, TextDelta) and not self.silent:
                print_piece(event.text)
                midway = not event.text.endswith("\n")
            elif isinstance(event, ApprovalRequested):
                if midway:
                    print_text()
                midway = False
                await answer_approval(event.request, assistant.opened, interactive=self.interactive)
            elif isinstance(event, WarningIssued):
                self.warnings.append(event.text)
            elif isinstance(event, RunEnded):
                self.result, self.problem = event.result, event.error
        if not self.silent:
            if midway:
                print_text()
            for item in self.result.citations if self.result is not None else ():
                print_text(f"[{item.number}] {one_line(item.where)}")
            for warning in self.warnings:
                print_note(warning)

    def answer(self) -> dict[str, Any]:
        """Return the fields of the JSON object of this turn."""
        result = self.result
        return {
            "answer": "" if result is None else result.text,
            "citations": [] if result is None else [citation_json(item) for item in result.citations],
            "stored": [] if result is None else [report.id for report in result.stored if report.stored],
            "warnings": self.warnings,
            "error": None if self.problem is None else describe_error(self.problem)[1],
        }


def _terminal_lines() -> Iterator[str]:
    with suppress(ImportError):  # not on every platform; where it is, input() gets editing and earlier lines
        import readline  # noqa: F401
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print_note()
            return
        if line:
            yield line
