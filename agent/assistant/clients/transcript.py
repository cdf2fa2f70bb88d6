"""Conversations of other programs, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol


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

    @property
    def name(self) -> str:
        """Name in commands and before the names of its sessions, such as "claude-code"."""

    @property
    def title(self) -> str:
        """Name that people know it by."""

    @property
    def documented(self) -> str:
        """Version and source of the formats that are read of it."""

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the file *path*.

        Where a part cannot be read, the others are yielded first, then ``LoadError`` or ``OSError`` is raised.
        """
