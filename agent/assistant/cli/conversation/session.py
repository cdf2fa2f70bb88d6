"""Session of a chat: answers prompts, and corrects, forgets and attaches by request."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import typer

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.conversation.attachments import Attachments, read_attachment
from tellback.agent.assistant.cli.conversation.turn import print_dim, stream_turn
from tellback.agent.assistant.cli.conversation.turn_line import announcement_lines
from tellback.agent.assistant.cli.errors import EXIT_ENDPOINT, describe_error
from tellback.agent.assistant.cli.keyboard import quiet_keyboard
from tellback.agent.assistant.cli.output import IN_CHAT, one_line, print_json, print_note
from tellback.agent.assistant.cli.prompts import YES_ANSWERS, ask_on_terminal, confirm_sensitive
from tellback.agent.assistant.cli.text_diff import print_difference
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.cli.conversation.line_editor import LineEditor
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.agent.assistant.conversation.background_worker import Announcement
    from tellback.agent.assistant.conversation.conversation import Conversation, PlainRequest, TurnEnded
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory

_PATIENCE: Final = 20.0
"""Seconds that the end of a chat waits for facts, and that of a pipe for lines."""


@dataclass(slots=True)
class ChatSession:
    """Session of one run of ``chat``, with the exit codes of the turns that failed.

    *json*: a turn is printed as an object. *interactive*: a person sits at the terminal, with an *editor* unless the
    terminal lacks cursor control. ``unanswered`` is the prompt of a turn that failed or was stopped.
    """

    talk: Conversation
    json: bool = False
    interactive: bool = False
    editor: LineEditor | None = None
    attachments: Attachments = field(default_factory=Attachments)
    failures: list[int] = field(default_factory=list)
    unanswered: str = ""
    is_over: bool = False
    unshown_notes: list[str] = field(default_factory=list)

    @property
    def opened(self) -> OpenedMemory:
        """Open memory of the assistant."""
        return self.talk.opened

    @classmethod
    def of(cls, assistant: Assistant, session: str, *, json: bool, interactive: bool) -> ChatSession:
        """Return the session of a chat with *assistant*."""
        from tellback.agent.assistant.conversation.conversation import Conversation

        talk = Conversation(assistant, session, lambda announcement: chat.announce(announcement))
        chat = cls(talk, json=json, interactive=interactive)
        return chat

    def answer(self, line: str) -> None:
        """Answer one prompt; a turn that fails is reported, and the conversation goes on."""
        turn: TurnEnded | None = None
        problem: Exception | None = None
        blocks = list(self.attachments.blocks)
        self.unanswered = ""
        try:
            work = stream_turn(self.talk, line, blocks=blocks, json=self.json, interactive=self.interactive)
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
        if self.json:
            self._print_object(line, turn, text)
        if problem is None and turn is not None:
            self.attachments.take_blocks()
            if turn.kept.reminds and self.opened.settings.model is None and not self.json:
                print_note("this is kept, but nothing reminds you: ask about it then")
            if any(run.call.name == "forget_memory" and not run.result.is_error for run in turn.result.tool_runs):
                self._forget_typed()
            if turn.result.ending == "too_long":
                self.failures.append(EXIT_ENDPOINT)
            return
        print_note(f"tellback: {text}")
        self.failures.append(code)
        if self.interactive:
            self.unanswered = line
            print_note("Enter alone, or /retry, tries it again")

    def announce(self, announcement: Announcement) -> None:
        """Show what was done beside the chat above the waiting prompt, or else before the next turn.

        It is called in the worker's thread.
        """
        self.unshown_notes += announcement_lines(announcement)
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
        worker = self.talk.worker
        if worker is None:
            return
        if self.interactive:
            worker.pause()
            if worker.is_busy:
                print_note("looking for facts in what you said; Ctrl-C leaves them")
        try:
            done = worker.close(patience=_PATIENCE)
        except KeyboardInterrupt:
            done = worker.close(patience=0)
        self.show_notes()
        if not done:
            print_note("what you said is kept; facts were not looked for in all of it")

    def _print_object(self, line: str, turn: TurnEnded | None, error: str | None) -> None:
        result = None if turn is None else turn.result
        answered = {
            "answer": "" if result is None else result.text,
            "citations": () if result is None else result.citations,
            "stored": [] if result is None else [report.id for report in result.stored if report.stored],
            "tokens_exact": None if result is None else result.tokens_exact,
            "warnings": [] if turn is None else turn.warnings,
            "error": error,
        }
        print_json({"session": self.talk.session, "question": line, **answered})

    def run_command(self, *words: str) -> int:
        """Run a command of the command line on the memory that is open; return its exit code."""
        from tellback.agent.assistant.cli.app import run_command_line

        opened = self.opened
        flags = ["--memory", str(opened.settings.memory), *(["--json"] if self.json else [])]
        if opened.namespace:
            flags += ["--namespace", opened.namespace]
        token = IN_CHAT.set(True)
        try:
            code = run_command_line([*flags, *words], lent=opened)
        finally:
            IN_CHAT.reset(token)
        if words[0] in ("forget", "undo"):
            self._forget_typed()
            run(self.talk.drop_forgotten())
        return code

    def carries_out(self, line: str) -> bool:
        """Carry out *line* where it is a request in plain words; return whether it was one, and no prompt.

        A pipe changes nothing so: nobody is there to agree.
        """
        carried_out = False

        def act() -> None:
            nonlocal carried_out
            request = run(self.talk.understand(line))
            if request is None or (request.kind in ("undo", "correct") and not self.interactive):
                return
            carried_out = True
            if request.kind == "forget" and not self.interactive:
                print_note(_forgetting_hint(request.what or "WORDS"))
            else:
                self.carry_out(request)

        self.report(act)
        return carried_out

    def carry_out(self, request: PlainRequest) -> None:
        """Carry out a request in plain words, after a yes where it changes something."""
        match request.kind:
            case "profile":
                self.run_command("memories", "profile")
            case "undo":
                self.run_command("undo")
            case "answer":
                print_note("no question is open, so nothing is kept of this")
            case "forget":
                self._forget(request)
            case "correct":
                self._correct(request)

    def _forget(self, request: PlainRequest) -> None:
        """Show the memories that are meant, and forget those that the user chooses."""
        what, ids = request.what, [memory.id for memory in request.memories]
        if not ids:
            nothing = "nothing was kept or quoted in this conversation yet; say what is to be forgotten"
            print_note("nothing here is about that" if what else nothing)
        elif len(ids) == 1:
            self.run_command("forget", *ids)
        else:
            self.run_command("forget", "--query", what, "-k", str(len(ids)))

    def _correct(self, request: PlainRequest) -> None:
        """Show the memory that is to be corrected and its new text; correct it after a yes."""
        (memory,), text = request.memories, request.text
        print_difference(memory.text, text, aside=True)
        choices = "[y/N/e to edit]" if self.editor is not None else "[y/N]"
        answer = ask_on_terminal(f"Put {short_id(memory.id)} right? {choices}")
        if answer == "e" and self.editor is not None:
            text = self.editor.edit(text, prompt="now: ") or ""
            answer = "y" if text else ""
        if answer not in YES_ANSWERS:
            print_note("left as it is, and nothing is kept of this; say it without the “no” to have it kept")
            return
        marked = memory.sensitive or confirm_sensitive(text, allowed=False)
        id = run(self.talk.correct(request, text=text, sensitive=marked))
        print_dim(f"corrected {short_id(id)} · /undo takes it back")

    def attach(self, path: str) -> None:
        """Attach the file at *path* to the conversation."""
        searched = self.attachments.is_searched
        name, data = read_attachment(path)
        print_note(run(self.attachments.add(name, data, self.opened.settings, self.opened.memory.embedder)))
        if self.attachments.is_searched and not searched:
            self.change_assistant(self.opened.settings)

    def change_assistant(self, settings: AssistantSettings) -> None:
        """Answer by the model of *settings* from now on."""
        from tellback.agent.assistant.wiring import change_assistant

        attached = self.attachments if self.attachments.is_searched else None
        self.talk.assistant = run(change_assistant(self.talk.assistant, settings, attached))

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
            await self.talk.assistant.agent.aclose()

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


def _forgetting_hint(what: str) -> str:
    """Return the commands that forget or correct a memory: in a pipe, plain words do neither."""
    query = shlex.quote(what)
    return (
        f"nothing is forgotten by saying so; `tellback forget --query {query}` shows what it finds, and asks\n"
        "what has changed is simply said anew; `tellback correct` puts a memory right"
    )
