"""Asking the person at the terminal whether a tool may be called; where there is nobody, that is the answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.assistant.cli.output import note
from agent.assistant.cli.printable import one_line

if TYPE_CHECKING:
    from agent.approval import ApprovalRequest
    from agent.assistant.wiring import OpenedMemory

_SHOWN = 200
_YES = frozenset({"y", "yes"})


async def agree(request: ApprovalRequest, place: OpenedMemory, *, interactive: bool) -> None:
    """Answer *request*: by a question on the terminal, which shows the memories that are meant, or with a no.

    The event loop waits meanwhile: nothing else goes on in a conversation, and the line that is typed is the answer.
    """
    from agent.approval import Approval, Decision

    if not interactive:
        request.answer(Decision(Approval.UNAVAILABLE, "nobody sits at a terminal"))
        return
    note(f"The model wants to call {one_line(request.call.name)}: {_short(str(request.call.arguments))}")
    for line in await _meant(request.call.arguments, place):
        note(f"  {line}")
    if _asked("Allow it? [y/N] "):
        request.approve()
    else:
        request.reject()


async def _meant(arguments: dict[str, Any], place: OpenedMemory) -> list[str]:
    """Return the memories that *arguments* name, as they are now."""
    given = [arguments.get("id"), *(arguments.get("ids") or [])] if isinstance(arguments.get("ids") or [], list) else []
    ids = [one for one in given if isinstance(one, str) and one.strip()]
    found = await place.memory.get(ids, namespace=place.namespace) if ids else []
    return [f"{one_line(one.id)}: {_short(one.text)}" for one in found if one is not None]


def _asked(question: str) -> bool:
    with _interruptible():
        try:
            return input(question).strip().casefold() in _YES
        except (EOFError, KeyboardInterrupt):
            note()
            return False


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the question; while a loop runs it would wait for the next key."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _short(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
