"""Actors are recorded in log and version; a less trusted actor changes no more trusted memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from tellback.memory import ArgumentError, LongTermMemory, Memory, Message, NotTrusted, Trust, run_sync
from tellback.memory.internals import Actor
from tellback.vectorstore import LifecycleStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Call = Callable[[LongTermMemory, list[str], dict[str, Any]], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "correct": lambda memory, ids, who: memory.correct(ids[1], "Ana lives in Faro.", **who),
    "merge": lambda memory, ids, who: memory.merge(ids, "Both.", **who),
    "end": lambda memory, ids, who: memory.end(ids[1], NOW, **who),
    "pin": lambda memory, ids, who: memory.pin(ids, **who),
    "unpin": lambda memory, ids, who: memory.unpin(ids, **who),
    "disable": lambda memory, ids, who: memory.disable(ids, **who),
    "enable": lambda memory, ids, who: memory.enable(ids, **who),
    "promote": lambda memory, ids, who: memory.promote(ids, **who),
    "demote": lambda memory, ids, who: memory.demote(ids, **who),
    "tag": lambda memory, ids, who: memory.tag(ids, ["x"], **who),
    "untag": lambda memory, ids, who: memory.untag(ids, ["old"], **who),
    "importance": lambda memory, ids, who: memory.set_importance(ids, 0.9, **who),
    "describe": lambda memory, ids, who: memory.describe(dict.fromkeys(ids, "a line"), **who),
    "expire": lambda memory, ids, who: memory.expire(ids, NOW, **who),
    "forget": lambda memory, ids, who: memory.forget(ids, **who),
    "forget later": lambda memory, ids, who: memory.forget(ids, grace=timedelta(days=9), **who),
    "forget by tag": lambda memory, ids, who: memory.forget(tags=["old"], **who),
    "forget everything": lambda memory, ids, who: memory.forget_namespace("", **who),
}


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, clock=lambda: NOW)


def two(memory: LongTermMemory, call: str, town: str = "Porto") -> list[str]:
    """Return the ids of a tool's note and of what the user said, in this order; *call* changes something of both."""
    marked = {"tags": ("old",), "pinned": call == "unpin", "disabled": call == "enable", "importance": 0.2}
    note = Memory(f"Ana has a cat in {town}.", trust=Trust.TOOL, actor="tool", **marked)
    said = [note, Memory(f"Ana lives in {town}.", **marked)]
    return [report.id for report in run_sync(memory.remember_many(said))]


def everything(memory: LongTermMemory) -> list[object]:
    return [[*memory.store.scan(namespace=lane)] for lane in memory.store.namespaces()]


def test_an_operation_changes_nothing_if_one_of_its_memories_is_trusted_more_than_the_actor(memory):
    for call, work in CALLS.items():
        ids = two(memory, call, f"the town of {call}")
        before, log = str(everything(memory)), run_sync(memory.operations())
        for actor in ("assistant", "tool", "document"):
            for who in ({"actor": actor}, {"actor": actor, "approved_by": "assistant"}):
                with pytest.raises(NotTrusted):
                    run_sync(work(memory, ids, who))
        assert str(everything(memory)) == before, call
        assert run_sync(memory.operations()) == log, call


def test_the_actor_of_a_change_is_recorded_in_the_operation_log_and_in_the_version(memory):
    works = {call: work for call, work in CALLS.items() if call != "forget everything"}
    for call, work in works.items():
        for who in ({"actor": "system"}, {"actor": "tool", "approved_by": "user"}, {"actor": "user"}):
            ids = two(memory, call, f"the {call} town of a {who['actor']}")
            run_sync(work(memory, ids, who))
            done = run_sync(memory.operations(limit=1))[0]
            assert (done.kind, done.actor) == (call.split()[0], who["actor"])
            kept = [item for item in run_sync(memory.get(ids)) if item is not None and item.operation == done.id]
            changed = call in ("correct", "merge", "end")
            assert [item.actor for item in kept] == ([who["actor"]] if changed else []), call


def test_the_actor_of_an_undo_or_restore_is_recorded_in_the_operation_log(memory):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    operation = run_sync(memory.correct(item, "Ana lives in Faro.")).operation
    for actor in ("system", "tool"):
        done = run_sync(memory.undo(operation, actor=actor, approved_by="user"))
        (kept,) = run_sync(memory.get([item]))
        assert (done.actor, run_sync(memory.operations(limit=1))[0].actor, kept.actor) == (actor, actor, actor)
        operation = done.id
    gone = run_sync(memory.forget([item], grace=timedelta(days=9))).operation
    assert run_sync(memory.restore_forgotten(gone, actor="tool", approved_by="user")).actor == "tool"
    assert run_sync(memory.operations(limit=1))[0].actor == "tool"


def test_the_actor_of_an_import_or_export_is_recorded_in_the_operation_log(memory, tmp_path):
    run_sync(memory.remember("Ana lives in Porto."))
    run_sync(memory.export(tmp_path / "x.jsonl", actor="tool"))
    assert run_sync(memory.operations(limit=1))[0].actor == "tool"
    run_sync(memory.import_(tmp_path / "x.jsonl", namespace="other", actor="assistant"))
    assert run_sync(memory.operations(limit=1, namespace="other"))[0].actor == "assistant"


@pytest.mark.parametrize("actor", ["assistant", "tool", "document"])
def test_an_import_has_at_most_the_trust_of_its_actor_and_replaces_no_more_trusted_memory(memory, tmp_path, actor):
    run_sync(memory.remember(Memory("Ana lives in Porto.", id="home")))
    run_sync(memory.remember_turn("s", [Message.user("Where does Ana live?")]))
    run_sync(memory.export(tmp_path / "x.jsonl"))
    run_sync(memory.import_(tmp_path / "x.jsonl", namespace="other", trust="user", actor=actor))
    assert {item.trust for item in run_sync(memory.list(namespace="other"))} == {Trust(actor)}
    assert run_sync(memory.conversations.sessions(namespace="other")) == []
    run_sync(memory.correct("home", "Ana lives in Faro."))
    for mode in ("merge", "upsert"):
        run_sync(memory.import_(tmp_path / "x.jsonl", mode=mode, actor=actor))  # the memory's own export
    assert run_sync(memory.get(["home"]))[0].text == "Ana lives in Faro."
    run_sync(memory.import_(tmp_path / "x.jsonl", mode="upsert", actor="system"))
    assert run_sync(memory.get(["home"]))[0].text == "Ana lives in Porto."


def test_an_unknown_actor_or_approver_is_refused_by_argument_name(memory):
    for call, work in CALLS.items():
        ids = two(memory, call)
        for who, named in (({"actor": "nobody"}, "actor"), ({"actor": "tool", "approved_by": "nobody"}, "approved_by")):
            with pytest.raises(ArgumentError, match=named):
                run_sync(work(memory, ids, who))


def test_undoing_an_undo_needs_the_trust_of_the_restored_memory(memory):
    report = run_sync(memory.remember("Ana lives in Porto."))
    undoing = run_sync(memory.undo(report.operation, actor="tool", approved_by="user"))
    with pytest.raises(NotTrusted, match=report.id):
        run_sync(memory.undo(undoing.id, actor="tool"))  # its own operation, approved by the user
    assert run_sync(memory.count()) == 0


@pytest.mark.parametrize("actor", get_args(Actor))
def test_a_correction_or_merge_is_trusted_no_more_than_its_actor_or_approver(memory, actor):
    order = [*Trust]
    word = Trust.USER if actor == "system" else Trust(actor)
    for trust in Trust:
        item = run_sync(memory.remember(Memory(f"Ana says {trust}.", trust=trust))).id
        run_sync(memory.correct(item, f"Ana told {trust}.", actor=actor, approved_by="system"))
        (kept,) = run_sync(memory.get([item]))
        assert kept.trust == Trust.USER  # who approved it stands for it
        other = run_sync(memory.remember(Memory(f"Ana writes {trust}.", trust=trust))).id
        if order.index(word) <= order.index(trust):
            run_sync(memory.correct(other, f"Ana wrote {trust}.", actor=actor))
            (kept,) = run_sync(memory.get([other]))
            assert kept.trust == (Trust.USER if word is Trust.USER else max(word, trust, key=order.index))
        third = run_sync(memory.remember(Memory(f"Ana sings {trust}.", trust=trust))).id
        fourth = run_sync(memory.remember(Memory(f"Ana hums {trust}."))).id
        run_sync(memory.merge([fourth, third], f"Ana sang {trust}.", actor=actor, approved_by="user"))
        (kept,) = run_sync(memory.get([fourth]))
        assert kept.trust == max(word, trust, key=order.index)
