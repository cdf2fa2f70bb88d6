"""Wire formats of the endpoints: OpenAI's Chat Completions and Anthropic's Messages. Pure.

Of an answer only what is to be kept is read: its text, whether it calls tools, and whether it came to its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tellback.agent.assistant.server.proxy.json_text import Edit, insertion_of_member, members
from tellback.agent.json_values import object_field, object_list, text_or_empty
from tellback.agent.providers.base import TextPiece, TextWasThinking
from tellback.agent.providers.inline_thinking import InlineThinkingSplitter

EXTENSION: Final = "tellback"
"""Field that is added to answers: official clients keep fields that they do not know, and go on."""


class AnswerReader(ABC):
    """Reader of one reply, of *events* one by one or of a *whole* answer."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.calls_tools = False
        self.is_complete = False

    @property
    def text(self) -> str:
        """Text of the answer so far, without reasoning."""
        splitter = InlineThinkingSplitter()
        texts: list[str] = []
        for delta in (*splitter.feed("".join(self._texts)), *splitter.flush()):
            if isinstance(delta, TextPiece):
                texts.append(delta.text)
            elif isinstance(delta, TextWasThinking):
                texts.clear()
        return "".join(texts).strip()

    @abstractmethod
    def read_event(self, event: dict[str, Any]) -> None:
        """Read an event of the stream."""

    @abstractmethod
    def read_whole(self, answer: dict[str, Any]) -> None:
        """Read an answer that is not streamed."""


class ChatCompletionReader(AnswerReader):
    """Reads a reply of Chat Completions; of several choices the first."""

    def read_event(self, event: dict[str, Any]) -> None:
        """Read a chunk."""
        for choice in object_list(event, "choices"):
            if not choice.get("index"):
                self._read(choice, object_field(choice, "delta"))

    def read_whole(self, answer: dict[str, Any]) -> None:
        """Read a completion."""
        for choice in object_list(answer, "choices")[:1]:
            self._read(choice, object_field(choice, "message"))

    def _read(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        self._texts += [text_or_empty(part.get("text")) for part in parts if isinstance(part, dict)]
        self.calls_tools |= bool(message.get("tool_calls") or message.get("function_call"))
        self.is_complete |= isinstance(choice.get("finish_reason"), str)


class MessageReader(AnswerReader):
    """Reads a reply of Anthropic's Messages."""

    def read_event(self, event: dict[str, Any]) -> None:
        """Read an event."""
        match event.get("type"):
            case "content_block_start":
                self._read_block(object_field(event, "content_block"))
            case "content_block_delta":
                self._texts.append(text_or_empty(object_field(event, "delta").get("text")))
            case "message_stop":
                self.is_complete = True

    def read_whole(self, answer: dict[str, Any]) -> None:
        """Read a message."""
        for block in object_list(answer, "content"):
            self._read_block(block)
        self.is_complete = True

    def _read_block(self, block: dict[str, Any]) -> None:
        self._texts.append(text_or_empty(block.get("text")))
        self.calls_tools |= block.get("type") == "tool_use"


@dataclass(frozen=True, slots=True)
class Wire:
    """Wire format: its *name* and *title*, the *path* of its endpoint, and how answers are read.

    *holder* is the member of the first event of a stream in which the answer's own fields stand ("": the event itself).
    """

    name: str
    title: str
    path: str
    reader: type[AnswerReader]
    holder: str = ""

    def error(self, message: str, code: str) -> dict[str, Any]:
        """Return the error *message* as clients of this format read it."""
        if self.name == "anthropic":
            error = {"type": "invalid_request_error", "message": message, "code": code}
            return {"type": "error", "error": error}
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}

    def begins(self, event: dict[str, Any]) -> bool:
        """Return whether *event* has the first fields of the answer."""
        return "choices" in event or event.get("type") == "message_start"

    def ends(self, event: dict[str, Any]) -> bool:
        """Return whether the answer's text is whole with *event*."""
        choices = object_list(event, "choices")
        return event.get("type") == "message_delta" or any(choice.get("finish_reason") for choice in choices)

    def extended(self, text: str, value: Mapping[str, Any], *, at_holder: bool = False) -> str:
        """Return the JSON object *text* with the extension *value* in it, or in its holder."""
        end = len(text.rstrip())
        if at_holder and self.holder:
            end = members(text)[self.holder].end
        edit: Edit = insertion_of_member(text, end, EXTENSION, value)
        return text[: edit.start] + edit.text + text[edit.end :]


CHAT_COMPLETIONS: Final = Wire("openai", "OpenAI's Chat Completions", "/v1/chat/completions", ChatCompletionReader)
MESSAGES: Final = Wire("anthropic", "Anthropic's Messages", "/v1/messages", MessageReader, holder="message")
