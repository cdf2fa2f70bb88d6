"""Ingest: the collection holds the present state of the files, and the report lists every action.

Inner parts, on no face: ``tellback.memory.codec``, ``tellback.memory.documents``,
``tellback.memory.embedders.probe_pairs``.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    Hit,
    KnowledgeBase,
    LoadedDocument,
    LongTermMemory,
    MinimumLength,
    TextChunker,
)
from tellback.memory.codec import from_entry
from tellback.memory.documents import ingest
from tellback.memory.embedders.probe_pairs import PROBE_TEXTS
from tellback.memory.internals import DOCUMENTS, IngestAction, passages_of, store_namespace
from tellback.vectorstore import StorageFull, StoreClosed, open_store
from tests.support.embedders import FakeEmbedder

pytestmark = pytest.mark.anyio

ADDED, UPDATED, UNCHANGED = IngestAction.ADDED, IngestAction.UPDATED, IngestAction.UNCHANGED
REMOVED, SKIPPED, FAILED = IngestAction.REMOVED, IngestAction.SKIPPED, IngestAction.FAILED
LANE = store_namespace("", DOCUMENTS, "default")


class Interruption(Exception):
    """Error that interrupts an ingest."""


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


def passage_of(entry):
    (passage,) = passages_of([Hit(from_entry(entry), 1.0)])
    return passage


def texts(memory, lane=LANE):
    return sorted(entry.text for entry in memory.store.scan(namespace=lane))


# the usual life


async def test_ingesting_a_folder_reports_one_line_per_document(memory, docs):
    report = await KnowledgeBase(memory).ingest(docs)
    assert actions(report) == {"a.md": ADDED, "b.txt": ADDED, "deep/c.md": ADDED}
    assert report.totals[ADDED] == 3
    assert report.chunks == report.embedded == memory.store.count(namespace=LANE)
    assert report.changed


async def test_a_chunk_knows_its_document_title_heading_and_span(memory, docs):
    await KnowledgeBase(memory).ingest(docs)
    (found,) = [item for item in memory.store.scan(namespace=LANE) if "cool" in item.text]
    chunk = (await memory.get([found.id]))[0]
    text = (docs / "a.md").read_text()
    assert (chunk.source.document, chunk.source.title) == ("a.md", "Apples")
    assert chunk.source.heading[-1] == "Storage"
    assert text[chunk.source.start : chunk.source.end] == chunk.text
    assert (chunk.kind, chunk.trust, chunk.actor) == ("document", "document", "document")


async def test_repeating_an_ingest_changes_nothing_and_reports_unchanged(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    before, asked = state(memory), len(memory.embedder.texts)
    report = await KnowledgeBase(memory).ingest(docs)
    assert set(actions(report).values()) == {UNCHANGED}
    assert not report.changed
    assert (state(memory), len(memory.embedder.texts)) == (before, asked)


async def test_touching_a_file_changes_nothing(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    os.utime(docs / "a.md", (1, 1))
    assert not (await knowledge.ingest(docs)).changed


async def test_an_unchanged_file_is_not_opened_and_a_disguised_change_is_read(memory, docs, monkeypatch):
    monkeypatch.setattr("tellback.memory.documents.discovery._SETTLING_NS", 0)
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    with monkeypatch.context() as closed:
        closed.setattr(ingest, "read_file", None)
        assert set(actions(await knowledge.ingest(docs)).values()) == {UNCHANGED}
    times = (docs / "b.txt").stat()
    (docs / "b.txt").write_text("Bananas are orange.")  # of equal length
    os.utime(docs / "b.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert actions(await knowledge.ingest(docs)) == {"a.md": UNCHANGED, "b.txt": UPDATED, "deep/c.md": UNCHANGED}


async def test_a_renamed_file_keeps_its_vectors_and_the_marks_of_its_passages(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (cool,) = [entry for entry in memory.store.scan(namespace=LANE) if "cool" in entry.text]
    memory.store.patch({cool.id: {**cool.metadata, "pinned": True}}, namespace=LANE)
    memory.embedder.texts.clear()
    (docs / "a.md").rename(docs / "deep/fruit.md")
    (line,) = (await knowledge.ingest(docs)).of(UPDATED)
    assert (line.source, line.reason, line.erased) == ("deep/fruit.md", "renamed from a.md", 0)
    assert memory.embedder.texts == []
    (moved,) = [entry for entry in memory.store.scan(namespace=LANE) if "cool" in entry.text]
    assert np.array_equal(moved.vector, cool.vector)
    assert from_entry(moved).pinned
    assert {info.source for info in await knowledge.documents()} == {"b.txt", "deep/c.md", "deep/fruit.md"}


async def test_several_files_are_parsed_at_once_and_reported_in_order(memory, tmp_path):
    sizes = [(tmp_path / f"{number}.html").write_text(f"<p>Page {number} tells of its own.") for number in range(9)]
    steps = []
    report = await KnowledgeBase(memory, limits={"processes": 2}).ingest(tmp_path, on_progress=steps.append)
    assert [line.source for line in report.of(ADDED)] == [f"{number}.html" for number in range(9)]
    assert (steps[0].bytes_done, steps[-1].bytes_done, steps[-1].bytes_total) == (sizes[0], sum(sizes), sum(sizes))


async def test_only_the_changed_chunks_of_a_changed_file_are_embedded(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    memory.embedder.texts.clear()
    path = docs / "a.md"
    path.write_text(path.read_text().replace("cool", "in the cellar"))
    report = await knowledge.ingest(docs)
    assert actions(report) == {"a.md": UPDATED, "b.txt": UNCHANGED, "deep/c.md": UNCHANGED}
    assert len(memory.embedder.texts) == 1
    assert "cellar" in memory.embedder.texts[0]
    (line,) = report.of(UPDATED)
    assert report.of("updated") == (line,)
    assert (line.embedded, line.erased) == (1, 1)
    assert not any("cool" in text for text in texts(memory))


async def test_a_chunk_that_only_moves_keeps_id_and_vector_and_gets_its_new_place(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    before = {entry.text: entry for entry in memory.store.scan(namespace=LANE)}
    memory.embedder.texts.clear()
    path = docs / "a.md"
    path.write_text("A new beginning.\n\n" + path.read_text())
    await knowledge.ingest(docs)
    after = {entry.text: entry for entry in memory.store.scan(namespace=LANE)}
    (moved,) = [text for text in before if "cool" in text]
    assert after[moved].id == before[moved].id
    assert np.array_equal(after[moved].vector, before[moved].vector)
    assert after[moved].metadata["start"] == path.read_text().index(moved)
    assert moved not in memory.embedder.texts


async def test_a_new_title_reaches_every_chunk_without_embedding(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    memory.embedder.texts.clear()
    path = docs / "a.md"
    path.write_text("---\ntitle: Fruit\n---\n" + path.read_text())
    report = await knowledge.ingest(docs)
    assert memory.embedder.texts == []
    assert report.of(UPDATED)[0].embedded == 0
    chunks = [entry for entry in memory.store.scan(namespace=LANE) if entry.metadata["document"] == "a.md"]
    assert {entry.metadata["title"] for entry in chunks} == {"Fruit"}
    assert all("Fruit" in entry.context for entry in chunks)


async def test_a_pinned_chunk_stays_pinned_after_its_file_changes(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (entry,) = [item for item in memory.store.scan(namespace=LANE) if "cool" in item.text]
    memory.store.patch({entry.id: {**entry.metadata, "pinned": True}}, namespace=LANE)
    path = docs / "a.md"
    path.write_text("Before.\n\n" + path.read_text())
    await knowledge.ingest(docs)
    (kept,) = await memory.get([entry.id])
    assert kept.pinned


async def test_a_deleted_file_is_retired_with_its_chunks(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (docs / "b.txt").unlink()
    report = await knowledge.ingest(docs)
    assert actions(report)["b.txt"] is REMOVED
    assert not any("Bananas" in text for text in texts(memory))
    assert [document.source for document in await knowledge.documents()] == ["a.md", "deep/c.md"]


async def test_only_documents_under_the_given_folder_are_retired(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (docs / "b.txt").unlink()
    report = await knowledge.ingest(docs / "deep")
    assert actions(report) == {"deep/c.md": UNCHANGED}
    assert any("Bananas" in text for text in texts(memory))


async def test_an_emptied_file_loses_its_chunks_and_stays_a_document(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (docs / "b.txt").write_text("  \n")
    (line,) = (await knowledge.ingest(docs)).of(UPDATED)
    assert (line.chunks, line.erased, line.notes) == (0, 1, ("nothing to find in it",))
    assert (await knowledge.ingest(docs)).changed is False


async def test_repeated_paragraphs_are_kept_apart(memory, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(["The same words."] * 3))
    await KnowledgeBase(memory, chunker=TextChunker(20)).ingest(path)
    assert texts(memory) == ["The same words."] * 3


async def test_documents_lists_source_title_location_and_chunks_of_each_document(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    first, *_ = await knowledge.documents()
    assert (first.source, first.title, first.location) == ("a.md", "Apples", str(docs.resolve() / "a.md"))
    assert first.chunks > 0
    assert first.ingested is not None


async def test_front_matter_gives_tags_and_fields_that_filter(memory, tmp_path):
    (tmp_path / "a.md").write_text("---\ntags: [fruit]\nowner: Ada\n---\nApples.")
    await KnowledgeBase(memory).ingest(tmp_path / "a.md")
    (entry,) = memory.store.scan(where={"meta.owner": "Ada", "tags": {"$contains": "fruit"}}, namespace=LANE)
    assert entry.text == "Apples."


# equality


async def test_after_any_edits_the_store_equals_a_fresh_one(tmp_path):
    seed = 20240517
    print("seed", seed)
    rng = random.Random(seed)
    words = ["apple", "pear", "plum", "fig", "date", "lime", "kiwi", "melon"]
    folder = tmp_path / "docs"
    folder.mkdir()
    memory = LongTermMemory(open_store("numpy:"), embedder=FakeEmbedder())
    knowledge = KnowledgeBase(memory, chunker=TextChunker(60))
    for _ in range(12):
        path = folder / f"{rng.randrange(5)}.txt"
        if rng.random() < 0.25:
            path.unlink(missing_ok=True)
        else:
            paragraphs = [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(rng.randint(0, 6))]
            path.write_text("\n\n".join(paragraphs))
        await knowledge.ingest(folder)
    fresh = LongTermMemory(open_store("numpy:"), embedder=FakeEmbedder())
    await KnowledgeBase(fresh, chunker=TextChunker(60)).ingest(folder)
    kept, read = (sorted(state(each).values(), key=repr) for each in (memory, fresh))  # ids are of each memory's own
    assert kept == read
    assert read


async def test_another_chunker_cuts_unchanged_files_anew(memory, docs):
    await KnowledgeBase(memory).ingest(docs)
    report = await KnowledgeBase(memory, chunker=TextChunker(12)).ingest(docs)
    assert set(actions(report).values()) == {UPDATED}
    assert max(map(len, texts(memory))) <= 12


# interruption and failure


@pytest.mark.slow
async def test_a_repeated_ingest_resumes_where_it_was_interrupted(memory, docs):
    for number in range(200):
        (docs / f"n{number:03}.txt").write_text(f"Number {number} is here.")
    items = []

    def stop(progress):
        items.append(progress)
        if progress.done == 100:
            raise Interruption

    with pytest.raises(Interruption):
        await KnowledgeBase(memory).ingest(docs, on_progress=stop)
    asked = len(memory.embedder.texts)
    assert [progress.done for progress in items] == list(range(1, 101))
    assert {progress.total for progress in items} == {203}
    report = await KnowledgeBase(memory).ingest(docs)
    done = report.totals[UNCHANGED]
    assert 100 <= done < 203
    assert report.totals[ADDED] == 203 - done
    assert asked + report.embedded == 204 + len(PROBE_TEXTS)
    assert len(memory.embedder.texts) == asked + report.embedded
    fresh = LongTermMemory(open_store("numpy:"), embedder=FakeEmbedder())
    await KnowledgeBase(fresh).ingest(docs)
    assert texts(memory) == texts(fresh)


async def test_ingest_with_a_failing_embedder_stores_pending_chunks_and_reports_the_reason(memory, docs):
    memory.embedder.broken = True
    report = await KnowledgeBase(memory).ingest(docs)
    assert report.pending == report.chunks > 0
    assert report.embedded == 0
    assert "no connection" in report.lines[0].reason
    memory.embedder.broken = False
    assert (await memory.flush()).embedded == report.chunks
    assert all(entry.vector is not None for entry in memory.store.scan(namespace=LANE))


async def test_pending_chunks_of_a_changed_document_are_embedded_with_its_update(memory, docs):
    memory.embedder.broken = True
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    memory.embedder.broken = False
    with (docs / "a.md").open("a") as file:
        file.write("\n## New\n\nSomething else.\n")
    (line,) = (await knowledge.ingest(docs)).of(UPDATED)
    chunks = [entry for entry in memory.store.scan(namespace=LANE) if entry.metadata["document"] == "a.md"]
    assert line.embedded == len(chunks) > 1
    assert all(entry.vector is not None for entry in chunks)


async def test_ingest_without_an_embedder_stores_chunks_that_word_search_finds(docs):
    memory = LongTermMemory(open_store("numpy:"))
    report = await KnowledgeBase(memory).ingest(docs)
    assert report.pending == report.chunks > 0
    assert memory.store.search_text("bananas", namespace=LANE)


async def test_unreadable_files_are_reported_as_failed_skipped_or_unreadable_and_the_others_are_ingested(memory, docs):
    (docs / "binary.txt").write_bytes(b"\0\1\2")
    (docs / "old.txt").write_bytes(b"caf\xe9 with bytes that mean nothing here: \x81")
    (docs / "table.numbers").write_text("x")
    (docs / "style.css").write_text("x")
    report = await KnowledgeBase(memory).ingest(docs)
    reasons = {line.source: (line.action, line.reason) for line in report.lines if line.reason}
    assert reasons["binary.txt"][0] is FAILED
    assert "binary" in reasons["binary.txt"][1]
    assert "not UTF-8" in reasons["old.txt"][1]
    assert reasons["table.numbers"] == (IngestAction.UNREADABLE, "no loader for .numbers files")
    assert reasons["style.css"] == (SKIPPED, "a style sheet")
    assert report.totals[ADDED] == 3
    assert not report.complete


async def test_whatever_one_file_raises_is_its_line_and_the_others_are_ingested(memory, docs):
    class Raising:
        name = media_type = "text/x-raising"

        def load(self, data, source):
            if source == "loader.up":
                raise RecursionError("too deep")
            return LoadedDocument("text", metadata={"bad": object() if source == "writer.up" else 1})

    def cut(text):
        return ["words that are not there"] if text == "Cut me." else [text]

    for name in ("loader.up", "writer.up", "fine.up"):
        (docs / name).write_text(name)
    (docs / "chunker.txt").write_text("Cut me.")
    (docs / "escape.json").write_text('[{"half\\ud800": "\\udfff and Oaks", "title": "\\ud800"}]')
    knowledge = KnowledgeBase(memory, loaders={".up": Raising()}, chunker=cut)
    found = actions(await knowledge.ingest(docs))
    failed = {"loader.up", "writer.up", "chunker.txt"}
    assert found == {
        source: FAILED if source in failed else ADDED for source in (*failed, *found, "fine.up", "escape.json")
    }
    reasons = {line.source: line.reason for line in (await knowledge.ingest(docs)).of(FAILED)}
    assert reasons["loader.up"] == "RecursionError: too deep"
    assert set(reasons) == failed
    assert "half\ufffd: \ufffd and Oaks; title: \ufffd" in texts(memory)


@pytest.mark.parametrize("error", [StorageFull("the disk is full"), StoreClosed("closed")])
async def test_a_failing_store_ends_the_ingest_with_its_error(memory, docs, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(ingest, "write_plans", fail)
    with pytest.raises(type(error)):
        await KnowledgeBase(memory).ingest(docs)


async def test_a_file_that_becomes_unreadable_keeps_its_earlier_state(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    (docs / "b.txt").write_bytes(b"\0")
    assert actions(await knowledge.ingest(docs))["b.txt"] is FAILED
    assert any("Bananas" in text for text in texts(memory))


async def test_a_folder_with_nothing_to_read_gives_an_empty_report(memory, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    report = await KnowledgeBase(memory).ingest(folder)
    assert (report.lines, report.changed, str(report)) == ((), False, "no documents; 0 chunks, 0 embedded")


async def test_a_missing_path_is_refused_before_anything_is_done(memory, docs):
    with pytest.raises(ArgumentError) as caught:
        await KnowledgeBase(memory).ingest([docs, docs / "none.md"])
    assert caught.value.argument == "paths"
    assert texts(memory) == []


async def test_ingest_notices_a_concurrent_ingest_and_reads_the_files_again(tmp_path, docs):
    memories = [
        LongTermMemory(open_store(f"sqlite:///{tmp_path}/memory.db"), embedder=FakeEmbedder()) for _ in range(2)
    ]
    first, second = map(KnowledgeBase, memories)
    embed = memories[0].embedder.embed

    async def overtaken(texts, kind="document"):
        await second.ingest(docs)
        return await embed(texts, kind)

    memories[0].embedder.embed = overtaken
    report = await first.ingest(docs)
    assert set(actions(report).values()) == {UNCHANGED}
    assert len(await first.documents()) == 3
    assert len(texts(memories[0])) == len(set(texts(memories[0])))
    for memory in memories:
        await memory.close()


async def test_a_conflicting_chunk_write_leaves_the_document_unchanged_and_is_then_retried(memory, docs, monkeypatch):
    knowledge, write, refused = KnowledgeBase(memory), ingest.write_plans, []
    await knowledge.ingest(docs / "a.md")
    (docs / "a.md").write_text("# Apples\n\nApples are red or green.\n\n## Storage\n\nKeep them cool.\n")

    def overtaken(collection, works):
        if refused:
            return write(collection, works)
        (plan,) = [work.plan for work in works]
        assert plan.new
        memory.store.patch(
            {item: memory.store.get([item], namespace=LANE)[0].metadata for item in plan.patched}, namespace=LANE
        )
        before = list(memory.store.scan(namespace=LANE))
        refused.extend(write(collection, works))
        assert list(memory.store.scan(namespace=LANE)) == before
        return refused

    monkeypatch.setattr(ingest, "write_plans", overtaken)
    assert actions(await knowledge.ingest(docs / "a.md")) == {"a.md": UPDATED}
    assert refused == [None]


async def test_a_document_under_repeated_concurrent_writes_fails_alone(tmp_path, docs):
    memories = [
        LongTermMemory(open_store(f"sqlite:///{tmp_path}/memory.db"), embedder=FakeEmbedder()) for _ in range(2)
    ]
    first, second = map(KnowledgeBase, memories)
    embed = memories[0].embedder.embed
    rounds = []

    async def overtaken(texts, kind="document"):
        if not any("Bananas" in text for text in texts):  # a probe of the embedder, not a document
            return await embed(texts, kind)
        rounds.append(len(rounds))
        (docs / "b.txt").write_text(f"Bananas number {len(rounds)}.")
        await second.ingest(docs / "b.txt")
        (docs / "b.txt").write_text(f"Bananas of another kind, {len(rounds)}.")
        return await embed(texts, kind)

    memories[0].embedder.embed = overtaken
    report = await first.ingest(docs)
    assert actions(report) == {"a.md": ADDED, "b.txt": FAILED, "deep/c.md": ADDED}
    assert "another process" in report.of(FAILED)[0].reason
    for memory in memories:
        await memory.close()


async def test_write_policies_hold_for_chunks(docs):
    memory = LongTermMemory(open_store("numpy:"), policies=[MinimumLength(20)])
    report = await KnowledgeBase(memory).ingest(docs)
    assert all(len(text) >= 20 for text in texts(memory))
    assert any("1 chunks rejected by a write policy" in line.notes for line in report.lines)


async def test_a_chunk_knows_its_line_and_the_anchor_of_its_section(memory, docs):
    (docs / "page.html").write_text("<h1 id=top>Trees</h1><p>Old.</p><h2 id=oak>Oaks</h2><p>Oaks grow slowly.</p>")
    (docs / "code.py").write_text(
        '"""Trees."""\n\nimport os\n' + "#" * 90 + "\n\n\nclass Oak:\n    def grow(self):\n        pass\n"
    )
    await KnowledgeBase(memory).ingest(docs)
    places = {
        passage.text[:9]: passage for entry in memory.store.scan(namespace=LANE) if (passage := passage_of(entry))
    }
    assert (places["## Storag"].line, places["## Storag"].heading) == (5, ("Apples", "Storage"))
    assert (places["## Oaks\n\n"].anchor, places["## Oaks\n\n"].heading) == ("oak", ("Trees", "Oaks"))
    assert (places["class Oak"].line, places["class Oak"].heading) == (7, ("Oak", "grow"))


async def test_a_custom_loader_reads_files_of_its_extension(memory, tmp_path):
    class Upper:
        name = "upper/1"
        media_type = "text/x-upper"

        def load(self, data, source):
            return LoadedDocument(text=data.decode().upper())

    (tmp_path / "a.up").write_text("loud")
    await KnowledgeBase(memory, loaders={".up": Upper()}).ingest(tmp_path / "a.up")
    assert texts(memory) == ["LOUD"]


@pytest.mark.parametrize(
    ("content", "source", "expected"),
    [
        ("# Trees\n\nOaks.", "trees", "# Trees\n\nOaks."),
        ("<!doctype html><nav>Menu</nav><p>Oaks.", "page", "Oaks."),
        ("a,b\n1,2\n", "table.csv", "a: 1; b: 2"),
        ([{"name": "Ada", "age": 36}], "people", "name: Ada; age: 36"),
        (b"Oaks.", "bytes", "Oaks."),
    ],
)
async def test_ingest_accepts_a_text_or_a_json_value(memory, docs, content, source, expected):
    knowledge = KnowledgeBase(memory)
    options = {"title": "Mine", "tags": ["green"], "metadata": {"shelf": 3}}
    assert actions(await knowledge.ingest_text(content, source=source, **options)) == {source: ADDED}
    assert actions(await knowledge.ingest_text(content, source=source, **options)) == {source: UNCHANGED}
    (entry,) = memory.store.scan(namespace=LANE)
    found = from_entry(entry)
    assert (found.text, found.source.title, found.tags, found.metadata["shelf"]) == (expected, "Mine", ("green",), 3)
    await knowledge.ingest(docs)  # no file of that folder is gone, so the text stays
    assert source in {info.source for info in await knowledge.documents()}


async def test_a_text_does_not_take_the_name_of_a_file(memory, docs):
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(docs)
    assert actions(await knowledge.ingest_text("Mine.", source="a.md")) == {"a.md": FAILED}
    with pytest.raises(ArgumentError):
        await knowledge.ingest_text(object, source="x")
