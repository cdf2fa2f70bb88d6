"""Session of a chat: answers prompts, and corrects, forgets and attaches by request."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.conversation.answer_view import masked_kinds
from tellback.agent.assistant.cli.conversation.attachments import Attachments, read_attachment
from tellback.agent.assistant.cli.conversation.plain_requests import (
    Correction,
    asks_for_reminder,
    correction_request,
    first_of,
    memories_about,
    propose_correction,
)
from tellback.agent.assistant.cli.conversation.turn import Turn, print_dim, stream_turn
from tellback.agent.assistant.cli.errors import EXIT_ENDPOINT, describe_error
from tellback.agent.assistant.cli.keyboard import quiet_keyboard
from tellback.agent.assistant.cli.output import one_line, print_json, print_note, screen_width
from tellback.agent.assistant.cli.prompts import ask_on_terminal, confirm_sensitive
from tellback.agent.assistant.cli.text_diff import print_difference
from tellback.agent.assistant.resident.host import Host, hosted
from tellback.agent.assistant.resident.wire import terminal_name
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.cli.conversation.background_worker import BackgroundWorker
    from tellback.agent.assistant.cli.conversation.line_editor import LineEditor
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory
    from tellback.agent.results import RunResult
    from tellback.memory import Report

_PATIENCE: Final = 20.0
"""Seconds that the end of a chat waits for facts, and that of a pipe for lines."""


@dataclass(slots=True)
class ChatSession:
    """Session of one run of ``chat``, with the exit codes of the turns that failed.

    *json*: a turn is printed as an object. *interactive*: a person sits at the terminal, with an *editor* unless the
    terminal lacks cursor control. ``focus`` are the ids of the memories mentioned last, ``redacted`` is the last prompt
    that was not kept whole, with its report, ``unanswered`` the prompt of a turn that failed or was stopped.
    """

    assistant: Assistant
    session: str
    json: bool = False
    interactive: bool = False
    editor: LineEditor | None = None
    attachments: Attachments = field(default_factory=Attachments)
    failures: list[int] = field(default_factory=list)
    focus: list[str] = field(default_factory=list)
    last_prompt: str = ""
    last_result: RunResult | None = None
    redacted: tuple[str, Report] | None = None
    unanswered: str = ""
    is_over: bool = False
    worker: BackgroundWorker | None = None
    unshown_notes: list[str] = field(default_factory=list)

    @property
    def opened(self) -> OpenedMemory:
        """Open memory of the assistant."""
        return self.assistant.opened

    def answer(self, line: str) -> None:
        """Answer one prompt; a turn that fails is reported, and the conversation goes on."""
        turn: Turn | None = None
        problem: Exception | None = None
        blocks = list(self.attachments.blocks)
        if self.worker is not None:
            self.worker.pause()
        self.unanswered = ""
        try:
            work = stream_turn(
                self.assistant,
                line,
                session=self.session,
                blocks=blocks,
                json=self.json,
                interactive=self.interactive,
            )
            with quiet_keyboard(quiet=self.editor is not None):
                turn = run(work)
            problem = turn.error
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.unanswered = line
            print_note("\nstopped; nothing of this turn is kept (/retry sends it again)")
            return
        except Exception as error:  # a bad line, a file that fails: the next line may be fine
            problem = error
        code, text = (0, None) if problem is None else describe_error(problem)
        result = None if turn is None else turn.result
        if self.json:
            self._print_object(line, turn, text)
        if problem is None and result is not None:
            self.attachments.take_blocks()
            self._remember_turn(line, result)
            if result.ending == "too_long":
                self.failures.append(EXIT_ENDPOINT)
            return
        print_note(f"tellback: {text}")
        self.failures.append(code)
        if self.interactive:
            self.unanswered = line
            print_note("Enter alone, or /retry, tries it again")

    def _remember_turn(self, line: str, result: RunResult) -> None:
        from tellback.memory.internals import classify_utterance

        self.last_prompt, self.last_result = line, result
        if result.stored and masked_kinds(line):
            self.redacted = (line, result.stored[0])
        quoted = [citation.id for citation in result.citations if citation.lane == "conversation"]
        is_evidence = classify_utterance(line).kind.is_evidence
        kept = [report.id for report in result.stored[:1] if report.stored and is_evidence]
        said = [report.id if report.stored else report.of for report in result.stored[:1] if is_evidence]
        self.focus = first_of([*(quoted or said), *said, *self.focus])[:5]
        settings = self.opened.settings
        self._work_beside(kept[0] if settings.extract_facts and settings.model is not None and kept else None)
        if kept and settings.model is None and not self.json and asks_for_reminder(line):
            print_note("this is kept, but nothing reminds you: ask about it then")
        if any(run.call.name == "forget_memory" and not run.result.is_error for run in result.tool_runs):
            self._forget_typed()

    def _work_beside(self, turn: str | None) -> None:
        """Ask the model for the facts in the memory *turn*, and for lines, while the conversation goes on."""
        from tellback.agent.assistant.wiring import writes_lines

        if turn is None and not writes_lines(self.opened.settings):
            return
        if self.worker is None:
            from tellback.agent.assistant.cli.conversation.background_worker import BackgroundWorker

            self.worker = BackgroundWorker(self._announce)
        self.worker.submit(self.opened, turn)

    def _announce(self, notes: Sequence[str]) -> None:
        """Show *notes* above the waiting prompt, or else before the next turn; called in the worker's thread."""
        self.unshown_notes += notes
        if self.editor is not None:
            self.editor.print_above(self.show_notes)

    def show_notes(self) -> None:
        """Print what was noted in the background since it was shown last."""
        while self.unshown_notes:
            note = self.unshown_notes.pop(0)
            if not self.json:
                print_dim(note)

    def _finish_work(self) -> None:
        """Wait a limited time for facts of the last turns, then drop them; nobody at a terminal waits for lines."""
        if self.worker is None:
            return
        if self.interactive:
            self.worker.pause()
            if self.worker.is_busy:
                print_note("looking for facts in what you said; Ctrl-C leaves them")
        try:
            done = self.worker.close(patience=_PATIENCE)
        except KeyboardInterrupt:
            done = self.worker.close(patience=0)
        self.show_notes()
        if not done:
            print_note("what you said is kept; facts were not looked for in all of it")

    def _print_object(self, line: str, turn: Turn | None, error: str | None) -> None:
        result = None if turn is None else turn.result
        answered = {
            "answer": "" if result is None else result.text,
            "citations": () if result is None else result.citations,
            "stored": [] if result is None else [report.id for report in result.stored if report.stored],
            "tokens_exact": None if result is None else result.tokens_exact,
            "warnings": [] if turn is None else turn.warnings,
            "error": error,
        }
        print_json({"session": self.session, "question": line, **answered})

    def run_command(self, *words: str) -> int:
        """Run a command of the command line on the memory that is open; return its exit code."""
        from tellback.agent.assistant.cli.app import run_command_line

        opened = self.opened

        def lend(settings: AssistantSettings, create: bool) -> AbstractContextManager[OpenedMemory]:
            return nullcontext(opened)

        host = Host(
            environ=os.environ,
            folder=str(Path.cwd()),
            open_memory=lend,
            terminal=terminal_name(),
            columns=screen_width(),
            in_chat=True,
        )
        flags = ["--memory", str(opened.settings.memory), *(["--json"] if self.json else [])]
        if opened.namespace:
            flags += ["--namespace", opened.namespace]
        with hosted(host):
            code = run_command_line([*flags, *words])
        if words[0] in ("forget", "undo"):
            self._forget_typed()
            known = run(opened.memory.get(self.focus, namespace=opened.namespace)) if self.focus else []
            self.focus = [memory.id for memory in known if memory is not None]
        return code

    def forget_about(self, what: str) -> None:
        """Show the memories about *what*, and forget those that the user chooses."""
        ids = run(memories_about(self.opened, what))
        if not ids:
            print_note("nothing here is about that")
        elif len(ids) == 1:
            self.run_command("forget", *ids)
        else:
            self.run_command("forget", "--query", what, "-k", str(len(ids)))

    def forget_last(self) -> None:
        """Forget the memory that was kept or quoted last, after a question."""
        if self.focus:
            self.run_command("forget", self.focus[0])
        else:
            print_note("nothing was kept or quoted in this conversation yet; say what is to be forgotten")

    def correct_with(self, statement: str) -> bool:
        """Show the memory that *statement* corrects and its new text; correct it after a yes.

        Return whether a memory was found.
        """
        proposal = run(propose_correction(self.opened, statement, self.focus))
        if proposal is None:
            return False
        memory, text = proposal.memory, proposal.text
        print_difference(memory.text, text, aside=True)
        choices = "[y/N/e to edit]" if self.editor is not None else "[y/N]"
        answer = ask_on_terminal(f"Put {short_id(memory.id)} right? {choices}")
        if answer == "e" and self.editor is not None:
            text = self.editor.edit(text, prompt="now: ") or ""
            answer = "y" if text else ""
        if answer not in ("y", "yes"):
            print_note("left as it is, and nothing is kept of this; say it without the “no” to have it kept")
            return True
        self._correct(Correction(memory, text))
        return True

    def _correct(self, correction: Correction) -> None:
        memory = correction.memory
        marked = memory.sensitive or confirm_sensitive(correction.text, allowed=False)
        namespace = self.opened.namespace
        run(self.opened.memory.correct(memory.id, correction.text, sensitive=marked, namespace=namespace))
        self.focus = first_of([memory.id, *self.focus])
        print_dim(f"corrected {short_id(memory.id)} · /undo takes it back")

    def corrects(self, line: str) -> bool:
        """Return whether *line* was carried out as a correction; otherwise it is an ordinary prompt."""
        statement = correction_request(line)
        if statement is None:
            return False
        done = False

        def correct() -> None:
            nonlocal done
            done = self.correct_with(statement)

        self.report(correct)
        return done

    def go_on_with(self, session: str) -> None:
        """Continue the existing *session*."""
        self.begin(session)
        print_note(f"going on with {one_line(session)}")

    def begin(self, session: str) -> None:
        """Store further turns in *session*."""
        self.session, self.focus, self.last_prompt, self.last_result = session, [], "", None

    def change_model(self, name: str) -> None:
        """Use the model *name* from now on; "none" answers by quotes."""
        self._change_assistant(replace(self.opened.settings, model=name))

    def attach(self, path: str) -> None:
        """Attach the file at *path* to the conversation."""
        searched = self.attachments.is_searched
        name, data = read_attachment(path)
        print_note(run(self.attachments.add(name, data, self.opened.settings, self.opened.memory.embedder)))
        if self.attachments.is_searched and not searched:
            self._change_assistant(self.opened.settings)

    def _change_assistant(self, settings: AssistantSettings) -> None:
        from tellback.agent.assistant.wiring import change_assistant

        attached = self.attachments if self.attachments.is_searched else None
        self.assistant = run(change_assistant(self.assistant, settings, attached))

    def close(self) -> None:
        """Write waiting turns, and release attachments and the model; the memory stays open."""
        try:
            self._finish_work()
        finally:
            run(self._close())

    async def _close(self) -> None:
        try:
            await self.attachments.close()
        finally:
            await self.assistant.agent.aclose()

    def _forget_typed(self) -> None:
        if self.editor is not None:
            self.editor.history.forget_typed()

    def report(self, act: Callable[[], None]) -> None:
        """Call *act*; an error is printed on one line, and the conversation goes on."""
        try:
            act()
        except (typer.Exit, typer.Abort):
            pass
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            print_note("\nstopped")
        except typer.BadParameter as error:
            print_note(f"tellback: {one_line(error.format_message().replace('Invalid value for ', '', 1))}")
        except Exception as error:  # as in a command: every error becomes one line
            print_note(f"tellback: {describe_error(error)[1]}")
