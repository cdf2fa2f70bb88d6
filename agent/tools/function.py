r"""Function tools: ``@tool``.

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
from typing import Any, Unpack, overload

import pydantic_core

from agent.errors import ArgumentError, check_seconds
from agent.providers.base import ToolSpec
from agent.tools.base import AnnotationOptions, ToolAnnotations, ToolContext, ToolOutput
from agent.tools.schema import FunctionParameters
from memory import ImageBlock, TextBlock
from memory.internals import run_in_thread

_EMPTY_OUTPUT = "done"


class FunctionTool:
    """A function that a model may call; a synchronous one runs in a thread, with the caller's context variables.

    *annotations* are those of ``ToolAnnotations``; ``spec``, ``timeout`` and ``annotations`` are those of a ``Tool``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        **annotations: Unpack[AnnotationOptions],
    ) -> None:
        if not callable(function):
            raise ArgumentError("function", function, "a function is needed")
        check_seconds("timeout", timeout)
        functools.update_wrapper(self, function)
        self._function = function
        self._parameters = FunctionParameters(function)
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


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    **annotations: Unpack[AnnotationOptions],
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, plainly (``@tool``) or with options (``@tool(timeout=5, needs_approval=True)``).

    The options are those of ``FunctionTool``, and those of ``ToolAnnotations``.
    """

    def decorate(decorated: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(decorated, **options)

    return decorate if function is None else decorate(function)


def to_tool_output(value: Any) -> ToolOutput:
    """Return a function's value as a tool's output: text and blocks as they are, all else as JSON."""
    if value is None:
        return _EMPTY_OUTPUT
    if isinstance(value, str):
        return value
    if isinstance(value, (TextBlock, ImageBlock)):
        return (value,)
    if isinstance(value, Sequence) and value and all(isinstance(item, (TextBlock, ImageBlock)) for item in value):
        return tuple(value)
    return pydantic_core.to_json(value).decode()
