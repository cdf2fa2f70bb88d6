"""Trust of a run: that of the least trusted words it has read, which bounds the trust of all that it writes.

A document that a model has read may speak through it; so a note written after reading a document has a document's
trust.
"""

from __future__ import annotations

from dataclasses import dataclass

from tellback.memory import Message, Trust
from tellback.memory.internals import TRUST


@dataclass(slots=True, eq=False)
class TrustTracker:
    """Trust of the least trusted words that a run has read (*least*); reads of a sub-agent count for its caller,
    *parent*."""

    least: Trust = Trust.USER
    parent: TrustTracker | None = None

    def record(self, *trusts: Trust) -> None:
        """Record that words of these trusts were read."""
        self.least = Trust.least((self.least, *trusts))
        if self.parent is not None:
            self.parent.record(*trusts)


def parse_trust(value: object) -> Trust:
    """Return the trust that *value* names; anything else is trusted least."""
    return Trust(value) if isinstance(value, str) and value in tuple(Trust) else Trust.DOCUMENT


def message_trust(message: Message) -> Trust:
    """Return the trust of *message*: the least of its role, of what was read for it, and of its attachments."""
    trusts = [Trust.of(message.role)]
    if TRUST in message.metadata:
        trusts.append(parse_trust(message.metadata[TRUST]))
    if message.role == "user" and any(block.type in ("document", "image") for block in message.blocks):
        trusts.append(Trust.DOCUMENT)
    return Trust.least(trusts)


def with_trust(message: Message, trust: Trust) -> Message:
    """Return *message* with *trust* in its metadata, where that is less than its role says."""
    trust = Trust.least((trust, message_trust(message)))
    if trust.rank <= Trust.of(message.role).rank:
        return message
    return message.model_copy(update={"metadata": {**message.metadata, TRUST: trust.value}})
