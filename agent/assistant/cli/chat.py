"""``tellback chat`` and ``ask``: a conversation in the terminal that is remembered across runs, where piped input works
too, and one question with its answer, for which the memory is only read."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.citations import citation_lines
from agent.assistant.cli.command_context import compute_in_one_thread, opened_assistant, run
from agent.assistant.cli.errors import EXIT_ENDPOINT, describe_error, with_error_report
from agent.assistant.cli.options import (
    CollectionOption,
    JsonOption,
    ModifiedSinceOption,
    ModifiedUntilOption,
    QuestionArgument,
    SourceOption,
    TagOption,
    TypeOption,
)
from agent.assistant.cli.output import (
    format_count,
    one_line,
    print_json,
    print_line,
    print_note,
    print_piece,
    print_text,
)
from agent.assistant.cli.prompts import answer_approval, piped_input_lines, read_text_argument
from agent.assistant.cli.short_ids import resolve_session
from agent.assistant.cli.waiting import WaitingStatus, is_shown_apart, show_wait

if TYPE_CHECKING:
    from agent.agent_memory import MemoryOptions
    from agent.assistant.wiring import Assistant, OpenedMemory
    from agent.results import RunResult

_JUST_BEGUN = timedelta(minutes=10)
_EXIT_COMMANDS = ("/quit", "/exit", "/bye", "quit", "exit")
_FORGETS = re.compile(r"(?:please )?(?:forget|delete|erase)(?: about| that)? (?P<what>.+)", re.IGNORECASE)
_CHAT_HELP = "Say something, or ask something.\n/new begins a new session, /session names this one, /quit leaves."


@with_error_report
def chat(
    context: typer.Context,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session.")] = None,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last session.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a turn.")] = False,
) -> None:
    """Talk; what is said is remembered across runs.

    Reads lines from a pipe too, a turn each.
    """
    if session is not None and not session.strip():
        raise typer.BadParameter("the id of a session is needed", param_hint="--session")
    if session is not None and go_on:
        raise typer.BadParameter("goes without --continue", param_hint="--session")
    interactive = sys.stdin.isatty() and not json
    with opened_assistant(context, reads_only=False) as assistant:
        for note in run(assistant.start()):
            print_note(one_line(note))
        talk = _ChatSession(
            assistant, _chosen_session(assistant.opened, session, go_on=go_on), json=json, interactive=interactive
        )
        if interactive:
            model = assistant.opened.settings.model or "no model: statements are kept, questions answered by quotes"
            print_note(f"tellback · {assistant.opened.settings.memory} · {model}")
            print_note(_CHAT_HELP)
        for line in _terminal_lines() if interactive else piped_input_lines():
            if line in _EXIT_COMMANDS:
                break
            talk.take(line)
    if talk.failures:
        raise typer.Exit(talk.failures[0])


def _chosen_session(opened: OpenedMemory, session: str | None, *, go_on: bool) -> str:
    """Return the id of the session that is meant; say on the terminal which one goes on, or that one begins."""
    from agent.configuration import new_session_id

    conversations, namespace = opened.memory.conversations, opened.namespace
    if go_on:
        last = run(conversations.sessions(namespace=namespace, limit=1))
        if not last:
            print_note("no conversation is kept yet; this is the first")
            return new_session_id()
        session = last[0].session
    if session is None:
        return new_session_id()
    id = resolve_session(opened, session)
    info = next((info for info in run(conversations.sessions(namespace=namespace)) if info.session == id), None)
    if info is None:
        from memory.internals import redact_secrets

        name, _ = redact_secrets(one_line(id))
        print_note(f"a new conversation begins, called {name}; `tellback sessions` lists those there are")
    elif sys.stdin.isatty():
        print_note(f"going on, {format_count(info.messages, 'message')} so far: {one_line(info.begins)}")
    return id


@dataclass(slots=True)
class _ChatSession:
    """Session of one run of ``chat``, with the exit codes of the turns that failed.

    *json*: a turn is printed as an object. *interactive*: a person at the terminal can approve tool calls.
    """

    assistant: Assistant
    session: str
    json: bool
    interactive: bool
    failures: list[int] = field(default_factory=list)
    _failed_line: str = ""

    def take(self, line: str) -> None:
        """Obey a command, or answer what was said; an empty line says again what failed."""
        if not line:
            if self._failed_line:
                self._answer(self._failed_line)
        elif line == "/new":
            from agent.configuration import new_session_id

            self.session = new_session_id()
            print_note("a new session begins")
        elif line == "/session":
            print_note(self.session)
        elif line.lower() in ("help", "help!", "help?", "?"):
            print_note(_CHAT_HELP)
        elif (asked := _FORGETS.fullmatch(line)) and self.assistant.opened.settings.model is None and not self.json:
            print_note(_forgetting_hint(asked["what"]))
        elif line.startswith("/") and line[1:].isalpha():
            print_note(_CHAT_HELP if line == "/help" else f"there is no {line}.\n{_CHAT_HELP}")
        else:
            self._answer(line)

    def _answer(self, line: str) -> None:
        """Answer one line; a turn that fails is said, and the conversation goes on."""
        warnings: list[str] = []
        result: RunResult | None = None
        problem: Exception | None = None
        self._failed_line = ""
        try:
            result, problem = run(self._stream(line, warnings))
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            print_note("\nstopped; nothing of this turn is kept")
            return
        except Exception as error:  # a bad line, a file that fails: the next line may be fine
            problem = error
        code, text = (0, None) if problem is None else describe_error(problem)
        if self.json:
            turn = {
                "answer": "" if result is None else result.text,
                "citations": () if result is None else result.citations,
                "stored": [] if result is None else [report.id for report in result.stored if report.stored],
                "tokens_exact": None if result is None else result.tokens_exact,
                "warnings": warnings,
                "error": text,
            }
            print_json({"session": self.session, "question": line, **turn})
        if problem is not None:
            print_note(f"tellback: {text}")
            self.failures.append(code)
            if self.interactive:
                self._failed_line = line
                print_note("Enter alone tries it again")
        elif result is not None and result.ending == "too_long":
            self.failures.append(EXIT_ENDPOINT)

    async def _stream(self, line: str, warnings: list[str]) -> tuple[RunResult, Exception | None]:
        """Return the result of the run and its error; print the answer as it arrives, unless it goes into an object."""
        from agent.events import (
            ApprovalRequested,
            MemoryDegraded,
            RunEnded,
            TextDelta,
            TextWithdrawn,
            WarningIssued,
        )

        status = WaitingStatus(shown=not self.json)
        midway = False
        try:
            async for event in self.assistant.agent.stream(line, session=self.session):
                if isinstance(event, TextDelta) and not self.json:
                    status.clear()
                    print_piece(event.text)
                    midway = not event.text.endswith("\n")
                    continue
                if midway and is_shown_apart(event):
                    print_text()
                    midway = False
                show_wait(event, status)
                if isinstance(event, ApprovalRequested):
                    status.clear()
                    await answer_approval(event.request, self.assistant.opened, interactive=self.interactive)
                elif isinstance(event, TextWithdrawn) and not self.json:
                    print_text("(so far the model was thinking; its answer:)\n")
                elif isinstance(event, WarningIssued):
                    warnings.append(event.text)
                elif isinstance(event, MemoryDegraded) and event.access.error is None:  # else a warning says it
                    warnings.append(event.access.problem)
                elif isinstance(event, RunEnded):
                    ended = event
        finally:
            status.clear()
        if not self.json:
            if midway:
                print_text()
            for cited in await citation_lines(self.assistant.opened, ended.result.citations):
                print_line(cited)
            for warning in warnings:
                print_note(warning)
        return ended.result, ended.error


def _forgetting_hint(what: str) -> str:
    """Return by which commands something is forgotten or put right: without a model, words alone do neither."""
    query = shlex.quote(what.rstrip(".! "))
    return (
        f"nothing is forgotten by saying so; `tellback forget --query {query}` shows what it finds, and asks\n"
        "what has changed is simply said anew; `tellback correct` puts a memory right"
    )


def _terminal_lines() -> Iterator[str]:
    with suppress(ImportError):  # not on every platform; where it is, input() gets editing and earlier lines
        import readline  # noqa: F401
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print_note()
            return
        yield line


async def _answer_once(assistant: Assistant, question: str, options: MemoryOptions, status: WaitingStatus) -> RunResult:
    """Return the answer to *question*; raise what ended the run."""
    from agent.events import RunEnded

    try:
        async for event in assistant.agent.stream(question, store=False, memory_options=options):
            show_wait(event, status)
            if isinstance(event, RunEnded):
                ended = event
    finally:
        status.clear()
    if ended.error is not None:
        raise ended.error
    return ended.result


@with_error_report
def ask(
    context: typer.Context,
    question: QuestionArgument,
    tag: TagOption = None,
    source: SourceOption = None,
    type: TypeOption = None,
    modified_since: ModifiedSinceOption = None,
    modified_until: ModifiedUntilOption = None,
    collection: CollectionOption = None,
    json: JsonOption = False,
) -> None:
    """Answer QUESTION from what is known, with citations.

    Nothing is stored; a conversation that is kept is `tellback chat`.
    """
    compute_in_one_thread()
    words = read_text_argument(question, name="QUESTION", what="a question")
    from agent.agent_memory import MemoryOptions
    from agent.assistant.cli.documents import chosen_documents

    with opened_assistant(context, reads_only=True) as assistant:
        options = MemoryOptions(
            where=chosen_documents(
                assistant.opened, source, type, modified_since, modified_until, collection=collection
            ),
            tags=tuple(tag or ()),
            collections=None if collection is None else (collection,),
        )
        result = run(_answer_once(assistant, words, options, WaitingStatus(shown=not json)))
        model = assistant.opened.settings.model
        begins = not json and _is_just_begun(assistant.opened)
        lines = [] if json else run(citation_lines(assistant.opened, result.citations))
    if json:
        print_json(
            {
                "question": words,
                "answer": result.text,
                "citations": result.citations,
                "abstain": result.abstain,
                "model": model,
                "ending": result.ending,
                "tokens_exact": result.tokens_exact,
                "warnings": result.warnings,
                "notes": result.notes,
                "answered_by": result.model or None,
            }
        )
    else:
        print_text(result.text)
        if result.citations:
            print_text()
        for cited in lines:
            print_line(cited)
        for warning in (*result.warnings, *result.notes):
            if warning.lower() not in result.text.lower():  # an answer without a model says whom it doubts
                print_note(warning)
        if begins:
            program = "tellback" if shutil.which("tellback") else sys.argv[0]
            print_note(f"\nNext: {program} ingest FOLDER, to ask your own files; {program} chat, to be remembered.")
    if result.ending == "too_long":
        raise typer.Exit(EXIT_ENDPOINT)


def _is_just_begun(opened: OpenedMemory) -> bool:
    """Return whether the first documents were ingested a few minutes ago, and nothing was said yet."""
    newest = datetime.now(UTC) - _JUST_BEGUN
    if datetime.fromtimestamp(opened.settings.memory.stat().st_mtime, UTC) < newest:
        return False
    if run(opened.memory.count(namespace=opened.namespace)):
        return False
    documents = run(opened.knowledge().documents())
    return all(document.ingested is not None and document.ingested > newest for document in documents)
