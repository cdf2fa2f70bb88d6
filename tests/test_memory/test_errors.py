"""Errors of a memory: one tree, whatever of the store raised them, and each still the class that the store raised."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tellback import agent, memory, vectorstore
from tellback.memory import (
    DatabaseHistory,
    KnowledgeBase,
    LongTermMemory,
    MemoryLayerError,
    ShortTermMemory,
    open_memory,
    run_sync,
)
from tellback.vectorstore import open_store
from tellback.vectorstore.sqlite import SqliteDatabase

BAD = {"a": {"$bad": 1}}


def test_argument_errors_of_upper_packages_derive_from_those_of_lower_packages() -> None:
    assert issubclass(agent.ArgumentError, memory.ArgumentError)
    assert issubclass(memory.ArgumentError, vectorstore.ArgumentError)
    assert issubclass(vectorstore.ArgumentError, ValueError)
    with pytest.raises(vectorstore.ArgumentError) as caught:
        raise agent.ArgumentError("k", -1, "a number is needed")
    assert (caught.value.argument, caught.value.value, caught.value.expected) == ("k", -1, "a number is needed")
    assert str(caught.value) == "k: a number is needed, got -1"


CALLS: dict[str, Callable[[LongTermMemory], Awaitable[object]]] = {
    "recall": lambda memory: memory.recall("x", where=BAD),
    "why_not": lambda memory: memory.why_not("x", "first", where=BAD),
    "list": lambda memory: memory.list(where=BAD),
    "count": lambda memory: memory.count(where=BAD),
    "stats": lambda memory: memory.stats(where=BAD),
    "forget": lambda memory: memory.forget(where=BAD),
    "retrieve": lambda memory: KnowledgeBase(memory).retrieve("x", where=BAD),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_invalid_filter_raises_a_filter_error_of_the_memory_and_of_the_store(call: str) -> None:
    kept = LongTermMemory(open_store("numpy:"), ids=lambda: "first")
    run_sync(kept.remember("x"))
    with pytest.raises(memory.FilterError) as caught:
        run_sync(CALLS[call](kept))
    assert isinstance(caught.value, MemoryLayerError)
    assert isinstance(caught.value, memory.ArgumentError)
    assert isinstance(caught.value, vectorstore.FilterError)
    assert type(caught.value.__cause__) is vectorstore.FilterError
    assert str(caught.value) == str(caught.value.__cause__)
    assert caught.value.value == caught.value.__cause__.value


def test_a_closed_memory_raises_store_closed_and_a_memory_layer_error() -> None:
    kept = LongTermMemory(open_store("numpy:"))
    run_sync(kept.close())
    for caught in (vectorstore.StoreClosed, memory.StoreError, MemoryLayerError):
        with pytest.raises(caught, match="closed"):
            run_sync(kept.remember("late"))


def test_an_error_of_the_store_raised_by_a_memory_keeps_its_attributes(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"no database at all, but some bytes of something else" * 100)
    with pytest.raises(memory.StoreError) as caught:
        open_memory(tmp_path / "other.db")
    assert isinstance(caught.value, vectorstore.NotAStore)
    assert caught.value.path == str(tmp_path / "other.db")


def test_a_correction_on_a_store_of_data_alone_raises_an_unsupported_error_of_the_memory() -> None:
    from tellback.vectorstore.testing import ModelStore

    kept = LongTermMemory(ModelStore())
    with pytest.raises(vectorstore.UnsupportedError) as caught:
        run_sync(kept.correct("x", "y"))
    assert isinstance(caught.value, memory.StoreError)
    assert caught.value.operation == "correct"


def test_a_window_of_a_closed_history_database_raises_a_store_error_of_the_memory(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "said.db")
    short = ShortTermMemory(DatabaseHistory(database), session="s")
    database.close()
    with pytest.raises(memory.StoreError) as caught:
        asyncio.run(short.window())
    assert isinstance(caught.value, vectorstore.StoreClosed)
