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
from typing import Any, overload

import pydantic_core

from agent.errors import ArgumentError
from agent.providers.base import ToolSpec
from agent.tools.base import Authorizer, ToolAnnotations, ToolContext, ToolOutput
from agent.tools.schema import FunctionParameters
from memory import ImageBlock, TextBlock, Trust
from memory.internals import run_in_thread

_EMPTY_OUTPUT = "done"


class FunctionTool:
    """A function that a model may call; a synchronous one runs in a thread, with the caller's context variables."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        needs_approval: bool = False,
        authorise: Authorizer | None = None,
        skip_synthesis: bool = False,
        idempotent: bool = False,
        approval_below: Trust | None = None,
        trust: Trust = Trust.TOOL,
        recalls: bool = False,
    ) -> None:
        if not callable(function):
            raise ArgumentError("function", function, "a function is needed")
        if timeout is not None and not timeout > 0:
            raise ArgumentError("timeout", timeout, "a number of seconds above 0 is needed, or None")
        self._function = function
        self._parameters = FunctionParameters(function)
        self._timeout = timeout
        self._facets = ToolAnnotations(
            needs_approval, authorise, skip_synthesis, idempotent, approval_below, trust, recalls
        )
        said = self._parameters.description if description is None else description
        shown = name if name is not None else getattr(function, "__name__", type(function).__name__)
        self._spec = ToolSpec(shown, said, self._parameters.schema)
        self._is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return self._spec

    @property
    def timeout(self) -> float | None:
        """Seconds that one call may take."""
        return self._timeout

    @property
    def facets(self) -> ToolAnnotations:
        """What it says of itself beside its schema."""
        return self._facets

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """As the protocol says."""
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
        return f"<tool {self._spec.name}>"


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    needs_approval: bool = False,
    authorise: Authorizer | None = None,
    skip_synthesis: bool = False,
    idempotent: bool = False,
    approval_below: Trust | None = None,
    trust: Trust = Trust.TOOL,
    recalls: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, plainly (``@tool``) or with options (``@tool(timeout=5, needs_approval=True)``).

    The options are those of ``FunctionTool``; what the last seven mean is told by ``ToolAnnotations``.
    """

    def made(given: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(given, **options)

    return made if function is None else made(function)


def to_tool_output(value: Any) -> ToolOutput:
    """Return what a function gave as a tool's output: text and blocks as they are, all else as JSON."""
    if value is None:
        return _EMPTY_OUTPUT
    if isinstance(value, str):
        return value
    if isinstance(value, (TextBlock, ImageBlock)):
        return (value,)
    if isinstance(value, Sequence) and value and all(isinstance(one, (TextBlock, ImageBlock)) for one in value):
        return tuple(value)
    return pydantic_core.to_json(value).decode()
