"""A whole namespace forgotten: nothing of it stays in any part, and no other is touched."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from memory.codec import to_entry
from memory.long_term import LongTermMemory
from memory.messages import Message
from memory.models import Memory
from memory.partitions import DOCUMENTS, store_namespace
from memory.results import Outcome
from vectorstore import open_store

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = ("44173921-zebra", "55284032-quagga", "66395143-okapi", "77406254-tapir", "88517365-lemur")


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


def run(awaitable):
    return asyncio.run(awaitable)


def filled(memory, namespace):
    """Something in every part of a namespace: both versions of a memory, a passage, history, what is held."""
    first = run(memory.remember(f"a code: {WORDS[0]}", namespace=namespace)).id
    run(memory.correct(first, f"a better code: {WORDS[1]}", namespace=namespace))
    run(memory.remember_turn("s", [Message.user(f"I said {WORDS[2]}"), Message.system("be kind")], namespace=namespace))
    passage = Memory(f"it is written: {WORDS[3]}", id="p", kind="document")
    memory.store.upsert([to_entry(passage)], namespace=store_namespace(namespace, DOCUMENTS, "books"))
    held = run(memory.remember(f"a code that goes later: {WORDS[4]}", namespace=namespace)).id
    return first, run(memory.forget([held], namespace=namespace, grace=timedelta(days=7)))


def everything(memory, namespace):
    prefix = store_namespace(namespace, "")
    lanes = [lane for lane in memory.store.namespaces() if lane.startswith(prefix)]
    return (
        {lane: [entry.text for entry in memory.store.scan(namespace=lane)] for lane in lanes},
        [one.session for one in run(memory.conversations.sessions(namespace=namespace))],
        [one.id for one in run(memory.operations(namespace=namespace))],
        list(memory.soft_deletes.of(namespace)),
    )


@pytest.mark.parametrize("namespace", ["", "ann", "a/b %c"])
def test_all_of_it_goes_and_no_other_is_touched(memory, namespace):
    others = [name for name in ("", "ann", "ann ", "a/b %c", "a") if name != namespace]
    filled(memory, namespace)
    for other in others:
        filled(memory, other)
    before = [everything(memory, other) for other in others]
    receipt = run(memory.forget_namespace(namespace))
    assert receipt.whole
    assert (len(receipt.memories), receipt.versions, receipt.messages) == (3, 1, 2)
    assert receipt.parts["operations"] == 5
    assert receipt.parts["held"] == 1
    assert everything(memory, namespace) == ({}, [], [], [])
    assert [everything(memory, other) for other in others] == before


def test_a_dry_run_counts_the_same_and_changes_nothing(memory):
    filled(memory, "ann")
    before = everything(memory, "ann")
    planned = run(memory.forget_namespace("ann", dry_run=True))
    assert everything(memory, "ann") == before
    done = run(memory.forget_namespace("ann"))
    assert (planned.memories, planned.versions, planned.messages) == (done.memories, done.versions, done.messages)
    assert (planned.dry_run, done.dry_run) == (True, False)


def test_nothing_of_it_comes_back_but_new_things_may_be_said(memory):
    first, put_aside = filled(memory, "ann")
    run(memory.forget_namespace("ann"))
    assert run(memory.complete()) == 0
    assert run(memory.remember(Memory("again", id=first), namespace="ann")).outcome is Outcome.REJECTED
    assert run(memory.remember("new", namespace="ann")).outcome is Outcome.STORED
    assert run(memory.conversations.append("s", [Message.user("anew")], namespace="ann")) == [1]
    assert put_aside.operation not in memory.soft_deletes.of("ann")


def test_an_unknown_namespace_has_nothing_to_forget(memory):
    filled(memory, "ann")
    assert run(memory.forget_namespace("bob")).memories == ()
    assert len(run(memory.list(namespace="ann"))) == 2


def test_parts_are_asked_for_all_of_it(memory):
    class Part:
        name = "part"

        def __init__(self):
            self.asked = []

        def erase(self, gone):
            self.asked.append(gone)
            return 1

    filled(memory, "ann")
    part = Part()
    memory.erasers.append(part)
    receipt = run(memory.forget_namespace("ann"))
    assert part.asked[-1].everything
    assert not any(one.everything for one in part.asked[:-1])
    assert {text for one in part.asked for text in one.texts} == {
        f"a code: {WORDS[0]}",
        f"a better code: {WORDS[1]}",
        f"I said {WORDS[2]}",
        f"it is written: {WORDS[3]}",
    }
    assert receipt.parts["part"] == len(part.asked)


def test_more_than_a_page_goes_in_one_step_and_no_byte_is_left(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=lambda: NOW)
    filled(memory, "ann")
    run(memory.remember_many((f"thing {n}" for n in range(600)), namespace="ann"))
    receipt = run(memory.forget_namespace("ann"))
    assert len(receipt.memories) == 603
    assert run(memory.verify_forgotten(receipt, list(WORDS))).gone
    run(memory.close())
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [word for word in WORDS if word.encode() in content] == []


def test_a_part_that_fails_stops_all_of_it(tmp_path):
    class Failing:
        name = "failing"

        def erase(self, gone):
            if gone.everything:
                raise RuntimeError("cannot")
            return 0

    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=lambda: NOW)
    filled(memory, "ann")
    before = everything(memory, "ann")
    memory.erasers.append(Failing())
    with pytest.raises(RuntimeError, match="cannot"):
        run(memory.forget_namespace("ann"))
    assert everything(memory, "ann") == before
    ids = [one.id for one in run(memory.list(namespace="ann"))]
    assert memory.tombstones.which(store_namespace("ann", "conversation"), ids) == set()
    run(memory.close())


def test_while_somebody_reads_its_bytes_are_pending(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=lambda: NOW)
    filled(memory, "ann")
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    lane = store_namespace("ann", "conversation")
    with other.view([lane]) as view:
        assert view.get(["nothing"], namespace=lane) == [None]
        receipt = run(memory.forget_namespace("ann"))
        assert receipt.pending
    other.close()
    assert run(memory.verify_forgotten(receipt, list(WORDS))).gone
    run(memory.close())


def test_its_receipt_has_a_hash_of_each_text_and_no_words(memory):
    filled(memory, "ann")
    receipt = run(memory.forget_namespace("ann"))
    assert len(receipt.hashes) == 4
    assert not any(word in repr(receipt) for word in WORDS)
