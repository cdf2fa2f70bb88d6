"""The contract of store wrappers as a memory sees them: a memory over the wrapped store equals one over the store.

    class TestMyWrapper(WrappedMemoryContract):
        def make_store(self, path):
            return open_store(f"sqlite:///{path / 'memory.db'}")

        def wrap(self, store):
            return MyWrapper(store)

``tellback.vectorstore.testing.WrapperContract`` has the part that needs no memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tellback.memory.embedders.hashing import HashingEmbedder
from tellback.memory.history.database import DatabaseHistory
from tellback.memory.history.rows import HistoryRows
from tellback.memory.long_term import LongTermMemory
from tellback.memory.messages import Message
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.runtime import run_sync
from tellback.vectorstore import VectorStore, lifecycle_of

_LANE = store_namespace("", CONVERSATION)
_QUESTIONS = ("Where does Ana live?", "What does she play?", "Who likes green tea?", "the price of zinc")


class WrappedMemoryContract(ABC):
    """Contract of a wrapper below a memory; if it *persists*, ``make_store`` opens a closed store again."""

    persists: ClassVar[bool] = False

    @abstractmethod
    def make_store(self, path: Path) -> VectorStore:
        """Return the store in the folder *path*, new or as it was closed."""

    @abstractmethod
    def wrap(self, store: VectorStore) -> VectorStore:
        """Return the wrapper around *store*."""

    def test_a_memory_over_the_wrapped_store_equals_a_memory_over_the_store(self, tmp_path: Path) -> None:
        plain, wrapped = self._pair(tmp_path)
        assert _lived(plain) == _lived(wrapped)
        assert _state(plain) == _state(wrapped)
        _close(plain, wrapped)

    def test_its_parts_are_kept_where_they_are_kept_without_the_wrapper(self, tmp_path: Path) -> None:
        plain, wrapped = self._pair(tmp_path)
        assert type(wrapped.database) is type(plain.database)
        assert type(_rows(wrapped).database) is type(_rows(plain).database)
        assert type(wrapped.index_cache) is type(plain.index_cache)
        assert (lifecycle_of(plain.store) is None) == (lifecycle_of(wrapped.store) is None)
        for memory in (plain, wrapped):
            lifecycle = lifecycle_of(memory.store)
            assert lifecycle is None or memory.database is lifecycle.database is _rows(memory).database
        _close(plain, wrapped)

    def test_a_memory_written_through_the_wrapper_reads_the_same_without_it(self, tmp_path: Path) -> None:
        if not self.persists:
            pytest.skip("does not persist")
        plain, wrapped = self._pair(tmp_path)
        assert _lived(plain) == _lived(wrapped)
        before = _state(plain)
        _close(plain, wrapped)
        reopened = [_memory(self.make_store(tmp_path / name)) for name in ("plain", "wrapped")]
        after = _state(reopened[0])
        assert after == _state(reopened[1])
        for part in ("history", "operations", "tombstones"):
            assert after[part] == before[part] != []
        _close(*reopened)

    def test_a_failure_leaves_neither_history_nor_memories(self, tmp_path: Path) -> None:
        for memory in self._pair(tmp_path):
            lasting = lifecycle_of(memory.store)
            if lasting is not None and lasting.database is not None:
                with pytest.raises(_Halt), lasting.transaction():  # noqa: PT012 - the block fails at its end
                    memory.store.delete(["none"], namespace=_LANE)
                    _rows(memory).append("s", [Message.user("lost")], namespace="")
                    raise _Halt
                assert list(_rows(memory).kept(namespace="")) == []
            _close(memory)

    def _pair(self, path: Path) -> tuple[LongTermMemory, LongTermMemory]:
        for name in ("plain", "wrapped"):
            (path / name).mkdir()
        return _memory(self.make_store(path / "plain")), _memory(self.wrap(self.make_store(path / "wrapped")))


class _Halt(Exception):
    pass


def _memory(store: VectorStore) -> LongTermMemory:
    start, steps = datetime(2026, 1, 1, tzinfo=UTC), count()
    return LongTermMemory(
        store,
        embedder=HashingEmbedder(dimension=64),
        clock=lambda: start + timedelta(seconds=next(steps)),
        ids=_numbered("m"),
        operation_ids=_numbered("o"),
    )


def _numbered(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers):03}"


def _lived(memory: LongTermMemory) -> list[Any]:
    """Call every writing method; return the reports."""
    turn = [Message.user("Ana lives in Porto and plays the cello."), Message.assistant("Porto is by the Douro.")]
    done: list[Any] = [
        run_sync(memory.remember_turn("s", turn)),
        run_sync(memory.remember("Ana likes green tea.")),
        run_sync(memory.remember_many(["Ben bakes rye bread.", "The code of the gate is 4417."])),
    ]
    tea, code = done[1].id, done[2][1].id
    done += [run_sync(memory.correct(tea, "Ana likes black tea.")), run_sync(memory.tag(tea, ["drinks"]))]
    receipt = run_sync(memory.forget([code]))
    done.append((receipt.memories, receipt.versions, receipt.derived, receipt.messages, receipt.operation))
    return done


def _state(memory: LongTermMemory) -> dict[str, Any]:
    """Return the answers of every reading call of the memory."""
    rows = list(_rows(memory).kept(namespace=""))
    found = [run_sync(memory.recall(question, explain=True)) for question in _QUESTIONS]
    return {
        "memories": [(listed.id, listed.text, listed.tags) for listed in run_sync(memory.list())],
        "history": [(row.session, row.sequence, row.message.text) for row in rows],
        "operations": [
            (operation.id, operation.kind, operation.at, operation.changes)
            for operation in run_sync(memory.operations())
        ],
        "tombstones": memory.tombstones.ids(_LANE),
        "forgotten words": memory.tombstones.words_at("", "The code of the gate is 4417."),
        "notes": [result.notes for result in found],
        "hits": [[(hit.memory.id, hit.score, hit.parts) for hit in result] for result in found],
        "trust": [(result.confidence, result.abstain, result.searched) for result in found],
    }


def _rows(memory: LongTermMemory) -> HistoryRows:
    assert isinstance(memory.conversations, DatabaseHistory)
    return memory.conversations.rows


def _close(*memories: LongTermMemory) -> None:
    for memory in memories:
        run_sync(memory.close())
