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
    the tool before as its only required parameter, all within *timeout* seconds. A tool that fails ends the chain. An
    annotation of any of them (of *idempotent*: of all) holds for the chain."""

    def __init__(self, *tools: Tool, name: str, description: str, timeout: float | None = None) -> None:
        if len(tools) < 2 or not all(isinstance(tool, Tool) for tool in tools):
            raise ArgumentError("tools", tools, "at least two tools are needed")
        self._tools = tools
        self._parameters = [_single_parameter(tool) for tool in tools[1:]]
        self.spec = ToolSpec(name, description, tools[0].spec.parameters)
        self.timeout = timeout
        annotations = [annotations_of(tool) for tool in tools]
        if any(later.authorise is not None for later in annotations[1:]):
            raise ArgumentError("tools", tools, "only the first tool of a chain may have an authoriser")
        self.annotations = ToolAnnotations(
            # A later tool is given the word of a tool, for which it may want approval.
            needs_approval=any(each.needs_approval for each in annotations)
            or any(later.wants_approval(earlier.trust) for earlier, later in combinations(annotations, 2)),
            authorise=annotations[0].authorise,
            skip_synthesis=annotations[-1].skip_synthesis,
            idempotent=all(each.idempotent for each in annotations),
            approval_below=annotations[0].approval_below,
            trust=Trust.least(each.trust for each in annotations),
            recalls=any(each.recalls for each in annotations),
        )

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Call the tools in turn, and return the output of the last one."""
        output = await self._tools[0].call(arguments, context)
        for earlier, tool, parameter in zip(self._tools, self._tools[1:], self._parameters, strict=False):
            context = replace(context, trust=Trust.least((context.trust, annotations_of(earlier).trust)))
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
