"""Chat request as a client sent it: what is read of it, and the few places of its text that are changed. Pure.

Messages of Chat Completions and of Anthropic's Messages are alike in what is read here. What is known is added at the
end of the newest message of the user: all before it, and that message itself up to its last word, stay as they were,
so that a prompt cache of the provider goes on to hold for them, and for the next turn, in which the client sends the
message without the addition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

from tellback.agent.assistant.clients.typed_text import typed_text
from tellback.agent.assistant.server.proxy.json_text import (
    Edit,
    Place,
    elements,
    members,
    removal_of_member,
    with_edits,
)
from tellback.agent.json_values import object_list, text_or_empty

SESSION_FIELD: Final = "session"
"""Key in the request's ``metadata`` that names the conversation; it is not passed on, since providers refuse it."""
_TOOL_ROLES: Final = frozenset({"tool", "function"})
_CLIENT_TASK: Final = re.compile(r"\s*### Task:.*<chat_history>", re.DOTALL)
"""Request that Open WebUI makes for itself: a title, tags, the next question, with the conversation in it."""


@dataclass(frozen=True)
class ChatRequest:
    """Request *text*, JSON, whose *fields* and *messages* are known by their places."""

    text: str
    fields: dict[str, Place]
    messages: tuple[Place, ...]
    edits: tuple[Edit, ...] = ()

    @classmethod
    def read(cls, body: bytes) -> ChatRequest | None:
        """Return the request in *body*; None for what is no chat request, about which the provider shall judge."""
        try:
            text = body.decode()
            fields = members(text)
            messages = elements(text, fields["messages"].start)
        except (ValueError, KeyError, RecursionError):
            return None
        if not all(isinstance(place.value, dict) for place in messages):
            return None
        return cls(text, fields, tuple(messages))

    @property
    def body(self) -> bytes:
        """The request with its edits; without any, the bytes that came."""
        return with_edits(self.text, self.edits).encode()

    @property
    def model(self) -> str:
        """Name of the model that is asked."""
        return text_or_empty(self.fields["model"].value) if "model" in self.fields else ""

    def with_model(self, name: str) -> ChatRequest:
        """Return the request to the model *name*."""
        place = self.fields["model"]
        return replace(self, edits=(*self.edits, Edit(place.start, place.end, json.dumps(name))))

    @cached_property
    def session(self) -> str:
        """Name of the conversation in the metadata; "" without one."""
        metadata = self.fields.get("metadata")
        named = metadata.value.get(SESSION_FIELD) if metadata and isinstance(metadata.value, dict) else None
        return text_or_empty(named)

    def without_session(self) -> ChatRequest:
        """Return the request without the name of the conversation, and without metadata where nothing else is in it."""
        if not self.session:
            return self
        metadata = self.fields["metadata"]
        alone = len(metadata.value) == 1
        edit = removal_of_member(self.text, 0, "metadata") if alone else self._removal(metadata)
        return replace(self, edits=(*self.edits, edit))

    def _removal(self, metadata: Place) -> Edit:
        return removal_of_member(self.text, metadata.start, SESSION_FIELD)

    @cached_property
    def newest(self) -> int | None:
        """Index of the newest message that the user wrote; None where there is none."""
        wrote = [index for index, place in enumerate(self.messages) if _is_users(place.value)]
        return wrote[-1] if wrote else None

    @property
    def continues_tools(self) -> bool:
        """Return whether results of tools follow the user's message: the turn goes on."""
        after = self.messages[self.newest + 1 :] if self.newest is not None else self.messages
        return any(_has_tool_results(place.value) for place in after)

    @cached_property
    def prompt(self) -> str:
        """Words of the newest message that the user typed; "" where there are none, or the client wrote them itself."""
        text = "" if self.newest is None else _text_of(self.messages[self.newest].value)
        return "" if _CLIENT_TASK.match(text) else typed_text(text)

    @property
    def earlier_prompts(self) -> Sequence[str]:
        """Prompts before the newest one, oldest first."""
        before = self.messages[: self.newest or 0]
        return [typed_text(_text_of(place.value)) for place in before if _is_users(place.value)]

    @cached_property
    def said(self) -> str:
        """All words of the messages, without spaces and ends of lines between them."""
        return "".join("".join(_text_of(place.value).split()) for place in self.messages)

    def beginning(self, key: bytes) -> str:
        """Return a hash, with *key*, of the first message of the user, which each request of a conversation repeats."""
        first = next((index for index, place in enumerate(self.messages) if _is_users(place.value)), 0)
        return self._hash(first, key)

    def turn(self, key: bytes) -> str:
        """Return a hash, with *key*, of all messages up to the newest one of the user."""
        return self._hash(self.newest or 0, key)

    def _hash(self, last: int, key: bytes) -> str:
        said = [[text_or_empty(place.value.get("role")), _text_of(place.value)] for place in self.messages[: last + 1]]
        words = json.dumps([pair for pair in said if pair[0] in ("user", "assistant")])
        return blake2b(words.encode(), digest_size=8, key=key[:64]).hexdigest()

    def with_context(self, block: str) -> ChatRequest:
        """Return the request with *block* at the end of the newest message of the user."""
        if not block or self.newest is None:
            return self
        content = members(self.text, self.messages[self.newest].start)["content"]
        if isinstance(content.value, str):
            added = json.dumps(f"\n\n{block}")[1:-1]
            edit = Edit(content.end - 1, content.end - 1, added)
        else:
            part = json.dumps({"type": "text", "text": block})
            edit = Edit(content.end - 1, content.end - 1, f",{part}")
        return replace(self, edits=(*self.edits, edit))


def _is_users(message: dict[str, Any]) -> bool:
    return message.get("role") == "user" and not _has_tool_results(message)


def _has_tool_results(message: dict[str, Any]) -> bool:
    return message.get("role") in _TOOL_ROLES or any(
        part.get("type") == "tool_result" for part in object_list(message, "content")
    )


def _text_of(message: dict[str, Any]) -> str:
    if isinstance(message.get("content"), str):
        return str(message["content"])
    return "\n".join(
        text_or_empty(part.get("text")) for part in object_list(message, "content") if part.get("type") == "text"
    )
