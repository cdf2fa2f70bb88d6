"""What a provider can do, and the check of a request against it before anything is sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

from agent.errors import Unsupported
from agent.providers.protocol import Request
from agent.providers.settings import ModelSettings

SETTINGS = frozenset(field.name for field in fields(ModelSettings)) - {"extra"}
THINKING = frozenset({"off", "adaptive", "budget"})
INPUTS = frozenset({"text", "image", "document"})
TOOL_CHOICES = frozenset({"auto", "none", "required"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider honours: *settings* by their names in ``ModelSettings``, ways of *thinking* ("off",
    "adaptive", "budget"), kinds of *inputs* (block types), *tools* at all, and how they can be chosen."""

    settings: frozenset[str] = SETTINGS
    thinking: frozenset[str] = THINKING
    inputs: frozenset[str] = INPUTS
    tools: bool = True
    tool_choices: frozenset[str] = TOOL_CHOICES

    @property
    def schema(self) -> bool:
        """Whether an answer can be bound to a JSON schema."""
        return "response_schema" in self.settings


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that an endpoint lists; *context* is the length of its window in tokens, where the endpoint says."""

    name: str
    title: str = ""
    context: int | None = None


@runtime_checkable
class Describing(Protocol):
    """A provider that says what it can do; one that does not is taken to do everything."""

    @property
    def capabilities(self) -> Capabilities:
        """What it honours."""
        ...


def capabilities_of(provider: object) -> Capabilities | None:
    """Return what *provider* says of itself; None where it says nothing."""
    return provider.capabilities if isinstance(provider, Describing) else None


def check_request(request: Request, can: Capabilities, provider: str) -> None:
    """Raise ``Unsupported`` for the first thing that *request* asks and *provider* cannot do."""
    settings = request.settings
    for name in sorted(SETTINGS - can.settings):
        if getattr(settings, name) is not None:
            raise Unsupported(provider, name, getattr(settings, name))
    if settings.thinking is not None:
        way = settings.thinking if isinstance(settings.thinking, str) else "budget"
        if way not in can.thinking:
            raise Unsupported(provider, "thinking", settings.thinking)
    if request.tools and not can.tools:
        raise Unsupported(provider, "tools", [tool.name for tool in request.tools])
    if request.tools and request.tool_choice not in can.tool_choices:
        raise Unsupported(provider, "tool_choice", request.tool_choice)
    for message in request.messages:
        for block in message.blocks:
            if block.type in INPUTS and block.type not in can.inputs:
                raise Unsupported(provider, "input", block.type)
