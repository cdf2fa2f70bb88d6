"""Meaning of filters, and values that are no filter.

Inner parts, on no face: ``tellback.vectorstore.filters``, ``tellback.vectorstore.json_values``.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.vectorstore import ArgumentError, Entry, FilterError, NumpyStore
from tellback.vectorstore.filters import (
    FILTER_NESTING_LIMIT,
    LEAF_OPERATORS,
    And,
    Condition,
    Not,
    Or,
    filter_fields,
    filter_tree,
    matches_filter,
)
from tellback.vectorstore.filters import condition_holds as leaf_holds
from tellback.vectorstore.json_values import json_equal
from tellback.vectorstore.testing import BAD_FILTERS, FILTER_CASES, FilterCase

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.parametrize("case", FILTER_CASES, ids=lambda case: case.name)
def test_each_filter_case_matches_exactly_its_metadata(case: FilterCase) -> None:
    assert [data for data in case.matching if not matches_filter(case.where, data)] == []
    assert [data for data in case.others if matches_filter(case.where, data)] == []


@pytest.mark.parametrize("case", FILTER_CASES, ids=lambda case: case.name)
def test_a_not_filter_matches_exactly_the_opposite(case: FilterCase) -> None:
    assert [data for data in case.matching if matches_filter({"$not": case.where}, data)] == []
    assert [data for data in case.others if not matches_filter({"$not": case.where}, data)] == []


def test_a_case_that_matches_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="needs metadata that match"):
        FilterCase("vacuous", {"a": 1}, (), ({"a": 2},))


def test_every_operator_has_a_case() -> None:
    asked = json.dumps([case.where for case in FILTER_CASES])
    assert [operator for operator in (*LEAF_OPERATORS, "$and", "$or", "$not") if f'"{operator}"' not in asked] == []


@pytest.mark.parametrize(("name", "where"), BAD_FILTERS, ids=[name for name, _ in BAD_FILTERS])
def test_an_invalid_filter_raises_filter_error(name: str, where: object) -> None:
    with pytest.raises(FilterError) as caught:
        filter_tree(where)  # type: ignore[arg-type]
    assert isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize(
    ("where", "place", "hint"),
    [
        ({"a": {"$near": 1}}, "where['a']['$near']", "unknown operator '$near'"),
        ({"$or": [{"a": 1}, {"$nor": []}]}, "where['$or'][1]['$nor']", "unknown operator '$nor'"),
        ({"a": {"$in": "x"}}, "where['a']['$in']", "takes a list"),
        ({"a": {"b": 1}}, "where['a']", "$eq"),
        ({"$gt": 3}, "where['$gt']", "below a field"),
    ],
)
def test_a_filter_error_names_the_place_and_gives_a_hint(where: dict[str, object], place: str, hint: str) -> None:
    with pytest.raises(FilterError) as caught:
        filter_tree(where)
    assert caught.value.argument == place
    assert hint in str(caught.value)


@pytest.mark.parametrize("where", [None, {}, {"$and": []}, {"$and": [{}, {"$and": [{}]}]}])
def test_a_filter_without_a_condition_is_parsed_to_an_empty_and(where: dict[str, object] | None) -> None:
    assert filter_tree(where) == And(())
    assert matches_filter(where, {"a": 1})


def test_filter_tree_parses_a_nested_filter_to_its_nodes() -> None:
    where = {"kind": "fact", "age": {"$gte": 1, "$not": {"$gt": 3}}, "$or": [{"x": 1}, {"y": None}]}
    assert filter_tree(where) == And(
        (
            Condition("kind", "$eq", "fact"),
            And((Condition("age", "$gte", 1), Not(Condition("age", "$gt", 3)))),
            Or((Condition("x", "$eq", 1), Condition("y", "$eq", None))),
        )
    )


def test_a_parsed_filter_does_not_follow_its_source() -> None:
    wanted, inner = ["x"], {"deep": [1]}
    where = {"a": {"$in": wanted}, "b": {"$eq": inner}}
    node = filter_tree(where)
    wanted.append("y")
    inner["deep"].append(2)
    where["c"] = 1
    assert matches_filter(node, {"a": "x", "b": {"deep": [1]}})
    assert not matches_filter(node, {"a": "y", "b": {"deep": [1]}})


def test_a_filter_tree_is_parsed_to_itself() -> None:
    node = filter_tree({"a": 1, "b": {"$gt": 2}})
    assert filter_tree(node) is node


def test_filter_fields_names_all_fields_of_a_filter() -> None:
    where = {"a": 1, "$or": [{"b": {"$gt": 1, "$lt": 2}}, {"$not": {"c.d": {"$exists": True}}}]}
    assert filter_fields(filter_tree(where)) == {"a", "b", "c.d"}
    assert filter_fields(filter_tree(None)) == frozenset()


def nested(depth: int, innermost: object) -> dict[str, object]:
    where: object = innermost
    for _ in range(depth):
        where = {"$not": where}
    return where  # type: ignore[return-value]


def test_filters_nest_to_their_limit() -> None:
    assert matches_filter(nested(FILTER_NESTING_LIMIT - 2, {"a": 1}), {"a": 1})
    filter_tree(nested(FILTER_NESTING_LIMIT - 1, {}))


@pytest.mark.parametrize("depth", [FILTER_NESTING_LIMIT, 1000, 100_000])
def test_deeper_filters_raise_and_do_not_exhaust_the_stack(depth: int) -> None:
    with pytest.raises(FilterError, match="levels deep"):
        filter_tree(nested(depth, {"a": 1}))


def test_a_filter_inside_itself_raises() -> None:
    where: dict[str, object] = {"a": 1}
    where["$not"] = where
    with pytest.raises(FilterError, match="levels deep"):
        filter_tree(where)


def test_operators_below_a_field_count_as_levels() -> None:
    operators: object = {"$gt": 1}
    for _ in range(1000):
        operators = {"$not": operators}
    with pytest.raises(FilterError, match="levels deep"):
        filter_tree({"a": operators})  # type: ignore[dict-item]


def test_values_nest_to_their_limit() -> None:
    value: list[object] = []
    for _ in range(99):
        value = [value]
    assert matches_filter({"a": value}, {"a": value})
    assert matches_filter({"a": {"$in": [value]}}, {"a": [value]})
    with pytest.raises(FilterError, match="levels deep"):
        filter_tree({"a": [value]})


def test_a_whole_number_too_long_to_write_raises() -> None:
    with pytest.raises(FilterError, match="digits"):
        filter_tree({"a": 10**5000})


def test_members_of_an_enumeration_are_their_plain_values() -> None:
    from enum import IntEnum, StrEnum

    class Kind(StrEnum):
        FACT = "fact"

    class Level(IntEnum):
        HIGH = 3

    node = filter_tree({"kind": Kind.FACT, "level": Level.HIGH})
    assert matches_filter(node, {"kind": "fact", "level": 3})
    assert [type(leaf.value) for leaf in node.nodes] == [str, int]  # type: ignore[union-attr]


def test_members_of_an_enumeration_are_stored_as_their_plain_values() -> None:
    from enum import Enum

    class Kind(str, Enum):  # noqa: UP042 (one whose str() is not its value)
        FACT = "facté"

    store = NumpyStore()
    store.upsert([Entry("e", text=Kind.FACT, metadata={"kind": Kind.FACT, Kind.FACT: [Kind.FACT]})])
    (entry,) = store.get(["e"])
    assert (entry.text, entry.metadata) == ("facté", {"kind": "facté", "facté": ["facté"]})


def test_condition_holds_distinguishes_a_missing_field_from_null() -> None:
    assert not leaf_holds("$eq", None, False, None)
    assert leaf_holds("$eq", None, True, None)
    assert not leaf_holds("$exists", True, False, None)
    assert not leaf_holds("$exists", True, True, None)


@pytest.mark.parametrize("operators", [{"$exists": False}, {"$ne": 1}, {"$nin": [1]}], ids=str)
def test_a_negated_operator_is_parsed_as_not_and_holds_for_a_missing_field(operators: dict) -> None:
    node = filter_tree({"a": operators})
    assert isinstance(node, Not)
    assert matches_filter(node, {})
    assert not matches_filter(node, {"a": 1})


def test_condition_holds_with_an_unknown_operator_raises_filter_error() -> None:
    with pytest.raises(FilterError, match=r"\$near"):
        leaf_holds("$near", 1, True, 1)


@given(values, values)
def test_json_equal_compares_values_together_with_their_json_types(left: object, right: object) -> None:
    assert json_equal(left, right) == (tagged(left) == tagged(right))


@given(values)
def test_a_filter_value_equals_its_copy_and_serializes_alike(value: object) -> None:
    node = filter_tree({"a": {"$eq": value}})
    assert isinstance(node, Condition)
    assert json_equal(node.value, value)
    assert json.dumps(node.value) == json.dumps(value)
    assert matches_filter(node, {"a": value})


@given(st.lists(values, max_size=3), values)
def test_an_in_filter_matches_by_equality_with_any_of_its_values(wanted: list[object], held: object) -> None:
    candidates = held if isinstance(held, list) else [held]
    expected = any(
        matches_filter({"a": {"$eq": item}}, {"a": candidate}) for item in wanted for candidate in candidates
    )
    assert matches_filter({"a": {"$in": wanted}}, {"a": held}) == expected
    assert matches_filter({"a": {"$nin": wanted}}, {"a": held}) != expected


def tagged(value: object) -> object:
    """The value with its kind in plain sight, so that Python's own equality tells true from 1."""
    if isinstance(value, bool) or value is None:
        return ("word", repr(value))
    if isinstance(value, (int, float)):
        return ("number", value)
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, list):
        return ("list", [tagged(inner) for inner in value])
    assert isinstance(value, dict)
    return ("object", {name: tagged(inner) for name, inner in value.items()})
