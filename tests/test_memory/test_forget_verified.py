"""The receipt of a forgetting, and the proof: tables, free pages, the log, and the bytes of the files."""

import json
import random
import string
from base64 import b64encode, urlsafe_b64encode
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from memory.erasure.receipt import read_receipt, receipt_text
from memory.errors import ArgumentError
from memory.long_term import LongTermMemory
from memory.messages import Message
from memory.models import Memory
from memory.partitions import CONVERSATION, store_namespace
from memory.results import ExternalCopy, Receipt
from memory.tables.erasers import ErasedItems
from memory.tables.operation_log import OperationLogTables, m001_operation_log
from tests.test_memory.forgetting import remembered, run
from vectorstore import TableComponent, open_store
from vectorstore.types import Finding

SECRET = "the locker code is 44173921-zebra"
NOW = datetime(2026, 6, 1, 8, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=lambda: NOW)
    yield opened
    run(opened.close())


def places(verified):
    return [(one.where.rpartition("/")[2], one.what) for one in verified.left]


# --- the receipt


def test_a_receipt_comes_back_from_its_json_and_holds_no_words(memory, tmp_path):
    first = remembered(memory, SECRET)
    run(memory.remember_turn("s", [Message.assistant(f"Noted: {SECRET}")]))
    memory.store.backup(str(tmp_path / "copy.db"))
    receipt = run(memory.forget([first]))
    assert (receipt.at, receipt.namespace, len(receipt.hashes)) == (NOW, "", 2)
    text = receipt_text(receipt)
    assert read_receipt(text) == receipt
    assert "zebra" not in text
    assert json.loads(text)["unreached"][0]["path"] == str(tmp_path / "copy.db")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"type": "tellback receipt", "version": 2}', '{"type": "tellback receipt", "version": 1}'],
)
def test_what_is_no_receipt_is_refused(text):
    with pytest.raises(ArgumentError, match="receipt"):
        read_receipt(text)


def test_a_receipt_with_a_field_of_another_kind_is_refused():
    good = json.loads(receipt_text(Receipt(("a",), unreached=(ExternalCopy("export", "x"),))))
    for field, wrong in {"memories": "a", "versions": "1", "at": 5, "unreached": [{}], "hashes": [1]}.items():
        with pytest.raises(ArgumentError, match="receipt"):
            read_receipt(json.dumps({**good, field: wrong}))


def test_hashes_differ_from_receipt_to_receipt_and_from_file_to_file(memory, tmp_path):
    receipts = [run(memory.forget([remembered(memory, SECRET)])) for _ in range(2)]
    with_other_key = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'other.db'}"))
    receipts.append(run(with_other_key.forget([remembered(with_other_key, SECRET)])))
    run(with_other_key.close())
    assert len({one.hashes for one in receipts}) == 3


def test_a_hash_cannot_be_made_by_who_has_the_receipt_and_guesses_the_words(tmp_path):
    receipts = []
    for name in ("m.db", "n.db"):  # all of a receipt alike, but for the secret of the file
        memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / name}"), clock=lambda: NOW, operation_ids=counted())
        receipts.append(run(memory.forget([remembered(memory, SECRET, id="x")])))
        run(memory.close())
    first, second = receipts
    assert first.salt == second.salt
    assert first.hashes != second.hashes


def counted():
    numbers = count(1)
    return lambda: f"o{next(numbers)}"


# --- proof


def test_what_is_forgotten_is_gone_from_tables_pages_log_and_bytes(memory, tmp_path):
    run(memory.remember_many(f"an ordinary sentence number {n} about the weather" for n in range(300)))
    first = run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant(f"Noted: {SECRET}")]))[0].id
    run(memory.correct(first, "the locker code is 55284032-quagga"))
    receipt = run(memory.forget([first]))
    verified = run(memory.verify_forgotten(receipt, [SECRET, "the locker code is 55284032-quagga"]))
    assert (verified.left, verified.gone, verified.texts, verified.notes) == ((), True, 2, ())
    assert verified.rows > 300
    assert str(tmp_path / "m.db") in verified.files
    assert run(memory.verify_forgotten(receipt)).gone


def test_the_search_sees_what_is_there(memory):
    kept = remembered(memory, SECRET)
    claimed = Receipt((kept,), at=NOW)
    verified = run(memory.verify_forgotten(claimed))
    assert ("entries", f"memory {kept} is mentioned") in places(verified)


def test_a_row_that_still_refers_to_it_is_found(memory):
    remembered(memory, "made of it", derived_from=("gone",))
    verified = run(memory.verify_forgotten(Receipt(("gone",), at=NOW)))
    assert places(verified) == [("entries", "memory gone is mentioned")]


def test_a_message_that_still_quotes_it_is_found(memory):
    said = Message.assistant("It is as you said.").model_copy(update={"metadata": {"quotes": [{"id": "gone"}]}})
    run(memory.conversations.append("s", [said]))
    verified = run(memory.verify_forgotten(Receipt(("gone",), at=NOW)))
    assert places(verified) == [("history_messages", "memory gone is mentioned")]


def test_without_a_file_the_store_is_looked_through_and_that_is_said():
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    proof = run(memory.verify_forgotten(receipt, [SECRET]))
    assert (proof.left, proof.files, proof.notes) == ((), (), ("the memory is in no file",))
    (said,) = run(memory.remember_turn("s", [Message.user(SECRET)]))
    run(memory.correct(said.id, "Other words."))
    left = run(memory.verify_forgotten(Receipt((said.id,), at=NOW))).left
    assert {one.where for one in left} == {"/conversation", "/archive", "history"}


def test_a_list_of_ids_that_another_part_keeps_is_looked_through_and_a_text_like_one_is_none(memory):
    receipt = run(memory.forget([remembered(memory, SECRET, id="gone")]))
    remembered(memory, '["gone"]')
    assert run(memory.verify_forgotten(receipt)).gone
    with memory.store.database.write() as connection:  # as a part that forgot to forget would leave it
        connection.execute("CREATE TABLE leftovers (ids TEXT)")
        connection.execute("""INSERT INTO leftovers VALUES ('["kept", "gone"]')""")
    assert places(run(memory.verify_forgotten(receipt))) == [("leftovers", "memory gone is mentioned")]


def test_the_same_id_of_another_namespace_is_another_memory(memory):
    run(memory.remember(Memory("theirs", id="x"), namespace="b"))
    receipt = run(memory.forget([remembered(memory, "mine alone", id="x")]))
    assert run(memory.verify_forgotten(receipt)).gone


@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
@pytest.mark.parametrize(
    "form", ["utf-8", "utf-16-le", "utf-16-be", "json", "json in ascii", "json in json", "base64", "base64, wide"]
)
def test_bytes_that_were_left_are_found_in_every_form(memory, tmp_path, ending, form):
    secret = 'the "café" code ~~~~~~\nis 44173921'
    receipt = run(memory.forget([remembered(memory, secret)]))
    assert run(memory.verify_forgotten(receipt, [secret])).gone
    json_form = json.dumps(secret)[1:-1]
    data = {
        "utf-8": secret.encode(),
        "utf-16-le": secret.encode("utf-16-le"),
        "utf-16-be": secret.encode("utf-16-be"),
        "json": json.dumps(secret, ensure_ascii=False).encode(),
        "json in ascii": json_form.encode(),
        "json in json": json.dumps(json_form)[1:-1].encode(),
        "base64": b64encode(b"1. " + secret.encode() + b"?\n"),
        "base64, wide": urlsafe_b64encode((secret + ".").encode("utf-16")),
    }[form]
    run(memory.close())
    planted = tmp_path / f"m.db{ending}"
    content = planted.read_bytes() if planted.exists() else b""
    copy = tmp_path / "leftover"
    copy.write_bytes(content + b"x" * 4_194_300 + data)  # across the border of two blocks
    again = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    with_copy = replace(receipt, unreached=(ExternalCopy("backup", str(copy)),))
    verified = run(again.verify_forgotten(with_copy, [secret]))
    run(again.close())
    assert places(verified) == [("leftover", "text 0 is in its bytes")]


def test_a_piece_of_a_long_text_in_the_file_is_found(memory, tmp_path):
    letters = random.Random(3)
    text = "".join(letters.choices(string.ascii_lowercase + " ", k=30_000))
    receipt = run(memory.forget([remembered(memory, text)]))
    assert run(memory.verify_forgotten(receipt, [text])).gone
    with memory.store.database.write() as connection:  # as a part that forgot to forget would leave it
        connection.execute("CREATE TABLE summaries (summary BLOB)")
        connection.execute("INSERT INTO summaries VALUES (?)", (text[9_000:9_800].encode(),))
    assert ("m.db", "text 0 is in its bytes") in places(run(memory.verify_forgotten(receipt, [text])))


def test_words_that_another_memory_says_are_told_apart_from_what_was_left(memory):
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    remembered(memory, SECRET)
    verified = run(memory.verify_forgotten(receipt, [SECRET]))
    assert verified.gone
    assert "still said elsewhere" in verified.notes[0]


def test_a_text_that_was_not_of_it_or_is_too_short_is_said_so(memory):
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    verified = run(memory.verify_forgotten(receipt, ["something else entirely", "ok"]))
    assert verified.gone
    assert ["none of those" in note for note in verified.notes].count(True) == 2
    assert any("too short" in note for note in verified.notes)


def test_a_free_page_that_is_not_empty_is_found(memory, tmp_path):
    filler = [remembered(memory, "x" * 9000) for _ in range(20)]
    last = remembered(memory, "y" * 9000)
    receipt = run(memory.forget([*filler, last]))
    assert run(memory.verify_forgotten(receipt)).gone
    with memory.store.database.write() as connection:  # as a tool without secure deletion would
        connection.pragma("secure_delete", "off")
        connection.execute("CREATE TABLE careless (data TEXT)")
        connection.execute("INSERT INTO careless VALUES (?)", ("z" * 90_000,))
    with memory.store.database.write() as connection:
        connection.execute("DROP TABLE careless")
    assert any("free pages are not empty" in what for _, what in places(run(memory.verify_forgotten(receipt))))


def test_a_reader_in_the_way_is_said_and_then_it_is_proved(memory, tmp_path):
    target = remembered(memory, SECRET)
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    lane = store_namespace("", CONVERSATION)
    with other.view([lane]) as view:
        assert view.get([target], namespace=lane)[0] is not None
        receipt = run(memory.forget([target]))
        verified = run(memory.verify_forgotten(receipt, [SECRET]))
        assert receipt.pending
        assert any(where == "log" for where, _ in places(verified))
        assert ("m.db-wal", "text 0 is in its bytes") in places(verified)
    other.close()
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone


def test_a_file_that_could_not_be_read_is_said_and_proves_nothing(memory, monkeypatch):
    from memory.erasure import verify

    ask = verify._run_search
    unread = {"unread": {"somewhere/m.db-wal": "Permission denied"}}
    monkeypatch.setattr(verify, "_run_search", lambda *given: {**ask(*given), **unread})
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    verified = run(memory.verify_forgotten(receipt, [SECRET]))
    assert places(verified) == [("m.db-wal", "not searched: Permission denied")]
    assert not verified.gone


def test_the_words_are_not_in_the_command_of_the_child(memory, monkeypatch):
    seen = []
    from memory.erasure import verify

    run_it = verify.subprocess.run
    monkeypatch.setattr(verify.subprocess, "run", lambda *given, **named: seen.append(given) or run_it(*given, **named))
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    run(memory.verify_forgotten(receipt, [SECRET]))
    assert len(seen) == 1
    assert "zebra" not in repr(seen)


def test_a_dry_run_proves_nothing(memory):
    planned = run(memory.forget([remembered(memory, SECRET)], dry_run=True))
    for wrong in (planned, "receipt"):
        with pytest.raises(ArgumentError, match="receipt"):
            run(memory.verify_forgotten(wrong))


# --- copies elsewhere


def test_backups_are_named_and_hold_it_until_they_are_removed(memory, tmp_path):
    target = remembered(memory, SECRET)
    for name in ("a.db", "b.db"):
        memory.store.backup(str(tmp_path / name))
    (tmp_path / "b.db").rename(tmp_path / "moved.db")
    planned = run(memory.forget([target], dry_run=True))
    receipt = run(memory.forget([target]))
    assert planned.unreached == receipt.unreached
    assert [(Path(one.path).name, one.removed, one.note[:7]) for one in receipt.unreached] == [
        ("a.db", False, ""),
        ("b.db", False, "nothing"),
    ]
    assert places(run(memory.verify_forgotten(receipt, [SECRET]))) == [("a.db", "text 0 is in its bytes")]
    run(memory.forget([remembered(memory, "another")], remove_backups=True))
    assert not (tmp_path / "a.db").exists()
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone


def test_exports_of_the_namespace_are_named_and_searched_as_long_as_they_are_there(memory, tmp_path):
    target = remembered(memory, SECRET)
    run(memory.remember("another's", namespace="b"))
    for name, namespace in (("mine.jsonl", ""), ("moved.jsonl", ""), ("theirs.jsonl", "b")):
        run(memory.export(tmp_path / name, namespace=namespace))
    (tmp_path / "moved.jsonl").unlink()
    planned = run(memory.forget([target], dry_run=True))
    receipt = run(memory.forget([target]))
    assert planned.unreached == receipt.unreached
    assert [(one.kind, Path(one.path).name, one.at, one.note[:7]) for one in receipt.unreached] == [
        ("export", "mine.jsonl", NOW, ""),
        ("export", "moved.jsonl", NOW, "nothing"),
    ]
    assert places(run(memory.verify_forgotten(receipt, [SECRET]))) == [("mine.jsonl", "text 0 is in its bytes")]
    (tmp_path / "mine.jsonl").unlink()
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone
    assert [Path(one.path).name for one in run(memory.forget_namespace("b")).unreached] == ["theirs.jsonl"]


def test_backups_are_removed_with_a_whole_namespace_where_that_is_asked_for(memory, tmp_path):
    remembered(memory, SECRET)
    memory.store.backup(str(tmp_path / "a.db"))
    assert not run(memory.forget_namespace("", dry_run=True, remove_backups=True)).unreached[0].removed
    assert (tmp_path / "a.db").exists()
    receipt = run(memory.forget_namespace("", remove_backups=True))
    assert [one.removed for one in receipt.unreached] == [True]
    assert not (tmp_path / "a.db").exists()


def test_backups_stay_where_nothing_was_forgotten(memory, tmp_path):
    memory.store.backup(str(tmp_path / "a.db"))
    run(memory.forget(tags=["none"], remove_backups=True))
    run(memory.forget_namespace("nobody", remove_backups=True))
    assert (tmp_path / "a.db").exists()


def test_a_stranger_in_the_place_of_a_backup_is_left_and_said(memory, tmp_path):
    memory.store.backup(str(tmp_path / "a.db"))
    (tmp_path / "a.db").unlink()
    (tmp_path / "a.db").write_text("my own letter that is long enough to be a file")
    receipt = run(memory.forget([remembered(memory, SECRET)], remove_backups=True))
    assert (tmp_path / "a.db").exists()
    assert receipt.unreached[0].note.startswith("not removed")
    assert not receipt.unreached[0].removed


@pytest.fixture
def newer(monkeypatch):
    """From here on the program is a newer one, whose log of operations has one more step."""

    def m002_noisier(connection):
        connection.execute("UPDATE operations SET kind = kind || '!'")

    def newer_tables(self: OperationLogTables) -> None:
        TableComponent.__init__(
            self, "operations", (m001_operation_log, m002_noisier), ("operations", "operation_changes")
        )

    monkeypatch.setattr(OperationLogTables, "__init__", newer_tables)


def reopened(memory, path):
    run(memory.close())
    return LongTermMemory(open_store(f"sqlite:///{path}"), clock=lambda: NOW)


def test_a_copy_from_before_a_migration_that_went_wrong_is_named_until_it_is_removed(
    memory, newer, tmp_path, monkeypatch
):
    first, second = remembered(memory, SECRET), remembered(memory, "another")
    monkeypatch.setattr(OperationLogTables, "verify", lambda *_: [Finding("operations", "planted")])
    again = reopened(memory, tmp_path / "m.db")
    receipt = run(again.forget([first]))
    (copy,) = receipt.unreached
    assert (copy.kind, Path(copy.path).name) == ("backup", "m.db.before-operations-1-to-2.backup")
    assert places(run(again.verify_forgotten(receipt, [SECRET]))) == [(Path(copy.path).name, "text 0 is in its bytes")]
    assert run(again.forget([second], remove_backups=True)).unreached[0].removed
    assert run(again.verify_forgotten(receipt, [SECRET])).gone
    assert [one.name for one in tmp_path.glob("*.backup")] == []
    run(again.close())


def test_a_copy_from_before_a_migration_that_went_well_is_gone_before_anything_is_forgotten(memory, newer, tmp_path):
    first = remembered(memory, SECRET)
    again = reopened(memory, tmp_path / "m.db")
    receipt = run(again.forget([first]))
    assert receipt.unreached == ()
    assert run(again.verify_forgotten(receipt, [SECRET])).gone
    run(again.close())


# --- other parts


class Cache:
    """A part that keeps texts, as a cache of embeddings does."""

    name = "cache"

    def __init__(self):
        self.asked = []

    def erase(self, gone):
        self.asked.append(gone)
        return len(gone.texts)


def test_every_part_is_asked_in_the_same_transaction(memory):
    cache = Cache()
    memory.erasers.append(cache)
    first = run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant("Noted.")]))[0].id
    receipt = run(memory.forget([first]))
    assert receipt.parts == {"cache": 1}
    (gone,) = cache.asked
    assert isinstance(gone, ErasedItems)
    assert (gone.texts, [row.sequence for row in gone.messages]) == (frozenset([SECRET]), [1])
    assert gone.entries == {store_namespace("", CONVERSATION): [first]}


def test_a_part_that_fails_stops_all_of_it(memory):
    class Failing(Cache):
        def erase(self, gone):
            raise RuntimeError("cannot")

    memory.erasers.append(Failing())
    target = remembered(memory, SECRET)
    with pytest.raises(RuntimeError, match="cannot"):
        run(memory.forget([target]))
    assert run(memory.get([target]))[0].text == SECRET
