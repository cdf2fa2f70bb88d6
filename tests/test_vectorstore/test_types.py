"""Values of the store: an entry's vector in whatever form it is given."""

from __future__ import annotations

import numpy as np
import pytest

from tellback.vectorstore import ArgumentError, Entry, Space, SqliteStore, open_store


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
