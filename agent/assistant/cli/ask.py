"""``tellback ask``: one question, one answer with its citations. The memory is only read."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.command_context import opened_assistant
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.json_output import citation_json
from agent.assistant.cli.output import one_line, print_json, print_note, print_text
from agent.assistant.cli.prompts import read_text_argument


@with_error_report
def ask(
    context: typer.Context,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What you want to know; '-' reads it from standard input.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer QUESTION from what is known, with citations.

    Nothing is stored; a conversation that is kept is `tellback chat`.
    """
    words = read_text_argument(question, name="QUESTION", what="a question")
    from memory import run_sync

    with opened_assistant(context, reads_only=True) as assistant:
        result = run_sync(assistant.agent.run(words, store=False))
        model = assistant.settings.model
    if json:
        print_json(
            {
                "question": words,
                "answer": result.text,
                "citations": [citation_json(item) for item in result.citations],
                "abstain": result.abstain,
                "model": model,
                "ending": result.ending,
                "warnings": list(result.warnings),
                "notes": list(result.notes),
            }
        )
        return
    print_text(result.text)
    if result.citations:
        print_text()
    for item in result.citations:
        print_text(f"[{item.number}] {one_line(item.where)}")
    for warning in (*result.warnings, *result.notes):
        print_note(warning)
