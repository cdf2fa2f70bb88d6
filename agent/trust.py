"""Trust of a run: the least trusted words that it has read, beyond which nothing it writes is trusted.

A document that a model has read may speak through it; so a note written after reading a document has a document's
trust.
"""

from __future__ import annotations

from memory import Message, Trust
from memory.internals import TRUST


class TrustTracker:
    """What a run has read so far, as the least trusted of it; a sub-agent's reading is told to that of its caller."""

    def __init__(self, trust: Trust = Trust.USER, *, above: TrustTracker | None = None) -> None:
        self._least, self._above = trust, above

    @property
    def least(self) -> Trust:
        """The least trusted word that was read."""
        return self._least

    def read(self, *trusts: Trust) -> None:
        """Note that words of these were read."""
        self._least = Trust.least((self._least, *trusts))
        if self._above is not None:
            self._above.read(*trusts)


def parse_trust(value: object) -> Trust:
    """Return the trust that *value* names; what names none is trusted least."""
    return Trust(value) if isinstance(value, str) and value in tuple(Trust) else Trust.DOCUMENT


def message_trust(message: Message) -> Trust:
    """Return how far the words of *message* are trusted: its role, what was read for it, and what is attached."""
    trusts = [Trust.of(message.role)]
    if TRUST in message.metadata:
        trusts.append(parse_trust(message.metadata[TRUST]))
    if message.role == "user" and any(block.type in ("document", "image") for block in message.blocks):
        trusts.append(Trust.DOCUMENT)
    return Trust.least(trusts)


def with_trust(message: Message, trust: Trust) -> Message:
    """Return *message* as it is kept, with what was read for it, where that is less than its role says."""
    trust = Trust.least((trust, message_trust(message)))
    if trust.rank <= Trust.of(message.role).rank:
        return message
    return message.model_copy(update={"metadata": {**message.metadata, TRUST: trust.value}})
