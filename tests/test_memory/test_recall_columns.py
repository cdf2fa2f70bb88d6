"""Columns against plain rows: taken apart, joined, packed into bytes and read again."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.retrieval.index.index_cache import (
    DamagedSegment,
    IndexSegment,
    decode_batch,
    encode_batch,
    merge_segments,
    remove_ids,
    surviving_rows,
)
from memory.retrieval.index.record import IndexRecord
from memory.retrieval.index.record_batch import RECORD_DTYPE, RecordBatch, build_batch, concatenate_batches

STOPS = {"the", "of"}
WORDS = st.sampled_from(["Apple", "apples", "the", "river", "Rivers", "of", "stone", "\u6771\u4eac", "x\0y"])
TERMS = st.lists(st.sampled_from(["appl", "river", "stone", "engin", "a\nb"]), max_size=4).map(tuple)
SOME = st.sets(st.sampled_from("abcd"))
MOMENTS = st.integers(-(2**62), 2**62)


def term_of(form: str) -> str | None:
    return None if form in STOPS else form.removesuffix("s")


@st.composite
def rows(draw: st.DrawFn, id: str) -> IndexRecord:
    placed = draw(st.booleans())
    times = [draw(MOMENTS) for _ in range(8)]
    return IndexRecord(
        id=id,
        revision=draw(st.integers(1, 2**40)),
        session=draw(st.sampled_from([None, "s1", "s\u00e9\0\ud800"])),
        position=(draw(st.sampled_from([0.0, 2.5, float("inf")])), times[0], id) if placed else None,
        speaker=draw(st.sampled_from(["", "Anna", "Bela"])),
        role=draw(st.sampled_from(["", "user", "assistant"])),
        day=draw(st.integers(-(2**31), 2**31 - 1)),
        mentioned_day=draw(st.integers(-(2**31), 2**31 - 1)),
        text_features=draw(st.integers(0, 127)),
        question_bits=draw(st.integers(0, 2**63 - 1)),
        terms=(draw(TERMS), *draw(st.lists(TERMS.filter(bool), max_size=3))),
        surfaces=tuple(draw(st.lists(WORDS, max_size=5))),
        calls=tuple(draw(st.lists(st.sampled_from(["Mel", "Jo"]), max_size=2))),
        disabled=draw(st.booleans()),
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
    for at, id in enumerate(columns.ids):
        value = dict(zip(RECORD_DTYPE.names or (), columns.values[at].item(), strict=True))
        value["session"] = None if value["session"] < 0 else columns.sessions[value["session"]]
        value["speaker"] = columns.speakers[value["speaker"]]
        start, text, end = (int(one) for one in (columns.starts[at], columns.texts[at], columns.starts[at + 1]))
        words = [None if one == 0 else columns.terms[one - 1] for one in columns.words.tolist()]
        marks = columns.marks[columns.mark_starts[at] : columns.mark_starts[at + 1]].tolist()
        value |= {
            "id": id,
            "context": words[start:text],
            "text": words[text:end],
            "marks": [(columns.forms[one >> 1], columns.terms[columns.form_terms[one >> 1]], one & 1) for one in marks],
            "calls": [
                columns.called[call]
                for call, row in zip(columns.calls.tolist(), columns.call_rows.tolist(), strict=True)
                if row == at
            ],
        }
        found.append(value)
    return found


def told(columns: RecordBatch) -> set[str]:
    """Every text that stands in *columns*."""
    return {*columns.sessions, *columns.speakers, *columns.terms, *columns.forms, *columns.called, *columns.ids}


@settings(max_examples=60, deadline=None)
@given(many("abcdef"), st.data())
def test_taking_rows_is_as_if_the_others_had_never_been(given_rows: list[IndexRecord], data: st.DataObject) -> None:
    left = data.draw(st.lists(st.sampled_from(range(len(given_rows))), unique=True)) if given_rows else []
    taken = build_batch(given_rows, term_of).take(np.array(left, dtype=np.int64))
    alone = build_batch([given_rows[at] for at in left], term_of)
    assert plain(taken) == plain(alone)
    assert told(taken) == told(alone)


@settings(max_examples=60, deadline=None)
@given(many("abc"), many("de"), many("f"))
def test_joining_is_as_if_all_had_come_at_once(
    first: list[IndexRecord], second: list[IndexRecord], third: list[IndexRecord]
) -> None:
    parts = [build_batch(rows, term_of) for rows in (first, second, third)]
    assert plain(concatenate_batches(parts)) == plain(build_batch([*first, *second, *third], term_of))
    assert plain(concatenate_batches([])) == []


@settings(max_examples=60, deadline=None)
@given(many("abcdef"))
def test_bytes_hold_all_of_it(given_rows: list[IndexRecord]) -> None:
    columns = build_batch(given_rows, term_of)
    again = decode_batch(encode_batch(columns), columns.ids)
    assert plain(again) == plain(columns)
    assert encode_batch(again) == encode_batch(columns)


def test_bytes_of_other_rows_are_refused() -> None:
    columns = build_batch([], term_of)
    with pytest.raises(DamagedSegment):
        decode_batch(encode_batch(columns), ("a",))
    with pytest.raises(DamagedSegment):
        decode_batch(b"", ())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(many("abcd"), st.sets(st.sampled_from("abcd"))), max_size=5), st.sets(st.sampled_from("abcd"))
)
def test_the_last_segment_that_speaks_of_a_memory_decides(told_of: list, dropped: set[str]) -> None:
    segments, expected = [], {}
    for given_rows, removed in told_of:
        gone = removed - {row.id for row in given_rows}
        segments.append(IndexSegment(build_batch(given_rows, term_of), frozenset(gone)))
        expected = {id: row for id, row in expected.items() if id not in gone}
        expected |= {row["id"]: row for row in plain(segments[-1].batch)}
    left = surviving_rows([(segment.batch.ids, segment.removed) for segment in segments])
    every = [range(len(one.batch)) if rows is None else rows for one, rows in zip(segments, left, strict=True)]
    lasts = [(at, int(row)) for at, rows in enumerate(every) for row in rows]
    assert sorted(segments[at].batch.ids[row] for at, row in lasts) == sorted(expected)
    whole = merge_segments(segments)
    assert {row["id"]: row for row in plain(whole.batch)} == expected
    assert len(whole.batch) == len(expected)
    assert not whole.removed & expected.keys()
    rest = remove_ids(whole, dropped)
    assert {row["id"] for row in plain(rest.batch)} == expected.keys() - dropped
    assert not rest.removed & dropped
