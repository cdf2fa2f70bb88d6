"""What a forgetting leaves: what it may not touch, what keeps it from coming back, and what the receipt says of it."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from memory.erasure.bytes_search import count_dirty_free_pages
from memory.erasure.verbatim_match import holds_verbatim
from memory.history.protocol import HistoryRow
from memory.long_term import LongTermMemory
from memory.messages import ImageBlock, Message, TextBlock
from memory.models import Memory, Source
from memory.partitions import store_namespace
from memory.retrieval.index import index_sync
from tests.test_memory.forgetting import Moving, remembered, run
from vectorstore import open_store

SECRET = "the locker code is 44173921-zebra"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def clock():
    return Moving()


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path, clock):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=clock)
    opened.close()


@pytest.fixture
def in_file(tmp_path, clock):
    opened = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened, clock=clock)
    opened.close()


def said(memory, session="s", namespace=""):
    return [one.message.text for one in run(memory.conversations.load(session, namespace=namespace))]


# --- messages do not come back


def test_an_import_brings_back_no_message_that_was_forgotten_and_every_other(memory, tmp_path):
    for session in ("s", "t"):
        run(memory.conversations.append(session, [Message.system(f"{session}{n}") for n in "12"]))
    run(memory.export(tmp_path / "a.jsonl"))
    run(memory.forget(source=Source(session="s", sequence=1)))
    for session in ("s", "t"):
        run(memory.conversations.clear(session))
    run(memory.import_(tmp_path / "a.jsonl", trust="user"))
    assert (said(memory), said(memory, "t")) == (["s2"], ["t1", "t2"])


def test_what_is_said_later_at_the_same_place_is_another_message(memory, tmp_path, clock):
    run(memory.conversations.append("s", [Message.system("before")], namespace="ann"))
    run(memory.forget_namespace("ann"))
    clock.now += timedelta(seconds=1)
    assert run(memory.conversations.append("s", [Message.system("after")], namespace="ann")) == [1]
    run(memory.export(tmp_path / "a.jsonl", namespace="ann"))
    run(memory.conversations.clear("s", namespace="ann"))
    run(memory.import_(tmp_path / "a.jsonl", namespace="ann", trust="user"))
    assert said(memory, namespace="ann") == ["after"]


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_forgotten_in_one_namespace_is_completed_in_another(memory, whole):
    ours = remembered(memory, SECRET, id="x")
    run(memory.forget_namespace("") if whole else memory.forget([ours]))
    memory.conversations.rows.place([HistoryRow("b", "s", 1, Message.user(SECRET), NOW - WEEK)])
    assert run(memory.complete()) == 1
    assert run(memory.remember(Memory("theirs", id="x"), namespace="b")).stored


def test_words_that_were_said_before_with_blanks_around_them_are_not_completed(memory):
    run(memory.forget([remembered(memory, SECRET)]))
    memory.conversations.rows.place([HistoryRow("", "s", 1, Message.user(f" {SECRET}\n"), NOW - WEEK)])
    assert run(memory.complete()) == 0


def test_taken_back_in_one_namespace_it_stays_forgotten_in_another(memory):
    for namespace in ("", "b"):
        run(memory.remember(Memory(SECRET, id="x"), namespace=namespace))
    receipts = [run(memory.forget(["x"], namespace=namespace, grace=WEEK)) for namespace in ("", "b")]
    run(memory.restore_forgotten(receipts[0].operation))
    assert memory.tombstones.which(store_namespace("b", "conversation"), ["x"]) == {"x"}
    assert memory.tombstones.which(store_namespace("", "conversation"), ["x"]) == set()
    assert memory.tombstones.words_at("b", SECRET) is not None
    assert memory.tombstones.words_at("", SECRET) is None
    assert memory.soft_deletes.get("b", receipts[1].operation) is not None


@pytest.mark.parametrize("whole", [False, True])
def test_what_stays_is_a_tombstone_of_each_memory_and_of_each_message(memory, whole):
    (told,) = run(memory.remember_turn("s", [Message.user(SECRET)]))
    run(memory.correct(told.id, "other words"))
    run(memory.forget_namespace("") if whole else memory.forget([told.id]))
    conversation, history = store_namespace("", "conversation"), store_namespace("", "history")
    assert memory.tombstones.lanes() == [conversation, history]
    assert [id for id, _ in memory.tombstones.ids(conversation)] == [told.id]
    assert len(memory.tombstones.ids(history)) == 1


# --- what goes with it, and what does not


def test_the_words_are_those_that_were_said_without_what_stands_for_an_image(memory):
    image = ImageBlock(media_type="image/png", data=b"x", caption="a red door")
    (report,) = run(memory.remember_turn("s", [Message.user([TextBlock(text=SECRET), image])]))
    copy = remembered(memory, f"He said: {SECRET}")
    assert run(memory.forget([report.id])).also == (copy,)


def test_what_stays_does_not_mention_a_copy_that_went_and_is_named_for_what_was_asked_for(memory):
    target, copy, other = (remembered(memory, text) for text in (SECRET, f"({SECRET})", "another thing"))
    of_copy = remembered(memory, "from the copy", derived_from=(copy, other))
    of_both = remembered(memory, "from all", derived_from=(target, copy, other))
    receipt = run(memory.forget([target]))
    assert (receipt.also, receipt.named) == ((copy,), (of_both,))
    assert [one.derived_from for one in run(memory.get([of_copy, of_both]))] == [(other,), (other,)]
    assert run(memory.verify_forgotten(receipt)).left == ()


def test_what_was_undone_together_is_forgotten_one_by_one(memory):
    reports = run(memory.remember_many(["one thing", "another thing"]))
    run(memory.undo(reports[0].operation))
    assert run(memory.forget([reports[0].id])).ids == (reports[0].id,)
    assert run(memory.forget([reports[1].id])).versions == 1


def test_a_short_text_stands_alone_wherever_it_stands_and_a_long_one_need_not():
    assert holds_verbatim("a book, ok", ["ok"])
    assert not any(holds_verbatim(text, ["ok"]) for text in ("book", "oka", "ok_then", "_ok", "ok2"))
    assert holds_verbatim("(abcdefgh)", ["abcdefg"]) is False
    assert holds_verbatim("xabcdefghx", ["abcdefgh"])


# --- other parts, the receipt, copies


class Part:
    """A part that keeps something, and notes what it was asked to let go of."""

    name = "part"

    def __init__(self):
        self.asked = []

    def erase(self, gone):
        self.asked.append(gone)
        return 1


def test_parts_are_asked_where_messages_alone_go_and_not_where_nothing_does(memory):
    part = Part()
    memory.erasers.append(part)
    assert run(memory.forget(session="s")).parts == {}
    run(memory.conversations.append("s", [Message.system("be kind")]))
    assert run(memory.forget(session="s")).parts == {"part": 1}
    assert [[row.sequence for row in gone.messages] for gone in part.asked] == [[1]]


@pytest.mark.parametrize("whole", [False, True])
def test_what_keys_of_another_file_stand_for_goes_with_it(memory, whole):
    keys, noted = memory.keys, remembered(memory, "something")
    for namespace in ("", "b"):
        keys.put(namespace, "name", noted)
    keys.put("", "another name", "of another memory")
    receipt = run(memory.forget_namespace("") if whole else memory.forget([noted], grace=WEEK))
    assert (keys.get("", "name"), keys.get("b", "name")) == (None, noted)
    assert (keys.get("", "another name") is None) is whole
    assert receipt.parts["keys"] == 1 + whole
    if not whole:
        run(memory.restore_forgotten(receipt.operation))
        assert keys.get("", "name") == noted


def test_of_a_namespace_nothing_stays_that_recall_derived_and_another_s_does(in_file, monkeypatch):
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    for namespace in ("ann", "ann2"):
        run(in_file.remember_many((f"thing {n}" for n in range(9)), namespace=namespace))
        run(in_file.recall("Which thing?", namespace=namespace))
    tables = ("recall_states", "recall_segments")
    run(in_file.forget_namespace("ann"))
    with in_file.store.database.read() as connection:
        kept = [{name for (name,) in connection.execute(f"SELECT namespace FROM {table}")} for table in tables]
    assert kept == [{"ann2/conversation"}, {"ann2/conversation"}]


def test_blanks_at_the_ends_of_a_text_are_not_in_its_hash(in_file):
    receipt = run(in_file.forget([remembered(in_file, f"  {SECRET}\n")]))
    assert run(in_file.verify_forgotten(receipt, [SECRET])).notes == ()
    assert run(in_file.verify_forgotten(receipt, [f"\n{SECRET} "])).notes == ()


def test_a_receipt_says_when_and_a_dry_run_does_not(memory):
    named = [remembered(memory, "something")]
    assert [run(memory.forget(named, dry_run=dry_run)).at for dry_run in (True, False)] == [None, NOW]
    assert [run(memory.forget_namespace("", dry_run=dry_run)).at for dry_run in (True, False)] == [None, NOW]


@pytest.mark.parametrize("whole", [False, True])
def test_backups_are_removed_for_messages_alone(in_file, tmp_path, whole):
    run(in_file.conversations.append("s", [Message.system("be kind")]))
    in_file.store.backup(str(tmp_path / "a.db"))
    named = {"remove_backups": True}
    receipt = run(in_file.forget_namespace("", **named) if whole else in_file.forget(session="s", **named))
    assert [one.removed for one in receipt.unreached] == [True]
    assert not (tmp_path / "a.db").exists()


def test_an_import_in_the_place_of_all_is_no_export(in_file, tmp_path):
    noted = remembered(in_file, SECRET)
    run(in_file.export(tmp_path / "a.jsonl"))
    run(in_file.import_(tmp_path / "a.jsonl", mode="replace", trust="user"))
    assert [one.kind for one in run(in_file.forget([noted])).unreached] == ["export"]


# --- free pages


@pytest.mark.parametrize(("page", "rows"), [(512, 300), (65536, 3)])
def test_each_free_page_is_looked_at_also_those_that_list_them(tmp_path, page, rows):
    for careful in (True, False):
        path = str(tmp_path / f"{careful}.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA page_size={page}")
            connection.execute(f"PRAGMA secure_delete={'on' if careful else 'off'}")
            connection.execute("CREATE TABLE kept (data TEXT)")
            connection.execute("CREATE TABLE careless (data TEXT)")
            connection.executemany("INSERT INTO careless VALUES (?)", [("z" * page,)] * rows)
            connection.commit()
            connection.execute("DROP TABLE careless")
            connection.commit()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        assert free >= rows
        lists = free // (page // 4)  # each may be full of numbers, and has no room for anything else then
        assert count_dirty_free_pages(path) in ([0] if careful else range(free - lists, free + 1))


def test_a_file_that_is_no_database_has_no_free_pages(tmp_path):
    (tmp_path / "a").write_bytes(b"SQLite format 2\x00" + bytes(range(256)) * 40)
    assert count_dirty_free_pages(str(tmp_path / "a")) == 0
