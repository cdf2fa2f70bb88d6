"""What a provider is: one method that streams a reply, and the values that go in and out.

A provider turns a ``Request`` into ``Delta``s and knows neither the loop nor memory. ``complete`` in ``collecting``
gathers the deltas where a whole reply is wanted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from agent.errors import choice
from agent.items import Citation, ContextItem
from agent.providers.settings import ModelSettings
from agent.results import StopReason, Usage
from memory import Message

if TYPE_CHECKING:  # a provider needs no store
    from vectorstore import Analyzer

ToolChoice: TypeAlias = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; *parameters* is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a reply is made from.

    *messages* end with what is to be answered and already show what was recalled, as text. The same as data:
    *question* is the present prompt alone, *context* the recalled memories and passages, *abstain* why they may
    not answer ("nothing", "other": said, but by someone else), *remembers* whether this turn will be stored,
    *searched* how many memories and passages there were to find (None: not known), *analyzer* what makes words
    comparable in the memory's language. A provider with a model needs only the messages.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings = field(default_factory=ModelSettings)
    question: str = ""
    context: tuple[ContextItem, ...] = ()
    abstain: Literal["nothing", "other"] | None = None
    remembers: bool = False
    searched: int | None = None
    analyzer: Analyzer | None = None

    @property
    def system_words(self) -> str:
        """All that the system says, in messages too, as one text: many models take it once, and first."""
        said = [message.text for message in self.messages if message.role == "system"]
        return "\n\n".join(text for text in (self.system, *said) if text)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages that are not the system's."""
        return tuple(message for message in self.messages if message.role != "system")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """More of the reasoning. A *signature* ends a block; *redacted* is a whole block of its own."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """More of the tool call number *index* of this reply: *id* and *name* once, *arguments* as JSON text in pieces."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class UsagePiece:
    """The tokens of this reply so far; the last one counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class CitationPiece:
    """The answer rests on this."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class KeptAs:
    """What history is to keep of this reply in place of its words: *text*, which may be empty, and *note*.

    For a reply that only repeats others' words: repeated in history they would be found again as its own.
    """

    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """The reply is over; *reason* may be given as its text."""

    reason: StopReason

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", choice(StopReason, self.reason, "reason"))


Delta: TypeAlias = TextPiece | ThinkingPiece | ToolCallPiece | UsagePiece | CitationPiece | KeptAs | Stop


@runtime_checkable
class Provider(Protocol):
    """Something that answers.

    - Each call is a reply of its own; calls may run at the same time, in any event loop.
    - Deltas come in the order of the reply; ``Stop`` comes exactly once, after all text and tool calls.
    - What the request asks and the provider cannot do raises before anything is sent.
    - Failures raise ``ProviderError``, in the middle of the stream too; a reply that breaks off raises.
      No error shows a key.
    - Closing the iterator at any place frees its connection.
    - It may say what it can do (``capabilities``) and which models there are (``models``); see ``capabilities``.
    """

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Answer *request*."""
        ...
