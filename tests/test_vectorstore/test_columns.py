"""Columns of declared metadata fields: filters answered by arrays as by the plain test of each entry.

Inner parts, on no face: ``tellback.vectorstore.filters``, ``tellback.vectorstore.index.columns``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellback.vectorstore.filters import filter_tree, matches_filter
from tellback.vectorstore.index.columns import MetadataColumns

BIG = 2**53
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.0, 0.5, -0.0, BIG, BIG + 1, float(BIG), 10**400, -(10**400), 1e308),
    *("", "a", "A", "b", "ab", "1", "True", "None", "z\U0001f600", "\uffff", "10"),
    *([], [1], [1.0], [True], ["a", 1], [[1]], [None], {}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": [1]}),
]
values = st.sampled_from(VALUES) | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab", max_size=3)
objects = values.map(lambda value: {"y": value})
entries = st.dictionaries(st.sampled_from(["x", "y", "x.y", "other"]), values | objects, max_size=3)
leaf = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$contains"]), values),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(values, max_size=7)),
    st.tuples(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
        values.filter(lambda v: isinstance(v, (int, float, str)) and not isinstance(v, bool)),
    ),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: dict([pair]))
tests = st.tuples(st.sampled_from(["x", "y", "x.y"]), leaf).map(lambda pair: dict([pair]))
filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda nodes: {"$and": nodes}),
        st.lists(inner, max_size=3).map(lambda nodes: {"$or": nodes}),
        inner.map(lambda node: {"$not": node}),
    ),
    max_leaves=4,
)


def columns_of(metadata: list[dict[str, Any]]) -> MetadataColumns:
    columns = MetadataColumns(("x", "y", "x.y"))
    columns.load(metadata)
    return columns


@given(st.lists(entries, max_size=30), filters)
@example([{"x": BIG}, {"x": BIG + 1}, {"x": float(BIG)}], {"x": {"$gt": BIG}})
@example([{"x": 10**400}, {"x": 1e308}], {"x": {"$lt": 10**400}})
@example([{"x": {"y": 1}}, {}, {"x.y": 2, "x": {"y": 1}}, {"x": [{"y": 1}]}], {"x.y": {"$eq": 1}})
@example([{"x": True}, {"x": 1}, {"x": 1.0}], {"x": {"$in": [1]}})
def test_a_mask_of_metadata_columns_equals_matches_filter(
    metadata: list[dict[str, Any]], where: dict[str, Any]
) -> None:
    mask = columns_of(metadata).mask(filter_tree(where), len(metadata))
    assert mask is not None
    assert mask.tolist() == [matches_filter(where, item) for item in metadata]


@pytest.mark.parametrize("operator", ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"])
@pytest.mark.parametrize("wanted", ["", "a", "b", "\uffff", "\U0001f600", 1, 1.0, BIG, BIG + 1, 10**400])
def test_metadata_columns_compare_every_value_with_every_bound_like_matches_filter(operator: str, wanted: Any) -> None:
    metadata = [{"x": value} for value in VALUES] + [{}]
    where = {"x": {operator: wanted}}
    mask = columns_of(metadata).mask(filter_tree(where), len(metadata))
    assert mask is not None
    assert mask.tolist() == [matches_filter(where, item) for item in metadata]


def test_metadata_columns_give_no_mask_for_an_undeclared_field() -> None:
    columns = columns_of([{"z": 1}])
    assert columns.mask(filter_tree({"z": 1}), 1) is None
    assert columns.mask(filter_tree({"$or": [{"x": 1}, {"z": 1}]}), 1) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_metadata_columns_stay_correct_under_added_changed_and_deleted_rows(seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    held: list[dict[str, Any]] = []
    columns = columns_of([])

    def fields(step: int) -> dict[str, Any]:
        drawn: dict[str, Any] = {"x": f"t{step:05}", "y": chance.choice(VALUES), "z": 1}
        return {name: value for name, value in drawn.items() if chance.random() < 0.9}

    for step in range(3000):
        action = chance.random()
        if not held or (action < 0.4 and len(held) < 150):
            held.append(fields(step))
            columns.append(held[-1])
        elif action < 0.8:
            row = chance.randrange(len(held))
            held[row] = fields(step)
            columns.put(row, held[row])
        else:
            row = chance.randrange(len(held))
            columns.swap_delete(row)
            held[row] = held[-1]
            held.pop()
        if step % 20 == 0:
            bound = f"t{chance.randrange(3000):05}"
            for where in ({"x": {"$gte": bound}}, {"x": {"$lt": bound}}, {"y": chance.choice(VALUES[:26])}):
                mask = columns.mask(filter_tree(where), len(held))
                assert mask is not None
                assert mask.tolist() == [matches_filter(where, item) for item in held]


def test_metadata_columns_drop_values_without_rows() -> None:
    columns = columns_of([{"x": -1}])
    for step in range(5000):
        columns.put(0, {"x": step})
    assert len(columns._columns["x"]._values) < 2000
    mask = columns.mask(filter_tree({"x": 4999}), 1)
    assert mask is not None
    assert mask.tolist() == [True]
