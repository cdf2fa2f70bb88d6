"""Undo of an import: memories, marks and validity are restored; what cannot be restored is refused or reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tellback.memory import CannotUndo, KnowledgeBase, LongTermMemory, Memory, run_sync
from tellback.memory.internals import ARCHIVE, store_namespace
from tellback.vectorstore import open_store
from tests.support.clocks import TickingClock
from tests.support.homes import HOMES, address_in_home

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


in_a_file = pytest.mark.parametrize("memory", ["sqlite"], indirect=True)  # else no documents are taken in


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[LongTermMemory]:
    kept = LongTermMemory(
        open_store(f"sqlite:///{tmp_path / 'theirs.db'}"), clock=TickingClock(START, timedelta(hours=1))
    )
    yield kept
    run_sync(kept.close())


@pytest.fixture(params=HOMES)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LongTermMemory]:
    store = open_store(address_in_home(request, tmp_path))
    kept = LongTermMemory(store, clock=TickingClock(START + 9 * DAY, timedelta(hours=1)))
    KnowledgeBase(kept)  # it takes in what an export has of documents
    yield kept
    run_sync(kept.close())


def ingested(memory: LongTermMemory, folder: Path) -> str:
    folder.mkdir()
    (folder / "birds.md").write_text("# Birds\n\nThe heron stands in the water.\n")
    run_sync(KnowledgeBase(memory).ingest([folder]))
    return run_sync(memory.recall("heron"))[0].memory.id


def taken(memory: LongTermMemory, theirs: LongTermMemory, path: Path, mode: str = "merge") -> str:
    run_sync(theirs.export(path))
    operation = run_sync(memory.import_(path, mode=mode, trust="user")).operation
    assert operation is not None
    return operation


def found(memory: LongTermMemory, **when: datetime) -> list[str]:
    return sorted(hit.memory.text for hit in run_sync(memory.recall("Where does Ana live?", **when)))


def everything(memory: LongTermMemory) -> list[Memory]:
    changing = {"revision": 0, "recorded_at": None, "operation": None, "counts_from": None}
    return [replace(item, **changing) for item in run_sync(memory.list())]


@in_a_file
def test_undo_of_an_import_removes_memories_and_keeps_passages(memory, theirs, tmp_path):
    passage = ingested(theirs, tmp_path / "docs")
    run_sync(theirs.remember("Ana lives in Porto."))
    run_sync(theirs.remember("Ana has a boat."))
    imported = taken(memory, theirs, tmp_path / "x.jsonl")
    undoing = run_sync(memory.undo(imported))
    assert run_sync(memory.stats()).lanes == {"conversation": 0, "documents": 1, "archive": 2}
    assert passage not in [change.id for change in undoing.changes]
    run_sync(memory.undo(undoing.id))
    assert run_sync(memory.stats()).lanes == {"conversation": 2, "documents": 1, "archive": 2}


@in_a_file
def test_undo_of_an_import_is_blocked_by_a_forgotten_memory_and_not_by_a_forgotten_passage(memory, theirs, tmp_path):
    ingested(theirs, tmp_path / "docs")
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    imported = taken(memory, theirs, tmp_path / "x.jsonl")
    run_sync(memory.forget(document=str(run_sync(memory.recall("heron"))[0].memory.source.document)))
    assert run_sync(memory.stats()).lanes["documents"] == 0
    undoing = run_sync(memory.undo(imported))
    assert run_sync(memory.count()) == 0
    run_sync(memory.undo(undoing.id))
    run_sync(memory.forget([item]))
    with pytest.raises(CannotUndo, match="forgotten since"):
        run_sync(memory.undo(imported))


@in_a_file
def test_an_import_of_documents_alone_is_forgotten_and_not_undone(memory, theirs, tmp_path):
    ingested(theirs, tmp_path / "docs")
    imported = taken(memory, theirs, tmp_path / "x.jsonl")
    with pytest.raises(CannotUndo, match="documents alone; forget"):
        run_sync(memory.undo(imported))
    assert run_sync(memory.stats()).lanes["documents"] == 1


def test_undo_of_a_correcting_import_restores_text_and_all_marks(memory, theirs, tmp_path):
    item = run_sync(theirs.remember(Memory("Ana lives in Porto.", tags=("home",), importance=0.5))).id
    taken(memory, theirs, tmp_path / "first.jsonl")
    run_sync(memory.pin(item))
    before = everything(memory)
    run_sync(theirs.correct(item, "Ana lives in Faro."))
    run_sync(theirs.tag(item, ["city"]))
    run_sync(theirs.set_importance(item, 0.9))
    run_sync(theirs.expire(item, START + 900 * DAY))
    corrected = taken(memory, theirs, tmp_path / "second.jsonl", mode="upsert")
    after = everything(memory)
    assert (after[0].text, after[0].tags, after[0].importance) == ("Ana lives in Faro.", ("home", "city"), 0.9)
    undoing = run_sync(memory.undo(corrected))
    assert everything(memory) == before
    run_sync(memory.undo(undoing.id))
    assert everything(memory) == after


def test_a_correction_by_an_import_is_valid_from_the_import_and_the_old_text_until_then(memory, theirs, tmp_path):
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    taken(memory, theirs, tmp_path / "first.jsonl")
    between = memory.clock()
    run_sync(theirs.correct(item, "Ana lives in Faro."))
    corrected = taken(memory, theirs, tmp_path / "second.jsonl", mode="upsert")
    for moment in (START + 2 * DAY, between):
        assert found(memory, as_of=moment) == ["Ana lives in Porto."]
    assert found(memory, known_at=between) == ["Ana lives in Porto."]
    now = memory.clock()
    assert found(memory, as_of=now) == found(memory, known_at=now) == found(memory) == ["Ana lives in Faro."]
    run_sync(memory.undo(corrected))
    assert found(memory, as_of=memory.clock()) == found(memory, as_of=between) == ["Ana lives in Porto."]


def test_a_correction_undone_in_the_imported_file_leaves_validity_counted_from_the_import(memory, theirs, tmp_path):
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    taken(memory, theirs, tmp_path / "first.jsonl")
    between = memory.clock()
    run_sync(theirs.correct(item, "Ana lives in Faro."))
    run_sync(
        theirs.undo(run_sync(theirs.correct(item, "Ana lives in Beja.")).operation)
    )  # it says since when it counts
    taken(memory, theirs, tmp_path / "second.jsonl", mode="upsert")
    assert found(memory, as_of=between) == ["Ana lives in Porto."]
    assert found(memory, as_of=memory.clock()) == ["Ana lives in Faro."]


def test_versions_withdrawn_in_the_imported_file_stay_withdrawn_when_the_import_is_redone(theirs, memory, tmp_path):
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    for home in ("Faro", "Beja"):
        mistake = run_sync(theirs.correct(item, f"Ana lives in {home}.")).operation
        run_sync(theirs.undo(mistake))
    run_sync(theirs.correct(item, "Ana lives in Evora."))
    operation = taken(memory, theirs, tmp_path / "x.jsonl")
    before = [(version.text, version.withdrawn) for version in run_sync(memory.history(item))]
    assert [withdrawn for _, withdrawn in before] == [False, False, True, True, True, True]
    undone = run_sync(memory.undo(operation))
    assert all(version.withdrawn for version in run_sync(memory.history(item)))
    run_sync(memory.undo(undone.id))
    after = [(version.text, version.withdrawn) for version in run_sync(memory.history(item))]
    assert [
        item for item in after if item != ("Ana lives in Evora.", True)
    ] == before  # but for what was here in between


def test_undo_of_an_import_is_blocked_by_a_later_merge_of_its_memory(memory, theirs, tmp_path):
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    imported = taken(memory, theirs, tmp_path / "x.jsonl")
    own = run_sync(memory.remember("Ana has a boat.")).id
    merged = run_sync(memory.merge([own, item], "Ana lives in Porto and has a boat.")).operation
    with pytest.raises(CannotUndo) as refused:
        run_sync(memory.undo(imported))
    assert refused.value.in_the_way == merged
    run_sync(memory.undo(merged))
    run_sync(memory.undo(imported))
    assert [memory.text for memory in run_sync(memory.list())] == ["Ana has a boat."]


def test_a_memory_expired_by_an_import_is_hidden_with_its_earlier_versions(memory, theirs, tmp_path):
    item = run_sync(theirs.remember("Ana lives in Porto.")).id
    taken(memory, theirs, tmp_path / "first.jsonl")
    between = memory.clock()
    run_sync(theirs.expire(item, between))
    corrected = taken(memory, theirs, tmp_path / "second.jsonl", mode="upsert")
    assert found(memory, as_of=between) == []
    run_sync(memory.undo(corrected))
    assert found(memory, as_of=between) == ["Ana lives in Porto."]


def test_undo_of_an_import_reads_archive_and_log_a_constant_number_of_times(theirs, memory, tmp_path, monkeypatch):
    """Neither is asked for each memory: what an import brought may be a hundred thousand."""
    asked = Counter()

    def count(owner, name):
        method = getattr(owner, name)

        def counted(self, *arguments, **options):
            asked[name] += name != "scan" or options["namespace"] == store_namespace("", ARCHIVE)
            return method(self, *arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    count(type(memory.store), "scan")
    for name in ("get", "list", "later"):
        count(type(memory.operation_log), name)
    counts = []
    for many in (3, 30):
        for number in range(many):
            id = run_sync(theirs.remember(f"Ana lives in town {number} of {many}.")).id
            run_sync(theirs.correct(id, f"Ana lives in village {number} of {many}."))
        operation = taken(memory, theirs, tmp_path / f"{many}.jsonl")
        asked.clear()
        undone = run_sync(memory.undo(operation))
        run_sync(memory.undo(undone.id))
        counts.append(dict(asked))
        assert len(undone.changes) == many
    assert counts[0] == counts[1]
