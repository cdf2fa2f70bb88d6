"""A memory holds notes, chats with an assistant and talks between people; each kind is found beside the others.

Inner parts, on no face: ``tellback.memory.embedders.e5_files``.
"""

from __future__ import annotations

import pytest

from tellback.memory import E5Encoder, LongTermMemory, Memory, Message, run_sync
from tellback.memory.embedders.e5_files import e5_available
from tellback.vectorstore import open_store

pytestmark = pytest.mark.skipif(not e5_available(), reason="the package with the weights of E5 is not installed")

NOTES = ("My sister Ana lives in Braga.", "The plumber comes on Friday.", "I would like to repaint the hotel sign.")
TALK = (
    ("Marta", "How was the weekend, did you find a dog after all?"),
    ("Jonas", "Yes! She is a two-year-old beagle from the shelter, we call her Pepper."),
    ("Marta", "Lovely. I spent mine at the pottery fair in Porto."),
    ("Jonas", "Did you sell the blue bowls?"),
    ("Marta", "All eleven of them, on Saturday already."),
)


@pytest.fixture
def memory() -> LongTermMemory:
    """Return a memory of all three kinds."""
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder())
    turns = [
        Memory(text, id=f"t{place}", kind="turn", role="user", speaker=who, session="weekend")
        for place, (who, text) in enumerate(TALK)
    ]
    run_sync(memory.remember_many([*map(Memory, NOTES), *turns]))
    chat = [Message.user("In Kyoto I liked the Hotel Sakura best."), Message.assistant("It is close to the river.")]
    run_sync(memory.remember_turn("japan", chat))
    return memory


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which hotel did I like in Kyoto?", "Sakura"),
        ("What is Jonas's dog called?", "Pepper"),
        ("Where was the pottery fair?", "Porto"),
        ("Where does my sister live?", "Braga"),
    ],
)
def test_the_answer_comes_first_whatever_kind_it_is_of(memory: LongTermMemory, question: str, answer: str) -> None:
    assert answer in run_sync(memory.recall(question)).hits[0].memory.text
