"""Clients as values: their configuration files, the form of their hooks, and their transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tellback.agent.assistant.clients.hook_payload import ClientEvent, HookMoment, PayloadForm, context_reply
from tellback.agent.assistant.clients.json_edit import parse_json
from tellback.agent.assistant.clients.registration import HookFile, ServerFile
from tellback.agent.assistant.clients.skill import SKILL
from tellback.agent.assistant.clients.transcript import Transcript
from tellback.agent.assistant.clients.transcript_lines import oldest_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Client that can be connected to the memory, by its *name* in commands and the *title* that people know it by.

    *documented* is the version and source of the formats that are written and read for it, *notes* are steps that the
    user does by hand after an installation. *server_path* gives the file of its MCP servers, which stand under
    *server_key*; the other fields are as of ``ServerFile``.
    """

    name: str
    title: str
    documented: str
    server_path: Callable[[], Path]
    server_key: str = "mcpServers"
    server_form: Literal["json", "toml"] = "json"
    server_fields: Mapping[str, Any] = field(default_factory=dict)
    merged_command: bool = False
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of its settings; the client is not used on this machine where it is missing."""
        return self.server_path().parent

    @property
    def server_file(self) -> ServerFile:
        """Configuration of its MCP servers."""
        return ServerFile(
            self.server_path(), self.server_key, self.server_form, self.server_fields, self.merged_command
        )

    @property
    def hook_file(self) -> HookFile | None:
        """Configuration of its hooks; None for a client without hooks."""
        return None

    @property
    def skills(self) -> Mapping[Path, str]:
        """Files of a skill by path, which tell its model when to use the memory."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookClient(Client):
    """Client whose hooks are answered.

    Paths are relative to the folder that *home* gives: *hooks*, the *skill*, and the patterns of *transcripts*, whose
    files are called as *transcript_names* wherever they are copied to. *reply* makes the output of a hook from the
    event's name, the moment and the context; *read_transcript* reads a transcript from a byte on; it returns None
    where that is not a person's conversation, such as that of a sub-agent. *off_switch* is the setting in the file of
    hooks that turns all hooks off. *archive* is a file with many conversations, which *read_archive* reads.
    """

    home: Callable[[], Path]
    hooks: HookFile
    payload: PayloadForm
    reply: Callable[[str, HookMoment | None, str], str] = context_reply
    transcripts_in: tuple[str, ...]
    transcript_names: tuple[str, ...]
    read_transcript: Callable[[Path, int], Transcript | None]
    off_switch: str = ""
    skill: str = ""
    archive: Callable[[], Path] | None = None
    read_archive: Callable[[Path], Iterator[Transcript]] | None = None

    @property
    def folder(self) -> Path:
        """Folder of its settings and transcripts."""
        return self.home()

    @property
    def hook_file(self) -> HookFile:
        """Configuration of its hooks."""
        return replace(self.hooks, path=self.folder / self.hooks.path)

    @property
    def skills(self) -> Mapping[Path, str]:
        """Skill of the user's folder, where the client reads such files."""
        return {self.folder / self.skill: SKILL} if self.skill else {}

    def hooks_are_off(self) -> str:
        """Return the setting of the client that switches all hooks off, in words; "" where they are on."""
        path = self.hook_file.path
        settings = parse_json(path.read_text(encoding="utf-8")) if self.off_switch and path.is_file() else {}
        is_off = isinstance(settings, dict) and settings.get(self.off_switch) is True
        return f"{self.off_switch} is set in {path}" if is_off else ""

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports; None for an event to ignore, such as one of a sub-agent.

        *folder* is that of the hook's process, for a payload without one.
        """
        return self.payload.event(self.hooks.events.get(event), payload, folder, self.folder)

    def hook_output(self, event: str, context: str) -> str:
        """Return the hook's output that passes *context* ("" for none) to the model."""
        return self.reply(event, self.hooks.events.get(event), context)

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of conversations below *folder* (None: the client's own), oldest first."""
        root = self.folder if folder is None else folder
        patterns = self.transcripts_in if folder is None else [f"**/{name}" for name in self.transcript_names]
        files = (path for pattern in patterns for path in root.glob(pattern))
        yield from oldest_first(path for path in files if "subagents" not in path.parts)

    def archives(self) -> Iterator[Path]:
        """Yield the files that hold many conversations each, such as the database of an editor."""
        if self.archive is not None and self.archive().is_file():
            yield self.archive()

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the file *path*: those of an archive, else the one of a transcript."""
        if self.archive is not None and self.read_archive is not None and path.suffix == self.archive().suffix:
            yield from self.read_archive(path)
        elif (transcript := self.read_transcript(path, 0)) is not None:
            yield transcript
