"""Messages of a conversation, as pure values; the groups and turns that they form, and the text that stands for them.

A message has a role and blocks of content; it knows nothing of sessions, ids or storage. It survives a round trip
through JSON unchanged. A group is what must never be split: a call of tools and its results. A turn begins with a
message of the user.

    >>> Message.user("I moved to Lisbon.").text
    'I moved to Lisbon.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

import pydantic_core
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ImageType: TypeAlias = Literal["", "image/jpeg", "image/png", "image/gif", "image/webp"]
DocumentType: TypeAlias = Literal["", "application/pdf", "text/plain"]
"""Types of bytes; "" where an address takes their place."""
_HTTP_ADDRESS: Final = re.compile(r"https?://[^\s/]")


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class _ProviderModel(_FrozenModel):
    """Block with a field that only some servers fill; where it is None it is left out of the JSON."""

    _optional: ClassVar[str]

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if fields.get(self._optional) is None:
            fields.pop(self._optional, None)
        return fields


class TextBlock(_FrozenModel):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class _MediaBlock(_ProviderModel):
    """Block with bytes (*data*, of a *media_type*), or the http address (*url*) where the model's server finds it."""

    _optional = "url"
    if TYPE_CHECKING:  # each block has them in the order in which they are stored
        media_type: str
        data: bytes
        url: str | None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.url is None and not (self.data and self.media_type):
            raise ValueError("data with its media_type is needed, or a url")
        if self.url is not None and (self.data or not _HTTP_ADDRESS.match(self.url)):
            raise ValueError("an address that begins with https:// or http:// is needed, without data beside it")
        return self

    @property
    def source(self) -> bytes:
        """The bytes, or those of the address: what tells one from another."""
        return self.data if self.url is None else self.url.encode()


class ImageBlock(_MediaBlock):
    """An image, by its bytes or its address; *caption* and *name* make it findable."""

    type: Literal["image"] = "image"
    media_type: ImageType = ""
    data: bytes = Field(default=b"", repr=False)
    name: str = ""
    caption: str = ""
    url: str | None = None


class DocumentBlock(_MediaBlock):
    """A document, by its bytes or its address."""

    type: Literal["document"] = "document"
    media_type: DocumentType = ""
    data: bytes = Field(default=b"", repr=False)
    name: str = ""
    url: str | None = None


class ThinkingBlock(_ProviderModel):
    """A model's reasoning; sent back unchanged during tool use, dropped before storage.

    *redacted* holds the provider's opaque form when the text itself is withheld. *field* is the field of the reply in
    which it came, where servers differ; it goes back in the same.
    """

    _optional = "field"
    type: Literal["thinking"] = "thinking"
    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    field: str | None = None


class OpaqueBlock(_FrozenModel):
    """Part of a reply that only the server understands, such as a search that it ran itself.

    *data* goes back unchanged to servers of the same wire *format* while the model answers; it is dropped before
    storage.
    """

    type: Literal["opaque"] = "opaque"
    format: str
    data: dict[str, Any] = Field(repr=False)


class ToolCallBlock(_ProviderModel):
    """A model asks for a tool. *arguments* is the parsed JSON object; *invalid* keeps text that was not one.

    *opaque* is what the server wants back with the call, such as the signature of a thought; dropped before storage.
    """

    _optional = "opaque"
    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    invalid: str | None = None
    opaque: dict[str, Any] | None = Field(default=None, repr=False)


class ToolResultBlock(_FrozenModel):
    """Answer of a tool to the call *call_id*; an opaque part is for the server, such as a ``tool_reference``."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str = ""
    content: tuple[
        Annotated[TextBlock | ImageBlock | DocumentBlock | OpaqueBlock, Field(discriminator="type")], ...
    ] = ()
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


Block: TypeAlias = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ThinkingBlock | OpaqueBlock | ToolCallBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class Message(_FrozenModel):
    """Utterance: who speaks (*role*, optionally a *name*), what (*blocks*), when (*at*), and free *metadata*."""

    role: Role
    blocks: tuple[Block, ...] = ()
    name: str | None = None
    at: AwareDatetime | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def system(cls, text: str) -> Message:
        """Make a system message."""
        return cls(role="system", blocks=(TextBlock(text=text),))

    @classmethod
    def user(cls, content: str | Sequence[Block], *, name: str | None = None, at: datetime | None = None) -> Message:
        """Make a user message from text or blocks."""
        return cls(role="user", blocks=_as_blocks(content), name=name, at=at)

    @classmethod
    def assistant(
        cls, content: str | Sequence[Block], *, name: str | None = None, at: datetime | None = None
    ) -> Message:
        """Make an assistant message from text or blocks."""
        return cls(role="assistant", blocks=_as_blocks(content), name=name, at=at)

    @classmethod
    def tool(cls, results: Sequence[ToolResultBlock], *, at: datetime | None = None) -> Message:
        """Make a tool message from the results of one round of calls."""
        return cls(role="tool", blocks=tuple(results), at=at)

    @property
    def text(self) -> str:
        """Words of the message: the text blocks, joined by newlines (tool results and thinking left out)."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The tools that are asked for, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCallBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The answers of tools, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolResultBlock))

    def without_thinking(self) -> Message:
        """Return the message without thinking and opaque parts; the same object if it has none."""
        kept = tuple(
            _without_opaque(block) for block in self.blocks if not isinstance(block, (ThinkingBlock, OpaqueBlock))
        )
        return self if kept == self.blocks else self.model_copy(update={"blocks": kept})


def _without_opaque(block: Block) -> Block:
    if isinstance(block, ToolCallBlock) and block.opaque:
        return block.model_copy(update={"opaque": None})
    if isinstance(block, ToolResultBlock) and any(isinstance(part, OpaqueBlock) for part in block.content):
        shown = tuple(part for part in block.content if not isinstance(part, OpaqueBlock))
        return block.model_copy(update={"content": shown})
    return block


def _as_blocks(content: str | Sequence[Block]) -> tuple[Block, ...]:
    return (TextBlock(text=content),) if isinstance(content, str) else tuple(content)


def message_groups(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into groups that must stay whole, in order.

    An assistant message that calls tools, all tool messages directly after it, and everything up to the last result
    of its calls that comes later (others may speak meanwhile) are one group; each other message is its own.
    """
    groups: list[tuple[Message, ...]] = []
    position = 0
    last = {
        place: place for place, message in enumerate(messages) if message.role == "assistant" and message.tool_calls
    }
    last.update((caller, place) for place, caller, _ in _answered_calls(messages))
    while position < len(messages):
        end = position + 1
        reach = last.get(position)
        while reach is not None and end < len(messages) and (end <= reach or messages[end].role == "tool"):
            reach = max(reach, last.get(end, reach))
            end += 1
        groups.append(tuple(messages[position:end]))
        position = end
    return groups


def conversation_turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into turns: each begins with a user message; what comes before the first is one too."""
    begins = [position for position, message in enumerate(messages) if message.role == "user"]
    borders = sorted({0, *begins, len(messages)})
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]


def calls_by_message(messages: Sequence[Message]) -> list[tuple[ToolCallBlock, ...]]:
    """Return for each message the calls that it is to tell of: a tool message those that it answers, an assistant's
    those that nothing among *messages* answers.
    """
    calls = [[*message.tool_calls] if message.role == "assistant" else [] for message in messages]
    for position, caller, call in _answered_calls(messages):
        calls[caller].remove(call)
        calls[position].append(call)
    return [tuple(remaining) for remaining in calls]


def _answered_calls(messages: Sequence[Message]) -> Iterator[tuple[int, int, ToolCallBlock]]:
    """Yield the place of each result, the place of the message that called, and the call.

    Some servers use an id again: a result belongs to the last call of that id that has none yet.
    """
    waiting: dict[str, tuple[int, ToolCallBlock]] = {}
    for position, message in enumerate(messages):
        if message.role == "assistant":
            waiting.update((call.id, (position, call)) for call in message.tool_calls)
        for result in message.tool_results if message.role == "tool" else ():
            if result.call_id in waiting:
                yield position, *waiting.pop(result.call_id)


QUOTES: Final = "quotes"
"""Metadata of an answer: the ids of the memories whose words it repeats. It is no memory of its own, so that what was
corrected does not live on in it, and it is forgotten with them."""

TRUST: Final = "trust"
"""Metadata of a message: the least trust of what was read when it was made, where that is below its role's."""

RECALLED: Final = "recalled"
"""Metadata of a tool message: the ids of calls whose results show what is remembered already, such as a search of the
memory. They are not remembered again."""

SCOPES: Final = "scopes"
"""Metadata of a message: the scopes of the memory that is made of it, by name."""

TITLE: Final = "title"
"""Metadata of a message: the name that its conversation has where it was held."""

MODEL: Final = "model"
"""Metadata of a model's message: the model that answered, with its version where the endpoint tells it."""

USED: Final = "used"
"""Metadata of a memory: the ids of memories that the answer was made with; named when one is forgotten."""

_MARK_BYTES: Final = 4


def image_captions(message: Message) -> str:
    """Return captions and names of the images of *message*, in order; empty where they have none."""
    labels = (_media_label(block) for block in message.blocks if isinstance(block, ImageBlock))
    return "; ".join(filter(None, labels))


def media_text(message: Message) -> str:
    """Return words that stand for the images and documents of *message*, such as ``(image: a cat (miso.png), 5f0c…)``.

    Empty where it has none. Each carries a mark made of its bytes: the words for one image are not those for another,
    so that forgetting one does not take the other, and the same image sent twice is known to be the same.
    """
    return _media_text(message.blocks)


def _media_text(blocks: Sequence[Block]) -> str:
    words = []
    for block in blocks:
        if isinstance(block, (ImageBlock, DocumentBlock)):
            mark = blake2b(block.source, digest_size=_MARK_BYTES).hexdigest()
            words.append(f"({block.type}: {', '.join(filter(None, (_media_label(block), mark)))})")
    return " ".join(words)


def message_excerpt(message: Message, limit: int = 80) -> str:
    """Return the first words of *message*, at most *limit* characters on one line; captions where it has no words."""
    words = " ".join((message.text.strip() or image_captions(message) or media_text(message)).split())
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def _media_label(block: ImageBlock | DocumentBlock) -> str:
    caption = " ".join(block.caption.split()) if isinstance(block, ImageBlock) else ""
    name = " ".join(block.name.split())
    return f"{caption} ({name})" if caption and name else caption or name


def tool_results_text(message: Message, calls: Sequence[ToolCallBlock] = ()) -> str:
    """Return the results of a tool *message*, each below what was asked for it, where that is among *calls*.

    Empty where all of it is remembered already.
    """
    call_by_id = {call.id: call for call in calls}
    recalled = message.metadata.get(RECALLED)
    recalled_ids = recalled if isinstance(recalled, (list, tuple)) else ()
    results = [result for result in message.tool_results if result.call_id not in recalled_ids]
    return "\n\n".join(_tool_result_text(result, call_by_id.get(result.call_id)) for result in results)


def tool_call_text(call: ToolCallBlock) -> str:
    """Return what *call* asks, such as ``weather (city: Paris, days: 2)``."""
    arguments = call.invalid
    if arguments is None:
        arguments = ", ".join(f"{name}: {_value_text(value)}" for name, value in call.arguments.items())
    return f"{call.name} ({arguments})" if arguments else call.name


def _tool_result_text(result: ToolResultBlock, call: ToolCallBlock | None) -> str:
    title = (result.name if call is None else tool_call_text(call)) + " (failed)" * result.is_error
    return "\n".join(filter(None, (title, result.text.strip(), _media_text(result.content))))


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else pydantic_core.to_json(value).decode()
