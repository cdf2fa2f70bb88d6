"""Tools: made from functions, checked strictly, kept in order.

Inner parts, on no face: ``tellback.agent.tools.base``, ``tellback.agent.tools.function``,
``tellback.agent.tools.schema``.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import functools
import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from tellback.agent import ArgumentError, Tool, ToolContext, ToolFailed, tool
from tellback.agent.tools.base import Toolset
from tellback.agent.tools.function import FunctionTool
from tellback.agent.tools.schema import parse_docstring
from tellback.memory import ImageBlock, TextBlock

WHO = contextvars.ContextVar("who", default="nobody")


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(BaseModel):
    city: str
    country: str = "PT"


@dataclass
class Weather:
    degrees: float
    wind: str


def called(made: FunctionTool, **arguments: object):
    return asyncio.run(made.call(arguments, ToolContext(call_id="c1", session="s1")))


def refused(made: FunctionTool, **arguments: object) -> str:
    with pytest.raises(ToolFailed) as caught:
        called(made, **arguments)
    return str(caught.value)


@tool
def weather(city: str, days: int = 1, unit: Unit = Unit.CELSIUS) -> str:
    """Tell the weather.

    Slowly, but truly.

    Args:
        city: Name of the city,
            in any language.
        days (int): How many days ahead.
    """
    return f"{city} {days} {unit.value}"


def test_name_description_and_schema_come_from_the_function() -> None:
    assert weather.spec.name == "weather"
    assert weather.spec.description == "Tell the weather.\n\nSlowly, but truly."
    schema = weather.spec.parameters
    assert schema["required"] == ["city"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["city"] == {"type": "string", "description": "Name of the city,\nin any language."}
    assert schema["properties"]["days"] == {"type": "integer", "default": 1, "description": "How many days ahead."}


def test_a_decorated_function_is_a_tool_and_still_a_function() -> None:
    assert isinstance(weather, Tool)
    assert weather("Porto", days=2) == "Porto 2 c"
    assert weather.__name__ == "weather"


def test_options_name_describe_and_limit_a_tool() -> None:
    @tool(name="now", description="The time.", timeout=2)
    def clock() -> str:
        """Something else."""
        return "12:00"

    assert (clock.spec.name, clock.spec.description, clock.timeout) == ("now", "The time.", 2)


def test_a_synchronous_function_runs_in_another_thread_with_the_callers_context() -> None:
    @tool
    def where() -> str:
        """Tell where."""
        return f"{WHO.get()} {threading.current_thread() is threading.main_thread()}"

    WHO.set("ana")
    assert called(where) == "ana False"


def test_an_asynchronous_function_runs_in_the_loop() -> None:
    @tool
    async def where() -> str:
        """Tell where."""
        await asyncio.sleep(0)
        return str(threading.current_thread() is threading.main_thread())

    assert called(where) == "True"


def test_a_bound_method_with_types_can_be_a_tool() -> None:
    class Counter:
        def add(self, n: int) -> str:
            """Add."""
            return str(n + 1)

    assert called(FunctionTool(Counter().add), n=1) == "2"


def test_dates_enums_and_models_are_parsed_from_json_arguments() -> None:
    @tool
    def plan(day: date, unit: Unit, place: Place, kinds: list[Literal["a", "b"]]) -> str:
        """Plan."""
        return f"{day.year} {unit.name} {place.city} {kinds}"

    assert called(plan, day="2026-05-03", unit="f", place={"city": "Lisbon"}, kinds=["a"]) == (
        "2026 FAHRENHEIT Lisbon ['a']"
    )


def test_a_number_written_as_text_is_refused_with_the_expected_schema() -> None:
    problem = refused(weather, city="Porto", days="2")
    assert "days: " in problem
    assert "'2'" in problem
    assert '"type": "integer"' in problem


def test_missing_and_unknown_arguments_are_named() -> None:
    problem = refused(weather, town="Porto")
    assert "city: is missing" in problem
    assert "town: there is no such parameter" in problem


def test_bounds_in_annotations_hold_and_are_shown() -> None:
    @tool
    def roll(sides: Annotated[int, Field(ge=2, description="How many sides.")] = 6) -> str:
        """Roll."""
        return str(sides)

    assert roll.spec.parameters["properties"]["sides"]["minimum"] == 2
    assert roll.spec.parameters["properties"]["sides"]["description"] == "How many sides."
    assert "greater than or equal to 2" in refused(roll, sides=1)
    assert called(roll) == "6"


def test_tool_parameters_may_have_names_of_pydantic_attributes() -> None:
    @tool
    def odd(schema: str, model_config: int, copy: bool, json: str = "x") -> str:
        """Take odd names."""
        return f"{schema} {model_config} {copy} {json}"

    assert called(odd, schema="s", model_config=1, copy=True) == "s 1 True x"


def test_the_context_is_filled_in_and_not_shown() -> None:
    @tool
    def who(context: ToolContext, loud: bool = False) -> str:
        """Tell the session."""
        return context.session + ("!" if loud else "")

    assert set(who.spec.parameters["properties"]) == {"loud"}
    assert called(who, loud=True) == "s1!"
    assert "no such parameter" in refused(who, context={"session": "other"})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("as it is", "as it is"),
        (None, "done"),
        (3, "3"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        (Weather(21.5, "N"), '{"degrees":21.5,"wind":"N"}'),
        (Place(city="Lisbon"), '{"city":"Lisbon","country":"PT"}'),
        (date(2026, 5, 3), '"2026-05-03"'),
    ],
)
def test_the_return_value_of_a_function_tool_becomes_text(value: object, shown: str) -> None:
    async def give() -> object:
        """Give."""
        return value

    assert called(FunctionTool(give)) == shown


def test_blocks_stay_blocks() -> None:
    picture = ImageBlock(media_type="image/png", data=b"x")

    async def draw(both: bool) -> object:
        """Draw."""
        return [TextBlock(text="here"), picture] if both else picture

    assert called(FunctionTool(draw), both=False) == (picture,)
    assert called(FunctionTool(draw), both=True) == (TextBlock(text="here"), picture)


def test_an_unsupported_function_is_refused_as_a_tool_at_construction() -> None:
    def untyped(a):
        """Do."""

    def starred(*numbers: int) -> None:
        """Do."""

    def keywords(**numbers: int) -> None:
        """Do."""

    def strange(lock: threading.Event) -> None:
        """Do."""

    for function in (untyped, starred, keywords, strange, functools.partial(weather, "Porto"), 7):
        with pytest.raises(ArgumentError):
            FunctionTool(function)


def test_google_numpy_and_sphinx_docstrings_are_parsed() -> None:
    def google(a: int, b: int) -> None:
        """Do it.

        Args:
            a: First.
            b: Second, which is: longer
                than a line.

        Returns:
            c: not a parameter.
        """

    def numpy(a: int, b: int) -> None:
        """Do it.

        Parameters
        ----------
        a : int
            First.
        b
            Second, which is: longer
            than a line.

        Returns
        -------
        c
            not a parameter.
        """

    def sphinx(a: int, b: int) -> None:
        """Do it.

        :param int a: First.
        :param b: Second, which is: longer
            than a line.
        :returns: not a parameter.
        """

    expected = ("Do it.", {"a": "First.", "b": "Second, which is: longer\nthan a line."})
    assert parse_docstring(google) == parse_docstring(numpy) == parse_docstring(sphinx) == expected


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "from": {"$ref": "#/$defs/day"},
        "units": {"enum": ["c", "f"]},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"day": {"type": "string", "pattern": r"^(?!1)\d{4}-\d\d-\d\d$"}},
}


def test_a_tool_can_be_made_from_a_schema_known_only_at_run_time() -> None:
    async def forecast(arguments: dict[str, object], context: ToolContext) -> object:
        return {**arguments, "session": context.session}

    made = tool(name="forecast", description="Tell the weather.", schema=CITY, timeout=5, needs_approval=True)(forecast)
    assert isinstance(made, Tool)
    assert (made.spec.name, made.spec.description, made.spec.parameters) == ("forecast", "Tell the weather.", CITY)
    assert (made.timeout, made.annotations.needs_approval) == (5, True)
    assert (
        called(made, **{"city": "Faro", "from": "2026-05-03"}) == '{"city":"Faro","from":"2026-05-03","session":"s1"}'
    )
    assert called(tool(name="echo", schema={})(lambda values: values), any=[1]) == '{"any":[1]}'


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, '"city" is a required property'),
        ({"city": ""}, "city: "),
        ({"city": "Faro", "units": "k"}, "units: "),
        ({"city": "Faro", "from": "3 May"}, "from: "),
        ({"city": "Faro", "wind": 1}, "wind"),
    ],
)
def test_arguments_that_a_given_schema_refuses_do_not_reach_the_function(arguments, problem) -> None:
    made = tool(name="forecast", schema=CITY)(lambda values: pytest.fail("called"))
    complaint = refused(made, **arguments)
    assert complaint.startswith("arguments refused: ")
    assert problem in complaint


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        {"type": "string"},
        {"properties": {"a": {"type": "nonsense"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
    ],
)
def test_an_unusable_schema_is_refused_and_no_reference_is_fetched(schema) -> None:
    with pytest.raises(ArgumentError, match="schema"):
        tool(name="broken", schema=schema)(lambda values: values)
    with pytest.raises(ArgumentError, match="one parameter"):
        tool(name="broken", schema={})(lambda city, days: city)


def test_tools_keep_their_order() -> None:
    made = [tool(name=name)(lambda: "x") for name in ("b", "a", "c")]
    assert [spec.name for spec in Toolset(made).specs] == ["b", "a", "c"]


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ArgumentError, match="name of its own"):
        Toolset([weather, weather])


@pytest.mark.parametrize("name", ["", "two words", "ü", "x" * 65])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        Toolset([tool(name=name)(lambda: "x")])


def test_a_toolset_refuses_an_object_that_is_no_tool() -> None:
    with pytest.raises(ArgumentError, match="@tool"):
        Toolset([lambda: "x"])
