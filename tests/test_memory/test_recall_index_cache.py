"""The index cache: record batches packed and read again, kept for the next process, erased with their memories.

Inner parts, on no face: ``tellback.memory.retrieval.index.index_cache``, ``tellback.memory.retrieval.index.record``,
``tellback.memory.retrieval.index.record_batch``, ``tellback.memory.retrieval.languages.lexicon``.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellback.memory.retrieval.index.index_cache as index_cache
import tellback.memory.retrieval.index.index_sync as index_sync
from tellback.memory import HashingEmbedder, LongTermMemory, Memory, open_memory, run_sync
from tellback.memory.retrieval.index.index_cache import (
    DamagedSegment,
    IndexSegment,
    decode_batch,
    encode_batch,
    merge_segments,
    remove_ids,
    surviving_rows,
)
from tellback.memory.retrieval.index.record import IndexRecord
from tellback.memory.retrieval.index.record_batch import (
    FOLDERS_OF_RULES,
    RECORD_DTYPE,
    RecordBatch,
    RecordExtractor,
    build_batch,
    concatenate_batches,
    rules_fingerprint,
)
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.vectorstore import Analyzer, Entry
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.slow import first_fast

DAY = datetime(2024, 5, 1, tzinfo=UTC)


_TEXT = "apple river stone cloud music garden winter letter engine forest Lisbon Porto support group paint"


WORDS = _TEXT.split()


QUESTIONS = ("Which garden did Anna see?", "What did Bela paint in May?", "river music", "When was the winter?")


@pytest.fixture(autouse=True)
def few_are_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 3)
    monkeypatch.setattr(index_cache, "_MAX_SEGMENT_ROWS", 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


def opened(path: Path) -> LongTermMemory:
    return open_memory(path, embedder=HashingEmbedder())


def turns(count: int, rng: random.Random) -> list[Memory]:
    return [
        Memory(
            " ".join(rng.choices(WORDS, k=rng.randint(1, 8))) + rng.choice((".", "?", ", Mel!")),
            id=f"m{number:03d}",
            speaker=("Anna", "Bela")[number % 2],
            session=f"s{number // 8}",
            sequence=number % 8,
            occurred_at=DAY + timedelta(days=number // 8),
        )
        for number in range(count)
    ]


def answers(memory: LongTermMemory) -> list[object]:
    found = [run_sync(memory.recall(question, 10, explain=True)) for question in QUESTIONS]
    return [[(hit.memory.id, hit.score, dict(hit.parts)) for hit in item] for item in found]


def kept(path: Path) -> dict[str, set[str]]:
    """Return the ids in the segments of each namespace."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT namespace, ids, removed FROM recall_segments").fetchall()
    found: dict[str, set[str]] = {}
    for namespace, ids, removed in rows:
        found.setdefault(namespace, set()).update(json.loads(ids), json.loads(removed))
    return found


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all entries that recall derives something of from now on."""
    seen: list[str] = []
    extract = RecordExtractor.extract

    def watched(self: RecordExtractor, entries: Sequence[Entry], *rest: Any, **more: Any) -> object:
        seen.extend(entry.id for entry in entries)
        return extract(self, entries, *rest, **more)

    monkeypatch.setattr(RecordExtractor, "extract", watched)
    return seen


def test_the_index_cache_saves_a_single_long_memory(
    path: Path, derived: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_sync, "_MIN_SAVED_WORDS", 500)
    memory = opened(path)
    run_sync(memory.remember(Memory("The river winds on. " * 200, id="long")))
    expected = answers(memory)
    run_sync(memory.close())
    assert kept(path) == {"/conversation": {"long"}}
    del derived[:]
    memory = opened(path)
    assert answers(memory) == expected
    assert derived == []


def test_a_reopened_index_derives_only_new_entries(path: Path, derived: list[str]) -> None:
    rng = random.Random(1)
    with_all = turns(20, rng)
    memory = opened(path)
    run_sync(memory.remember_many(with_all))
    expected = answers(memory)
    run_sync(memory.close())
    assert kept(path) == {"/conversation": {turn.id for turn in with_all}}
    del derived[:]
    memory = opened(path)
    assert answers(memory) == expected
    assert derived == []
    run_sync(memory.remember(Memory("a new river", id="new")))
    answers(memory)
    assert derived == ["new"]
    run_sync(memory.close())
    assert "new" not in kept(path)["/conversation"], "too little to be worth a write"
    memory = opened(path)
    answers(memory)
    run_sync(memory.close())
    assert derived == ["new", "new"]


def test_the_first_recall_reuses_the_index_cache_saved_by_a_writer(
    path: Path, derived: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_sync, "_FOLLOWED_ROWS", 10)
    memory = opened(path)
    for turn in turns(25, random.Random(5)):
        run_sync(memory.remember(turn))
    run_sync(memory.forget(["m003"]))
    run_sync(memory.close())
    assert kept(path) == {"/conversation": {f"m{number:03d}" for number in range(20) if number != 3}}
    del derived[:]
    memory = opened(path)
    found = answers(memory)
    assert derived == [f"m{number:03d}" for number in range(20, 25)]
    memory.store.database.rebuild()
    run_sync(memory.close())
    memory = opened(path)
    assert answers(memory) == found
    run_sync(memory.close())


def test_a_writer_derives_every_entry_if_the_change_log_is_too_short(
    path: Path, derived: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_sync, "_FOLLOWED_ROWS", 10)
    monkeypatch.setattr("tellback.vectorstore.sqlite.entry_writer.KEPT_CHANGES", 4)
    memory, reported = opened(path), turns(20, random.Random(6))
    run_sync(memory.remember_many(reported[:10]))
    (entry,) = memory.store.get(["m000"], namespace="/conversation")
    assert entry is not None
    for _ in range(30):
        memory.store.upsert([entry], namespace="/conversation")
    run_sync(memory.remember_many(reported[10:]))
    run_sync(memory.close())
    assert kept(path) == {"/conversation": {turn.id for turn in reported}}
    del derived[:]
    answers(opened(path))
    assert derived == []


@pytest.mark.parametrize("seed", first_fast(range(8)))
def test_a_cached_index_answers_as_a_fresh_one_after_random_operations(
    path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr(index_sync, "_FOLLOWED_ROWS", rng.choice((4, 1024)))  # writers derive too, or recall alone
    memory = opened(path)
    waiting = turns(60, rng)
    items: list[str] = []
    for _ in range(30):
        step = rng.random()
        if step < 0.35 and waiting:
            batch = [waiting.pop(rng.randrange(len(waiting))) for _ in range(min(len(waiting), rng.randint(1, 7)))]
            run_sync(memory.remember_many(batch))
            items += [str(turn.id) for turn in batch]
        elif step < 0.5 and items:
            run_sync(memory.correct(rng.choice(items), " ".join(rng.choices(WORDS, k=4))))
        elif step < 0.6 and items:
            run_sync(memory.forget([items.pop(rng.randrange(len(items)))]))
        elif step < 0.7 and items:
            run_sync(memory.disable([rng.choice(items)]))
        elif step < 0.85:
            answers(memory)
        else:
            run_sync(memory.close())
            memory = opened(path)
    answers(memory)
    run_sync(memory.close())
    memory = opened(path)
    found = answers(memory)
    assert memory.store.verify() == []
    memory.store.database.rebuild()
    run_sync(memory.close())
    assert kept(path) == {}
    memory = opened(path)
    assert answers(memory) == found
    run_sync(memory.close())


def test_forgetting_erases_all_words_from_the_index_cache_and_the_file(path: Path) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(20, random.Random(2))))
    run_sync(memory.remember(Memory("the quicksilverish Zanzibarian, Ozymandia!", id="secret", speaker="Quentinola")))
    run_sync(memory.remember(Memory("first Xylophonica", id="old")))
    answers(memory)
    run_sync(memory.correct("old", "then nothing of the kind"))
    answers(memory)
    assert "secret" in kept(path)["/conversation"]
    receipt = run_sync(memory.forget(["secret", "old"]))
    assert receipt.parts["derived rows"] >= 1
    run_sync(memory.close())
    assert not any(ids & {"secret", "old"} for ids in kept(path).values())
    everything = b"".join(file.read_bytes() for file in path.parent.iterdir()).lower()
    for word in (b"quicksilver", b"zanzibar", b"ozymandia", b"quentinola", b"xylophon"):
        assert word not in everything


def test_forgetting_a_namespace_erases_its_index_cache(path: Path) -> None:
    memory = opened(path)
    for namespace in ("a", "a/b"):
        run_sync(memory.remember_many(turns(10, random.Random(3)), namespace=namespace))
        run_sync(memory.recall("river", namespace=namespace))
    run_sync(memory.forget_namespace("a"))
    run_sync(memory.close())
    assert set(kept(path)) == {"a%2Fb/conversation"}


def test_saving_the_index_cache_does_not_bring_back_a_concurrently_forgotten_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, other = opened(path), opened(path)
    run_sync(memory.remember_many(turns(10, random.Random(4))))
    save = index_sync.IndexSynchronizer.save

    def late(self: index_sync.IndexSynchronizer, namespaces: Iterator[str]) -> None:
        run_sync(other.forget(["m003"]))
        save(self, namespaces)

    monkeypatch.setattr(index_sync.IndexSynchronizer, "save", late)
    run_sync(memory.recall("river"))
    assert kept(path) == {}
    monkeypatch.undo()
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 3)
    run_sync(memory.recall("river"))
    run_sync(memory.close())
    run_sync(other.close())
    assert kept(path)["/conversation"] == {f"m{number:03d}" for number in range(10)} - {"m003"}


def test_recall_does_not_wait_for_a_writer_to_save_the_index_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SqliteDatabase.__init__.__kwdefaults__["busy_timeout"] == 30.0
    monkeypatch.setitem(
        SqliteDatabase.__init__.__kwdefaults__, "busy_timeout", 36_000.0
    )  # who waits does not come back
    memory, found = opened(path), []
    run_sync(memory.remember_many(turns(10, random.Random(5))))
    busy = apsw.Connection(str(path))
    busy.execute("BEGIN IMMEDIATE")
    asking = threading.Thread(target=lambda: found.extend(run_sync(memory.recall("river"))), daemon=True)
    asking.start()
    asking.join(100)
    assert len(found) > 0
    busy.execute("ROLLBACK")
    busy.close()
    assert kept(path) == {}
    run_sync(memory.recall("river"))
    run_sync(memory.close())
    assert len(kept(path)["/conversation"]) == 10


def test_recall_answers_while_a_full_disk_prevents_saving_the_index_cache(path: Path) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(10, random.Random(5))))
    with memory.store.database.write() as connection:
        connection.pragma("max_page_count", connection.pragma("page_count"))
    assert len(run_sync(memory.recall("river"))) > 0
    assert kept(path) == {}
    with memory.store.database.write() as connection:
        connection.pragma("max_page_count", 1 << 30)
    run_sync(memory.recall("river"))
    run_sync(memory.close())
    assert len(kept(path)["/conversation"]) == 10


def test_unsaved_index_segments_stay_bounded_while_saving_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_sync, "_MAX_UNSAVED_SEGMENTS", 4)
    memory = opened(path)
    searcher = memory._retriever._searcher
    assert searcher is not None
    with monkeypatch.context() as patched:
        patched.setattr(memory.index_cache, "save", lambda *segments, **more: False)
        for number in range(12):
            run_sync(memory.remember(f"river number {number}"))
            run_sync(memory.recall("river"))
            assert len(searcher.indexes._states["/conversation"].unsaved) <= 5
    run_sync(memory.recall("river"))
    run_sync(memory.close())
    assert len(kept(path)["/conversation"]) == 12


def broken_bytes(connection: sqlite3.Connection) -> None:
    (columns,) = connection.execute("SELECT columns FROM recall_segments").fetchone()
    connection.execute("UPDATE recall_segments SET columns = ?", (columns[:900] + b"?" + columns[901:],))


def other_ids(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE recall_segments SET ids = replace(ids, 'm00', 'x00')")


def no_list(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE recall_segments SET removed = '{'")


@pytest.mark.parametrize("damage", [broken_bytes, other_ids, no_list])
def test_a_damaged_index_cache_is_found_by_verify_and_derived_again(
    path: Path, damage: Callable[[sqlite3.Connection], None]
) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(20, random.Random(6))))
    expected = answers(memory)
    run_sync(memory.close())
    with closing(sqlite3.connect(path)) as connection, connection:
        damage(connection)
    memory = opened(path)
    assert [finding.part for finding in memory.store.verify()] == ["recall"]
    assert answers(memory) == expected
    assert memory.store.verify() == [], "it was derived again and kept"
    run_sync(memory.close())


def test_an_index_cache_with_the_fields_of_another_version_is_no_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(20, random.Random(6))))
    answers(memory)
    fields = [("former" if name == "line" else name, RECORD_DTYPE[name]) for name in RECORD_DTYPE.names or ()]
    monkeypatch.setattr("tellback.memory.retrieval.index.index_cache._STORED_DTYPE", np.dtype(fields))
    assert memory.store.verify() == []
    run_sync(memory.close())


def test_forgetting_works_with_a_damaged_index_cache(path: Path) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(20, random.Random(7))))
    answers(memory)
    with closing(sqlite3.connect(path)) as connection, connection:
        broken_bytes(connection)
    run_sync(memory.forget(["m004"]))
    run_sync(memory.close())
    assert kept(path) == {}


def test_another_zone_derives_its_own_index_cache(path: Path) -> None:
    memory = opened(path)
    run_sync(memory.remember_many(turns(10, random.Random(8))))
    answers(memory)
    run_sync(memory.close())
    from zoneinfo import ZoneInfo

    abroad = open_memory(path, embedder=HashingEmbedder(), zone=ZoneInfo("Asia/Tokyo"))
    answers(abroad)
    run_sync(abroad.close())
    with closing(sqlite3.connect(path)) as connection, connection:
        (basis,) = connection.execute("SELECT basis FROM recall_states").fetchone()
    assert "Asia/Tokyo" in basis


@pytest.mark.parametrize("changed", ["languages/english.ini", "analysis/people.ini", "analysis/heads.npz"])
def test_a_changed_rule_changes_the_fingerprint_of_the_derived_indexes(tmp_path: Path, changed: str) -> None:
    copies = [
        tuple(Path(copytree(folder, tmp_path / name / folder.name)) for folder in FOLDERS_OF_RULES)
        for name in ("same", "other")
    ]
    file = tmp_path / "other" / changed
    file.write_bytes(file.read_bytes() + b"\n")
    same, other = map(rules_fingerprint, copies)
    assert (same, other == same) == (rules_fingerprint(), False)
    extractor = RecordExtractor(analyzer=Analyzer(), lexicon=lexicon_for("english"), zone=UTC)
    assert extractor.fingerprint.startswith(same)


STOPS = {"the", "of"}


WORD_LISTS = st.sampled_from(["Apple", "apples", "the", "river", "Rivers", "of", "stone", "\u6771\u4eac", "x\0y"])


TERMS = st.lists(st.sampled_from(["appl", "river", "stone", "engin", "a\nb"]), max_size=4).map(tuple)


SOME = st.sets(st.sampled_from("abcd"))


MOMENTS = st.integers(-(2**62), 2**62)


def term_of(form: str) -> str | None:
    return None if form in STOPS else form.removesuffix("s")


@st.composite
def rows(draw: st.DrawFn, id: str) -> IndexRecord:
    placed = draw(st.booleans())
    times, context = [draw(MOMENTS) for _ in range(8)], draw(TERMS)
    return IndexRecord(
        id=id,
        revision=draw(st.integers(1, 2**40)),
        session=draw(st.sampled_from([None, "s1", "s\u00e9\0\ud800"])),
        speaker=draw(st.sampled_from(["", "Anna", "Bela"])),
        placed=placed,
        sequence=draw(st.sampled_from([0.0, 2.5, float("inf")])) if placed else 0.0,
        assistant=draw(st.booleans()),
        day=draw(st.integers(-(2**31), 2**31 - 1)),
        mentioned_day=draw(st.integers(-(2**31), 2**31 - 1)),
        text_features=draw(st.integers(0, 127)),
        question_bits=draw(st.integers(0, 2**63 - 1)),
        statement_features=draw(st.integers(0, 255)),
        importance=draw(st.floats(0, 1)),
        label_words=draw(st.integers(0, len(context))),
        terms=(context, *draw(st.lists(TERMS.filter(bool), max_size=3))),
        surfaces=tuple(draw(st.lists(WORD_LISTS, max_size=5))),
        calls=tuple(draw(st.lists(st.sampled_from(["Mel", "Jo"]), max_size=2))),
        subject=draw(st.sampled_from(["", "ana", "mother"])),
        disabled=draw(st.booleans()),
        demotion=draw(st.integers(0, 2)),
        trust=draw(st.integers(0, 3)),
        line=draw(st.sampled_from(["", "spare key: keeper", "car: colour"])),
        occurred_at=times[0],
        valid_from=times[1],
        valid_to=times[2],
        expires_at=times[3],
        recorded_at=times[4],
        retired_at=times[5],
        counts_from=times[6],
        counts_to=times[7],
    )


def many(ids: str) -> st.SearchStrategy[list[IndexRecord]]:
    return st.tuples(*(st.none() | rows(id) for id in ids)).map(lambda found: [row for row in found if row])


def plain(columns: RecordBatch) -> list[dict[str, Any]]:
    """Every row of *columns* with its texts spelt out."""
    found = []
    for position, id in enumerate(columns.ids):
        value = dict(zip(RECORD_DTYPE.names or (), columns.values[position].item(), strict=True))
        value["session"] = None if value["session"] < 0 else columns.sessions[value["session"]]
        value["speaker"] = columns.speakers[value["speaker"]]
        value["line"] = ("", *columns.lines)[value["line"]]
        value["subject"] = columns.subjects[value["subject"]]
        start, text, end = (
            int(mark) for mark in (columns.starts[position], columns.texts[position], columns.starts[position + 1])
        )
        words = [None if mark == 0 else columns.terms[mark - 1] for mark in columns.words.tolist()]
        marks = columns.marks[columns.mark_starts[position] : columns.mark_starts[position + 1]].tolist()
        value |= {
            "id": id,
            "context": words[start:text],
            "text": words[text:end],
            "marks": [
                (columns.forms[mark >> 1], columns.terms[columns.form_terms[mark >> 1]], mark & 1) for mark in marks
            ],
            "calls": [
                columns.called[call]
                for call, row in zip(columns.calls.tolist(), columns.call_rows.tolist(), strict=True)
                if row == position
            ],
        }
        found.append(value)
    return found


def told(columns: RecordBatch) -> set[str]:
    """Every text that stands in *columns*."""
    texts = (columns.sessions, columns.speakers, columns.subjects, columns.terms, columns.forms, columns.called)
    return {*columns.ids}.union(*texts)


@given(many("abcdef"), st.data())
def test_taking_rows_of_a_record_batch_equals_building_it_from_those_rows(
    given_rows: list[IndexRecord], data: st.DataObject
) -> None:
    left = data.draw(st.lists(st.sampled_from(range(len(given_rows))), unique=True)) if given_rows else []
    taken = build_batch(given_rows, term_of).take(np.array(left, dtype=np.int64))
    alone = build_batch([given_rows[position] for position in left], term_of)
    assert plain(taken) == plain(alone)
    assert told(taken) == told(alone)


@given(many("abc"), many("de"), many("f"))
def test_concatenated_record_batches_equal_one_batch_of_all_rows(
    first: list[IndexRecord], second: list[IndexRecord], third: list[IndexRecord]
) -> None:
    parts = [build_batch(rows, term_of) for rows in (first, second, third)]
    assert plain(concatenate_batches(parts)) == plain(build_batch([*first, *second, *third], term_of))
    assert plain(concatenate_batches([])) == []


@given(many("abcdef"))
def test_a_record_batch_survives_encoding_and_decoding(given_rows: list[IndexRecord]) -> None:
    columns = build_batch(given_rows, term_of)
    again = decode_batch(encode_batch(columns), columns.ids)
    assert plain(again) == plain(columns)
    assert encode_batch(again) == encode_batch(columns)


def test_decoding_a_record_batch_with_other_ids_or_no_bytes_is_refused() -> None:
    columns = build_batch([], term_of)
    with pytest.raises(DamagedSegment):
        decode_batch(encode_batch(columns), ("a",))
    with pytest.raises(DamagedSegment):
        decode_batch(b"", ())


@given(
    st.lists(st.tuples(many("abcd"), st.sets(st.sampled_from("abcd"))), max_size=5), st.sets(st.sampled_from("abcd"))
)
def test_merged_index_segments_keep_the_last_state_of_each_memory(told_of: list, dropped: set[str]) -> None:
    segments, expected = [], {}
    for given_rows, removed in told_of:
        gone = removed - {row.id for row in given_rows}
        segments.append(IndexSegment(build_batch(given_rows, term_of), frozenset(gone)))
        expected = {id: row for id, row in expected.items() if id not in gone}
        expected |= {row["id"]: row for row in plain(segments[-1].batch)}
    left = surviving_rows([(segment.batch.ids, segment.removed) for segment in segments])
    every = [range(len(item.batch)) if rows is None else rows for item, rows in zip(segments, left, strict=True)]
    lasts = [(position, int(row)) for position, rows in enumerate(every) for row in rows]
    assert sorted(segments[position].batch.ids[row] for position, row in lasts) == sorted(expected)
    whole = merge_segments(segments)
    assert {row["id"]: row for row in plain(whole.batch)} == expected
    assert len(whole.batch) == len(expected)
    assert not whole.removed & expected.keys()
    rest = remove_ids(whole, dropped)
    assert {row["id"] for row in plain(rest.batch)} == expected.keys() - dropped
    assert not rest.removed & dropped
