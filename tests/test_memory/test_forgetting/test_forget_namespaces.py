"""Forgetting a namespace: every component of it is erased, and no other namespace is touched.

Inner parts, on no face: ``tellback.memory.retrieval.index``, ``tellback.memory.history.protocol``.
"""

from datetime import timedelta

import pytest

from tellback.memory import (
    DatabaseHistory,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NotTrusted,
    Retention,
    Trust,
    entry_store,
)
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.internals import DOCUMENTS, Outcome, store_namespace, to_entry
from tellback.memory.retrieval.index import index_sync
from tellback.vectorstore import open_store
from tests.support.forgetting import (
    NOW,
    SECRET,
    WEEK,
    RecordingEraser,
    ToyEmbedder,
    message_texts,
    remembered,
    run,
    sources,
)

WORDS = ("44173921-zebra", "55284032-quagga", "66395143-okapi", "77406254-tapir", "88517365-lemur")


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
        [row.session for row in run(memory.conversations.sessions(namespace=namespace))],
        [operation.id for operation in run(memory.operations(namespace=namespace))],
        list(memory.soft_deletes.of(namespace)),
    )


def test_forgetting_a_namespace_erases_all_of_it_and_touches_no_other_namespace(memory):
    others = ["", "ann", "ann ", "a/b %c", "a"]
    for name in others:
        filled(memory, name)
    for namespace in ("a/b %c", "ann", ""):
        others.remove(namespace)
        before = [everything(memory, other) for other in others]
        receipt = run(memory.forget_namespace(namespace))
        assert receipt.whole
        assert (len(receipt.memories), receipt.versions, receipt.messages) == (3, 1, 2)
        assert receipt.parts["operations"] == 5
        assert receipt.parts["held"] == 1
        assert everything(memory, namespace) == ({}, [], [], [])
        assert [everything(memory, other) for other in others] == before


def test_a_dry_run_of_forgetting_a_namespace_counts_the_same_and_changes_nothing(memory):
    filled(memory, "ann")
    before = everything(memory, "ann")
    planned = run(memory.forget_namespace("ann", dry_run=True))
    assert everything(memory, "ann") == before
    done = run(memory.forget_namespace("ann"))
    assert (planned.memories, planned.versions, planned.messages) == (done.memories, done.versions, done.messages)
    assert (planned.dry_run, done.dry_run) == (True, False)


def test_a_forgotten_namespace_accepts_new_memories_and_no_forgotten_ids(memory):
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


def test_erasers_of_a_forgotten_namespace_get_every_text_and_then_the_everything_flag(memory):
    filled(memory, "ann")
    eraser = RecordingEraser()
    memory.erasers.append(eraser)
    receipt = run(memory.forget_namespace("ann"))
    assert eraser.calls[-1].everything
    assert not any(items.everything for items in eraser.calls[:-1])
    assert {text for items in eraser.calls for text in items.texts} == {
        f"a code: {WORDS[0]}",
        f"a better code: {WORDS[1]}",
        f"I said {WORDS[2]}",
        f"it is written: {WORDS[3]}",
    }
    assert receipt.parts["recording"] == len(eraser.calls)


def test_a_forgotten_namespace_of_several_pages_leaves_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(entry_store, "ERASED_PAGE_SIZE", 16)
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=lambda: NOW)
    filled(memory, "ann")
    run(memory.remember_many((f"thing {n}" for n in range(40)), namespace="ann"))
    receipt = run(memory.forget_namespace("ann"))
    assert len(receipt.memories) == 43
    assert run(memory.verify_forgotten(receipt, list(WORDS))).gone
    run(memory.close())
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [word for word in WORDS if word.encode() in content] == []


def test_bytes_of_a_forgotten_namespace_are_pending_while_another_store_reads(tmp_path):
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


def test_the_receipt_has_a_hash_of_each_text_and_no_text(memory):
    filled(memory, "ann")
    receipt = run(memory.forget_namespace("ann"))
    assert len(receipt.hashes) == 4
    assert not any(word in repr(receipt) for word in WORDS)


def test_equal_words_of_another_namespace_stay(memory):
    run(memory.remember(SECRET, namespace="b"))
    run(memory.remember_turn("s", [Message.user(SECRET)], namespace="b"))
    run(memory.forget([remembered(memory, SECRET)]))
    assert run(memory.count(namespace="b")) == 2
    assert len(run(memory.conversations.load("s", namespace="b"))) == 1


@pytest.mark.parametrize("what", ["memory", "message"])
def test_trusted_soft_deletes_keep_a_less_trusted_actor_from_forgetting_the_namespace(memory, what):
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


def test_a_new_message_with_the_number_of_a_forgotten_one_is_kept(memory, tmp_path, clock):
    run(memory.conversations.append("s", [Message.system("before")], namespace="ann"))
    run(memory.forget_namespace("ann"))
    clock.now += timedelta(seconds=1)
    assert run(memory.conversations.append("s", [Message.system("after")], namespace="ann")) == [1]
    run(memory.export(tmp_path / "a.jsonl", namespace="ann"))
    run(memory.conversations.clear("s", namespace="ann"))
    run(memory.import_(tmp_path / "a.jsonl", namespace="ann", trust="user"))
    assert message_texts(memory, namespace="ann") == ["after"]


@pytest.mark.parametrize("whole", [False, True])
def test_tombstones_do_not_affect_another_namespace(memory, whole):
    ours = remembered(memory, SECRET, id="x")
    run(memory.forget_namespace("") if whole else memory.forget([ours]))
    memory.conversations.rows.place([HistoryRow("b", "s", 1, Message.user(SECRET), NOW - WEEK)])
    assert run(memory.complete()) == 1
    assert run(memory.remember(Memory("theirs", id="x"), namespace="b")).stored


def test_restore_does_not_affect_another_namespace(memory):
    for namespace in ("", "b"):
        run(memory.remember(Memory(SECRET, id="x"), namespace=namespace))
    receipts = [run(memory.forget(["x"], namespace=namespace, grace=WEEK)) for namespace in ("", "b")]
    run(memory.restore_forgotten(receipts[0].operation))
    assert memory.tombstones.which(store_namespace("b", "conversation"), ["x"]) == {"x"}
    assert memory.tombstones.which(store_namespace("", "conversation"), ["x"]) == set()
    assert memory.tombstones.words_at("b", SECRET) is not None
    assert memory.tombstones.words_at("", SECRET) is None
    assert memory.soft_deletes.get("b", receipts[1].operation) is not None


def test_the_retrieval_index_of_another_namespace_stays(file_memory, monkeypatch):
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    for namespace in ("ann", "ann2"):
        run(file_memory.remember_many((f"thing {n}" for n in range(9)), namespace=namespace))
        run(file_memory.recall("Which thing?", namespace=namespace))
    tables = ("recall_states", "recall_segments")
    run(file_memory.forget_namespace("ann"))
    with file_memory.store.database.read() as connection:
        kept = [{name for (name,) in connection.execute(f"SELECT namespace FROM {table}")} for table in tables]
    assert kept == [{"ann2/conversation"}, {"ann2/conversation"}]


def test_messages_hidden_by_retention_go_with_their_namespace(file_memory, tmp_path):
    history = DatabaseHistory(file_memory.store.database, clock=file_memory.clock)
    spoken = [Message.user(SECRET), Message.user("b"), Message.system("be kind to them")]
    run(history.append("s", spoken, namespace="ann"))
    run(file_memory.export(tmp_path / "a.jsonl", namespace="ann"))
    strict = DatabaseHistory(
        file_memory.store.database, clock=file_memory.clock, retention=Retention(messages=1, unremembered="keep")
    )
    run(strict.append("s", [Message.user("d")], namespace="ann"))
    reader = LongTermMemory(file_memory.store, embedder=ToyEmbedder(), history=strict, clock=file_memory.clock)
    planned = run(reader.forget_namespace("ann", dry_run=True))
    assert (planned.messages, run(reader.forget_namespace("ann")).messages) == (4, 4)
    report = run(file_memory.import_(tmp_path / "a.jsonl", namespace="ann", trust="user"))
    assert report.taken.get("message", 0) == 0
    assert run(file_memory.conversations.load("s", namespace="ann")) == []


def test_document_lists_go_with_their_namespace(file_memory, notes):
    for namespace in ("ann", "bob"):
        run(KnowledgeBase(file_memory, collection="guide", namespace=namespace).ingest(notes))
    receipt = run(file_memory.forget_namespace("ann"))
    assert receipt.parts["documents"] == 2
    assert sources(file_memory, "guide", "ann") == []
    assert sources(file_memory, "guide", "bob") == ["garden.md", "tower.md"]
