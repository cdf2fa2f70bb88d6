"""``mneme documents``: what was ingested."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.failures import reported
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import day, print_json, say
from agent.assistant.cli.shapes import document_json
from agent.assistant.cli.tables import print_table


@reported
def documents(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the documents that were ingested."""
    from memory import run_sync

    with opened_memory(context) as place:
        listed = run_sync(place.knowledge().documents())
    if json:
        print_json({"documents": [document_json(one) for one in listed]})
    elif not listed:
        say("No document was ingested yet; `mneme ingest PATH` reads some.")
    else:
        rows = [(one.source, str(one.chunks), day(one.ingested), one.title) for one in listed]
        print_table(("document", "chunks", "ingested", "title"), rows)
