"""Lives by several hands: their labels hold together, and gold and stale notes follow from them."""

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
