"""A time of grace: out of every answer at once, back again within it, and no byte left after it."""

from datetime import timedelta

import pytest

from memory.errors import ArgumentError, NoSuchMemory, NotTrusted
from memory.long_term import LongTermMemory
from memory.messages import Message
from memory.models import Memory, Trust
from memory.open import open_memory
from memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from memory.results import Outcome
from tests.test_memory.forgetting import Moving, Toy, run
from vectorstore import DamageError, Entry, open_store

SECRET = "the locker code is 44173921-zebra"
WEEK = timedelta(days=7)


@pytest.fixture
def clock():
    return Moving()


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path, clock):
    store = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(store, embedder=Toy(), clock=clock)
    store.close()


def prepared(memory):
    """Two memories of a turn, the first with an older version, and one beside them."""
    first, second = run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant(f"Noted: {SECRET}")]))
    run(memory.correct(first.id, "the locker code is 55284032-quagga"))
    run(memory.remember("The weather is fine."))
    return first.id, second.id


def state(memory):
    """All that can be asked of it."""
    lanes = [store_namespace("", lane) for lane in (CONVERSATION, ARCHIVE)]
    entries = {
        lane: [
            (
                (one.id, one.text, one.context, dict(one.metadata), one.no_vector),
                None if one.vector is None else one.vector.tolist(),
            )
            for one in memory.store.scan(namespace=lane)
        ]
        for lane in lanes
    }
    said = [(one.sequence, one.message, one.at, one.memory) for one in run(memory.conversations.load("s"))]
    found = [hit.memory.id for hit in run(memory.recall("what is the locker code?"))]
    return entries, said, found


def test_it_is_out_of_every_answer_at_once(memory):
    first, second = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    assert receipt.due == memory.clock() + WEEK
    assert receipt.ids == (first, second)
    assert [one.text for one in run(memory.list())] == ["The weather is fine."]
    assert run(memory.count()) == 1
    assert run(memory.get([first, second, f"{first}@1"])) == [None, None, None]
    assert run(memory.conversations.load("s")) == []
    assert [hit.memory.text for hit in run(memory.recall("locker code zebra"))] in ([], ["The weather is fine."])
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
    with pytest.raises(NoSuchMemory):
        run(memory.history(first))
    with memory.store.view([store_namespace("", CONVERSATION)]) as view:
        assert view.df(["zebra", "quagga"], namespace=store_namespace("", CONVERSATION)) == [0, 0]


def test_it_does_not_come_back_by_itself(memory):
    first, _ = prepared(memory)
    run(memory.forget([first], grace=WEEK))
    assert run(memory.complete()) == 0
    assert run(memory.remember(Memory(SECRET, id=first))).outcome is Outcome.REJECTED


def test_taken_back_everything_is_as_it_was(memory):
    first, _ = prepared(memory)
    refused = Entry("refused", text="too long", no_vector="too long", metadata={"derived_from": [first]})
    memory.store.upsert([refused], namespace=store_namespace("", CONVERSATION))
    before = state(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    assert state(memory) != before
    done = run(memory.restore_forgotten(receipt.operation))
    assert state(memory) == before
    assert (done.kind, done.undoes) == ("restore", receipt.operation)
    assert {change.id for change in done.changes} == set(receipt.ids)
    (taken_back,) = [one for one in run(memory.operations()) if one.id == receipt.operation]
    assert taken_back.undone_by == done.id
    assert memory.store.verify() == []
    run(memory.correct(first, "and it lives on"))
    assert [one.text for one in run(memory.history(first))][:2] == [
        "and it lives on",
        "the locker code is 55284032-quagga",
    ]


def test_taken_back_nothing_of_it_is_held_or_said_to_be_forgotten(memory):
    first, _ = prepared(memory)
    undone = run(memory.remember("taken back at once"))
    run(memory.undo(undone.operation))
    for receipt in [run(memory.forget([one], grace=WEEK)) for one in (first, undone.id)]:
        assert set(memory.soft_deletes.of("")) >= {receipt.operation}
        run(memory.restore_forgotten(receipt.operation))
    assert list(memory.soft_deletes.of("")) == []
    lanes = memory.tombstones.lanes()
    assert [id for lane in lanes for id, _ in memory.tombstones.ids(lane)] == []
    for text in (SECRET, "the locker code is 55284032-quagga", "taken back at once"):
        assert memory.tombstones.words_at("", text) is None


def test_what_waits_can_be_named_again_to_go_at_once_and_the_rest_of_it_can_still_be_taken_back(memory):
    first, second = prepared(memory)
    other = run(memory.remember("and another thing")).id
    receipt = run(memory.forget([first, other], grace=WEEK))
    planned = run(memory.forget([first], dry_run=True))
    done = run(memory.forget([first]))
    assert (planned.memories, done.memories) == ((first,), (first,))
    assert done.parts["held"] == 5  # two versions, an answer that says the words, and the messages of both
    assert len(done.hashes) == 3
    run(memory.restore_forgotten(receipt.operation))
    assert [one.text for one in run(memory.list())] == ["The weather is fine.", "and another thing"]
    assert run(memory.get([first, second])) == [None, None]
    assert run(memory.conversations.load("s")) == []
    with pytest.raises(NoSuchMemory):
        run(memory.history(first))


def test_what_says_the_same_words_goes_out_of_what_waits_and_does_not_come_back(memory):
    first, second = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    again = run(memory.remember(SECRET)).id
    run(memory.forget([again]))
    run(memory.restore_forgotten(receipt.operation))
    back = run(memory.get([first, second]))
    assert [one and one.text for one in back] == ["the locker code is 55284032-quagga", None]
    assert len(run(memory.history(first))) == 1
    assert run(memory.conversations.load("s")) == []


def test_who_is_trusted_less_erases_nothing_of_who_is_trusted_more_from_what_waits(memory):
    first, _ = prepared(memory)
    run(memory.forget([first], grace=WEEK))
    (noted,) = run(memory.remember_many([Memory(SECRET, actor="tool", trust=Trust.TOOL)]))
    for named in ([first], [noted.id]):
        with pytest.raises(NotTrusted):
            run(memory.forget(named, actor="tool"))
    assert run(memory.get([noted.id]))[0] is not None


def test_it_can_be_taken_back_once_and_only_in_time(memory, clock):
    first, _ = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    run(memory.restore_forgotten(receipt.operation))
    again = run(memory.forget([first], grace=WEEK))
    clock.now += WEEK
    run(memory.remember("any write"))
    for operation in (receipt.operation, again.operation, "unknown"):
        with pytest.raises(ArgumentError, match="operation"):
            run(memory.restore_forgotten(operation))
    with pytest.raises(ArgumentError, match="operation"):
        run(memory.restore_forgotten(receipt.operation, namespace="another"))


def test_words_may_be_remembered_again_meanwhile_and_both_are_there_afterwards(memory):
    first, _ = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    run(memory.remember(SECRET))
    run(memory.restore_forgotten(receipt.operation))
    assert run(memory.count()) == 4


def test_what_has_its_key_by_now_stops_taking_it_back_whole(memory):
    target = run(memory.remember(Memory("with a key", key="k"))).id
    other = run(memory.remember("and another thing")).id
    receipt = run(memory.forget([target, other], grace=WEEK))
    run(memory.remember(Memory("with the same key", key="k")))
    with pytest.raises(ArgumentError, match="remembered anew"):
        run(memory.restore_forgotten(receipt.operation))
    assert run(memory.get([other])) == [None]


@pytest.mark.parametrize("bad", [timedelta(0), timedelta(days=-1), 7, timedelta.max])
def test_a_grace_that_is_none_is_refused(memory, bad):
    first, _ = prepared(memory)
    with pytest.raises(ArgumentError, match="grace"):
        run(memory.forget([first], grace=bad))
    assert run(memory.get([first]))[0] is not None


def test_where_nothing_goes_nothing_is_held(memory):
    receipt = run(memory.forget(tags=["none"], grace=WEEK))
    assert (receipt.due, receipt.operation) == (None, None)
    assert memory.erase_due() == 0


def test_backups_are_not_removed_for_what_may_come_back(memory):
    first, _ = prepared(memory)
    with pytest.raises(ArgumentError, match="remove_backups"):
        run(memory.forget([first], grace=WEEK, remove_backups=True))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_what_is_due_first_goes_first_at_its_moment(memory, clock, order):
    first = {weeks: run(memory.remember(f"thing {weeks}")).id for weeks in order}
    receipts = {weeks: run(memory.forget([first[weeks]], grace=weeks * WEEK)) for weeks in order}
    clock.now += WEEK - timedelta(seconds=1)
    run(memory.remember("a second too early"))
    assert len(memory.soft_deletes.of("")) == 2
    clock.now += timedelta(seconds=1)
    run(memory.remember("in time"))
    assert list(memory.soft_deletes.of("")) == [receipts[2].operation]
    run(memory.restore_forgotten(receipts[2].operation))
    assert run(memory.get([first[1], first[2]]))[0] is None
    clock.now += WEEK
    assert memory.erase_due() == 0


# --- the bytes, in a file


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("way", ["a write", "a forgetting", "that of a namespace", "opening", "by hand"])
def test_at_its_end_the_bytes_are_gone(tmp_path, clock, way):
    memory = open_memory(tmp_path / "m.db", clock=clock)
    first, _ = prepared(memory)
    other = run(memory.remember("something else")).id
    receipt = run(memory.forget([first], grace=WEEK))
    held = run(memory.verify_forgotten(receipt, [SECRET]))
    assert [one.where for one in held.left] == ["held", str(tmp_path / "m.db")]
    clock.now += WEEK - timedelta(seconds=1)
    run(memory.remember("a second too early"))
    assert memory.erase_due() == 0
    assert b"zebra" in bytes_of(tmp_path)
    clock.now += timedelta(seconds=1)
    if way == "a write":
        run(memory.remember("in time"))
    elif way == "a forgetting":
        run(memory.forget([other]))
    elif way == "that of a namespace":
        run(memory.forget_namespace("another"))
    elif way == "opening":
        run(memory.close())
        memory = open_memory(tmp_path / "m.db", clock=clock)
    else:
        assert memory.erase_due() == 1
        assert memory.erase_due() == 0
    assert not memory.store.pending_erasure()
    assert b"zebra" not in bytes_of(tmp_path)
    assert run(memory.verify_forgotten(receipt, [SECRET, "the locker code is 55284032-quagga"])).gone
    assert memory.store.verify() == []
    run(memory.close())
    assert b"zebra" not in bytes_of(tmp_path)
    assert b"quagga" not in bytes_of(tmp_path)


def test_another_process_brings_back_what_this_one_put_aside(tmp_path, clock):
    memory = open_memory(tmp_path / "m.db", embedder=Toy(), clock=clock)
    first, _ = prepared(memory)
    before = state(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    run(memory.close())
    again = open_memory(tmp_path / "m.db", embedder=Toy(), clock=clock)
    run(again.restore_forgotten(receipt.operation))
    assert state(again) == before
    assert b"held" in bytes_of(tmp_path)
    run(again.close())


def test_vectors_of_another_space_are_made_again(tmp_path, clock):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), embedder=Toy(), clock=clock)
    target = run(memory.remember(SECRET)).id
    receipt = run(memory.forget([target], grace=WEEK))
    store = memory.store
    from vectorstore import Space

    other = Space("toy/2", 4)
    store.begin_space(other)
    store.commit_space(other)
    run(memory.restore_forgotten(receipt.operation))
    (entry,) = store.get([target], namespace=store_namespace("", CONVERSATION))
    assert (entry.text, entry.vector, entry.no_vector) == (SECRET, None, None)
    store.close()


def test_damage_to_what_is_held_is_found(tmp_path, clock):
    memory = open_memory(tmp_path / "m.db", clock=clock)
    first, _ = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    with memory.store.database.write() as connection:
        connection.execute("UPDATE held_things SET data = replace(data, 'zebra', 'horse')")
    assert {finding.part for finding in memory.store.verify()} == {"held"}
    with pytest.raises(DamageError, match="held"):
        run(memory.restore_forgotten(receipt.operation))
    assert run(memory.forget_namespace("")).parts["held"] == 1
    run(memory.close())
