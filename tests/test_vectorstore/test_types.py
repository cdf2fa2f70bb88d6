"""Values of the store: an entry's vector in whatever form it is given."""

from __future__ import annotations

import copy
import dataclasses
import inspect

import numpy as np
import pytest

from tellback.vectorstore import ArgumentError, Entry, Space, SqliteStore, open_store
from tellback.vectorstore.value_class import dataclass


@pytest.mark.parametrize(
    "options", [{}, {"frozen": True, "slots": True}, {"slots": True}, {"kw_only": True}, {"eq": False}]
)
def test_a_value_class_equals_a_dataclass_of_the_standard_library(options):
    def make(decorator):
        class Point:
            """Point of a plane."""

            x: int
            y: int = 2
            notes: list[str] = dataclasses.field(default_factory=list, compare=False)
            length: int = dataclasses.field(init=False, default=0, repr=False)

            def __post_init__(self):
                object.__setattr__(self, "length", self.x + self.y)

        return decorator(**options)(Point)

    ours, theirs = make(dataclass), make(dataclasses.dataclass)
    for value, standard in [(ours(x=1), theirs(x=1)), (ours(x=1, y=5, notes=["a"]), theirs(x=1, y=5, notes=["a"]))]:
        assert repr(value) == repr(standard)
        assert dataclasses.asdict(value) == dataclasses.asdict(standard)
        assert dataclasses.asdict(dataclasses.replace(value, x=7)) == dataclasses.asdict(
            dataclasses.replace(standard, x=7)
        )
        assert dataclasses.asdict(copy.deepcopy(value)) == dataclasses.asdict(value)
        assert (value == copy.copy(value)) == (standard == copy.copy(standard))
    assert [field.name for field in dataclasses.fields(ours)] == [field.name for field in dataclasses.fields(theirs)]
    assert str(inspect.signature(ours)).count(",") == str(inspect.signature(theirs)).count(",")
    for made in (ours, theirs):
        with pytest.raises(TypeError):
            made()
        assert made(x=1) != 1
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert ours.__match_args__ == theirs.__match_args__
    if options.get("frozen"):
        assert hash(ours(x=1)) == hash(theirs(x=1))
        with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
            ours(x=1).x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
            del ours(x=1).x


@pytest.mark.parametrize(
    "vector",
    [
        [1, 0.5],
        (1.0, 0.5),
        np.array([1, 0.5], np.float16),
        np.array([1, 0.5], np.float32),
        np.array([1, 0.5], np.float64),
        np.array([1, 0, 0.5, 0])[::2],
    ],
)
def test_an_entry_keeps_any_vector_as_float32(vector):
    entry = Entry("a", vector)
    assert entry.vector.dtype == np.float32
    assert entry == Entry("a", np.array([1, 0.5], np.float32))
    store = open_store("numpy:", space=Space("toy", 2))
    store.upsert([entry])
    assert store.get(["a"]) == [Entry("a", [1, 0.5], revision=1)]


@pytest.mark.parametrize(
    "vector", ["ab", [1, "b"], [1, [2]], [[1, 2]], [1, float("nan")], [1e300, 1], [True, False], 7]
)
def test_an_invalid_vector_is_refused_by_the_store_and_not_by_the_entry(vector):
    store = open_store("numpy:", space=Space("toy", 2))
    with pytest.raises(ArgumentError, match="vector"):
        store.upsert([Entry("a", vector)])
    assert store.count() == 0


def test_open_store_returns_the_engine_named_by_the_url(tmp_path):
    assert type(open_store("numpy:")).__name__ == "NumpyStore"
    with open_store(f"sqlite:///{tmp_path}/m.db", matrix_limit=0).database as database:
        assert database.path == tmp_path / "m.db"
    assert isinstance(open_store(f"sqlite:///{tmp_path}/m.db"), SqliteStore)
