"""Messages that memory lacks are remembered as they would have been when they were said: facts, links, turns.

Inner parts, on no face: ``tellback.memory.write.memory_writer``, and of ``tellback.memory.write`` ``crash_recovery``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import (
    ExtractedFact,
    Extractor,
    ImageBlock,
    Judge,
    LongTermMemory,
    Memory,
    Message,
    NearDuplicates,
    Trust,
    run_sync,
)
from tellback.memory.write import crash_recovery
from tellback.memory.write.memory_writer import memory_from_message
from tellback.vectorstore import open_store
from tests.support.homes import SERVER_HOME, address_in_home

Make = Callable[..., LongTermMemory]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Asked:
    """Embedder that records the texts it was given."""

    remote = False
    fingerprint = "asked/4"
    dimension = 4

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts, kind="document"):
        self.texts += texts
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.fixture(params=["sqlite", pytest.param("numpy", marks=pytest.mark.slow), SERVER_HOME])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[LongTermMemory] = []

    def memory(*policies: object, **options: object) -> LongTermMemory:
        url = address_in_home(request, tmp_path, str(len(made)))
        made.append(LongTermMemory(open_store(url), policies=policies, **options))
        return made[-1]

    yield memory
    for item in made:
        run_sync(item.close())


def lost(memory: LongTermMemory, *said: str, session: str = "s") -> None:
    """Put messages into history alone: the user's and the assistant's in turn."""
    messages = [Message.user(text) if place % 2 == 0 else Message.assistant(text) for place, text in enumerate(said)]
    run_sync(memory.conversations.append(session, messages))


def by_text(memory: LongTermMemory) -> dict[str, Memory]:
    return {item.text: item for item in run_sync(memory.list())}


def test_crash_recovery_extracts_facts_with_their_sources(make: Make) -> None:
    memory = make(Extractor(lambda whole: [ExtractedFact("Rex is a dog.", (0,)), "They met."]))
    lost(memory, "My dog is Rex.", "A fine name.")
    assert run_sync(memory.complete()) == 2
    present = by_text(memory)
    question, answer = present["My dog is Rex."], present["A fine name."]
    own, both = present["Rex is a dog."], present["They met."]
    assert (own.derived_from, own.trust, own.actor) == ((question.id,), Trust.USER, "user")
    assert (both.derived_from, both.trust) == ((question.id, answer.id), Trust.ASSISTANT)
    assert (own.session, own.source.session, own.source.sequence) == ("s", "s", 1)
    (operation,) = run_sync(memory.operations())
    assert {change.id for change in operation.changes} == {item.id for item in present.values()}
    assert (operation.kind, operation.actor, operation.id) == ("remember", "assistant", own.operation)
    run_sync(memory.undo(operation.id))
    assert by_text(memory) == {}


def test_crash_recovery_extracts_facts_once_when_facts_alone_are_kept(make: Make) -> None:
    asked = []
    memory = make(Extractor(lambda whole: asked.append(whole.text) or ["Rex is a dog."], keep=False))
    lost(memory, "My dog is Rex.")
    assert [run_sync(memory.complete()), run_sync(memory.complete())] == [0, 0]
    assert (list(by_text(memory)), asked) == (["Rex is a dog."], ["My dog is Rex."])


def test_crash_recovery_links_near_duplicates_without_calling_the_embedder(make: Make) -> None:
    embedder = Asked()
    memory = make(NearDuplicates(), embedder=embedder)
    first = run_sync(memory.remember(Memory("The plumber comes on Friday.", kind="turn", role="user")))
    embedder.texts.clear()
    lost(memory, "the plumber comes on Friday", "Good.", "My dog is called Rex.", "So I hear.", "My dog is called rex!")
    assert run_sync(memory.complete()) == 5
    assert embedder.texts == []
    present = by_text(memory)
    assert present["the plumber comes on Friday"].metadata == {"near": first.id}
    assert present["My dog is called rex!"].metadata == {"near": present["My dog is called Rex."].id}
    assert present["Good."].metadata == {}
    assert run_sync(memory.pending()) == 5


def test_crash_recovery_judges_turns_whole_despite_interleaved_sessions(make: Make) -> None:
    turns = []
    memory = make(Judge(lambda whole: turns.append([item.text for item in whole.memories]) or True, of="turn"))
    for text, session in (("q1", "a"), ("p1", "b")):
        lost(memory, text, session=session)
    run_sync(memory.conversations.append("a", [Message.assistant("a1"), Message.user("q2")]))
    run_sync(memory.conversations.append("b", [Message.assistant("b1")]))
    run_sync(memory.conversations.append("a", [Message.user("x1")], namespace="x"))
    run_sync(memory.conversations.append("a", [Message.assistant("a2")]))
    assert run_sync(memory.complete()) == 7
    assert sorted(turns) == [["p1", "b1"], ["q1", "a1"], ["q2", "a2"], ["x1"]]


def test_crash_recovery_splits_no_turn_between_batches(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_recovery, "_BATCH_SIZE", 16)
    turns = []
    memory = make(Judge(lambda whole: turns.append(len(whole.memories)) or True, of="turn"))
    run_sync(memory.conversations.append("s", [Message.user(f"message {i}") for i in range(16)]))
    run_sync(memory.conversations.append("s", [Message.assistant("an answer")]))
    assert run_sync(memory.complete()) == 17
    assert sorted(turns)[-2:] == [1, 2]
    assert len(turns) == 16


def test_crash_recovery_remembers_a_turn_longer_than_a_batch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_recovery, "_BATCH_SIZE", 16)
    memory = make()
    items = [Message.user("Tell me all."), *(Message.assistant(f"part {i}") for i in range(20))]
    run_sync(memory.conversations.append("s", items))
    assert (run_sync(memory.complete()), run_sync(memory.count())) == (21, 21)


def test_crash_recovery_uses_the_id_reserved_for_a_message(make: Make) -> None:
    memory = make(Extractor(lambda whole: ["a fact"]))
    memory.conversations.rows.append("s", [Message.user("said once")], memories=["reserved"])
    assert run_sync(memory.complete()) == 1
    present = by_text(memory)
    assert (present["said once"].id, present["a fact"].derived_from) == ("reserved", ("reserved",))


def test_crash_recovery_settles_a_message_with_a_stored_memory_without_judging_it_again(make: Make) -> None:
    asked = []
    memory = make(Extractor(lambda whole: asked.append(whole.text) or ["a fact"]))
    memory.conversations.rows.append("s", [Message.user("said once")], memories=["reserved"])
    run_sync(memory.remember(Memory("said once", id="reserved")))
    assert run_sync(memory.complete()) == 0
    assert (asked, list(by_text(memory))) == ([], ["said once"])
    assert memory.conversations.rows.unsettled(10) == []
    assert run_sync(memory.conversations.load("s"))[0].memory == "reserved"


def test_crash_recovery_stores_neither_messages_nor_facts_forgotten_during_judging(make: Make) -> None:
    memory = make()

    def facts(whole):
        run_sync(memory.forget(session="s"))
        return [ExtractedFact("Rex is a dog.", (0,)), "They met."]

    judging = LongTermMemory(memory.store, history=memory.conversations, policies=[Extractor(facts)])
    lost(memory, "My dog is Rex.", "A fine name.")
    assert run_sync(judging.complete()) == 0
    assert by_text(memory) == {}


def test_crash_recovery_stores_no_placeholder_text_of_an_image_forgotten_during_judging(make: Make) -> None:
    """The message has no words of its own, so that forgetting them leaves it in history."""
    picture = Message(role="user", blocks=[ImageBlock(media_type="image/png", data=b"x", name="harbour.png")])
    words = memory_from_message(picture, "s", NOW).text
    memory = make(clock=lambda: NOW)
    stated = run_sync(memory.remember(words)).id

    def facts(whole):
        run_sync(judging.forget([stated]))
        return ["a fact"]

    judging = LongTermMemory(memory.store, history=memory.conversations, policies=[Extractor(facts)], clock=lambda: NOW)
    run_sync(memory.conversations.append("s", [picture]))
    assert run_sync(judging.complete()) == 0
    assert by_text(memory) == {}
    assert len(run_sync(memory.conversations.load("s"))) == 1
