"""Protocol of providers: requests and settings in, deltas out, and the capabilities that a request is checked against.

A provider turns a ``Request`` into ``Delta``s and knows neither the loop nor memory. Whole replies are gathered in
``providers.accumulator``. A setting is sent only when it is set; zero is set, None is not.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from tellback.agent.context_items import AnswerCitation, Grounding
from tellback.agent.errors import ArgumentError, Unsupported
from tellback.agent.errors import choice as checked_choice
from tellback.agent.results import StopReason, Usage
from tellback.memory import Message

_FLOAT_SETTINGS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
_SAMPLING_SETTINGS = (*(name for name in _FLOAT_SETTINGS if name != "repetition_penalty"), "top_k", "stop", "seed")
_INTEGER_MINIMUMS = {"top_k": 0, "max_tokens": 1, "max_characters": 1, "seed": None}
DEFAULT_MAX_CHARACTERS = 200_000
"""About 50,000 tokens: longer than a chat model's answers, and small enough for a program's memory."""

Thinking: TypeAlias = Literal["off", "on"] | int
"""Reasoning before the answer: none, as much as the model sees fit, or with a budget of so many tokens."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of one request.

    *thinking* switches reasoning off or on, or gives it a budget in tokens; *effort* is the provider's word for how
    much to reason. *repetition_penalty* divides the odds of tokens that have come already (1 changes nothing).
    *response_schema* is a JSON schema that the answer must fit; *json_mode* asks for some JSON object without one.
    *max_characters* ends a reply on our side, its reasoning and the arguments of its calls counted, and is sent to
    nobody. *extra* goes into the request as it is, for fields of one server alone.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    max_tokens: int | None = None
    thinking: Thinking | None = None
    effort: str | None = None
    response_schema: Mapping[str, Any] | None = None
    json_mode: Literal[True] | None = None
    max_characters: int = DEFAULT_MAX_CHARACTERS
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _FLOAT_SETTINGS:
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not number:
                raise ArgumentError(name, value, "a finite number is needed")
        for name, least in _INTEGER_MINIMUMS.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or (least is not None and value < least)):
                expected = "a whole number is needed" if least is None else f"at least {least} is needed"
                raise ArgumentError(name, value, expected)
        if self.repetition_penalty is not None and self.repetition_penalty <= 0:
            raise ArgumentError("repetition_penalty", self.repetition_penalty, "a number above 0 is needed")
        if self.json_mode not in (None, True):
            raise ArgumentError("json_mode", self.json_mode, "True is needed, or None")
        budget = type(self.thinking) is int and self.thinking > 0
        if self.thinking is not None and self.thinking not in ("off", "on") and not budget:
            raise ArgumentError("thinking", self.thinking, '"off", "on" or a budget of tokens is needed')
        if self.effort is not None and (not isinstance(self.effort, str) or not self.effort):
            raise ArgumentError("effort", self.effort, 'a word of the provider such as "low" is needed')
        if self.thinking == "off" and self.effort is not None:
            raise ArgumentError("effort", self.effort, 'no effort goes with thinking="off"')
        if isinstance(self.stop, str):
            raise ArgumentError("stop", self.stop, "a tuple of texts is needed")


def sampling_fields(settings: ModelSettings, **other: str) -> dict[str, Any]:
    """Return the sampling settings that are set, under the usual names, and those in *other* (our name to theirs)."""
    names = {name: name for name in _SAMPLING_SETTINGS} | other
    values = {theirs: getattr(settings, ours) for ours, theirs in names.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value is not None
    }


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""Choice of tools: as the model sees fit, none, any one, or the tool of that name."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; *parameters* is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """Tool that the model's server runs itself, such as a web search: *data* is its entry among the request's tools, as
    the server's own documentation has it."""

    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.data, Mapping) or not self.data:
            raise ArgumentError("data", self.data, 'the tool as the server wants it is needed, as {"type": "…"}')


@dataclass(frozen=True, slots=True)
class Request:
    """Request for a reply.

    *messages* end with the prompt and already show the recalled items, as text; *grounding* has them as data, for a
    provider that answers without a model.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    server_tools: tuple[ServerTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings = field(default_factory=ModelSettings)
    grounding: Grounding | None = None

    def system_and_messages(self, *, in_place: bool = False) -> tuple[str, list[Message]]:
        """Return the system prompt and the messages after it.

        Many models take system words once, and first, so all of them join the prompt; *in_place*: only those before
        the first word of anybody else, so that "from now on" stays where it was said.
        """
        prompt = [self.system]
        messages: list[Message] = []
        for message in self.messages:
            leads = message.role == "system" and not (in_place and messages)
            prompt.append(message.text) if leads else messages.append(message)
        return "\n\n".join(filter(None, prompt)), messages


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """More of the reasoning. A *signature* ends a block; *redacted* is a whole block of its own. *field* is the field
    of the reply in which it came, where servers differ."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class OpaquePiece:
    """Part of the reply that only servers of the wire *format* understand; it goes back to them as it came."""

    format: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """More of the tool call number *index* of this reply: *id* and *name* once, *arguments* as JSON text in pieces.
    *opaque* goes back with the call as it came."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class UsagePiece:
    """The tokens of this reply so far; the last one counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ModelPiece:
    """The *model* that answers, with its version where the endpoint tells it."""

    model: str


@dataclass(frozen=True, slots=True)
class TextWasThinking:
    """The text of this reply so far was reasoning: its end came without its beginning, which the template of the model
    had written into the prompt."""


@dataclass(frozen=True, slots=True)
class WaitPiece:
    """Wait in a reply. After a *problem* the model is asked again in *seconds* (*named*: the server asked for this
    wait); without one, nothing has come for *seconds*, and *limit* is the longest silence in seconds."""

    seconds: float
    problem: str = ""
    named: bool = False
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class WarningPiece:
    """Warning for the developer, in ``RunResult.warnings``: something asked or sent is not in the reply as it came."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationPiece:
    """A source of the answer."""

    citation: AnswerCitation


@dataclass(frozen=True, slots=True)
class StoredReply:
    """Replacement that history keeps for the words of this reply: *text*, which may be empty, and *note*.

    For a reply that only repeats others' words: repeated in history they would be found again as its own.
    """

    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class StopPiece:
    """The reply is over; *reason* may be given as its text."""

    reason: StopReason

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", checked_choice(StopReason, self.reason, "reason"))


Delta: TypeAlias = (
    TextPiece
    | ThinkingPiece
    | OpaquePiece
    | ToolCallPiece
    | UsagePiece
    | CitationPiece
    | ModelPiece
    | StoredReply
    | TextWasThinking
    | WaitPiece
    | WarningPiece
    | StopPiece
)


@runtime_checkable
class Provider(Protocol):
    """Source of replies, such as the endpoint of a model.

    - Each call is a reply of its own; calls may run at the same time, in any event loop.
    - Deltas come in the order of the reply; ``StopPiece`` comes exactly once, after all text and tool calls.
    - A request that asks what the provider cannot do raises before anything is sent.
    - Failures raise ``ProviderError``, in the middle of the stream too; a reply that breaks off raises.
      No error shows a key.
    - Closing the iterator at any place frees its connection.
    - It may have ``capabilities`` (see ``DescribedProvider``) and list its ``models``.
    """

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Answer *request*."""


SETTING_NAMES = frozenset(field.name for field in fields(ModelSettings)) - {"extra", "max_characters"}
THINKING_MODES = frozenset({"off", "on", "budget"})
INPUT_TYPES = frozenset({"text", "image", "document"})
TOOL_CHOICES = frozenset({"auto", "none", "required"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a provider: *settings* by their names in ``ModelSettings``, ways of *thinking* ("off", "on",
    "budget"), kinds of *inputs* (block types), *tools* at all, how they can be chosen ("required": one of a name, too),
    *server_tools*, and the kinds of inputs that may be an address (*urls*). *remedy* says how to get
    what is missing, where there is a way."""

    settings: frozenset[str] = SETTING_NAMES
    thinking: frozenset[str] = THINKING_MODES
    inputs: frozenset[str] = INPUT_TYPES
    tools: bool = True
    tool_choices: frozenset[str] = TOOL_CHOICES
    server_tools: bool = False
    urls: frozenset[str] = frozenset()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that an endpoint lists; *context* is the length of its window in tokens, where the endpoint says.

    *owner* is what it says of who owns the model, by which some servers are known.
    """

    name: str
    title: str = ""
    context: int | None = None
    owner: str = ""


@runtime_checkable
class DescribedProvider(Protocol):
    """A provider that states its capabilities; any other is taken to do everything."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the provider."""


def capabilities_of(provider: object) -> Capabilities | None:
    """Return the capabilities of *provider*; None where it states none."""
    return provider.capabilities if isinstance(provider, DescribedProvider) else None


def check_request(request: Request, capabilities: Capabilities, provider: str) -> None:
    """Raise ``Unsupported`` for the first feature of *request* that *provider* lacks."""
    settings = request.settings
    for name in sorted(SETTING_NAMES - capabilities.settings):
        if getattr(settings, name) is not None:
            raise Unsupported(provider, name, getattr(settings, name), capabilities.remedy)
    if settings.thinking is not None:
        mode = settings.thinking if isinstance(settings.thinking, str) else "budget"
        if mode not in capabilities.thinking:
            raise Unsupported(provider, "thinking", settings.thinking, capabilities.remedy)
    if request.tools and not capabilities.tools:
        raise Unsupported(provider, "tools", [tool.name for tool in request.tools])
    if request.server_tools and not capabilities.server_tools:
        raise Unsupported(provider, "tools", [dict(tool.data) for tool in request.server_tools])
    choice = request.tool_choice
    if choice not in TOOL_CHOICES and choice not in [tool.name for tool in request.tools]:
        raise ArgumentError("tool_choice", choice, "auto, none, required or the name of a tool is needed")
    if request.tools and (choice if choice in TOOL_CHOICES else "required") not in capabilities.tool_choices:
        raise Unsupported(provider, "tool_choice", choice)
    whole = [block for message in request.messages for block in message.blocks]
    for block in (part for outer in whole for part in (outer, *getattr(outer, "content", ()))):
        if block.type in INPUT_TYPES and block.type not in capabilities.inputs:
            raise Unsupported(provider, "input", block.type)
        if getattr(block, "url", None) is not None and block.type not in capabilities.urls:
            raise Unsupported(provider, "url", block.url, "give the bytes as data")
