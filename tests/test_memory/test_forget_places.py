"""By every name that a source, a session, a document or a place has; and what two names together leave."""

from datetime import UTC, datetime, timedelta

import pytest

from memory.codec import to_entry
from memory.errors import NoSuchMemory
from memory.long_term import LongTermMemory
from memory.messages import Message, ToolResultBlock
from memory.models import Memory, Source
from memory.partitions import DOCUMENTS, store_namespace
from tests.test_memory.forgetting import remembered, run
from vectorstore import open_store

BOOKS = store_namespace("", DOCUMENTS, "books")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def memory():
    opened = open_store("numpy:")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


def passage(memory, id, **fields):
    memory.store.upsert([to_entry(Memory(f"passage {id}", id=id, kind="document", **fields))], namespace=BOOKS)


def meant(memory, **named):
    return sorted(run(memory.forget(**named, dry_run=True)).memories)


@pytest.mark.parametrize(
    ("named", "ids"),
    [
        ({"session": "s"}, ["of the session", "said in it", "seen in it"]),
        ({"source": "s"}, ["of the session", "said in it", "seen in it"]),
        ({"source": Source(session="s")}, ["of the session", "said in it", "seen in it"]),
        ({"source": Source(session="s", sequence=1)}, ["said in it"]),
        ({"source": Source(session="s", sequence=2)}, ["seen in it"]),
        ({"source": "t"}, ["said elsewhere"]),
        ({"source": "d"}, ["noted from it"]),
        ({"document": "d"}, ["noted from it"]),
    ],
)
def test_a_session_is_named_by_all_that_says_so(memory, named, ids):
    remembered(memory, "one", id="of the session", session="s")
    remembered(memory, "two", id="said in it", source=Source(session="s", sequence=1))
    remembered(memory, "three", id="seen in it", session="s", sequence=2)
    remembered(memory, "four", id="said elsewhere", source=Source(session="t", sequence=1), sequence=2)
    remembered(memory, "five", id="noted from it", source=Source(document="d"))
    assert meant(memory, **named) == ids


FIRST = Source(document="d", title="One", heading=("A", "B"), page=1, start=0, end=9)


@pytest.mark.parametrize(
    "other",
    [
        Source(document="e", title="One", heading=("A", "B"), page=1, start=0, end=9),
        Source(document="d", title="Two", heading=("A", "B"), page=1, start=0, end=9),
        Source(document="d", title="One", heading=("A",), page=1, start=0, end=9),
        Source(document="d", title="One", heading=("A", "B"), page=2, start=0, end=9),
        Source(document="d", title="One", heading=("A", "B"), page=1, start=1, end=9),
        Source(document="d", title="One", heading=("A", "B"), page=1, start=0, end=8),
    ],
)
def test_a_place_in_a_document_is_all_that_it_says(memory, other):
    passage(memory, "first", source=FIRST)
    passage(memory, "other", source=other)
    assert meant(memory, source=FIRST) == ["first"]
    assert meant(memory, source=other) == ["other"]


@pytest.mark.parametrize(
    "named",
    [
        {"ids": ["x"]},
        {"document": "d"},
        {"where": {"kind": "note"}},
        {"scopes": {"project": "p"}},
        {"tags": ["t"]},
    ],
)
def test_what_else_is_named_of_a_session_leaves_its_other_messages(memory, named):
    result = Message.tool([ToolResultBlock(call_id="1")])
    run(memory.remember_turn("s", [Message.user("a question of mine"), result]))
    fields = {"kind": "note", "scopes": {"project": "p"}, "tags": ("t",), "source": Source(session="s", document="d")}
    remembered(memory, "noted", id="x", **fields)
    for place in ({"session": "s"}, {"source": "s"}, {"older_than": timedelta(0)}):
        planned = run(memory.forget(**named, **place, dry_run=True))
        assert (planned.memories, planned.messages) == ((() if "older_than" in place else ("x",)), 0)


@pytest.mark.parametrize(
    "named",
    [
        {"session": "s", "source": "t"},
        {"session": "s", "source": Source(session="t")},
        {"source": Source(document="s")},
    ],
)
def test_a_session_and_another_source_are_nothing(memory, named):
    run(memory.remember_turn("s", [Message.user("said here")]))
    run(memory.remember_turn("t", [Message.user("said there")]))
    assert run(memory.forget(**named)).messages == 0
    assert run(memory.count()) == 2


@pytest.mark.parametrize("named", [{"document": "d"}, {"source": "d"}, {"source": Source(document="d")}])
def test_old_passages_go_where_their_document_is_named(memory, named):
    passage(memory, "old", source=Source(document="d"), recorded_at=NOW - timedelta(days=9))
    passage(memory, "new", source=Source(document="d"), recorded_at=NOW)
    assert meant(memory, older_than=timedelta(days=1)) == []
    assert meant(memory, older_than=timedelta(days=1), **named) == ["old"]


def test_old_messages_are_old_by_when_they_were_said_else_by_when_they_came(memory):
    old = Message.user([]).model_copy(update={"at": NOW - timedelta(days=9)})
    new = Message.user([]).model_copy(update={"at": NOW})
    run(memory.conversations.append("s", [old, Message.user([]), new]))
    assert run(memory.forget(older_than=NOW, dry_run=True)).messages == 1
    assert run(memory.forget(older_than=NOW + timedelta(seconds=1), dry_run=True)).messages == 3


def test_an_id_that_is_named_twice_is_one(memory):
    noted = remembered(memory, "once")
    assert run(memory.forget([noted, noted])).memories == (noted,)


def test_a_passage_that_is_forgotten_already_is_passed_over(memory):
    for id in ("p", "q"):
        passage(memory, id)
    run(memory.forget(["p"]))
    assert run(memory.forget(["p", "q"])).memories == ("q",)
    assert run(memory.forget(["p"])).memories == ()
    with pytest.raises(NoSuchMemory):
        run(memory.forget(["p"], namespace="b"))


def test_what_was_undone_goes_with_its_session_and_what_was_corrected_is_what_it_is_now(memory):
    undone = run(memory.remember(Memory("said by mistake", session="s")))
    run(memory.undo(undone.operation))
    corrected = remembered(memory, "words before")
    run(memory.correct(corrected, "other words"))
    assert meant(memory, where={"retired_at": {"$exists": True}}) == [undone.id]
    assert meant(memory, session="s") == [undone.id]


def test_what_a_question_finds_can_be_bounded_by_ids_and_by_a_namespace(memory):
    here = [remembered(memory, f"The roof leaks {n} times") for n in range(3)]
    there = run(memory.remember("The roof there leaks", namespace="b")).id
    assert meant(memory, query="roof leaks", ids=here[:2]) == sorted(here[:2])
    assert meant(memory, query="roof leaks", ids=here, tags=["none"]) == []
    assert meant(memory, query="roof leaks", namespace="b") == [there]
    assert len(meant(memory, query="roof leaks", k=1)) == 1
    with pytest.raises(ValueError, match="k"):
        run(memory.forget(query="roof leaks", k=0, dry_run=True))
