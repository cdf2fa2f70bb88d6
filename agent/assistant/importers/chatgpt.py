"""Data export of ChatGPT: a ZIP archive with ``conversations.json``, or with numbered parts of it.

The maker does not document its fields. Sources: notes of the project seCall on a real export of April 2026 with 41
conversations, and the importer of basic-memory at 4d1dfdb. No real export was at hand here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.importers.conversation_tree import (
    branch_to,
    clean_text,
    clean_title,
    time_of_seconds,
)
from tellback.agent.assistant.importers.export_files import ChatExport
from tellback.agent.json_values import object_field

_SPOKEN: Final = ("text", "multimodal_text")
_ANSWER_CHANNELS: Final = (None, "", "final")
_UNTYPED_KINDS: Final = {
    "user_editable_context": "custom instructions",
    "code": "code or file",
    "tether_quote": "quote of a page",
}


def _transcript(conversation: Mapping[str, Any], end: int) -> Transcript:
    session = str(conversation.get("conversation_id") or conversation.get("id") or "")
    skipped: Counter[str] = Counter()
    entries: list[TranscriptEntry] = []
    if conversation.get("is_do_not_remember") is True:
        return Transcript("", (), {"conversation that is not to be remembered": 1}, end=end)
    began = time_of_seconds(conversation.get("create_time"))
    for message in _open_branch(conversation):
        role = object_field(message, "author").get("role")
        content = object_field(message, "content")
        if role == "user":
            if reason := _untyped_reason(message, content):
                skipped[reason] += 1
                continue
        elif role != "assistant" or not _is_answer(message, content):
            continue
        parts = content.get("parts")
        texts = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
        if text := clean_text("\n".join(texts)):
            time = time_of_seconds(message.get("create_time")) or began
            entries.append(TranscriptEntry("user" if role == "user" else "assistant", text, session, time))
    return Transcript("", tuple(entries), skipped, end=end, title=clean_title(conversation.get("title")))


def _open_branch(conversation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages on the branch that was open last; without a mark, that of the newest message."""
    nodes = {id: node for id, node in object_field(conversation, "mapping").items() if isinstance(node, dict)}
    messages = {id: object_field(node, "message") for id, node in nodes.items()}
    leaf = conversation.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        times = {id: time_of_seconds(message.get("create_time")) for id, message in messages.items()}
        written = {id: time for id, time in times.items() if time is not None}
        leaf = max(written, key=written.__getitem__, default=next(reversed(nodes), ""))
    branch = branch_to(leaf, {id: str(node.get("parent") or "") for id, node in nodes.items()})
    return [messages[id] for id in branch if messages[id]]


def _untyped_reason(message: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return the kind of a *message* in the user's role that nobody typed; "" for what a person typed."""
    metadata, kind = object_field(message, "metadata"), content.get("content_type")
    if kind not in _SPOKEN:
        return _UNTYPED_KINDS.get(str(kind), "other content")
    if metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message"):
        return "hidden message"
    return ""


def _is_answer(message: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Return whether *message* is an answer to the user: no tool call and no reasoning."""
    hidden = object_field(message, "metadata").get("is_visually_hidden_from_conversation")
    return (
        not hidden
        and content.get("content_type") in _SPOKEN
        and message.get("recipient") in (None, "all")
        and message.get("channel") in _ANSWER_CHANNELS
    )


CHATGPT: Final = ChatExport(
    name="chatgpt",
    title="ChatGPT",
    documented="data export of April 2026, by notes of others on a real one",
    mark="mapping",
    transcript=_transcript,
)
"""Export of ChatGPT; of each conversation, the branch that was open last is read."""
