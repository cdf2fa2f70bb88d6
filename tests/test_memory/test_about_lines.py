"""The line that says what a memory is about: searched and embedded with its text, changed and erased with it.

Inner parts, on no face: ``tellback.memory.codec``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    EmbeddingSettings,
    HashingEmbedder,
    LongTermMemory,
    Memory,
    NoSecrets,
    NotTrusted,
    open_memory,
    run_sync,
)
from tellback.memory.codec import embedding_text
from tellback.memory.internals import CONVERSATION, store_namespace
from tellback.vectorstore import LifecycleStore
from tests.support.clocks import ManualClock
from tests.support.forgetting import ToyEmbedder, vector_of

LANE = store_namespace("", CONVERSATION)
KEY = Memory("Anna has it now.", about="spare house key: who keeps it")


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, embedder=ToyEmbedder(), clock=ManualClock())


def remembered(memory: LongTermMemory, item: Memory = KEY) -> str:
    return run_sync(memory.remember(item)).id


def get(memory: LongTermMemory, id: str) -> Memory:
    (found,) = run_sync(memory.get([id]))
    assert found is not None
    return found


def line(memory: LongTermMemory, id: str) -> tuple[str, str]:
    found = get(memory, id)
    return found.about, found.about_by


def vector_is_of(memory: LongTermMemory, id: str, text: str) -> bool:
    """Return whether the vector is that of *text*; of line and text, and of the line, where "\\x1f" stands between."""
    line, mark, rest = text.partition("\x1f")
    mean = vector_of(f"{line}: {rest}") + vector_of(line) if mark else vector_of(text)
    (entry,) = memory.store.get([id], namespace=LANE)
    return (
        entry is not None
        and entry.vector is not None
        and bool(abs(entry.vector - mean / np.linalg.norm(mean)).max() < 1e-6)
    )


def test_the_line_is_embedded_before_the_text_and_is_no_part_of_it(memory):
    id = remembered(memory)
    assert get(memory, id).text == KEY.text
    assert vector_is_of(memory, id, "spare house key: who keeps it\x1fAnna has it now.")


def test_a_memory_without_a_line_is_embedded_as_it_is_and_has_no_author_of_one(memory):
    id = remembered(memory, Memory("Anna has it now.", about_by="model"))
    assert line(memory, id) == ("", "")
    assert vector_is_of(memory, id, "Anna has it now.")


def test_a_line_that_is_given_is_its_callers_unless_somebody_else_is_named(memory):
    assert line(memory, remembered(memory))[1] == "caller"
    assert line(memory, remembered(memory, Memory("Max has it.", about="key", about_by="head")))[1] == "head"


def test_a_memory_is_found_by_the_words_of_its_line_alone(store):
    memory = LongTermMemory(store)
    remembered(memory, Memory("The plumber comes on Friday."))
    id = remembered(memory)
    assert run_sync(memory.recall("Who keeps the spare house key?"))[0].memory.id == id


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"about": "two\nlines"}, "item.about"),
        ({"about": "x" * 201}, "item.about"),
        ({"about": "a line", "about_by": "somebody"}, "item.about_by"),
        ({"about": 7}, "item.about"),
    ],
)
def test_a_wrong_line_is_refused_with_its_name_and_what_would_be_right(memory, fields, argument):
    with pytest.raises(ArgumentError, match=f"^{argument}: .* needed"):
        run_sync(memory.remember(Memory("Anna has it.", **fields)))


def test_a_secret_in_a_line_is_taken_out_before_it_is_stored_or_embedded(store):
    memory = LongTermMemory(store, embedder=ToyEmbedder(), policies=[NoSecrets()])
    id = remembered(memory, Memory("Anna knows it.", about="door: PIN is 4821"))
    assert "4821" not in get(memory, id).about
    assert vector_is_of(memory, id, embedding_text(get(memory, id)))


def test_correcting_the_text_drops_a_models_line_and_keeps_a_callers(memory):
    by_model = remembered(memory, Memory("Anna has it.", about="spare key", about_by="model"))
    by_caller = remembered(memory)
    for id in (by_model, by_caller):
        run_sync(memory.correct(id, "Bruno has it now."))
    assert line(memory, by_model) == ("", "")
    assert line(memory, by_caller) == (KEY.about, "caller")
    assert vector_is_of(memory, by_model, "Bruno has it now.")


def test_a_line_that_is_given_with_a_correction_is_the_memorys(memory):
    id = remembered(memory, Memory("Anna has it.", about="spare key", about_by="model"))
    run_sync(memory.correct(id, "The car is red.", about="the car: colour"))
    assert line(memory, id) == ("the car: colour", "caller")


def test_undoing_a_correction_brings_the_line_back_and_a_vector_of_it(memory):
    id = remembered(memory, Memory("Anna has it.", about="spare key", about_by="model"))
    report = run_sync(memory.correct(id, "Bruno has it."))
    run_sync(memory.undo(report.operation))
    assert line(memory, id) == ("spare key", "model")
    assert vector_is_of(memory, id, "spare key\x1fAnna has it.")


def test_the_same_note_again_gives_the_memory_the_line_that_it_lacked(memory):
    id = remembered(memory, Memory("Anna has it now."))
    assert remembered(memory) == id
    assert line(memory, id) == (KEY.about, "caller")
    assert vector_is_of(memory, id, embedding_text(KEY))
    remembered(memory, Memory("Anna has it now.", about="a key", about_by="head"))
    assert line(memory, id) == (KEY.about, "caller")


def test_what_waited_for_its_vector_and_what_is_embedded_anew_are_embedded_with_their_line(store):
    first = LongTermMemory(store)
    id = remembered(first)
    memory = LongTermMemory(store, embedder=ToyEmbedder())
    run_sync(memory.flush())
    assert vector_is_of(memory, id, embedding_text(KEY))
    other = HashingEmbedder(dimension=16)
    run_sync(memory.reembed(other))
    (entry,) = store.get([id], namespace=LANE)
    mean = run_sync(other.embed([f"{KEY.about}: {KEY.text}", KEY.about])).sum(axis=0)
    assert entry.vector.tolist() == pytest.approx((mean / np.linalg.norm(mean)).tolist(), abs=1e-6)


def test_forgetting_leaves_no_byte_of_a_line_nor_of_those_that_it_had(tmp_path):
    """The bytes of the file, its write-ahead log, its caches and the log of operations are looked through."""
    path = tmp_path / "m.db"
    lines = ["quokkaberry preserves: shelf", "zanzibarite cellar: which shelf"]
    memory = open_memory(path, embedder=ToyEmbedder())
    remembered(memory, Memory("The plumber comes on Friday."))
    id = remembered(memory, Memory("On the third one.", about=lines[0]))
    run_sync(memory.recall("Where are the quokkaberry preserves?"))
    run_sync(memory.correct(id, "On the fourth one.", about=lines[1]))
    run_sync(memory.recall("Which shelf in the zanzibarite cellar?"))
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert all(line.encode() in held for line in lines)
    receipt = run_sync(memory.forget([id]))
    assert run_sync(memory.verify_forgotten(receipt, lines)).gone
    run_sync(memory.close())
    held = b"".join(file.read_bytes().lower() for file in tmp_path.rglob("*") if file.is_file())
    assert not [word for word in (b"quokkab", b"zanzibar") if word in held]


def test_a_line_that_repeats_a_forgotten_text_is_forgotten_with_it(memory):
    told = remembered(memory, Memory("the locker code is 44173921"))
    id = remembered(memory, Memory("Somebody told me.", about="the locker code is 44173921"))
    run_sync(memory.forget([told]))
    assert run_sync(memory.get([id])) == [None]


def test_export_import_and_notes_carry_the_line_with_its_author(memory, tmp_path):
    id = remembered(memory, Memory("Anna has it.", about="spare key", about_by="head"))
    run_sync(memory.export(tmp_path / "a.jsonl"))
    run_sync(memory.export_notes(tmp_path / "notes"))
    (note,) = (tmp_path / "notes").iterdir()
    assert "about: spare key\nabout_by: head\n" in note.read_text()
    other = open_memory(tmp_path / "other.db", embedder=ToyEmbedder())
    run_sync(other.import_(tmp_path / "a.jsonl"))
    assert line(other, id) == ("spare key", "head")
    run_sync(other.flush())
    assert vector_is_of(other, id, "spare key\x1fAnna has it.")
    run_sync(other.close())


def test_a_line_is_a_field_that_can_be_filtered_by(memory):
    remembered(memory)
    remembered(memory, Memory("Max said so.", occurred_at=datetime(2026, 1, 1, tzinfo=UTC)))
    page = run_sync(memory.list(where={"about_by": "caller"}))
    assert [found.about for found in page] == [KEY.about]


def test_describing_memories_is_one_operation_that_embeds_them_anew_and_can_be_taken_back(memory):
    first, second = (remembered(memory, Memory(text)) for text in ("Anna has it.", "It is blue."))
    reports = run_sync(memory.describe({first: "spare key: who keeps it", second: "the car: colour"}))
    assert {report.operation for report in reports} == {run_sync(memory.operations(limit=1))[0].id}
    assert line(memory, second) == ("the car: colour", "caller")
    assert vector_is_of(memory, second, "the car: colour\x1fIt is blue.")
    run_sync(memory.undo(reports[0].operation))
    assert line(memory, second) == ("", "")
    assert vector_is_of(memory, second, "It is blue.")


def test_a_worse_author_never_overwrites_the_line_of_a_better_one(memory):
    id = remembered(memory)
    for author, kept in (("head", KEY.about), ("model", KEY.about), ("caller", "by caller")):
        (report,) = run_sync(memory.describe({id: f"by {author}"}, by=author))
        assert report.stored is (author == "caller")
        assert line(memory, id)[0] == kept
    assert "stays" in run_sync(memory.describe({id: "x"}, by="model"))[0].reason


def test_an_empty_line_takes_the_line_away(memory):
    id = remembered(memory)
    run_sync(memory.describe({id: ""}))
    assert line(memory, id) == ("", "caller")
    assert run_sync(memory.describe({id: ""}))[0].outcome == "duplicate"
    assert run_sync(memory.describe({id: "spare key"}, by="model"))[0].outcome == "rejected"
    assert run_sync(memory.stats()).lines == {}


def test_a_line_written_in_the_background_hinders_no_undo_and_goes_with_its_memory(memory):
    stored = run_sync(memory.remember("Anna has it."))
    run_sync(memory.describe({stored.id: "spare key: who keeps it"}, by="model", actor="system"))
    undoing = run_sync(memory.undo(stored.operation))
    assert run_sync(memory.get([stored.id])) == [None]
    run_sync(memory.undo(undoing.id))
    assert line(memory, stored.id) == ("spare key: who keeps it", "model")


def test_a_described_memory_waits_for_its_vector_where_no_embedder_is_and_is_found_by_its_line(store):
    id = remembered(LongTermMemory(store, embedder=ToyEmbedder()), Memory("Anna has it."))
    memory = LongTermMemory(store)
    (report,) = run_sync(memory.describe({id: "spare house key"}))
    assert report.deferred == "no embedder is configured"
    assert run_sync(memory.recall("Where is the spare house key?"))[0].memory.id == id
    assert run_sync(memory.pending()) == 1


def test_who_is_trusted_less_than_a_memory_gives_it_no_line(memory):
    id = remembered(memory, Memory("Anna has it."))
    with pytest.raises(NotTrusted):
        run_sync(memory.describe({id: "spare key"}, actor="tool"))


def test_a_secret_in_a_described_line_is_taken_out(store):
    memory = LongTermMemory(store, policies=[NoSecrets()])
    id = remembered(memory, Memory("Anna knows it."))
    (report,) = run_sync(memory.describe({id: "door: PIN is 4821"}))
    assert (report.outcome, report.spans) == ("redacted", 1)
    assert "4821" not in get(memory, id).about


def test_lines_that_were_replaced_leave_no_byte_and_no_cached_vector_once_their_memory_is_forgotten(tmp_path):
    settings = EmbeddingSettings(cache_bytes=1_000_000)
    memory = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), embedding_settings=settings)
    run_sync(memory.forget([remembered(memory, Memory("The plumber comes."))]))
    probes = memory.embedding.kept()
    id = remembered(memory, Memory("On the third shelf."))
    for about in ("quokkaberry preserves", "zanzibarite cellar"):
        run_sync(memory.describe({id: about}))
    run_sync(memory.forget([id]))
    kept = memory.embedding.kept()
    run_sync(memory.close())
    held = b"".join(file.read_bytes().lower() for file in tmp_path.rglob("*") if file.is_file())
    assert not [word for word in (b"quokkab", b"zanzibar") if word in held]
    assert kept == probes


SPRING, SUMMER = datetime(2025, 4, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)
KEEPER = "Spare house key:  who keeps it"


def answers(memory: LongTermMemory, question: str) -> list[tuple[str, str | None]]:
    """Return text and newer statement of each hit."""
    hits = run_sync(memory.recall(question))
    text_of = {hit.memory.id: hit.memory.text for hit in hits}
    return [(hit.memory.text, hit.outdated_by and text_of[hit.outdated_by]) for hit in hits]


def kept_by(memory: LongTermMemory, text: str, at: datetime, about: str = KEEPER, **fields: Any) -> None:
    remembered(memory, Memory(text, about=about, occurred_at=at, **fields))


def test_the_newest_of_one_topic_leads_a_question_about_now_and_the_older_ones_are_outdated_by_it(memory):
    kept_by(memory, "Anna keeps the spare key of the house.", SPRING)
    kept_by(memory, "Bruno got it.", SUMMER, about="spare house key: who keeps it")
    assert answers(memory, "Who keeps the spare key of the house?") == [
        ("Bruno got it.", None),
        ("Anna keeps the spare key of the house.", "Bruno got it."),
    ]


@pytest.mark.parametrize(
    ("newer", "question"),
    [
        ({"text": "Bruno got it."}, "Who kept the spare key of the house in May 2025?"),
        ({"text": "Bruno might keep it from next year on."}, "Who keeps the spare key of the house?"),
        ({"text": "Bruno got it.", "about": "spare shed key: who keeps it"}, "Who keeps the spare key of the house?"),
    ],
    ids=["asked about then", "a plan", "another topic"],
)
def test_the_newest_does_not_lead_what_is_asked_of_another_time_or_planned_or_of_another_topic(memory, newer, question):
    kept_by(memory, "Anna keeps the spare key of the house.", SPRING)
    kept_by(memory, at=SUMMER, **newer)
    assert [outdated_by for _, outdated_by in answers(memory, question)] == [None, None]


def test_a_newer_memory_that_is_trusted_less_leads_none_of_its_topic_and_is_marked(memory):
    kept_by(memory, "Anna keeps the spare key of the house.", SPRING)
    kept_by(memory, "Bruno got it.", SUMMER, trust="tool", actor="tool")
    first, second = run_sync(memory.recall("Who keeps the spare key of the house?"))
    assert (first.memory.text, first.outdated_by) == ("Anna keeps the spare key of the house.", None)
    assert second.later_than == first.memory.id


def test_the_topic_of_a_memory_is_the_same_from_the_cached_index(tmp_path):
    for text, at in (("Anna keeps the spare key of the house.", SPRING), ("Bruno got it.", SUMMER)):
        memory = open_memory(tmp_path / "m.db")
        kept_by(memory, text, at)
        found = answers(memory, "Who keeps the spare key of the house?")
        run_sync(memory.close())
    memory = open_memory(tmp_path / "m.db")
    assert answers(memory, "Who keeps the spare key of the house?") == found
    assert found[0] == ("Bruno got it.", None)
    run_sync(memory.close())
