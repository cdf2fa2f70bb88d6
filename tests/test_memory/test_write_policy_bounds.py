"""Policies at their bounds, and memories derived from a turn with the strictest marks of their sources.

Inner parts, on no face: ``tellback.memory.write.draft``, ``tellback.memory.write.policies.base``,
``tellback.memory.write.policy_runner``.
"""

from __future__ import annotations

import pytest

from tellback.memory import (
    ExtractedFact,
    Extractor,
    LongTermMemory,
    Memory,
    MemoryTurn,
    Message,
    MinimumLength,
    NearDuplicates,
    TurnDecision,
    run_sync,
)
from tellback.memory.internals import Outcome
from tellback.memory.write.draft import Draft
from tellback.memory.write.policies.base import accept_all
from tellback.memory.write.policy_runner import PolicyRules, apply_policies
from tellback.vectorstore import open_store


def _drafts(memories: list[Memory]) -> list[Draft]:
    return [Draft.new(memory, origin=place, turn=0) for place, memory in enumerate(memories)]


class Together:
    """Policy that derives one memory from a turn and leaves its messages unchanged."""

    def decide(self, memory):
        raise AssertionError("a turn is asked about as one")

    def decide_turn(self, turn: MemoryTurn) -> TurnDecision:
        every = tuple(range(len(turn.memories)))
        return TurnDecision(accept_all(turn), ((Memory("together", kind="summary"), every),))


@pytest.mark.parametrize(("text", "kept"), [("12345", False), ("123456", True), ("  12345  ", False), ("äöüß…", False)])
def test_a_text_must_have_strictly_more_characters_than_the_minimum(text, kept):
    memory = LongTermMemory(open_store("numpy:"), policies=[MinimumLength(5)])
    assert run_sync(memory.remember(text)).stored is kept
    assert run_sync(memory.remember_many([text[::-1]]))[0].stored is kept


@pytest.mark.parametrize(("answer", "kept"), [("123", False), ("1234", True), (" 123 ", False), ("äöü", False)])
def test_a_turn_must_have_strictly_more_of_prompt_and_answer_together(answer, kept):
    memory = LongTermMemory(open_store("numpy:"), policies=[MinimumLength(5, of="turn")])
    lines = run_sync(memory.remember_turn("s", [Message.user("ab"), Message.assistant(answer)]))
    assert [line.stored for line in lines] == [kept, kept]
    assert {line.reason for line in lines} == ({""} if kept else {"too short"})
    assert len(run_sync(memory.conversations.load("s"))) == 2


def test_a_word_share_equal_to_the_threshold_is_a_near_duplicate():
    memory = LongTermMemory(open_store("numpy:"), policies=[NearDuplicates(words=0.75)])
    item = run_sync(memory.remember("the plumber comes"))
    at_it = run_sync(memory.remember("the plumber comes tomorrow"))  # three of four
    assert (at_it.outcome, at_it.of) == (Outcome.STORED, item.id)
    below = run_sync(memory.remember("plumber comes on friday then"))
    assert below.of is None


def test_a_memory_derived_from_several_takes_the_strictest_trust_scopes_and_sensitivity():
    items = [
        Memory("a", scopes={"user": "ann", "project": "x"}, speaker="Ann", actor="user"),
        Memory("b", scopes={"user": "ann", "project": "y"}, speaker="Bot", actor="tool", trust="tool", sensitive=True),
    ]
    own = run_sync(apply_policies(_drafts(items), PolicyRules((Together(),))))
    assert [item.memory for item in own] == items
    (made,) = own[0].facts
    memory = made.memory
    assert (dict(memory.scopes), memory.speaker, memory.sensitive) == ({"user": "ann"}, None, True)
    assert (memory.trust, memory.actor, made.origins) == ("tool", "tool", (0, 1))


def test_a_fact_that_names_its_scopes_and_speaker_keeps_them():
    fact = ExtractedFact(Memory("f", scopes={"project": "z"}, speaker="Eve"), (0,))
    rules = PolicyRules((Extractor(lambda turn: [fact], kinds=["fact"]),))
    (own,) = run_sync(apply_policies(_drafts([Memory("a", scopes={"user": "ann"}, speaker="Ann")]), rules))
    (made,) = own.facts
    assert (dict(made.memory.scopes), made.memory.speaker, made.origins) == ({"project": "z"}, "Eve", (0,))
