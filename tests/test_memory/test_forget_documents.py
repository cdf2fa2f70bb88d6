"""A document that is forgotten leaves its list too, is not read again by itself, and comes back within its grace."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from memory.documents.ingest_report import IngestAction
from memory.documents.knowledge_base import KnowledgeBase
from memory.open import open_memory

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TOWER = "# The tower\n\nThe tower has 291 steps.\n\n# The bridge\n\nThe bridge is a mile long.\n"


@pytest.fixture
def memory(tmp_path):
    opened = open_memory(tmp_path / "m.db", clock=lambda: NOW)
    yield opened
    run(opened.close())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tower.md").write_text(TOWER)
    (tmp_path / "notes" / "garden.md").write_text("The garden has roses.\n")
    return tmp_path / "notes"


def run(awaitable):
    return asyncio.run(awaitable)


def sources(memory, collection="default", namespace=""):
    return [one.source for one in run(KnowledgeBase(memory, collection=collection, namespace=namespace).documents())]


def ingested(memory, folder, **options):
    report = run(KnowledgeBase(memory).ingest(folder, **options))
    return {line.source: line.action for line in report.lines}


def test_a_forgotten_document_is_in_no_list_and_is_not_read_again_by_itself(memory, folder):
    ingested(memory, folder)
    receipt = run(memory.forget(document="tower.md"))
    assert (len(receipt.memories), receipt.parts["documents"]) == (2, 1)
    assert sources(memory) == ["garden.md"]
    ingested(memory, folder)
    assert sources(memory) == ["garden.md"]
    assert ingested(memory, folder, again=True)["tower.md"] is IngestAction.ADDED
    assert sources(memory) == ["garden.md", "tower.md"]


def test_a_document_stays_listed_while_it_has_a_passage(memory, folder):
    ingested(memory, folder)
    (hit, *_) = run(memory.recall("How many steps has the tower?", 1))
    receipt = run(memory.forget([hit.memory.id]))
    assert "documents" not in receipt.parts
    assert sources(memory) == ["garden.md", "tower.md"]


def test_within_its_grace_a_document_comes_back_with_its_list(memory, folder):
    ingested(memory, folder)
    before = run(KnowledgeBase(memory).documents())
    receipt = run(memory.forget(document="tower.md", grace=timedelta(days=7)))
    assert sources(memory) == ["garden.md"]
    run(memory.restore_forgotten(receipt.operation))
    assert run(KnowledgeBase(memory).documents()) == before
    assert set(ingested(memory, folder).values()) == {IngestAction.UNCHANGED}
    assert "291" in run(memory.recall("How many steps has the tower?", 1))[0].memory.text


def test_a_namespace_loses_its_lists_and_no_other_does(memory, folder):
    for namespace in ("ann", "bob"):
        run(KnowledgeBase(memory, collection="guide", namespace=namespace).ingest(folder))
    receipt = run(memory.forget_namespace("ann"))
    assert receipt.parts["documents"] == 2
    assert sources(memory, "guide", "ann") == []
    assert sources(memory, "guide", "bob") == ["garden.md", "tower.md"]


def test_an_import_brings_the_list_and_the_same_folder_is_unchanged(memory, folder, tmp_path):
    ingested(memory, folder)
    run(memory.export(tmp_path / "a.jsonl"))
    report = run(memory.import_(tmp_path / "a.jsonl", mode="replace"))
    assert report.taken["document"] == 2
    assert sources(memory) == ["garden.md", "tower.md"]
    assert set(ingested(memory, folder).values()) == {IngestAction.UNCHANGED}


def test_a_document_that_was_forgotten_since_is_not_imported(memory, folder, tmp_path):
    ingested(memory, folder)
    run(memory.export(tmp_path / "a.jsonl"))
    run(memory.forget(document="tower.md"))
    report = run(memory.import_(tmp_path / "a.jsonl"))
    assert report.left["document"] == 2
    assert sources(memory) == ["garden.md"]
    assert [line.reason for line in report.lines].count("forgotten") == 2
