"""One turn of a chat: the answer is shown as it arrives, then where it comes from and what the turn did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from tellback.agent.assistant.cli.citations import citation_lines
from tellback.agent.assistant.cli.conversation.answer_view import answer_view
from tellback.agent.assistant.cli.conversation.turn_line import turn_line
from tellback.agent.assistant.cli.output import fit_line, has_styles, print_line, print_note, print_text
from tellback.agent.assistant.cli.prompts import answer_approval
from tellback.agent.assistant.cli.waiting import WaitingStatus, show_wait

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.conversation import Conversation, TurnEnded
    from tellback.agent.assistant.wiring import Assistant
    from tellback.memory.internals import Block


async def stream_turn(
    talk: Conversation, line: str, *, blocks: Sequence[Block] = (), json: bool = False, interactive: bool = False
) -> TurnEnded:
    """Answer *line* with the attached *blocks*; print the answer as it arrives, unless *json* says otherwise.

    *interactive*: a person at the terminal can approve tool calls, and a line says what the turn did.
    """
    from tellback.agent.assistant.conversation.conversation import TurnEnded
    from tellback.agent.events import ApprovalRequested, RoundStarted, TextDelta, TextWithdrawn, ToolStarted, Waiting

    status = WaitingStatus(shown=not json)
    view = answer_view(line, renders=talk.opened.settings.model is not None)
    try:
        async for event in talk.answer(line, blocks):
            if isinstance(event, TurnEnded):
                turn = event
                continue
            if isinstance(event, TextDelta) and not json:
                status.clear()
                view.write(event.text)
                continue
            if isinstance(event, ApprovalRequested | RoundStarted | TextWithdrawn | ToolStarted | Waiting) and not json:
                view.close()  # what these print must not continue the line of an unfinished text
            show_wait(event, status)
            if isinstance(event, ApprovalRequested):
                status.clear()
                await answer_approval(event.request, talk.opened, interactive=interactive)
            elif isinstance(event, TextWithdrawn) and not json:
                print_text("(so far the model was thinking; its answer:)\n")
    finally:
        status.clear()
        view.close()
    if not json:
        await _print_origins(talk.assistant, turn, interactive=interactive)
    return turn


async def _print_origins(assistant: Assistant, turn: TurnEnded, *, interactive: bool) -> None:
    """Print the citations, the warnings, and on a terminal the line about the turn."""
    opened, citations = assistant.opened, turn.result.citations
    for cited in citation_lines(opened.settings, citations, await opened.locations(citations)):
        print_line(cited)
    summary = turn_line(turn, unsaved=assistant.agent.unsaved) if interactive else ""
    reason = turn.result.stored[0].reason if turn.result.stored else ""
    for warning in turn.warnings:
        if not (summary and reason and reason in warning):  # the line of the turn says the same
            print_note(warning)
    if summary:
        print_dim(summary)


def print_dim(text: str) -> None:
    """Print a line beside the answer, dim where the terminal has colours."""
    line = fit_line(text)
    typer.echo(typer.style(line, dim=True) if has_styles(sys.stderr) else line, err=True)
