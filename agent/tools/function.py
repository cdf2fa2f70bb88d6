r"""Function tools, and several tools as one (``ChainedTool``).

    @tool
    async def weather(city: str, days: int = 1) -> str:
        \"\"\"Tell the weather.

        Args:
            city: Name of the city.
            days: How many days ahead.
        \"\"\"

Name, description and schema come from the function, which can still be called as usual.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Unpack, overload

import pydantic_core

from tellback.agent.errors import ArgumentError, check_seconds
from tellback.agent.providers.base import ToolSpec
from tellback.agent.tools.base import AnnotationOptions, Tool, ToolAnnotations, ToolContext, ToolOutput, annotations_of
from tellback.agent.tools.schema import FunctionParameters, SchemaParameters
from tellback.memory import DocumentBlock, ImageBlock, TextBlock, Trust
from tellback.memory.internals import run_in_thread

_EMPTY_OUTPUT = "done"


class FunctionTool:
    """A function that a model may call; a synchronous one runs in a thread, with the caller's context variables.

    *schema* is that of its arguments where its signature does not say them; it then gets them in one dictionary.
    *annotations* are those of ``ToolAnnotations``; ``spec``, ``timeout`` and ``annotations`` are those of a ``Tool``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **annotations: Unpack[AnnotationOptions],
    ) -> None:
        if not callable(function):
            raise ArgumentError("function", function, "a function is needed")
        check_seconds("timeout", timeout)
        functools.update_wrapper(self, function)
        self._function = function
        self._parameters = FunctionParameters(function) if schema is None else SchemaParameters(function, schema)
        self._is_async = inspect.iscoroutinefunction(function)
        self.timeout = timeout
        self.annotations = ToolAnnotations(**annotations)
        self.spec = ToolSpec(
            name if name is not None else getattr(function, "__name__", type(function).__name__),
            self._parameters.description if description is None else description,
            self._parameters.schema,
        )

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Check the arguments and call the function."""
        checked = self._parameters.checked(arguments, context)
        if self._is_async:
            value = await self._function(**checked)
        else:
            value = await run_in_thread(lambda: self._function(**checked), name="tellback-tool")
            if inspect.isawaitable(value):
                value = await value
        return to_tool_output(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


class ToolOptions(AnnotationOptions, total=False):
    """Options of ``tool``: those of ``ToolAnnotations``, and what takes the place of the function's own."""

    name: str | None
    description: str | None
    schema: Mapping[str, Any] | None
    timeout: float | None


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, plainly (``@tool``) or with options (``@tool(timeout=5, needs_approval=True)``).

    The options are those of ``FunctionTool``, and those of ``ToolAnnotations``. With *schema*, a JSON schema of an
    object that is known at run time alone, the function gets all arguments in one dictionary, and the ``ToolContext``
    where a parameter is annotated so. Arguments are checked against it; an unusable one raises ``ArgumentError``, and
    remote references (``$ref``) are not fetched.
    """

    def decorate(decorated: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(decorated, **options)

    return decorate if function is None else decorate(function)


_OUTPUT_BLOCKS = (TextBlock, ImageBlock, DocumentBlock)


def to_tool_output(value: Any) -> ToolOutput:
    """Return a function's value as a tool's output: text and blocks as they are, all else as JSON."""
    if value is None:
        return _EMPTY_OUTPUT
    if isinstance(value, str):
        return value
    if isinstance(value, _OUTPUT_BLOCKS):
        return (value,)
    if isinstance(value, Sequence) and value and all(isinstance(item, _OUTPUT_BLOCKS) for item in value):
        return tuple(value)
    return pydantic_core.to_json(value).decode()


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
        chained = [annotations_of(tool) for tool in tools]
        if any(later.authorise is not None for later in chained[1:]):
            raise ArgumentError("tools", tools, "only the first tool of a chain may have an authoriser")
        self.annotations = ToolAnnotations(
            # A later tool gets the output of a tool, whose trust may require approval.
            needs_approval=any(annotations.needs_approval for annotations in chained)
            or any(later.wants_approval(earlier.trust) for earlier, later in combinations(chained, 2)),
            authorise=chained[0].authorise,
            skip_synthesis=chained[-1].skip_synthesis,
            idempotent=all(annotations.idempotent for annotations in chained),
            approval_below=chained[0].approval_below,
            trust=Trust.least(annotations.trust for annotations in chained),
            recalls=any(annotations.recalls for annotations in chained),
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
