"""Contracts of clients: their configuration files, the payloads and replies of their hooks, and their transcripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.assistant.clients.registration import HookFile, ServerFile


class HookMoment(StrEnum):
    """Moment of a session at which a client calls a hook."""

    PROMPT = "prompt"
    TURN_END = "end of a turn"
    SESSION_START = "start of a session"
    COMPACTION = "before a compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvent:
    """Event that a client reports, in a form common to all clients.

    *prompt* is the text that the user typed, "" where the prompt is not the user's; *id* names the turn where the
    client does. *answer* is the last answer of the turn. *after_compaction*: the session goes on with a summary.
    """

    moment: HookMoment
    session: str
    folder: str
    prompt: str = ""
    id: str = ""
    answer: str = ""
    transcript: Path | None = None
    after_compaction: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """Entry of a transcript: a text typed by the user, or the last answer of a turn, by its *role*.

    *session* is the one in which it was said: a file may begin with a copy of an earlier session. *id* names the entry
    where the client does.
    """

    role: Literal["user", "assistant"]
    text: str
    session: str
    at: datetime | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Conversation in a file of a client: the *folder* where it was held, and its *entries*, oldest first.

    *skipped* counts, by kind, the messages in the user's role that nobody typed. Where the file does not record its
    folder, *project* is the client's name for the project. *end* is the byte of the file up to which it was read, 0
    where a later reading must start at the beginning. *title* is the conversation's name in the client, "" for none.
    """

    folder: str
    entries: tuple[TranscriptEntry, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)
    project: str = ""
    end: int = 0
    title: str = ""


class ConversationSource(Protocol):
    """Program whose conversations can be taken in."""

    name: str
    """Name in commands, such as "claude-code"."""
    title: str
    """Name that people know it by."""
    documented: str
    """Version and source of the formats that are read of it."""

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the file *path*.

        Where a part cannot be read, the others are yielded first, then ``LoadError`` or ``OSError`` is raised.
        """
        ...


class Client(Protocol):
    """Client that can be connected to the memory."""

    name: str
    """Name in commands, such as "claude-code"."""
    title: str
    """Name that people know it by."""
    documented: str
    """Version and source of the formats that are written and read for it."""
    notes: tuple[str, ...] = ()
    """Steps that the user does by hand after an installation."""

    @property
    def folder(self) -> Path:
        """Folder of its settings; the client is not used on this machine where it is missing."""
        ...

    @property
    def server_file(self) -> ServerFile:
        """Configuration of its MCP servers."""
        ...

    @property
    def hook_file(self) -> HookFile | None:
        """Configuration of its hooks; None for a client without hooks."""
        return None

    @property
    def skills(self) -> Mapping[Path, str]:
        """Files of a skill by path, which tell its model when to use the memory."""
        return {}


class HookClient(Client, Protocol):
    """Client whose hooks are answered."""

    hook_events: Mapping[str, HookMoment]
    """Events that hooks are registered for, by the client's own names."""

    def hooks_are_off(self) -> str:
        """Return the setting of the client that switches all hooks off, in words; "" where they are on."""
        return ""

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports; None for an event to ignore, such as one of a sub-agent.

        *folder* is that of the hook's process, for a payload without one.
        """
        ...

    def hook_output(self, event: str, context: str) -> str:
        """Return the hook's output that passes *context* ("" for none) to the model."""
        ...

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of conversations below *folder* (None: the client's own), oldest first."""
        ...

    def read_transcript(self, path: Path, *, start: int = 0) -> Transcript | None:
        """Return the conversation in the file *path* from the byte *start* on.

        None where it is not a person's conversation, such as that of a sub-agent.
        """
        ...

    def archives(self) -> Iterator[Path]:
        """Yield the files that hold many conversations each, such as the database of an editor."""
        return iter(())

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the file *path*: those of an archive, else the one of a transcript."""
        transcript = self.read_transcript(path)
        if transcript is not None:
            yield transcript
