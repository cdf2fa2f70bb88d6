"""``tellback ask``: answers one question from the memory, which is only read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from tellback.agent.assistant.cli.citations import citation_lines
from tellback.agent.assistant.cli.command_context import (
    compute_in_one_thread,
    global_options,
    opened_assistant,
    run,
)
from tellback.agent.assistant.cli.conversation.attachments import STANDARD_INPUT, Attachments, read_attachment
from tellback.agent.assistant.cli.errors import EXIT_ENDPOINT
from tellback.agent.assistant.cli.options import (
    AttachOption,
    CollectionOption,
    JsonOption,
    ModifiedSinceOption,
    ModifiedUntilOption,
    QuestionArgument,
    SourceOption,
    TagOption,
    TypeOption,
    chosen_documents,
)
from tellback.agent.assistant.cli.output import print_json, print_line, print_note, print_text
from tellback.agent.assistant.cli.profile import profile as show_profile
from tellback.agent.assistant.cli.prompts import read_text_argument
from tellback.agent.assistant.cli.served_recall import served_answer
from tellback.agent.assistant.cli.waiting import WaitingStatus, show_wait
from tellback.agent.assistant.conversation.plain_requests import asks_for_profile

if TYPE_CHECKING:
    from tellback.agent.agent_memory import MemoryOptions
    from tellback.agent.assistant.wiring import Assistant
    from tellback.agent.results import RunResult
    from tellback.memory.internals import Block


def ask(
    context: typer.Context,
    question: QuestionArgument,
    attach: AttachOption = None,
    tag: TagOption = None,
    source: SourceOption = None,
    type: TypeOption = None,
    modified_since: ModifiedSinceOption = None,
    modified_until: ModifiedUntilOption = None,
    collection: CollectionOption = None,
    json: JsonOption = False,
) -> None:
    """Answer QUESTION from what is known, with citations.

    Nothing is stored; `tellback chat` keeps the conversation. Piped input is attached:
    `cat report.txt | tellback ask "When is it due?"`.
    """
    compute_in_one_thread()
    words = read_text_argument(question, name="QUESTION", what="a question")
    from tellback.agent.agent_memory import MemoryOptions

    files = [read_attachment(path) for path in attach or ()]
    if question != ["-"] and (piped := _piped_input()).strip():
        files.append((STANDARD_INPUT, piped))
    if asks_for_profile(words) and not (json or files or tag or source or type or collection):
        show_profile(context, every=False, rules=False, json=False)
        return
    is_narrow = any((files, tag, source, type, modified_since, modified_until, collection))
    served = None if is_narrow else served_answer(global_options(context).flags, words)
    if served is not None:
        result, locations = served
        settings = global_options(context).configuration().settings
    else:
        attachments = Attachments()
        with opened_assistant(context, reads_only=True, attached=attachments if files else None) as assistant:
            opened = assistant.opened
            where = chosen_documents(opened, source, type, modified_since, modified_until, collection=collection)
            collections = None if collection is None else (collection,)
            options = MemoryOptions(where=where, tags=tuple(tag or ()), collections=collections)
            result = run(_answer(assistant, words, attachments, files, options, WaitingStatus(shown=not json)))
            settings, locations = opened.settings, run(opened.locations(result.citations))
    if json:
        print_json(
            {
                "question": words,
                "answer": result.text,
                "citations": result.citations,
                "abstain": result.abstain,
                "model": settings.model,
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
        for cited in citation_lines(settings, result.citations, locations):
            print_line(cited)
        for warning in (*result.warnings, *(() if files else result.notes)):
            if warning.lower() not in result.text.lower():  # an answer by quotes states its doubt itself
                print_note(warning)
    if result.ending == "too_long":
        raise typer.Exit(EXIT_ENDPOINT)


def _piped_input() -> bytes:
    """Return the piped input; nothing on a terminal, or where standard input cannot be read."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    try:
        return sys.stdin.buffer.read()
    except OSError:
        return b""


async def _answer(
    assistant: Assistant,
    question: str,
    attachments: Attachments,
    files: Sequence[tuple[str, bytes]],
    options: MemoryOptions,
    status: WaitingStatus,
) -> RunResult:
    """Return the answer to *question* about *files* and the memory; raise the error that ended the run."""
    from tellback.agent.events import RunEnded
    from tellback.memory import TextBlock

    opened = assistant.opened
    try:
        for name, data in files:
            await attachments.add(name, data, opened.settings, opened.memory.embedder)
        blocks: list[Block] = [TextBlock(text=question), *attachments.take_blocks()]
        prompt = blocks if files else question
        async for event in assistant.agent.stream(prompt, store=False, memory_options=options):
            show_wait(event, status)
            if isinstance(event, RunEnded):
                ended = event
    finally:
        status.clear()
        await attachments.close()
    if ended.error is not None:
        raise ended.error
    return ended.result
