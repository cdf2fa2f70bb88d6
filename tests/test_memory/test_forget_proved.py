"""What the proof of a forgetting finds that was put back or left behind, in a file and in a store without one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory.codec import to_entry
from memory.documents.knowledge_base import KnowledgeBase
from memory.history.protocol import HistoryRow
from memory.long_term import LongTermMemory
from memory.messages import Message
from memory.models import Memory, Source
from memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from tests.test_memory.forgetting import remembered, run
from vectorstore import open_store

SECRET = "the locker code is 44173921-zebra"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


@pytest.fixture
def in_file(tmp_path):
    opened = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=lambda: NOW)
    opened.close()


def entry_again(memory, lane, id):
    memory.store.upsert([to_entry(Memory("other words", id=id))], namespace=store_namespace("", lane))


LEFT = {
    "itself": lambda m, id: entry_again(m, CONVERSATION, id),
    "an old version": lambda m, id: entry_again(m, ARCHIVE, f"{id}@7"),
    "its message": lambda m, id: m.conversations.rows.place([HistoryRow("", "s", 1, Message.user("words"), NOW, id)]),
    "what was made of it": lambda m, id: run(m.remember(Memory("other words", derived_from=(id,)))),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_there_of_it_again_is_found_by_the_receipt_alone(memory, what):
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    assert run(memory.verify_forgotten(receipt)).gone
    LEFT[what](memory, receipt.memories[0])
    assert not run(memory.verify_forgotten(receipt)).gone


def test_what_another_namespace_has_of_the_same_id_is_another_memory(memory):
    receipt = run(memory.forget([remembered(memory, SECRET, id="x")]))
    run(memory.remember(Memory("theirs", id="x"), namespace="b"))
    run(memory.remember(Memory("made of theirs", derived_from=("x",)), namespace="b"))
    assert run(memory.verify_forgotten(receipt)).left == ()
    run(memory.forget(["x"], namespace="b", grace=WEEK))
    assert run(memory.verify_forgotten(receipt)).left == ()


def test_what_waits_is_not_gone_until_it_is(memory):
    receipt = run(memory.forget([remembered(memory, SECRET)], grace=WEEK))
    (left,) = run(memory.verify_forgotten(receipt)).left
    assert (left.where, receipt.due.isoformat() in left.what) == ("held", True)
    run(memory.forget(receipt.memories))
    assert run(memory.verify_forgotten(receipt)).gone


def test_messages_that_wait_are_not_gone_either(memory):
    run(memory.conversations.append("s", [Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert (receipt.ids, [one.where for one in run(memory.verify_forgotten(receipt)).left]) == ((), ["held"])


@pytest.mark.parametrize("what", ["entry", "message"])
def test_what_waits_for_another_forgetting_is_found_too(memory, what):
    target = remembered(memory, SECRET)
    receipt = run(memory.forget([target]))
    waiting = run(memory.forget([remembered(memory, "something else")], grace=WEEK))
    assert run(memory.verify_forgotten(receipt)).gone
    held = memory.soft_deletes
    package = held.get("", waiting.operation)
    held.erase("", waiting.operation)
    if what == "entry":
        package = replace(package, entries=((store_namespace("", ARCHIVE), to_entry(Memory("x", id=f"{target}@1"))),))
    else:
        package = replace(package, messages=(HistoryRow("", "s", 1, Message.user("words"), NOW, target),))
    held.put(package)
    assert [one.where for one in run(memory.verify_forgotten(receipt)).left] == ["held"]


def test_a_backup_that_was_made_while_it_waited_is_searched_too(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    receipt = run(memory.forget([remembered(memory, SECRET)], grace=timedelta(days=1)))
    memory.store.backup(str(tmp_path / "meanwhile.db"))
    assert receipt.unreached == ()
    run(memory.forget(receipt.memories))
    proof = run(memory.verify_forgotten(receipt, [SECRET]))
    assert [(one.where, one.what) for one in proof.left] == [(str(tmp_path / "meanwhile.db"), "text 0 is in its bytes")]
    memory.store.database.remove_backup(str(tmp_path / "meanwhile.db"))
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone
    final = run(memory.forget([remembered(memory, SECRET)]))
    memory.store.backup(str(tmp_path / "later.db"))
    assert str(tmp_path / "later.db") not in run(memory.verify_forgotten(final, [SECRET])).files
    run(memory.close())


def test_bytes_in_the_page_that_lists_the_free_ones_are_found(in_file):
    receipt = run(in_file.forget([remembered(in_file, SECRET)]))
    database = in_file.store.database
    with database.write() as connection:  # as a tool without secure deletion would
        connection.execute("CREATE TABLE careless (data TEXT)")
        connection.execute("INSERT INTO careless VALUES (?)", ("z" * 3000,))
    in_file.store.verify()
    with database.read() as connection:
        free = next(connection.execute("PRAGMA freelist_count"))[0]
    with database.write() as connection:
        connection.pragma("secure_delete", "off")
        connection.execute("DROP TABLE careless")
    found = run(in_file.verify_forgotten(receipt))
    assert free == 0
    assert [what.what for what in found.left] == ["1 free pages are not empty"]


def test_the_log_is_cut_to_nothing_or_it_is_said(in_file, tmp_path):
    receipt = run(in_file.forget([remembered(in_file, SECRET)]))
    remembered(in_file, "another thing")
    assert (tmp_path / "m.db-wal").stat().st_size > 0
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with other.view([store_namespace("", CONVERSATION)]) as view:
        assert view.get(["nothing"], namespace=store_namespace("", CONVERSATION)) == [None]
        remembered(in_file, "a thing that the reader does not see")
        assert not in_file.store.pending_erasure()
        assert [one.where for one in run(in_file.verify_forgotten(receipt)).left] == ["log"]
    other.close()
    assert run(in_file.verify_forgotten(receipt)).gone
    assert (tmp_path / "m.db-wal").stat().st_size == 0


MENTIONS = {
    "made of it": lambda m: run(m.remember(Memory("a", derived_from=("gone",)))),
    "made with it": lambda m: run(m.remember(Memory("a", metadata={"used": ["gone"]}))),
    "in its place": lambda m: run(m.remember(Memory("a", supersedes="gone"))),
    "quoted": lambda m: run(m.conversations.append("s", [Message(role="system", metadata={"quotes": ["gone"]})])),
    "quoted in part": lambda m: run(
        m.conversations.append("s", [Message(role="system", metadata={"quotes": [{"id": "gone", "start": 1}]})])
    ),
}
NO_MENTIONS = {
    "a text": lambda m: run(m.remember("gone")),
    "a list in a text": lambda m: run(m.remember('["gone"]')),
    "a speaker": lambda m: run(m.remember(Memory("a", speaker="gone"))),
    "a tag": lambda m: run(m.remember(Memory("a", tags=("gone",)))),
    "a title": lambda m: run(m.remember(Memory("a", source=Source(document="d", title="gone")))),
    "a message": lambda m: run(m.conversations.append("s", [Message.system("gone")])),
    "another namespace's": lambda m: m.conversations.rows.place(
        [HistoryRow("b", "s", 1, Message.system("x"), NOW, "gone")]
    ),
}


@pytest.mark.parametrize("how", {**MENTIONS, **NO_MENTIONS})
def test_an_id_is_mentioned_where_it_is_meant_and_not_where_somebody_says_the_word(memory, how):
    receipt = run(memory.forget([remembered(memory, SECRET, id="gone")]))
    {**MENTIONS, **NO_MENTIONS}[how](memory)
    assert run(memory.verify_forgotten(receipt)).gone is (how in NO_MENTIONS)


def test_the_list_of_a_document_may_name_a_passage_that_went(in_file, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(f"# One\n\n{SECRET}\n\n# Two\n\nSomething else.\n")
    run(KnowledgeBase(in_file).ingest(tmp_path / "notes"))
    (passage,) = [one.id for one in in_file.store.scan(namespace="/documents/default") if "zebra" in one.text]
    receipt = run(in_file.forget([passage]))
    assert receipt.memories == (passage,)
    proof = run(in_file.verify_forgotten(receipt))
    assert proof.gone
    assert proof.rows > 0


ENDING = {
    "a write": lambda m: run(m.remember("another thing")),
    "a question": lambda m: run(m.recall("anything")),
    "the proof": lambda m: None,
    "closing": lambda m: run(m.close()),
}


@pytest.mark.parametrize("way", [*ENDING, "opening"])
def test_bytes_that_a_reader_held_back_go_when_something_is_done_after_it_left(tmp_path, way):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    target = remembered(memory, SECRET)
    lane = store_namespace("", CONVERSATION)
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with other.view([lane]) as view:
        assert view.get([target], namespace=lane)[0] is not None
        receipt = run(memory.forget([target]))
        assert receipt.pending
        assert not run(memory.verify_forgotten(receipt)).gone
        if way == "opening":
            run(memory.close())
    other.close()
    ENDING.get(way, lambda _: None)(memory)
    if way in ("closing", "opening"):
        memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    if way != "the proof":
        assert not memory.store.pending_erasure()
        assert not any(b"zebra" in path.read_bytes() for path in tmp_path.iterdir())
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone
    run(memory.close())
