"""Export and import: complete, always the same bytes, all of it or nothing.

Inner parts, on no face: ``tellback.memory.codec``, ``tellback.memory.export_import.codec``,
``tellback.memory.export_import``, ``tellback.vectorstore.engines``, ``tellback.vectorstore.persisted_names``.
"""

import concurrent.futures
import gc
import gzip
import json
import os
import shutil
import stat
import tracemalloc
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tellback.memory import (
    Action,
    ArgumentError,
    DocumentBlock,
    DuplicateKey,
    ExtractedFact,
    Extractor,
    Judge,
    KnowledgeBase,
    Memory,
    Message,
    MinimumLength,
    NearDuplicates,
    NoSecrets,
    PolicyDecision,
    Retention,
    TextBlock,
    ToolResultBlock,
    Trust,
    UnreadableExport,
    entry_store,
    open_memory,
    run_sync,
)
from tellback.memory.codec import to_metadata
from tellback.memory.export_import import reader
from tellback.memory.export_import.codec import version_fields
from tellback.memory.internals import ARCHIVE, CONVERSATION, Outcome, store_namespace, to_entry
from tellback.vectorstore.engines import base, table_store
from tellback.vectorstore.persisted_names import EXPORT_FORMAT
from tests.support.slow import first_fast
from tests.test_memory.exporting import Ticking, Toy, exported, filled, items, run, sample, sealed


@pytest.fixture
def opened(tmp_path):
    memories = []

    def open_one(name="m.db", **options):
        memories.append(open_memory(tmp_path / name, **{"clock": Ticking(), "embedder": Toy(), **options}))
        return memories[-1]

    yield open_one
    for each in memories:
        run(each.close())


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory):
    """A folder with a filled memory, and the clock by which it was filled."""
    folder, clock = tmp_path_factory.mktemp("filled"), Ticking()
    memory = open_memory(folder / "m.db", clock=clock, embedder=Toy())
    filled(memory, folder)
    run(memory.close())
    return folder, clock


@pytest.fixture
def memory(opened, tmp_path, filled_folder):
    """A memory with something of everything in it."""
    folder, clock = filled_folder
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return opened("m.db", clock=copy(clock))


def everything(memory, namespace=""):
    """Return every readable content of a namespace, without revisions, which belong to the file."""
    lanes = [CONVERSATION, "documents/guide"]
    entries = {}
    for lane in lanes:
        for entry in memory.store.scan(namespace=store_namespace(namespace, lane)):
            metadata = {
                key: value for key, value in entry.metadata.items() if key not in ("supersedes", "derived_from")
            }
            vector = None if entry.vector is None else entry.vector.tobytes()
            entries[lane, entry.id] = (entry.text, entry.context, metadata, vector, entry.no_vector)
    histories = {
        id: [version.text for version in run(memory.history(id, namespace=namespace))]
        for lane, id in entries
        if lane == CONVERSATION
    }
    sessions = {
        info.session: [
            (stored.sequence, stored.message, stored.at, stored.memory)
            for stored in run(memory.conversations.load(info.session, namespace=namespace))
        ]
        for info in run(memory.conversations.sessions(namespace=namespace))
    }
    documents = run(KnowledgeBase(memory, collection="guide", namespace=namespace).documents())
    return entries, histories, sessions, documents


# --- round trip


def test_export_import_and_export_again_give_the_same_bytes(memory, opened, tmp_path):
    other = opened("n.db")
    first = exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert {line.outcome for line in report.lines} == {Outcome.STORED}
    assert report.left == {}
    assert exported(other, tmp_path / "b.jsonl") == first
    assert everything(other) == everything(memory)
    assert other.store.verify() == []


def test_every_field_of_a_memory_survives_export_and_import_with_every_value_class_in_it(opened, tmp_path):
    """The fields are found by walking the classes, so that a new one is exported, or fails here."""
    memory, other = opened("m.db"), opened("n.db")
    known = run(memory.remember("I live in Lisbon.")).id
    given_by_the_memory = {"id", "recorded_at", "revision", "operation", "supersedes"} | set(version_fields(Memory("")))
    full = sample(Memory)
    full = replace(full, **{name: getattr(Memory(""), name) for name in given_by_the_memory})
    full = replace(full, derived_from=(known,), replaces=(known,), source=replace(full.source, document=None))
    id = run(memory.remember(full)).id
    stored = run(memory.get([id]))[0]
    assert replace(stored, **{name: getattr(full, name) for name in given_by_the_memory}) == full
    run(memory.remember(replace(full, id="", key=None, source=None, replaces=())))
    run(memory.remember("Said twice."))
    run(memory.remember("Said twice."))
    run(memory.export(tmp_path / "a.jsonl"))
    assert run(other.import_(tmp_path / "a.jsonl", trust="user")).left == {}
    assert everything(other) == everything(memory)
    assert replace(run(other.get([id]))[0], revision=0) == replace(stored, revision=0)
    assert other.store.verify() == []


def test_two_exports_of_the_same_memory_are_equal_in_bytes(memory, tmp_path):
    assert exported(memory, tmp_path / "a.jsonl") == exported(memory, tmp_path / "b.jsonl")


def test_foreign_metadata_and_the_reason_of_a_missing_vector_survive_export_and_import(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    stated = Memory("…", id="x", recorded_at=datetime(2026, 1, 1, tzinfo=UTC))
    entry = replace(to_entry(stated, no_vector="nothing to embed"), metadata={**to_metadata(stated), "shelf": [1, "a"]})
    memory.store.upsert([entry], namespace=store_namespace("", CONVERSATION))
    first = exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    (present,) = other.store.get(["x"], namespace=store_namespace("", CONVERSATION))
    assert (present.metadata["shelf"], present.no_vector, report.pending) == ([1, "a"], "nothing to embed", 0)
    assert exported(other, tmp_path / "b.jsonl") == first


def test_export_lines_stand_in_the_documented_order(memory, tmp_path):
    run(KnowledgeBase(memory, collection="another").ingest(tmp_path / "notes"))
    lines = items(exported(memory, tmp_path / "a.jsonl"))[1:]
    kinds = ["memory", "passage", "version", "message", "session", "operation", "document", "forgotten"]
    assert [line["type"] for line in lines] == sorted((line["type"] for line in lines), key=kinds.index)
    by = {
        "memory": ("id",),
        "passage": ("collection", "id"),
        "version": ("id", "version"),
        "message": ("session", "sequence"),
        "document": ("collection", "source"),
        "forgotten": ("id",),
    }
    for kind, names in by.items():
        found = [tuple(line[name] for name in names) for line in lines if line["type"] == kind]
        assert found == sorted(found)
        assert found
    assert {line["collection"] for line in lines if line["type"] == "passage"} == {"another", "guide"}
    done = [line for line in lines if line["type"] == "operation"]
    assert [each["at"] for each in done] == sorted(each["at"] for each in done)
    assert not {"export", "import"} & {each["kind"] for each in done}


def test_an_export_is_a_snapshot_unaffected_by_concurrent_writes(opened, tmp_path):
    memory = opened()
    run(memory.remember_many([Memory(f"thing {n}", id=f"{n:03}") for n in range(300)]))
    second = open_memory(tmp_path / "m.db", embedder=Toy(), clock=Ticking())

    def write(done):
        if done == 256:
            run_sync(second.remember_turn("later", [Message.user("said meanwhile")]))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run(memory.export(tmp_path / "a.jsonl", on_progress=lambda done: pool.submit(write, done).result()))
    run_sync(second.close())
    assert b"said meanwhile" not in (tmp_path / "a.jsonl").read_bytes()
    assert len(items((tmp_path / "a.jsonl").read_bytes())) == 1 + 300 + 2  # with the operations that stored them


def test_the_manifest_of_an_export_has_the_counts_and_the_hash_of_its_lines(memory, tmp_path):
    report = run(memory.export(tmp_path / "a.jsonl"))
    manifest, *rest = items((tmp_path / "a.jsonl").read_bytes())
    found = {kind: sum(each["type"] == kind for each in rest) for kind in manifest["counts"]}
    assert found == manifest["counts"] == report.counts
    assert all(found[kind] for kind in found)
    assert (manifest["format"], manifest["version"], manifest["hash"]) == (EXPORT_FORMAT, 1, report.hash)
    assert manifest["space"] == {"fingerprint": "toy/1", "dimension": 8, "metric": "cosine"}
    assert manifest["selection"] is None


def test_an_export_has_no_text_of_forgotten_memories(memory, tmp_path):
    assert b"zebra" not in exported(memory, tmp_path / "a.jsonl")


def test_an_empty_memory_can_be_exported_and_imported(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    exported(memory, tmp_path / "a.jsonl")
    assert run(other.import_(tmp_path / "a.jsonl")).lines == ()


def test_corrections_undo_and_message_numbers_continue_after_an_import(memory, opened, tmp_path):
    other = opened("n.db")
    (id,) = [item.id for item in run(memory.list(tags=["home"]))]
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    run(other.correct(id, "I live in Faro."))
    run(other.correct(id, "I live in Beja."))
    texts = ["Beja", "Faro", "Coimbra", "Porto", "Lisbon"]
    assert [version.text for version in run(other.history(id))] == [f"I live in {town}." for town in texts]
    corrected = [each for each in run(other.operations(memory=id)) if each.kind == "correct"]
    run(other.undo(corrected[0].id))
    assert run(other.get([id]))[0].text == "I live in Faro."
    (sequence,) = run(other.conversations.append("session", [Message.user("and on")]))
    assert sequence == 5


def test_sequence_numbers_of_deleted_messages_are_not_reused_after_an_import(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.conversations.append("s", [Message.user("one"), Message.user("two")]))
    run(memory.conversations.clear("s"))
    run(memory.conversations.append("t", [Message.user("three"), Message.user("four")]))
    run(memory.conversations.delete("t", [1]))
    first = exported(memory, tmp_path / "a.jsonl")
    assert [each for each in items(first) if each["type"] == "session"] == [
        {"type": "session", "session": "s", "next": 3}
    ]
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert (report.taken["session"], run(other.import_(tmp_path / "a.jsonl", trust="user")).left["session"]) == (1, 1)
    assert exported(other, tmp_path / "b.jsonl") == first
    assert run(other.conversations.append("s", [Message.user("five")])) == [3]
    assert run(other.conversations.append("t", [Message.user("six")])) == [3]


def test_unremembered_messages_hidden_by_retention_are_exported_and_remembered_on_import(opened, tmp_path):
    memory = opened("m.db", retention=Retention(messages=1, unremembered="keep"))
    run(memory.conversations.append("s", [Message.user("My sister is called Ida.")]))
    run(memory.conversations.append("s", [Message.user("How are you?")]))
    assert len(run(memory.conversations.load("s"))) == 1
    exported(memory, tmp_path / "a.jsonl")
    other = opened("n.db")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    run(other.complete())
    assert texts(other) == ["How are you?", "My sister is called Ida."]


def test_an_export_file_is_readable_by_its_owner_alone_and_overwrites_nothing(opened, tmp_path):
    memory = opened()
    umask = os.umask(0)
    try:
        exported(memory, tmp_path / "a.jsonl")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600
    for present in ("a.jsonl", "m.db"):
        with pytest.raises(ArgumentError, match="nothing is yet"):
            run(memory.export(tmp_path / present))


def test_a_failing_export_leaves_no_file(memory, tmp_path):

    def fail(count):
        raise KeyboardInterrupt

    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        run(memory.export(tmp_path / "a.jsonl", on_progress=fail))
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("m.db")] == [
        name for name in before if not name.startswith("m.db")
    ]


# --- vectors


def test_an_import_takes_vectors_of_its_own_space_and_embeds_texts_of_another_space_anew(opened, tmp_path):
    memory, same, other = opened("m.db"), opened("n.db"), opened("o.db", embedder=Toy("toy/2"))
    run(memory.remember("a fact"))
    exported(memory, tmp_path / "a.jsonl")
    assert run(same.import_(tmp_path / "a.jsonl")).pending == 0
    assert run(same.pending()) == 0
    run(other.remember("it has a space"))
    report = run(other.import_(tmp_path / "a.jsonl"))
    assert report.pending == 1
    assert any("made anew" in note for note in report.notes)
    assert run(other.pending()) == 1
    assert run(other.flush()).embedded == 1


def test_an_import_takes_no_vectors_after_a_space_migration_between_batches(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_BATCH", 5)
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember_many([Memory(f"thing {n}", id=f"{n:02}") for n in range(20)]))
    exported(memory, tmp_path / "a.jsonl")
    run(other.remember(Memory("here", id="here")))

    def switch(done, total):
        if done > 5 and other.store.space.fingerprint == "toy/1":  # the log comes first, then five memories
            run_sync(other.reembed(Toy("toy/2")))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        report = run(other.import_(tmp_path / "a.jsonl", on_progress=lambda *at: pool.submit(switch, *at).result()))
    assert [line.pending for line in report.lines] == [False] * 5 + [True] * 15


def test_memories_of_an_export_without_vectors_are_pending_after_the_import(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember("a fact"))
    data = exported(memory, tmp_path / "a.jsonl", vectors=False)
    assert b'"vector":' not in data
    assert (items(data)[0]["space"], items(data)[0]["probes"]) == (None, None)
    report = run(other.import_(tmp_path / "a.jsonl"))
    assert (report.pending, report.notes != ()) == (1, True)


class Changed(Toy):
    """Another model under the same name."""

    async def embed(self, texts, kind="document"):
        return -await super().embed(texts, kind)


class Away(Toy):
    """Embedder that fails."""

    async def embed(self, texts, kind="document"):
        raise OSError("away")


@pytest.mark.parametrize("used", [True, False])
def test_an_import_takes_no_vectors_of_a_model_changed_under_the_same_name(opened, tmp_path, used):
    memory, other = opened("m.db"), opened("n.db", embedder=Changed())
    run(memory.remember("a fact"))
    assert len(items(exported(memory, tmp_path / "a.jsonl"))[0]["probes"]) == 3
    if used:
        run(other.remember("it knows its own model"))
    report = run(other.import_(tmp_path / "a.jsonl"))
    assert report.pending == 1
    assert any("another model of the name toy/1" in note for note in report.notes)


def test_an_import_that_takes_vectors_records_the_probes_of_their_model(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db", embedder=Away())
    run(memory.remember("a fact"))
    first = exported(memory, tmp_path / "a.jsonl")
    assert run(other.import_(tmp_path / "a.jsonl", trust="user")).pending == 0
    assert exported(other, tmp_path / "b.jsonl") == first
    run(other.close())
    other = opened("n.db", embedder=Changed())
    assert "changed" in run(other.remember("more")).deferred
    assert run(opened("n.db").remember("still more")).deferred is None


def test_an_untrusted_import_does_not_record_unverified_embedder_probes(opened, tmp_path):
    memory, other = opened("m.db", embedder=Changed()), opened("n.db", embedder=Away())
    run(memory.remember("a fact"))
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl"))
    assert other.embedding.probes.get("toy/1") is None


# --- selections


def test_tags_scopes_and_filters_limit_an_export_to_their_memories_and_versions(memory, tmp_path):
    (id,) = [item.id for item in run(memory.list(tags=["home"]))]
    chosen = items(exported(memory, tmp_path / "a.jsonl", tags=["home"]))
    assert chosen[0]["selection"] == {"where": None, "scopes": None, "tags": ["home"]}
    assert {each["id"] for each in chosen[1:] if each["type"] in ("memory", "version")} == {id}
    assert [each["version"] for each in chosen if each["type"] == "version"] == [1, 2]
    done = [each["changes"] for each in chosen if each["type"] == "operation"]
    assert {change["id"] for changes in done for change in changes} == {id}
    assert all(done)
    assert not any(each["type"] in ("message", "document", "forgotten") for each in chosen)
    assert len(items(exported(memory, tmp_path / "b.jsonl", scopes={"project": "x"}))) > 1
    stated = items(exported(memory, tmp_path / "c.jsonl", where={"session": "session"}))
    assert [each["sequence"] for each in stated if each["type"] == "message"] == [1, 3, 4]  # the call is no memory


# --- modes


def test_a_merging_import_adds_memories_and_changes_no_existing_memory(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    for each in (memory, other):
        run(each.remember(Memory("the same", id="same")))
    run(memory.remember(Memory("said there", id="other")))
    run(other.remember(Memory("said here", id="other")))
    run(memory.remember(Memory("new", id="new")))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", mode="merge"))
    assert [(line.id, line.outcome, line.reason) for line in report.lines] == [
        ("new", Outcome.STORED, "trust lowered to document"),
        ("other", Outcome.DUPLICATE, "what is here was said otherwise, and stays as it is"),
        ("same", Outcome.DUPLICATE, "known already"),
    ]
    assert run(other.get(["other"]))[0].text == "said here"
    again = run(other.import_(tmp_path / "a.jsonl", mode="merge"))
    assert {line.outcome for line in again.lines} == {Outcome.DUPLICATE}
    assert again.operation is None


def test_an_upserting_import_corrects_a_memory_and_keeps_its_old_version(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember(Memory("said there", id="x")))
    run(other.remember(Memory("said here", id="x")))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", mode="upsert", trust=Trust.USER))
    assert [line.reason for line in report.lines] == ["corrected by the file"]
    assert [version.text for version in run(other.history("x"))] == ["said there", "said here"]
    run(other.undo(report.operation))
    assert run(other.get(["x"]))[0].text == "said here"


def test_an_upserting_import_corrects_a_memory_that_differs_in_any_field(opened, tmp_path):
    day = datetime(2026, 5, 1, tzinfo=UTC)
    values = {
        "text": "new",
        "kind": "event",
        "caption": "a gate",
        "tags": ("a",),
        "importance": 0.5,
        "metadata": {"a": 1},
    }
    values |= {"valid_from": day, "valid_to": day, "expires_at": day}
    memory, other = opened("m.db"), opened("n.db")
    for field, value in values.items():
        run(memory.remember(Memory(**{"text": "old", "id": field, field: value})))
        run(other.remember(Memory("old", id=field)))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", mode="upsert", trust="user"))
    assert {line.id: line.reason for line in report.lines} == dict.fromkeys(values, "corrected by the file")
    for field, value in values.items():
        assert getattr(run(other.get([field]))[0], field) == value
    assert run(other.import_(tmp_path / "a.jsonl", mode="upsert", trust="user")).operation is None


@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_a_dry_run_of_an_import_reports_the_same_and_changes_nothing(memory, opened, tmp_path, mode):
    other = opened("n.db")
    exported(memory, tmp_path / "a.jsonl")
    filled(other, tmp_path)
    run(other.remember("only here"))
    before = exported(other, tmp_path / "before.jsonl")
    planned = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user", dry_run=True))
    assert exported(other, tmp_path / "after.jsonl") == before
    done = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user"))
    assert planned.dry_run
    assert planned.operation is None
    assert planned.lines == done.lines
    assert (planned.taken, planned.left) == (done.taken, done.left)


@pytest.mark.parametrize("mode", first_fast(["merge", "upsert"]))
def test_a_dry_run_of_an_import_leaves_an_empty_memory_empty(memory, opened, tmp_path, mode):
    other = opened("n.db")
    exported(memory, tmp_path / "a.jsonl")
    before = exported(other, tmp_path / "before.jsonl")
    planned = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user", dry_run=True))
    assert exported(other, tmp_path / "after.jsonl") == before
    assert planned.lines == run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user")).lines


@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_a_dry_run_of_an_import_foresees_forgotten_memories_and_removed_documents(opened, tmp_path, mode):
    memory = opened()
    run(memory.remember_many([Memory("gone here", id="here"), Memory("gone there", id="there")]))
    filled(memory, tmp_path)
    run(KnowledgeBase(memory, collection="guide", namespace="b").ingest(tmp_path / "notes"))
    run(memory.remember(Memory("still here", id="there"), namespace="b"))
    run(memory.forget(["there"]))
    exported(memory, tmp_path / "a.jsonl")
    run(memory.forget(["here"]))
    run(KnowledgeBase(memory, collection="guide").remove("tower.md"))
    for namespace in ("", "b"):
        planned = run(memory.import_(tmp_path / "a.jsonl", mode=mode, namespace=namespace, trust="user", dry_run=True))
        done = run(memory.import_(tmp_path / "a.jsonl", mode=mode, namespace=namespace, trust="user"))
        assert (planned.lines, planned.taken, planned.left) == (done.lines, done.taken, done.left)


def test_an_unknown_import_mode_is_refused(opened, tmp_path):
    with pytest.raises(ArgumentError, match="mode"):
        run(opened().import_(tmp_path / "a.jsonl", mode="overwrite"))


# --- forgotten items and trust


@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_an_import_does_not_restore_memories_and_messages_forgotten_since_the_export(opened, tmp_path, mode):
    memory = opened()
    secret = "the code is 44173921-zebra"
    result = Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text=secret),))])
    first, *_ = run(memory.remember_turn("s", [Message.user(secret), result, Message.user("hello")]))
    run(memory.correct(first.id, "a better text"))
    exported(memory, tmp_path / "a.jsonl")
    run(memory.forget([first.id]))
    report = run(memory.import_(tmp_path / "a.jsonl", mode=mode))
    assert report.trusted
    assert [line.reason for line in report.lines if line.id == first.id] == ["forgotten"]
    assert [stored.message.text for stored in run(memory.conversations.load("s"))] == ["hello"]
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
    assert b"zebra" not in exported(memory, tmp_path / "b.jsonl")


def test_tombstones_of_an_import_keep_out_a_memory_of_an_older_export(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember(Memory("a secret", id="x")))
    exported(memory, tmp_path / "old.jsonl")
    run(memory.forget(["x"]))
    exported(memory, tmp_path / "new.jsonl")
    run(other.import_(tmp_path / "new.jsonl", trust="user"))
    assert run(other.import_(tmp_path / "old.jsonl")).lines[0].reason == "forgotten"


def test_tombstones_of_an_import_keep_out_a_message_of_an_older_export(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    (stated,) = run(memory.remember_turn("s", [Message.user("a secret")]))
    exported(memory, tmp_path / "old.jsonl")
    run(memory.forget([stated.id]))
    exported(memory, tmp_path / "new.jsonl")
    for name in ("new", "old"):
        run(other.import_(tmp_path / f"{name}.jsonl", trust="user"))
    assert run(other.conversations.sessions()) == []


def test_an_import_does_not_restore_an_undone_memory(opened, tmp_path):
    memory = opened()
    stated = run(memory.remember("said by mistake"))
    exported(memory, tmp_path / "a.jsonl")
    run(memory.undo(stated.operation))
    (line,) = run(memory.import_(tmp_path / "a.jsonl")).lines
    assert (line.outcome, line.reason.split(":")[0]) == (Outcome.DUPLICATE, "its versions are in the archive here")
    assert run(memory.list()).memories == ()


def test_an_import_adds_no_archived_versions_of_an_undone_memory_to_a_current_memory(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    stated = run(memory.remember("I live in Lisbon."))
    exported(memory, tmp_path / "live.jsonl")
    run(memory.undo(stated.operation))
    exported(memory, tmp_path / "undone.jsonl")
    run(other.import_(tmp_path / "live.jsonl", trust="user"))
    report = run(other.import_(tmp_path / "undone.jsonl", mode="upsert", trust="user"))
    assert (report.lines, report.left["version"]) == ((), 1)
    assert [version.text for version in run(other.history(stated.id))] == ["I live in Lisbon."]


def test_an_import_archives_no_version_of_a_memory_undone_and_then_forgotten(opened, tmp_path):
    memory = opened()
    stated = run(memory.remember("the code is 44173921-zebra"))
    run(memory.undo(stated.operation))
    exported(memory, tmp_path / "a.jsonl")
    run(memory.forget([stated.id]))
    run(memory.import_(tmp_path / "a.jsonl"))
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0


def test_an_untrusted_import_has_the_trust_of_a_document_and_brings_no_history(memory, opened, tmp_path):
    other = opened("n.db")
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl"))
    assert not report.trusted
    entries = [*other.store.scan(namespace=store_namespace("", CONVERSATION))]
    assert {entry.metadata["trust"] for entry in entries} == {"document"}
    assert {entry.metadata["operation"] for entry in entries} == {report.operation}
    assert not any(entry.metadata.get("pinned") for entry in entries)
    assert run(other.conversations.sessions()) == []
    assert report.left["message"] > 0
    assert any("trust=user" in note for note in report.notes)
    assert [each.kind for each in run(other.operations())] == ["import"]


def test_an_import_trusts_an_export_of_the_same_memory_and_not_an_edited_export(opened, tmp_path):
    memory = opened()
    run(memory.remember(Memory("mine", id="x")))
    data = exported(memory, tmp_path / "a.jsonl")
    assert run(memory.import_(tmp_path / "a.jsonl")).trusted
    assert run(memory.get(["x"]))[0].trust is Trust.USER
    assert not run(memory.import_(tmp_path / "a.jsonl", namespace="b")).trusted
    changed = [line.replace(b"mine", b"evil") for line in data.splitlines(keepends=True)]
    (tmp_path / "forged.jsonl").write_bytes(b"".join(sealed(changed)))
    report = run(memory.import_(tmp_path / "forged.jsonl", mode="upsert"))
    assert not report.trusted
    assert [line.reason for line in report.lines] == ["what is here is trusted more"]
    assert run(memory.get(["x"]))[0].text == "mine"


@pytest.mark.parametrize("ceiling", list(Trust))
def test_the_trust_given_to_an_import_is_the_ceiling_for_each_of_its_memories(opened, tmp_path, ceiling):
    memory, other = opened("m.db"), opened("n.db")
    for trust in Trust:
        run(memory.remember(Memory(f"by a {trust}", trust=trust)))
    run(memory.conversations.append("s", [Message.user("hello")]))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust=ceiling))
    assert report.trusted is bool(run(other.conversations.sessions())) is (ceiling is Trust.USER)
    order = list(Trust)
    found = {entry.text: entry.trust for entry in run(other.list())}
    assert found == {f"by a {trust}": max(trust, ceiling, key=order.index) for trust in order}


def test_write_policies_decide_about_imported_memories(opened, tmp_path):
    class Redacting:
        def decide(self, memory):
            if "44173921" not in memory.text:
                return PolicyDecision(Action.ACCEPT)
            clean = memory.text.replace("44173921", "[redacted]")
            return PolicyDecision(Action.REDACT, "secret", Memory(clean, kind=memory.kind))

    memory = opened("m.db")
    other = opened("n.db", policies=(MinimumLength(5), Redacting()))
    for id, text in (("a", "ok"), ("b", "the code is 44173921"), ("c", "long enough")):
        run(memory.remember(Memory(text, id=id)))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert {(line.id, line.outcome) for line in report.lines} == {
        ("a", Outcome.REJECTED),
        ("b", Outcome.REDACTED),
        ("c", Outcome.STORED),
    }
    assert sorted(entry.text for entry in run(other.list())) == ["long enough", "the code is [redacted]"]
    assert [line.pending for line in sorted(report.lines, key=lambda line: line.id)] == [False, True, False]


def test_an_import_goes_to_the_given_namespace_alone(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember("of ann", namespace="ann"))
    run(memory.remember("of bob", namespace="bob"))
    data = exported(memory, tmp_path / "a.jsonl", namespace="ann")
    assert b"bob" not in data
    run(other.import_(tmp_path / "a.jsonl", namespace="carl"))
    assert {lane.split("/")[0] for lane in other.store.namespaces()} == {"carl"}
    run(memory.remember_turn("s", [Message.user("said by ann")], namespace="ann"))
    run(memory.forget([run(memory.remember("gone", namespace="bob")).id], namespace="bob"))
    exported(memory, tmp_path / "b.jsonl", namespace="ann")
    report = run(other.import_(tmp_path / "b.jsonl", namespace="carl", trust="user"))
    assert "forgotten" not in {**report.taken, **report.left}
    assert [session.session for session in run(other.conversations.sessions(namespace="carl"))] == ["s"]
    assert run(other.conversations.sessions()) == []
    assert run(other.operations()) == run(other.operations(namespace="bob")) == []


# --- malformed files


@pytest.fixture(scope="module")
def valid_lines(filled_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    memory = open_memory(shutil.copy(filled_folder[0] / "m.db", folder), clock=Ticking(), embedder=Toy())
    lines = exported(memory, folder / "good.jsonl").splitlines(keepends=True)
    run(memory.close())
    return lines


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """A memory that no case changes, and its export."""
    folder = tmp_path_factory.mktemp("unchanged")
    memory = open_memory(folder / "n.db", clock=Ticking(), embedder=Toy())
    run(memory.remember("here before"))
    yield memory, exported(memory, folder / "before.jsonl")
    run(memory.close())


SAID = {
    "gzip": "it is compressed (gzip); unpack it first",
    "utf-16": "not UTF-8",
    "latin-1": "the line is not UTF-8",
    "cut": "ends in the middle of the line",
    "newer": "use a newer one",
    "twice": "is there twice",
    "counts": "cut or edited",
    "a letter changed": "it was edited",
}


def damaged(lines, how):
    position = next(n for n, line in enumerate(lines) if b'"type": "memory"' in line)
    item = json.loads(lines[position])
    if how == "cut":
        return position + 1, b"".join(lines[:position]) + lines[position][:20]
    if how == "a line lost":
        return len(lines) - 1, b"".join(lines[:-1])
    if how == "a letter changed":
        return len(lines), b"".join(lines).replace(b"Coimbra", b"Coimbre")
    if how == "newer":
        return 1, b"".join(lines).replace(b'"version": 1,', b'"version": 2,', 1)
    if how == "no export":
        return 1, b'{"hello": 1}\n'
    if how == "empty":
        return 1, b""
    if how == "gzip":
        return 1, gzip.compress(b"".join(lines))
    if how == "utf-16":
        return 1, b"".join(lines).decode().encode("utf-16")
    if how == "byte order mark":
        return 1, b"\xef\xbb\xbf" + b"".join(lines)
    if how == "too deep":
        gc.collect()  # else what other tests left may be finalised where the stack is full
        return 1, b"[" * 100_000 + b"\n"
    if how in ("latin-1", "raw surrogate"):
        bad = b"\xe9" if how == "latin-1" else b"\xed\xa0\x80"
        return position + 1, b"".join(
            [*lines[:position], lines[position].replace(b"Coimbra", b"Co" + bad), *lines[position + 1 :]]
        )
    if how == "not json":
        return position + 1, b"".join([*lines[:position], b"{]\n", *lines[position + 1 :]])
    if how.endswith("in the log"):
        position = next(n for n, line in enumerate(lines) if b'"type": "operation"' in line)
        value = {"nan": b"NaN", "surrogate": b'"\\ud800"', "raw surrogate": b'"\xed\xa0\x80"'}[
            how.removesuffix(" in the log")
        ]
        operation = lines[position].replace(
            b'"changes": [{', b'"changes": [{"new": {"importance": ' + value + b"}, ", 1
        )
        return position + 1, b"".join(sealed([*lines[:position], operation, *lines[position + 1 :]]))
    if how == "counts":
        return 1, b"".join(lines).replace(b'"message": 5,', b'"message": 6,', 1)
    if how == "probes":
        return 1, b"".join(lines).replace(b'"probes": ["', b'"probes": ["AAAA", "', 1)
    changed = {
        "unknown field": {**item, "authority": "root"},
        "unknown type": {**item, "type": "command"},
        "naive time": {**item, "occurred_at": "2026-01-01T00:00:00"},
        "no text": {**item, "text": ""},
        "short vector": {**item, "vector": "AAAA"},
        "vector of nan": {**item, "vector": "AADAfwAAwH8AAMB/AADAfwAAwH8AAMB/AADAfwAAwH8="},
        "trust": {**item, "trust": "god"},
        "beside": {**item, "beside": {"trust": "user"}},
        "surrogate": {**item, "text": "\ud800"},
        "revision": {**item, "revision": 7},
    }.get(how)
    if changed is not None:
        lines = [*lines[:position], json.dumps(changed).encode() + b"\n", *lines[position + 1 :]]
        return position + 1, b"".join(sealed(lines))
    assert how == "twice"
    return position + 2, b"".join(sealed([*lines[: position + 1], lines[position], *lines[position + 1 :]]))


@pytest.mark.parametrize(
    "how",
    [
        *("cut", "a line lost", "a letter changed", "newer", "no export", "empty", "not json", "unknown field"),
        *("unknown type", "naive time", "no text", "short vector", "vector of nan", "trust", "beside", "surrogate"),
        *("revision", "twice", "nan in the log", "surrogate in the log"),
        *("gzip", "utf-16", "byte order mark", "too deep", "latin-1", "raw surrogate", "counts", "probes"),
        "raw surrogate in the log",
    ],
)
def test_a_malformed_export_is_refused_with_its_line_number_and_imports_nothing(unchanged, tmp_path, valid_lines, how):
    other, before = unchanged
    line, data = damaged(valid_lines, how)
    (tmp_path / "bad.jsonl").write_bytes(data)
    with pytest.raises(UnreadableExport) as error:
        run(other.import_(tmp_path / "bad.jsonl", trust="user"))
    assert error.value.line == line
    assert SAID.get(how, "") in str(error.value)
    assert f"line {line}" in str(error.value)
    assert exported(other, tmp_path / "after.jsonl") == before


@pytest.mark.parametrize("what", ["nothing", "folder", "pipe"])
def test_an_import_refuses_a_path_that_is_no_regular_file(opened, tmp_path, what):
    path = tmp_path / "x"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    with pytest.raises(ArgumentError, match="path"):
        run(opened().import_(path))


# --- write policies on import


class Letters(Toy):
    """An embedder by letters: near where the letters are."""

    remote = False
    dimension = 26

    async def embed(self, texts, kind="document"):
        rows = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def texts(memory):
    return sorted(entry.text for entry in run(memory.list()))


def outcomes(report):
    return [(line.id, str(line.outcome), line.reason) for line in report.lines]


FRIDAY = ("The plumber comes on Friday.", "On Friday the plumber comes!")


@pytest.mark.parametrize("embedder", [None, Letters()])
@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_near_duplicates_within_an_imported_file_are_linked_or_folded(opened, tmp_path, embedder, mode):
    memory = opened("m.db", embedder=embedder, choose_local=False)
    for id, text in zip("ab", FRIDAY, strict=True):
        run(memory.remember(Memory(text, id=id)))
    exported(memory, tmp_path / "a.jsonl")
    for fold in (False, True):
        other = opened(f"{fold}.db", embedder=embedder, choose_local=False, policies=[NearDuplicates(fold=fold)])
        planned = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user", dry_run=True))
        report = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user"))
        second = "near-duplicate" if fold else "stored"
        assert outcomes(report) == [("a", "stored", ""), ("b", second, "near-duplicate")]
        assert [line.of for line in report.lines] == [None, "a"]
        assert planned.lines == report.lines
        assert len(texts(other)) == 2 - fold
        assert fold or run(other.get(["b"]))[0].metadata["near"] == "a"
        assert run(other.import_(tmp_path / "a.jsonl", trust="user")).operation is None
        assert len(texts(other)) == 2 - fold
        exported(other, tmp_path / f"{fold}.jsonl")
        back = run(memory.import_(tmp_path / f"{fold}.jsonl", mode="upsert", trust="user"))
        assert {line.reason for line in back.lines} == {"known already"}  # a link alone corrects nothing


@pytest.mark.parametrize("batch", [1, 1000])
def test_an_import_folds_near_duplicates_of_stored_memories_and_of_earlier_batches(
    opened, tmp_path, monkeypatch, batch
):
    monkeypatch.setattr(reader, "_BATCH", batch)
    options = {"embedder": None, "choose_local": False}
    memory, other = (
        opened("m.db", **options),
        opened("n.db", policies=[NearDuplicates(words=0.5, fold=True)], **options),
    )
    run(other.remember(Memory("I like green tea.", id="here")))
    for id, text in (("a", "Green tea I like!"), ("b", FRIDAY[0]), ("c", FRIDAY[1]), ("d", "Not on Friday!")):
        run(memory.remember(Memory(text, id=id)))
    exported(memory, tmp_path / "a.jsonl")
    planned = run(other.import_(tmp_path / "a.jsonl", dry_run=True))
    report = run(other.import_(tmp_path / "a.jsonl"))
    assert [(line.id, line.of, line.outcome.value) for line in report.lines] == [
        ("a", "here", "near-duplicate"),
        ("b", None, "stored"),
        ("c", "b", "near-duplicate"),
        ("d", None, "stored"),
    ]
    assert [(line.id, line.of, line.outcome) for line in planned.lines] == [
        (line.id, line.of, line.outcome) for line in report.lines
    ]


def test_an_import_keeps_the_near_duplicate_links_of_its_file(opened, tmp_path):
    options = {"embedder": None, "choose_local": False, "policies": [NearDuplicates(words=0.5)]}
    memory, other = opened("m.db", **options), opened("n.db", **options)
    for place, text in enumerate((*FRIDAY, "The plumber comes on Friday, at nine.", "I like tea.")):
        run(memory.remember(Memory(text, key="k" if not place else None)))  # the id of a key sorts behind the others
    first = exported(memory, tmp_path / "a.jsonl")
    assert sum(b'"near"' in line for line in first.splitlines()) == 2
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert exported(other, tmp_path / "b.jsonl") == first


@pytest.mark.parametrize(
    "policies",
    [
        (NoSecrets(),),
        (MinimumLength(6, of="turn"),),
        (Judge(lambda turn: len(turn.text) > 6, of="turn"),),
        (Extractor(lambda turn: ["A fact."] if "up" in turn.text else []), NoSecrets()),
    ],
)
def test_a_round_trip_through_a_memory_with_the_same_policies_gives_the_same_bytes(opened, tmp_path, policies):
    memory, other = opened("m.db", policies=policies), opened("n.db", policies=policies)
    filled(memory, tmp_path)
    run(memory.remember_turn("s", [Message.user("Why?"), Message.assistant("It rains in Lisbon.")]))
    first = exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert {line.outcome for line in report.lines} == {Outcome.STORED}
    assert exported(other, tmp_path / "b.jsonl") == first


def dogs(turn):
    return [
        ExtractedFact(f"Dog: {each.text.split()[-1]}", (position,))
        for position, each in enumerate(turn.memories)
        if "dog" in each.text
    ]


def test_an_import_extracts_facts_once_and_extracts_no_facts_that_the_file_has(opened, tmp_path):
    plain, facts = opened("m.db"), opened("n.db", policies=[Extractor(dogs)])
    for memory in (plain, facts):
        run(memory.remember_turn("s", [Message.user("I have a dog Rex"), Message.assistant("I see.")]))
    exported(plain, tmp_path / "plain.jsonl")
    exported(facts, tmp_path / "facts.jsonl")
    for name, made in (("plain", 1), ("facts", 0)):
        for trust in (None, "user"):
            other = opened(f"{name}{trust}.db", policies=[Extractor(dogs)])
            planned = run(other.import_(tmp_path / f"{name}.jsonl", trust=trust, dry_run=True))
            report = run(other.import_(tmp_path / f"{name}.jsonl", trust=trust))
            assert sum(len(line.made) for line in report.lines) == sum(len(line.made) for line in planned.lines) == made
            assert texts(other) == ["Dog: Rex", "I have a dog Rex", "I see."]
            assert report.pending == made
            again = run(other.import_(tmp_path / f"{name}.jsonl", trust=trust))
            assert (again.operation, len(texts(other))) == (None, 3)
            (fact,) = [entry for entry in run(other.list()) if entry.text == "Dog: Rex"]
            (stated,) = [entry for entry in run(other.list()) if entry.text == "I have a dog Rex"]
            assert fact.derived_from == (stated.id,)
            assert fact.trust is (Trust.USER if trust else Trust.DOCUMENT)
            run(other.undo(report.operation))
            assert texts(other) == []


def test_an_import_extracts_no_facts_from_memories_stored_together_with_the_source_of_a_fact(opened, tmp_path):
    asked = []
    memory = opened("m.db", policies=[Extractor(dogs)])
    run(memory.remember_many([Memory(text, kind="turn") for text in ("I have a dog Rex", "I have a cat.")]))
    run(memory.remember(Memory("It rains.", kind="turn")))
    exported(memory, tmp_path / "a.jsonl")
    other = opened("n.db", policies=[Extractor(lambda turn: asked.append(turn.text) or [])])
    run(other.import_(tmp_path / "a.jsonl"))
    assert asked == ["It rains."]


def test_an_import_of_an_export_of_the_same_memory_extracts_no_facts(opened, tmp_path):
    asked = []
    memory = opened(policies=[Extractor(lambda turn: asked.append(turn.text))])
    run(memory.remember_turn("s", [Message.user("I have a cat.")]))
    exported(memory, tmp_path / "a.jsonl")
    for mode in ("merge", "upsert"):
        run(memory.import_(tmp_path / "a.jsonl", mode=mode))
    assert asked == ["I have a cat."]


def test_an_import_that_keeps_facts_alone_stores_each_fact_once(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db", policies=[Extractor(dogs, keep=False)])
    run(memory.remember_turn("s", [Message.user("I have a dog Rex")]))
    exported(memory, tmp_path / "a.jsonl")
    for _ in range(2):
        report = run(other.import_(tmp_path / "a.jsonl"))
        assert [(line.outcome.value, line.reason) for line in report.lines] == [("rejected", "kept as facts")]
        assert texts(other) == ["Dog: Rex"]
    (fact,) = run(other.list())
    assert fact.derived_from == ()  # of what is not kept nothing is named
    run(other.forget([fact.id]))
    (line,) = run(other.import_(tmp_path / "a.jsonl")).lines
    assert [each.reason for each in line.made] == ["forgotten"]
    assert texts(other) == []


@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_an_import_stores_a_fact_extracted_twice_from_one_text_once(opened, tmp_path, mode):
    memory, other = opened("m.db"), opened("n.db", policies=[Extractor(lambda turn: ["A fact.", "A fact."])])
    run(memory.remember_turn("s", [Message.user("I have a dog Rex")]))
    exported(memory, tmp_path / "a.jsonl")
    planned, done = (run(other.import_(tmp_path / "a.jsonl", mode=mode, dry_run=dry)) for dry in (True, False))
    assert planned.lines[0].made[0].id == done.lines[0].made[0].id
    assert [each.outcome for each in planned.lines[0].made] == [each.outcome for each in done.lines[0].made]
    assert texts(other) == ["A fact.", "I have a dog Rex"]


@pytest.mark.parametrize("batch", [1, 1000])
def test_an_import_judges_the_messages_of_a_turn_together(opened, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(reader, "_BATCH", batch)
    memory = opened("m.db")
    run(memory.remember_turn("s", [Message.user("Why?"), Message.assistant("It rains in Lisbon.")]))
    run(memory.remember(Memory("Why?", kind="turn")))
    exported(memory, tmp_path / "a.jsonl")
    asked = []
    other = opened("n.db", policies=[Judge(lambda turn: bool(asked.append(turn.text)) or True, of="turn")])
    run(other.import_(tmp_path / "a.jsonl"))
    assert asked == ["Why?\nIt rains in Lisbon.", "Why?"]


def test_an_import_does_not_judge_an_already_stored_memory_again(opened, tmp_path):
    asked = []
    memory, other = opened("m.db"), opened("n.db", policies=[Judge(lambda one: bool(asked.append(one.text)) or True)])
    run(memory.remember("a fact"))
    exported(memory, tmp_path / "a.jsonl")
    for _ in range(2):
        run(other.import_(tmp_path / "a.jsonl"))
    assert asked == ["a fact"]


def test_an_import_does_not_fold_earlier_versions_as_near_duplicates(opened, tmp_path):
    options = {"embedder": None, "choose_local": False}
    memory, other = opened("m.db", **options), opened("n.db", policies=[NearDuplicates(fold=True)], **options)
    stated = run(memory.remember(FRIDAY[0]))
    run(memory.correct(stated.id, "He was here."))
    run(other.remember(FRIDAY[1]))
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert (report.taken["version"], report.left) == (1, {})


def test_an_imported_text_changed_by_a_policy_is_pending_despite_no_vector_in_the_file(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db", policies=[NoSecrets()])
    stated = Memory("My PIN is 48213.", id="x", recorded_at=datetime(2026, 1, 1, tzinfo=UTC))
    memory.store.upsert([to_entry(stated, no_vector="nothing to embed")], namespace=store_namespace("", CONVERSATION))
    exported(memory, tmp_path / "a.jsonl")
    assert run(other.import_(tmp_path / "a.jsonl", trust="user")).pending == 1


def test_an_import_redacts_secrets_in_earlier_versions(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db", policies=[NoSecrets()])
    stated = run(memory.remember("My PIN is 48213."))
    run(memory.correct(stated.id, "I have a PIN."))
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert [version.text for version in run(other.history(stated.id))] == [
        "I have a PIN.",
        "My PIN is [redacted: PIN].",
    ]


def test_an_import_redacts_secrets_in_messages_and_passages(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db", policies=[NoSecrets()])
    run(memory.remember_turn("s", [Message.user("My PIN is 48213."), Message.system("The PIN is 99121.")]))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "pins.md").write_text("The PIN of the gate is 77123.")
    run(KnowledgeBase(memory, collection="guide").ingest(tmp_path / "notes"))
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    data = exported(other, tmp_path / "b.jsonl")
    assert [number for number in (b"48213", b"99121", b"77123") if number in data] == []
    assert data.count(b"[redacted: PIN]") == 4


# --- repeated imports


def test_importing_twice_and_repeating_an_idempotency_key_add_nothing(memory, opened, tmp_path):
    other = opened("n.db")
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    before = exported(other, tmp_path / "b.jsonl")
    for mode in ("merge", "upsert"):
        report = run(other.import_(tmp_path / "a.jsonl", mode=mode, trust="user"))
        assert ({line.outcome for line in report.lines}, report.operation) == ({Outcome.DUPLICATE}, None)
        assert report.taken == {}
    (keyed,) = [entry for entry in run(memory.list()) if entry.key]
    line = run(other.remember(Memory(keyed.text, key=keyed.key, caption=keyed.caption)))
    assert (line.outcome, line.id) == (Outcome.DUPLICATE, keyed.id)
    with pytest.raises(DuplicateKey):
        run(other.remember(Memory("something else", key=keyed.key)))
    assert exported(other, tmp_path / "c.jsonl") == before


def test_an_imported_memory_with_a_known_idempotency_key_is_the_same_memory_despite_its_id(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    present = run(memory.remember(Memory("My dentist is Dr. Wu.", key="dentist"))).id
    run(memory.remember(Memory("Dr. Wu is nice.", derived_from=(present,), id="leaning")))
    here = run(other.remember(Memory("My dentist is Dr. Wu.", key="dentist"))).id
    assert present != here
    exported(memory, tmp_path / "a.jsonl")
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert [(line.of, line.reason) for line in report.lines if line.id == present] == [(here, "known already")]
    assert run(other.get(["leaning"]))[0].derived_from == (here,)
    run(memory.correct(present, "My dentist is Dr. Li."))
    exported(memory, tmp_path / "b.jsonl")
    assert run(other.import_(tmp_path / "b.jsonl", trust="user")).lines[-1].reason.startswith("what is here")
    run(other.import_(tmp_path / "b.jsonl", mode="upsert", trust="user"))
    assert [version.text for version in run(other.history(here))] == ["My dentist is Dr. Li.", "My dentist is Dr. Wu."]
    assert run(other.count()) == 2


def test_an_upserting_import_keeps_the_idempotency_key_of_a_corrected_memory(opened, tmp_path):
    memory = opened()
    id = run(memory.remember(Memory("My dentist is Dr. Wu.", key="dentist"))).id
    lines = exported(memory, tmp_path / "a.jsonl", vectors=False).splitlines(keepends=True)
    without = [line.replace(b"Wu", b"Li").replace(b'"key": "dentist", ', b"") for line in lines]
    (tmp_path / "b.jsonl").write_bytes(b"".join(sealed(without)))
    run(memory.import_(tmp_path / "b.jsonl", mode="upsert", trust="user"))
    (present,) = run(memory.get([id]))
    assert (present.text, present.key) == ("My dentist is Dr. Li.", "dentist")


def test_an_untrusted_import_brings_no_idempotency_keys(opened, tmp_path):
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember(Memory("Pay to account 1.", key="account")))
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl"))
    assert run(other.remember(Memory("Pay to account 2.", key="account"))).outcome is Outcome.STORED


@pytest.mark.parametrize("grace", [None, timedelta(days=1)])
def test_an_imported_idempotency_key_is_forgotten_and_restored_with_its_memory(opened, tmp_path, grace):
    memory, other = opened("m.db"), opened("n.db")
    present = run(memory.remember(Memory("My dentist is Dr. Wu.", key="dentist"))).id
    exported(memory, tmp_path / "a.jsonl")
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    receipt = run(other.forget([present], grace=grace))
    if grace is None:
        assert run(other.verify_forgotten(receipt, texts=["My dentist is Dr. Wu."])).gone
        assert run(other.remember(Memory("My dentist is Dr. Li.", key="dentist"))).id != present
    else:
        run(other.restore_forgotten(receipt.operation))
        assert run(other.remember(Memory("My dentist is Dr. Wu.", key="dentist"))).id == present


def test_an_import_adds_no_passages_of_an_already_ingested_document(memory, opened, tmp_path):
    other = opened("n.db")
    filled(other, tmp_path)
    exported(memory, tmp_path / "a.jsonl")
    before = other.store.count(namespace=store_namespace("", "documents", "guide"))
    for trust in (None, "user"):
        report = run(other.import_(tmp_path / "a.jsonl", trust=trust))
        reasons = {line.reason for line in report.lines if line.id.startswith("c") and "document" in line.reason}
        assert any("its document is here already" in reason for reason in reasons)
        assert other.store.count(namespace=store_namespace("", "documents", "guide")) == before


def test_an_import_adds_no_copy_of_a_document_under_another_name(memory, tmp_path):
    lines = exported(memory, tmp_path / "a.jsonl").splitlines(keepends=True)
    renamed = [line.replace(b'"source": "tower.md", "location"', b'"source": "t.md", "location"') for line in lines]
    (tmp_path / "b.jsonl").write_bytes(b"".join(sealed(renamed)))
    report = run(memory.import_(tmp_path / "b.jsonl", trust="user"))
    assert (report.left["document"], report.taken) == (1, {})
    assert [document.source for document in run(KnowledgeBase(memory, collection="guide").documents())] == ["tower.md"]


@pytest.mark.parametrize("mode", ["merge", "upsert"])
def test_an_import_does_not_restore_a_removed_document(memory, tmp_path, mode):
    exported(memory, tmp_path / "a.jsonl")
    knowledge = KnowledgeBase(memory, collection="guide")
    (document,) = run(knowledge.documents())
    run(knowledge.remove(document.source))
    run(memory.import_(tmp_path / "a.jsonl", mode=mode))
    assert run(knowledge.documents()) == []
    assert memory.store.count(namespace=store_namespace("", "documents", "guide")) == 0


# --- batches


def test_concurrent_writes_between_the_batches_of_an_import_are_kept(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_BATCH", 10)
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember_many([Memory(f"thing {n}", id=f"{n:03}") for n in range(60)]))
    exported(memory, tmp_path / "a.jsonl")
    second = open_memory(tmp_path / "n.db", embedder=Toy())
    written = []

    def write(done, total):
        written.append(run_sync(second.remember(f"said meanwhile, at {done}: {len(written)}")).outcome)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run(other.import_(tmp_path / "a.jsonl", on_progress=lambda *at: pool.submit(write, *at).result()))
    run_sync(second.close())
    assert len(written) > 5
    assert set(written) == {Outcome.STORED}
    assert run(other.count()) == 60 + len(written)


def test_an_interrupted_import_keeps_whole_batches_and_a_second_import_completes_it(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_BATCH", 7)
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember_many([Memory(f"thing {n}", id=f"{n:02}") for n in range(15)]))
    for n in range(15):
        run(memory.correct(f"{n:02}", f"thing {n}, put right"))
    first = exported(memory, tmp_path / "a.jsonl")

    def breaks(done, total):
        if done > 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(other.import_(tmp_path / "a.jsonl", trust="user", on_progress=breaks))
    present = run(other.list(limit=100))
    assert 0 < len(present) < 15
    assert all(len(run(other.history(each.id))) == 2 for each in present)
    (begun,) = [each for each in run(other.operations(limit=500)) if each.kind == "import"]
    assert {change.id for change in begun.changes} == {each.id for each in present}
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert exported(other, tmp_path / "b.jsonl") == first


def test_an_import_refuses_a_file_that_changes_while_it_is_read(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_BATCH", 5)
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember_many([Memory(f"thing {n}", id=f"{n:03}") for n in range(20)]))
    data = exported(memory, tmp_path / "a.jsonl")

    def edits(done, total):
        (tmp_path / "a.jsonl").write_bytes(data.replace(b"thing 19", b"evil 19"))

    with pytest.raises(UnreadableExport, match="changed while it was read"):
        run(other.import_(tmp_path / "a.jsonl", on_progress=edits))
    assert not any("evil" in text for text in texts(other))


# --- large files


@pytest.mark.slow
def test_an_import_takes_a_line_of_fifty_megabytes_and_refuses_a_line_above_the_limit(opened, tmp_path, monkeypatch):
    memory, other = opened("m.db"), opened("n.db")
    file = DocumentBlock(media_type="application/pdf", data=bytes(39_000_000))
    run(memory.conversations.append("s", [Message.user([file])]))
    assert len(exported(memory, tmp_path / "a.jsonl")) > 50_000_000
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    (present,) = run(other.conversations.load("s"))
    assert present.message.blocks == (file,)
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 50_000_000)
    with pytest.raises(UnreadableExport, match="line 2: the line is too long"):
        run(other.import_(tmp_path / "a.jsonl"))


def peak(work):
    tracemalloc.start()
    try:
        run(work)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_peak_memory_of_export_and_import_does_not_grow_with_the_texts(opened, tmp_path, monkeypatch):
    sizes = ((reader, "_BATCH"), (entry_store, "ERASED_PAGE_SIZE"), (base, "PAGE_SIZE"), (table_store, "PAGE_SIZE"))
    for module, name in sizes:
        monkeypatch.setattr(module, name, 4)
    most = {}
    for count in (12, 48):
        memory, other = (opened(f"{name}{count}.db", embedder=None, choose_local=False) for name in "mn")
        run(memory.remember_many(f"{n} " + ("y" * 200 + " ") * 500 for n in range(count)))
        for n in range(count):  # a long session, and each of its messages carries something
            run(
                memory.conversations.append(
                    "s", [Message.user([DocumentBlock(media_type="application/pdf", data=bytes([n]) * 100_000)])]
                )
            )
        path = tmp_path / f"{count}.jsonl"
        most[count] = [peak(memory.export(path)), peak(other.import_(path))]
    assert all(large < 1.5 * small for small, large in zip(most[12], most[48], strict=True)), most


def test_an_import_batch_is_bounded_by_bytes(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_BATCH_BYTES", 3000)
    memory, other = opened("m.db"), opened("n.db")
    run(memory.remember_many(Memory("long " * 200, id=str(n)) for n in range(10)))
    exported(memory, tmp_path / "a.jsonl", vectors=False)
    seen = []
    run(other.import_(tmp_path / "a.jsonl", on_progress=lambda done, total: seen.append(done)))
    assert seen == [1, 3, 5, 7, 9, 11, 11]  # the log's one operation first, then two memories at a time
