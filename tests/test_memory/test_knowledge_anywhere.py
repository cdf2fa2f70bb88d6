"""Documents in a store without transactions: records in a database beside it, and kills between any two writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import ArgumentError, HashingEmbedder, KnowledgeBase, LongTermMemory, run_sync
from tellback.vectorstore import Space, VectorStore, open_store
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.data_only_store import DataOnlyStore

ROOT = Path(__file__).parents[2]
KILLED = 9
FIRST = "# Ferry\n\nThe ferry leaves at nine from the old harbour.\n\n# Museum\n\nThe museum closes at six each day.\n"
SECOND = FIRST.replace("at nine", "at ten") + "\n# Library\n\nThe library lends three books at a time to visitors.\n"


class KilledStore(DataOnlyStore):
    """A store that kills its process at its write number *at*: before it, or with *after* when it was done."""

    def __init__(self, store: VectorStore, at: int, *, after: bool) -> None:
        super().__init__(store)
        self._left, self._after = at, after

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name not in ("upsert", "patch", "put_vectors", "delete"):
            return method

        def write(*values: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                os._exit(KILLED)
            answer = method(*values, **options)
            if self._left == 0:
                os._exit(KILLED)
            return answer

        return write


def opened(folder: Path, *, at: int = 0, after: bool = False) -> LongTermMemory:
    """Open a memory whose chunks are in one file and all else in another."""
    embedder = HashingEmbedder(dimension=64)
    store = open_store(f"sqlite:///{folder / 'chunks.db'}", space=Space(embedder.fingerprint, 64))
    beside = SqliteDatabase(folder / "beside.db")
    return LongTermMemory(KilledStore(store, at, after=after), embedder=embedder, database=beside)


def chunks(memory: LongTermMemory, knowledge: KnowledgeBase) -> tuple[set[str], set[str]]:
    """Return the ids that the records name, and those that the store has."""
    (partition,) = memory.store.namespaces() or [""]
    stored = {entry.id for entry in memory.store.scan(namespace=partition)}
    named = {p.id for info in run_sync(knowledge.documents()) for p in run_sync(knowledge.passages(info.source))}
    return named, stored


def in_killed_process(folder: Path, work: str, at: int, *, after: bool) -> int:
    """Do *work* in a process of its own that is killed at a write; return its exit code."""
    program = (
        "import sys; from pathlib import Path\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
        "from test_knowledge_anywhere import *\n"
        f"memory = opened(Path({str(folder)!r}), at={at}, after={after})\n"
        f"run_sync(KnowledgeBase(memory).{work})\n"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=folder, timeout=600, check=False).returncode


def test_documents_are_ingested_found_changed_and_removed_without_transactions(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    knowledge = KnowledgeBase(memory)
    run_sync(knowledge.ingest_text(FIRST, source="guide.md"))
    assert "at nine" in run_sync(knowledge.retrieve("When does the ferry leave?"))[0].text
    report = run_sync(knowledge.ingest_text(SECOND, source="guide.md"))
    assert report.lines[0].action == "updated"
    assert "at ten" in run_sync(knowledge.retrieve("When does the ferry leave?"))[0].text
    named, stored = chunks(memory, knowledge)
    assert named == stored
    assert run_sync(knowledge.ingest_text(SECOND, source="guide.md")).lines[0].action == "unchanged"
    assert run_sync(knowledge.remove("guide.md")) == len(stored)
    assert chunks(memory, knowledge) == (set(), set())
    run_sync(memory.close())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_an_ingest_that_is_killed_is_taken_back_at_the_next_opening_and_done_again(
    tmp_path: Path, at: int, *, after: bool
) -> None:
    memory = opened(tmp_path)
    run_sync(KnowledgeBase(memory).ingest_text(FIRST, source="guide.md"))
    run_sync(memory.close())
    assert in_killed_process(tmp_path, "ingest_text(SECOND, source='guide.md')", at, after=after) == KILLED
    memory = opened(tmp_path)
    knowledge = KnowledgeBase(memory)
    named, stored = chunks(memory, knowledge)
    assert stored == named  # nothing that no record names
    run_sync(knowledge.ingest_text(SECOND, source="guide.md"))
    assert "".join(passage.text for passage in run_sync(knowledge.passages("guide.md"))).count("at ten") == 1
    assert "at ten" in run_sync(knowledge.retrieve("When does the ferry leave?"))[0].text
    named, stored = chunks(memory, knowledge)
    assert named == stored
    run_sync(memory.close())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_removal_that_is_killed_is_completed_at_the_next_opening(tmp_path: Path, *, after: bool) -> None:
    memory = opened(tmp_path)
    run_sync(KnowledgeBase(memory).ingest_text(FIRST, source="guide.md"))
    run_sync(memory.close())
    assert in_killed_process(tmp_path, "remove('guide.md')", 1, after=after) == KILLED
    memory = opened(tmp_path)
    knowledge = KnowledgeBase(memory)
    assert chunks(memory, knowledge) == (set(), set())
    with pytest.raises(ArgumentError):
        run_sync(knowledge.remove("guide.md"))
    assert run_sync(knowledge.ingest_text(FIRST, source="guide.md")).lines[0].action != "added"  # it was removed
    run_sync(memory.close())
