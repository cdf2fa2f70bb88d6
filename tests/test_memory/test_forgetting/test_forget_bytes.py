"""Bytes of forgotten memories: in no table, page, log, cache or file; receipts and their verification.

Inner parts, on no face: ``tellback.memory.erasure.bytes_search``, ``tellback.memory.erasure.file_search``,
``tellback.memory.erasure``, ``tellback.memory.results``, ``tellback.memory.retrieval.index``,
``tellback.memory.tables.operation_log``, ``tellback.memory.history.protocol``.
"""

import asyncio
import json
import random
import sqlite3
import string
import struct
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import (
    Action,
    ArgumentError,
    CachedEmbedder,
    DatabaseEmbeddingCache,
    DatabaseHistory,
    DocumentBlock,
    EmbeddingSettings,
    FixedWindow,
    ImageBlock,
    Judge,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NearDuplicates,
    NoSuchMemory,
    PolicyDecision,
    Receipt,
    Retention,
    ShortTermMemory,
    Source,
    SummaryWindow,
    TextBlock,
    ThinkingBlock,
    open_memory,
    read_receipt,
    receipt_text,
)
from tellback.memory.erasure import verify
from tellback.memory.erasure.bytes_search import count_dirty_free_pages, count_dirty_gaps
from tellback.memory.erasure.file_search import run_search
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.internals import ARCHIVE, CONVERSATION, BackfillReport, store_namespace, to_entry
from tellback.memory.results import ExternalCopy
from tellback.memory.retrieval.index import index_cache, index_sync
from tellback.memory.tables.operation_log import OperationLogTables, m001_operation_log, m002_user_names
from tellback.vectorstore import Finding, TableComponent, open_store
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.forgetting import (
    NOTING_TURN,
    NOW,
    SECRET,
    WEEK,
    TickingClock,
    ToyEmbedder,
    memory_on,
    remembered,
    run,
    tool_memories,
    vector_of,
)

# --- traces in every place that the words can have been


TRACES = ("zebra", "44173921")


class GatedEmbedder:
    """A toy embedder that waits at the secret while it has a *gate*, and fails while it is *down*."""

    dimension = 8

    def __init__(self, fingerprint: str = "toy/1", sign: int = 1) -> None:
        self.fingerprint, self.sign, self.down = fingerprint, sign, False
        self.gate: tuple[asyncio.Event, asyncio.Event] | None = None

    async def embed(self, texts, kind="document"):
        if self.down:
            raise RuntimeError("it is down")
        if self.gate is not None and SECRET in texts:
            began, may_end = self.gate
            began.set()
            await may_end.wait()
        return np.array([self.sign * vector_of(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)


def open_traced(folder: Path, **options) -> LongTermMemory:
    given = {
        "embedder": GatedEmbedder(),
        "clock": TickingClock(),
        "embedding_settings": EmbeddingSettings(cache_bytes=1 << 20),
    }
    return open_memory(folder / "m.db", **{**given, **options})


@pytest.fixture
def traced_memory(tmp_path: Path) -> Iterator[LongTermMemory]:
    opened_memory = open_traced(tmp_path)
    run(opened_memory.remember("an ordinary sentence"))
    yield opened_memory
    run(opened_memory.close())


def say(memory: LongTermMemory, *blocks) -> None:
    run(memory.remember_turn("s", [Message.user(list(blocks))]))


def in_base64(data: bytes) -> list[bytes]:
    """The middle of *data* as it stands in base64, wherever in a file it begins."""
    return [urlsafe_b64encode(b"x" * before + data)[4:-4] for before in range(3)]


def traces(folder: Path, *vectors: np.ndarray) -> list[tuple[str, bytes]]:
    """Name each file below *folder* and what of the words, or of a vector, it holds."""
    wanted = [vector.astype(np.float32).tobytes() for vector in (vector_of(SECRET), *vectors)]
    for trace in TRACES:
        for data in (trace.encode(), trace.encode("utf-16-le"), trace.encode("utf-16-be")):
            wanted += [data, *(piece for piece in in_base64(data) if len(piece) >= 4)]
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [(name, trace) for name, content in contents.items() for trace in wanted if trace in content]


def beside_it(memory: LongTermMemory) -> Receipt:
    """Forget a memory that says what was put elsewhere before."""
    return run(memory.forget([remembered(memory, SECRET)]))


def in_a_memory_that_was_undone(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.undo(run(memory.operations())[0].id))
    return run(memory.forget([id]))


def in_a_memory_that_was_merged_into_another(memory, tmp_path):
    first, other = remembered(memory, SECRET), remembered(memory, "another thing")
    run(memory.merge([other, first], "both of them"))
    return run(memory.forget([first]))


def in_a_version_that_was_corrected(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.correct(id, "the code is another one"))
    return run(memory.forget([id]))


def in_a_tag_that_is_only_in_the_log(memory, tmp_path):
    other = remembered(memory, "another thing")
    run(memory.tag([other], [SECRET]))
    run(memory.untag([other], [SECRET]))
    return beside_it(memory)


def in_the_caller_s_own_fields(memory, tmp_path):
    remembered(memory, "another thing", metadata={"notes": [{"quoted": f"<{SECRET}>"}]})
    return beside_it(memory)


def in_what_was_thought(memory, tmp_path):
    run(memory.conversations.append("s", [Message.assistant([ThinkingBlock(text=SECRET), TextBlock(text="Fine.")])]))
    return beside_it(memory)


def in_the_caption_of_an_image(memory, tmp_path):
    say(memory, TextBlock(text="look"), ImageBlock(media_type="image/png", data=b"xx", caption=f"a {SECRET}"))
    return beside_it(memory)


def in_an_attached_file(memory, tmp_path):
    say(memory, TextBlock(text="look"), DocumentBlock(media_type="text/plain", data=f"1. {SECRET}\n".encode()))
    return beside_it(memory)


def in_an_attached_file_of_windows(memory, tmp_path):
    data = f"1. {SECRET}\n".encode("utf-16")
    say(memory, TextBlock(text="look"), DocumentBlock(media_type="text/plain", data=data))
    return beside_it(memory)


def in_a_summary(memory, tmp_path):
    spoken = [SECRET, "Noted, thank you.", "one", "two", "three"]
    run(memory.remember_turn("s", [Message.user(text) for text in spoken]))
    policy = SummaryWindow(FixedWindow(messages=2), lambda before, given: before + "; ".join(m.text for m in given))
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    return run(memory.forget([listed.id for listed in run(memory.list()) if listed.text == SECRET]))


def in_a_passage_and_a_heading(memory, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text(f"# {SECRET}\n\nSomething else.\n\n# Two\n\nAs was said: {SECRET}.\n")
    run(KnowledgeBase(memory).ingest(notes))
    (notes / "a.md").unlink()
    return beside_it(memory)


def in_what_waits_in_a_time_of_grace(memory, tmp_path):
    run(memory.forget([remembered(memory, SECRET)], grace=timedelta(days=30)))
    return beside_it(memory)


def in_a_forgetting_whose_grace_is_cut_short(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.forget([id], grace=timedelta(days=30)))
    return run(memory.forget([id]))


def in_vectors_of_a_second_space(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.reembed(GatedEmbedder("toy/2", sign=-1), switch=False))
    return run(memory.forget([id]))


PLACES: list[Callable[[LongTermMemory, Path], Receipt]] = [
    in_a_memory_that_was_undone,
    in_a_memory_that_was_merged_into_another,
    in_a_version_that_was_corrected,
    in_a_tag_that_is_only_in_the_log,
    in_the_caller_s_own_fields,
    in_what_was_thought,
    in_the_caption_of_an_image,
    in_an_attached_file,
    in_an_attached_file_of_windows,
    in_a_summary,
    in_a_passage_and_a_heading,
    in_what_waits_in_a_time_of_grace,
    in_a_forgetting_whose_grace_is_cut_short,
    in_vectors_of_a_second_space,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_forgetting_leaves_no_byte_of_the_text_in_any_file(traced_memory, tmp_path, place, monkeypatch):
    forget = traced_memory.forget

    async def asked_before(*given, **named):
        assert len(
            await traced_memory.recall("Which locker code has the zebra?")
        )  # what that derives of them goes, too
        assert traces(tmp_path, -vector_of(SECRET)), "the search for traces finds what is there"
        return await forget(*given, **named)

    monkeypatch.setattr(traced_memory, "forget", asked_before)
    receipt = place(traced_memory, tmp_path)
    assert not receipt.pending
    assert traces(tmp_path, -vector_of(SECRET)) == []
    proof = run(traced_memory.verify_forgotten(receipt, [SECRET]))
    assert (proof.left, proof.notes) == ((), ())
    assert "an ordinary sentence" in [listed.text for listed in run(traced_memory.list())]
    assert traced_memory.store.verify() == []
    run(traced_memory.close())
    assert traces(tmp_path, -vector_of(SECRET)) == []


@pytest.mark.parametrize("kept_before", [True, False])
def test_the_retrieval_index_keeps_no_row_of_a_forgotten_memory(traced_memory, tmp_path, monkeypatch, kept_before):
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    monkeypatch.setattr(index_cache, "_MAX_SEGMENT_ROWS", 8)
    run(traced_memory.remember_many(Memory(f"The garden is number {n}.", id=f"m{n}") for n in range(20)))
    remembered(traced_memory, f"{SECRET}, says Zebediah", id="a")
    if not kept_before:  # as it is while another process writes
        monkeypatch.setattr(index_cache.IndexCache, "save", lambda *given, **named: False)
    run(traced_memory.recall("Which garden?"))
    receipt = run(traced_memory.forget(["a"]))
    monkeypatch.undo()
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    monkeypatch.setattr(index_cache, "_MAX_SEGMENT_ROWS", 8)
    run(traced_memory.remember_many(f"The next garden is number {n}." for n in range(20)))
    run(traced_memory.recall("Which garden?"))
    with traced_memory.store.database.read() as connection:
        assert next(connection.execute("SELECT sum(size) FROM recall_segments")) == (41,)
    assert traces(tmp_path) == []
    assert run(traced_memory.verify_forgotten(receipt, [SECRET])).left == ()


@pytest.mark.parametrize("by", [{"session": "s"}, {"older_than": timedelta(0)}, {"source": "s"}], ids=str)
def test_messages_hidden_by_retention_go_with_their_session(traced_memory, tmp_path, by):
    retention = Retention(messages=2, unremembered="keep")
    history = DatabaseHistory(traced_memory.store.database, clock=traced_memory.clock, retention=retention)
    run(history.append("s", [Message.user(text) for text in (SECRET, "b", "c", "d")]))
    assert [item.message.text for item in run(history.load("s"))] == ["c", "d"]
    reader = LongTermMemory(traced_memory.store, embedder=GatedEmbedder(), history=history, clock=traced_memory.clock)
    assert run(reader.forget(**by)).messages == 4
    assert traces(tmp_path) == []
    assert run(reader.complete()) == 0


def cached(memory: LongTermMemory, text: str) -> bool:
    cache = memory.embedding._cache
    return any(kept is not None for kept in cache.get("toy/1", "document", [text]))


async def meanwhile(memory: LongTermMemory, embedder: GatedEmbedder, work, forget) -> object:
    """Begin *work*, forget while the embedder has the text, then let the work go on."""
    embedder.gate = began, may_end = asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(work())
    await began.wait()
    receipt = await forget()
    may_end.set()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert not receipt.pending
    return ended


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[LongTermMemory, GatedEmbedder]]:
    embedder = GatedEmbedder()
    opened_memory = open_traced(tmp_path, embedder=embedder)
    run(opened_memory.remember("an ordinary sentence"))
    yield opened_memory, embedder
    run(opened_memory.close())


def test_a_backfill_stores_no_vector_of_a_memory_forgotten_meanwhile(slow, tmp_path):
    memory, embedder = slow
    embedder.down = True
    id = remembered(memory, SECRET)
    embedder.down = False
    memory.embedding.use(embedder, memory.store.space)
    assert run(meanwhile(memory, embedder, memory.flush, lambda: memory.forget([id]))) == BackfillReport()
    run(memory.remember("the next write"))
    assert not cached(memory, SECRET)
    assert traces(tmp_path) == []


@pytest.mark.parametrize("change", ["correct", "merge"])
def test_a_correction_of_a_memory_forgotten_meanwhile_is_kept_nowhere(slow, tmp_path, change):
    memory, embedder = slow
    id, other = remembered(memory, "words before"), remembered(memory, "other words")

    async def changed():
        return await (memory.correct(id, SECRET) if change == "correct" else memory.merge([id, other], SECRET))

    assert isinstance(run(meanwhile(memory, embedder, changed, lambda: memory.forget([id]))), NoSuchMemory)
    embedder.gate = None
    run(memory.remember("the next write"))
    assert not cached(memory, SECRET)
    assert traces(tmp_path) == []


def test_a_space_migration_stores_no_vector_of_a_memory_forgotten_meanwhile(slow, tmp_path):
    memory, _ = slow
    id = remembered(memory, SECRET)
    second = GatedEmbedder("toy/2", sign=-1)
    caching = CachedEmbedder(second, DatabaseEmbeddingCache.at(tmp_path / "vectors.db"))

    async def embedded_anew():
        return await memory.reembed(caching, switch=False)

    done = run(meanwhile(memory, second, embedded_anew, lambda: memory.forget([id])))
    assert (done.embedded, done.switched) == (1, False)
    assert traces(tmp_path, -vector_of(SECRET)) == []


@pytest.mark.parametrize("whole", [False, True])
def test_words_removed_by_a_policy_leave_no_cached_vector(tmp_path, whole):
    shorter = Judge(lambda one: PolicyDecision(Action.TRANSFORM, "short", memory=replace(one, text="There is a code.")))
    memory = open_traced(tmp_path, policies=[NearDuplicates(), shorter])
    noted = run(memory.remember(SECRET))
    assert not cached(memory, SECRET)
    (turn,) = run(memory.remember_turn("s", [Message.user(f"listen: {SECRET}")]))
    run(memory.forget_namespace("") if whole else memory.forget([noted.id, turn.id]))
    assert not cached(memory, f"listen: {SECRET}")
    assert traces(tmp_path, vector_of(f"listen: {SECRET}")) == []
    run(memory.close())


def test_tool_words_changed_by_a_policy_leave_no_cached_vector(tmp_path):
    embedder, asked = ToyEmbedder(), []
    shorter = Judge(
        lambda one: asked.append(one) or PolicyDecision(Action.TRANSFORM, "short", memory=replace(one, text="short"))
    )
    settings = EmbeddingSettings(cache_bytes=1 << 20)
    memory = open_memory(tmp_path / "m.db", embedder=embedder, policies=[shorter], embedding_settings=settings)
    run(memory.remember_turn("s", NOTING_TURN[1:3]))
    (before,) = {judged.text for judged in asked}
    cache = memory.embedding._cache
    cache.put("toy/1", "document", {before: cache.get("toy/1", "document", ["short"])[0]})
    run(memory.forget([tool_memories(memory)[0].id]))
    assert cache.get("toy/1", "document", [before, "short"]) == [None, None]
    run(memory.close())


# --- the receipt


def places(verified):
    return [(remnant.where.rpartition("/")[2], remnant.what) for remnant in verified.left]


def test_a_receipt_survives_its_json_which_holds_no_text(file_memory, clock, tmp_path):
    clock.now += timedelta(microseconds=123456)
    first = remembered(file_memory, SECRET)
    run(file_memory.remember_turn("s", [Message.assistant(f"Noted: {SECRET}")]))
    file_memory.store.backup(str(tmp_path / "copy.db"))
    receipt = run(file_memory.forget([first]))
    assert (receipt.at, receipt.namespace, len(receipt.hashes)) == (clock.now, "", 2)
    text = receipt_text(receipt)
    assert read_receipt(text) == receipt
    assert "zebra" not in text
    assert json.loads(text)["unreached"][0]["path"] == str(tmp_path / "copy.db")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"type": "tellback receipt", "version": 2}', '{"type": "tellback receipt", "version": 1}'],
)
def test_a_text_that_is_no_receipt_is_refused(text):
    with pytest.raises(ArgumentError, match="receipt"):
        read_receipt(text)


def test_a_receipt_with_a_wrong_field_is_refused():
    good = json.loads(receipt_text(Receipt(("a",), unreached=(ExternalCopy("export", "x"),))))
    for field, wrong in {"memories": "a", "versions": "1", "at": 5, "unreached": [{}], "hashes": [1]}.items():
        with pytest.raises(ArgumentError, match="receipt"):
            read_receipt(json.dumps({**good, field: wrong}))


def test_text_hashes_of_receipts_differ_by_receipt_and_by_file(file_memory, tmp_path):
    receipts = [run(file_memory.forget([remembered(file_memory, SECRET)])) for _ in range(2)]
    with_other_key = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'other.db'}"))
    receipts.append(run(with_other_key.forget([remembered(with_other_key, SECRET)])))
    run(with_other_key.close())
    assert len({receipt.hashes for receipt in receipts}) == 3


def test_text_hashes_of_receipts_depend_on_the_secret_of_the_file(tmp_path):
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


def test_text_hashes_of_receipts_ignore_blanks_at_the_ends(file_memory):
    receipt = run(file_memory.forget([remembered(file_memory, f"  {SECRET}\n")]))
    assert run(file_memory.verify_forgotten(receipt, [SECRET])).notes == ()
    assert run(file_memory.verify_forgotten(receipt, [f"\n{SECRET} "])).notes == ()


# --- verification


def test_verify_forgotten_finds_no_remnant_in_tables_and_files_after_forgetting(file_memory, tmp_path):
    run(file_memory.remember_many(f"an ordinary sentence number {n} about the weather" for n in range(300)))
    first = run(file_memory.remember_turn("s", [Message.user(SECRET), Message.assistant(f"Noted: {SECRET}")]))[0].id
    run(file_memory.correct(first, "the locker code is 55284032-quagga"))
    receipt = run(file_memory.forget([first]))
    verified = run(file_memory.verify_forgotten(receipt, [SECRET, "the locker code is 55284032-quagga"]))
    assert (verified.left, verified.gone, verified.texts, verified.notes) == ((), True, 2, ())
    assert verified.rows > 300
    assert str(tmp_path / "m.db") in verified.files
    assert run(file_memory.verify_forgotten(receipt)).gone


def test_a_live_memory_is_a_remnant(file_memory):
    kept = remembered(file_memory, SECRET)
    claimed = Receipt((kept,), at=NOW)
    verified = run(file_memory.verify_forgotten(claimed))
    assert ("entries", f"memory {kept} is mentioned") in places(verified)


def test_a_quoting_message_is_a_remnant(file_memory):
    messages = Message.assistant("It is as you said.").model_copy(update={"metadata": {"quotes": [{"id": "gone"}]}})
    run(file_memory.conversations.append("s", [messages]))
    verified = run(file_memory.verify_forgotten(Receipt(("gone",), at=NOW)))
    assert places(verified) == [("history_messages", "memory gone is mentioned")]


def test_verification_without_a_file_searches_the_store():
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    proof = run(memory.verify_forgotten(receipt, [SECRET]))
    assert (proof.left, proof.files, proof.notes) == ((), (), ("the memory is in no file",))
    (messages,) = run(memory.remember_turn("s", [Message.user(SECRET)]))
    run(memory.correct(messages.id, "Other words."))
    left = run(memory.verify_forgotten(Receipt((messages.id,), at=NOW))).left
    assert {item.where for item in left} == {"/conversation", "/archive", "history"}


def test_lists_of_ids_in_other_tables_are_remnants(file_memory):
    receipt = run(file_memory.forget([remembered(file_memory, SECRET, id="gone")]))
    remembered(file_memory, '["gone"]')
    assert run(file_memory.verify_forgotten(receipt)).gone
    with file_memory.store.database.write() as connection:  # as a part that forgot to forget would leave it
        connection.execute("CREATE TABLE leftovers (ids TEXT)")
        connection.execute("""INSERT INTO leftovers VALUES ('["kept", "gone"]')""")
    assert places(run(file_memory.verify_forgotten(receipt))) == [("leftovers", "memory gone is mentioned")]


def test_the_messages_and_session_names_of_an_erased_namespace_are_in_no_byte(file_memory, tmp_path):
    rows = file_memory.conversations.rows
    for number in range(40):
        for namespace, text in (("gone", SECRET), ("kept", "Good morning.")):
            said = [Message.user(f"{number} {text} " + "x" * (number * 37 % 600))]
            rows.append(f"{namespace}-session-{number % 7}", said, namespace=namespace)
    assert rows.erase_namespace("gone") == 40
    assert not rows.database.pending_erasure()
    found = run_search([str(path) for path in tmp_path.iterdir()], ["zebra", "gone-session", "kept-session"])["found"]
    assert {index for indexes in found.values() for index in indexes} == {2}
    assert len(list(rows.kept(namespace="kept"))) == 40


def test_verify_forgotten_finds_a_text_in_every_encoding(file_memory, tmp_path):
    secrets = [f'the "café" code ~~~~~~\nis {number}4173921' for number in range(8)]
    receipt = run(file_memory.forget([remembered(file_memory, secret) for secret in secrets]))
    assert run(file_memory.verify_forgotten(receipt, secrets)).gone
    json_forms = [json.dumps(secret)[1:-1] for secret in secrets]
    forms = [
        secrets[0].encode(),
        secrets[1].encode("utf-16-le"),
        secrets[2].encode("utf-16-be"),
        json.dumps(secrets[3], ensure_ascii=False).encode(),
        json_forms[4].encode(),
        json.dumps(json_forms[5])[1:-1].encode(),
        b64encode(b"1. " + secrets[6].encode() + b"?\n"),
        urlsafe_b64encode((secrets[7] + ".").encode("utf-16")),
    ]
    run(file_memory.close())
    content = (tmp_path / "m.db").read_bytes()
    copy = tmp_path / "leftover"
    copy.write_bytes(content + b"x" * (4_194_300 - len(content)) + b"\n".join(forms))  # the first over a block's border
    again = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    with_copy = replace(receipt, unreached=(ExternalCopy("backup", str(copy)),))
    verified = run(again.verify_forgotten(with_copy, secrets))
    run(again.close())
    assert places(verified) == [("leftover", f"text {number} is in its bytes") for number in range(len(secrets))]


def test_verify_forgotten_finds_a_piece_of_a_long_text(file_memory, tmp_path):
    letters = random.Random(3)
    text = "".join(letters.choices(string.ascii_lowercase + " ", k=30_000))
    receipt = run(file_memory.forget([remembered(file_memory, text)]))
    assert run(file_memory.verify_forgotten(receipt, [text])).gone
    with file_memory.store.database.write() as connection:  # as a part that forgot to forget would leave it
        connection.execute("CREATE TABLE summaries (summary BLOB)")
        connection.execute("INSERT INTO summaries VALUES (?)", (text[9_000:9_800].encode(),))
    assert ("m.db", "text 0 is in its bytes") in places(run(file_memory.verify_forgotten(receipt, [text])))


def test_equal_words_in_another_memory_are_a_note_and_no_remnant(file_memory):
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    remembered(file_memory, SECRET)
    verified = run(file_memory.verify_forgotten(receipt, [SECRET]))
    assert verified.gone
    assert "still said elsewhere" in verified.notes[0]


def test_verify_forgotten_notes_foreign_and_too_short_texts(file_memory):
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    verified = run(file_memory.verify_forgotten(receipt, ["something else entirely", "ok"]))
    assert verified.gone
    assert ["none of those" in note for note in verified.notes].count(True) == 2
    assert any("too short" in note for note in verified.notes)


def test_a_dirty_free_page_is_a_remnant(file_memory, tmp_path):
    filler = [remembered(file_memory, "x" * 9000) for _ in range(20)]
    last = remembered(file_memory, "y" * 9000)
    receipt = run(file_memory.forget([*filler, last]))
    assert run(file_memory.verify_forgotten(receipt)).gone
    with file_memory.store.database.write() as connection:  # as a tool without secure deletion would
        connection.pragma("secure_delete", "off")
        connection.execute("CREATE TABLE careless (data TEXT)")
        connection.execute("INSERT INTO careless VALUES (?)", ("z" * 90_000,))
    with file_memory.store.database.write() as connection:
        connection.execute("DROP TABLE careless")
    assert any("free pages are not empty" in what for _, what in places(run(file_memory.verify_forgotten(receipt))))


def test_bytes_in_the_write_ahead_log_are_remnants_until_its_readers_end(file_memory, tmp_path):
    target = remembered(file_memory, SECRET)
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    lane = store_namespace("", CONVERSATION)
    with other.view([lane]) as view:
        assert view.get([target], namespace=lane)[0] is not None
        receipt = run(file_memory.forget([target]))
        verified = run(file_memory.verify_forgotten(receipt, [SECRET]))
        assert receipt.pending
        assert any(where == "log" for where, _ in places(verified))
        assert ("m.db-wal", "text 0 is in its bytes") in places(verified)
    other.close()
    assert run(file_memory.verify_forgotten(receipt, [SECRET])).gone


def test_an_unreadable_file_is_a_remnant(file_memory, monkeypatch):
    ask = verify.run_search
    unread = {"unread": {"somewhere/m.db-wal": "Permission denied"}}
    monkeypatch.setattr(verify, "run_search", lambda *given: {**ask(*given), **unread})
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    verified = run(file_memory.verify_forgotten(receipt, [SECRET]))
    assert places(verified) == [("m.db-wal", "not searched: Permission denied")]
    assert not verified.gone


def test_the_search_process_gets_no_text_by_its_command_line(file_memory, monkeypatch):
    seen = []
    run_it = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *given, **named: seen.append(given) or run_it(*given, **named))
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    run(file_memory.verify_forgotten(receipt, [SECRET]))
    assert len(seen) == 1
    assert "zebra" not in repr(seen)


def test_a_dry_run_cannot_be_verified(file_memory):
    planned = run(file_memory.forget([remembered(file_memory, SECRET)], dry_run=True))
    for wrong in (planned, "receipt"):
        with pytest.raises(ArgumentError, match="receipt"):
            run(file_memory.verify_forgotten(wrong))


def entry_again(memory, lane, id):
    memory.store.upsert([to_entry(Memory("other words", id=id))], namespace=store_namespace("", lane))


LEFT = {
    "itself": lambda m, id: entry_again(m, CONVERSATION, id),
    "an old version": lambda m, id: entry_again(m, ARCHIVE, f"{id}@7"),
    "its message": lambda m, id: m.conversations.rows.place([HistoryRow("", "s", 1, Message.user("words"), NOW, id)]),
    "what was made of it": lambda m, id: run(m.remember(Memory("other words", derived_from=(id,)))),
}


@pytest.mark.parametrize("what", LEFT)
def test_remnants_are_found_by_the_receipt_alone(memory, what):
    receipt = run(memory.forget([remembered(memory, SECRET)]))
    assert run(memory.verify_forgotten(receipt)).gone
    LEFT[what](memory, receipt.memories[0])
    assert not run(memory.verify_forgotten(receipt)).gone


def test_equal_ids_of_another_namespace_are_no_remnants(memory):
    receipt = run(memory.forget([remembered(memory, SECRET, id="x")]))
    run(memory.remember(Memory("theirs", id="x"), namespace="b"))
    run(memory.remember(Memory("made of theirs", derived_from=("x",)), namespace="b"))
    assert run(memory.verify_forgotten(receipt)).left == ()
    run(memory.forget(["x"], namespace="b", grace=WEEK))
    assert run(memory.verify_forgotten(receipt)).left == ()


def test_a_soft_delete_is_a_remnant_until_it_is_erased(memory):
    receipt = run(memory.forget([remembered(memory, SECRET)], grace=WEEK))
    (left,) = run(memory.verify_forgotten(receipt)).left
    assert (left.where, receipt.due.isoformat() in left.what) == ("held", True)
    run(memory.forget(receipt.memories))
    assert run(memory.verify_forgotten(receipt)).gone


def test_soft_deleted_messages_are_remnants(memory):
    run(memory.conversations.append("s", [Message.system("be brief")]))
    receipt = run(memory.forget(session="s", grace=WEEK))
    assert (receipt.ids, [remnant.where for remnant in run(memory.verify_forgotten(receipt)).left]) == ((), ["held"])


@pytest.mark.parametrize("what", ["entry", "message"])
def test_items_in_another_soft_delete_are_remnants(memory, what):
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
    assert [remnant.where for remnant in run(memory.verify_forgotten(receipt)).left] == ["held"]


def test_backups_made_within_the_grace_period_are_searched(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    receipt = run(memory.forget([remembered(memory, SECRET)], grace=timedelta(days=1)))
    memory.store.backup(str(tmp_path / "meanwhile.db"))
    assert receipt.unreached == ()
    run(memory.forget(receipt.memories))
    proof = run(memory.verify_forgotten(receipt, [SECRET]))
    assert [(remnant.where, remnant.what) for remnant in proof.left] == [
        (str(tmp_path / "meanwhile.db"), "text 0 is in its bytes")
    ]
    memory.store.database.remove_backup(str(tmp_path / "meanwhile.db"))
    assert run(memory.verify_forgotten(receipt, [SECRET])).gone
    final = run(memory.forget([remembered(memory, SECRET)]))
    memory.store.backup(str(tmp_path / "later.db"))
    assert str(tmp_path / "later.db") not in run(memory.verify_forgotten(final, [SECRET])).files
    run(memory.close())


def test_a_dirty_trunk_page_is_a_remnant(file_memory):
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    database = file_memory.store.database
    with database.write() as connection:  # as a tool without secure deletion would
        connection.execute("CREATE TABLE careless (data TEXT)")
        connection.execute("INSERT INTO careless VALUES (?)", ("z" * 3000,))
    file_memory.store.verify()
    with database.read() as connection:
        free = next(connection.execute("PRAGMA freelist_count"))[0]
    with database.write() as connection:
        connection.pragma("secure_delete", "off")
        connection.execute("DROP TABLE careless")
    found = run(file_memory.verify_forgotten(receipt))
    assert free == 0
    assert [what.what for what in found.left] == ["1 free pages are not empty"]


def test_the_write_ahead_log_is_truncated_or_a_remnant(file_memory, tmp_path):
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)]))
    remembered(file_memory, "another thing")
    assert (tmp_path / "m.db-wal").stat().st_size > 0
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with other.view([store_namespace("", CONVERSATION)]) as view:
        assert view.get(["nothing"], namespace=store_namespace("", CONVERSATION)) == [None]
        remembered(file_memory, "a thing that the reader does not see")
        assert not file_memory.store.pending_erasure()
        assert [remnant.where for remnant in run(file_memory.verify_forgotten(receipt)).left] == ["log"]
    other.close()
    assert run(file_memory.verify_forgotten(receipt)).gone
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


NO_MENTIONS = [
    lambda m: run(m.remember("gone")),
    lambda m: run(m.remember('["gone"]')),
    lambda m: run(m.remember(Memory("a", speaker="gone"))),
    lambda m: run(m.remember(Memory("a", tags=("gone",)))),
    lambda m: run(m.remember(Memory("a", source=Source(document="d", title="gone")))),
    lambda m: run(m.conversations.append("s", [Message.system("gone")])),
    lambda m: m.conversations.rows.place([HistoryRow("b", "s", 1, Message.system("x"), NOW, "gone")]),
]
"""A text, a list in a text, a speaker, a tag, a title, a message, and the id of a memory of another namespace."""


@pytest.mark.parametrize("how", MENTIONS)
def test_references_to_an_id_are_remnants(memory, how):
    receipt = run(memory.forget([remembered(memory, SECRET, id="gone")]))
    MENTIONS[how](memory)
    assert not run(memory.verify_forgotten(receipt)).gone


def test_words_equal_to_an_id_are_no_remnants(memory):
    receipt = run(memory.forget([remembered(memory, SECRET, id="gone")]))
    for say_so in NO_MENTIONS:
        say_so(memory)
    assert run(memory.verify_forgotten(receipt)).left == ()


def test_a_document_list_may_name_a_forgotten_passage(file_memory, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(f"# One\n\n{SECRET}\n\n# Two\n\nSomething else.\n")
    run(KnowledgeBase(file_memory).ingest(tmp_path / "notes"))
    (passage,) = [entry.id for entry in file_memory.store.scan(namespace="/documents/default") if "zebra" in entry.text]
    receipt = run(file_memory.forget([passage]))
    assert receipt.memories == (passage,)
    proof = run(file_memory.verify_forgotten(receipt))
    assert proof.gone
    assert proof.rows > 0


ENDING = {
    "a write": lambda m: run(m.remember("another thing")),
    "a question": lambda m: run(m.recall("anything")),
    "the proof": lambda m: None,
    "closing": lambda m: run(m.close()),
}


@pytest.mark.parametrize("way", [*ENDING, "opening"])
def test_bytes_pending_for_a_reader_are_erased_by_the_next_call_after_its_end(tmp_path, way):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    target = remembered(memory, SECRET)
    lane = store_namespace("", CONVERSATION)
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with other.view([lane]) as view:
        assert view.get([target], namespace=lane)[0] is not None
        receipt = run(memory.forget([target]))
        assert receipt.pending
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


@pytest.mark.parametrize(("page", "rows"), [(512, 300), (65536, 3)])
def test_count_dirty_free_pages_checks_every_free_page_including_trunk_pages(tmp_path, page, rows):
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


def test_count_dirty_free_pages_is_zero_for_a_file_that_is_no_database(tmp_path):
    (tmp_path / "a").write_bytes(b"SQLite format 2\x00" + bytes(range(256)) * 40)
    assert count_dirty_free_pages(str(tmp_path / "a")) == 0


def plant_in_gap(path: Path, words: bytes) -> None:
    """Write *words* between the rows of the first page that has room for them, as SQLite leaves copies of rows."""
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        kind, _, cells, rows = struct.unpack(">BHHH", content[page : page + 7])
        if kind == 13 and rows - 8 - 2 * cells > 2 * len(words):
            content[page + rows - len(words) : page + rows] = words
            path.write_bytes(content)
            return
    raise AssertionError("no page has room")


def test_remains_of_rows_in_the_gaps_of_pages_are_found_and_cleared(tmp_path):
    path = tmp_path / "m.db"
    with memory_on("sqlite", tmp_path) as memory:
        kept = [remembered(memory, f"note {number}") for number in range(3)]
        receipt = run(memory.forget([remembered(memory, SECRET)]))
        assert not receipt.pending
    assert count_dirty_gaps(str(path)) == 0
    plant_in_gap(path, SECRET.encode())
    with memory_on("sqlite", tmp_path) as memory:
        with closing(open_store(f"sqlite:///{path}")) as reader, reader.view([""]) as view:
            view.search_text("note")
            found = {remnant.what for remnant in run(memory.verify_forgotten(receipt, [SECRET])).left}
        assert found == {"1 pages hold remains of rows in their gaps", "text 0 is in its bytes"}
        assert run(memory.verify_forgotten(receipt)).gone
        assert None not in run(memory.get(kept))
    assert (count_dirty_gaps(str(path)), SECRET.encode() in path.read_bytes()) == (0, False)


# --- external copies


def test_backups_are_named_and_searched_until_they_are_removed(file_memory, tmp_path):
    target = remembered(file_memory, SECRET)
    for name in ("a.db", "b.db"):
        file_memory.store.backup(str(tmp_path / name))
    (tmp_path / "b.db").rename(tmp_path / "moved.db")
    planned = run(file_memory.forget([target], dry_run=True))
    receipt = run(file_memory.forget([target]))
    assert planned.unreached == receipt.unreached
    assert [(Path(copy.path).name, copy.removed, copy.note[:7]) for copy in receipt.unreached] == [
        ("a.db", False, ""),
        ("b.db", False, "nothing"),
    ]
    assert places(run(file_memory.verify_forgotten(receipt, [SECRET]))) == [("a.db", "text 0 is in its bytes")]
    run(file_memory.forget([remembered(file_memory, "another")], remove_backups=True))
    assert not (tmp_path / "a.db").exists()
    assert run(file_memory.verify_forgotten(receipt, [SECRET])).gone


def test_exports_of_the_namespace_are_named_and_searched(file_memory, tmp_path):
    target = remembered(file_memory, SECRET)
    run(file_memory.remember("another's", namespace="b"))
    for name, namespace in (("mine.jsonl", ""), ("moved.jsonl", ""), ("theirs.jsonl", "b")):
        run(file_memory.export(tmp_path / name, namespace=namespace))
    (tmp_path / "moved.jsonl").unlink()
    planned = run(file_memory.forget([target], dry_run=True))
    receipt = run(file_memory.forget([target]))
    assert planned.unreached == receipt.unreached
    assert [(copy.kind, Path(copy.path).name, copy.at, copy.note[:7]) for copy in receipt.unreached] == [
        ("export", "mine.jsonl", NOW, ""),
        ("export", "moved.jsonl", NOW, "nothing"),
    ]
    assert places(run(file_memory.verify_forgotten(receipt, [SECRET]))) == [("mine.jsonl", "text 0 is in its bytes")]
    (tmp_path / "mine.jsonl").unlink()
    assert run(file_memory.verify_forgotten(receipt, [SECRET])).gone
    assert [Path(copy.path).name for copy in run(file_memory.forget_namespace("b")).unreached] == ["theirs.jsonl"]


def test_forget_namespace_with_remove_backups_removes_the_backups(file_memory, tmp_path):
    remembered(file_memory, SECRET)
    file_memory.store.backup(str(tmp_path / "a.db"))
    assert not run(file_memory.forget_namespace("", dry_run=True, remove_backups=True)).unreached[0].removed
    assert (tmp_path / "a.db").exists()
    receipt = run(file_memory.forget_namespace("", remove_backups=True))
    assert [copy.removed for copy in receipt.unreached] == [True]
    assert not (tmp_path / "a.db").exists()


def test_remove_backups_keeps_the_backups_when_nothing_was_forgotten(file_memory, tmp_path):
    file_memory.store.backup(str(tmp_path / "a.db"))
    run(file_memory.forget(tags=["none"], remove_backups=True))
    run(file_memory.forget_namespace("nobody", remove_backups=True))
    assert (tmp_path / "a.db").exists()


def test_remove_backups_keeps_another_file_at_the_path_of_a_backup(file_memory, tmp_path):
    file_memory.store.backup(str(tmp_path / "a.db"))
    (tmp_path / "a.db").unlink()
    (tmp_path / "a.db").write_text("my own letter that is long enough to be a file")
    receipt = run(file_memory.forget([remembered(file_memory, SECRET)], remove_backups=True))
    assert (tmp_path / "a.db").exists()
    assert receipt.unreached[0].note.startswith("not removed")
    assert not receipt.unreached[0].removed


@pytest.fixture
def newer(monkeypatch):
    """From here on the program is a newer one, whose log of operations has one more step."""

    def m003_noisier(connection):
        connection.execute("UPDATE operations SET kind = kind || '!'")

    def newer_tables(self):
        TableComponent.__init__(
            self,
            "operations",
            (m001_operation_log, m002_user_names, m003_noisier),
            ("operations", "operation_changes"),
        )

    monkeypatch.setattr(OperationLogTables, "__init__", newer_tables)


def reopened(memory, path):
    run(memory.close())
    return LongTermMemory(open_store(f"sqlite:///{path}"), clock=lambda: NOW)


def test_the_backup_of_a_failed_schema_migration_is_an_external_copy(file_memory, newer, tmp_path, monkeypatch):
    first, second = remembered(file_memory, SECRET), remembered(file_memory, "another")
    monkeypatch.setattr(OperationLogTables, "verify", lambda *_: [Finding("operations", "planted")])
    again = reopened(file_memory, tmp_path / "m.db")
    receipt = run(again.forget([first]))
    (copy,) = receipt.unreached
    assert (copy.kind, Path(copy.path).name) == ("backup", "m.db.before-operations-2-to-3.backup")
    assert places(run(again.verify_forgotten(receipt, [SECRET]))) == [(Path(copy.path).name, "text 0 is in its bytes")]
    assert run(again.forget([second], remove_backups=True)).unreached[0].removed
    assert run(again.verify_forgotten(receipt, [SECRET])).gone
    assert [path.name for path in tmp_path.glob("*.backup")] == []
    run(again.close())


def test_a_finished_schema_migration_leaves_no_external_copy(file_memory, newer, tmp_path):
    first = remembered(file_memory, SECRET)
    again = reopened(file_memory, tmp_path / "m.db")
    receipt = run(again.forget([first]))
    assert receipt.unreached == ()
    assert run(again.verify_forgotten(receipt, [SECRET])).gone
    run(again.close())


@pytest.mark.parametrize("whole", [False, True])
def test_forgetting_messages_alone_with_remove_backups_removes_the_backups(file_memory, tmp_path, whole):
    run(file_memory.conversations.append("s", [Message.system("be kind")]))
    file_memory.store.backup(str(tmp_path / "a.db"))
    named = {"remove_backups": True}
    receipt = run(file_memory.forget_namespace("", **named) if whole else file_memory.forget(session="s", **named))
    assert [copy.removed for copy in receipt.unreached] == [True]
    assert not (tmp_path / "a.db").exists()


def test_an_unfinished_copy_is_named_by_forget_searched_and_removed_when_its_writer_is_dead(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tellback.vectorstore.sqlite import atomic_write\n"
        "with atomic_write(Path(sys.argv[1]), token=os.urandom) as private:\n"
        "    private.write_text(sys.argv[2]); print(private, flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "copy"), SECRET]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        private = Path(writer.stdout.readline().strip())
        memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder())
        report = run(memory.remember(SECRET))
        receipt = run(memory.forget([report.id]))
        assert [(copy.kind, copy.path) for copy in receipt.unreached] == [("unfinished", str(private))]
        assert [remnant.where for remnant in run(memory.verify_forgotten(receipt, [SECRET])).left] == [str(private)]
        run(memory.close())
    finally:
        writer.kill()
        writer.communicate()
    assert private.exists()
    run(open_memory(tmp_path / "m.db", embedder=ToyEmbedder()).close())
    assert not private.exists()


def test_a_forgotten_namespace_leaves_no_bytes_in_a_history_file_of_its_own(tmp_path: Path) -> None:
    with closing(SqliteDatabase(tmp_path / "said.db")) as database:
        memory = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), history=DatabaseHistory(database))
        run(memory.remember_turn("s", [Message.user(f"{SECRET} is the code."), Message.assistant("Noted.")]))
        receipt = run(memory.forget_namespace(""))
        assert (receipt.pending, database.pending_erasure()) == (False, False)
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name
        run(memory.close())
