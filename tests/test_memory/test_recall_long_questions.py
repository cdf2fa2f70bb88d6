"""Questions of any length: bounded memory, the words that tell memories apart, and a note on what was left out."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest

from tellback.memory import HashingEmbedder, LongTermMemory, Memory, RecallHooks
from tellback.memory import run_sync as run
from tellback.vectorstore import open_store
from tests.support.data_only_store import DataOnlyStore

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def invented_words(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = {"".join(rng.choices(SYLLABLES, k=4)) + "x" for _ in range(count * 2)}
    return sorted(words)[:count]


def opened(texts: Sequence[str], *, data_only: bool = False) -> LongTermMemory:
    store = open_store("numpy:")
    if data_only:
        memory = LongTermMemory(DataOnlyStore(store))
    else:
        memory = LongTermMemory(store, embedder=HashingEmbedder(dimension=64))
    run(memory.remember_many([Memory(text) for text in texts]))
    return memory


def test_a_question_of_thousands_of_words_takes_bounded_memory_with_a_note_on_omitted_words() -> None:
    words = invented_words(6000, 1)
    memory = opened([" ".join(words[start : start + 25]) for start in range(0, len(words), 25)])
    run(memory.recall("warm"))
    tracemalloc.start()
    try:
        found = run(memory.recall(" ".join(words)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert found.notes == ("a long question: searched by the 256 rarest of the 6,000 different words",)
    assert found.hits
    assert found.abstain is None


def test_the_rarest_words_of_a_long_question_find_their_memory_from_any_position() -> None:
    common = invented_words(600, 2)
    memory = opened([*(" ".join([*common, f"copy {n}"]) for n in range(3)), "The kestrel nests in the belfry."])
    pasted = " ".join([*common[:300], "kestrel", "belfry", *common[300:]])
    found = run(memory.recall(pasted, explain=True))
    kestrel = next(hit for hit in found if hit.memory.text.startswith("The kestrel"))
    assert {match.word for match in kestrel.matched if match.similarity == 1.0} >= {"kestrel", "belfry"}


def test_the_end_of_a_long_question_decides_its_kind() -> None:
    words = invented_words(500, 3)
    memory = opened([])
    talk = [("Ana", "The ferry left on Monday."), ("Ben", "So it left.")]
    run(memory.remember_many([Memory(text, speaker=name, session="s") for name, text in talk]))
    found = run(memory.recall(" ".join(words) + ". When did the ferry leave?", explain=True))
    assert any("time" in hit.parts for hit in found)


@pytest.mark.parametrize("question", ["ferry " * 50_000, "\u6e21\u8239" * 200_000, "x" * 1_000_000])
def test_a_question_of_many_characters_is_read_at_both_ends(question: str) -> None:
    memory = opened(["The ferry left at dawn."])
    (note,) = run(memory.recall(question)).notes
    assert "of its first and last 50,000 characters" in note


def test_a_data_only_store_gets_a_shortened_question_too() -> None:
    memory = opened(["The ferry left at dawn."], data_only=True)
    notes = run(memory.recall(" ".join(["ferry", *invented_words(400, 4)]))).notes
    assert any(note.startswith("a long question: searched by the 256 rarest of the 401") for note in notes)


def test_hooks_are_given_the_beginning_and_the_end_of_a_long_question() -> None:
    memory = opened(["The ferry left at dawn."])
    seen: list[str] = []

    def expand(question: str) -> list[str]:
        seen.append(question)
        return []

    run(memory.recall("begin " + "word " * 9000 + "end", hooks=RecallHooks(expand=expand)))
    (shown,) = seen
    assert len(shown) <= 8001
    assert (shown[:5], shown[-3:]) == ("begin", "end")


def test_a_question_of_two_hundred_words_is_searched_whole() -> None:
    memory = opened(["The ferry left at dawn."])
    assert run(memory.recall(" ".join(invented_words(200, 6)))).notes == ()
