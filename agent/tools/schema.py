"""JSON schema of a function's parameters, from its signature and docstring or given, and validation of arguments.

Docstrings are read in the Google, NumPy and Sphinx styles.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from tellback.agent.errors import ArgumentError, ToolFailed, shorten
from tellback.agent.tools.base import ToolContext


def parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of *function* and those of its parameters."""
    from docstring_parser import parse

    parsed = parse(inspect.getdoc(function) or "")
    texts = {parameter.arg_name.lstrip("*"): parameter.description or "" for parameter in parsed.params}
    return (parsed.description or "").strip(), texts


_ARGUMENT_PROBLEM_LIMIT = 8
_VALUE_LENGTH = 60
_PROBLEM_LENGTH = 200
_REFUSALS = {"extra_forbidden": "there is no such parameter", "missing": "is missing"}


class UntitledSchema(GenerateJsonSchema):
    """Schemas without titles, which repeat the names and cost tokens in the context of a model."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False for every field."""
        return False


class FunctionParameters:
    """The parameters of *function*: their ``schema``, and ``checked`` arguments for calling it.

    A parameter annotated with *context_type* is filled in with the context of the call and not shown to the model.
    Types are strict: a number written as text is refused; types that JSON lacks (dates, enums) are read from text.
    """

    def __init__(self, function: Callable[..., Any], context_type: type = ToolContext) -> None:
        self.description, texts = parse_docstring(function)
        self._context_type = context_type
        self._context: str | None = None
        self._model = self._make_model(function, texts)
        try:
            schema = self._model.model_json_schema(schema_generator=UntitledSchema)
        except PydanticUserError as error:
            raise ArgumentError("function", function, f"its parameters have no JSON schema ({error})") from error
        schema.pop("title", None)
        schema.pop("description", None)
        self.schema: dict[str, Any] = schema

    def checked(self, arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Return the arguments to call with; raise ``ToolFailed``, which says what would be right."""
        try:
            model = self._model.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            raise ToolFailed(self._complaint(error)) from error
        names = {field.alias or name: name for name, field in self._model.model_fields.items()}
        values = {alias: getattr(model, name) for alias, name in names.items()}
        return values if self._context is None else {**values, self._context: context}

    def _make_model(self, function: Callable[..., Any], texts: Mapping[str, str]) -> type[BaseModel]:
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except (NameError, TypeError) as error:
            raise ArgumentError("function", function, f"its annotations cannot be resolved ({error})") from error
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ArgumentError("function", function, f"a tool cannot have the parameter {parameter}")
            if name not in hints:
                raise ArgumentError("function", function, f"its parameter {name} needs a type")
            if hints[name] is self._context_type:
                self._context = name
                continue
            # Own field names, so that a parameter may be called "schema" or "_x" without hiding a method.
            fields[f"parameter_{len(fields)}"] = (hints[name], _parameter_field(name, parameter, hints[name], texts))
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
        try:
            return create_model("Arguments", __config__=config, **fields)
        except (PydanticUserError, TypeError) as error:
            raise ArgumentError("function", function, f"its parameters have no JSON schema ({error})") from error

    def _complaint(self, error: ValidationError) -> str:
        lines = []
        for problem in error.errors(include_url=False)[:_ARGUMENT_PROBLEM_LIMIT]:
            name = ".".join(str(part) for part in problem["loc"]) or "arguments"
            refusal = f"{problem['msg']}, got {shorten(repr(problem['input']), _VALUE_LENGTH)}"
            lines.append(f"{name}: {_REFUSALS.get(problem['type'], refusal)}")
        return _refused_arguments(lines, self.schema)


def _refused_arguments(problems: Iterable[str], schema: Mapping[str, Any]) -> str:
    expected = json.dumps(schema.get("properties", {}), ensure_ascii=False)
    return f"arguments refused: {'; '.join(problems)}. Parameters: {expected}"


class SchemaParameters:
    """The parameters of *function* by a JSON *schema* of an object that is known at run time alone.

    The arguments are checked against it, and given to the function's first parameter in one dictionary; another one
    may be annotated ``ToolContext``. An unusable schema raises ``ArgumentError``; references to other documents are not
    fetched.
    """

    def __init__(self, function: Callable[..., Any], schema: Mapping[str, Any]) -> None:
        import jsonschema_rs

        self.description, _ = parse_docstring(function)
        if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
            raise ArgumentError("schema", schema, "a JSON schema of an object is needed")
        self.schema: dict[str, Any] = {"type": "object", **json.loads(json.dumps(dict(schema)))}
        try:
            self._validator = jsonschema_rs.validator_for(self.schema, retriever=_refuse_reference)
        except ValueError as error:
            problem = str(error).partition("\n")[0]
            raise ArgumentError("schema", schema, f"a JSON schema is needed ({problem})") from error
        self._name, self._context = _argument_names(function)

    def checked(self, arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Return the arguments to call with; raise ``ToolFailed``, which says what would be right."""
        problems = [
            f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {shorten(error.message, _PROBLEM_LENGTH)}"
            for error in islice(self._validator.iter_errors(dict(arguments)), _ARGUMENT_PROBLEM_LIMIT)
        ]
        if problems:
            raise ToolFailed(_refused_arguments(problems, self.schema))
        values: dict[str, Any] = {self._name: dict(arguments)}
        return values if self._context is None else {**values, self._context: context}


def _refuse_reference(address: str) -> Any:
    raise ValueError(f"{address} is not fetched")


def _argument_names(function: Callable[..., Any]) -> tuple[str, str | None]:
    """Return the names of the parameters that get the arguments, and the context (None: there is none)."""
    hints = typing.get_type_hints(function) if inspect.isroutine(function) else {}
    parameters = [name for name in inspect.signature(function).parameters if hints.get(name) is not ToolContext]
    if len(parameters) != 1:
        raise ArgumentError("function", function, "one parameter for all arguments is needed")
    return parameters[0], next((name for name, hint in hints.items() if hint is ToolContext), None)


def _parameter_field(name: str, parameter: inspect.Parameter, hint: Any, texts: Mapping[str, str]) -> FieldInfo:
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        default.alias = default.validation_alias = default.serialization_alias = name
        return default
    options: dict[str, Any] = {"alias": name}
    annotated = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    if name in texts and not any(isinstance(part, FieldInfo) and part.description for part in annotated):
        options["description"] = texts[name]
    field: FieldInfo = Field(default, **options)
    return field
