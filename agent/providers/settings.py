"""How a model is to answer. A setting is sent only when it is set; zero is set, None is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agent.errors import ArgumentError

_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty")
_SAMPLING = (*_NUMBERS, "top_k", "stop", "seed")
_WHOLE = {"top_k": 0, "max_tokens": 1, "seed": None}

Thinking: TypeAlias = Literal["off", "adaptive"] | int
"""Whether a model reasons before it answers: not, as it sees fit, or with a budget of so many tokens."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of one request.

    *thinking* switches reasoning off, leaves it to the model ("adaptive") or gives it a budget in tokens; *effort* is
    the provider's word for how much to reason; *response_schema* a JSON schema that the answer must fit; *extra*
    goes into the request as it is, for what one server alone knows.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    max_tokens: int | None = None
    thinking: Thinking | None = None
    effort: str | None = None
    response_schema: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not _is_number(value):
                raise ArgumentError(name, value, "a finite number is needed")
        for name, least in _WHOLE.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or (least is not None and value < least)):
                expected = "a whole number is needed" if least is None else f"at least {least} is needed"
                raise ArgumentError(name, value, expected)
        budget = type(self.thinking) is int and self.thinking > 0
        if self.thinking is not None and self.thinking not in ("off", "adaptive") and not budget:
            raise ArgumentError("thinking", self.thinking, '"off", "adaptive" or a budget of tokens is needed')
        if self.thinking == "off" and self.effort is not None:
            raise ArgumentError("effort", self.effort, 'no effort goes with thinking="off"')
        if isinstance(self.stop, str):
            raise ArgumentError("stop", self.stop, "a tuple of texts is needed")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def sampling(settings: ModelSettings, **other: str) -> dict[str, Any]:
    """Return what is set of how words are chosen, under the usual names, and of *other* (ours to theirs)."""
    names = {name: name for name in _SAMPLING} | other
    given = {theirs: getattr(settings, ours) for ours, theirs in names.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value is not None
    }
