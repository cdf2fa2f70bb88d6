"""Memories of more than 1,500 characters: vectors of their passages, which recall finds and shows, erased with them.

Inner parts, on no face: ``tellback.memory.embedders.lines``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tellback.memory import LongTermMemory, Memory, open_memory
from tellback.memory.embedders.lines import passages_of

pytestmark = pytest.mark.anyio
TOPICS = ("boat", "garden", "violin", "kettle")
FILLER = "The paint of the {0} was chosen after long talks, and the {0} looks well in the morning light of the yard."
LONG = "\n\n".join(" ".join([FILLER.format(topic)] * 7) for topic in TOPICS)


class TopicEmbedder:
    """Embedder by topic: one direction for each, from the first 800 characters of a text."""

    fingerprint, dimension, remote, names_weights = "topics-1", len(TOPICS) + 1, False, True

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        self.asked += texts
        rows = np.array([[text[:800].count(topic) for topic in TOPICS] + [0.01] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def embedder() -> TopicEmbedder:
    return TopicEmbedder()


def vectors(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM embedding_cache WHERE kind = 'document'").fetchone()
    return int(count)


async def recalled(memory: LongTermMemory, question: str) -> tuple[str, str, float]:
    hit = (await memory.recall(question, 1, explain=True))[0]
    return hit.memory.text, hit.passage, hit.parts["cosine"]


def test_passages_are_whole_sentences_that_together_are_the_text() -> None:
    passages = passages_of(LONG)
    assert sorted(passages, key=LONG.index) == list(passages)
    assert all(len(passage) <= 700 and passage.endswith(".") for passage in passages)
    assert {word for passage in passages for word in passage.split()} == set(LONG.split())
    assert passages_of("a" * 1500) == ()
    assert "".join(passages_of("".join(map(chr, range(200, 2200))))) == "".join(map(chr, range(200, 2200)))


async def test_a_long_memory_is_found_by_what_it_says_at_its_end_and_that_passage_is_shown(
    tmp_path: Path, embedder: TopicEmbedder
) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=embedder)
    await memory.remember_many([LONG, "The kettle and the garden and the boat are old.", "A boat, a boat."])
    text, passage, _ = await recalled(memory, "kettle")
    assert text == LONG
    assert "kettle" in passage
    assert "boat" not in passage
    await memory.close()
    again = open_memory(tmp_path / "m.db", embedder=embedder)
    assert await recalled(again, "kettle") == await recalled(again, "kettle")
    assert (await recalled(again, "kettle"))[1] == passage
    await again.close()


async def test_without_an_embedder_the_passage_with_most_words_of_the_question_is_shown() -> None:
    memory = open_memory("numpy:", choose_local=False)
    await memory.remember(LONG)
    assert "violin" in (await memory.recall("Where is the violin?", 1))[0].passage
    await memory.close()


async def test_vectors_of_passages_are_erased_with_their_memory_and_with_its_former_text(
    tmp_path: Path, embedder: TopicEmbedder
) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=embedder)
    report = await memory.remember(LONG)
    assert vectors(tmp_path / "m.db") == len(passages_of(LONG))
    await memory.describe({report.id: "our things: colours"})
    assert vectors(tmp_path / "m.db") == len(passages_of(LONG))
    await memory.forget([report.id])
    assert vectors(tmp_path / "m.db") == 0
    await memory.close()


async def test_an_imported_memory_and_one_in_another_space_have_vectors_of_passages_again(
    tmp_path: Path, embedder: TopicEmbedder
) -> None:
    memory = open_memory(tmp_path / "a.db", embedder=embedder)
    await memory.remember(Memory(LONG, about="our things: colours"))
    await memory.export(tmp_path / "out.jsonl")
    other = TopicEmbedder()
    other.fingerprint = "topics-2"
    await memory.reembed(other)
    assert "kettle" in (await recalled(memory, "kettle"))[1]
    await memory.close()
    new = open_memory(tmp_path / "b.db", embedder=TopicEmbedder())
    await new.import_(tmp_path / "out.jsonl")
    assert "kettle" in (await recalled(new, "kettle"))[1]
    await new.close()


async def test_passages_that_stay_in_a_corrected_memory_keep_their_vectors(
    tmp_path: Path, embedder: TopicEmbedder
) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=embedder)
    id = (await memory.remember(LONG)).id
    corrected = LONG + "\n\n" + " ".join([FILLER.format("roof")] * 7)
    await memory.correct(id, corrected)
    assert "kettle" in (await recalled(memory, "kettle"))[1]
    await memory.forget([id])
    assert vectors(tmp_path / "m.db") == 0
    await memory.close()
