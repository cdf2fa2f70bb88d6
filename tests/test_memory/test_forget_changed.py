"""Forgetting what was merged, undone or is trusted more; and taking a forgetting back by ``undo``."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from memory.errors import CannotUndo, NotTrusted
from memory.lanes import ARCHIVE, store_namespace
from memory.long_term import LongTermMemory
from memory.records import Memory, Outcome, Trust
from vectorstore import open_store

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


def run(awaitable):
    return asyncio.run(awaitable)


def remembered(memory, text, **fields):
    return run(memory.remember(Memory(text, **fields))).id


def archive(memory):
    return [entry.text for entry in memory.store.scan(namespace=store_namespace("", ARCHIVE))]


def test_what_was_merged_into_it_goes_with_it(memory):
    a, b, c = (remembered(memory, text) for text in ("takes pills", "takes drops", "sees a doctor"))
    run(memory.merge([b, c], "takes drops by order of a doctor"))
    run(memory.merge([a, b], "takes pills and drops, by order"))
    kept = remembered(memory, "something else")
    receipt = run(memory.forget([a]))
    assert set(receipt.ids) == {a, b, c}
    assert archive(memory) == []
    assert [one.id for one in run(memory.list())] == [kept]
    assert run(memory.remember(Memory("again", id=c))).outcome is Outcome.REJECTED


def test_what_was_taken_apart_again_stays(memory):
    a, b = remembered(memory, "takes pills"), remembered(memory, "takes drops")
    merged = run(memory.merge([a, b], "takes pills and drops")).operation
    run(memory.undo(merged))
    assert run(memory.forget([a])).ids == (a,)
    assert [one.text for one in run(memory.list())] == ["takes drops"]


def test_what_was_undone_can_still_be_forgotten(memory):
    report = run(memory.remember("said by mistake"))
    run(memory.undo(report.operation))
    assert archive(memory) == ["said by mistake"]
    receipt = run(memory.forget([report.id]))
    assert (receipt.memories, receipt.versions) == ((report.id,), 1)
    assert archive(memory) == []
    assert run(memory.forget([report.id])).memories == ()
    with pytest.raises(CannotUndo):
        run(memory.undo(report.operation))


def test_who_is_trusted_less_forgets_nothing_of_who_is_trusted_more(memory):
    mine = remembered(memory, "my own words")
    theirs = remembered(memory, "a tool: my own words", trust=Trust.TOOL)
    for chosen in ([mine], [theirs]):
        receipt = None
        if chosen == [theirs]:
            receipt = run(memory.forget(chosen, actor="tool", dry_run=True))
        else:
            with pytest.raises(NotTrusted):
                run(memory.forget(chosen, actor="tool"))
        assert receipt is None or receipt.memories == (theirs,)
    with pytest.raises(NotTrusted):
        run(memory.forget_namespace("", actor="tool"))
    assert run(memory.count()) == 2
    assert run(memory.forget([theirs], actor="tool")).memories == (theirs,)
    assert run(memory.forget([mine], actor="tool", approved_by="user")).memories == (mine,)


def test_undo_takes_a_forgetting_back_within_its_time_of_grace_and_not_without(memory):
    first = run(memory.remember("the first thing"))
    run(memory.correct(first.id, "the first thing, better said"))
    receipt = run(memory.forget([first.id], grace=WEEK))
    done = run(memory.undo(receipt.operation))
    assert [one.text for one in run(memory.history(first.id))] == ["the first thing, better said", "the first thing"]
    with pytest.raises(CannotUndo, match="forgotten again"):
        run(memory.undo(done.id))
    final = run(memory.forget([first.id]))
    with pytest.raises(CannotUndo, match="gone for good"):
        run(memory.undo(final.operation))


def test_what_was_done_before_can_be_undone_once_it_is_back(memory):
    first = run(memory.remember("the first thing"))
    corrected = run(memory.correct(first.id, "the first thing, better said"))
    receipt = run(memory.forget([first.id], grace=WEEK))
    with pytest.raises(CannotUndo, match="forgotten since"):
        run(memory.undo(corrected.operation))
    run(memory.restore_forgotten(receipt.operation))
    run(memory.undo(corrected.operation))
    assert [one.text for one in run(memory.list())] == ["the first thing"]
