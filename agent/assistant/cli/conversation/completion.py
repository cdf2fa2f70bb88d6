"""Completion in the chat: slash commands and their arguments: ids of memories, sessions, files, models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.conversation.slash_commands import GENERAL_COMMANDS, SLASH_COMMANDS, Argument
from tellback.agent.assistant.cli.output import one_line
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tellback.agent.assistant.wiring import OpenedMemory

_OFFERED: Final = 40
_SHOWN_LENGTH: Final = 50


class ChatCompleter(Completer):
    """Completer of a line that begins with a slash; *opened* returns the memory that is open now."""

    def __init__(self, opened: Callable[[], OpenedMemory]) -> None:
        self._opened = opened
        self._paths = PathCompleter(expanduser=True)
        self._sources: Mapping[Argument, Callable[[], Iterable[tuple[str, str]]]] = {
            "memory": self._memories,
            "session": self._sessions,
            "model": self._models,
        }

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions of the word at the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, space, rest = text.partition(" ")
        if not space:
            commands = {command.name: command.purpose for command in SLASH_COMMANDS.values()}
            for word, purpose in {**commands, **GENERAL_COMMANDS}.items():
                if f"/{word}".startswith(name):
                    yield Completion(f"/{word}", -len(name), display_meta=purpose)
            return
        command = SLASH_COMMANDS.get(name[1:])
        takes: Argument = command.takes if command is not None else "file"
        if takes == "file":
            path = Document(rest.rpartition(" ")[2] if command is None else rest)
            yield from self._paths.get_completions(path, complete_event)
            return
        if " " in rest or takes not in self._sources:
            return
        for word, meaning in self._sources[takes]():
            if rest.casefold() in f"{word} {meaning}".casefold():
                yield Completion(word, -len(rest), display_meta=one_line(meaning)[:_SHOWN_LENGTH])

    def _memories(self) -> Iterator[tuple[str, str]]:
        opened = self._opened()
        page = run(opened.memory.list(order="newest", limit=_OFFERED, namespace=opened.namespace))
        for memory in page:
            yield short_id(memory.id), memory.text

    def _sessions(self) -> Iterator[tuple[str, str]]:
        opened = self._opened()
        for info in run(opened.memory.conversations.sessions(namespace=opened.namespace, limit=_OFFERED)):
            yield short_id(info.session), info.begins

    def _models(self) -> Iterator[tuple[str, str]]:
        from tellback.agent.assistant.setting_checks import NO_MODEL

        if (model := self._opened().settings.model) is not None:
            yield model, "the present one"
        yield NO_MODEL, "answers by quotes"
