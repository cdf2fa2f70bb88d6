"""Lives by several hands: their labels hold together, and gold and stale notes follow from them."""

from dataclasses import replace

import pytest

from benchmarks.personal.hand_runs import (
    MOST_SEALED_RUNS,
    Found,
    Run,
    figures,
    hashed,
    read_run,
    sealed_runs,
    write_run,
)
from benchmarks.personal.hands import Hand, open_hands, problems, shares_no_stem

NOTES = (
    {"id": "n1", "at": "2024-01-02T10:00", "text": "The spare key is with the neighbour.", "changes": None},
    {"id": "n2", "at": "2024-05-02T10:00", "text": "Hung it on the hook in the shed.", "changes": "n1"},
)
FACT = {
    "fact": "f1",
    "values": [
        {"value": "neighbour", "from": "2024-01-02", "notes": ["n1"]},
        {"value": "shed", "from": "2024-05-02", "notes": ["n2"]},
    ],
}
NOW = {"id": "q1", "at": "2024-06-01T08:00", "text": "How do I get in?", "kind": "now", "fact": "f1", "lang": "en"}
PAST = {"id": "q2", "at": "2024-06-01T08:00", "text": "Who had the key?", "kind": "past", "fact": "f1", "value": 0}
FAR = {"id": "q3", "at": "2024-06-01T08:00", "text": "My blood group?", "kind": "far", "fact": None}
ROWS = (("q1", "now", ("n1", "n2"), 0.9), ("q2", "past", ("n1",), 0.8), ("q3", "far", ("n1",), 0.2))


def test_gold_and_stale_notes_follow_from_the_span_that_is_asked_for() -> None:
    hand = Hand("toy", NOTES, (FACT,), (), (NOW, PAST, FAR))
    assert [sorted(hand.gold(question)) for question in hand.questions] == [["n2"], ["n1"], []]
    assert [sorted(hand.stale(question)) for question in hand.questions] == [["n1"], [], []]
    assert shares_no_stem(hand, NOW)
    assert not shares_no_stem(hand, {**NOW, "text": "Is it on a hook?"})
    assert list(problems(hand)) == []


def test_wrong_references_and_dates_are_named() -> None:
    early = {**NOW, "id": "q4", "at": "2024-03-01T08:00"}
    lost = {**NOW, "id": "q5", "fact": "f9"}
    hand = Hand("toy", (*reversed(NOTES), {**NOTES[1], "changes": "n7"}), (FACT,), (), (early, lost))
    assert sorted(problems(hand)) == [
        "n1 is out of order",
        "n2 changes n7, which there is not",
        "n2 stands 2 times",
        "q4 is asked before its answer was told",
        "q5 asks for ['f9']",
    ]


def test_the_hands_for_choosing_hold_together() -> None:
    hands = open_hands()
    assert hands
    assert {hand.name: list(problems(hand)) for hand in hands} == {hand.name: [] for hand in hands}


def test_the_sealed_hands_were_run_six_times_at_most() -> None:
    assert [line["run"] for line in sealed_runs()] == list(range(1, len(sealed_runs()) + 1))
    assert len(sealed_runs()) <= MOST_SEALED_RUNS


def test_a_run_file_is_read_with_the_labels_of_its_hand_and_refused_for_another(tmp_path) -> None:
    hand = Hand("toy", NOTES, (FACT,), (), (NOW, PAST, FAR))
    found = [Found("toy", id, kind, hits, (0.5,) * len(hits), confidence) for id, kind, hits, confidence in ROWS]
    write_run(tmp_path / "toy.jsonl", Run({"schema": 1, "system": "toy", "data": {"toy": hashed(hand)}}, found))
    means = figures(read_run(tmp_path / "toy.jsonl", [hand]).rows)["toy"]
    assert (means["all first"], means["all three"], means["stale above current"]) == (0.5, 1.0, 1.0)
    assert means["far AUROC"] == 1.0
    with pytest.raises(ValueError, match="another toy"):
        read_run(tmp_path / "toy.jsonl", [replace(hand, notes=NOTES[:1])])
