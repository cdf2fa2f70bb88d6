"""Chained tools: several tools as one, each given the output of the one before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from agent.errors import ArgumentError
from agent.providers.base import ToolSpec
from agent.tools.base import Tool, ToolAnnotations, ToolContext, ToolOutput, annotations_of
from memory import TextBlock, Trust


class ChainedTool:
    """A tool that calls *tools* one after the other: the first with the arguments, each later one with the text of
    the one before as its only required parameter. One that fails ends the chain; a facet that any of them has (but
    *idempotent*: all of them) the chain has, too."""

    def __init__(self, *tools: Tool, name: str, description: str, timeout: float | None = None) -> None:
        if len(tools) < 2 or not all(isinstance(one, Tool) for one in tools):
            raise ArgumentError("tools", tools, "at least two tools are needed")
        self._tools = tools
        self._taking = [_single_parameter(one) for one in tools[1:]]
        self._spec = ToolSpec(name, description, tools[0].spec.parameters)
        self._timeout = timeout
        every = [annotations_of(one) for one in tools]
        if any(facets.authorise is not None for facets in every[1:]):
            raise ArgumentError("tools", tools, "only the first tool of a chain may have an authoriser")
        self._facets = ToolAnnotations(
            # What a later tool is given is a tool's word, which is what it may want a yes for.
            needs_approval=any(one.needs_approval for one in every)
            or any(later.wants_approval(earlier.trust) for earlier, later in combinations(every, 2)),
            authorise=every[0].authorise,
            skip_synthesis=every[-1].skip_synthesis,
            idempotent=all(facets.idempotent for facets in every),
            approval_below=every[0].approval_below,
            trust=Trust.least(facets.trust for facets in every),
            recalls=any(facets.recalls for facets in every),
        )

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return self._spec

    @property
    def timeout(self) -> float | None:
        """Seconds that the whole chain may take."""
        return self._timeout

    @property
    def facets(self) -> ToolAnnotations:
        """What it says of itself."""
        return self._facets

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """As the protocol says."""
        output = await self._tools[0].call(arguments, context)
        for before, tool, parameter in zip(self._tools, self._tools[1:], self._taking, strict=False):
            context = replace(context, trust=Trust.least((context.trust, annotations_of(before).trust)))
            output = await tool.call({parameter: _output_text(output)}, context)
        return output


def _single_parameter(tool: Tool) -> str:
    """Return the name of the one parameter that *tool* needs, or of its only one."""
    schema = tool.spec.parameters
    required: Sequence[str] = schema.get("required") or list(schema.get("properties", {}))
    if len(required) != 1:
        raise ArgumentError("tools", tool.spec.name, "a later tool of a chain takes one text")
    return required[0]


def _output_text(output: ToolOutput) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(block.text for block in output if isinstance(block, TextBlock))
