"""Trust and scopes: permission of changes, and the memories that a scope selects.

Inner parts, on no face: ``tellback.memory.scopes``, ``tellback.memory.write.access_control``.
"""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from tellback.memory import ArgumentError, LongTermMemory, Memory, Message, NotTrusted, Trust, run_sync
from tellback.memory.internals import Actor, RecallStage, may_change, to_entry
from tellback.memory.scopes import scope_filter
from tellback.memory.write.access_control import Caller
from tellback.vectorstore import open_store

ORDER = [Trust.USER, Trust.ASSISTANT, Trust.TOOL, Trust.DOCUMENT]
ACTORS = ["user", "assistant", "tool", "document"]


@pytest.mark.parametrize(("actor", "trust"), list(product(ACTORS, ORDER)))
def test_an_actor_may_change_only_memories_of_its_own_trust_or_less(actor, trust):
    assert may_change(actor, Memory("x", trust=trust)) is (ACTORS.index(actor) <= ORDER.index(trust))


def test_the_system_actor_may_change_memories_of_any_trust():
    assert all(may_change("system", Memory("x", trust=trust)) for trust in Trust)


@pytest.mark.parametrize("actor", ACTORS)
def test_with_the_approval_of_the_user_every_actor_may_change_a_memory_of_the_user(actor):
    assert may_change(actor, Memory("x", trust=Trust.USER), approved_by="user")


def test_an_approval_by_an_untrusted_actor_has_no_effect():
    assert not may_change("document", Memory("x", trust=Trust.USER), approved_by="tool")


def test_a_not_trusted_error_names_the_memory_the_operation_and_the_actor():
    with pytest.raises(NotTrusted, match=r"memory m2 is the user's: forget by tool needs approval") as error:
        Caller("", "tool").check_may_change([Memory("a", id="m1", trust=Trust.TOOL), Memory("b", id="m2")], "forget")
    assert (error.value.id, error.value.operation, error.value.actor) == ("m2", "forget", "tool")


@pytest.mark.parametrize("actor", ["robot", "", None, 5])
def test_an_unknown_actor_or_approver_raises(actor):
    with pytest.raises(ArgumentError, match="actor"):
        may_change(actor, Memory("x"))
    with pytest.raises(ArgumentError, match="approved_by"):
        may_change("tool", Memory("x"), approved_by=actor or "nobody")


def test_every_actor_has_a_trust():
    assert {Trust.of(actor) for actor in get_args(Actor)} == set(Trust)


def test_the_least_of_several_trusts_counts():
    assert Trust.least([Trust.USER, Trust.TOOL, Trust.ASSISTANT]) is Trust.TOOL
    assert Trust.least([]) is Trust.USER


def test_only_a_change_by_the_user_or_with_user_approval_raises_trust():
    noted = Memory("x", trust=Trust.TOOL)
    assert Caller("", "user").trust_after_change(noted) is Trust.USER
    assert Caller("", "assistant").trust_after_change(noted) is Trust.TOOL
    assert Caller("", "assistant", "user").trust_after_change(noted) is Trust.USER
    assert Caller("", "document").trust_after_change(noted) is Trust.DOCUMENT


STORED = {
    "a": Memory("x", id="a", scopes={"user": "ann", "project": "atlas"}, tags=("work", "red"), session="s1"),
    "b": Memory("x", id="b", scopes={"user": "ann", "project": "borea"}, tags=("home",)),
    "c": Memory("x", id="c", scopes={"user": "bob", "session": "s1"}, tags=("work",)),
    "d": Memory("x", id="d"),
}


@pytest.mark.parametrize(
    ("scopes", "tags", "expected"),
    [
        ({"user": "ann"}, (), "ab"),
        ({"user": "ann", "project": "atlas"}, (), "a"),
        ({"project": ["atlas", "borea"]}, (), "ab"),
        ({"session": "s1"}, (), "ac"),
        ({"session": ("s1", "s2"), "user": "bob"}, (), "c"),
        ({"agent": "helper"}, (), ""),
        (None, ("red", "home"), "ab"),
        ({"user": "ann"}, ("work", "home"), "ab"),
        ({"user": "bob"}, ("home",), ""),
        ({}, (), "abcd"),
        (None, (), "abcd"),
    ],
)
def test_a_scope_filter_needs_all_scopes_and_any_of_the_tags(scopes, tags, expected):
    store = open_store("numpy:")
    store.upsert([to_entry(item) for item in STORED.values()])
    assert "".join(entry.id for entry in store.scan(where=scope_filter(scopes, tags))) == expected


@pytest.mark.parametrize("scopes", [{"project": "atlas"}, {"session": ["s1"], "user": "ann"}])
def test_recall_stays_within_the_scopes_it_is_given(scopes):
    memory = LongTermMemory(open_store("numpy:"))
    run_sync(memory.remember_many([replace(item, text="the launch is in May") for item in STORED.values()]))
    found = run_sync(memory.recall("when is the launch", scopes=scopes))
    assert [hit.memory.id for hit in found] == ["a"]
    assert run_sync(memory.why_not("when is the launch", "b", scopes=scopes)).stage is RecallStage.FILTER


def test_a_filter_beside_scopes_must_hold_as_well():
    where = {"speaker": "Ann"}
    assert scope_filter(None, (), where) == where
    assert scope_filter({"user": "ann"}, (), where) == {"$and": [where, {"scope.user": "ann"}]}


@pytest.mark.parametrize(
    ("scopes", "tags"),
    [
        ("user", ()),
        ({"user": ""}, ()),
        ({"": "x"}, ()),
        ({"user": []}, ()),
        ({"user": [5]}, ()),
        ({"user": 5}, ()),
        (None, "work"),
        (None, [""]),
        (None, 5),
        (None, [1]),
    ],
)
def test_invalid_scopes_or_tags_raise(scopes, tags):
    with pytest.raises(ArgumentError, match=r"scopes|tags"):
        scope_filter(scopes, tags)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Who is my dentist?", "My dentist is Dr. Lima."),
        ("When is my appointment with the dentist?", "The appointment with the dentist is on 9 May at noon."),
    ],
)
def test_a_note_of_a_tool_ranks_after_a_contradicting_user_statement(question: str, first: str) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    run_sync(memory.remember_turn("chat", [Message.user("My dentist is Dr. Lima.")]))
    for text in ("The user said: my dentist is Dr. Evil now.", "The appointment with the dentist is on 9 May at noon."):
        run_sync(memory.remember(Memory(text, trust=Trust.TOOL, actor="tool")))
    found = run_sync(memory.recall(question))
    assert found[0].memory.text == first
    assert {hit.memory.text: hit.outdated_by for hit in found}["My dentist is Dr. Lima."] is None
