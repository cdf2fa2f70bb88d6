"""``tellback memories about``: the line that says what a memory is about; a model writes those that are missing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import DEFAULT_LIMIT, FullOption, JsonOption, LimitOption, YesOption
from tellback.agent.assistant.cli.output import (
    format_count,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
)
from tellback.agent.assistant.cli.prompts import confirm_or_exit, require_terminal_or_yes
from tellback.agent.assistant.cli.short_ids import resolve_id
from tellback.agent.short_ids import short_id
from tellback.agent.topics import memories_without_line

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import Memory


def about(
    context: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Which memory.")] = None,
    line: Annotated[list[str] | None, typer.Argument(metavar="[LINE]", help="Its line; '' takes it away.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List the memories without a line.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Let the model write the missing lines.")] = False,
    most_tokens: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="With --write: stop before it takes more tokens.")
    ] = None,
    yes: YesOption = False,
    limit: LimitOption = DEFAULT_LIMIT,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """Say what memory ID is about, or list those without a line.

    The line has 3 to 10 words: the attribute, and the person or thing by name, without the answer ("spare house key:
    who keeps it"). The memory is found by it in other words. Lines of the model are written after a question, which
    says how much it would be sent.
    """
    if [missing, write, id is not None].count(True) != 1 or (id is not None and line is None):
        raise typer.BadParameter("an ID and its LINE are needed, or --missing, or --write", param_hint="ID")
    with opened_memory(context) as opened:
        if write:
            _write_missing(opened, most_tokens, yes=yes, json=json)
            return
        if id is None:
            _list_missing(opened, limit, full=full, json=json)
            return
        id = resolve_id(opened, id, changes=True)
        (report,) = run(opened.memory.describe({id: " ".join(line or ())}, namespace=opened.namespace))
    if json:
        print_json(report)
    elif report.operation is None:
        print_text(f"nothing to change: {report.id}")
    else:
        print_text(f"described {report.id}" + (f": {report.deferred}" if report.deferred else ""))
        print_note("take it back with:", command=f"tellback undo {report.operation}")


def _list_missing(opened: OpenedMemory, limit: int, *, full: bool, json: bool) -> None:
    """Print how many memories have no line, and the newest of them; what is no evidence needs none."""
    memories = run(_memories_without_line(opened))
    page = memories[:limit]
    if json:
        print_json({"memories": page, "total": len(memories)})
        return
    if not memories:
        print_text("Every memory says what it is about.")
        return
    keep_memories(opened.settings, page)
    print_text(f"{format_count(len(memories), 'memory', 'memories')} without a line:")
    rows = [(str(n), memory.id if full else short_id(memory.id), memory.text) for n, memory in enumerate(page, start=1)]
    print_table(("#", "id", "text"), rows, whole=2, full=full)


def _write_missing(opened: OpenedMemory, most_tokens: int | None, *, yes: bool, json: bool) -> None:
    """Show what the model would be sent, and let it write the missing lines after a yes; what is written stays."""
    from tellback.agent.assistant.wiring import make_http_client, make_line_writer
    from tellback.agent.context.line_writer import LineProgress

    settings, progress = opened.settings, LineProgress()
    client = make_http_client(settings)

    async def write(total: int) -> None:
        nonlocal progress
        async for progress in writer.write(opened.memory, namespace=opened.namespace, most_tokens=most_tokens):
            advance(progress.done, total)

    try:
        writer = make_line_writer(settings, client)
        estimate = run(writer.estimate(opened.memory, namespace=opened.namespace))
        if estimate.memories:
            sent = (
                f"{format_count(estimate.memories, 'memory', 'memories')} would go to {line_writer_shown(settings)}: "
                f"{format_count(estimate.calls, 'call')}, about {estimate.tokens:,} tokens"
            )
            if settings.line_client:
                sent += ", and what the client itself adds to each call"
            if not (json and yes):
                print_note(sent)
            require_terminal_or_yes(yes=yes)
            if not yes:
                confirm_or_exit("Let it write what they are about?", "nothing was sent")
            with progress_bar("writing lines", quiet=json) as advance:
                run(write(estimate.memories))
    except KeyboardInterrupt:
        print_note("what was written so far is kept: the same command goes on")
        raise
    finally:
        run(client.aclose())
    if json:
        print_json({**asdict(progress), "memories": estimate.memories, "estimated_tokens": estimate.tokens})
    elif not estimate.memories:
        print_text("No memory that may be shown to the model is without a line.")
    else:
        unanswered = f", {progress.skipped} without a usable answer" if progress.skipped else ""
        print_text(f"{format_count(progress.written, 'line')} written, {progress.silent} state nothing{unanswered}")
        print_note(f"{progress.usage.input:,} + {progress.usage.output:,} tokens")
        if progress.stopped:
            print_note("stopped before the limit of tokens; the same command goes on")


def line_writer_shown(settings: AssistantSettings) -> str:
    """Return who writes lines, and where it is."""
    if settings.line_client:
        from tellback.agent.providers.client_command import CLIENT_COMMANDS

        command = CLIENT_COMMANDS[settings.line_client]
        return f"{command.title} ({command.shown})"
    from tellback.memory.http import safe_url

    return f"{settings.model} at {safe_url(settings.model_endpoint.url)}"


async def _memories_without_line(opened: OpenedMemory) -> list[Memory]:
    pages = memories_without_line(opened.memory, "newest", namespace=opened.namespace)
    return [memory async for page in pages for memory in page]
