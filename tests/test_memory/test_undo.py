"""Undo: the exact inverse, all or nothing, refused on a conflicting later change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tellback.memory import (
    ArgumentError,
    CannotUndo,
    HashingEmbedder,
    LongTermMemory,
    Memory,
    Message,
    NoSuchMemory,
    NotTrusted,
    run_sync,
)
from tellback.memory.internals import Operation
from tellback.vectorstore import LifecycleStore, open_store
from tests.support.clocks import TickingClock
from tests.support.slow import first_fast

START = datetime(2026, 1, 1, tzinfo=UTC)
CHANGING = {"revision": 0, "recorded_at": None, "operation": None, "actor": "user"}


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, embedder=HashingEmbedder(), clock=TickingClock(START, timedelta(hours=1)))


def get(memory: LongTermMemory, id: str) -> Memory | None:
    (found,) = run_sync(memory.get([id]))
    return found


def found(memory: LongTermMemory, question: str, **options: Any) -> list[str]:
    return sorted(hit.memory.text for hit in run_sync(memory.recall(question, **options)))


def last(memory: LongTermMemory) -> Operation:
    return run_sync(memory.operations(limit=1))[0]


def plain(one: Memory | None) -> Memory | None:
    """Return *one* without what tells when and by which operation this version was written."""
    return None if one is None else replace(one, **CHANGING, counts_from=None)


DEEDS: dict[str, Callable[[LongTermMemory, str, str], Awaitable[Any]]] = {
    "correct": lambda memory, one, _: memory.correct(one, "I live in Porto.", valid_from=START),
    "merge": lambda memory, one, other: memory.merge([one, other], "I live in Lisbon and have a boat."),
    "end": lambda memory, one, _: memory.end(one, START),
    "pin": lambda memory, one, other: memory.pin([one, other]),
    "unpin": lambda memory, _, other: memory.unpin(other),
    "disable": lambda memory, one, _: memory.disable([one]),
    "enable": lambda memory, _, other: memory.enable(other),
    "promote": lambda memory, one, _: memory.promote(one),
    "demote": lambda memory, one, other: memory.demote([one, other]),
    "tag": lambda memory, one, _: memory.tag(one, ["home", "city"]),
    "untag": lambda memory, one, _: memory.untag([one], ["place"]),
    "importance": lambda memory, one, _: memory.set_importance(one, 0.0),
    "describe": lambda memory, one, other: memory.describe({one: "my home: town", other: "boat: whose"}),
    "expire": lambda memory, one, _: memory.expire(one, START + timedelta(days=900)),
}


@pytest.mark.parametrize("rounds", first_fast([1, 2]))
@pytest.mark.parametrize("deed", DEEDS)
def test_undo_restores_the_previous_state_and_undo_of_the_undo_redoes_the_operation(memory, deed, rounds):
    tags = ("place", "old")
    item = run_sync(memory.remember(Memory("I live in Lisbon.", tags=tags, importance=0.5, key="home"))).id
    other = run_sync(memory.remember(Memory("I have a boat.", pinned=True, disabled=deed == "enable"))).id
    before = [plain(get(memory, id)) for id in (item, other)]
    run_sync(DEEDS[deed](memory, item, other))
    done = last(memory)
    after = [plain(get(memory, id)) for id in (item, other)]
    assert done.kind == deed
    assert before != after
    for _ in range(rounds):
        undoing = run_sync(memory.undo(done.id))
        assert undoing.undoes == done.id
        assert [plain(get(memory, id)) for id in (item, other)] == before
        done = run_sync(memory.undo(undoing.id))
        assert [plain(get(memory, id)) for id in (item, other)] == after


def test_undo_restores_the_vector_and_terms_of_the_version(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    (first,) = memory.store.get([item], namespace="/conversation")
    run_sync(memory.correct(item, "I live in Porto."))
    run_sync(memory.undo(last(memory).id))
    (again,) = memory.store.get([item], namespace="/conversation")
    assert again.vector.tolist() == first.vector.tolist()
    assert found(memory, "Lisbon") == ["I live in Lisbon."]
    assert found(memory, "Porto") == ["I live in Lisbon."]  # nearest by vector; the words of the other are gone
    assert memory.store.verify() == []


def test_undo_of_remember_removes_the_memory_from_recall_and_keeps_it_in_its_history(memory):
    report = run_sync(memory.remember("I live in Lisbon."))
    known = memory.clock()
    run_sync(memory.undo(report.operation))
    assert get(memory, report.id) is None
    assert found(memory, "Lisbon") == found(memory, "Lisbon", as_of=known) == []
    assert found(memory, "Lisbon", known_at=known) == ["I live in Lisbon."]
    history = run_sync(memory.history(report.id))
    assert [(version.text, version.withdrawn) for version in history] == [("I live in Lisbon.", True)]
    assert [version.kind for version in history.operations] == ["undo", "remember"]
    assert run_sync(memory.list()) == []


def test_undo_of_a_batch_or_a_turn_removes_all_its_memories(memory):
    batch = run_sync(memory.remember_many(["one thing", "another thing"]))
    turn = run_sync(memory.remember_turn("s", [Message.user("I sail."), Message.assistant("Where?")]))
    run_sync(memory.undo(turn[0].operation))
    assert sorted(item.text for item in run_sync(memory.list())) == ["another thing", "one thing"]
    run_sync(memory.undo(batch[0].operation))
    assert run_sync(memory.count()) == 0
    run_sync(memory.undo(last(memory).id))
    assert run_sync(memory.count()) == 2


def test_undo_of_an_import_removes_its_memories_and_their_earlier_versions(memory, tmp_path):
    given = LongTermMemory(open_store("numpy:"), clock=TickingClock(START, timedelta(hours=1)))
    item = run_sync(given.remember("I live in Lisbon.")).id
    run_sync(given.remember("I have a boat."))
    then = given.clock()
    run_sync(given.correct(item, "I live in Porto."))
    run_sync(given.export(tmp_path / "x.jsonl"))
    run_sync(memory.import_(tmp_path / "x.jsonl"))
    imported = last(memory)
    before = found(memory, "Where do I live?", as_of=then)
    assert before == ["I live in Lisbon."]
    undoing = run_sync(memory.undo(imported.id))
    assert found(memory, "Where do I live?", as_of=then) == found(memory, "Where do I live?") == []
    run_sync(memory.undo(undoing.id))
    assert found(memory, "Where do I live?", as_of=then) == before
    assert found(memory, "Where do I live?") == ["I live in Porto."]
    assert run_sync(memory.count()) == 2


def test_undo_of_a_batch_is_refused_while_one_memory_of_it_was_changed_since(memory):
    item, other = run_sync(memory.remember_many(["one thing", "another thing"]))
    run_sync(memory.correct(other.id, "a changed thing"))
    correction = last(memory).id
    with pytest.raises(CannotUndo, match=rf"{item.operation}.*{other.id} was changed since, by correct {correction}"):
        run_sync(memory.undo(item.operation))
    assert sorted(text.text for text in run_sync(memory.list())) == ["a changed thing", "one thing"]
    run_sync(memory.undo(correction))
    run_sync(memory.undo(item.operation))
    assert run_sync(memory.count()) == 0


def test_undo_is_refused_naming_a_later_change_of_the_same_memory(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    first, second = (run_sync(memory.correct(item, f"I live in {city}.")).operation for city in ("Porto", "Faro"))
    with pytest.raises(CannotUndo) as refused:
        run_sync(memory.undo(first))
    assert refused.value.in_the_way == second
    back = run_sync(memory.undo(second)).id
    run_sync(memory.undo(first))
    assert get(memory, item).text == "I live in Lisbon."
    with pytest.raises(CannotUndo, match="changed since"):
        run_sync(memory.undo(back))
    run_sync(memory.undo(last(memory).id))
    run_sync(memory.undo(back))
    assert get(memory, item).text == "I live in Faro."


def test_marks_and_corrections_are_undone_independently(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    pin = run_sync(memory.pin(item))
    correction = run_sync(memory.correct(item, "I live in Porto.")).operation
    tag = run_sync(memory.tag(item, ["home"]))
    run_sync(memory.undo(pin.id))
    assert (get(memory, item).pinned, get(memory, item).tags, get(memory, item).text) == (
        False,
        ("home",),
        "I live in Porto.",
    )
    run_sync(memory.undo(correction))
    assert (get(memory, item).tags, get(memory, item).text) == (("home",), "I live in Lisbon.")
    run_sync(memory.tag(item, ["city"]))
    with pytest.raises(CannotUndo, match="by tag"):
        run_sync(memory.undo(tag.id))


def test_a_redone_operation_can_be_undone_again(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    pin = run_sync(memory.pin(item))
    back = run_sync(memory.undo(pin.id))
    with pytest.raises(CannotUndo, match=f"taken back by {back.id}"):
        run_sync(memory.undo(pin.id))
    run_sync(memory.undo(back.id))
    assert get(memory, item).pinned
    run_sync(memory.undo(pin.id))
    assert not get(memory, item).pinned


def test_the_operation_log_names_the_undo_of_each_operation_after_repeated_redos(memory):
    report = run_sync(memory.remember("Ana lives in Porto."))
    chain = [report.operation]
    for _ in range(4):
        chain.append(run_sync(memory.undo(chain[-1])).id)
    named = {item.id: item.undone_by for item in run_sync(memory.operations())}
    assert [named[item] for item in chain] == [None, chain[2], None, chain[4], None]


def test_undo_of_an_erasing_forget_is_refused(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    correction = run_sync(memory.correct(item, "I live in Porto.")).operation
    forgotten = run_sync(memory.forget([item]))
    with pytest.raises(CannotUndo, match="gone for good"):
        run_sync(memory.undo(forgotten.operation))
    with pytest.raises(CannotUndo, match=rf"forgotten since, by {forgotten.operation}"):
        run_sync(memory.undo(correction))
    assert get(memory, item) is None


def test_a_memory_undone_or_merged_into_another_can_still_be_forgotten(memory):
    undone, item, other = (run_sync(memory.remember(Memory(f"The {what} secret.", session=what))) for what in "abc")
    run_sync(memory.undo(undone.operation))
    merge = run_sync(memory.merge([item.id, other.id], "Both are known.")).operation
    receipt = run_sync(memory.forget([undone.id]))
    assert (receipt.memories, receipt.versions) == ((undone.id,), 1)
    run_sync(memory.forget(session="c"))
    assert memory.store.count(namespace="/archive") == 1
    with pytest.raises(CannotUndo, match="forgotten since"):
        run_sync(memory.undo(merge))
    for id in (undone.id, other.id):
        with pytest.raises(NoSuchMemory):
            run_sync(memory.history(id))
        assert run_sync(memory.operations(memory=id, limit=1))[0].kind == "forget"
    assert run_sync(memory.forget([undone.id])).memories == ()


def test_undo_of_a_soft_delete_restores_the_memory_within_its_grace(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    correction = run_sync(memory.correct(item, "I live in Porto.")).operation
    pin = run_sync(memory.pin(item)).id
    forgotten = run_sync(memory.forget([item], grace=timedelta(days=90)))
    with pytest.raises(CannotUndo, match="forgotten since"):
        run_sync(memory.undo(correction))
    back = run_sync(memory.undo(forgotten.operation))
    assert get(memory, item).text == "I live in Porto."
    with pytest.raises(CannotUndo, match="forgotten again"):
        run_sync(memory.undo(back.id))
    with pytest.raises(CannotUndo, match=f"taken back by {back.id}"):
        run_sync(memory.undo(forgotten.operation))
    with pytest.raises(CannotUndo, match="had before was erased"):
        run_sync(memory.undo(pin))
    run_sync(memory.undo(correction))
    assert (get(memory, item).text, get(memory, item).pinned) == ("I live in Lisbon.", True)


def test_undo_does_not_restore_a_version_with_erased_text(memory):
    item = run_sync(memory.remember("The code of the safe is 4711.")).id
    correction = run_sync(memory.correct(item, "The safe was sold.")).operation
    other = run_sync(memory.remember("The code of the safe is 4711.")).id
    run_sync(memory.forget([other]))
    with pytest.raises(CannotUndo, match="erased"):
        run_sync(memory.undo(correction))
    assert get(memory, item).text == "The safe was sold."


def test_a_less_trusted_actor_changes_no_memory_without_approval(memory):
    item, other = (run_sync(memory.remember(text)).id for text in ("I live in Lisbon.", "I have a boat."))
    pinned = run_sync(memory.pin(other)).id
    for call in (
        memory.merge([item, other], "both", actor="assistant"),
        memory.end(item, START, actor="tool"),
        memory.pin(item, actor="assistant"),
        memory.disable([item], actor="document"),
        memory.expire(item, START, actor="tool", approved_by="assistant"),
        memory.undo(pinned, actor="assistant"),
        memory.undo(run_sync(memory.history(item)).operations[0].id, actor="tool"),
    ):
        with pytest.raises(NotTrusted):
            run_sync(call)
    assert [len(run_sync(memory.history(id)).operations) for id in (item, other)] == [1, 2]
    undone = run_sync(memory.undo(pinned, actor="assistant", approved_by="user"))
    assert undone.actor == "assistant"
    noted = run_sync(memory.remember(Memory("A note.", trust="assistant"))).id
    assert run_sync(memory.tag(noted, ["x"], actor="assistant")).actor == "assistant"
    run_sync(memory.merge([item, noted], "I live in Lisbon, as noted."))
    assert get(memory, item).trust == "assistant"


def test_a_less_trusted_actor_cannot_undo_or_restore_an_operation_of_the_user(memory):
    noted = run_sync(memory.remember(Memory("A note.", trust="tool", actor="tool"))).id
    disabled = run_sync(memory.disable(noted)).id
    forgotten = run_sync(memory.forget([noted], grace=timedelta(days=90))).operation
    for actor in ("assistant", "tool", "document"):
        with pytest.raises(NotTrusted, match=rf"operation {forgotten} is the user's"):
            run_sync(memory.undo(forgotten, actor=actor))
        with pytest.raises(NotTrusted, match=forgotten):
            run_sync(memory.restore_forgotten(forgotten, actor=actor, approved_by="assistant"))
    assert get(memory, noted) is None
    run_sync(memory.undo(forgotten, actor="tool", approved_by="user"))
    with pytest.raises(NotTrusted, match=rf"operation {disabled} is the user's: undo by tool"):
        run_sync(memory.undo(disabled, actor="tool"))
    own = run_sync(memory.tag(noted, ["x"], actor="tool")).id
    assert run_sync(memory.undo(own, actor="tool")).actor == "tool"
    mine = run_sync(memory.remember("I live in Lisbon.")).id
    gone = run_sync(memory.forget([mine], grace=timedelta(days=90))).operation
    with pytest.raises(NotTrusted):
        run_sync(memory.restore_forgotten(gone, actor="assistant"))
    assert run_sync(memory.restore_forgotten(gone, actor="assistant", approved_by="user")).actor == "assistant"
    gone = run_sync(memory.forget([mine], grace=timedelta(days=90), actor="tool", approved_by="user")).operation
    with pytest.raises(NotTrusted, match=rf"memory {mine} is the user's: restore by tool"):
        run_sync(memory.restore_forgotten(gone, actor="tool"))  # its own operation, approved by the user


def test_undo_finds_a_conflicting_operation_behind_many_later_operations(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    pinned = run_sync(memory.pin(item)).id
    unpinned = run_sync(memory.unpin(item)).id
    tags = [run_sync(memory.tag(item, [f"tag {number}"])).id for number in range(45)]
    with pytest.raises(CannotUndo) as refused:
        run_sync(memory.undo(pinned))
    assert refused.value.in_the_way == unpinned
    with pytest.raises(CannotUndo, match=tags[1]):
        run_sync(memory.undo(tags[0]))
    run_sync(memory.undo(unpinned))
    assert get(memory, item).pinned
    run_sync(memory.undo(pinned))
    assert (get(memory, item).pinned, len(get(memory, item).tags)) == (False, 45)


def test_undo_does_not_overwrite_a_field_changed_without_the_operation_log(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    marked = run_sync(memory.set_importance(item, 0.5)).id
    (entry,) = memory.store.get([item], namespace="/conversation")
    memory.store.patch({item: {**entry.metadata, "importance": 0.9}}, namespace="/conversation")
    with pytest.raises(CannotUndo, match=r"importance of memory .* changed beside the log"):
        run_sync(memory.undo(marked))
    assert get(memory, item).importance == 0.9


@pytest.mark.parametrize("how", ["remember", "pin", "correct"])
def test_undo_is_refused_for_a_memory_deleted_without_the_operation_log(memory, how):
    report = run_sync(memory.remember(Memory("I live in Lisbon.", id="home")))
    done = {
        "remember": lambda: report.operation,
        "pin": lambda: run_sync(memory.pin("home")).id,
        "correct": lambda: run_sync(memory.correct("home", "I live in Porto.")).operation,
    }[how]()
    memory.store.delete(["home"], namespace="/conversation")
    with pytest.raises(CannotUndo, match="memory home is not there any more"):
        run_sync(memory.undo(done))


def test_undo_of_a_restore_or_an_export_is_refused_with_the_reason(memory, tmp_path):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    gone = run_sync(memory.forget([item], grace=timedelta(days=9))).operation
    restored = run_sync(memory.restore_forgotten(gone)).id
    with pytest.raises(CannotUndo, match="what was brought back can be forgotten again"):
        run_sync(memory.undo(restored))
    run_sync(memory.export(tmp_path / "x.jsonl"))
    with pytest.raises(CannotUndo, match="a file that was written elsewhere is not taken back"):
        run_sync(memory.undo(run_sync(memory.operations(limit=1))[0].id))


def test_redo_does_not_overwrite_a_memory_stored_without_the_operation_log(memory):
    report = run_sync(memory.remember(Memory("I live in Lisbon.", id="home")))
    (entry,) = memory.store.get(["home"], namespace="/conversation")
    undone = run_sync(memory.undo(report.operation))
    memory.store.upsert([entry], namespace="/conversation")
    with pytest.raises(CannotUndo, match="there is another memory home now"):
        run_sync(memory.undo(undone.id))


def test_after_repeated_undos_exactly_one_version_counts_at_every_moment(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    moments = [memory.clock()]
    done = run_sync(memory.correct(item, "I live in Porto.")).operation
    for _ in range(4):
        moments.append(memory.clock())
        done = run_sync(memory.undo(done)).id
        for moment in (*moments, memory.clock()):
            assert run_sync(memory.count(as_of=moment)) == run_sync(memory.count(known_at=moment)) == 1


def test_an_operation_that_cannot_be_logged_changes_nothing(memory, monkeypatch):
    report = run_sync(memory.remember(Memory("I live in Lisbon.", tags=("place",))))
    other = run_sync(memory.remember(Memory("I have a boat.", pinned=True))).id
    disabled = run_sync(memory.remember(Memory("I have a car.", disabled=True))).id
    before = [[*memory.store.scan(namespace=lane)] for lane in memory.store.namespaces()]
    log = run_sync(memory.operations())
    more = {
        "remember": lambda: memory.remember("Another thing."),
        "forget": lambda: memory.forget([report.id]),
        "undo": lambda: memory.undo(report.operation),
    }

    def full(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(type(memory.operation_log), "add", full)
    for deed in (*more, *DEEDS):
        with pytest.raises(OSError, match="full"):
            run_sync(
                more[deed]()
                if deed in more
                else DEEDS[deed](memory, report.id, disabled if deed == "enable" else other)
            )
        assert str([[*memory.store.scan(namespace=lane)] for lane in memory.store.namespaces()]) == str(before), deed
        assert run_sync(memory.operations()) == log, deed


def test_undo_rejects_an_operation_of_another_namespace_and_an_unknown_actor(memory):
    report = run_sync(memory.remember("mine", namespace="a"))
    with pytest.raises(ArgumentError, match="operation"):
        run_sync(memory.undo(report.operation, namespace="b"))
    with pytest.raises(ArgumentError, match="actor"):
        run_sync(memory.undo(report.operation, namespace="a", actor="nobody"))
    assert run_sync(memory.count(namespace="a")) == 1


def test_pin_end_and_merge_of_an_unknown_memory_raise(memory):
    item = run_sync(memory.remember("there")).id
    for call in (memory.pin([item, "nope"]), memory.end("nope", None), memory.merge([item, "nope"], "both")):
        with pytest.raises(NoSuchMemory, match="nope"):
            run_sync(call)
    assert not get(memory, item).pinned
    assert [operation.kind for operation in run_sync(memory.operations())] == ["remember"]


def test_the_text_of_an_undone_correction_is_valid_at_no_time(memory):
    item = run_sync(memory.remember("I live in Lisbon.")).id
    items = [memory.clock()]
    for step in ("correct", "undo", "redo", "undo"):
        if step == "correct":
            run_sync(memory.correct(item, "I live in Porto."))
        else:
            run_sync(memory.undo(last(memory).id))
        items.append(memory.clock())
        held = [found(memory, "Where do I live?", as_of=moment) for moment in items]
        if step in ("correct", "redo"):
            assert held == [["I live in Lisbon."]] + [["I live in Porto."]] * (len(items) - 1)
        else:
            assert held == [["I live in Lisbon."]] * len(items)
    known = [found(memory, "Where do I live?", known_at=moment) for moment in items]
    assert known == [[f"I live in {city}."] for city in ("Lisbon", "Porto", "Lisbon", "Porto", "Lisbon")]
