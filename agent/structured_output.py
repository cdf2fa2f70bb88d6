"""Structured output: answers that must fit a type, requested, parsed and validated. No I/O.

Where a provider can bind an answer to a JSON schema, the schema is sent; else the answer is the arguments of a tool
call; else the schema is part of the instructions. A provider that refuses one form is asked in the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from tellback.agent.errors import ArgumentError, ProviderError, check_count
from tellback.agent.providers.base import Capabilities, Request, ToolSpec
from tellback.memory import ToolCallBlock

OutputMode = Literal["schema", "tool", "instruction"]
FINAL_ANSWER_TOOL = "final_answer"
_SCHEMA_INSTRUCTION = "Answer with one JSON object and nothing else. It must fit this JSON schema:\n"
_OUTPUT_PROBLEM_LIMIT = 8
_WRAPPED: Final = "answer"
"""Property that holds an answer which is no object, such as a list or a number: schemas begin with an object."""
_REFUSED_FORM = {
    "schema": re.compile(r"schema|response_format|output_config|structured|grammar|json", re.IGNORECASE),
    "tool": re.compile(r"tool|function|schema|parameters", re.IGNORECASE),
}
_REFUSAL_STATUSES = frozenset({400, 404, 422, 501})


@dataclass(frozen=True)
class ExpectedOutput:
    """Wanted type of answer, as *adapter* validates it: asked for by *mode*, repaired at most *repairs* times.

    *modes* are those that are left where the provider refuses this one.
    """

    adapter: TypeAdapter[Any]
    mode: OutputMode
    repairs: int = 2
    modes: tuple[OutputMode, ...] = ()

    @cached_property
    def _type_schema(self) -> dict[str, Any]:
        return self.adapter.json_schema()

    @cached_property
    def _wraps(self) -> bool:
        """Return whether the answer itself is not an object, and is wrapped in one."""
        schema: Mapping[str, Any] = self._type_schema
        if "$ref" in schema:
            schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema.get("type") != "object"

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of an object: the answer, or what holds it."""
        if not self._wraps:
            return self._type_schema
        inner = dict(self._type_schema)
        definitions = {"$defs": inner.pop("$defs")} if "$defs" in inner else {}
        return {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED], **definitions}

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

    def after_refusal(self, error: ProviderError) -> ExpectedOutput | None:
        """Return the next form of asking where *error* refuses this one; None where it does not, or none is left."""
        pattern = _REFUSED_FORM.get(self.mode)
        if pattern is None or not self.modes or error.status not in _REFUSAL_STATUSES or not pattern.search(str(error)):
            return None
        return replace(self, mode=self.modes[0], modes=self.modes[1:])

    def is_answer_call(self, call: ToolCallBlock) -> bool:
        """Return whether *call* carries the answer."""
        return self.mode == "tool" and call.name == FINAL_ANSWER_TOOL

    def parse(self, text: str) -> tuple[Any, str]:
        """Return the answer in *text* and no faults, or None and its faults in words."""
        try:
            value = json.loads(_without_code_fence(text))
        except (ValueError, RecursionError) as error:
            return None, f"the answer is not JSON: {error}"
        return self.validate(value)

    def validate(self, value: Any) -> tuple[Any, str]:
        """Return *value* as the answer and no faults, or None and its faults in words."""
        if self._wraps:
            if not isinstance(value, dict) or value.keys() != {_WRAPPED}:
                return None, f'the answer does not fit: an object with the one field "{_WRAPPED}" is needed'
            value = value[_WRAPPED]
        try:
            return self.adapter.validate_json(json.dumps(value), strict=True), ""
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)[:_OUTPUT_PROBLEM_LIMIT]
            lines = [f"{'.'.join(map(str, problem['loc'])) or 'answer'}: {problem['msg']}" for problem in problems]
            return None, "the answer does not fit: " + "; ".join(lines)

    def text_of(self, output: Any) -> str:
        """Return *output* as JSON text."""
        return self.adapter.dump_json(output).decode()

    def output_of(self, text: str) -> Any:
        """Return the answer in *text*, wrapped or not; one that does not fit raises ``ArgumentError``."""
        output, fault = self.parse(text)
        if fault and self._wraps:
            output, fault = self.parse(f'{{"{_WRAPPED}": {text}}}')
        if fault:
            raise ArgumentError("answer", text, f"JSON of the wanted type is needed ({fault})")
        return output


def expected_output(result_type: Any, capabilities: Capabilities | None, *, repairs: int = 2) -> ExpectedOutput:
    """Return the way to ask a provider with *capabilities* for an answer of *result_type*.

    The type is any that pydantic validates and describes by a JSON schema: a model, a dataclass, ``list[City]``,
    ``int``, a union.
    """
    check_count("repairs", repairs, 0)
    modes: list[OutputMode] = ["instruction"]
    if capabilities is not None and capabilities.tools and "required" in capabilities.tool_choices:
        modes.insert(0, "tool")
    if capabilities is not None and "response_schema" in capabilities.settings:
        modes.insert(0, "schema")
    if isinstance(result_type, (str, bytes, int, float, list, dict)):
        raise ArgumentError("result_type", result_type, "a type such as a pydantic model or list[str] is needed")
    try:
        expected = ExpectedOutput(TypeAdapter(result_type), modes[0], repairs, tuple(modes[1:]))
        expected.schema  # noqa: B018 - a type that JSON cannot say fails here, not in the middle of a run
    except (PydanticUserError, TypeError) as error:
        needed = "a type that pydantic can validate and describe as JSON is needed, such as a model or list[str]"
        raise ArgumentError("result_type", result_type, needed) from error
    return expected


def _without_code_fence(text: str) -> str:
    """Return *text* without the fence that models like to put around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped
