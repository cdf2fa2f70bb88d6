"""Call of a hook and its reply, as values that cross processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tellback.agent.assistant.clients.hook_payload import HookMoment

HOOK_SECONDS: Final[Mapping[HookMoment, int]] = {
    HookMoment.SESSION_START: 10,
    HookMoment.PROMPT: 10,
    HookMoment.TURN_END: 20,
    HookMoment.COMPACTION: 20,
}
"""Seconds after which a client goes on without a hook, as it is registered: nobody waits for the end of a turn."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """Call of a hook: which *client* (as ``tellback install`` names it) reports which of its own events (*event*).

    *payload* is the JSON object that the client wrote, *folder* the working directory of the hook, *received* when it
    was called (aware).
    """

    client: str
    event: str
    payload: Mapping[str, Any]
    folder: str
    received: datetime


@dataclass(frozen=True, slots=True)
class HookReply:
    """Reply of a hook: the text on *stdout*, with the ids of the memories in it (*shown*).

    *given* has the scores of those that were chosen for a prompt. *shown_before* are the ids of memories that bear on
    the prompt and were shown earlier in the session. ``keep_hook`` records all of it.
    """

    stdout: str
    shown: tuple[str, ...] = ()
    shown_before: tuple[str, ...] = ()
    given: Mapping[str, float] = field(default_factory=dict)

    @property
    def in_context(self) -> tuple[str, ...]:
        """Ids of the memories that bear on the prompt and that the model can read."""
        return self.shown + self.shown_before
