"""The store on Qdrant keeps the contract of the data, in the local mode of its client.

Inner parts, on no face: ``tellback.vectorstore.engines.qdrant_filter``, ``tellback.vectorstore.engines.qdrant_store``,
``tellback.vectorstore.filters``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("qdrant_client")

from qdrant_client import models

from tellback.memory import ArgumentError as MemoryArgumentError
from tellback.memory import HashingEmbedder, LongTermMemory, open_memory, run_sync
from tellback.vectorstore import ArgumentError, Entry, ServerUnavailable, Space, SpaceMismatch, open_store
from tellback.vectorstore.engines.qdrant_filter import qdrant_condition
from tellback.vectorstore.engines.qdrant_store import QdrantStore
from tellback.vectorstore.filters import filter_tree
from tellback.vectorstore.sqlite import InMemoryDatabase
from tellback.vectorstore.testing import FilterContract, VectorStoreContract


@pytest.mark.slow  # minutes: the client's local mode reads every payload for each filter
class TestQdrantStore(VectorStoreContract, FilterContract):
    lacks: ClassVar[Mapping[str, str]] = {}

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> QdrantStore:
        return QdrantStore("qdrant:", space=space)


def test_a_collection_in_a_folder_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    space = Space("toy", 3)
    store = open_store(f"qdrant:///{tmp_path / 'points'}", space=space)
    store.upsert([Entry("a", [3, 4, 0], "zorb", metadata={"n": 1}), Entry("b", text="quil")], namespace="x")
    store.patch({"a": {"n": 2}}, namespace="x")
    before = list(store.scan(namespace="x"))
    store.close()
    again = open_store(f"qdrant:///{tmp_path / 'points'}")
    assert (again.space, again.namespaces(), list(again.scan(namespace="x"))) == (space, ["x"], before)
    again.upsert([Entry("c")], namespace="x")
    assert max(entry.revision for entry in again.scan(namespace="x")) == 4
    again.close()
    with pytest.raises(SpaceMismatch):
        open_store(f"qdrant:///{tmp_path / 'points'}", space=Space("other", 3))


def test_a_filter_narrows_what_qdrant_reads_and_never_hides_a_match() -> None:
    narrowed = filter_tree(
        {"$and": [{"shelf": {"$in": [1, 2]}}, {"$not": {"shelf": 2}}, {"$or": [{"a": "x"}, {"b": 1}]}]}
    )
    condition = qdrant_condition(narrowed)
    assert isinstance(condition, models.Filter)
    assert len(condition.must or []) == 2  # the negation is left to us
    for where in ({"a.b": 1}, {"$not": {"a": 1}}, {"n": 2**60}, {"$or": [{"a": 1}, {"b": {"$exists": True}}]}):
        assert qdrant_condition(filter_tree(where)) is None


def test_a_server_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ServerUnavailable, match="qdrant"):
        open_store("qdrant://127.0.0.1:1/points")


@pytest.mark.parametrize(
    ("url", "options"),
    [("qdrant://user:key@host/points", {}), ("qdrant:", {"fields": ("n",)}), ("qdrant:", {"matrix_limit": 1})],
)
def test_what_qdrant_does_not_take_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        open_store(url, **options)


def test_a_memory_lives_on_qdrant_beside_a_database() -> None:
    with pytest.raises(MemoryArgumentError, match="data alone"):
        open_memory("qdrant:")
    embedder = HashingEmbedder(dimension=64)
    store = open_store("qdrant:", space=Space(embedder.fingerprint, 64))
    memory = LongTermMemory(store, embedder=embedder, database=InMemoryDatabase())
    run_sync(memory.remember_many(["The ferry leaves at nine.", "The dentist is Doctor Weber."]))
    assert run_sync(memory.recall("When does the ferry leave?"))[0].memory.text == "The ferry leaves at nine."
    run_sync(memory.close())
