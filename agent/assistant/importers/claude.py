"""Data export of Claude (claude.ai): a ZIP archive with ``conversations.json``.

The maker does not document its fields. Sources: the importers of basic-memory at 4d1dfdb and several samples of 2026
that others published. No real export was at hand here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import block_texts, parsed_time
from tellback.agent.assistant.importers.conversation_tree import branch_to, clean_text, clean_title
from tellback.agent.assistant.importers.export_files import ChatExport
from tellback.agent.json_values import object_list


def _transcript(conversation: Mapping[str, Any], end: int) -> Transcript:
    session = str(conversation.get("uuid") or "")
    began = parsed_time(conversation.get("created_at"))
    skipped: Counter[str] = Counter()
    entries: list[TranscriptEntry] = []
    for message in _newest_branch(object_list(conversation, "chat_messages")):
        role = _role(message)
        if role is None:
            continue
        if role == "user":
            skipped["attachment"] += len(object_list(message, "attachments"))
        if text := _text(message):
            entries.append(TranscriptEntry(role, text, session, parsed_time(message.get("created_at")) or began))
    return Transcript("", tuple(entries), +skipped, end=end, title=clean_title(conversation.get("name")))


def _newest_branch(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the *messages* on the branch of the newest one; all where they name no parents."""
    by_id = {str(message.get("uuid")): message for message in messages if message.get("uuid")}
    if len(by_id) < len(messages) or not any(message.get("parent_message_uuid") for message in messages):
        return messages
    leaf = max(reversed(by_id), key=lambda id: str(by_id[id].get("created_at") or ""), default="")
    parents = {id: str(message.get("parent_message_uuid") or "") for id, message in by_id.items()}
    return [by_id[id] for id in branch_to(leaf, parents)]


def _role(message: Mapping[str, Any]) -> Literal["user", "assistant"] | None:
    match message.get("sender"):
        case "human":
            return "user"
        case "assistant":
            return "assistant"
    return None


def _text(message: Mapping[str, Any]) -> str:
    """Return the text blocks of *message*, without reasoning and tools; its ``text`` where there are no blocks."""
    blocks = [block for block in object_list(message, "content") if block.get("type") == "text"]
    return clean_text("\n".join(block_texts(blocks))) or (
        "" if message.get("content") else clean_text(str(message.get("text") or ""))
    )


CLAUDE: Final = ChatExport(
    name="claude",
    title="Claude",
    documented="data export of claude.ai of 2026, by samples of others",
    mark="chat_messages",
    transcript=_transcript,
)
"""Export of Claude; it does not record which branch was open, so the newest branch is read."""
