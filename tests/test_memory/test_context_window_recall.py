"""Messages that leave the window, or the history, stay recallable; a message without words is found too.

Inner parts, on no face: ``tellback.memory.messages``, ``tellback.memory.codec``.
"""

from __future__ import annotations

from asyncio import run
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tellback.memory import (
    DatabaseHistory,
    DocumentBlock,
    FixedWindow,
    ImageBlock,
    LongTermMemory,
    Message,
    MinimumLength,
    Retention,
    ShortTermMemory,
    SummaryWindow,
    TextBlock,
    open_memory,
)
from tellback.memory.codec import DECLARED_FIELDS
from tellback.memory.messages import image_captions, media_text, message_excerpt
from tellback.vectorstore import open_store

T = TypeVar("T")

FACTS = (
    "The plumber is called Ottoline.",
    "My passport lies in the green drawer.",
    "The dentist moved to Harbour Street.",
    "Grandmother bakes with cardamom.",
    "The bicycle has a flat tyre.",
    "Rosalind plays the cello on Sundays.",
    "The neighbours named their dog Pickle.",
    "The boiler was serviced in November.",
)
QUESTIONS = (
    "What is the plumber called?",
    "Where does my passport lie?",
    "Where did the dentist move to?",
    "What does grandmother bake with?",
    "What is wrong with the bicycle?",
    "What does Rosalind play on Sundays?",
    "How did the neighbours name their dog?",
    "When was the boiler serviced?",
)
PICTURE = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[LongTermMemory]:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    yield memory
    run(memory.close())


@pytest.fixture
def with_meaning(tmp_path: Path) -> Iterator[LongTermMemory]:
    memory = open_memory(tmp_path / "m.db")
    yield memory
    run(memory.close())


def tell(memory: LongTermMemory) -> None:
    answer = Message.assistant("Good to know.")
    run(memory.remember_turn("s", [message for fact in FACTS for message in (Message.user(fact), answer)]))


def recalled(memory: LongTermMemory, question: str) -> list[str]:
    return [hit.memory.text for hit in run(memory.recall(question, 3))]


def test_each_message_that_left_the_window_is_found_by_recall(with_meaning: LongTermMemory) -> None:
    tell(with_meaning)
    short_term = ShortTermMemory(with_meaning.conversations, policy=FixedWindow(messages=2), session="s")
    window = run(short_term.window())
    shown = {message.text for message in window.messages}
    left = [(fact, question) for fact, question in zip(FACTS, QUESTIONS, strict=True) if fact not in shown]
    assert (len(left), window.dropped) == (7, 14)
    for fact, question in left:
        assert fact in recalled(with_meaning, question), question


def test_an_assistant_message_that_left_the_window_is_found_by_recall(with_meaning: LongTermMemory) -> None:
    ask = Message.user("Tell me something.")
    run(with_meaning.remember_turn("s", [message for fact in FACTS for message in (ask, Message.assistant(fact))]))
    window = run(ShortTermMemory(with_meaning.conversations, policy=FixedWindow(turns=1), session="s").window())
    assert [message.text for message in window.messages][1:] == [FACTS[-1]]
    for fact, question in zip(FACTS[:-1], QUESTIONS[:-1], strict=True):
        assert fact in recalled(with_meaning, question), question


def test_each_message_that_left_the_history_is_found_by_recall(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/m.db", fields=DECLARED_FIELDS)
    keeping = Retention(messages=2, unremembered="keep")
    memory = LongTermMemory(store, history=DatabaseHistory(store.database, retention=keeping))  # type: ignore[attr-defined]
    tell(memory)
    assert len(run(memory.conversations.load("s"))) == 2
    for fact, question in zip(FACTS, QUESTIONS, strict=True):
        assert fact in recalled(memory, question), question
    run(memory.close())


def test_a_memory_can_be_opened_with_a_retention(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", retention=Retention(messages=2, unremembered="keep"))
    tell(memory)
    assert len(run(memory.conversations.load("s"))) == 2
    assert FACTS[0] in recalled(memory, QUESTIONS[0])
    run(memory.close())


def test_unremembered_messages_hidden_by_retention_are_remembered_on_opening(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/m.db", fields=DECLARED_FIELDS)
    history = DatabaseHistory(store.database, retention=Retention(messages=1, unremembered="keep"))  # type: ignore[attr-defined]
    for fact in FACTS:
        run(history.append("s", [Message.user(fact)]))
    assert len(run(history.load("s"))) == 1
    store.close()
    memory = open_memory(tmp_path / "m.db")
    for fact, question in zip(FACTS, QUESTIONS, strict=True):
        assert fact in recalled(memory, question), question
    assert len(run(memory.conversations.load("s"))) == 1
    run(memory.close())


def test_forgetting_a_message_erases_the_summary_derived_from_it(memory: LongTermMemory, tmp_path: Path) -> None:
    tell(memory)
    policy = SummaryWindow(FixedWindow(messages=2), lambda so_far, said: "They spoke of a zyzzyva.")
    short_term = ShortTermMemory(memory.conversations, policy=policy, session="s")
    assert run(short_term.window()).summary is not None
    assert b"zyzzyva" in bytes_in(tmp_path)
    run(memory.forget([run(memory.conversations.load("s"))[0].memory]))
    assert run(memory.conversations.summary("s", "summary")) is None
    assert b"zyzzyva" not in bytes_in(tmp_path)


def test_forgetting_a_message_hidden_by_retention_erases_the_summary_derived_from_it(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/m.db", fields=DECLARED_FIELDS)
    keeping = Retention(messages=2, unremembered="keep")
    memory = LongTermMemory(store, history=DatabaseHistory(store.database, retention=keeping))  # type: ignore[attr-defined]
    policy = SummaryWindow(FixedWindow(messages=1), lambda so_far, said: "They spoke of a zyzzyva.")
    short_term = ShortTermMemory(memory.conversations, policy=policy, session="s")
    first, *_ = run(memory.remember_turn("s", [Message.user(FACTS[0]), Message.user(FACTS[1])]))
    assert run(short_term.window()).summary is not None
    tell(memory)
    assert run(memory.conversations.summary("s", "summary")) is not None
    receipt = run(memory.forget([first.id]))
    assert receipt.parts["summaries"] == 1
    assert run(memory.conversations.summary("s", "summary")) is None
    assert b"zyzzyva" not in bytes_in(tmp_path)
    run(memory.close())


def test_forgetting_a_message_erases_a_summary_of_another_session_with_a_copy_of_it(memory: LongTermMemory) -> None:
    first, *_ = run(memory.remember_turn("t", [Message.user(FACTS[0])]))
    run(memory.remember_turn("s", [Message.user("one"), Message.user("two")]))
    policy = SummaryWindow(FixedWindow(messages=1), lambda so_far, said: f"Known: {FACTS[0]}")
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    run(memory.forget([first.id]))
    assert run(memory.conversations.summary("s", "summary")) is None
    assert len(run(memory.conversations.load("s"))) == 2


def test_forgetting_a_short_word_keeps_a_summary_that_has_it_only_within_another_word(memory: LongTermMemory) -> None:
    first, *_ = run(memory.remember_turn("t", [Message.user("cat")]))
    run(memory.remember_turn("s", [Message.user("one"), Message.user("two")]))
    policy = SummaryWindow(FixedWindow(messages=1), lambda so_far, said: "They spoke of education.")
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    run(memory.forget([first.id]))
    assert run(memory.conversations.summary("s", "summary")) is not None


def test_forgetting_a_namespace_erases_its_summaries(memory: LongTermMemory, tmp_path: Path) -> None:
    tell(memory)
    policy = SummaryWindow(FixedWindow(messages=2), lambda so_far, said: "They spoke of a zyzzyva.")
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    run(memory.forget_namespace(namespace=""))
    assert run(memory.conversations.summary("s", "summary")) is None
    assert b"zyzzyva" not in bytes_in(tmp_path)


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def image(caption: str = "", name: str = "", data: bytes = PICTURE) -> ImageBlock:
    return ImageBlock(media_type="image/png", data=data, caption=caption, name=name)


def test_an_image_alone_is_found_by_its_caption(with_meaning: LongTermMemory) -> None:
    tell(with_meaning)
    (report,) = run(with_meaning.remember_turn("s", [Message.user([image("a lighthouse in the fog", "IMG_20.png")])]))
    assert report.outcome == "stored"
    found = run(with_meaning.recall("Where was the lighthouse?", 1))
    assert found[0].memory.id == report.id
    assert (found[0].memory.kind, found[0].memory.sequence) == ("turn", 17)
    assert "a lighthouse in the fog" in found[0].memory.text


def test_an_image_alone_is_found_by_its_name(memory: LongTermMemory) -> None:
    tell(memory)
    (report,) = run(memory.remember_turn("s", [Message.user([image(name="lighthouse.png")])]))
    assert run(memory.recall("lighthouse.png", 1))[0].memory.id == report.id
    assert run(memory.recall("Is there a picture of the lighthouse?", 1))[0].memory.id == report.id


def test_a_document_alone_is_found_by_its_name(memory: LongTermMemory) -> None:
    tell(memory)
    file = DocumentBlock(media_type="application/pdf", data=b"%PDF", name="tenancy agreement.pdf")
    (report,) = run(memory.remember_turn("s", [Message.user([file])]))
    assert run(memory.recall("Where is the tenancy agreement?", 1))[0].memory.id == report.id


def test_a_message_of_text_and_image_is_recalled_by_the_caption(memory: LongTermMemory) -> None:
    tell(memory)
    user = Message.user([TextBlock(text="My new friend!"), image("a ginger kitten")])
    (report,) = run(memory.remember_turn("s", [user]))
    (hit,) = run(memory.recall("the ginger kitten", 1))
    assert (hit.memory.id, hit.memory.text, hit.memory.caption) == (report.id, "My new friend!", "a ginger kitten")


def test_history_returns_messages_of_images_alone_unchanged(memory: LongTermMemory) -> None:
    items = [Message.user([image("a cat", "miso.png")]), Message.user([image()])]
    run(memory.remember_turn("s", items))
    assert [item.message for item in run(memory.conversations.load("s"))] == items


def test_forgetting_one_image_leaves_the_others(memory: LongTermMemory) -> None:
    items = [Message.user([image(data=b"one")]), Message.user([image(data=b"two")]), Message.user("Look, an image!")]
    first, second, third = run(memory.remember_turn("s", items))
    run(memory.forget([first.id]))
    assert [item is None for item in run(memory.get([first.id, second.id, third.id]))] == [True, False, False]
    assert len(run(memory.conversations.load("s"))) == 2


def test_forgetting_an_image_message_also_forgets_its_verbatim_copy(memory: LongTermMemory) -> None:
    items = [Message.user([image("a cat")]), Message.user([image("a cat")])]
    first, second = run(memory.remember_turn("s", items))
    receipt = run(memory.forget([first.id]))
    assert (receipt.also, receipt.messages) == ((second.id,), 2)


def test_an_image_message_in_history_alone_is_remembered_on_opening(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/m.db", fields=DECLARED_FIELDS)
    run(DatabaseHistory(store.database).append("s", [Message.user([image("a lighthouse")])]))  # type: ignore[attr-defined]
    store.close()
    memory = open_memory(tmp_path / "m.db")
    assert "lighthouse" in recalled(memory, "the lighthouse")[0]
    run(memory.close())


def test_write_policies_judge_the_placeholder_text_of_an_image(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", policies=[MinimumLength(500)])
    (report,) = run(memory.remember_turn("s", [Message.user([image("a cat")])]))
    assert (report.outcome, report.reason) == ("rejected", "too short")
    run(memory.close())


def test_placeholder_texts_differ_between_media() -> None:
    item, other = (media_text(Message.user([image(data=data)])) for data in (b"one", b"two"))
    assert item != other
    assert item.startswith("(image: ")
    both = Message.user([image("a cat", "miso.png"), image("", "dog.png"), image()])
    assert image_captions(both) == "a cat (miso.png); dog.png"
    assert media_text(both).count("(image: ") == 3
    assert media_text(Message.user("words")) == image_captions(Message.user("words")) == ""


def test_the_excerpt_of_a_message_is_one_short_line() -> None:
    assert message_excerpt(Message.user("  one\n two ")) == "one two"
    assert message_excerpt(Message.user("ab" * 50), 10) == "ababababa…"
    assert message_excerpt(Message.user([image("a cat")])) == "a cat"
    assert message_excerpt(Message.user([image()])).startswith("(image: ")
