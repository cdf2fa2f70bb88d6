"""Selection of what to forget: by id, source, session, document, filter, scope, tag, age, or a query in a dry run."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tellback.memory import ArgumentError, Memory, Message, NoSuchMemory, Source, TextBlock, ToolResultBlock
from tellback.memory.internals import DOCUMENTS, store_namespace, to_entry
from tests.support.forgetting import BOOKS, NOW, message_texts, remembered, run, texts


def test_an_empty_or_wrong_selector_is_refused(memory):
    remembered(memory, "kept")
    for named in (
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
    ):
        with pytest.raises(ArgumentError):
            run(memory.forget(**named))
        assert texts(memory) == ["kept"], named


def test_a_selector_without_matches_forgets_nothing(memory):
    remembered(memory, "kept", tags=("house",), session="s")
    for named in ({"tags": ["garden"]}, {"session": "t"}, {"where": {"kind": "event"}}, {"older_than": NOW}):
        receipt = run(memory.forget(**named))
        assert (receipt.ids, receipt.messages, receipt.operation) == ((), 0, None)
    assert texts(memory) == ["kept"]


def test_session_selects_memories_and_all_messages(memory):
    result = Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text="a tool said so"),))])
    system = Message.system("be brief")
    run(memory.remember_turn("s", [system, Message.user("in this session"), result, Message.assistant("I see")]))
    run(memory.remember_turn("t", [Message.user("in another session")]))
    remembered(memory, "noted from it", source=Source(session="s", sequence=1))
    remembered(memory, "noted elsewhere", source=Source(session="t", sequence=1))
    receipt = run(memory.forget(session="s"))
    assert (len(receipt.memories), receipt.messages) == (4, 4)
    assert texts(memory) == ["in another session", "noted elsewhere"]
    assert (message_texts(memory, "s"), message_texts(memory, "t")) == ([], ["in another session"])
    assert run(memory.complete()) == 0


def test_session_names_match_exactly(memory):
    for session in ("sess-1", "sess-10", "SESS-1"):
        run(memory.remember_turn(session, [Message.user(f"<{session}>")]))
    run(memory.forget(session="sess-1"))
    assert texts(memory) == ["<SESS-1>", "<sess-10>"]


def test_document_selects_passages_of_every_collection_and_notes_from_it(memory):
    for name, lane in (("a.md", BOOKS), ("b.md", BOOKS), ("a.md", store_namespace("", DOCUMENTS, "notes"))):
        passage = Memory(f"of {name} in {lane}", id=f"{name} {lane}", kind="document", source=Source(document=name))
        memory.store.upsert([to_entry(passage)], namespace=lane)
    remembered(memory, "a note on a.md", source=Source(document="a.md", page=2))
    receipt = run(memory.forget(document="a.md"))
    assert len(receipt.memories) == 3
    assert [entry.id for entry in memory.store.scan(namespace=BOOKS)] == [f"b.md {BOOKS}"]
    assert texts(memory) == []


def test_source_selects_a_session_a_document_or_a_place_in_it(memory):
    run(memory.remember_turn("s", [Message.user("first"), Message.user("second thing said")]))
    remembered(memory, "from page two", source=Source(document="a.md", page=2))
    remembered(memory, "from page three", source=Source(document="a.md", page=3))
    run(memory.forget(source=Source(document="a.md", page=3)))
    assert "from page two" in texts(memory)
    run(memory.forget(source=Source(session="s", sequence=1)))
    assert (texts(memory), message_texts(memory, "s")) == (
        ["from page two", "second thing said"],
        ["second thing said"],
    )
    run(memory.forget(source="a.md"))
    assert texts(memory) == ["second thing said"]
    run(memory.forget(source="s"))
    assert (texts(memory), message_texts(memory, "s")) == ([], [])


def test_where_scopes_and_tags_select_as_in_recall(memory):
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


def test_a_filter_spares_pinned_memories_that_nobody_named(memory):
    pinned = remembered(memory, "a pinned event", kind="event", pinned=True)
    remembered(memory, "an event", kind="event")
    plan = run(memory.forget(where={"kind": "event"}, dry_run=True))
    assert (len(plan.memories), plan.spared) == (1, 1)
    assert run(memory.forget(where={"kind": "event"})).spared == 1
    assert texts(memory) == ["a pinned event"]
    named = [{"ids": [pinned], "where": {"kind": "event"}}, {"where": {"kind": "event", "pinned": True}}]
    for selectors in named:
        assert run(memory.forget(**selectors, dry_run=True)).memories == (pinned,)
    run(memory.forget(**named[1]))
    assert texts(memory) == []


def test_keys_name_memories_beside_ids(memory):
    remembered(memory, "by key", key="k")
    id = remembered(memory, "by id")
    with pytest.raises(NoSuchMemory):
        run(memory.forget(keys=["unknown"]))
    run(memory.forget([id], keys=["k"]))
    assert texts(memory) == []


def test_a_query_lists_what_recall_finds_near_and_nothing_where_it_abstains(memory):
    for text in ("Ana has a cat.", "Ana lives in Porto.", "The boiler was serviced."):
        remembered(memory, text)
    assert len(run(memory.forget(query="Ana", dry_run=True)).memories) == 2
    assert run(memory.forget(query="submarine", dry_run=True)).memories == ()


def test_selectors_are_joined_by_and(memory):
    first = remembered(memory, "house event", kind="event", tags=("house",))
    second = remembered(memory, "house fact", tags=("house",))
    run(memory.forget([first, second], tags=["house"], where={"kind": "fact"}))
    assert texts(memory) == ["house event"]
    with pytest.raises(NoSuchMemory):
        run(memory.forget([first, "nope"], tags=["house"]))
    assert texts(memory) == ["house event"]


def test_older_than_compares_occurred_at_else_recorded_at(memory):
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


def test_older_than_excludes_a_memory_dated_exactly_at_the_bound(memory):
    remembered(memory, "at noon", occurred_at=NOW)
    assert run(memory.forget(older_than=NOW, dry_run=True)).memories == ()
    assert len(run(memory.forget(older_than=NOW + timedelta(microseconds=1), dry_run=True)).memories) == 1


def test_older_than_selects_messages_without_a_memory(memory):
    old = Message.system("an old rule").model_copy(update={"at": NOW - timedelta(days=9)})
    run(memory.remember_turn("s", [old, Message.user("a new question")]))
    receipt = run(memory.forget(older_than=timedelta(days=1)))
    assert (receipt.memories, receipt.messages) == ((), 1)
    assert message_texts(memory, "s") == ["a new question"]


def test_forget_by_query_is_allowed_only_as_a_dry_run_that_lists_the_hits(memory):
    dog = remembered(memory, "Rex the dog barks at night")
    remembered(memory, "The roof leaks")
    planned = run(memory.forget(query="dog barking", k=1, dry_run=True))
    assert (planned.memories, planned.dry_run) == ((dog,), True)
    with pytest.raises(ArgumentError, match="dry_run"):
        run(memory.forget(query="dog barking"))
    assert len(texts(memory)) == 2
    run(memory.forget(planned.memories))
    assert texts(memory) == ["The roof leaks"]


def test_forget_by_query_without_hits_selects_nothing_and_a_blank_query_is_refused(memory):
    remembered(memory, "The roof leaks")
    assert run(memory.forget(query="zzz qqq", dry_run=True)).memories == ()
    for bad in ("", "  "):
        with pytest.raises(ArgumentError, match="query"):
            run(memory.forget(query=bad, dry_run=True))


def passage(memory, id, **fields):
    memory.store.upsert([to_entry(Memory(f"passage {id}", id=id, kind="document", **fields))], namespace=BOOKS)


def meant(memory, **named):
    return sorted(run(memory.forget(**named, dry_run=True)).memories)


def test_session_and_source_select_by_every_field_that_names_them(memory):
    remembered(memory, "one", id="of the session", session="s")
    remembered(memory, "two", id="said in it", source=Source(session="s", sequence=1))
    remembered(memory, "three", id="seen in it", session="s", sequence=2)
    remembered(memory, "four", id="said elsewhere", source=Source(session="t", sequence=1), sequence=2)
    remembered(memory, "five", id="noted from it", source=Source(document="d"))
    for named in ({"session": "s"}, {"source": "s"}, {"source": Source(session="s")}):
        assert meant(memory, **named) == ["of the session", "said in it", "seen in it"]
    assert meant(memory, source=Source(session="s", sequence=1)) == ["said in it"]
    assert meant(memory, source=Source(session="s", sequence=2)) == ["seen in it"]
    assert meant(memory, source="t") == ["said elsewhere"]
    assert meant(memory, source="d") == meant(memory, document="d") == ["noted from it"]


def test_a_source_matches_in_every_field_that_it_gives(memory):
    first = Source(document="d", title="One", heading=("A", "B"), page=1, start=0, end=9)
    sources = {
        "first": first,
        "another document": replace(first, document="e"),
        "another title": replace(first, title="Two"),
        "another heading": replace(first, heading=("A",)),
        "another page": replace(first, page=2),
        "another start": replace(first, start=1),
        "another end": replace(first, end=8),
    }
    for name, source in sources.items():
        passage(memory, name, source=source)
    assert {name: meant(memory, source=source) for name, source in sources.items()} == {
        name: [name] for name in sources
    }


def test_a_further_selector_spares_messages_without_a_memory(memory):
    result = Message.tool([ToolResultBlock(call_id="1")])
    run(memory.remember_turn("s", [Message.user("a question of mine"), result]))
    fields = {"kind": "note", "scopes": {"project": "p"}, "tags": ("t",), "source": Source(session="s", document="d")}
    remembered(memory, "noted", id="x", **fields)
    for named in (
        {"ids": ["x"]},
        {"document": "d"},
        {"where": {"kind": "note"}},
        {"scopes": {"project": "p"}},
        {"tags": ["t"]},
    ):
        for place in ({"session": "s"}, {"source": "s"}, {"older_than": timedelta(0)}):
            planned = run(memory.forget(**named, **place, dry_run=True))
            assert (planned.memories, planned.messages) == ((() if "older_than" in place else ("x",)), 0), named


def test_a_session_and_another_source_select_nothing(memory):
    run(memory.remember_turn("s", [Message.user("said here")]))
    run(memory.remember_turn("t", [Message.user("said there")]))
    for named in (
        {"session": "s", "source": "t"},
        {"session": "s", "source": Source(session="t")},
        {"source": Source(document="s")},
    ):
        assert run(memory.forget(**named)).messages == 0
        assert run(memory.count()) == 2


def test_older_than_selects_passages_only_with_their_document(memory):
    passage(memory, "old", source=Source(document="d"), recorded_at=NOW - timedelta(days=9))
    passage(memory, "new", source=Source(document="d"), recorded_at=NOW)
    assert meant(memory, older_than=timedelta(days=1)) == []
    for named in ({"document": "d"}, {"source": "d"}, {"source": Source(document="d")}):
        assert meant(memory, older_than=timedelta(days=1), **named) == ["old"]


def test_older_than_compares_the_time_of_a_message_else_of_its_storage(memory):
    old = Message.user([]).model_copy(update={"at": NOW - timedelta(days=9)})
    new = Message.user([]).model_copy(update={"at": NOW})
    run(memory.conversations.append("s", [old, Message.user([]), new]))
    assert run(memory.forget(older_than=NOW, dry_run=True)).messages == 1
    assert run(memory.forget(older_than=NOW + timedelta(seconds=1), dry_run=True)).messages == 3


def test_an_id_given_twice_counts_once(memory):
    noted = remembered(memory, "once")
    assert run(memory.forget([noted, noted])).memories == (noted,)


def test_forgetting_a_forgotten_passage_again_selects_nothing(memory):
    for id in ("p", "q"):
        passage(memory, id)
    run(memory.forget(["p"]))
    assert run(memory.forget(["p", "q"])).memories == ("q",)
    assert run(memory.forget(["p"])).memories == ()
    with pytest.raises(NoSuchMemory):
        run(memory.forget(["p"], namespace="b"))


def test_selectors_match_undone_memories_and_present_versions_alone(memory):
    undone = run(memory.remember(Memory("said by mistake", session="s")))
    run(memory.undo(undone.operation))
    corrected = remembered(memory, "words before")
    run(memory.correct(corrected, "other words"))
    assert meant(memory, where={"retired_at": {"$exists": True}}) == [undone.id]
    assert meant(memory, session="s") == [undone.id]


def test_query_is_limited_by_ids_namespace_and_k(memory):
    here = [remembered(memory, f"The roof leaks {n} times") for n in range(3)]
    present = run(memory.remember("The roof there leaks", namespace="b")).id
    assert meant(memory, query="roof leaks", ids=here[:2]) == sorted(here[:2])
    assert meant(memory, query="roof leaks", ids=here, tags=["none"]) == []
    assert meant(memory, query="roof leaks", namespace="b") == [present]
    assert len(meant(memory, query="roof leaks", k=1)) == 1
    with pytest.raises(ValueError, match="k"):
        run(memory.forget(query="roof leaks", k=0, dry_run=True))


def test_an_unknown_id_is_refused_before_anything_is_erased(memory):
    known = remembered(memory, "known")
    with pytest.raises(NoSuchMemory, match="nope"):
        run(memory.forget([known, "nope"]))
    with pytest.raises(ArgumentError, match="ids"):
        run(memory.forget(known))
    assert texts(memory) == ["known"]


def test_forgetting_a_forgotten_memory_again_selects_nothing(memory):
    target = remembered(memory, "once")
    run(memory.forget([target]))
    assert run(memory.forget([target])).memories == ()
