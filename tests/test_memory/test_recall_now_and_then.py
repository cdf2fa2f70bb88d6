"""Recall of what held at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import pytest

from tellback.memory import E5Encoder, LongTermMemory, Memory
from tellback.memory import run_sync as run
from tellback.vectorstore import open_store

CORRECTIONS = Path(__file__).parent / "languages" / "corrections.jsonl"
CHANGES = Path(__file__).parent / "languages" / "changes.jsonl"
KINDS = ("first", "other", "plan", "change")
NOW = datetime(2025, 6, 15, 12, tzinfo=UTC)


def test_a_change_told_later_did_not_hold_before_it_was_told() -> None:
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
    black = Memory("I take my coffee black.", id="m0", occurred_at=datetime(2024, 5, 1, tzinfo=UTC))
    none = Memory("No coffee any more, I drink rooibos.", id="m1", occurred_at=datetime(2025, 6, 1, tzinfo=UTC))
    run(memory.remember_many([black, none]))
    question, summer = "How do I take my coffee?", datetime(2024, 7, 1, tzinfo=UTC)
    assert [hit.memory.id for hit in run(memory.recall(question, as_of=summer))] == ["m0"]
    assert run(memory.why_not(question, "m1", as_of=summer)).stage == "validity"
    assert len(run(memory.recall(question))) == 2


@pytest.mark.parametrize(
    ("first", "correction", "question"),
    [
        ("My doctor is Dr Shah.", "No, my doctor is Dr Klein.", "Who is my doctor?"),
        ("the shop repo uses npm", "nope, the shop repo uses pnpm", "Which package manager does the shop repo use?"),
        ("Das Training ist am Dienstag", "nein, das Training ist am Freitag", "Wann ist das Training?"),
    ],
)
def test_what_takes_back_an_earlier_statement_leads_and_marks_it(first: str, correction: str, question: str) -> None:
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder(), clock=lambda: NOW)
    days = [datetime(2025, 6, day, tzinfo=UTC) for day in (1, 2, 3)]
    texts = [first, "We walked along the river with the dog", correction]
    run(memory.remember_many(Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True)))
    hits = run(memory.recall(question))
    assert [hit.memory.text for hit in hits][:2] == [correction, first]
    assert hits[1].outdated_by == hits[0].memory.id
    before = run(memory.recall(question, as_of=datetime(2025, 6, 2, 12, tzinfo=UTC)))
    assert before[0].memory.text == first
    assert before[0].outdated_by is None


def test_a_tool_takes_back_nothing_that_the_user_said() -> None:
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder(), clock=lambda: NOW)
    told = Memory("My doctor is Dr Shah.", occurred_at=datetime(2025, 6, 1, tzinfo=UTC))
    read = Memory("No, my doctor is Dr Klein.", occurred_at=datetime(2025, 6, 2, tzinfo=UTC), trust="tool")
    run(memory.remember_many([told, read]))
    hits = run(memory.recall("Who is my doctor?"))
    assert [hit.memory.text for hit in hits] == [told.text, read.text]
    assert hits[0].outdated_by is None


@pytest.mark.slow
def test_corrections_of_a_writer_who_trained_nothing_lead_and_reactions_take_nothing_back() -> None:
    """Ninety messages that begin by rejecting: sixty say what is so instead, thirty say nothing to remember.

    Run with ``-s`` it prints the figures of docs/appendix/how-recall-decides.md.
    """
    rows = [json.loads(line) for line in CORRECTIONS.read_text("utf-8").splitlines()]
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder(), clock=lambda: NOW)
    told = [row["first"] for row in rows] + [row["correction"] for row in rows]
    begun = datetime(2024, 6, 1, tzinfo=UTC)
    run(memory.remember_many(Memory(text, occurred_at=begun + timedelta(days=i)) for i, text in enumerate(told)))
    corrections = [row for row in rows if row["kind"] == "correction"]
    found = [[hit.memory.text for hit in run(memory.recall(row["question"]))] for row in corrections]
    first = [texts[0] == row["correction"] for row, texts in zip(corrections, found, strict=True)]
    stale = [
        row["first"] in texts[: texts.index(row["correction"])] for row, texts in zip(corrections, found, strict=True)
    ]
    print(f"right first {sum(first)}, the stale one above {sum(stale)} of {len(corrections)}")
    assert sum(first) >= 45
    assert sum(stale) <= 15
    texts = [row["correction"] for row in rows if row["kind"] == "reaction"]
    hits = [hit for row in rows if row["kind"] == "reaction" for hit in run(memory.recall(row["first"]))]
    ids = {hit.memory.id: hit.memory.text for hit in hits}
    assert not [hit for hit in hits if ids.get(hit.outdated_by) in texts]


@pytest.mark.slow
def test_changes_told_in_other_words_lead_where_a_model_wrote_lines() -> None:
    """A hundred changes of a writer who trained nothing, each beside a change of something else and a plan.

    Their lines are by a model that saw no question. Run with ``-s`` it prints the figures of
    docs/appendix/how-recall-decides.md: without lines, most of these changes are not known.
    """
    rows = [json.loads(line) for line in CHANGES.read_text("utf-8").splitlines()]
    first: dict[bool, float] = {}
    stale: dict[bool, float] = {}
    for lines in (False, True):
        memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder(), clock=lambda: NOW)
        begun, told = datetime(2024, 1, 1, tzinfo=UTC), [(kind, row) for kind in KINDS for row in rows]
        run(
            memory.remember_many(
                Memory(row[kind], about=row["lines"][kind] if lines else "", occurred_at=begun + timedelta(days=day))
                for day, (kind, row) in enumerate(told)
            )
        )
        places = []
        for row in rows:
            texts = [hit.memory.text for hit in run(memory.recall(row["question"], k=20))]
            change, older = (
                texts.index(row[kind]) if row[kind] in texts else len(texts) for kind in ("change", "first")
            )
            places.append((change, older))
        first[lines] = fmean(change == 0 for change, _ in places)
        stale[lines] = fmean(older < change for change, older in places)
        three = fmean(change < 3 for change, _ in places)
        print(f"lines {lines}: first {first[lines]}, among three {three}, the older one above {stale[lines]}")
    assert first[True] >= 0.65
    assert stale[True] <= 0.12
    assert first[True] - first[False] >= 0.5
