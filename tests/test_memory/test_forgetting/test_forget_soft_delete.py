"""Soft delete: hidden from every answer at once, restorable within the grace period, erased after it."""

from datetime import UTC, datetime, timedelta

import pytest

from tellback.memory import (
    ArgumentError,
    CannotUndo,
    FixedWindow,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NoSuchMemory,
    NotTrusted,
    ShortTermMemory,
    SummaryWindow,
    TextBlock,
    ToolResultBlock,
    Trust,
    open_memory,
)
from tellback.memory.internals import ARCHIVE, CONVERSATION, IngestAction, Outcome, RecallStage, store_namespace
from tellback.vectorstore import BusyError, DamageError, Entry, open_store
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.forgetting import (
    NOTING_TURN,
    SECRET,
    WEEK,
    ToyEmbedder,
    ingested,
    remembered,
    run,
    sequences,
    sources,
    tool_memories,
)


@pytest.fixture
def embedder():
    return ToyEmbedder()


@pytest.fixture
def file_memory(tmp_path, clock):
    opened = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    yield opened
    run(opened.close())


def prepared(memory):
    """Two memories of a turn, the first with an older version, and one beside them."""
    first, second = run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant(f"Noted: {SECRET}")]))
    run(memory.correct(first.id, "the locker code is 55284032-quagga"))
    run(memory.remember("The weather is fine."))
    return first.id, second.id


def state(memory):
    """Return every readable content of the memory."""
    lanes = [store_namespace("", lane) for lane in (CONVERSATION, ARCHIVE)]
    entries = {
        lane: [
            (
                (entry.id, entry.text, entry.context, dict(entry.metadata), entry.no_vector),
                None if entry.vector is None else entry.vector.tolist(),
            )
            for entry in memory.store.scan(namespace=lane)
        ]
        for lane in lanes
    }
    messages = [(row.sequence, row.message, row.at, row.memory) for row in run(memory.conversations.load("s"))]
    found = [hit.memory.id for hit in run(memory.recall("what is the locker code?"))]
    return entries, messages, found


def test_soft_deleted_memories_appear_in_no_reading_call(memory):
    first, second = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    assert receipt.due == memory.clock() + WEEK
    assert receipt.ids == (first, second)
    assert [listed.text for listed in run(memory.list())] == ["The weather is fine."]
    assert run(memory.count()) == 1
    assert run(memory.get([first, second, f"{first}@1"])) == [None, None, None]
    assert run(memory.conversations.load("s")) == []
    assert [hit.memory.text for hit in run(memory.recall("locker code zebra"))] in ([], ["The weather is fine."])
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
    with pytest.raises(NoSuchMemory):
        run(memory.history(first))
    with memory.store.view([store_namespace("", CONVERSATION)]) as view:
        assert view.df(["zebra", "quagga"], namespace=store_namespace("", CONVERSATION)) == [0, 0]


def test_soft_deleted_memories_come_back_neither_by_complete_nor_by_remember(memory):
    first, _ = prepared(memory)
    run(memory.forget([first], grace=WEEK))
    assert run(memory.complete()) == 0
    assert run(memory.remember(Memory(SECRET, id=first))).outcome is Outcome.REJECTED


def test_restore_forgotten_brings_back_the_whole_state_before_a_soft_delete(memory):
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
    (taken_back,) = [operation for operation in run(memory.operations()) if operation.id == receipt.operation]
    assert taken_back.undone_by == done.id
    assert memory.store.verify() == []
    run(memory.correct(first, "and it lives on"))
    assert [version.text for version in run(memory.history(first))][:2] == [
        "and it lives on",
        "the locker code is 55284032-quagga",
    ]


def test_restore_leaves_no_soft_delete_and_no_tombstone(memory):
    first, _ = prepared(memory)
    undone = run(memory.remember("taken back at once"))
    run(memory.undo(undone.operation))
    for receipt in [run(memory.forget([id], grace=WEEK)) for id in (first, undone.id)]:
        assert set(memory.soft_deletes.of("")) >= {receipt.operation}
        run(memory.restore_forgotten(receipt.operation))
    assert list(memory.soft_deletes.of("")) == []
    lanes = memory.tombstones.partitions()
    assert [id for lane in lanes for id, _ in memory.tombstones.ids(lane)] == []
    for text in (SECRET, "the locker code is 55284032-quagga", "taken back at once"):
        assert memory.tombstones.words_at("", text) is None


def test_one_memory_of_a_soft_delete_is_erased_and_the_rest_restored(memory):
    first, second = prepared(memory)
    other = run(memory.remember("and another thing")).id
    receipt = run(memory.forget([first, other], grace=WEEK))
    planned = run(memory.forget([first], dry_run=True))
    done = run(memory.forget([first]))
    assert (planned.memories, done.memories) == ((first,), (first,))
    assert done.parts["held"] == 5  # two versions, an answer that says the words, and the messages of both
    assert len(done.hashes) == 3
    run(memory.restore_forgotten(receipt.operation))
    assert [listed.text for listed in run(memory.list())] == ["The weather is fine.", "and another thing"]
    assert run(memory.get([first, second])) == [None, None]
    assert run(memory.conversations.load("s")) == []
    with pytest.raises(NoSuchMemory):
        run(memory.history(first))


def test_forgetting_the_same_words_erases_them_from_soft_deletes(memory):
    first, second = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    again = run(memory.remember(SECRET)).id
    run(memory.forget([again]))
    run(memory.restore_forgotten(receipt.operation))
    back = run(memory.get([first, second]))
    assert [found and found.text for found in back] == ["the locker code is 55284032-quagga", None]
    assert len(run(memory.history(first))) == 1
    assert run(memory.conversations.load("s")) == []


def test_a_less_trusted_actor_erases_nothing_from_soft_deletes(memory):
    first, _ = prepared(memory)
    run(memory.forget([first], grace=WEEK))
    (noted,) = run(memory.remember_many([Memory(SECRET, actor="tool", trust=Trust.TOOL)]))
    for named in ([first], [noted.id]):
        with pytest.raises(NotTrusted):
            run(memory.forget(named, actor="tool"))
    assert run(memory.get([noted.id]))[0] is not None


def test_restore_works_once_within_the_grace_period_and_its_namespace(memory, clock):
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


def test_restore_forgotten_works_beside_equal_words_remembered_since(memory):
    first, _ = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    run(memory.remember(SECRET))
    run(memory.restore_forgotten(receipt.operation))
    assert run(memory.count()) == 4


def test_restore_is_refused_where_the_key_was_used_again(memory):
    target = run(memory.remember(Memory("with a key", key="k"))).id
    other = run(memory.remember("and another thing")).id
    receipt = run(memory.forget([target, other], grace=WEEK))
    run(memory.remember(Memory("with the same key", key="k")))
    with pytest.raises(ArgumentError, match="remembered anew"):
        run(memory.restore_forgotten(receipt.operation))
    assert run(memory.get([other])) == [None]


def test_a_wrong_grace_period_is_refused(memory):
    first, _ = prepared(memory)
    for bad in (timedelta(0), timedelta(days=-1), 7, timedelta.max):
        with pytest.raises(ArgumentError, match="grace"):
            run(memory.forget([first], grace=bad))
        assert run(memory.get([first]))[0] is not None


def test_a_soft_delete_without_matches_makes_no_operation(memory):
    receipt = run(memory.forget(tags=["none"], grace=WEEK))
    assert (receipt.due, receipt.operation) == (None, None)
    assert memory.erase_due() == 0


def test_remove_backups_is_refused_with_a_grace_period(memory):
    first, _ = prepared(memory)
    with pytest.raises(ArgumentError, match="remove_backups"):
        run(memory.forget([first], grace=WEEK, remove_backups=True))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_soft_deletes_are_erased_when_each_is_due(memory, clock, order):
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


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("way", ["a write", "a forgetting", "that of a namespace", "opening", "by hand"])
def test_no_byte_is_left_after_the_grace_period(tmp_path, clock, way):
    memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
    first, _ = prepared(memory)
    other = run(memory.remember("something else")).id
    receipt = run(memory.forget([first], grace=WEEK))
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
        memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
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


def test_another_process_restores_a_soft_delete(tmp_path, clock):
    memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
    first, _ = prepared(memory)
    before = state(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    run(memory.close())
    again = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
    run(again.restore_forgotten(receipt.operation))
    assert state(again) == before
    assert b"held" in bytes_of(tmp_path)
    run(again.close())


def test_restore_drops_vectors_of_another_space(tmp_path, clock):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), embedder=ToyEmbedder(), clock=clock)
    target = run(memory.remember(SECRET)).id
    receipt = run(memory.forget([target], grace=WEEK))
    store = memory.store
    from tellback.vectorstore import Space

    other = Space("toy/2", 4)
    store.begin_space(other)
    store.commit_space(other)
    run(memory.restore_forgotten(receipt.operation))
    (entry,) = store.get([target], namespace=store_namespace("", CONVERSATION))
    assert (entry.text, entry.vector, entry.no_vector) == (SECRET, None, None)
    store.close()


def test_damage_to_a_soft_delete_is_found(tmp_path, clock):
    memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
    first, _ = prepared(memory)
    receipt = run(memory.forget([first], grace=WEEK))
    with memory.store.database.write() as connection:
        connection.execute("UPDATE held_things SET data = replace(data, 'zebra', 'horse')")
    assert {finding.part for finding in memory.store.verify()} == {"held"}
    with pytest.raises(DamageError, match="held"):
        run(memory.restore_forgotten(receipt.operation))
    assert run(memory.forget_namespace("")).parts["held"] == 1
    run(memory.close())


def test_undo_restores_within_the_grace_period_alone(memory):
    first = run(memory.remember("the first thing"))
    run(memory.correct(first.id, "the first thing, better said"))
    receipt = run(memory.forget([first.id], grace=WEEK))
    done = run(memory.undo(receipt.operation))
    assert [version.text for version in run(memory.history(first.id))] == [
        "the first thing, better said",
        "the first thing",
    ]
    with pytest.raises(CannotUndo, match="forgotten again"):
        run(memory.undo(done.id))
    final = run(memory.forget([first.id]))
    with pytest.raises(CannotUndo, match="gone for good"):
        run(memory.undo(final.operation))


def test_earlier_operations_can_be_undone_after_a_restore(memory):
    first = run(memory.remember("the first thing"))
    corrected = run(memory.correct(first.id, "the first thing, better said"))
    receipt = run(memory.forget([first.id], grace=WEEK))
    with pytest.raises(CannotUndo, match="forgotten since"):
        run(memory.undo(corrected.operation))
    run(memory.restore_forgotten(receipt.operation))
    run(memory.undo(corrected.operation))
    assert [listed.text for listed in run(memory.list())] == ["the first thing"]


def test_restore_brings_backreferences_back(memory):
    a, b, c = (remembered(memory, text) for text in ("the first thing", "the second thing", "the third thing"))
    both = remembered(memory, "from all", derived_from=(a, b, c))
    run(memory.correct(both, "from all of them"))
    (answer,) = run(memory.remember_turn("s", [Message.assistant("I used it.")], used=[a, b]))
    receipts = [run(memory.forget([id], grace=WEEK)) for id in (a, b)]
    assert run(memory.get([both]))[0].derived_from == (c,)
    assert "used" not in run(memory.get([answer.id]))[0].metadata
    run(memory.restore_forgotten(receipts[0].operation))
    assert [version.derived_from for version in run(memory.history(both))] == [(a, c), (a, c)]
    assert run(memory.get([answer.id]))[0].metadata["used"] == [a]
    run(memory.restore_forgotten(receipts[1].operation))
    assert run(memory.get([both]))[0].derived_from == (a, b, c)


def test_restore_leaves_backreferences_to_erased_memories_out(memory):
    a, b, c = (remembered(memory, text) for text in ("the first thing", "the second thing", "the third thing"))
    both = remembered(memory, "from all", derived_from=(a, b, c))
    other = remembered(memory, "from two", derived_from=(a, c))
    receipt = run(memory.forget([a, b], grace=WEEK))
    final = run(memory.forget([a, other]))
    run(memory.restore_forgotten(receipt.operation))
    assert run(memory.get([both]))[0].derived_from == (b, c)
    assert run(memory.get([other])) == [None]
    assert run(memory.verify_forgotten(final)).gone


def test_backreferences_of_more_than_a_page_are_removed_and_restored(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    made = [
        report.id for report in run(memory.remember_many(Memory(f"no. {n}", derived_from=(a, b)) for n in range(300)))
    ]
    receipt = run(memory.forget([a], grace=WEEK))
    assert {found.derived_from for found in run(memory.get(made))} == {(b,)}
    run(memory.restore_forgotten(receipt.operation))
    assert {found.derived_from for found in run(memory.get(made))} == {(a, b)}


def test_a_less_trusted_actor_erases_no_equal_words_from_soft_deletes(memory):
    run(memory.conversations.append("s", [Message.system("use the words my own words")]))
    run(memory.forget(session="s", grace=WEEK))
    (noted,) = run(memory.remember_many([Memory("my own words", actor="tool", trust=Trust.TOOL)]))
    with pytest.raises(NotTrusted):
        run(memory.forget([noted.id], actor="tool"))
    assert run(memory.forget([noted.id])).parts["held"] == 1


@pytest.mark.parametrize("by", ["undo", "restore_forgotten"])
def test_messages_without_a_memory_are_restored(memory, by):
    run(memory.conversations.append("s", [Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert run(memory.operations())[0].id == receipt.operation
    run(getattr(memory, by)(receipt.operation))
    assert [row.message.text for row in run(memory.conversations.load("s"))] == ["be brief"]
    assert run(memory.forget(session="s")).operation is None  # of messages alone nothing is in the log


def test_messages_of_a_soft_delete_are_restored_after_its_memories_were_erased(memory):
    run(memory.remember_turn("s", [Message.user("the first thing"), Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert run(memory.forget(receipt.memories)).parts["held"] == 2
    run(memory.restore_forgotten(receipt.operation))
    assert [row.message.text for row in run(memory.conversations.load("s"))] == ["be brief"]


def test_soft_deletes_of_equal_words_are_restored_independently(memory):
    receipts = [run(memory.forget([remembered(memory, "the very same words")], grace=WEEK)) for _ in range(2)]
    assert [receipt.parts.get("held") for receipt in receipts] == [None, None]
    for receipt in receipts:
        run(memory.restore_forgotten(receipt.operation))
    assert len(run(memory.list())) == 2


def test_a_memory_that_is_live_and_soft_deleted_is_counted_once(memory):
    first = remembered(memory, "with a key", key="k")
    receipt = run(memory.forget([first], grace=WEEK))
    assert remembered(memory, "other words", key="k") == first
    done = run(memory.forget([first]))
    assert (done.memories, done.parts["held"], len(done.hashes)) == ((first,), 1, 2)
    assert receipt.operation not in memory.soft_deletes.of("")


def test_soft_deleted_versions_are_erased_with_their_memory_by_any_selector(memory):
    first = remembered(memory, "with a key", key="k")
    run(memory.forget([first], grace=WEEK))
    assert remembered(memory, "other words", key="k", tags=("house",)) == first
    assert run(memory.forget(tags=["house"])).parts["held"] == 1
    assert list(memory.soft_deletes.of("")) == []


def test_forgetting_one_memory_erases_its_words_from_the_soft_delete(memory):
    both = [remembered(memory, "the first thing"), remembered(memory, "the second thing")]
    receipt = run(memory.forget(both, grace=WEEK))
    run(memory.forget(both[:1]))
    assert memory.soft_deletes.get("", receipt.operation).words == ("the second thing",)
    run(memory.restore_forgotten(receipt.operation))
    assert memory.tombstones.words_at("", "the first thing") is not None
    assert memory.tombstones.words_at("", "the second thing") is None


def test_restore_needs_the_trust_of_the_forgetting_and_of_the_memory(memory):
    mine, tools = remembered(memory, "my own words"), remembered(memory, "what a tool said", trust=Trust.TOOL)
    by_me = run(memory.forget([tools], grace=WEEK))
    by_tool = run(memory.forget([mine], actor="tool", approved_by="user", grace=WEEK))
    for operation in (by_me.operation, by_tool.operation):
        with pytest.raises(NotTrusted):
            run(memory.restore_forgotten(operation, actor="tool"))
        run(memory.restore_forgotten(operation, actor="tool", approved_by="user"))
    assert len(run(memory.list())) == 2


def test_a_tool_call_and_its_result_are_restored_together(memory):
    run(memory.remember_turn("s", NOTING_TURN))
    (noted,) = tool_memories(memory)
    first = run(memory.forget([noted.id], grace=WEEK))
    assert sequences(memory) == [1, 4]
    run(memory.restore_forgotten(first.operation))
    assert sequences(memory) == [1, 2, 3, 4]
    second = run(memory.forget(session="s", grace=WEEK))
    assert run(memory.forget([run(memory.remember(noted.text)).id])).parts["held"] >= 2
    run(memory.restore_forgotten(second.operation))
    assert 3 not in sequences(memory)
    assert tool_memories(memory) == []


FIRST, SECOND = "The locker is by the door.", 'Its "code" is 44173921.'


def results(*texts):
    return [ToolResultBlock(call_id=str(n), name="look", content=(TextBlock(text=t),)) for n, t in enumerate(texts)]


def test_copies_split_into_blocks_are_erased_from_soft_deletes(memory):
    from datetime import timedelta

    (report,) = run(memory.remember_turn("told", [Message.tool(results(FIRST, SECOND)), Message.user("x y z")]))[1:]
    aside = run(memory.forget(session="told", grace=timedelta(days=1)))
    run(memory.forget([run(memory.remember(f"{FIRST}\n{SECOND}")).id]))
    run(memory.restore_forgotten(aside.operation))
    assert sequences(memory, "told") == [2]
    assert run(memory.get([report.id]))[0].text == "x y z"


def test_restore_forgotten_brings_a_document_back_into_the_knowledge_base(file_memory, notes):
    ingested(file_memory, notes)
    before = run(KnowledgeBase(file_memory).documents())
    receipt = run(file_memory.forget(document="tower.md", grace=timedelta(days=7)))
    assert sources(file_memory) == ["garden.md"]
    run(file_memory.restore_forgotten(receipt.operation))
    assert run(KnowledgeBase(file_memory).documents()) == before
    assert set(ingested(file_memory, notes).values()) == {IngestAction.UNCHANGED}
    assert "291" in run(file_memory.recall("How many steps has the tower?", 1))[0].memory.text


# --- every answer


WORDS = ("zebra", "quagga", "okapi", "a private tag")


def window(memory):
    def summarise(before, given):
        return before + "; ".join(item.text for item in given)

    policy = SummaryWindow(FixedWindow(messages=1), summarise)
    return run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())


def exported(memory, folder):
    path = folder / "all.jsonl"
    run(memory.export(path))
    lines = path.read_text()
    path.unlink()
    return lines


def of(awaitable):
    try:
        return run(awaitable)
    except NoSuchMemory:
        return None


ID = "0" * 32


ANSWERS = {
    "recall": lambda m, _: run(m.recall("Which locker code has the zebra?", neighbours=1)),
    "recall of passages": lambda m, _: run(KnowledgeBase(m).retrieve("Which okapi?")),
    "recall as of a day": lambda m, _: run(m.recall("locker code", as_of=m.clock() - timedelta(days=1))),
    "recall as known then": lambda m, _: run(m.recall("locker code", known_at=m.clock() - timedelta(days=1))),
    "list": lambda m, _: run(m.list()),
    "list as of a day": lambda m, _: run(m.list(as_of=m.clock() - timedelta(days=1))),
    "pinned": lambda m, _: run(m.pinned()),
    "get": lambda m, _: run(m.get([ID, *(entry.id for entry in m.store.scan(namespace="/archive"))])),
    "history": lambda m, _: of(m.history(ID)),
    "why not": lambda m, _: of(m.why_not("locker code", ID)),
    "stats": lambda m, _: run(m.stats()),
    "operations": lambda m, _: run(m.operations()),
    "export": exported,
    "sessions": lambda m, _: run(m.conversations.sessions()),
    "messages": lambda m, _: run(m.conversations.load("s")),
    "window": lambda m, _: window(m),
    "summary": lambda m, _: run(m.conversations.summary("s", "summary")),
    "documents": lambda m, _: run(KnowledgeBase(m).documents()),
}


NAMING = ("operations", "export", "why not")
"""Answers that name the id: of the log, of a tombstone, of the question."""


def fill(memory, folder, clock):
    """A pinned memory with an older version and a tag, a session, a summary and a document that say the words."""
    clock.now -= timedelta(days=2)
    run(memory.remember(Memory(SECRET, id=ID)))
    run(memory.remember("The weather is fine."))
    clock.now += timedelta(days=2)
    run(memory.correct(ID, "the locker code is 55284032-quagga"))
    run(memory.pin([ID]))
    run(memory.tag([ID], ["a private tag"]))
    run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant("Noted."), Message.user("Good.")]))
    (folder / "notes").mkdir()
    (folder / "notes" / "okapi.md").write_text(f"# Okapi\n\n{SECRET}\n")
    run(KnowledgeBase(memory).ingest(folder / "notes"))
    window(memory)


def test_no_public_reading_call_shows_words_of_a_soft_deleted_memory(file_memory, tmp_path, clock):
    """Before and after the program is started again."""
    fill(file_memory, tmp_path, clock)
    before = {name: repr(ask(file_memory, tmp_path)) for name, ask in ANSWERS.items()}
    assert [name for name, answer in before.items() if not any(word in answer for word in (*WORDS, ID))] == []
    receipt = run(file_memory.forget([ID], grace=WEEK))
    assert receipt.due is not None
    shows_no_words(file_memory, tmp_path)
    run(file_memory.close())
    again = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    shows_no_words(again, tmp_path)
    run(again.restore_forgotten(receipt.operation))
    assert "quagga" in repr(run(again.history(ID)))
    run(again.close())


def shows_no_words(memory, folder):
    for name, ask in ANSWERS.items():
        answer = repr(ask(memory, folder))
        assert [word for word in WORDS if word in answer] == [], name
        assert ID not in answer or name in NAMING, name
    assert run(memory.why_not("locker code", ID)).stage is RecallStage.UNKNOWN
    assert run(memory.count()) == 3
    assert run(memory.stats()).lanes == {"archive": 0, "conversation": 3, "documents": 0}


def noted(memory):
    id = run(memory.remember(SECRET)).id
    return run(memory.forget([id], grace=WEEK))


def held(folder):
    return any(b"zebra" in path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_due_soft_deletes_of_another_process_are_erased_by_a_write(file_memory, tmp_path, clock):
    other = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    noted(other)
    run(other.close())
    clock.now += WEEK - timedelta(seconds=1)
    run(file_memory.remember("a second too early"))
    assert held(tmp_path)
    clock.now += timedelta(minutes=1)
    run(file_memory.remember("some other thing"))
    assert not held(tmp_path)


def test_writes_look_for_due_soft_deletes_once_a_minute_or_when_the_clock_went_back(file_memory, clock, monkeypatch):
    looked = []
    held_there = file_memory.soft_deletes
    due = held_there.due
    monkeypatch.setattr(held_there, "due", lambda position: looked.append(position) or due(position))
    for seconds in (59, 0, 1, 59, -100, 0):
        clock.now += timedelta(seconds=seconds)
        run(file_memory.remember(f"thing {clock.now}"))
    start = datetime(2026, 6, 1, tzinfo=UTC)
    assert [(position - start).total_seconds() for position in looked] == [60, 19]


def test_a_failing_erasure_of_due_soft_deletes_is_tried_again(file_memory, tmp_path, clock, monkeypatch):
    noted(file_memory)
    other = run(file_memory.remember("another thing")).id
    clock.now += WEEK

    def busy(*given):
        raise BusyError("somebody else is writing")

    with monkeypatch.context() as patched:
        patched.setattr(file_memory.soft_deletes, "erase", busy)
        assert run(file_memory.remember("a new thing")).stored
        assert run(file_memory.forget([other])).memories == (other,)
        assert held(tmp_path)
    run(file_memory.remember("the next thing"))
    assert not held(tmp_path)


def test_a_read_only_file_keeps_due_soft_deletes(file_memory, tmp_path, clock, monkeypatch):
    receipt = noted(file_memory)
    clock.now += WEEK
    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "read_only", True)
        assert file_memory.erase_due() == 0
        left = {remnant.where for remnant in run(file_memory.verify_forgotten(receipt, [SECRET])).left}
        assert {"held", "log", str(tmp_path / "m.db")} <= left
    assert file_memory.erase_due() == 1
    assert run(file_memory.verify_forgotten(receipt)).gone
