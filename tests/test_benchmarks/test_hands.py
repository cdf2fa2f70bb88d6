"""Lives by several hands: their labels hold together, and gold and stale notes follow from them."""

import json
import tarfile
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.memory.protocol import Found, Hit, Question
from benchmarks.memory.systems.baselines import Baseline
from benchmarks.personal import sealed_hands
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
FOUND = {"q1": (["n1", "n2"], 0.9), "q2": (["n1"], 0.8), "q3": ([], 0.2)}


class Scripted(Baseline):
    """A system whose answers the test knows."""

    def search(self, question: Question, k: int, tokens: int) -> Found:
        ids, confidence = FOUND[question.id.partition("/")[2]]
        return Found([Hit(f"hand-99/{id}") for id in ids], confidence, abstains=not ids)


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


def test_the_sealed_hands_are_scored_into_a_line_without_a_text_and_six_times_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "hand-99"
    folder.mkdir()
    for part, rows in (("notes", NOTES), ("facts", (FACT,)), ("questions", (NOW, PAST, FAR))):
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with tarfile.open(tmp_path / "sealed.tar.xz", "w:xz") as archive:
        archive.add(folder, "hand-99")
    runs = tmp_path / "runs.jsonl"
    monkeypatch.setattr(sealed_hands, "SEALED", tmp_path / "sealed.tar.xz")
    monkeypatch.setattr(sealed_hands, "SEALED_RUNS", runs)
    monkeypatch.setitem(sealed_hands.SYSTEMS, "recipe", Scripted)
    for _ in range(sealed_hands.MOST_SEALED_RUNS):
        assert main(["hands", "sealed", "--systems", "recipe,recipe+lines"]) == 0
    lines = [json.loads(line) for line in runs.read_text("utf-8").splitlines()]
    assert [line["run"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert list(lines[0]["figures"]) == ["recipe", "recipe + recorded lines"]
    means = lines[0]["figures"]["recipe"]
    assert (means["all first"], means["all three"], means["stale above current"]) == (0.5, 1.0, 1.0)
    assert (means["far caught"], means["far AUROC"], means["answerable doubted"]) == (1.0, 1.0, 0.0)
    assert not any(note["text"] in runs.read_text("utf-8") + capsys.readouterr().out for note in NOTES)
    with pytest.raises(SystemExit):
        main(["hands", "sealed"])
    assert "were run 6 times" in capsys.readouterr().err


def test_the_recorded_runs_over_the_sealed_hands_are_six_at_most() -> None:
    recorded = sealed_hands.sealed_runs()
    assert [line["run"] for line in recorded] == list(range(1, len(recorded) + 1))
    assert len(recorded) <= sealed_hands.MOST_SEALED_RUNS
