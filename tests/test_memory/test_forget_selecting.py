"""What is meant by a forgetting: by source, session, document, filter, scope, tag or age; nothing named is an error."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from memory.codec import to_entry
from memory.erasure.verbatim_match import VerbatimTexts, holds_verbatim
from memory.errors import ArgumentError, NoSuchMemory
from memory.long_term import LongTermMemory
from memory.messages import ImageBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock
from memory.models import Memory, Source
from memory.partitions import DOCUMENTS, store_namespace
from tests.test_memory.forgetting import remembered, run
from vectorstore import Entry, open_store

BOOKS = store_namespace("", DOCUMENTS, "books")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


def texts(memory, **options):
    return sorted(one.text for one in run(memory.list(**options)))


def said(memory, session):
    return [one.message.text for one in run(memory.conversations.load(session))]


# --- neither all nor none by accident


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"ids": []},
        {"where": {}},
        {"scopes": {}},
        {"tags": ()},
        {"source": ""},
        {"source": Source()},
        {"source": 7},
        {"session": " "},
        {"document": ""},
        {"older_than": timedelta(days=-1)},
        {"older_than": timedelta.max},
        {"older_than": "yesterday"},
        {"tags": "house"},
    ],
)
def test_naming_nothing_is_refused_and_nothing_goes(memory, named):
    remembered(memory, "kept")
    with pytest.raises(ArgumentError):
        run(memory.forget(**named))
    assert texts(memory) == ["kept"]


def test_a_name_that_fits_nothing_forgets_nothing(memory):
    remembered(memory, "kept", tags=("house",), session="s")
    for named in ({"tags": ["garden"]}, {"session": "t"}, {"where": {"kind": "event"}}, {"older_than": NOW}):
        receipt = run(memory.forget(**named))
        assert (receipt.ids, receipt.messages, receipt.operation) == ((), 0, None)
    assert texts(memory) == ["kept"]


# --- where it comes from


def test_a_session_goes_with_all_its_messages(memory):
    result = Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text="a tool said so"),))])
    system = Message.system("be brief")
    run(memory.remember_turn("s", [system, Message.user("in this session"), result, Message.assistant("I see")]))
    run(memory.remember_turn("t", [Message.user("in another session")]))
    remembered(memory, "noted from it", source=Source(session="s", sequence=1))
    remembered(memory, "noted elsewhere", source=Source(session="t", sequence=1))
    receipt = run(memory.forget(session="s"))
    assert (len(receipt.memories), receipt.messages) == (4, 4)
    assert texts(memory) == ["in another session", "noted elsewhere"]
    assert (said(memory, "s"), said(memory, "t")) == ([], ["in another session"])
    assert run(memory.complete()) == 0


def test_a_session_of_a_like_name_is_not_meant(memory):
    for session in ("sess-1", "sess-10", "SESS-1"):
        run(memory.remember_turn(session, [Message.user(f"<{session}>")]))
    run(memory.forget(session="sess-1"))
    assert texts(memory) == ["<SESS-1>", "<sess-10>"]


def test_a_document_goes_in_every_collection_with_what_was_noted_from_it(memory):
    for name, lane in (("a.md", BOOKS), ("b.md", BOOKS), ("a.md", store_namespace("", DOCUMENTS, "notes"))):
        passage = Memory(f"of {name} in {lane}", id=f"{name} {lane}", kind="document", source=Source(document=name))
        memory.store.upsert([to_entry(passage)], namespace=lane)
    remembered(memory, "a note on a.md", source=Source(document="a.md", page=2))
    receipt = run(memory.forget(document="a.md"))
    assert len(receipt.memories) == 3
    assert [one.id for one in memory.store.scan(namespace=BOOKS)] == [f"b.md {BOOKS}"]
    assert texts(memory) == []


def test_a_source_names_a_session_or_a_document_or_a_place(memory):
    run(memory.remember_turn("s", [Message.user("first"), Message.user("second thing said")]))
    remembered(memory, "from page two", source=Source(document="a.md", page=2))
    remembered(memory, "from page three", source=Source(document="a.md", page=3))
    run(memory.forget(source=Source(document="a.md", page=3)))
    assert "from page two" in texts(memory)
    run(memory.forget(source=Source(session="s", sequence=1)))
    assert (texts(memory), said(memory, "s")) == (["from page two", "second thing said"], ["second thing said"])
    run(memory.forget(source="a.md"))
    assert texts(memory) == ["second thing said"]
    run(memory.forget(source="s"))
    assert (texts(memory), said(memory, "s")) == ([], [])


# --- what it is


def test_a_filter_scopes_and_tags_are_what_they_are_in_recall(memory):
    remembered(memory, "plain")
    remembered(memory, "an event", kind="event")
    remembered(memory, "of the house", tags=("house", "roof"))
    remembered(memory, "of the garden", tags=("garden",))
    remembered(memory, "of project x, agent a", scopes={"project": "x", "agent": "a"})
    remembered(memory, "of project x", scopes={"project": "x"})
    run(memory.forget(where={"kind": "event"}))
    run(memory.forget(tags=["house", "garden"]))
    assert texts(memory) == ["of project x", "of project x, agent a", "plain"]
    run(memory.forget(scopes={"project": "x", "agent": "a"}))
    assert texts(memory) == ["of project x", "plain"]


def test_all_that_is_named_must_hold(memory):
    first = remembered(memory, "house event", kind="event", tags=("house",))
    second = remembered(memory, "house fact", tags=("house",))
    run(memory.forget([first, second], tags=["house"], where={"kind": "fact"}))
    assert texts(memory) == ["house event"]
    with pytest.raises(NoSuchMemory):
        run(memory.forget([first, "nope"], tags=["house"]))
    assert texts(memory) == ["house event"]


# --- how old it is


def test_what_is_older_goes_by_when_it_was_said_else_by_when_it_was_recorded(memory):
    remembered(memory, "said long ago", occurred_at=NOW - timedelta(days=400))
    remembered(memory, "said lately, written down before", occurred_at=NOW, recorded_at=NOW - timedelta(days=400))
    remembered(memory, "recorded long ago", recorded_at=NOW - timedelta(days=400))
    remembered(memory, "of today")
    passage = Memory("a passage", id="p", kind="document", recorded_at=NOW - timedelta(days=400))
    memory.store.upsert([to_entry(passage)], namespace=BOOKS)
    receipt = run(memory.forget(older_than=timedelta(days=365)))
    assert len(receipt.memories) == 2
    assert texts(memory) == ["of today", "said lately, written down before"]
    assert memory.store.count(namespace=BOOKS) == 1


def test_the_moment_itself_is_not_older(memory):
    remembered(memory, "at noon", occurred_at=NOW)
    assert run(memory.forget(older_than=NOW, dry_run=True)).memories == ()
    assert len(run(memory.forget(older_than=NOW + timedelta(microseconds=1), dry_run=True)).memories) == 1


def test_old_messages_of_which_nothing_was_remembered_go_too(memory):
    old = Message.system("an old rule").model_copy(update={"at": NOW - timedelta(days=9)})
    run(memory.remember_turn("s", [old, Message.user("a new question")]))
    receipt = run(memory.forget(older_than=timedelta(days=1)))
    assert (receipt.memories, receipt.messages) == ((), 1)
    assert said(memory, "s") == ["a new question"]


# --- what a question finds


def test_a_question_lists_what_it_finds_and_forgets_nothing(memory):
    dog = remembered(memory, "Rex the dog barks at night")
    remembered(memory, "The roof leaks")
    planned = run(memory.forget(query="dog barking", k=1, dry_run=True))
    assert (planned.memories, planned.dry_run) == ((dog,), True)
    with pytest.raises(ArgumentError, match="dry_run"):
        run(memory.forget(query="dog barking"))
    assert len(texts(memory)) == 2
    run(memory.forget(planned.memories))
    assert texts(memory) == ["The roof leaks"]


def test_a_question_that_finds_nothing_lists_nothing(memory):
    remembered(memory, "The roof leaks")
    assert run(memory.forget(query="zzz qqq", dry_run=True)).memories == ()
    for bad in ("", "  "):
        with pytest.raises(ArgumentError, match="query"):
            run(memory.forget(query=bad, dry_run=True))


# --- many at once


def test_many_words_are_found_as_few_are(memory):
    wanted = [remembered(memory, f"the secret number {n} is kept", tags=("gone",)) for n in range(60)]
    copies = [remembered(memory, f"he wrote: the secret number {n} is kept!") for n in range(0, 60, 7)]
    remembered(memory, "the secret number 61 is kept")
    run(memory.remember_turn("s", [Message.assistant("As I noted, the secret number 5 is kept."), Message.user("ok")]))
    receipt = run(memory.forget(tags=["gone"]))
    assert set(receipt.memories) == set(wanted)
    assert set(copies) < set(receipt.also)
    assert texts(memory) == ["ok", "the secret number 61 is kept"]
    assert said(memory, "s") == ["ok"]


def test_what_stays_does_not_mention_what_went_and_goes_with_its_last_source(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    both = remembered(memory, "from both", derived_from=(a, b))
    assert run(memory.forget([a])).named == (both,)
    (kept,) = run(memory.get([both]))
    assert kept.derived_from == (b,)
    run(memory.correct(both, "from both of them"))
    c = remembered(memory, "the third thing")
    three = remembered(memory, "from all", derived_from=(b, c))
    run(memory.correct(three, "from all of them"))
    receipt = run(memory.forget([c]))
    assert [version.derived_from for version in run(memory.history(three))] == [(b,), (b,)]
    assert run(memory.verify_forgotten(receipt)).left == ()
    assert run(memory.forget([three])).derived == ()
    assert run(memory.forget([b])).derived == (both,)


def test_looking_for_many_words_and_for_each_of_them_agree():
    for seed in range(40):
        rng = random.Random(seed)
        words = ["".join(rng.choices("ab é_", k=rng.choice([1, 2, 3, 7, 8, 9, 14]))).strip() or "a" for _ in range(60)]
        many = VerbatimTexts(words)
        for _ in range(60):
            text = "".join(rng.choices("ab é_", k=rng.choice([0, 1, 6, 30, 80])))
            text += rng.choice(["", rng.choice(words), f"({rng.choice(words)})"])
            assert many.held_by(text) == any(holds_verbatim(text, [one]) for one in words), (seed, text)


IMAGE = {"media_type": "image/png", "data": b"x"}


@pytest.mark.parametrize(
    "message",
    [
        Message.user([ImageBlock(**IMAGE, caption="a secret word here")]),
        Message.user([ImageBlock(**IMAGE, name="a secret word here")]),
        Message.tool([ToolResultBlock(call_id="1", content=(ImageBlock(**IMAGE, caption="a secret word here"),))]),
        Message.assistant([ToolCallBlock(id="1", name="save", invalid="{a secret word here")]),
        Message(role="user", metadata={"notes": ["a secret word here"]}),
    ],
)
def test_words_are_found_in_whatever_part_of_a_message_has_them(message):
    assert VerbatimTexts(["secret word"]).in_message(message)


@pytest.mark.parametrize(
    "field", [{"title": "a secret word"}, {"heading": ["a secret word"]}, {"tags": ["secret word"]}]
)
def test_words_are_found_in_title_headings_and_tags(field):
    assert VerbatimTexts(["secret word"]).in_entry(Entry("x", None, "nothing of it", metadata=field))
