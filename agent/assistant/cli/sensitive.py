"""Whether words that look like a secret are to be kept: the person is asked once, or has said so by an option."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agent.assistant.cli.failures import FAILED
from agent.assistant.cli.inputs import confirmed
from agent.assistant.cli.output import note

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory

AllowSensitive: TypeAlias = Annotated[
    bool, typer.Option("--allow-sensitive", help="Keep it even if it looks like a secret, marked as sensitive.")
]


def is_sensitive(words: str, *, allowed: bool) -> bool:
    """Whether *words* hold a secret that is to be kept; where nobody said so and nobody can be asked, it raises."""
    from memory import secret_spans

    kinds = ", ".join(dict.fromkeys(span.kind for span in secret_spans(words)))
    if not kinds or allowed:
        return bool(kinds)
    if not sys.stdin.isatty():
        problem = f"this looks like a secret ({kinds}); needed to keep it, marked, where there is no terminal to ask on"
        raise typer.BadParameter(problem, param_hint="--allow-sensitive")
    if not confirmed(f"This looks like a secret ({kinds}). Keep it, marked as sensitive?"):
        note("mneme: nothing was kept")
        raise typer.Exit(FAILED)
    return True


def marked_already(place: OpenedMemory, ids: Sequence[str]) -> bool:
    """Whether one of the memories *ids* is marked, so that the new words are in any case."""
    from memory import run_sync

    found = run_sync(place.memory.get(ids, namespace=place.namespace))
    return any(one is not None and one.sensitive for one in found)
