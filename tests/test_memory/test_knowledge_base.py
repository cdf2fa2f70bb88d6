"""A knowledge base over time: stable names, separate collections, removed and forgotten documents, reopening.

Inner parts, on no face: ``tellback.memory.documents.document``, ``tellback.memory.documents.manifest``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tellback.memory import ArgumentError, KnowledgeBase, LongTermMemory
from tellback.memory.documents.document import Document, chunk_ids, document_mark
from tellback.memory.documents.manifest import DocumentManifest, DocumentRecord
from tellback.memory.internals import DOCUMENTS, IngestAction, store_namespace
from tellback.vectorstore import DamageError, open_store
from tellback.vectorstore.sqlite import InMemoryDatabase
from tests.support.embedders import FakeEmbedder

pytestmark = pytest.mark.anyio

ADDED, UPDATED, UNCHANGED = IngestAction.ADDED, IngestAction.UPDATED, IngestAction.UNCHANGED
SKIPPED = IngestAction.SKIPPED
LANE = store_namespace("", DOCUMENTS, "default")


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=FakeEmbedder())


@pytest.fixture
def docs(tmp_path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("# Apples\n\nApples are red.\n\n## Storage\n\nKeep them cool.\n")
    (folder / "b.txt").write_text("Bananas are yellow.")
    (folder / "deep/c.md").write_text("Cherries are small.")
    return folder


def actions(report):
    return {line.source: line.action for line in report.lines}


def state(memory, lane=LANE):
    """Return what a collection holds, but for when it was written."""
    kept = {}
    for entry in memory.store.scan(namespace=lane):
        metadata = {name: value for name, value in entry.metadata.items() if not name.startswith("recorded_at")}
        vector = None if entry.vector is None else entry.vector.tolist()
        kept[entry.id] = (entry.text, entry.context, metadata, vector, entry.no_vector)
    return kept


def texts(memory, lane=LANE):
    return sorted(entry.text for entry in memory.store.scan(namespace=lane))


# names


async def test_files_of_one_name_in_two_folders_are_two_documents(memory, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text(f"About {folder}.")
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest([tmp_path / "one", tmp_path / "two"])
    assert [document.source for document in await knowledge.documents()] == ["index.md", "two/index.md"]
    assert not (await knowledge.ingest([tmp_path / "two", tmp_path / "one"])).changed


async def test_documents_of_a_moved_folder_keep_their_names(memory, docs, tmp_path):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    before, asked = state(memory), len(memory.embedder.texts)
    shutil.move(docs, tmp_path / "elsewhere")
    report = await knowledge.ingest(tmp_path / "elsewhere")
    assert {line.reason for line in report.lines} == {"moved"}
    assert (state(memory), len(memory.embedder.texts)) == (before, asked)
    assert all("elsewhere" in document.location for document in await knowledge.documents())


# collections and namespaces


async def test_collections_and_namespaces_keep_their_documents_apart(memory, docs):
    await KnowledgeBase(memory, collection="one").ingest(docs / "a.md")
    await KnowledgeBase(memory, collection="two", namespace="bob").ingest(docs / "b.txt")
    assert await KnowledgeBase(memory, collection="two").documents() == []
    assert not texts(memory, store_namespace("", DOCUMENTS, "two"))
    base = KnowledgeBase(memory, collection="one")
    assert [document.source for document in await base.documents()] == ["a.md"]


@pytest.mark.parametrize("bad", ["", "  ", None, 3, "a\0b"])
def test_a_collection_needs_a_name(bad):
    with pytest.raises(ArgumentError) as caught:
        KnowledgeBase(LongTermMemory(open_store("numpy:")), collection=bad)
    assert caught.value.argument == "collection"


# removing and forgetting


async def test_a_removed_document_is_skipped_until_ingested_with_again_or_changed(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    assert await knowledge.remove("b.txt") == 1
    assert not any("Bananas" in text for text in texts(memory))
    report = await knowledge.ingest(docs)
    assert actions(report)["b.txt"] is SKIPPED
    assert "again" in report.of(SKIPPED)[0].reason
    assert actions(await knowledge.ingest(docs / "b.txt", again=True))["b.txt"] is ADDED
    (docs / "b.txt").write_text("Bananas are brown.")
    assert actions(await knowledge.ingest(docs))["b.txt"] is UPDATED


async def test_removing_a_folder_removes_its_documents_even_if_the_folder_is_gone(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    shutil.rmtree(docs / "deep")
    assert await knowledge.remove_folder(docs / "deep") == ("deep/c.md",)
    assert await knowledge.remove_folder(docs) == ("a.md", "b.txt")
    assert set(actions(await knowledge.ingest(docs)).values()) == {SKIPPED}


async def test_removing_an_unknown_document_is_refused(memory):
    with pytest.raises(ArgumentError) as caught:
        await KnowledgeBase(memory).remove("none.md")
    assert caught.value.value == "none.md"


async def test_a_forgotten_passage_is_not_ingested_again_with_its_document(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (entry,) = [item for item in memory.store.scan(namespace=LANE) if "cool" in item.text]
    await memory.forget([entry.id])
    with (docs / "a.md").open("a") as file:
        file.write("\n## New\n\nSomething else.\n")
    (line,) = (await knowledge.ingest(docs)).of(UPDATED)
    assert line.forgotten == 1
    assert not any("cool" in text for text in texts(memory))
    assert any("Something else" in text for text in texts(memory))
    assert (await knowledge.documents())[0].chunks == line.chunks
    await knowledge.ingest(docs, again=True)
    assert any("cool" in text for text in texts(memory))


async def test_a_forgotten_passage_is_not_ingested_under_another_name_or_collection(memory, docs):
    await KnowledgeBase(memory).ingest(docs)
    (entry,) = [item for item in memory.store.scan(namespace=LANE) if "cool" in item.text]
    await memory.forget([entry.id])
    (docs / "a.md").rename(docs / "renamed.md")
    for collection in ("default", "another"):
        report = await KnowledgeBase(memory, collection=collection).ingest(docs)
        assert sum(line.forgotten for line in report.lines) == 1
        lane = store_namespace("", DOCUMENTS, collection)
        assert not any("cool" in item.text for item in memory.store.scan(namespace=lane))


async def test_a_removed_document_is_in_no_byte_of_the_file(tmp_path, docs):
    (docs / "secret.md").write_text("# Canaryheading\n\nThe canaryword sings.\n")
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path}/memory.db"), embedder=FakeEmbedder())
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    assert "canaryword" in bytes_of(tmp_path)
    await knowledge.remove("secret.md")
    left = bytes_of(tmp_path)
    assert [word for word in ("canaryword", "anaryheading", "canarywor") if word in left] == []
    await memory.close()
    assert "secret.md" not in bytes_of(tmp_path)


def bytes_of(folder: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1").lower() for path in sorted(folder.glob("memory.db*")))


# document records


async def test_document_records_survive_reopening(tmp_path, docs):
    path = tmp_path / "memory.db"
    memory = LongTermMemory(open_store(f"sqlite:///{path}"), embedder=FakeEmbedder())
    await KnowledgeBase(memory).ingest(docs)
    await KnowledgeBase(memory).remove("b.txt")
    listed = await KnowledgeBase(memory).documents()
    await memory.close()
    again = LongTermMemory(open_store(f"sqlite:///{path}"), embedder=FakeEmbedder())
    assert await KnowledgeBase(again).documents() == listed
    report = await KnowledgeBase(again).ingest(docs)
    assert actions(report) == {"a.md": UNCHANGED, "b.txt": SKIPPED, "deep/c.md": UNCHANGED}
    assert again.embedder.texts == []
    assert again.store.verify() == []
    await again.close()


async def test_an_in_memory_store_recognizes_its_documents_by_their_chunks(docs):
    memory = LongTermMemory(open_store("numpy:"), embedder=FakeEmbedder())
    await KnowledgeBase(memory).ingest(docs)
    before, asked = state(memory), len(memory.embedder.texts)
    (docs / "b.txt").write_text("Bananas are brown.")
    report = await KnowledgeBase(memory).ingest(docs)
    assert actions(report) == {"a.md": UNCHANGED, "b.txt": UPDATED, "deep/c.md": UNCHANGED}
    assert len(memory.embedder.texts) == asked + 1
    assert len(state(memory)) == len(before)


async def test_a_damaged_document_record_is_found_by_verify_and_refused_by_ingest(tmp_path, docs):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path}/memory.db"), embedder=FakeEmbedder())
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    with memory.store.database.write() as connection:
        connection.execute("UPDATE documents SET chunks = '[]' WHERE source = 'a.md'")
    assert ["a.md" in str(finding) for finding in memory.store.verify() if finding.part == "documents"] == [True]
    with pytest.raises(DamageError, match=r"a\.md"):
        await knowledge.ingest(docs)
    await memory.close()


# small parts


def test_chunk_ids_depend_on_key_collection_document_words_and_occurrence():
    key, other = bytes(32), b"\1" * 32
    first = chunk_ids(key, "lane", "a.md", ["x", "y", "x"])
    assert len(set(first)) == 3
    assert chunk_ids(key, "lane", "a.md", ["y", "x", "x"]) == [first[1], first[0], first[2]]
    for changed in ((other, "lane", "a.md"), (key, "lan", "ea.md"), (key, "lane", "b.md")):
        assert not set(chunk_ids(*changed, ["x", "y", "x"])) & set(first)


def test_a_document_mark_distinguishes_the_boundaries_of_its_parts():
    key = bytes(32)
    assert (
        len(
            {
                document_mark(key, "a", "x", "y"),
                document_mark(key, "b", "x", "y"),
                document_mark(key, "a", "xy"),
                document_mark(key, "a", "xy", ""),
            }
        )
        == 4
    )


def test_a_manifest_in_memory_keeps_order_and_place():
    records = [DocumentRecord(name, f"/{name}", "", "", ()) for name in ("b", "a")]
    manifest = DocumentManifest(InMemoryDatabase(), "/documents/default")
    for record in records:
        manifest.put(record)
    assert [record.source for record in manifest.all()] == ["a", "b"]
    assert manifest.at("/b") == records[0]
    assert (manifest.get("c"), manifest.at("/c")) == (None, None)
    assert (manifest.remove("a"), manifest.remove("a")) == (True, False)


def test_a_document_names_the_pages_that_begin_inside_a_span():
    document = Document(source="a", title="", text="abcdef", media_type="x", pages=((0, 2), (2, 4), (4, 6)))
    assert document.page_breaks(1, 6) == ((2, 2), (4, 3))
