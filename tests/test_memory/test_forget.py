"""Forgetting: what goes, what is named, what stays, and that no byte is left."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from memory.codec import to_entry
from memory.errors import ArgumentError, NoSuchMemory
from memory.history.protocol import HistoryRow
from memory.long_term import LongTermMemory
from memory.messages import DocumentBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock
from memory.models import Memory, Source
from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, store_namespace
from memory.results import Outcome
from tests.test_memory.forgetting import remembered, run
from vectorstore import open_store

SECRET = "the locker code is 44173921-zebra"
BOOKS = store_namespace("", DOCUMENTS, "books")


class Ticking:
    """A clock that moves a second at each look."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


class Toy:
    """An embedder whose vectors differ from text to text."""

    fingerprint = "toy/1"
    dimension = 8

    async def embed(self, texts, kind="document"):
        return np.array([vector_of(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)


def vector_of(text):
    row = np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)
    return row / np.linalg.norm(row)


@pytest.fixture(params=["numpy", "sqlite"])
def store(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield opened
    opened.close()


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=Toy(), clock=Ticking())


def turn(memory, *messages, session="s", used=()):
    return [report.id for report in run(memory.remember_turn(session, list(messages), used=used))]


def texts(memory):
    return [one.text for one in run(memory.list())]


def said(memory, session="s"):
    return [one.message.text for one in run(memory.conversations.load(session))]


# --- what goes with it


def test_a_memory_goes_with_all_its_versions(memory, store):
    kept = remembered(memory, "something else")
    gone = remembered(memory, "one")
    run(memory.correct(gone, "two"))
    run(memory.correct(gone, "three"))
    receipt = run(memory.forget([gone]))
    assert (receipt.memories, receipt.versions, receipt.dry_run) == ((gone,), 2, False)
    assert run(memory.get([gone, kept]))[0] is None
    assert texts(memory) == ["something else"]
    assert store.count(namespace=store_namespace("", ARCHIVE)) == 0
    with pytest.raises(NoSuchMemory):
        run(memory.history(gone))


def test_its_message_goes_and_the_others_stay(memory):
    first, _ = turn(memory, Message.user("I moved to Lisbon."), Message.assistant("Good for you."))
    receipt = run(memory.forget([first]))
    assert receipt.messages == 1
    assert said(memory) == ["Good for you."]
    assert run(memory.complete()) == 0


def test_a_fact_takes_the_message_it_comes_from_and_its_record(memory):
    first, second = turn(memory, Message.user("Rex barks a lot, you know"), Message.user("Nice weather today"))
    fact = remembered(memory, "Rex is a dog", source=Source(session="s", sequence=1), derived_from=(first,))
    receipt = run(memory.forget([fact]))
    assert (receipt.memories, receipt.also, receipt.messages) == ((fact,), (first,), 1)
    assert texts(memory) == ["Nice weather today"]
    assert said(memory) == ["Nice weather today"]
    assert run(memory.get([second]))[0] is not None


def test_every_copy_of_the_words_goes(memory, store):
    target = remembered(memory, SECRET)
    copy = remembered(memory, f"note: {SECRET}!")
    tagged = remembered(memory, "see below", metadata={"details": {"quote": [SECRET]}})
    store.upsert([to_entry(Memory(f"chapter 1. {SECRET}", id="chunk", kind="document"))], namespace=BOOKS)
    turn(memory, Message.user("hello"), Message.assistant(f"You said: {SECRET}"))
    receipt = run(memory.forget([target]))
    answer = set(receipt.also) - {copy, tagged, "chunk"}
    assert len(answer) == 1
    assert receipt.messages == 1
    assert texts(memory) == ["hello"]
    assert said(memory) == ["hello"]
    assert store.count(namespace=BOOKS) == 0


def test_copies_inside_calls_results_and_files_go(memory):
    target = remembered(memory, SECRET)
    call = ToolCallBlock(id="1", name="save", arguments={"notes": [{"text": f"x {SECRET} y"}]})
    result = ToolResultBlock(call_id="1", content=(TextBlock(text=f"saved: {SECRET}"),))
    file = DocumentBlock(media_type="text/plain", data=f"list\n{SECRET}\n".encode())
    turn(memory, Message.assistant([call]), Message.tool([result]), Message.user([file]), Message.user("bye"))
    receipt = run(memory.forget([target]))
    assert receipt.messages == 3
    assert said(memory) == ["bye"]


def test_the_words_of_older_versions_go_as_well(memory):
    first, second = turn(memory, Message.user(SECRET), Message.assistant(f"Noted: {SECRET}"))
    run(memory.correct(first, "the locker code is secret"))
    receipt = run(memory.forget([first]))
    assert (receipt.also, receipt.versions, receipt.messages) == ((second,), 1, 2)
    assert texts(memory) == []


def test_an_old_version_with_the_words_goes_and_its_memory_stays(memory):
    target = remembered(memory, SECRET)
    other = remembered(memory, f"{SECRET} (told by Ann)")
    run(memory.correct(other, "Ann told me something"))
    receipt = run(memory.forget([target]))
    assert (receipt.also, receipt.versions) == ((), 1)
    assert [version.text for version in run(memory.history(other))] == ["Ann told me something"]


def test_what_was_derived_from_it_alone_goes_down_the_line(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    alone = remembered(memory, "from a", derived_from=(a,))
    grandchild = remembered(memory, "from that", derived_from=(alone, a))
    both = remembered(memory, "from both", derived_from=(a, b))
    receipt = run(memory.forget([a]))
    assert receipt.derived == tuple(sorted([alone, grandchild]))
    assert receipt.named == (both,)
    assert texts(memory) == ["the second thing", "from both"]


def test_what_goes_with_it_goes_with_its_own_versions_and_messages(memory, store):
    first, second = turn(memory, Message.user("I have a dog."), Message.assistant("And a cat?"))
    made = remembered(memory, "has a pet", derived_from=(first,))
    run(memory.correct(made, "has an animal"))
    run(memory.correct(second, f"So: {SECRET}"))
    target = remembered(memory, SECRET)
    receipt = run(memory.forget([first, target]))
    assert (receipt.derived, receipt.also, receipt.versions, receipt.messages) == ((made,), (second,), 2, 2)
    assert store.count(namespace=store_namespace("", ARCHIVE)) == 0
    assert said(memory) == []


def test_forgetting_all_sources_takes_what_came_of_them(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    both = remembered(memory, "from both", derived_from=(a, b))
    assert run(memory.forget([a, b])).derived == (both,)
    assert texts(memory) == []


def test_answers_that_used_it_are_named_and_answers_that_quote_it_go(memory):
    fact = remembered(memory, SECRET)
    used = turn(memory, Message.assistant("I would open it with your code."), used=[fact])
    quoting = Message(
        role="assistant", blocks=(TextBlock(text="44173921"),), metadata={"quotes": [{"id": fact, "start": 20}]}
    )
    (report,) = run(memory.remember_turn("s", [quoting]))
    assert (report.outcome, report.id) == (Outcome.REJECTED, "")
    receipt = run(memory.forget([fact]))
    assert (receipt.named, receipt.messages) == (tuple(used), 1)
    assert said(memory) == ["I would open it with your code."]


def test_a_short_text_takes_only_what_has_it_as_a_word(memory):
    target = remembered(memory, "Ann")
    turn(memory, Message.user("I like Annabel", name="Ann"), Message.user("This is Ann."))
    run(memory.forget([target]))
    assert texts(memory) == ["I like Annabel"]


def test_another_namespace_is_not_touched(memory):
    run(memory.remember(SECRET, namespace="b"))
    run(memory.remember_turn("s", [Message.user(SECRET)], namespace="b"))
    run(memory.forget([remembered(memory, SECRET)]))
    assert run(memory.count(namespace="b")) == 2
    assert len(run(memory.conversations.load("s", namespace="b"))) == 1


# --- asking before


def test_a_dry_run_lists_the_same_and_changes_nothing(memory):
    first, second = turn(memory, Message.user(SECRET), Message.assistant(f"Noted: {SECRET}"))
    run(memory.correct(first, "another code"))
    planned = run(memory.forget([first], dry_run=True))
    assert planned.dry_run
    assert len(texts(memory)) == 2
    done = run(memory.forget([first]))
    assert (planned.memories, planned.also, planned.versions, planned.messages) == (
        done.memories,
        done.also,
        done.versions,
        done.messages,
    )
    assert done.also == (second,)


def test_the_receipt_holds_no_words(memory):
    target = remembered(memory, SECRET)
    turn(memory, Message.assistant(f"Noted: {SECRET}"))
    assert "zebra" not in repr(run(memory.forget([target])))


def test_an_unknown_id_is_refused_before_anything_goes(memory):
    known = remembered(memory, "known")
    with pytest.raises(NoSuchMemory, match="nope"):
        run(memory.forget([known, "nope"]))
    with pytest.raises(ArgumentError, match="ids"):
        run(memory.forget(known))
    assert texts(memory) == ["known"]


def test_forgetting_twice_is_harmless(memory):
    target = remembered(memory, "once")
    run(memory.forget([target]))
    assert run(memory.forget([target])).memories == ()


# --- staying forgotten


def test_completing_does_not_bring_it_back(memory):
    (target,) = turn(memory, Message.user(SECRET))
    run(memory.forget([target]))
    assert run(memory.complete()) == 0
    assert texts(memory) == []


def test_an_unfinished_row_of_a_forgotten_memory_is_not_completed(memory):
    target = remembered(memory, "other words")
    memory.conversations.rows.append("s", [Message.user("words of the row")], memories=[target])
    run(memory.forget([target]))
    memory.conversations.rows.append("s", [Message.user("words of the row")], memories=[target])
    assert run(memory.complete()) == 0


def test_words_that_were_said_before_are_not_completed_wherever_they_come_from(memory):
    early = memory.clock()
    run(memory.forget([remembered(memory, SECRET)]))
    late = memory.clock()
    rows = [HistoryRow("", "old", place, Message.user(SECRET), at) for place, at in enumerate([early, late], start=1)]
    memory.conversations.rows.place(rows)
    assert run(memory.complete()) == 1  # the second was said afresh
    assert [one.sequence for one in run(memory.list())] == [2]


def test_an_import_under_the_same_id_is_refused(memory):
    target = remembered(memory, SECRET)
    run(memory.forget([target]))
    report = run(memory.remember(Memory(SECRET, id=target)))
    assert (report.outcome, report.reason) == (Outcome.REJECTED, "forgotten")
    assert texts(memory) == []


def test_tombstones_cover_passages(memory, store):
    store.upsert([to_entry(Memory("a passage of text", id="chunk"))], namespace=BOOKS)
    run(memory.forget(["chunk"]))
    assert memory.tombstones.which(BOOKS, ["chunk"]) == {"chunk"}


def test_the_same_words_may_be_remembered_afresh(memory):
    run(memory.forget([remembered(memory, SECRET, key="k")]))
    assert run(memory.remember(SECRET)).outcome is Outcome.STORED
    assert run(memory.remember(Memory(SECRET, key="k"))).outcome is Outcome.STORED
    (again,) = turn(memory, Message.user(SECRET))
    run(memory.conversations.append("s", [Message.user(SECRET)]))
    assert run(memory.complete()) == 1
    assert again in [one.id for one in run(memory.list())]


# --- the bytes


def forms(text):
    return [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")]


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_no_byte_of_it_is_left_in_any_file(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), embedder=Toy())
    filler = [f"an ordinary sentence number {i} about the weather" for i in range(200)]
    run(memory.remember_many(filler[:100]))
    (first, _) = turn(memory, Message.user(SECRET), Message.assistant(f"Noted: {SECRET}"))
    run(memory.correct(first, "the locker code is 55284032-quagga"))
    run(memory.remember_many(filler[100:]))
    vectors = [vector_of(text).tobytes() for text in (SECRET, f"Noted: {SECRET}", "the locker code is 55284032-quagga")]
    traces = [form for word in ("zebra", "44173921", "quagga", "55284032") for form in forms(word)] + vectors
    before = b"".join(files_of(tmp_path).values())
    assert sum(trace in before for trace in traces) >= 7
    receipt = run(memory.forget([first]))
    assert not receipt.pending
    for name, content in files_of(tmp_path).items():
        assert [trace for trace in traces if trace in content] == [], name
    assert memory.store.verify() == []
    assert run(memory.count()) == 200
    run(memory.close())
    for name, content in files_of(tmp_path).items():
        assert [trace for trace in traces if trace in content] == [], name


def test_bytes_that_a_reader_holds_are_reported_and_go_when_it_leaves(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    other = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    target = remembered(memory, SECRET)
    with other.view([store_namespace("", CONVERSATION)]) as view:
        assert view.get([target], namespace=store_namespace("", CONVERSATION))[0] is not None
        receipt = run(memory.forget([target]))
        assert receipt.pending
    run(memory.remember("the next write tries again"))
    assert not memory.store.pending_erasure()
    assert not any(form in content for content in files_of(tmp_path).values() for form in forms("zebra"))
    other.close()
    run(memory.close())
