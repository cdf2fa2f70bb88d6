"""How long a storage keeps the messages of a session: only what its user has set, and never by default.

    Retention(messages=500, idle=timedelta(days=90), unremembered="keep")

It is about conversation history alone: memories made of the messages stay, and stay findable. Forgetting is
something else (``LongTermMemory.forget``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from memory.errors import ArgumentError
from memory.messages import Message
from memory.turns import groups

LOOK_AHEAD = 256
"""How many messages beyond those that go are looked at, so that no call is parted from its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What every session of a storage may keep; at least one of *messages* and *idle*.

    - *messages*: the newest so many, whole groups (``memory.turns.groups``), the newest group always. System
      messages neither count nor go.
    - *idle*: a session to which nothing was added for longer is empty, its system messages gone too; one that is
      taken up again begins anew.
    - *unremembered*: what becomes of a message over these limits that long-term memory has not taken yet. "keep":
      no reading shows it, and its row waits until it was taken; without a long-term memory, for ever. "drop": it
      goes with the others, and nothing will ever recall it.
    """

    unremembered: Literal["keep", "drop"]
    messages: int | None = None
    idle: timedelta | None = None

    def __post_init__(self) -> None:
        if self.unremembered not in ("keep", "drop"):
            raise ArgumentError("unremembered", self.unremembered, '"keep" or "drop" is needed')
        if self.messages is None and self.idle is None:
            raise ArgumentError("messages, idle", None, "at least one of the two is needed")
        if self.messages is not None and (type(self.messages) is not int or self.messages < 1):
            raise ArgumentError("messages", self.messages, "a whole number of at least 1 is needed")
        if self.idle is not None and not (isinstance(self.idle, timedelta) and self.idle > timedelta(0)):
            raise ArgumentError("idle", self.idle, "a timedelta above 0 is needed")


def checked_retention(retention: object) -> Retention | None:
    """Return *retention* if it can be one of a storage."""
    if retention is not None and not isinstance(retention, Retention):
        raise ArgumentError("retention", retention, "a Retention is needed, or None to keep everything")
    return retention


def idle_since(retention: Retention | None, now: datetime) -> datetime | None:
    """Return the time at or before which a session must have been used last to be over; None: none ever is."""
    if retention is None or retention.idle is None:
        return None
    try:
        return now - retention.idle
    except OverflowError:  # longer than there are years
        return None


def begins_at(head: Sequence[tuple[int, Message]], excess: int, *, whole: bool) -> int | None:
    """Return the sequence number of the first message that stays when at least *excess* of *head* go.

    *head* are the oldest messages of a session without its system messages; *whole*: they are all it has, and the
    newest group stays whatever it is. None: more of them are needed to say it.
    """
    found = groups([message for _, message in head])
    gone = 0
    for group in found[:-1]:
        if gone >= excess:
            break
        gone += len(group)
    return head[gone][0] if whole or gone + len(found[-1]) < len(head) else None
