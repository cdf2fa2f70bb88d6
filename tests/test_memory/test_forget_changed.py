"""Forgetting what was merged, undone or is trusted more; and taking a forgetting back by ``undo``."""

from datetime import UTC, datetime, timedelta

import pytest

from memory.errors import CannotUndo, NotTrusted
from memory.long_term import LongTermMemory
from memory.messages import Message
from memory.models import Memory, Trust
from memory.partitions import ARCHIVE, store_namespace
from memory.results import Outcome
from tests.test_memory.forgetting import remembered, run
from vectorstore import open_store

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


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


def test_what_a_correction_put_away_goes_with_its_source_and_not_what_says_the_same(memory):
    first = remembered(memory, "The first thing was said.")
    alone = remembered(memory, "There was a first thing.", derived_from=(first,))
    assert run(memory.correct(first, "The first thing was written.")).retired == (alone,)
    copy = remembered(memory, "There was a first thing.")
    receipt = run(memory.forget([first]))
    assert (receipt.derived, receipt.also, archive(memory)) == ((alone,), (), [])
    assert [one.id for one in run(memory.list())] == [copy]


def test_the_log_names_what_went_in_the_order_of_the_receipt(memory):
    remembered(memory, "The first thing was said.", id="z")
    remembered(memory, "There was a first thing.", id="a", derived_from=("z",))
    remembered(memory, "He said: The first thing was said.", id="b")
    receipt = run(memory.forget(["z"]))
    assert receipt.ids == ("z", "a", "b")
    assert [change.id for change in run(memory.operations())[0].changes] == ["z", "a", "b"]


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


def test_taken_back_it_is_mentioned_again_by_what_was_made_of_it(memory):
    a, b, c = (remembered(memory, text) for text in ("the first thing", "the second thing", "the third thing"))
    both = remembered(memory, "from all", derived_from=(a, b, c))
    run(memory.correct(both, "from all of them"))
    (answer,) = run(memory.remember_turn("s", [Message.assistant("I used it.")], used=[a, b]))
    receipts = [run(memory.forget([one], grace=WEEK)) for one in (a, b)]
    assert run(memory.get([both]))[0].derived_from == (c,)
    assert "used" not in run(memory.get([answer.id]))[0].metadata
    run(memory.restore_forgotten(receipts[0].operation))
    assert [one.derived_from for one in run(memory.history(both))] == [(a, c), (a, c)]
    assert run(memory.get([answer.id]))[0].metadata["used"] == [a]
    run(memory.restore_forgotten(receipts[1].operation))
    assert run(memory.get([both]))[0].derived_from == (a, b, c)


def test_what_is_gone_for_good_by_then_is_not_mentioned_again_and_what_was_made_of_it_may_be_gone(memory):
    a, b, c = (remembered(memory, text) for text in ("the first thing", "the second thing", "the third thing"))
    both = remembered(memory, "from all", derived_from=(a, b, c))
    other = remembered(memory, "from two", derived_from=(a, c))
    receipt = run(memory.forget([a, b], grace=WEEK))
    final = run(memory.forget([a, other]))
    run(memory.restore_forgotten(receipt.operation))
    assert run(memory.get([both]))[0].derived_from == (b, c)
    assert run(memory.get([other])) == [None]
    assert run(memory.verify_forgotten(final)).gone


def test_more_than_a_page_of_what_stays_loses_the_mention_and_gets_it_back(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    made = [one.id for one in run(memory.remember_many(Memory(f"no. {n}", derived_from=(a, b)) for n in range(300)))]
    receipt = run(memory.forget([a], grace=WEEK))
    assert {one.derived_from for one in run(memory.get(made))} == {(b,)}
    run(memory.restore_forgotten(receipt.operation))
    assert {one.derived_from for one in run(memory.get(made))} == {(a, b)}


@pytest.mark.parametrize("whole", [False, True])
def test_messages_of_which_nothing_was_remembered_are_their_speakers(memory, whole):
    def forget(**named):
        run(memory.forget_namespace("", **named) if whole else memory.forget(session="s", **named))

    said = [Message.system("be brief"), Message.user([]), Message.tool([])]
    for one, actor, may in [
        *((one, "tool", "user") for one in said[:2]),
        (said[2], "document", "tool"),
        (Message.assistant([]), "tool", "assistant"),
    ]:
        run(memory.conversations.append("s", [one]))
        with pytest.raises(NotTrusted, match="message 1 of session s") if may == "user" else pytest.raises(NotTrusted):
            forget(actor=actor)
        forget(actor=actor, approved_by=may)
        assert run(memory.conversations.load("s")) == []
        run(memory.forget_namespace(""))
    run(memory.conversations.append("s", [Message(role="user", metadata={"trust": "tool"})]))
    forget(actor="tool")
    assert run(memory.conversations.load("s")) == []


@pytest.mark.parametrize("what", ["memory", "message"])
def test_what_waits_keeps_a_namespace_from_being_forgotten_by_who_is_trusted_less(memory, what):
    if what == "memory":
        receipt = run(memory.forget([remembered(memory, "my own words")], grace=WEEK))
    else:
        run(memory.conversations.append("t", [Message.system("be brief")]))
        receipt = run(memory.forget(session="t", grace=WEEK))
    run(memory.remember_many([Memory("what a tool said", actor="tool", trust=Trust.TOOL)]))
    run(memory.conversations.append("s", [Message.tool([])]))
    with pytest.raises(NotTrusted):
        run(memory.forget_namespace("", actor="tool"))
    assert list(memory.soft_deletes.of("")) == [receipt.operation]
    assert (run(memory.count()), len(run(memory.conversations.load("s")))) == (1, 1)
    assert run(memory.forget_namespace("", actor="tool", approved_by="user")).parts["held"] == 1


def test_a_memory_that_waits_is_not_erased_by_who_is_trusted_less(memory):
    mine = remembered(memory, "my own words")
    receipt = run(memory.forget([mine], grace=WEEK))
    with pytest.raises(NotTrusted):
        run(memory.forget([mine], actor="tool"))
    assert list(memory.soft_deletes.of("")) == [receipt.operation]


def test_of_what_waits_a_part_that_says_more_than_is_trusted_is_not_taken_by_its_words(memory):
    run(memory.conversations.append("s", [Message.system("use the words my own words")]))
    run(memory.forget(session="s", grace=WEEK))
    (noted,) = run(memory.remember_many([Memory("my own words", actor="tool", trust=Trust.TOOL)]))
    with pytest.raises(NotTrusted):
        run(memory.forget([noted.id], actor="tool"))
    assert run(memory.forget([noted.id])).parts["held"] == 1


@pytest.mark.parametrize("by", ["undo", "restore_forgotten"])
def test_messages_alone_come_back_with_their_forgetting(memory, by):
    run(memory.conversations.append("s", [Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert receipt.operation is not None
    run(getattr(memory, by)(receipt.operation))
    assert [one.message.text for one in run(memory.conversations.load("s"))] == ["be brief"]
    assert run(memory.forget(session="s")).operation is None  # of messages alone nothing is in the log


def test_a_message_that_waits_alone_still_comes_back_when_what_waited_with_it_is_gone(memory):
    run(memory.remember_turn("s", [Message.user("the first thing"), Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert run(memory.forget(receipt.memories)).parts["held"] == 2
    run(memory.restore_forgotten(receipt.operation))
    assert [one.message.text for one in run(memory.conversations.load("s"))] == ["be brief"]


def test_nothing_waits_of_a_package_that_was_emptied(memory):
    receipt = run(memory.forget([remembered(memory, "the first thing")], grace=WEEK))
    run(memory.forget(receipt.memories))
    assert list(memory.soft_deletes.of("")) == []


def test_a_time_of_grace_takes_nothing_from_another(memory):
    receipts = [run(memory.forget([remembered(memory, "the very same words")], grace=WEEK)) for _ in range(2)]
    assert [one.parts.get("held") for one in receipts] == [None, None]
    for one in receipts:
        run(memory.restore_forgotten(one.operation))
    assert len(run(memory.list())) == 2


def test_what_is_here_again_under_its_key_and_waits_too_goes_once(memory):
    first = remembered(memory, "with a key", key="k")
    receipt = run(memory.forget([first], grace=WEEK))
    assert remembered(memory, "other words", key="k") == first
    done = run(memory.forget([first]))
    assert (done.memories, done.parts["held"], len(done.hashes)) == ((first,), 1, 2)
    assert receipt.operation not in memory.soft_deletes.of("")


def test_what_waits_of_a_memory_goes_with_it_however_it_was_named(memory):
    first = remembered(memory, "with a key", key="k")
    run(memory.forget([first], grace=WEEK))
    assert remembered(memory, "other words", key="k", tags=("house",)) == first
    assert run(memory.forget(tags=["house"])).parts["held"] == 1
    assert list(memory.soft_deletes.of("")) == []


def test_words_that_went_for_good_are_not_kept_beside_what_waits_on(memory):
    both = [remembered(memory, "the first thing"), remembered(memory, "the second thing")]
    receipt = run(memory.forget(both, grace=WEEK))
    run(memory.forget(both[:1]))
    assert memory.soft_deletes.get("", receipt.operation).words == ("the second thing",)
    run(memory.restore_forgotten(receipt.operation))
    assert memory.tombstones.words_at("", "the first thing") is not None
    assert memory.tombstones.words_at("", "the second thing") is None


def test_what_somebody_forgot_who_is_trusted_more_is_not_brought_back_nor_what_is_theirs(memory):
    mine, tools = remembered(memory, "my own words"), remembered(memory, "what a tool said", trust=Trust.TOOL)
    by_me = run(memory.forget([tools], grace=WEEK))
    by_tool = run(memory.forget([mine], actor="tool", approved_by="user", grace=WEEK))
    for operation in (by_me.operation, by_tool.operation):
        with pytest.raises(NotTrusted):
            run(memory.restore_forgotten(operation, actor="tool"))
        run(memory.restore_forgotten(operation, actor="tool", approved_by="user"))
    assert len(run(memory.list())) == 2


def test_a_namespace_is_forgotten_by_whom_its_owner_approves(memory):
    remembered(memory, "my own words")
    with pytest.raises(NotTrusted):
        run(memory.forget_namespace("", actor="tool"))
    assert len(run(memory.forget_namespace("", actor="tool", approved_by="user")).memories) == 1
