"""OpenAI Codex CLI: payloads and replies of its hooks, and its session files ("rollouts").

Sources: openai/codex, ``codex-rs/hooks/src/schema.rs`` at 2219e3d and ``events/user_prompt_submit.rs`` at 0082977, the
pages developers.openai.com/codex/hooks and learn.chatgpt.com/docs/hooks as read on 2026-10-04; session files of CLI
0.148 and 0.149 as noted on 2026-09-20, and the legacy form before. A reply with an unknown field is refused by the
client, so there is none. That newer builds compress session files (``.jsonl.zst``) is in ``codex-rs/rollout/src``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agent.assistant.clients.client import ClientEvent, HookClient, HookMoment, Transcript, TranscriptEntry
from agent.assistant.clients.hook_payload import context_output, event_of_payload
from agent.assistant.clients.registration import HookFile, ServerFile, matched_hooks
from agent.assistant.clients.transcript_lines import (
    JsonLines,
    block_texts,
    first_object,
    oldest_first,
    parsed_time,
    with_last_answers,
)
from agent.assistant.clients.typed_text import untagged_text

_FRESH_STARTS: Final = ("startup", "clear", "compact")
_TIMEOUTS: Final = {"SessionStart": 10, "UserPromptSubmit": 10, "Stop": 20, "PreCompact": 20}
"""Seconds after which the client goes on without the hook."""


class Codex(HookClient):
    """Codex CLI; ``CODEX_HOME`` moves its folder."""

    name = "codex"
    title = "Codex CLI"
    documented = "hooks of openai/codex at 2219e3d (2026), sessions of CLI 0.149, MCP servers of 0.159"
    notes = ("Codex runs a new or changed hook only once you trust it: type /hooks in Codex",)
    hook_events: Mapping[str, HookMoment] = MappingProxyType(
        {
            "SessionStart": HookMoment.SESSION_START,
            "UserPromptSubmit": HookMoment.PROMPT,
            "Stop": HookMoment.TURN_END,
            "PreCompact": HookMoment.COMPACTION,
        }
    )

    @property
    def folder(self) -> Path:
        """Folder of its settings and sessions."""
        named = os.environ.get("CODEX_HOME")
        return Path(named).expanduser() if named else Path.home() / ".codex"

    @property
    def server_file(self) -> ServerFile:
        """Servers of the user's configuration, in TOML."""
        return ServerFile(self.folder / "config.toml", key="mcp_servers", form="toml")

    @property
    def hook_file(self) -> HookFile:
        """Hooks of the user, in a file of their own; time-outs are in seconds."""
        return HookFile(self.folder / "hooks.json", _hook_entries)

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports; None in a sub-agent."""
        names = {"turn": "turn_id", "answer": "last_assistant_message"}
        return event_of_payload(self.hook_events.get(event), payload, folder, **names, fresh_starts=_FRESH_STARTS)

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*; on other events a reply has no place for it."""
        return context_output(event, self.hook_events.get(event), context)

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the session files, oldest first, archived ones too."""
        roots = (self.folder / "sessions", self.folder / "archived_sessions") if folder is None else (folder,)
        forms = ("rollout-*.jsonl", "rollout-*.jsonl.zst")
        yield from oldest_first(path for root in roots for form in forms for path in root.rglob(form))

    def read_transcript(self, path: Path, *, start: int = 0) -> Transcript | None:
        """Return the conversation of the file *path*; None for that of a sub-agent.

        A typed prompt is an event of its own; messages of the role "user" also hold texts that the client added. A
        compressed file raises ``MissingExtra`` where the extra ``codex`` is not installed.
        """
        head = _payload(first_object(path))
        if head.get("thread_source") == "subagent" or head.get("parent_thread_id"):
            return None
        session, folder = str(head.get("id") or path.name.partition(".")[0][-36:]), str(head.get("cwd") or "")
        entries: list[TranscriptEntry] = []
        skipped: Counter[str] = Counter()
        typed: set[str] = set()
        injected: list[str] = []
        lines = JsonLines(path, start)
        for line in lines:
            payload, moment = _payload(line), parsed_time(line.get("timestamp"))
            if (text := _prompt(line, payload)) is not None:
                typed.add(text)
                if words := untagged_text(text):
                    entries.append(TranscriptEntry("user", words, session, moment))
                else:
                    skipped["command or wrapper"] += 1
            elif line.get("type") == "response_item" and payload.get("type") == "message":
                texts = block_texts(payload.get("content"))
                if payload.get("role") == "assistant" and texts:
                    entries.append(TranscriptEntry("assistant", "\n".join(texts), session, moment))
                elif payload.get("role") in ("user", "developer"):
                    injected.append("\n".join(texts))
            elif line.get("type") == "response_item" and str(payload.get("type")).endswith("_output"):
                skipped["tool result"] += 1
            elif line.get("type") == "compacted":
                skipped["compaction summary"] += 1
        skipped["client's own words"] += sum(text not in typed for text in injected)
        return Transcript(folder, with_last_answers(entries), +skipped, end=lines.end)


def _hook_entries(command: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    return matched_hooks(command, _TIMEOUTS, matchers={"SessionStart": "|".join(_FRESH_STARTS)})


def _payload(line: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = line.get("payload")
    return payload if isinstance(payload, dict) else {}


def _prompt(line: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    """Return the text of the prompt that *line* records, in the legacy or the paginated form; None for other lines."""
    if line.get("type") != "event_msg":
        return None
    if payload.get("type") == "user_message":
        return str(payload.get("message") or "")
    item = payload.get("item")
    if payload.get("type") == "item_completed" and isinstance(item, dict) and item.get("type") == "UserMessage":
        return "\n".join(block_texts(item.get("content")))
    return None
