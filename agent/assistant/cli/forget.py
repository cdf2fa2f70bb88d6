"""``mneme forget``: what must go is gone, with every version and every message that holds its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.failures import FAILED, reported
from agent.assistant.cli.inputs import confirmed, may_ask
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import counted, note, print_json, say
from agent.assistant.cli.printable import one_line
from agent.assistant.cli.shapes import receipt_json

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Forgotten


@reported
def forget(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Which memories.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove memories for good.

    With them go their versions, what was made from them alone, and every message that holds their words.
    """
    from memory import run_sync

    with opened_memory(context) as place:
        receipt = run_sync(place.memory.forget(ids, namespace=place.namespace, dry_run=True))
        listing = _listing(place, receipt)
        if receipt.memories and not dry_run:
            may_ask(yes=yes)
            if not yes and not _agreed(receipt, listing):
                note("mneme: nothing was forgotten")
                raise typer.Exit(FAILED)
            receipt = run_sync(place.memory.forget(ids, namespace=place.namespace))
    if json:
        print_json({**receipt_json(receipt), "dry_run": dry_run})
        return
    if not receipt.memories:
        say("forgotten already")
    elif dry_run:
        say(f"would forget {_counts(receipt)}")
        for line in listing:
            say(f"  {line}")
    else:
        say(f"forgot {_counts(receipt)}")
    if receipt.named:
        note(f"made with what goes, and kept: {', '.join(receipt.named)}")
    if receipt.pending:
        note("another process is reading; the last bytes go when it is done")


def _listing(place: OpenedMemory, plan: Forgotten) -> list[str]:
    """Return a line for each memory that would go."""
    from memory import run_sync

    ids = (*plan.memories, *plan.derived, *plan.also)
    found = run_sync(place.memory.get(ids, namespace=place.namespace))
    return [f"{one.id}  {one_line(one.text)}" for one in found if one is not None]


def _agreed(plan: Forgotten, listing: list[str]) -> bool:
    """Show what would go, and ask."""
    for line in listing:
        note(f"  {line}")
    return confirmed(f"{_counts(plan)} will be gone for good. Go on?")


def _counts(receipt: Forgotten) -> str:
    """Return what a receipt counts, in words."""
    counts = (
        (len(receipt.memories), "memory", "memories"),
        (receipt.versions, "older version", ""),
        (len(receipt.derived), "memory made from it alone", "memories made from it alone"),
        (len(receipt.also), "other memory with the same words", "other memories with the same words"),
        (receipt.messages, "message", ""),
    )
    return ", ".join(counted(count, one, several) for count, one, several in counts if count)
