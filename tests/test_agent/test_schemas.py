"""JSON schemas of the strict modes, beside the transformers of the official SDKs; and ways to request a result type.

Inner parts, on no face: ``tellback.agent.providers.schemas``.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from tellback.agent import Agent, AnthropicProvider, Ending, OpenAICompatibleProvider, WarningIssued
from tellback.agent.providers.schemas import anthropic_schema, openai_schema
from tellback.agent.testing import AnthropicServer, OpenAIServer, RawReply, Reply, ScriptedServer, call

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class City(BaseModel):
    """A city."""

    name: str = Field(min_length=1, max_length=80, description="In English.")
    people: int = Field(ge=0, le=40_000_000)


class Trip(BaseModel):
    home: City = Field(description="Where it begins.")
    stops: list[City] = Field(min_length=2, max_length=9)
    note: str | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Described(BaseModel):
    next: Described | None = Field(None, description="The one behind it.")
    twin: Annotated[Node, Field(description="Its like.")]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: tuple[str, ...] = ()


class Pet(BaseModel):
    animal: Annotated[Cat | Dog, Field(discriminator="kind")]


class Times(BaseModel):
    day: date
    moment: datetime | None = None
    pattern: str = Field(pattern=r"^\d+$")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    colour: Colour
    share: float = Field(gt=0, lt=1, multiple_of=0.25)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    pairs: dict[str, int]


class Row(TypedDict):
    name: str
    size: int


class Point(NamedTuple):
    x: float
    y: float


@dataclass
class Plain:
    title: str
    tags: set[str]


TYPES: list[Any] = [
    *(City, Trip, Node, Described, Pet, Times, Closed, Open, Row, Point, Plain),
    *(list[City], list[Node], int, str, bool, Literal["yes", "no"], Colour, City | Dog, str | None),
    *(tuple[int, str], Annotated[int, Field(ge=1, description="A count.")], dict[str, City], Decimal),
]


def without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_descriptions(item) for name, item in value.items() if name != "description"}
    return [without_descriptions(item) for item in value] if isinstance(value, list) else value


CONSTRAINTS = ("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "pattern", "multipleOf", "maxItems")


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_schemas_are_made_strict_as_the_official_sdks_do(kind: Any) -> None:
    strict = pytest.importorskip("openai.lib._pydantic").to_strict_json_schema
    transform = pytest.importorskip("anthropic.lib._parse._transform").transform_schema
    schema = TypeAdapter(kind).json_schema()
    before = copy.deepcopy(schema)
    assert openai_schema(schema) == strict(TypeAdapter(kind))
    ours, theirs = anthropic_schema(schema), transform(copy.deepcopy(schema))
    assert without_descriptions(ours) == without_descriptions(theirs)
    before_words, words = json.dumps(schema), json.dumps(ours)
    assert not [name for name in CONSTRAINTS if f'"{name}"' in before_words and f"{name}: " not in words]
    assert schema == before


@pytest.mark.parametrize(
    ("kind", "answer", "output"),
    [
        (City, {"name": "Lisbon", "people": 5}, City(name="Lisbon", people=5)),
        (list[City], {"answer": [{"name": "Porto", "people": 2}]}, [City(name="Porto", people=2)]),
        (int, {"answer": 4}, 4),
        (City | Dog, {"answer": {"kind": "dog"}}, Dog(kind="dog")),
        (Plain, {"title": "t", "tags": ["a"]}, Plain("t", {"a"})),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
    ],
    ids=str,
)
def test_any_type_that_pydantic_validates_is_answered(kind: Any, answer: Any, output: Any) -> None:
    with OpenAIServer(Reply(json.dumps(answer))) as server:
        result = Agent(OpenAICompatibleProvider(server.url, "m")).run_sync("?", result_type=kind)
        schema = server.requests[0].body["response_format"]["json_schema"]["schema"]
    assert result.output == output
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)


def refusal(message: str) -> RawReply:
    return RawReply([json.dumps({"error": {"message": message}}).encode()], 400, "application/json")


def provider_for(server: ScriptedServer) -> OpenAICompatibleProvider | AnthropicProvider:
    if isinstance(server, AnthropicServer):
        return AnthropicProvider("m", base_url=server.url)
    return OpenAICompatibleProvider(server.url, "m")


@pytest.mark.parametrize("server_type", [OpenAIServer, AnthropicServer])
async def test_a_refused_schema_is_asked_for_as_a_tool_and_then_in_words(server_type: type[ScriptedServer]) -> None:
    answer = {"name": "Lisbon", "people": 5}
    tool_reply = Reply(calls=(call("final_answer", **answer),))
    with server_type(refusal("output schema: minimum is not supported"), tool_reply) as server:
        provider = provider_for(server)
        events = [event async for event in Agent(provider).stream("Which city?", result_type=City)]
        assert any(
            event.text.startswith("the wanted type was refused") for event in events if isinstance(event, WarningIssued)
        )
        assert events[-1].result.output == City(**answer)
        assert server.requests[1].body["tools"][-1].get("name", "") in ("final_answer", "")
    with server_type(refusal("bad schema"), refusal("no tools here"), Reply(json.dumps(answer))) as server:
        result = await Agent(provider_for(server)).run("Which city?", result_type=City)
        assert result.output == City(**answer)
        assert "JSON schema" in json.dumps(server.requests[2].body)
    with server_type(refusal("no such model")) as server:
        *_, ended = [event async for event in Agent(provider_for(server)).stream("?", result_type=City)]
        assert (ended.result.ending, len(server.requests)) == (Ending.PROVIDER_ERROR, 1)
