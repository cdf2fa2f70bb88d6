"""Capture of what was said in a client: prompts and answers of hooks, and whole transcripts, each kept once.

A typed prompt is kept as the user's words, what was pasted into it as a document's, an answer as a tool's: its model
has read files and the output of commands. What was said before, and what was forgotten since it was said, is not kept
again; so a hook and an import of the same conversation agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, Final

from agent.assistant.clients.client import ClientEvent, HookClient, HookMoment, TranscriptEntry
from agent.assistant.clients.project import PROJECT_SCOPE, Project, project_of
from agent.assistant.clients.registry import hook_client
from agent.assistant.clients.typed_text import split_pasted, typed_text
from agent.assistant.hooks.hook_call import HookCall, HookReply
from agent.assistant.hooks.hook_settings import HookSettings
from memory import LongTermMemory, Message, Trust
from memory.internals import ORIGIN, SCOPES, TRUST, StoredMessage, run_in_thread

CHECKPOINT: Final = "checkpoint"
"""Key in the metadata of a system message: a compaction followed, so what a hook had shown is gone from the context."""
SHOWN: Final = "shown"
"""Key in a prompt's metadata: ids of the memories that were shown with it."""
_TAIL_BYTES: Final = 1_000_000
_SAME_WORDS_WITHIN: Final = timedelta(minutes=1)


def session_name(client: HookClient, session: str) -> str:
    """Return the name of a client's *session* in the history of conversations."""
    return f"{client.name}:{session}"


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """Numbers of messages that were *kept*, were *known* already, or were *forgotten* since they were said."""

    kept: int = 0
    known: int = 0
    forgotten: int = 0

    def __add__(self, other: KeptMessages) -> KeptMessages:
        return KeptMessages(self.kept + other.kept, self.known + other.known, self.forgotten + other.forgotten)


async def keep_hook(
    call: HookCall, reply: HookReply, *, memory: LongTermMemory, settings: HookSettings
) -> KeptMessages:
    """Keep what *call* tells, which was answered with *reply*."""
    client = hook_client(call.client)
    event = client.read_hook(call.event, call.payload, call.folder)
    if event is None or settings.keep == "nothing":
        return KeptMessages()
    project = project_of(event.folder)
    if project is not None and project.is_off:
        return KeptMessages()
    capture = Capture(memory, client, settings, project)
    match event.moment:
        case HookMoment.PROMPT:
            entry = TranscriptEntry("user", event.prompt, event.session, call.received, event.id)
            return await capture.keep([entry] if event.prompt else [], shown=reply.shown)
        case HookMoment.TURN_END | HookMoment.COMPACTION:
            kept = await capture.keep([*await _spoken(client, event), *_answer(event, call.received)])
            if event.moment is HookMoment.COMPACTION:
                await capture.keep_checkpoint(event.session, call.received)
            return kept
        case _:
            return KeptMessages()


async def _spoken(client: HookClient, event: ClientEvent) -> list[TranscriptEntry]:
    """Return what the end of the transcript has; answers only at the end of a turn whose event tells none.

    The file may lag behind the hook, so that its last answer may be one from the middle of the turn.
    """
    if event.transcript is None or not event.transcript.is_file():
        return []
    transcript = await run_in_thread(partial(client.read_transcript, event.transcript, tail=_TAIL_BYTES))
    entries: Sequence[TranscriptEntry] = transcript.entries if transcript is not None else ()
    if len({entry.session for entry in entries}) == 1:  # a client may name its files otherwise than its sessions
        entries = [replace(entry, session=event.session) for entry in entries]
    if event.moment is HookMoment.TURN_END and not event.answer:
        return list(entries)
    return [entry for entry in entries if entry.role == "user"]


def _answer(event: ClientEvent, at: datetime) -> list[TranscriptEntry]:
    return [TranscriptEntry("assistant", event.answer, event.session, at, event.id)] if event.answer else []


@dataclass(frozen=True, slots=True)
class Capture:
    """Keeps entries of a *client*'s sessions in *memory*, as told in a *project*."""

    memory: LongTermMemory
    client: HookClient
    settings: HookSettings
    project: Project | None = None

    async def keep(
        self, entries: Iterable[TranscriptEntry], *, shown: Sequence[str] = (), dry_run: bool = False
    ) -> KeptMessages:
        """Keep those of *entries* that are not there yet; with *dry_run* only count them.

        *shown* are the memories that were shown with the prompt; they are named as those that its answer used.
        """
        kept = KeptMessages()
        for session, group in groupby(entries, key=lambda entry: entry.session):
            kept += await self._keep_session(session_name(self.client, session), [*group], shown, dry_run=dry_run)
        return kept

    async def keep_checkpoint(self, session: str, at: datetime) -> None:
        """Mark in the history of *session* that the client's context is compacted *at* this time."""
        mark = Message.system("The context of the client was compacted here.")
        mark = mark.model_copy(update={"at": at, "metadata": {CHECKPOINT: True, ORIGIN: self.client.name}})
        namespace = self.settings.namespace
        await self.memory.remember_turn(session_name(self.client, session), [mark], namespace=namespace)

    async def _keep_session(
        self, session: str, entries: Sequence[TranscriptEntry], shown: Sequence[str], *, dry_run: bool
    ) -> KeptMessages:
        namespace = self.settings.namespace
        stored = await self.memory.conversations.load(session, namespace=namespace, roles=["user", "assistant"])
        messages = [message for entry in entries for message in self._messages(entry, shown)]
        new = self._missing(messages, stored)
        missing = [message for message in new if not self._is_forgotten(message)]
        counts = KeptMessages(len(missing), len(messages) - len(new), len(new) - len(missing))
        if dry_run:
            return counts
        used = stored[-1].message.metadata.get(SHOWN, ()) if stored else ()
        for turn in _turns(missing):
            of_answer = used if turn[0].role == "assistant" else ()
            await self.memory.remember_turn(session, turn, namespace=namespace, used=of_answer)
        return counts

    def _messages(self, entry: TranscriptEntry, shown: Sequence[str]) -> list[Message]:
        """Return the messages that keep *entry*: own words and pasted ones apart."""
        metadata: dict[str, Any] = {ORIGIN: self.client.name}
        if self.project is not None:
            metadata[SCOPES] = {PROJECT_SCOPE: self.project.name}
        if entry.role == "assistant":
            if self.settings.keep != "all":
                return []
            text = typed_text(entry.text) or entry.text
            message = Message.assistant(text, at=entry.at)
            return [message.model_copy(update={"metadata": {**metadata, TRUST: Trust.TOOL.value}})]
        words = split_pasted(entry.text)
        messages = []
        if words.own:
            noted = {**metadata, SHOWN: list(shown)} if shown else metadata
            messages.append(Message.user(words.own, at=entry.at).model_copy(update={"metadata": noted}))
        if words.pasted:
            noted = {**metadata, TRUST: Trust.DOCUMENT.value}
            messages.append(Message.user(words.pasted, at=entry.at).model_copy(update={"metadata": noted}))
        return messages

    def _missing(self, messages: Sequence[Message], stored: Sequence[StoredMessage]) -> list[Message]:
        """Return those of *messages* that the history does not have.

        The same words count as often as they were said. A client's transcript may have a prompt with more around it
        than its hook was given; within a minute the one that holds the other is the same.
        """
        known = Counter(self._words(item.message) for item in stored)
        missing = []
        for message in messages:
            words = self._words(message)
            if known[words]:
                known[words] -= 1
            else:
                missing.append(message)
        unmatched = [item for item in stored if known[self._words(item.message)] > 0]
        return [message for message in missing if not any(self._overlap(message, item) for item in unmatched)]

    def _overlap(self, message: Message, item: StoredMessage) -> bool:
        other = item.message
        if message.role != other.role or message.at is None or other.at is None:
            return False
        (_, words), (_, known) = self._words(message), self._words(other)
        return abs(message.at - other.at) <= _SAME_WORDS_WITHIN and (words in known or known in words)

    def _words(self, message: Message) -> tuple[str, str]:
        return message.role, "".join(self.memory.redacted(message.text).split())

    def _is_forgotten(self, message: Message) -> bool:
        """Return whether the words of *message* were forgotten after they were said."""
        forgotten = self.memory.tombstones.words_at(self.settings.namespace, self.memory.redacted(message.text))
        return forgotten is not None and (message.at or datetime.min.replace(tzinfo=UTC)) <= forgotten


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Cut *messages* into turns: the words of the user, and the answer."""
    turns: list[list[Message]] = []
    for message in messages:
        if not turns or (message.role == "user" and turns[-1][-1].role != "user"):
            turns.append([])
        turns[-1].append(message)
    return turns
