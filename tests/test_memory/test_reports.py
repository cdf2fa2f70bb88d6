"""Write reports: one for every item, with its outcome (stored, duplicate, redacted, rejected, truncated, deferred).

Inner parts, on no face: ``tellback.memory.write.embedding_service``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import (
    DuplicateKey,
    Extractor,
    HashingEmbedder,
    Judge,
    LongTermMemory,
    Memory,
    Message,
    MinimumLength,
    NearDuplicates,
    NoSecrets,
    TextBlock,
    run_sync,
)
from tellback.memory.internals import Outcome
from tellback.memory.write.embedding_service import SPACE_SWITCHED
from tellback.vectorstore import Space, open_store
from tests.support.homes import HOMES, address_in_home

CARDS = "Pay with 4111 1111 1111 1111 or with 5500 0000 0000 0004."


@pytest.fixture(params=HOMES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    made: list[LongTermMemory] = []

    def memory(*policies: object, **options: object) -> LongTermMemory:
        url = address_in_home(request, tmp_path, str(len(made)))
        made.append(LongTermMemory(open_store(url), policies=policies, **options))
        return made[-1]

    yield memory
    for each in made:
        run_sync(each.close())


def test_every_write_call_reports_the_number_and_kind_of_redacted_spans(make):
    memory = make(NoSecrets())
    each = run_sync(memory.remember(CARDS))
    (many,) = run_sync(memory.remember_many([CARDS]))
    turn = run_sync(memory.remember_turn("s", [Message.user(CARDS), Message.assistant("Thanks.")]))
    correction = run_sync(memory.correct(turn[1].id, CARDS))
    for line in (each, many, turn[0], correction):
        assert (line.outcome, line.spans, line.reason) == (Outcome.REDACTED, 2, "secret: card number")
        assert line.operation is not None


def test_rejected_derived_memories_have_reports_of_their_own(make):
    facts = Extractor(lambda turn: ["ok", "Ana lives in Porto.", "My PIN is 4821."], kinds=["fact"])
    memory = make(facts, MinimumLength(4), NoSecrets("reject"))
    for line in (run_sync(memory.remember("Ana told me.")), run_sync(memory.remember_many(["Ana said so."]))[0]):
        assert [(made.outcome, made.reason) for made in line.made] == [
            (Outcome.REJECTED, "too short"),
            (Outcome.STORED, ""),
            (Outcome.REJECTED, "secret: PIN"),
        ]
        assert [made.id != "" for made in line.made] == [False, True, False]
    turns = make(replace_kinds(facts), MinimumLength(4), NoSecrets("reject"))
    given = run_sync(turns.remember_turn("s", [Message.user("Ana told me."), Message.assistant("Good.")]))
    assert [len(line.made) for line in given] == [3, 0]


def replace_kinds(facts: Extractor) -> Extractor:
    return Extractor(facts.function)


def test_remember_turn_returns_one_report_for_each_message_in_order(make):
    memory = make(MinimumLength(5), NoSecrets(), NearDuplicates(fold=True), Judge(lambda one: "lunch" not in one.text))
    run_sync(memory.remember_turn("s", [Message.user("The boat is in the harbour.")]))
    messages = [
        Message.system("Be kind."),
        Message.user("ok"),
        Message.user("The boat is in the harbour."),
        Message(role="assistant", blocks=[TextBlock(text="  ")]),
        Message.assistant(CARDS),
        Message.user("What is for lunch?"),
        Message.user("Where is the key of the boat?"),
    ]
    lines = run_sync(memory.remember_turn("s", messages))
    assert [(str(line.outcome), bool(line.id)) for line in lines] == [
        ("rejected", False),
        ("rejected", False),
        ("near-duplicate", True),
        ("rejected", False),
        ("redacted", True),
        ("rejected", False),
        ("stored", True),
    ]
    assert all(line.reason for line in lines[:-1])
    assert len(run_sync(memory.conversations.load("s"))) == 8


# --- idempotency keys


def test_an_idempotency_key_covers_text_and_caption_within_its_namespace(make):
    memory = make()
    item = Memory("The view", caption="a harbour", key="view")
    first = run_sync(memory.remember(item))
    again = run_sync(memory.remember(item))
    assert (again.outcome, again.id, again.of, again.operation) == (Outcome.DUPLICATE, first.id, first.id, None)
    with pytest.raises(DuplicateKey):
        run_sync(memory.remember(replace(item, caption="a mountain")))
    other = run_sync(memory.remember(replace(item, caption="a mountain"), namespace="other"))
    assert other.stored
    assert other.id != first.id
    (kept,) = run_sync(memory.get([first.id]))
    assert kept.caption == "a harbour"


def test_the_idempotency_key_of_a_forgotten_memory_can_be_used_again_and_clears_its_tombstone(make):
    memory = make()
    first = run_sync(memory.remember(Memory("Ana lives in Porto.", key="ana")))
    run_sync(memory.forget([first.id]))
    again = run_sync(memory.remember(Memory("Ana lives in Porto.", key="ana")))
    assert (again.outcome, again.id) == (Outcome.STORED, first.id)
    lane = "/conversation"
    assert memory.tombstones.which(lane, [first.id]) == set()
    assert run_sync(memory.remember(Memory("Ana lives in Porto.", key="ana"))).outcome is Outcome.DUPLICATE


# --- deferred vectors


class Switching(HashingEmbedder):
    """An embedder during whose answer somebody else switches the file to another space."""

    store = None

    async def embed(self, texts, kind="document"):
        made = await super().embed(texts, kind)
        store, Switching.store = Switching.store, None
        if store is not None:
            other = Space("other/1", 2)
            store.begin_space(other)
            for entry in list(store.unfilled(namespace="/conversation")):
                store.fill_space(other, {entry.id: np.ones(2, np.float32)}, namespace="/conversation")
            store.commit_space(other)
        return made


def test_a_vector_of_a_space_switched_meanwhile_is_not_stored_and_reported_as_deferred(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), embedder=Switching())
    kept = run_sync(memory.remember("Ana lives in Porto.")).id
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    Switching.store = other
    line = run_sync(memory.remember("Ana has a boat."))
    assert (line.outcome, line.deferred) == (Outcome.STORED, SPACE_SWITCHED)
    stored = memory.store.get([kept, line.id], namespace="/conversation")
    assert [None if each.vector is None else len(each.vector) for each in stored] == [2, None]
    Switching.store = None
    other.close()
    run_sync(memory.close())
