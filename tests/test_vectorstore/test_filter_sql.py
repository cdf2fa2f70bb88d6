"""A filter means the same in SQL as in ``filters.matches``, for every kind of value, name and filter.

Inner parts, on no face: ``tellback.vectorstore.filters``, ``tellback.vectorstore.sqlite``,
``tellback.vectorstore.sqlite.filter_sql``, ``tellback.vectorstore.sqlite.dialect``.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.vectorstore import Connection
from tellback.vectorstore.filters import LEAF_OPERATORS, filter_tree, matches_filter
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.filter_sql import (
    SQL_NODES_LIMIT,
    SQL_VALUES_LIMIT,
    filter_to_sql,
    register_filter_function,
)
from tests.support.homes import SERVER_HOME
from tests.support.slow import first_fast

FIELDS = [
    "a",
    "b",
    "",
    "a.b",
    "a.é.b",
    'q"uote',
    "it's",
    "[0]",
    "$x",
    "#",
    "Ä",
    "a\\b",
    "\n",
    "日本",
    "\U0001f600",
    "A",
]
EDGES = [0, -0.0, 1, 1.0, -1, 0.1, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 2**63, 2**63 + 1, -(2**63)]
EDGES += [
    -(2**63) - 1,
    float(2**63),
    2**64,
    10**30,
    1e30,
    10**400,
    -(10**400),
    5e-324,
    1.7976931348623157e308,
]
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "a\0b",
    "a\0",
    "'",
    '"',
    "%",
    "_",
    "é",
    "e\u0301",
    "\U0001f600",
    "\uffff",
]
TEXTS += ["null", "true", "1", "1.0", "[]", "{}", "\\u0041", "\n"]

numbers = st.sampled_from(EDGES) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=2),
    max_leaves=5,
)
fields = st.sampled_from(FIELDS)
metadatas = st.dictionaries(fields | st.just("n\0ul"), values, max_size=4)
askable = fields.filter(lambda name: not name.startswith("$"))


@pytest.fixture(scope="module", params=["sqlite", SERVER_HOME])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    columns = "(key INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, metadata TEXT NOT NULL) STRICT"
    if request.param == "sqlite":
        file = SqliteConnection(":memory:")
        register_filter_function(file)
        file.execute(f"CREATE TABLE entries {columns}")
        yield file
        file.close()
        return
    server = request.getfixturevalue("postgres")
    from tellback.vectorstore.postgres import PostgresDatabase

    with PostgresDatabase(server.address("filters")) as database, database.write() as connection:
        connection.execute(f"CREATE TABLE entries {columns}")
        yield connection


def in_sql(connection: Connection, where: object, metadata: object) -> object:
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, allow_nan=False)
    connection.execute("DELETE FROM entries")
    connection.execute("INSERT INTO entries (key, namespace, metadata) VALUES (1, 7, ?)", (text,))
    condition, bound = connection.dialect.condition(connection, 7, filter_tree(where))
    ((holds,),) = connection.execute(f"SELECT {condition} FROM entries AS e", bound)
    return int(holds)


def leaf(known: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    wanted = {
        "$eq": known,
        "$ne": known,
        "$contains": known,
        "$exists": st.booleans(),
        "$in": st.lists(known, max_size=3)
        | st.lists(known, min_size=SQL_VALUES_LIMIT + 1, max_size=SQL_VALUES_LIMIT + 3),
        "$nin": st.lists(known, max_size=3),
    }
    ordered = known.filter(lambda value: isinstance(value, (int, float, str)) and not isinstance(value, bool))
    return st.sampled_from(LEAF_OPERATORS).flatmap(
        lambda operator: st.builds(lambda value: {operator: value}, wanted.get(operator, ordered | numbers))
    )


def tree(known: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    below_a_field = st.builds(lambda field, operators: {field: operators}, askable, leaf(known))
    return st.recursive(
        below_a_field,
        lambda inner: st.one_of(
            st.builds(lambda nodes: {"$and": nodes}, st.lists(inner, max_size=3)),
            st.builds(lambda nodes: {"$or": nodes}, st.lists(inner, max_size=3)),
            st.builds(lambda node: {"$not": node}, inner),
            st.builds(lambda field, operators: {field: {"$not": operators}}, askable, leaf(known)),
        ),
        max_leaves=4,
    )


@pytest.mark.slow
@given(data=st.data(), metadata=metadatas)
def test_a_random_filter_means_the_same_in_sql(
    connection: Connection, data: st.DataObject, metadata: dict[str, object]
) -> None:
    items = [value for held in metadata.values() for value in (held if isinstance(held, list) else [held])]
    known = st.sampled_from([*items, *metadata.values()]) | values if metadata else values
    where = data.draw(tree(known))
    assert in_sql(connection, where, metadata) == int(matches_filter(where, metadata))


@pytest.mark.slow
@given(held=values, operator=st.sampled_from(LEAF_OPERATORS), field=askable, data=st.data())
def test_a_random_leaf_means_the_same_in_sql(
    connection: Connection, held: object, operator: str, field: str, data: st.DataObject
) -> None:
    near = st.just(held) | st.sampled_from(held if isinstance(held, list) and held else [held]) | scalars
    where = {field: data.draw(leaf(near))}
    assert in_sql(connection, where, {field: held}) == int(matches_filter(where, {field: held}))


@pytest.mark.slow
def test_all_pairs_of_edge_numbers_compare_exactly(connection: Connection) -> None:
    wrong = []
    for held in EDGES:
        for wanted in EDGES:
            for operator in ("$eq", "$gt", "$gte", "$lt", "$lte"):
                where = {"a": {operator: wanted}}
                if in_sql(connection, where, {"a": held}) != int(matches_filter(where, {"a": held})):
                    wrong.append((held, operator, wanted))
    assert not wrong


@pytest.mark.slow
def test_all_pairs_of_edge_texts_compare_exactly(connection: Connection) -> None:
    wrong = []
    for held in TEXTS:
        for wanted in TEXTS:
            for operator in ("$eq", "$gt", "$lte", "$contains"):
                where = {"a": {operator: wanted}}
                if in_sql(connection, where, {"a": held}) != int(matches_filter(where, {"a": held})):
                    wrong.append((held, operator, wanted))
    assert not wrong


@pytest.mark.parametrize("field", [name for name in FIELDS if not name.startswith("$")])
def test_a_field_of_any_name_is_found_by_its_name_alone(connection: Connection, field: str) -> None:
    others = {name: 0 for name in FIELDS if name != field}
    assert in_sql(connection, {field: 1}, {**others, field: 1}) == 1
    assert in_sql(connection, {field: {"$exists": True}}, others) == 0


@pytest.mark.parametrize("count", first_fast([SQL_VALUES_LIMIT + 1, SQL_VALUES_LIMIT, 40_000]))
def test_an_sql_filter_matches_against_long_lists_of_values(connection: Connection, count: int) -> None:
    wanted = [*range(count), *(f"t{i}" for i in range(count)), 0.5]
    assert in_sql(connection, {"a": {"$in": wanted}}, {"a": count - 1}) == 1
    assert in_sql(connection, {"a": {"$in": wanted}}, {"a": f"t{count - 1}"}) == 1
    assert in_sql(connection, {"a": {"$in": wanted}}, {"a": [True, 0.5]}) == 1
    assert in_sql(connection, {"a": {"$in": wanted}}, {"a": count}) == 0


@pytest.mark.parametrize("branch", ["$and", "$or"])
@pytest.mark.parametrize("count", first_fast([SQL_NODES_LIMIT, SQL_NODES_LIMIT - 1, 5000]))
def test_a_filter_of_many_parts_is_no_error(connection: Connection, branch: str, count: int) -> None:
    where = {branch: [{"a": {"$ne" if branch == "$and" else "$eq": i}} for i in range(count)]}
    assert in_sql(connection, where, {"a": count}) == int(branch == "$and")
    assert in_sql(connection, where, {"a": count - 1}) == int(branch == "$or")


def test_the_deepest_filter_is_no_error(connection: Connection) -> None:
    where: dict[str, object] = {"a": 1}
    for _ in range(98):
        where = {"$not": where}
    assert in_sql(connection, where, {"a": 1}) == 1
    assert in_sql(connection, {"$not": where}, {"a": 1}) == 0


def test_a_filter_value_never_becomes_part_of_the_sql_text() -> None:
    nasty = "x' OR 1=1 --"
    where = {
        nasty: {"$in": [nasty]},
        "$or": [{"b": {"$contains": nasty}}, {"c": {"$gt": nasty}}, {"d": [nasty]}],
    }
    condition, bound = filter_to_sql(filter_tree(where))
    assert nasty not in condition
    assert condition.count("?") == len(bound)


@pytest.mark.parametrize("connection", ["sqlite"], indirect=True)
def test_an_sql_filter_condition_combines_with_other_conditions_and_names_its_column(
    connection: Connection,
) -> None:
    condition, bound = filter_to_sql(filter_tree({"$or": [{"a": 1}, {"a": 2}]}), column="t.notes")
    connection.execute("CREATE TEMP TABLE t (key INTEGER, notes TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, json.dumps({"a": i})) for i in range(4)])
    found = connection.execute(f"SELECT key FROM t WHERE key > 1 AND {condition} OR key = 0", bound).fetchall()
    assert found == [(0,), (2,)]
