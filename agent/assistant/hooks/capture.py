"""Capture of a client's conversations: prompts and answers of hooks, and whole transcripts, each message kept once.

A typed prompt is trusted as the user's words, text pasted into it as a document's, an answer as a tool's: its model has
read files and the output of commands. Messages that are known, or were forgotten since they were said, are not kept
again; so a hook and an import of the same conversation agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tellback.agent.assistant.clients.client import HookClient
from tellback.agent.assistant.clients.hook_payload import ClientEvent, HookMoment
from tellback.agent.assistant.clients.project import PROJECT_SCOPE, Project, project_of
from tellback.agent.assistant.clients.registry import hook_client
from tellback.agent.assistant.clients.transcript import TranscriptEntry
from tellback.agent.assistant.clients.typed_text import split_pasted, typed_text
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.desk.desk import MemoryDesk
from tellback.memory import LongTermMemory, Message, Trust
from tellback.memory.internals import ORIGIN, SCOPES, TITLE, TRUST, StoredMessage, run_in_thread

CHECKPOINT: Final = "checkpoint"
"""Key in a system message's metadata: a compaction followed, so memories shown before are no longer in the context."""
SHOWN: Final = "shown"
"""Key in the metadata of a prompt or a briefing: ids of the memories shown with it, which an answer may repeat."""
READ: Final = "transcript"
"""Key in a message's metadata: inode of the transcript, and the byte up to which it was read for this message."""
_TAIL_BYTES: Final = 1_000_000
"""Bytes at the end of a transcript that the first reading takes; ``tellback import`` reads all."""
_AT_ONCE_CHARACTERS: Final = 200_000
"""Size above which a turn is kept in history first, without a look at its words: a client waits ten seconds at most."""
_SAME_WORDS_WITHIN: Final = timedelta(minutes=1)
_RECENT_MESSAGES: Final = 500
"""Newest messages of a session that a prompt, or the new part of its transcript, is compared with."""
_COMPACTED: Final = "The context of the client was compacted here."
_BRIEFED: Final = "The session began with a briefing."


def session_name(client: str, session: str) -> str:
    """Return the name of a *session* of the *client* in the history of conversations."""
    return f"{client}:{session}"


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """Numbers of messages that were *kept*, were *known* already, or were *forgotten* since they were said."""

    kept: int = 0
    known: int = 0
    forgotten: int = 0

    def __add__(self, other: KeptMessages) -> KeptMessages:
        return KeptMessages(self.kept + other.kept, self.known + other.known, self.forgotten + other.forgotten)


async def keep_hook(
    call: HookCall, reply: HookReply, *, memory: LongTermMemory, settings: AssistantSettings
) -> KeptMessages:
    """Keep the prompt, answer or moment that *call* reports; *reply* is the answer that the hook gave."""
    client = hook_client(call.client)
    event = client.read_hook(call.event, call.payload, call.folder)
    if event is None or settings.hook_keep == "nothing":
        return KeptMessages()
    project = project_of(event.folder)
    if project is not None and project.is_off:
        return KeptMessages()
    capture = Capture(memory, client.name, settings, project)
    match event.moment:
        case HookMoment.PROMPT:
            entry = TranscriptEntry("user", event.prompt, event.session, call.received, event.id)
            before = _KnownHistory.for_prompt(await capture.recent_messages(event.session))
            await capture.log_given(entry, reply.given)
            return await capture.keep([entry] if event.prompt else [], shown=reply.in_context, before=before)
        case HookMoment.TURN_END | HookMoment.COMPACTION:
            before = _KnownHistory.for_transcript(await capture.recent_messages(event.session), event.transcript)
            entries, read_to = await _transcript_entries(client, event, before.start)
            kept = await capture.keep([*entries, *_answer(event, call.received)], before=before, read_to=read_to)
            if event.moment is HookMoment.COMPACTION:
                await capture.keep_mark(event.session, _COMPACTED, {CHECKPOINT: True}, call.received)
            return kept
        case HookMoment.SESSION_START if reply.shown:
            await capture.keep_mark(event.session, _BRIEFED, {SHOWN: list(reply.shown)}, call.received)
            return KeptMessages()
        case _:
            return KeptMessages()


@dataclass(frozen=True, slots=True)
class _KnownHistory:
    """Part of a session's history that new entries are compared with: *stored*, oldest first; None: all of it.

    Equal texts with a sequence above *since* are the same message; earlier ones only within a minute. *start* is the
    byte up to which the transcript was read.
    """

    stored: Sequence[StoredMessage] | None = None
    since: int = 0
    start: int | None = None

    @classmethod
    def for_prompt(cls, stored: Sequence[StoredMessage]) -> _KnownHistory:
        """Return the history for a prompt typed just now: earlier prompts with its words are other prompts."""
        return cls(stored, stored[-1].sequence if stored else 0)

    @classmethod
    def for_transcript(cls, stored: Sequence[StoredMessage], transcript: Path | None) -> _KnownHistory:
        """Return the history for the part of *transcript* that was not read when the last of *stored* was kept."""
        if transcript is None or not transcript.is_file():
            return cls(stored, stored[-1].sequence if stored else 0)
        status = transcript.stat()
        for item in reversed(stored):
            mark = item.message.metadata.get(READ)
            if isinstance(mark, list) and mark[:1] == [status.st_ino] and mark[1] <= status.st_size:
                return cls(stored, item.sequence, mark[1])
        return cls(start=max(status.st_size - _TAIL_BYTES, 0))


async def _transcript_entries(
    client: HookClient, event: ClientEvent, start: int | None
) -> tuple[list[TranscriptEntry], tuple[int, int] | None]:
    """Return the transcript's entries from the byte *start* on, with its inode and the byte after them.

    Answers are returned only at the end of a turn whose event has none: the file may lag behind the hook, so that its
    last answer may be one from the middle of the turn.
    """
    if event.transcript is None or start is None:
        return [], None
    number = event.transcript.stat().st_ino
    transcript = await run_in_thread(partial(client.read_transcript, event.transcript, start))
    if transcript is None:
        return [], None
    entries: Sequence[TranscriptEntry] = transcript.entries
    if len({entry.session for entry in entries}) == 1:  # a client may name its files otherwise than its sessions
        entries = [replace(entry, session=event.session) for entry in entries]
    if event.moment is not HookMoment.TURN_END or event.answer:
        entries = [entry for entry in entries if entry.role == "user"]
    return list(entries), (number, transcript.end) if transcript.end else None


def _answer(event: ClientEvent, time: datetime) -> list[TranscriptEntry]:
    return [TranscriptEntry("assistant", event.answer, event.session, time, event.id)] if event.answer else []


@dataclass(frozen=True, slots=True)
class Capture:
    """Keeps entries of sessions of a *client*, by its name, in *memory*, in the scope of a *project*.

    *title* is the name of the conversation; it is kept with the first message of the user.
    """

    memory: LongTermMemory
    client: str
    settings: AssistantSettings
    project: Project | None = None
    title: str = ""

    async def keep(
        self,
        entries: Iterable[TranscriptEntry],
        *,
        shown: Sequence[str] = (),
        before: _KnownHistory = _KnownHistory(),
        read_to: tuple[int, int] | None = None,
        dry_run: bool = False,
    ) -> KeptMessages:
        """Keep the *entries* that are not known yet; with *dry_run* only count them.

        *shown* are the ids of memories in the context that bear on the prompt; its answer may repeat them. *before* is
        the history of the session that *entries* end with. *read_to*, the transcript's inode and the byte up to which
        it was read, is recorded with the last message.
        """
        groups = [(session, [*group]) for session, group in groupby(entries, key=lambda entry: entry.session)]
        kept = KeptMessages()
        for number, (session, group) in enumerate(groups, start=1):
            is_last = number == len(groups)
            messages = self._titled([message for entry in group for message in self._messages(entry, shown)])
            history = before if is_last and before.stored is not None else _KnownHistory(await self._history(session))
            mark = read_to if is_last else None
            kept += await self._keep_session(session, messages, history, mark, dry_run=dry_run)
        return kept

    async def keep_turn(self, entries: Sequence[TranscriptEntry], *, shown: Sequence[str]) -> None:
        """Keep the *entries* of one turn, said just now, whatever was said before; *shown* as in ``keep``."""
        messages = [message for entry in entries for message in self._messages(entry, shown)]
        if messages:
            await self._remember(entries[0].session, messages, shown)

    async def log_given(self, prompt: TranscriptEntry, scores: Mapping[str, float]) -> None:
        """Log which memories a *prompt* was given, with their *scores*."""
        desk = MemoryDesk(memory=self.memory, namespace=self.settings.namespace)
        session = session_name(self.client, prompt.session)
        await desk.log_given(prompt.text, scores, client=self.client, session=session)

    async def recent_messages(self, session: str) -> list[StoredMessage]:
        """Return the newest messages of *session* in the history."""
        return await self._history(session, limit=_RECENT_MESSAGES)

    async def keep_mark(self, session: str, text: str, metadata: Mapping[str, Any], time: datetime) -> None:
        """Record in the history of *session* a change of the client's context at *time*.

        *text* is for people, *metadata* for hooks.
        """
        mark = Message.system(text)
        mark = mark.model_copy(update={"at": time, "metadata": {**metadata, ORIGIN: self.client}})
        await self._remember(session, [mark])

    async def _keep_session(
        self,
        session: str,
        messages: Sequence[Message],
        before: _KnownHistory,
        read_to: tuple[int, int] | None,
        *,
        dry_run: bool,
    ) -> KeptMessages:
        stored = before.stored or ()
        new = self._missing(messages, [item for item in stored if item.message.role != "system"], before.since)
        missing: list[Message] = await run_in_thread(
            lambda: [message for message in new if not self._is_forgotten(message)]
        )
        counts = KeptMessages(len(missing), len(messages) - len(new), len(new) - len(missing))
        if dry_run or not missing:
            return counts
        if read_to is not None:
            metadata = {**missing[-1].metadata, READ: list(read_to)}
            missing[-1] = missing[-1].model_copy(update={"metadata": metadata})
        used = _repeatable(stored)
        for turn in _turns(missing):
            await self._remember(session, turn, used if turn[0].role == "assistant" else ())
        return counts

    async def _history(self, session: str, limit: int | None = None) -> list[StoredMessage]:
        name = session_name(self.client, session)
        return await self.memory.conversations.load(name, namespace=self.settings.namespace, limit=limit)

    async def _remember(self, session: str, turn: Sequence[Message], used: Sequence[str] = ()) -> None:
        name = session_name(self.client, session)
        if sum(len(message.text) for message in turn) > _AT_ONCE_CHARACTERS:
            await self.memory.conversations.append(name, turn, namespace=self.settings.namespace)
            await self.memory.complete()  # where this is cut off, the next opening of the memory does it
            return
        await self.memory.remember_turn(name, turn, namespace=self.settings.namespace, used=used)

    def _messages(self, entry: TranscriptEntry, shown: Sequence[str]) -> list[Message]:
        """Return the messages of *entry*, redacted: own words and pasted ones are separate messages."""
        metadata: dict[str, Any] = {ORIGIN: self.client}
        if self.project is not None:
            metadata[SCOPES] = {PROJECT_SCOPE: self.project.name}
        if entry.role == "assistant":
            if self.settings.hook_keep != "all":
                return []
            text = self.memory.redacted(typed_text(entry.text) or entry.text)
            message = Message.assistant(text, at=entry.at)
            return [message.model_copy(update={"metadata": {**metadata, TRUST: Trust.TOOL.value}})]
        words = split_pasted(self.memory.redacted(entry.text))
        messages = []
        if words.own:
            extended = {**metadata, SHOWN: list(shown)} if shown else metadata
            messages.append(Message.user(words.own, at=entry.at).model_copy(update={"metadata": extended}))
        if words.pasted:
            extended = {**metadata, TRUST: Trust.DOCUMENT.value}
            messages.append(Message.user(words.pasted, at=entry.at).model_copy(update={"metadata": extended}))
        return messages

    def _titled(self, messages: list[Message]) -> list[Message]:
        first = next((index for index, message in enumerate(messages) if message.role == "user"), None)
        if self.title and first is not None:
            metadata = {**messages[first].metadata, TITLE: self.title}
            messages[first] = messages[first].model_copy(update={"metadata": metadata})
        return messages

    def _missing(self, messages: Sequence[Message], stored: Sequence[StoredMessage], since: int) -> list[Message]:
        """Return the *messages* that *stored* lacks.

        Each stored message accounts for one message with the same words; one up to the sequence *since* only for a
        message of the same minute. A transcript may have more text around a prompt than its hook got: within a minute,
        a prompt that contains the other is the same.
        """
        unmatched: dict[tuple[str, str], list[StoredMessage]] = {}
        for item in stored:
            unmatched.setdefault(self._words(item.message), []).append(item)
        missing = []
        for message in messages:
            same = unmatched.get(self._words(message), [])
            is_any = message.at is None
            known = next(
                (item for item in same if is_any or item.sequence > since or _is_at_once(message, item.message)), None
            )
            if known is not None:
                same.remove(known)
            else:
                missing.append(message)
        rest = [item for items in unmatched.values() for item in items]
        return [message for message in missing if not any(self._overlap(message, item) for item in rest)]

    def _overlap(self, message: Message, item: StoredMessage) -> bool:
        other = item.message
        if message.role != other.role or not _is_at_once(message, other):
            return False
        (_, words), (_, known) = self._words(message), self._words(other)
        return words in known or known in words

    def _words(self, message: Message) -> tuple[str, str]:
        return message.role, "".join(message.text.split())

    def _is_forgotten(self, message: Message) -> bool:
        """Return whether the words of *message* were forgotten after they were said."""
        forgotten = self.memory.tombstones.words_at(self.settings.namespace, message.text)
        return forgotten is not None and (message.at or datetime.min.replace(tzinfo=UTC)) <= forgotten


def _is_at_once(first: Message, second: Message) -> bool:
    return first.at is not None and second.at is not None and abs(first.at - second.at) <= _SAME_WORDS_WITHIN


def _repeatable(stored: Sequence[StoredMessage]) -> Sequence[str]:
    """Return the ids of the memories that an answer may repeat: shown with the last prompt, or by the briefing."""
    ids: dict[str, None] = {}
    roles: set[str] = set()
    for item in reversed(stored):
        metadata, role = item.message.metadata, item.message.role
        if metadata.get(CHECKPOINT):
            break
        if SHOWN in metadata and role not in roles:
            roles.add(role)
            ids.update(dict.fromkeys(metadata[SHOWN]))
    return tuple(ids)


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Cut *messages* into turns: the words of the user, and the answer."""
    turns: list[list[Message]] = []
    for message in messages:
        if not turns or (message.role == "user" and turns[-1][-1].role != "user"):
            turns.append([])
        turns[-1].append(message)
    return turns
