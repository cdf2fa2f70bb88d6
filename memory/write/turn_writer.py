"""Turn writer: messages into history and their memories into the store, in one transaction.

Where history and store share a file the two are written together. Elsewhere history comes first, with the ids of the
memories to be written; what is missing after a crash is completed on opening (``crash_recovery``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Final

from memory.entry_store import EntryStore
from memory.history.codec import checked_session, messages_to_json
from memory.history.protocol import HistoryRow
from memory.message_text import image_captions, media_text, tool_call_text, tool_results_text
from memory.messages import QUOTES, TRUST, USED, Message, ToolCallBlock, calls_by_message
from memory.models import Actor, Memory, Source, Trust
from memory.results import Outcome, Report
from memory.timestamps import Clock
from memory.validation import checked_labels, checked_memory
from memory.write.draft import Draft, change_unsettled
from memory.write.in_flight import WritesInFlight
from memory.write.pipeline import WritePipeline
from memory.write.policy_runner import redacted_message, redaction_policies

_NO_TEXT_REASONS: Final = {
    "user": "no text; kept in history only",
    "assistant": "no text of its own; kept in history only",
    "tool": "it shows what is remembered already; kept in history only",
}


def memory_from_message(
    message: Message,
    session: str,
    at: datetime,
    used: Sequence[str] = (),
    sequence: int | None = None,
    calls: Sequence[ToolCallBlock] = (),
) -> Memory | str:
    """Return what is to be remembered of *message*, or the reason why nothing is; *calls* are those it tells of."""
    if message.role == "system":
        return "system messages are kept in history only"
    actor: Actor = message.role
    text = _message_text(message, calls)
    if not text:
        return _NO_TEXT_REASONS[message.role]
    if actor == "assistant" and quoted_ids(message):
        return "it quotes what is remembered already; kept in history only"
    metadata = {USED: list(used)} if used and actor == "assistant" else {}
    trust = message_trust(message)
    return Memory(
        text=text,
        caption=image_captions(message) if message.text.strip() else "",
        kind="turn",
        role=message.role,
        speaker=message.name,
        session=session,
        sequence=sequence,
        source=Source(session=session, sequence=sequence),
        trust=trust,
        actor=actor if trust == actor else trust.value,
        occurred_at=message.at or at,
        metadata=metadata,
    )


def _message_text(message: Message, calls: Sequence[ToolCallBlock]) -> str:
    """Return what *message* says, what stands for its images, or what it asked tools or was answered by them."""
    if message.role == "tool":
        return tool_results_text(message, calls).strip()
    if message.text.strip():
        return message.text
    return media_text(message) or "\n".join(map(tool_call_text, calls)).strip()


def message_trust(message: Message) -> Trust:
    """Return how far *message* is trusted: as its role, or less where its metadata says so."""
    own, lowered = Trust.of(message.role), message.metadata.get(TRUST)
    return Trust.least((own, Trust(lowered))) if lowered in tuple(Trust) else own


def quoted_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the memories that *message* quotes: texts, or objects with an "id"."""
    quotes = message.metadata.get(QUOTES, ())
    if not isinstance(quotes, (list, tuple)):
        return ()
    ids = [quote.get("id") if isinstance(quote, dict) else quote for quote in quotes]
    return tuple(dict.fromkeys(id for id in ids if isinstance(id, str) and id))


class TurnWriter:
    """Appends turns to history and remembers them; *in_flight* learns of every write."""

    def __init__(
        self,
        pipeline: WritePipeline,
        entries: EntryStore,
        in_flight: WritesInFlight,
        *,
        clock: Clock,
        zone: tzinfo | None,
    ) -> None:
        self._pipeline = pipeline
        self._entries = entries
        self._in_flight = in_flight
        self._clock = clock
        self._zone = zone

    async def remember(
        self, session: str, messages: Sequence[Message], namespace: str, used: Sequence[str]
    ) -> list[Report]:
        """Append *messages* to *session* and remember what was said; return a report for each message."""
        with self._in_flight.write():
            checked_session(session)
            messages_to_json(messages)
            drafts = self._drafts(session, messages, checked_labels(used, "used"))
            lookup = self._pipeline.lookup(namespace)
            drafts = await self._pipeline.authorize(drafts, namespace)
            drafts = await self._pipeline.run_policies(drafts, namespace, lookup)
            drafts = await self._pipeline.embed(drafts, lookup)
            stored = await asyncio.to_thread(self._commit, session, drafts, namespace)
        return [draft.report() for draft in stored]

    def _drafts(self, session: str, messages: Sequence[Message], used: Sequence[str]) -> list[Draft]:
        """Return a draft of each message, redacted; one of which nothing is to be remembered is settled."""
        now, redactions = self._clock(), redaction_policies(self._pipeline.rules.policies)
        calls = calls_by_message(messages)
        drafts = []
        for place, message in enumerate(messages):
            memory = memory_from_message(message, session, now, used, calls=calls[place])
            redacted, spans = redacted_message(message, redactions)
            if isinstance(memory, str):
                report = Report(Outcome.REJECTED, "", memory, spans=spans)
                drafts.append(Draft.new(Memory(""), origin=place, turn=0, message=redacted).settle(report))
            else:
                memory = checked_memory(memory, zone=self._zone, argument="messages")
                drafts.append(Draft.new(memory, origin=place, turn=0, message=redacted))
        return drafts

    def _commit(self, session: str, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Append the messages and write the memories, in one transaction where history is in the same file."""
        with self._entries.settling() as settled:
            sequences = self._entries.rows.append(
                session,
                [draft.message for draft in drafts if draft.message is not None],
                namespace=namespace,
                memories=["" if draft.settled is not None else draft.memory.id for draft in drafts],
            )
            placed = change_unsettled(drafts, lambda draft: _with_sequence(draft, sequences))
            now = self._clock()
            settled += [
                HistoryRow(namespace, session, sequences[place], draft.message, now, draft.memory.id)
                for place, draft in enumerate(placed)
                if draft.settled is None and draft.message is not None
            ]
            return self._pipeline.write(placed, namespace)


def _with_sequence(draft: Draft, sequences: Sequence[int]) -> Draft:
    """Return *draft* with the place of its message in the session; a fact has it in its source alone."""
    sequence, memory = sequences[draft.origin], draft.memory
    source = None if memory.source is None else replace(memory.source, sequence=sequence)
    if draft.message is None:
        return replace(draft, memory=replace(memory, source=source))
    return replace(draft, memory=replace(memory, sequence=sequence, source=source))
