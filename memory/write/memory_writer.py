"""Memory writer: items of callers, one at a time or in batches, and turns of conversations, through the write pipeline.

One at a time or in batches, the result is the same. Where history and store share a file, the messages of a turn and
their memories are written together. Elsewhere history comes first, with the ids of the memories to be written; what is
missing after a crash is completed on opening (``crash_recovery``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from tellback.memory.errors import ArgumentError
from tellback.memory.history.codec import checked_session, messages_to_json
from tellback.memory.history.protocol import HistoryRow, HistoryStorage
from tellback.memory.messages import (
    QUOTES,
    SCOPES,
    TRUST,
    USED,
    Message,
    ToolCallBlock,
    calls_by_message,
    image_captions,
    media_text,
    tool_call_text,
    tool_results_text,
)
from tellback.memory.models import ORIGIN, Actor, Memory, Source, Trust
from tellback.memory.results import Outcome, Report
from tellback.memory.validation import checked_labels, checked_memory
from tellback.memory.write.draft import Draft, change_unsettled
from tellback.memory.write.pipeline import WritePipeline
from tellback.memory.write.policy_runner import redacted_message, redacted_text, redaction_policies
from tellback.memory.write.provenance import referenced_ids

WRITE_BATCH: Final = 256
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
    metadata: dict[str, Any] = {USED: list(used)} if used and actor == "assistant" else {}
    if isinstance(origin := message.metadata.get(ORIGIN), str):
        metadata[ORIGIN] = origin
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
        scopes=_message_scopes(message),
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


def _message_scopes(message: Message) -> dict[str, str]:
    scopes = message.metadata.get(SCOPES)
    pairs = scopes.items() if isinstance(scopes, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str) and name.strip() and value.strip()}


def quoted_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the memories that *message* quotes: texts, or objects with an "id"."""
    quotes = message.metadata.get(QUOTES, ())
    if not isinstance(quotes, (list, tuple)):
        return ()
    ids = [quote.get("id") if isinstance(quote, dict) else quote for quote in quotes]
    return tuple(dict.fromkeys(id for id in ids if isinstance(id, str) and id))


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes new memories of items and of turns; closing waits for every write."""

    pipeline: WritePipeline
    history: HistoryStorage | None = None
    """The history, where it is one of the program's own: no transaction holds its messages and the memories."""

    async def remember(
        self, item: object, namespace: str, replaces: Sequence[str] = (), approved_by: Actor | None = None
    ) -> Report:
        """Store one item, which also *replaces* these ids; raise its conflict with its key or with what it replaces."""
        with self.pipeline.embedding.in_flight.write():
            if ids := checked_labels(replaces, "replaces"):
                memory = checked_memory(item, zone=self.pipeline.zone)
                item = replace(memory, replaces=(*memory.replaces, *ids))
            drafts = self.pipeline.validate({"item": item}, approved_by)
            (stored,) = await self._commit(await self._prepare(drafts, namespace), namespace)
        if stored.conflict is not None:
            raise stored.conflict
        return stored.report()

    async def remember_many(
        self,
        items: Iterable[str | Memory],
        namespace: str,
        on_progress: Callable[[int], None] | None,
        approved_by: Actor | None = None,
    ) -> list[Report]:
        """Keep *items* batch by batch, in bounded memory; a key that names another text is a report (rejected).

        Of a list, the next batch is checked and embedded while one is stored, unless what becomes of it depends on what
        is stored. Another iterable is not read ahead of what is written.
        """
        if isinstance(items, (str, bytes, Memory)) or not isinstance(items, Iterable):
            raise ArgumentError("items", items, "a list (or another iterable) of texts or memories is needed")
        reports: list[Report] = []

        committing: asyncio.Task[list[Draft]] | None = None

        async def finish() -> None:
            nonlocal committing
            task, committing = committing, None
            if task is not None:
                reports.extend(draft.report() for draft in await task)
                if on_progress is not None:
                    on_progress(len(reports))

        reads_ahead = isinstance(items, Sequence) and not self.pipeline.rules.policies
        stream, count = iter(items), 0
        try:
            while batch := list(islice(stream, WRITE_BATCH)):
                start, count = count, count + len(batch)
                with ExitStack() as writing:
                    writing.enter_context(self.pipeline.embedding.in_flight.write())
                    named = {f"items[{start + i}]": item for i, item in enumerate(batch)}
                    drafts = self.pipeline.validate(named, approved_by)
                    if any(draft.memory.replaces or referenced_ids(draft.memory) for draft in drafts):
                        await finish()
                    drafts = await self._prepare(drafts, namespace)
                    await finish()
                    committing = asyncio.create_task(self._commit(drafts, namespace))
                    committing.add_done_callback(_closing(writing.pop_all()))
                if not reads_ahead:
                    await finish()
            await finish()
        except Exception:  # of what comes after it: what is being stored is stored all the same
            await finish()
            raise
        finally:
            if committing is not None:  # waited for no more; what its thread has begun goes on
                committing.cancel()
        return reports

    async def remember_turn(
        self, session: str, messages: Sequence[Message], namespace: str, used: Sequence[str]
    ) -> list[Report]:
        """Append *messages* to *session* and remember what was said; return a report for each message."""
        with self.pipeline.embedding.in_flight.write():
            checked_session(session)
            name, secrets = redacted_text(session, redaction_policies(self.pipeline.rules.policies))
            if secrets:
                raise ArgumentError("session", name, "a name that holds no secret is needed")
            messages_to_json(messages)
            drafts = self._turn_drafts(session, messages, checked_labels(used, "used"))
            lookup = self.pipeline.lookup(namespace)
            drafts = await self.pipeline.authorize(drafts, namespace)
            drafts = await self.pipeline.run_policies(drafts, namespace, lookup)
            drafts = await self.pipeline.mark_echoes(drafts, namespace, used)
            drafts = await self.pipeline.embed(drafts, lookup)
            stored = await self._store_turn(session, drafts, namespace)
        return [draft.report() for draft in stored]

    async def _prepare(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Authorize, judge and embed *drafts*; nothing is written yet."""
        pipeline, lookup = self.pipeline, self.pipeline.lookup(namespace)
        if any(draft.memory.replaces for draft in drafts):  # the rest need not be judged and embedded
            drafts = await asyncio.to_thread(pipeline.refuse_replacing, drafts, namespace)
        if lookup is not None or await self._are_linked(drafts, namespace):
            decided = await pipeline.decide_in_order(drafts, namespace, lookup)
        else:
            decided = await pipeline.run_policies(await pipeline.authorize(drafts, namespace), namespace)
        if any(draft.named or draft.memory.key is not None for draft in decided):
            # what is known already is not embedded again; commit looks once more, inside its transaction
            decided = await asyncio.to_thread(pipeline.settle_known, decided, namespace)
        return await pipeline.embed(await pipeline.mark_echoes(decided, namespace), lookup)

    async def _commit(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        return await asyncio.to_thread(self.pipeline.commit, drafts, namespace)

    async def _are_linked(self, drafts: Sequence[Draft], namespace: str) -> bool:
        """Return whether one of *drafts* was made from, or supersedes, another of them."""
        referenced = {id for draft in drafts for id in referenced_ids(draft.memory)}
        if not referenced:
            return False
        named = {draft.memory.id for draft in drafts if draft.named}
        keys = [draft.memory.key for draft in drafts if draft.memory.key is not None]
        if keys:  # which ids they have is looked up
            named |= await asyncio.to_thread(lambda: {self.pipeline.keys.id_of_key(namespace, key) for key in keys})
        return not referenced.isdisjoint(named)

    def _turn_drafts(self, session: str, messages: Sequence[Message], used: Sequence[str]) -> list[Draft]:
        """Return a draft of each message, redacted; one of which nothing is to be remembered is settled."""
        now, redactions = self.pipeline.clock(), redaction_policies(self.pipeline.rules.policies)
        calls = calls_by_message(messages)
        drafts = []
        for place, message in enumerate(messages):
            memory = memory_from_message(message, session, now, used, calls=calls[place])
            redacted, spans = redacted_message(message, redactions)
            draft = Draft.new(Memory(""), origin=place, turn=0, message=redacted)
            if isinstance(memory, str):
                drafts.append(draft.settle(Report(Outcome.REJECTED, "", memory, spans=spans)))
            else:
                memory = checked_memory(memory, zone=self.pipeline.zone, argument="messages")
                drafts.append(replace(draft, memory=memory, given=memory))
        return drafts

    async def _store_turn(self, session: str, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Append the messages and write the memories; of memories that fail, the messages go again."""
        if self.history is None:
            return await asyncio.to_thread(self._commit_turn, session, drafts, namespace)
        messages = [draft.message for draft in drafts if draft.message is not None]
        sequences = await self.history.append(session, messages, namespace=namespace)
        try:
            return await asyncio.to_thread(self._commit_turn, session, drafts, namespace, sequences)
        except Exception:
            await self.history.delete(session, sequences, namespace=namespace)
            raise

    def _commit_turn(
        self, session: str, drafts: Sequence[Draft], namespace: str, appended: Sequence[int] | None = None
    ) -> list[Draft]:
        """Write the memories, and the messages that are not *appended* yet, in one transaction if in the same file."""
        with self.pipeline.entries.settling(namespace) as settled:
            sequences = appended or self.pipeline.entries.rows.append(
                session,
                [draft.message for draft in drafts if draft.message is not None],
                namespace=namespace,
                memories=["" if draft.settled is not None else draft.memory.id for draft in drafts],
            )
            placed = change_unsettled(drafts, lambda draft: _with_sequence(draft, sequences))
            if appended:
                return self.pipeline.write(placed, namespace)
            now = self.pipeline.clock()
            settled += [
                HistoryRow(namespace, session, sequences[place], draft.message, now, draft.memory.id)
                for place, draft in enumerate(placed)
                if draft.settled is None and draft.message is not None
            ]
            return self.pipeline.write(placed, namespace)


def _closing(writing: ExitStack) -> Callable[[object], None]:
    return lambda _: writing.close()


def _with_sequence(draft: Draft, sequences: Sequence[int]) -> Draft:
    """Return *draft* with the place of its message in the session; a fact has it in its source alone."""
    sequence, memory = sequences[draft.origin], draft.memory
    source = None if memory.source is None else replace(memory.source, sequence=sequence)
    if draft.message is None:
        return replace(draft, memory=replace(memory, source=source))
    return replace(draft, memory=replace(memory, sequence=sequence, source=source))
