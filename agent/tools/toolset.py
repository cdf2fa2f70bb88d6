"""The tools that an agent has, in a stable order: the order in which they were given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent.errors import ArgumentError
from agent.providers.protocol import ToolSpec
from agent.tools.protocol import Tool

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Toolset:
    """Tools by name. A name given twice is refused; ``replacing`` puts a tool in the place of its namesake."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            name = checked_name(tool)
            if name in self._tools:
                raise ArgumentError("tools", name, "each tool needs a name of its own")
            self._tools[name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, in order."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool called *name*."""
        return self._tools.get(name)

    def replacing(self, tool: Tool) -> Toolset:
        """Return the same tools with *tool* in the place of the one of its name, or at the end."""
        return Toolset({**self._tools, checked_name(tool): tool}.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def checked_name(tool: object) -> str:
    """Return the name of *tool*, if it is a tool and every provider takes the name."""
    if not isinstance(tool, Tool):
        raise ArgumentError("tools", tool, "tools are needed; @tool makes one of a function")
    name = tool.spec.name
    if not _NAME.fullmatch(name):
        raise ArgumentError("tool name", name, "1 to 64 letters, digits, _ or - are needed")
    return name
