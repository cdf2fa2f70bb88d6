"""Long-term memory over both stores: remembering, keys, turns, correcting, pending vectors, completing."""

import asyncio
import shutil
from asyncio import run
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tellback.memory import (
    Action,
    ArgumentError,
    DuplicateKey,
    EmbedderError,
    EmbedderMismatch,
    EstimatingCounter,
    InMemoryHistory,
    LongTermMemory,
    Memory,
    Message,
    MinimumLength,
    NoSuchMemory,
    PolicyDecision,
    RejectedText,
    Source,
    TextBlock,
    ThinkingBlock,
    TiktokenCounter,
    ToolCallBlock,
    ToolResultBlock,
    Trust,
    read_receipt,
    receipt_text,
)
from tellback.memory.internals import CONVERSATION, DOCUMENTS, PROBES, Outcome, store_namespace
from tellback.vectorstore import Entry, RevisionConflict, Space, StoreClosed, UnsupportedError, VectorStore, open_store
from tests.support.clocks import TickingClock
from tests.support.data_only_store import DataOnlyStore

LANE = store_namespace("", CONVERSATION)


class Toy:
    """An embedder that counts letters, notes what it was asked, and fails on demand."""

    fingerprint = "toy/1"
    dimension = 4

    def __init__(self, fails=False):
        self.fails = fails
        self.asked = []

    async def embed(self, texts, kind="document"):
        self.asked.extend(text for text in texts if text not in PROBES)
        if self.fails:
            raise EmbedderError("no answer")
        rows = [[text.lower().count(letter) for letter in "aeio"] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 4)


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=Toy(), clock=TickingClock())


def texts(memory, **options):
    return [entry.text for entry in run(memory.list(**options))]


# --- remembering


def test_a_remembered_memory_is_returned_with_all_its_fields(memory):
    moment = datetime(2023, 5, 7, 12, tzinfo=UTC)
    given = Memory(
        "I moved to Lisbon.",
        kind="event",
        speaker="Ann",
        session="s",
        sequence=3,
        source=Source(session="s", sequence=3),
        tags=("home",),
        scopes={"user": "ann"},
        importance=0.5,
        pinned=True,
        trust=Trust.ASSISTANT,
        actor="assistant",
        occurred_at=moment,
        valid_from=moment,
        metadata={"mood": "glad"},
    )
    report = run(memory.remember(given))
    (kept,) = run(memory.get([report.id]))
    assert report.outcome is Outcome.STORED
    assert report.deferred is None
    assert kept.recorded_at is not None
    assert kept.operation == report.operation
    assert replace(kept, id="", recorded_at=None, revision=0, operation=None) == given


def test_a_memory_has_its_vector_at_once(memory, store):
    report = run(memory.remember("aa e"))
    (entry,) = store.get([report.id], namespace=LANE)
    assert entry.vector.tolist() == [2, 1, 0, 0]
    assert store.space == Space("toy/1", 4)


def test_a_text_without_words_is_stored_without_vector_and_is_not_pending(memory, store):
    report = run(memory.remember("?!"))
    (entry,) = store.get([report.id], namespace=LANE)
    assert (entry.vector, entry.no_vector) == (None, "nothing to embed")
    assert report.deferred is None
    assert run(memory.pending()) == 0


def test_an_embedder_that_fails_does_not_fail_the_write(store):
    memory = LongTermMemory(store, embedder=Toy(fails=True))
    report = run(memory.remember("I moved."))
    assert report.outcome is Outcome.STORED
    assert "no answer" in report.deferred
    assert texts(memory) == ["I moved."]
    assert run(memory.pending()) == 1


def test_pending_entries_are_embedded_with_the_next_write_of_a_working_embedder(store):
    toy = Toy(fails=True)
    memory = LongTermMemory(store, embedder=toy)
    run(memory.remember("an old one"))
    toy.fails = False
    run(memory.remember("a new one"))
    assert run(memory.pending()) == 0


def test_without_an_embedder_memories_stay_pending_until_a_flush_with_one(store):
    memory = LongTermMemory(store)
    report = run(memory.remember("I moved."))
    assert report.deferred == "no embedder is configured"
    assert store.space is None
    later = LongTermMemory(store, embedder=Toy())
    assert run(later.pending()) == 1
    assert run(later.flush()).embedded == 1
    assert (run(later.pending()), run(later.flush()).embedded) == (0, 0)


def test_flush_covers_every_partition_of_the_given_namespace(store):
    memory = LongTermMemory(store)
    run(memory.remember("here", namespace="a"))
    run(memory.remember("there", namespace="b"))
    store.upsert([Entry("c", text="a chunk")], namespace=store_namespace("a", DOCUMENTS, "x"))
    later = LongTermMemory(store, embedder=Toy())
    assert run(later.flush(namespace="a")).embedded == 2
    assert (run(later.pending(namespace="a")), run(later.pending())) == (0, 1)


def test_flushing_never_overwrites_a_correction(store):
    memory = LongTermMemory(store)
    first, second = (run(memory.remember(text)).id for text in ("aaaa", "eeee"))

    class CorrectedMeanwhile(Toy):
        async def embed(self, texts, kind="document"):
            await LongTermMemory(store).correct(first, "iiii")
            return await super().embed(texts, kind)

    assert run(LongTermMemory(store, embedder=CorrectedMeanwhile()).flush()).embedded == 1
    each, other = store.get([first, second], namespace=LANE)
    assert (each.text, each.vector) == ("iiii", None)
    assert other.vector.tolist() == [0, 4, 0, 0]


def test_a_text_without_words_is_not_pending_after_a_flush(store):
    run(LongTermMemory(store).remember("?!"))
    memory = LongTermMemory(store, embedder=Toy())
    assert run(memory.flush()).embedded == 0
    assert run(memory.pending()) == 0


def test_remember_refuses_an_invalid_memory_before_embedding_or_writing(memory, store):
    for bad in ("", Memory("x", importance=2), None):
        with pytest.raises(ArgumentError):
            run(memory.remember(bad))
    with pytest.raises(ArgumentError, match="namespace"):
        run(memory.remember("x", namespace="a\0"))
    assert memory.embedder.asked == []
    assert store.namespaces() == []


def test_get_count_and_list_see_only_their_own_namespace(memory):
    report = run(memory.remember("mine", namespace="a"))
    assert run(memory.get([report.id], namespace="b")) == [None]
    assert run(memory.count(namespace="a")) == 1
    assert run(memory.count(namespace="b")) == 0
    assert texts(memory, namespace="nobody") == []


def test_write_policies_reject_or_redact_and_the_report_has_the_reason(store):
    class Hide:
        def decide(self, memory):
            if "4417" not in memory.text:
                return PolicyDecision(Action.ACCEPT)
            return PolicyDecision(Action.REDACT, "a code", replace(memory, text=memory.text.replace("4417", "****")))

    memory = LongTermMemory(store, policies=[MinimumLength(5), Hide()])
    short = run(memory.remember("ok"))
    hidden = run(memory.remember("my code is 4417"))
    assert (short.outcome, short.id, short.reason) == (Outcome.REJECTED, "", "too short")
    assert (hidden.outcome, hidden.reason) == (Outcome.REDACTED, "a code")
    assert texts(memory) == ["my code is ****"]


def test_an_invalid_policy_is_refused(store):
    with pytest.raises(ArgumentError, match="policies"):
        LongTermMemory(store, policies=["always"])


# --- keys and ids


def test_the_same_key_and_text_is_a_duplicate(memory):
    first = run(memory.remember(Memory("I moved.", key="k")))
    again = run(memory.remember(Memory("I moved.", key="k")))
    assert (again.outcome, again.id) == (Outcome.DUPLICATE, first.id)
    assert run(memory.count()) == 1
    assert memory.embedder.asked == ["I moved."]


def test_the_same_key_with_another_text_overwrites_nothing(memory):
    first = run(memory.remember(Memory("I moved.", key="k")))
    with pytest.raises(DuplicateKey) as error:
        run(memory.remember(Memory("I stayed.", key="k")))
    assert (error.value.key, error.value.id) == ("k", first.id)
    assert texts(memory) == ["I moved."]


def test_a_key_belongs_to_its_namespace(memory):
    run(memory.remember(Memory("I moved.", key="k"), namespace="a"))
    other = run(memory.remember(Memory("I stayed.", key="k"), namespace="b"))
    assert other.outcome is Outcome.STORED


def test_a_callers_id_is_used_and_never_overwritten(memory):
    assert run(memory.remember(Memory("one", id="mine"))).id == "mine"
    assert run(memory.remember(Memory("one", id="mine"))).outcome is Outcome.DUPLICATE
    with pytest.raises(DuplicateKey):
        run(memory.remember(Memory("two", id="mine")))


def test_a_key_beside_a_callers_id_names_that_memory_until_it_is_forgotten(memory):
    first, second = Memory("one", id="mine", key="k"), Memory("two", id="other", key="k")
    stored, again, refused = run(memory.remember_many([first, Memory("one", key="k"), second]))
    assert (stored.id, again.of, refused.outcome) == ("mine", "mine", Outcome.REJECTED)
    run(memory.forget(["mine"]))
    assert run(memory.remember(second)).outcome == Outcome.STORED


def test_get_by_key_answers_after_the_ids_with_none_for_the_unknown(memory):
    ids = [run(memory.remember(Memory(text, key=text))).id for text in ("one", "two")]
    found = run(memory.get(ids[:1], keys=["two", "three"]))
    assert [entry.text if entry else None for entry in found] == ["one", "two", None]
    assert run(memory.get(keys=["one"], namespace="b")) == [None]


def test_memory_ids_come_from_the_ids_argument(store):
    names = iter(["first", "second"])
    memory = LongTermMemory(store, ids=lambda: next(names))
    assert [run(memory.remember(text)).id for text in ("a", "b")] == ["first", "second"]


# --- remember_many


def test_remember_many_stores_the_same_as_single_remember_calls(store):
    items = ["aa", Memory("ee", key="k"), Memory("ee", key="k"), Memory("other", key="k"), "ok", "?!"]
    together, single = (
        LongTermMemory(open_store("numpy:"), embedder=Toy(), clock=TickingClock(), policies=[MinimumLength(1)])
        for _ in range(2)
    )
    reports = run(together.remember_many(items))
    lines = []
    for item in items:
        try:
            lines.append(run(single.remember(item)))
        except DuplicateKey as error:
            lines.append(error)
    assert [report.outcome for report in reports] == [
        "stored",
        "stored",
        "duplicate",
        "rejected",
        "stored",
        "stored",
    ]
    assert [report.outcome for report in reports if report is not reports[3]] == [
        line.outcome for line in lines if not isinstance(line, DuplicateKey)
    ]
    assert "already names" in reports[3].reason

    def kept(memory):
        return sorted(
            (entry.text, None if entry.vector is None else tuple(entry.vector), entry.no_vector)
            for entry in memory.store.scan(namespace=LANE)
        )

    assert kept(together) == kept(single)


def test_remember_many_reads_a_generator_in_batches_with_progress(memory):
    seen = []
    reports = run(memory.remember_many((f"memory number {i}" for i in range(300)), on_progress=seen.append))
    assert seen == [256, 300]
    assert len({report.id for report in reports}) == 300
    assert [report.id for report in reports] == sorted(report.id for report in reports)
    assert run(memory.count()) == 300


def test_remember_many_names_an_invalid_item_and_keeps_the_batches_before(memory):
    items = [*(f"fine {i}" for i in range(300)), ""]
    with pytest.raises(ArgumentError, match=r"items\[300\]"):
        run(memory.remember_many(items))
    assert run(memory.count()) == 256


def test_remember_many_refuses_a_single_string(memory):
    with pytest.raises(ArgumentError, match="items"):
        run(memory.remember_many("hello"))


def test_remember_many_of_no_items_gives_no_reports(memory):
    assert run(memory.remember_many([])) == []


# --- turns


def test_remember_turn_stores_messages_in_history_and_memory_with_equal_sequence_numbers(memory):
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    exchange = [Message.user("I have a dog.", name="Ann", at=moment), Message.assistant("Nice!")]
    reports = run(memory.remember_turn("s", exchange))
    first, second = run(memory.get([report.id for report in reports]))
    assert (first.text, first.kind, first.role, first.speaker) == ("I have a dog.", "turn", "user", "Ann")
    assert (first.session, first.sequence, first.source) == ("s", 1, Source(session="s", sequence=1))
    assert (first.occurred_at, first.trust, first.actor) == (moment, Trust.USER, "user")
    assert (second.sequence, second.trust, second.actor) == (2, Trust.ASSISTANT, "assistant")
    stored = run(memory.conversations.load("s"))
    assert [each.message for each in stored] == exchange
    assert [each.memory for each in stored] == [first.id, second.id]
    assert run(memory.complete()) == 0


def test_tool_calls_and_thinking_blocks_of_a_turn_are_stored_in_history_only(memory):
    exchange = [
        Message.user("add"),
        Message.assistant([ThinkingBlock(text="hm"), ToolCallBlock(id="1", name="add")]),
        Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text="3"),))]),
        Message.assistant("It is 3."),
    ]
    reports = run(memory.remember_turn("s", exchange))
    assert [report.outcome for report in reports] == ["stored", "rejected", "stored", "stored"]
    assert "no text" in reports[1].reason
    assert [stored.message for stored in run(memory.conversations.load("s"))] == exchange
    assert texts(memory) == ["add", "add\n3", "It is 3."]


def test_a_turn_that_a_policy_rejects_is_in_history_only(store):
    memory = LongTermMemory(store, policies=[MinimumLength(5)])
    (report,) = run(memory.remember_turn("s", [Message.user("ok")]))
    assert report.reason == "too short"
    assert run(memory.count()) == 0
    assert run(memory.complete()) == 0
    assert len(run(memory.conversations.load("s"))) == 1


def test_remember_turn_with_an_invalid_argument_stores_nothing_in_history_or_memory(memory, store):
    with pytest.raises(ArgumentError):
        run(memory.remember_turn("s", [Message.user("fine"), Message.user("\ud800")]))
    with pytest.raises(ArgumentError, match="session"):
        run(memory.remember_turn("", [Message.user("fine")]))
    with pytest.raises(ArgumentError, match="messages"):
        run(memory.remember_turn("s", [Message.user("fine", name="x" * 2000)]))
    assert store.namespaces() == []
    assert run(memory.conversations.sessions()) == []


def test_remember_turn_notes_the_used_memories_on_the_answer(memory):
    fact = run(memory.remember("I have a dog.")).id
    reports = run(memory.remember_turn("s", [Message.user("a pet?"), Message.assistant("A dog.")], used=[fact]))
    question, answer = run(memory.get([report.id for report in reports]))
    assert dict(question.metadata) == {}
    assert answer.metadata["used"] == [fact]


def test_history_and_entries_of_a_turn_are_written_in_one_transaction(tmp_path):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), ids=lambda: "same")
    run(memory.remember_turn("s", [Message.user("first")]))
    with pytest.raises(RevisionConflict):
        run(memory.remember_turn("s", [Message.user("second")]))
    assert [stored.message.text for stored in run(memory.conversations.load("s"))] == ["first"]
    run(memory.close())


# --- completing


def test_complete_remembers_history_messages_without_a_memory(memory):
    run(memory.remember_turn("s", [Message.user("told")]))
    run(memory.conversations.append("s", [Message.user("only in history"), Message.tool([])], namespace=""))
    run(memory.conversations.append("t", [Message.user("elsewhere")], namespace="x"))
    assert run(memory.complete()) == 2
    assert run(memory.complete()) == 0
    assert texts(memory) == ["told", "only in history"]
    (present,) = run(memory.list(namespace="x"))
    assert (present.text, present.session, present.sequence, present.kind) == ("elsewhere", "t", 1, "turn")


def test_complete_applies_the_write_policies(store):
    memory = LongTermMemory(store, policies=[MinimumLength(5)])
    run(memory.conversations.append("s", [Message.user("ok"), Message.user("long enough")]))
    assert run(memory.complete()) == 1
    assert run(memory.complete()) == 0


def test_complete_remembers_many_messages_in_batches(memory):
    run(memory.conversations.append("s", [Message.user(f"message {i}") for i in range(300)]))
    assert run(memory.complete()) == 300
    assert run(memory.count()) == 300


def test_complete_does_not_store_a_memory_again_whose_row_was_left_unsettled(memory):
    (message,) = [Message.user("said once")]
    memory.conversations.rows.append("s", [message], memories=["reserved"])
    run(memory.remember(Memory("said once", id="reserved")))
    assert run(memory.complete()) == 0
    assert texts(memory) == ["said once"]
    assert memory.conversations.rows.unsettled(10) == []


def test_complete_skips_a_message_that_makes_no_valid_memory(memory):
    run(memory.conversations.append("s", [Message.user("odd", name="x" * 2000), Message.user("plain")]))
    assert run(memory.complete()) == 1
    assert texts(memory) == ["plain"]


# --- correcting


def test_a_correction_replaces_the_text_and_keeps_the_rest(memory, store):
    since = datetime(2020, 1, 1, tzinfo=UTC)
    report = run(memory.remember(Memory("I live in Lisbon.", tags=("home",), key="k", valid_from=since)))
    (before,) = run(memory.get([report.id]))
    assert run(memory.correct(report.id, "I live in Oporto.")).id == report.id
    (after,) = run(memory.get([report.id]))
    assert (after.text, after.tags, after.key, after.valid_from) == (
        "I live in Oporto.",
        ("home",),
        "k",
        since,
    )
    assert after.recorded_at > before.recorded_at
    assert after.supersedes == f"{report.id}@{before.revision}"
    (entry,) = store.get([report.id], namespace=LANE)
    assert entry.vector.tolist() == [0, 1, 3, 3]
    assert texts(memory) == ["I live in Oporto."]


def test_all_versions_are_listed_newest_first(memory):
    ident = run(memory.remember("one")).id
    run(memory.correct(ident, "two"))
    run(memory.correct(ident, "three"))
    versions = run(memory.history(ident))
    assert [version.text for version in versions] == ["three", "two", "one"]
    assert versions[0].supersedes == versions[1].id
    assert versions[1].supersedes == versions[2].id
    assert versions[0].retired_at is None
    assert versions[1].retired_at == versions[0].recorded_at
    assert [each.text for each in run(memory.get([versions[2].id]))] == ["one"]


def test_versions_of_ids_with_a_common_prefix_are_kept_apart(memory):
    for ident in ("a", "a@1", "aa"):
        run(memory.remember(Memory(f"first {ident}", id=ident)))
        run(memory.correct(ident, f"second {ident}"))
    assert [version.text for version in run(memory.history("a"))] == ["second a", "first a"]
    assert [version.text for version in run(memory.history("a@1"))] == ["second a@1", "first a@1"]


def test_a_correction_keeps_the_validity_unless_given(memory):
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    ident = run(memory.remember(Memory("one", valid_from=start))).id
    run(memory.correct(ident, "two", valid_to=end))
    (kept,) = run(memory.get([ident]))
    assert (kept.valid_from, kept.valid_to) == (start, end)
    run(memory.correct(ident, "two and a half", valid_from=start - timedelta(days=1)))
    (kept,) = run(memory.get([ident]))
    assert (kept.valid_from, kept.valid_to) == (start - timedelta(days=1), end)
    with pytest.raises(ArgumentError, match="valid_to"):
        run(memory.correct(ident, "three", valid_to=start - timedelta(days=2)))


def test_a_correction_to_the_same_text_is_a_duplicate(memory):
    ident = run(memory.remember("one")).id
    assert run(memory.correct(ident, "one")).outcome is Outcome.DUPLICATE
    assert len(run(memory.history(ident))) == 1


def test_an_unknown_memory_cannot_be_corrected_or_followed(memory):
    for call in (memory.correct("nope", "x"), memory.history("nope")):
        with pytest.raises(NoSuchMemory, match="nope"):
            run(call)


def test_correct_refuses_a_passage_of_a_document(memory, store):
    store.upsert([Entry("chunk", text="passage")], namespace=store_namespace("", DOCUMENTS, "x"))
    with pytest.raises(ArgumentError, match="document"):
        run(memory.correct("chunk", "x"))
    assert run(memory.get(["chunk"]))[0].text == "passage"


def test_write_policies_apply_to_corrections(store):
    memory = LongTermMemory(store, policies=[MinimumLength(3)])
    ident = run(memory.remember("long enough")).id
    with pytest.raises(RejectedText, match="too short"):
        run(memory.correct(ident, "x"))
    with pytest.raises(ArgumentError, match="text"):
        run(memory.correct(ident, " "))
    assert texts(memory) == ["long enough"]


def test_two_corrections_at_once_keep_both_versions(memory):
    ident = run(memory.remember("first")).id

    async def both():
        await asyncio.gather(memory.correct(ident, "second a"), memory.correct(ident, "second b"))

    run(both())
    versions = [version.text for version in run(memory.history(ident))]
    assert len(versions) == 3
    assert set(versions) == {"first", "second a", "second b"}


def test_a_correction_of_another_revision_than_expected_is_refused(memory):
    ident = run(memory.remember("first")).id
    (seen,) = run(memory.get([ident]))
    run(memory.correct(ident, "second", expect=seen.revision))
    with pytest.raises(RevisionConflict):
        run(memory.correct(ident, "third", expect=seen.revision))
    assert texts(memory) == ["second"]


# --- listing


def test_memories_are_listed_in_pages(memory):
    for i in range(5):
        run(memory.remember(Memory(f"m{i}", id=f"id{i}", tags=("even",) if i % 2 == 0 else ())))
    first = run(memory.list(limit=2))
    rest = run(memory.list(after=first[-1].id))
    assert [each.id for each in [*first, *rest]] == [f"id{i}" for i in range(5)]
    assert texts(memory, where={"tags": {"$contains": "even"}}) == ["m0", "m2", "m4"]
    assert run(memory.list(limit=0)) == []
    with pytest.raises(ArgumentError, match="limit"):
        run(memory.list(limit=-1))


def test_get_refuses_a_single_string_of_ids(memory):
    with pytest.raises(ArgumentError, match="ids"):
        run(memory.get("abc"))
    assert run(memory.get([])) == []


# --- opening, sharing, other stores


def test_an_embedder_of_another_space_is_refused_at_opening(store):
    store.set_space(Space("other/1", 4))
    with pytest.raises(EmbedderMismatch, match="toy/1"):
        LongTermMemory(store, embedder=Toy())


def test_an_unsupported_history_object_is_refused(store):
    with pytest.raises(ArgumentError, match="history"):
        LongTermMemory(store, history=object())


def test_a_given_history_object_stores_the_turns(store):
    history = InMemoryHistory()
    memory = LongTermMemory(store, history=history)
    run(memory.remember_turn("s", [Message.user("hello")]))
    assert [stored.message.text for stored in run(history.load("s"))] == ["hello"]


def test_two_memories_on_one_file_see_each_others_writes(tmp_path):
    each, other = (LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), embedder=Toy()) for _ in range(2))
    first = run(each.remember(Memory("from one", key="k")))
    assert run(other.remember(Memory("from one", key="k"))).id == first.id
    run(other.correct(first.id, "from the other"))
    assert texts(each) == ["from the other"]
    run(each.forget([first.id]))
    assert run(other.get([first.id])) == [None]
    run(each.close())
    run(other.close())


def test_concurrent_writes_with_one_idempotency_key_store_one_memory(tmp_path):
    memories = [LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}")) for _ in range(3)]

    async def all_at_once():
        return await asyncio.gather(*(memory.remember(Memory("same", key="k")) for memory in memories * 3))

    outcomes = sorted(report.outcome.value for report in run(all_at_once()))
    assert outcomes == ["duplicate"] * 8 + ["stored"]
    for memory in memories:
        run(memory.close())


def test_a_data_only_store_supports_remember_and_list_and_opening_warns_that_correct_is_refused(caplog):
    store = DataOnlyStore(open_store("numpy:", space=Space("toy/1", 4)))
    assert isinstance(store, VectorStore)
    memory = LongTermMemory(store, embedder=Toy())
    ident = run(memory.remember(Memory("a thing", key="k"))).id
    run(memory.remember_turn("s", [Message.user("said")]))
    assert len(run(memory.list())) == 2
    for call, name in ((memory.correct(ident, "x"), "correct"), (memory.forget([ident], grace=timedelta(1)), "forget")):
        with pytest.raises(UnsupportedError, match=name):
            run(call)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "DataOnlyStore has data alone" in warning
    assert "correct, end" in warning
    assert "database=" in warning


def test_forget_deletes_from_a_data_only_store_and_names_the_store_as_unreached():
    memory = LongTermMemory(DataOnlyStore(open_store("numpy:")))
    reports = run(memory.remember_turn("s", [Message.user("my cat is called Tom")]))
    ident = run(memory.remember("I like tea.")).id
    receipt = run(memory.forget([ident]))
    assert [copy.kind for copy in receipt.unreached] == ["store"]
    assert "cannot prove" in receipt.unreached[0].note
    assert read_receipt(receipt_text(receipt)) == receipt
    assert texts(memory) == ["my cat is called Tom"]
    assert run(memory.verify_forgotten(receipt)).gone
    assert run(memory.remember(Memory("I like tea.", id=ident))).reason == "forgotten"
    assert run(memory.forget(session="s")).messages == 1
    assert (run(memory.get([reports[0].id])), texts(memory)) == ([None], [])
    run(memory.remember("said", namespace="ana"))
    assert run(memory.forget_namespace("ana")).unreached
    assert run(memory.namespaces()) == {}


def test_complete_repeats_a_deletion_that_failed_in_a_data_only_store():
    store = DataOnlyStore(open_store("numpy:"))
    memory, delete = LongTermMemory(store), store.delete
    kept, ident = (run(memory.remember(text)).id for text in ("kept", "gone"))

    def lost(*_, **__):
        raise OSError("connection lost")

    store.delete = lost
    with pytest.raises(OSError, match="connection lost"):
        run(memory.forget([ident]))
    store.delete = delete
    run(memory.complete())
    assert [entry.id for entry in run(memory.list())] == [kept]


def test_an_idempotency_key_written_concurrently_to_a_data_only_store_is_a_duplicate():
    store = DataOnlyStore(open_store("numpy:"))
    memory, upsert = LongTermMemory(store), store.upsert

    def overtaken(entries, **options):
        store.upsert = upsert
        upsert([replace(entry, metadata={}) for entry in entries], namespace=options["namespace"])
        return upsert(entries, **options)

    store.upsert = overtaken
    report = run(memory.remember(Memory("same", key="k")))
    assert report.outcome is Outcome.DUPLICATE
    assert run(memory.count()) == 1


def test_an_embedder_needs_the_space_of_a_data_only_store():
    with pytest.raises(UnsupportedError, match="space"):
        LongTermMemory(DataOnlyStore(open_store("numpy:")), embedder=Toy())


def test_an_acknowledged_turn_is_in_the_files_that_a_kill_leaves_and_complete_remembers_the_rest(tmp_path):
    killed = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'killed.db'}"))
    run(killed.remember_turn("s", [Message.user("kept")]))
    killed.conversations.rows.append("s", [Message.user("not yet a memory")])
    for ending in ("", "-wal"):  # the files as a killed process leaves them
        shutil.copyfile(tmp_path / f"killed.db{ending}", tmp_path / f"m.db{ending}")
    run(killed.close())
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    assert texts(memory) == ["kept"]
    assert run(memory.complete()) == 1
    assert texts(memory) == ["kept", "not yet a memory"]
    assert memory.store.verify() == []
    run(memory.close())


# --- recalling


def found(memory, question, **options):
    return [hit.memory.text for hit in run(memory.recall(question, **options))]


def test_a_remembered_memory_is_recalled(memory):
    run(memory.remember_many(["I moved to Lisbon in May.", "My sister plays the cello.", "It rained all day."]))
    assert found(memory, "Who plays the cello?", k=1) == ["My sister plays the cello."]


def test_recall_without_an_embedder_searches_by_words_with_a_note(store):
    memory = LongTermMemory(store)
    run(memory.remember("My sister plays the cello."))
    result = run(memory.recall("cello"))
    assert [hit.memory.text for hit in result] == ["My sister plays the cello."]
    assert any("no embedder" in note for note in result.notes)


def test_an_embedder_that_fails_on_a_question_degrades_the_recall(memory):
    run(memory.remember("My sister plays the cello."))
    memory.embedder.fails = True
    result = run(memory.recall("cello"))
    assert [hit.memory.text for hit in result] == ["My sister plays the cello."]
    assert any("no answer" in note for note in result.notes)


def test_a_recall_with_an_embedded_query_has_no_notes(memory):
    run(memory.remember("My sister plays the cello."))
    assert run(memory.recall("cello")).notes == ()


def test_recall_searches_only_the_given_namespaces(memory):
    for name in ("a", "b", "c"):
        run(memory.remember(f"The cello of {name}", namespace=name))
    assert found(memory, "cello", namespace="a") == ["The cello of a"]
    assert sorted(found(memory, "cello", namespace=["a", "b"])) == ["The cello of a", "The cello of b"]
    assert found(memory, "cello") == []


def test_a_correction_is_recalled_and_the_replaced_version_is_not(memory):
    ident = run(memory.remember("My sister plays the cello.")).id
    run(memory.correct(ident, "My sister plays the violin."))
    assert found(memory, "What does my sister play?") == ["My sister plays the violin."]
    run(memory.forget([ident]))
    assert found(memory, "What does my sister play?") == []


def test_a_naive_time_in_a_question_is_taken_in_the_configured_zone(store):
    memory = LongTermMemory(store, zone=ZoneInfo("Asia/Tokyo"))
    start = datetime(2026, 1, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    run(memory.remember(Memory("The cello is mine.", valid_from=start)))
    assert found(memory, "cello", as_of=datetime.fromisoformat("2026-01-01T12:30")) == ["The cello is mine."]
    assert found(memory, "cello", as_of=datetime.fromisoformat("2026-01-01T11:30")) == []


def test_the_token_budget_of_recall_is_counted_by_the_given_counter(memory):
    run(memory.remember_many(["cello one", "cello two", "cello three"]))
    asked = run(memory.recall("cello", token_budget=4, counter=lambda text: len(text.split())))
    assert len(asked) == 2
    assert [left.reason for left in asked.left_out] != []
    counting = LongTermMemory(memory.store, counter=len)
    assert len(found(counting, "cello", token_budget=9)) == 1


def test_without_a_counter_the_token_budget_of_recall_is_counted_by_the_default_counter(store):
    memory = LongTermMemory(store)
    run(memory.remember("My sister plays the cello."))
    assert found(memory, "cello", token_budget=6) == ["My sister plays the cello."]
    assert found(memory, "cello", token_budget=5) == []
    assert run(memory.recall("cello", token_budget=6)).tokens_exact is True


@pytest.mark.parametrize(
    ("counter", "exact"), [(EstimatingCounter(), False), (TiktokenCounter("r50k_base"), True), (len, None)]
)
def test_a_recall_says_whether_its_token_budget_was_counted_exactly(memory, counter, exact):
    run(memory.remember("My sister plays the cello."))
    assert run(memory.recall("cello", token_budget=50, counter=counter)).tokens_exact is exact
    assert run(LongTermMemory(memory.store, counter=counter).recall("cello", token_budget=50)).tokens_exact is exact
    assert run(memory.recall("cello", counter=counter)).tokens_exact is None


def test_leaving_the_context_manager_closes_the_memory_and_its_store(store):
    async def inside():
        async with LongTermMemory(store) as memory:
            await memory.remember("one")

    run(inside())
    with pytest.raises(StoreClosed):
        store.count()


@pytest.mark.parametrize("bad", [{"question": " "}, {"question": "x", "k": -1}, {"question": "x", "tags": "tag"}])
def test_recall_refuses_invalid_arguments(memory, bad):
    with pytest.raises(ArgumentError):
        run(memory.recall(**bad))
