"""What the options before the command say, for the command that follows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from agent.assistant.config import Configuration


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that hold for all commands."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    debug: bool = False

    def configuration(self) -> Configuration:
        """Put the settings together."""
        from agent.assistant.config import load_configuration

        return load_configuration(flags=self.flags, environ=os.environ)


def invocation(context: typer.Context) -> Invocation:
    """Return the options that came before the command of *context*."""
    found: Invocation | None = context.find_object(Invocation)
    return found or Invocation()
