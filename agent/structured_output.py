"""Structured output: answers that must fit a pydantic model, requested, parsed and validated. No I/O.

Where a provider can bind an answer to a JSON schema, the schema is sent; else the answer is the arguments of a tool
call; else the schema is part of the instructions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from agent.errors import ArgumentError, check_count
from agent.providers.base import Capabilities, Request, ToolSpec
from memory import ToolCallBlock

OutputMode = Literal["schema", "tool", "instruction"]
FINAL_ANSWER_TOOL = "final_answer"
_SCHEMA_INSTRUCTION = "Answer with one JSON object and nothing else. It must fit this JSON schema:\n"
_OUTPUT_PROBLEM_LIMIT = 8


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """Wanted type of answer: *model*, asked for by *mode*, repaired at most *repairs* times."""

    model: type[BaseModel]
    mode: OutputMode
    repairs: int = 2
    schema: Mapping[str, Any] = field(default_factory=dict)

    def prepare(self, request: Request, *, last: bool = False) -> Request:
        """Return *request* with the wanted type in it; in the *last* round no other tool is offered."""
        if self.mode == "schema":
            return replace(request, settings=replace(request.settings, response_schema=self.schema))
        if self.mode == "instruction":
            words = _SCHEMA_INSTRUCTION + json.dumps(self.schema, ensure_ascii=False)
            return replace(request, system="\n\n".join(part for part in (request.system, words) if part))
        words = "Give the final answer. Call it alone, when everything else is done."
        tools = (*(() if last else request.tools), ToolSpec(FINAL_ANSWER_TOOL, words, self.schema))
        return replace(request, tools=tools, tool_choice="required")

    def is_answer_call(self, call: ToolCallBlock) -> bool:
        """Whether *call* carries the answer."""
        return self.mode == "tool" and call.name == FINAL_ANSWER_TOOL

    def parse(self, text: str) -> BaseModel | str:
        """Return the answer in *text*, or its faults in words."""
        try:
            value = json.loads(_without_code_fence(text))
        except (ValueError, RecursionError) as error:
            return f"the answer is not JSON: {error}"
        return self.validate(value)

    def validate(self, value: Any) -> BaseModel | str:
        """Return *value* as the answer, or its faults in words."""
        try:
            return self.model.model_validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)[:_OUTPUT_PROBLEM_LIMIT]
            lines = [f"{'.'.join(map(str, problem['loc'])) or 'answer'}: {problem['msg']}" for problem in problems]
            return "the answer does not fit: " + "; ".join(lines)


def expected_output(model: Any, capabilities: Capabilities | None, *, repairs: int = 2) -> ExpectedOutput:
    """Return how an answer of type *model* is asked for from a provider with *capabilities*."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ArgumentError("result_type", model, "a pydantic model is needed")
    check_count("repairs", repairs, 0)
    mode: OutputMode = "instruction"
    if capabilities is not None and capabilities.schema:
        mode = "schema"
    elif capabilities is not None and capabilities.tools and "required" in capabilities.tool_choices:
        mode = "tool"
    return ExpectedOutput(model, mode, repairs, strict_schema(model.model_json_schema()))


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* as the strict modes want it: nothing beyond the properties, all of them required."""
    strict = {name: _strict_value(value, name) for name, value in schema.items() if name not in ("default", "title")}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        strict |= {"additionalProperties": False, "required": list(properties)}
    return strict


def _strict_value(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        if name in ("properties", "$defs"):
            return {key: strict_schema(schema) for key, schema in value.items()}
        return strict_schema(value)
    if isinstance(value, list):
        return [strict_schema(item) if isinstance(item, Mapping) else item for item in value]
    return value


def _without_code_fence(text: str) -> str:
    """Return *text* without the fence that models like to put around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped
