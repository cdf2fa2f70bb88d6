"""Registry of the formats that an import reads, and their recognition by content."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tellback.agent.assistant.clients.registry import HOOK_CLIENTS
from tellback.agent.assistant.clients.transcript import ConversationSource
from tellback.agent.assistant.importers.chatgpt import CHATGPT
from tellback.agent.assistant.importers.claude import CLAUDE
from tellback.agent.assistant.importers.export_files import export_files, first_conversation
from tellback.agent.assistant.importers.llm_logs import LlmLogs
from tellback.agent.assistant.importers.tables import TABLE_FORMATS
from tellback.agent.json_values import parsed_object
from tellback.memory import ArgumentError

TELLBACK: Final = "tellback"
MARKDOWN: Final = "markdown"
ALIASES: Final = {"obsidian": MARKDOWN}
"""Formats by other names that people look for."""
LLM: Final = LlmLogs()
CHAT_EXPORTS: Final = (CHATGPT, CLAUDE)
CONVERSATION_SOURCES: Final[tuple[ConversationSource, ...]] = (*HOOK_CLIENTS, *CHAT_EXPORTS, LLM)
FORMATS: Final = (*(source.name for source in CONVERSATION_SOURCES), MARKDOWN, *TABLE_FORMATS, TELLBACK)
"""Names of all formats."""

_FIRST_LINE: Final = 1_000_000
_TABLE_ENDINGS: Final = (".csv", ".tsv")
_NOTE_ENDINGS: Final = (".md", ".markdown")


def conversation_source(name: str) -> ConversationSource | None:
    """Return the source of conversations of that *name*; None for another format. An unknown name is an error."""
    if name not in FORMATS:
        raise ArgumentError("--from", name, f"one of {', '.join(FORMATS)} is needed")
    return next((source for source in CONVERSATION_SOURCES if source.name == name), None)


def is_imported(session: str) -> bool:
    """Return whether *session*, by its name, was held in another program."""
    origin, colon, _ = session.partition(":")
    return bool(colon) and any(source.name == origin for source in CONVERSATION_SOURCES)


def recognised_format(path: Path) -> str | None:
    """Return the name of the format of *path*, by its content; None where it is not recognised."""
    if path.is_dir():
        exports = export_files(path)
        if exports:
            return _chat_export(exports[0])
        return MARKDOWN if any(True for file in path.rglob("*") if file.suffix.lower() in _NOTE_ENDINGS) else None
    if LLM.recognises(path):
        return LLM.name
    if (name := _chat_export(path)) is not None:
        return name
    ending = path.suffix.lower()
    if ending in _TABLE_ENDINGS:
        return "csv"
    if ending in _NOTE_ENDINGS:
        return MARKDOWN
    with path.open("rb") as file:
        first = parsed_object(file.readline(_FIRST_LINE))
    return None if first is None else TELLBACK if first.get("type") == "manifest" else "jsonl"


def _chat_export(path: Path) -> str | None:
    first = first_conversation(path)
    return next((export.name for export in CHAT_EXPORTS if export.mark in first), None)
