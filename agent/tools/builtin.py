"""Built-in tools: a calculator and a clock.

Arithmetic is evaluated from a syntax tree of numbers, operators and a few functions; nothing is run as code.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from tellback.agent.errors import ToolFailed
from tellback.agent.tools.function import FunctionTool
from tellback.memory.internals import Clock, system_clock

_MAX_EXPRESSION_LENGTH = 500
_MAX_EXPONENT = 10_000
_MAX_RESULT_BITS = 20_000
_MAX_NESTING = 60

Number = int | float

_BINARY_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY_OPERATORS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_FUNCTION_NAMES = "abs acos asin atan ceil cos degrees exp floor log log10 max min radians round sin sqrt tan"
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(math, name, None) or getattr(builtins, name) for name in _FUNCTION_NAMES.split()
}


def calculator() -> FunctionTool:
    """Return a tool that computes: ``(3 + 4) * 2 ** 0.5``, ``sqrt(2)``, ``max(1, 2)``."""
    return FunctionTool(calculate, idempotent=True)


def calculate(
    expression: Annotated[str, Field(min_length=1, description="Such as (3 + 4) * sqrt(2); ** is the power.")],
) -> str:
    """Compute an arithmetic expression exactly as it is written."""
    if len(expression) > _MAX_EXPRESSION_LENGTH:
        raise ToolFailed(f"the expression is longer than {_MAX_EXPRESSION_LENGTH} characters")
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
        value = _evaluate_node(tree.body, 0)
    except (SyntaxError, RecursionError, MemoryError, ValueError, TypeError) as error:
        raise ToolFailed(f"this cannot be computed: {error}") from error
    except ZeroDivisionError as error:
        raise ToolFailed("division by zero") from error
    except OverflowError as error:
        raise ToolFailed("the result is too large") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolFailed("the result is too large")
    return str(value)


def _evaluate_node(node: ast.expr, depth: int) -> Number:
    if depth > _MAX_NESTING:
        raise ToolFailed("the expression is nested too deeply")
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _checked_number(node.value)
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY_OPERATORS:
        return _checked_number(_UNARY_OPERATORS[type(node.op)](_evaluate_node(node.operand, depth + 1)))
    if isinstance(node, ast.BinOp):
        left, right = _evaluate_node(node.left, depth + 1), _evaluate_node(node.right, depth + 1)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _BINARY_OPERATORS:
            return _checked_number(_BINARY_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return _checked_number(function(*(_evaluate_node(argument, depth + 1) for argument in node.args)))
    known = ", ".join([*_FUNCTIONS, *_CONSTANTS])
    raise ToolFailed(f"{ast.unparse(node)[:80]!r} is no arithmetic; there are + - * / // % ** and {known}")


def _power(base: Number, exponent: Number) -> Number:
    """Return the power, if it can be computed in reasonable time."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and (abs(exponent) > _MAX_EXPONENT or int(abs(base)).bit_length() * abs(exponent) > _MAX_RESULT_BITS):
        raise ToolFailed("the result is too large")
    return _checked_number(base**exponent)


def _checked_number(value: Any) -> Number:
    if isinstance(value, complex):
        raise ToolFailed("the result is not a real number")
    if isinstance(value, int) and value.bit_length() > _MAX_RESULT_BITS:
        raise ToolFailed("the result is too large")
    result: Number = value
    return result


def clock(now: Clock = system_clock, *, home: tzinfo | None = None) -> FunctionTool:
    """Return a tool that tells date and time, as *now* returns them, in *home* (None: that of the machine)."""

    def current_time(
        zone: Annotated[str, Field(description="Time zone such as Europe/Lisbon; empty for the user's own.")] = "",
    ) -> str:
        """Tell date, weekday and time of now."""
        try:
            time: datetime = now().astimezone(ZoneInfo(zone) if zone else home)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolFailed(f"there is no time zone {zone!r}; names are such as Europe/Lisbon") from error
        return f"{time:%A}, {time.isoformat(timespec='seconds')}"

    return FunctionTool(current_time, idempotent=True)
