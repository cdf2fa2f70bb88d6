"""Retrieval over documents: passages with their place, their neighbours, and quotes from them.

An inner part, on no face: ``tellback.memory.chunking``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tellback.memory import ArgumentError, HashingEmbedder, KnowledgeBase, LongTermMemory, TextChunker
from tellback.memory.chunking import MarkdownChunker

pytestmark = pytest.mark.anyio

JANUARY_2020 = datetime(2020, 1, 1, tzinfo=UTC)
PARAGRAPHS = [
    "The lighthouse was built in 1862 by the harbour board.",
    "Its keeper, Ada Brandt, lived there for forty years.",
    "A storm in 1911 broke the lamp and flooded the cellar.",
    "Today it is a museum that opens on weekends.",
]


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=HashingEmbedder(dimension=256))


@pytest.fixture
def lighthouse(tmp_path) -> Path:
    path = tmp_path / "lighthouse.txt"
    path.write_text("\n\n".join(PARAGRAPHS))
    return path


async def knowledge_of(memory, *paths: Path, size: int = 60) -> KnowledgeBase:
    knowledge = KnowledgeBase(memory, chunker=TextChunker(size))
    await knowledge.ingest(paths)
    return knowledge


async def test_retrieve_ranks_the_answering_passage_first_with_exact_offsets(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse)
    first = (await knowledge.retrieve("Who was the keeper?"))[0]
    assert first.document == "lighthouse.txt"
    assert "Ada Brandt" in first.text
    assert lighthouse.read_text()[first.start : first.end] == first.text


async def test_a_question_for_who_founded_matches_a_passage_with_founder(memory, tmp_path):
    path = tmp_path / "museum.txt"
    others = [f"The museum of room {number} is founded on rock." for number in range(9)]
    path.write_text("\n\n".join([*others, "Ada Brandt, founder of the museum, lived in the lamp room."]))
    await knowledge_of(memory, path)
    assert "Ada Brandt" in (await memory.recall("Who founded the museum?"))[0].memory.text


async def test_retrieve_returns_k_passages_best_first(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse)
    found = await knowledge.retrieve("lighthouse keeper lamp museum", 2)
    assert len(found) == 2
    assert found[0].score >= found[1].score
    assert found[:2] == found.passages
    assert len(await knowledge.retrieve("lighthouse", 0)) == 0


async def test_neighbours_are_the_chunks_beside_a_passage(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse)
    text = lighthouse.read_text()
    for passage in await knowledge.retrieve("lighthouse keeper storm museum", 4, neighbours=1):
        whole = passage.before + passage.text + passage.after
        assert whole in text
        place = PARAGRAPHS.index(passage.text)
        assert passage.before == "".join(f"{item}\n\n" for item in PARAGRAPHS[max(0, place - 1) : place])
        assert passage.after == "".join(f"\n\n{item}" for item in PARAGRAPHS[place + 1 : place + 2])


async def test_all_neighbours_reassemble_the_document_from_overlapping_chunks(memory, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(" ".join(f"Word{number} goes here and there." for number in range(40)))
    knowledge = KnowledgeBase(memory, chunker=TextChunker(120, overlap=40))
    await knowledge.ingest(path)
    assert len({item.id for item in await knowledge.retrieve("Word7 goes", 20)}) > 3
    (passage,) = await knowledge.retrieve("Word7 goes", 1, neighbours=100)
    assert passage.before + passage.text + passage.after == path.read_text()


async def test_a_forgotten_neighbour_is_left_out(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse)
    (storm,) = await knowledge.retrieve("storm lamp cellar", 1)
    await memory.forget([storm.id])
    (keeper,) = await knowledge.retrieve("keeper Ada Brandt", 1, neighbours=1)
    assert "storm" not in keeper.before + keeper.after


async def test_retrieve_returns_passages_of_its_own_collection_alone(memory, lighthouse, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("The keeper of the zoo is Bo.")
    await KnowledgeBase(memory, collection="zoo").ingest(other)
    knowledge = await knowledge_of(memory, lighthouse)
    assert {passage.document for passage in await knowledge.retrieve("keeper", 10)} == {"lighthouse.txt"}


async def test_retrieve_returns_no_conversation_memories(memory, lighthouse):
    await memory.remember("The keeper owes me ten euros.")
    knowledge = await knowledge_of(memory, lighthouse)
    assert all(passage.document for passage in await knowledge.retrieve("keeper", 10))


async def test_a_filter_and_tags_narrow_the_retrieval(memory, tmp_path):
    for name, tag in (("a", "old"), ("b", "new")):
        (tmp_path / f"{name}.md").write_text(f"---\ntags: [{tag}]\n---\nThe keeper {name} is here.")
    knowledge = await knowledge_of(memory, tmp_path / "a.md", tmp_path / "b.md")
    assert [item.document for item in await knowledge.retrieve("keeper", tags=["new"])] == ["b.md"]
    assert [item.document for item in await knowledge.retrieve("keeper", where={"document": "a.md"})] == ["a.md"]


async def test_documents_are_chosen_by_source_type_and_time_of_the_file(memory, tmp_path):
    for name in ("guides/boat.md", "old/boat.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("The boat leaves at noon.")
    os.utime(tmp_path / "old/boat.txt", (10**9, 10**9))
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(tmp_path)
    for options, expected in (
        ({"types": ["markdown"]}, {"guides/boat.md"}),
        ({"types": [".TXT", "text/markdown"]}, {"guides/boat.md", "old/boat.txt"}),
        ({"sources": ["guides"]}, {"guides/boat.md"}),
        ({"sources": ["*.txt"]}, {"old/boat.txt"}),
        ({"modified_since": JANUARY_2020}, {"guides/boat.md"}),
        ({"modified_until": JANUARY_2020}, {"old/boat.txt"}),
        ({"sources": ["nothing"]}, set()),
    ):
        chosen = await knowledge.document_filter(**options)
        found = await knowledge.retrieve("When does the boat leave?", where=chosen)
        assert {passage.document for passage in found} == expected, options


async def test_a_passage_comes_with_its_whole_section(memory, tmp_path):
    sections = (
        "# Boat\n\nIt is old.\n\n## Times\n\nIt leaves at noon.\n\nIt returns at six.\n\n## Price\n\nIt is free.\n"
    )
    (tmp_path / "boat.md").write_text(sections)
    knowledge = KnowledgeBase(memory, chunker=MarkdownChunker(32))
    await knowledge.ingest(tmp_path)
    (found,) = await knowledge.retrieve("When does it leave at noon?", 1, neighbours="section")
    assert "returns at six" in found.after
    assert "free" not in found.before + found.after


async def test_retrieve_abstains_on_an_empty_collection(memory):
    found = await KnowledgeBase(memory).retrieve("anything")
    assert (len(found), found.abstain) == (0, "nothing")


async def test_nothing_is_near_a_question_about_none_of_the_documents(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse)
    far = await knowledge.retrieve(
        "Which opera did Bellini write for Vienna, Catania, Palermo, Zermatt and the museum?"
    )
    known = await knowledge.retrieve("When was the lighthouse built?")
    assert (far.abstain, far.near) == ("nothing", False)
    assert (known.abstain, known.near) == (None, True)


@pytest.mark.parametrize("neighbours", [-1, True, 1.5, None])
async def test_retrieve_refuses_unusable_neighbours(memory, lighthouse, neighbours):
    knowledge = await knowledge_of(memory, lighthouse)
    with pytest.raises(ArgumentError) as caught:
        await knowledge.retrieve("keeper", neighbours=neighbours)
    assert caught.value.argument == "neighbours"


@pytest.mark.parametrize("question", ["", "  "])
async def test_retrieve_refuses_an_empty_question(memory, lighthouse, question):
    knowledge = await knowledge_of(memory, lighthouse)
    with pytest.raises(ArgumentError):
        await knowledge.retrieve(question)


async def test_citations_quote_the_document_word_for_word(memory, lighthouse):
    knowledge = await knowledge_of(memory, lighthouse, size=400)
    question = "When did a storm break the lamp?"
    (citation,) = await knowledge.cite(question, await knowledge.retrieve(question))
    assert citation.quote == PARAGRAPHS[2]
    assert lighthouse.read_text()[citation.start : citation.end] == citation.quote
    assert str(citation) == "[1] lighthouse.txt"


async def test_citations_work_on_an_empty_collection(memory):
    assert await KnowledgeBase(memory).cite("anything", []) == []


async def test_passages_of_one_document_are_limited_in_number(memory, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(
            "\n\n".join(f"The storm of {year} broke {name}." for year in (1911, 1962))
        )
    knowledge = await knowledge_of(memory, tmp_path, size=40)
    found = await knowledge.retrieve("Which storm broke it?", 4, per_document=1)
    assert sorted(passage.document for passage in found) == ["one.txt", "two.txt"]


async def test_the_passage_whose_sentence_has_the_form_of_an_answer_comes_first(memory, tmp_path):
    (tmp_path / "a.txt").write_text("The number of steps of the tower was often counted.")
    (tmp_path / "b.txt").write_text("The tower has 291 steps, not counting the lowest ones.")
    knowledge = await knowledge_of(memory, tmp_path)
    found = await knowledge.retrieve("How many steps has the tower?", 2)
    assert found[0].document == "b.txt"
